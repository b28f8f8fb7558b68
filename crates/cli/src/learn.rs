//! `picktools learn`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;

use super::reading::{ReadingArgs, read_input};
use super::{heading, output};
use picktools::examples::{Examples, Vocabulary};
use picktools::excerpt;
use picktools::names::{NameTable, Resolution};
use picktools::{Catalog, disk};
use picktools_learn as learn;
use picktools_learn::Served;

#[derive(Args)]
pub(super) struct LearnCommand {
    /// Logs: lines `request TAB tool`, transcripts in any provider's shape, or audit records as
    /// JSON Lines with `request` and `called`; `-` for standard input.
    #[arg(value_name = "FILE", required = true)]
    logs: Vec<PathBuf>,
    /// The catalog that the tools are of: names become ids, unknown ones are left out and reported,
    /// and words of the tools, such as GitHub, are not masked; may be repeated.
    #[arg(long, visible_alias = "index", value_name = "PATH", help_heading = heading::CATALOG)]
    catalog: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// A file of examples to begin with, whose lines stay as they are.
    #[arg(long, value_name = "FILE")]
    examples: Option<PathBuf>,
    /// Write the examples to FILE, in place of standard output.
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    out: Option<PathBuf>,
}

impl LearnCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        if let Some(path) = &self.out {
            disk::check_writable(path)?;
        }
        let catalog = if self.catalog.is_empty() {
            None
        } else {
            Some(self.reading.open(&self.catalog)?)
        };
        let names = catalog.as_ref().map(NameTable::new);
        let vocabulary = catalog.as_ref().map(Vocabulary::of).unwrap_or_default();
        let mut examples = self
            .examples
            .as_ref()
            .map(Examples::open)
            .transpose()?
            .unwrap_or_default();
        let before = examples.len();
        let (mut requests, mut pairs) = (0_usize, 0_usize);
        let mut unknown: BTreeSet<String> = BTreeSet::new();
        for path in &self.logs {
            let served = learn::read(&read_input(path)?, &path.display().to_string())?;
            requests += served.len();
            for Served { request, called } in served {
                for name in called {
                    pairs += 1;
                    let meant = catalog.as_ref().zip(names.as_ref());
                    let Some(tool) = meant.map_or(Some(name.clone()), |(catalog, names)| {
                        id_of(catalog, names, &name)
                    }) else {
                        unknown.insert(name);
                        continue;
                    };
                    examples.learn(&tool, &request, &vocabulary);
                }
            }
        }
        if !unknown.is_empty() {
            let names = excerpt::list(&unknown.iter().collect::<Vec<_>>(), ", ");
            output::warn(format!(
                "left out are names that are no tools of the catalog, or ambiguous: {names}"
            ));
        }
        let text = examples.to_json_lines();
        match &self.out {
            Some(path) => disk::write(path, text.as_bytes())?,
            None if text.is_empty() => {}
            None => output::verbatim(text.trim_end())?,
        }
        let (learned, tools) = (
            examples.len() - before,
            examples
                .iter()
                .map(|example| &example.tool)
                .collect::<BTreeSet<_>>(),
        );
        output::note(format!(
            "{learned} examples learned of {pairs} in {requests} requests; {} in all, of {} tools",
            examples.len(),
            tools.len()
        ));
        Ok(())
    }
}

/// The id of the one tool that a name means.
fn id_of(catalog: &Catalog, names: &NameTable, name: &str) -> Option<String> {
    match names.resolve(name) {
        Resolution::Tool(resolved) => Some(catalog.tool(resolved.tool).id.clone()),
        _ => None,
    }
}
