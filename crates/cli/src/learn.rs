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
use picktools_learn::LearnedRequest;

const EXAMPLES: &str = "\
Examples:
  picktools learn transcripts.jsonl --catalog tools.json --out examples.jsonl
  picktools learn served.tsv --examples examples.jsonl --out more-examples.jsonl";

/// Create examples from records of tool use.
///
/// The result is a file for --examples.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct LearnCommand {
    /// Records of tool use; - for standard input.
    ///
    /// Lines of `request TAB tool`, transcripts in any provider's format, or audit records as JSON
    /// Lines with `request` and `called`.
    #[arg(value_name = "FILE", required = true)]
    logs: Vec<PathBuf>,
    /// Catalog that contains the tools; may be repeated.
    ///
    /// With a catalog, names become ids, unknown names are skipped and reported, and words of the
    /// tools, such as GitHub, are not masked.
    #[arg(long, visible_alias = "index", value_name = "PATH", help_heading = heading::CATALOG)]
    catalog: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// File of examples to extend; its lines stay as they are.
    #[arg(long, value_name = "FILE")]
    examples: Option<PathBuf>,
    /// Write the examples to this file instead of standard output.
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
        let (names, vocabulary) = match &catalog {
            Some(catalog) => (
                Some(NameTable::new(catalog)?),
                Vocabulary::from_catalog(catalog)?,
            ),
            None => (None, Vocabulary::default()),
        };
        // Without a catalog, the names are taken as ids.
        let resolve = |name: &str| match (&catalog, &names) {
            (Some(catalog), Some(names)) => resolve_id(catalog, names, name),
            _ => Some(name.to_owned()),
        };
        let mut examples = match &self.examples {
            Some(path) => Examples::open(path)?,
            None => Examples::default(),
        };
        let existing_count = examples.len();
        let (mut requests, mut pairs) = (0_usize, 0_usize);
        let mut without_content = 0_usize;
        let mut unknown: BTreeSet<String> = BTreeSet::new();
        for path in &self.logs {
            let served = learn::read_log(&read_input(path)?, &path.display().to_string())?;
            requests += served.len();
            for served_request in served {
                let LearnedRequest {
                    request,
                    has_content,
                    called,
                } = served_request;
                if !has_content {
                    without_content += 1;
                    continue;
                }
                for name in called {
                    pairs += 1;
                    let Some(tool) = resolve(&name) else {
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
                "skipped names that are unknown or ambiguous in the catalog: {names}"
            ));
        }
        if without_content > 0 {
            output::note(format!(
                "skipped {without_content} requests that do not say what they ask for, such as \
                 \"yes please\""
            ));
        }
        let text = examples.to_json_lines();
        match &self.out {
            Some(path) => disk::write(path, text.as_bytes())?,
            None if text.is_empty() => {}
            None => output::verbatim(text.trim_end())?,
        }
        let (learned, tools) = (
            examples.len() - existing_count,
            examples
                .iter()
                .map(|example| &example.tool)
                .collect::<BTreeSet<_>>(),
        );
        output::note(format!(
            "learned {learned} examples from {pairs} calls in {requests} requests; \
             {} in total for {} tools",
            examples.len(),
            tools.len()
        ));
        Ok(())
    }
}

/// Returns the id of the tool that a name resolves to.
fn resolve_id(catalog: &Catalog, names: &NameTable, name: &str) -> Option<String> {
    match names.resolve(name, catalog) {
        Ok(Resolution::Tool(resolved)) => Some(catalog.tool_id(resolved.tool).to_owned()),
        _ => None,
    }
}
