//! `picktools resolve`.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::reading::CatalogArgs;
use super::{heading, output};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::names::NameTable;
use picktools::skills::ToolMeaning;

const EXAMPLES: &str = "\
Examples:
  picktools resolve bash readFile --catalog fixtures/catalogs/terminal
  picktools resolve Bash Grep --catalog tools.json --aliases ecosystem --json";

/// Resolve names and aliases to tools.
///
/// Variant spellings, such as readFile for read_file, are resolved too. The exit code is 1 if a
/// name is unknown or ambiguous.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ResolveCommand {
    /// Names, qualified names (SOURCE/NAME), ids or aliases of tools.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Print JSON.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

#[derive(Serialize)]
struct ResolveReport {
    version: u32,
    names: Vec<ResolvedName>,
}

/// A name, and the tool that it resolves to.
#[derive(Serialize)]
struct ResolvedName {
    name: String,
    #[serde(flatten)]
    meaning: ToolMeaning,
}

impl ResolveCommand {
    /// Returns exit code 1 if a name does not resolve to exactly one tool.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let catalog = self.catalog.open_for_picks()?;
        let table = NameTable::new(&catalog)?;
        let mut names = Vec::with_capacity(self.names.len());
        for name in self.names {
            let meaning = ToolMeaning::resolve(&name, &catalog, &table)?;
            names.push(ResolvedName { name, meaning });
        }
        let report = ResolveReport { version: 1, names };
        for ResolvedName { name, meaning } in &report.names {
            if let ToolMeaning::Tool {
                deprecated: true,
                tool,
                ..
            } = meaning
            {
                output::warn(output::deprecated(name, tool));
            }
            if !self.json {
                output::answer(output::line(format!(
                    "{}: {meaning}",
                    marked(name, MAX_NAME_CHARS)
                )))?;
            }
        }
        if self.json {
            output::json(&report)?;
        }
        let all_resolved = report
            .names
            .iter()
            .all(|answer| answer.meaning.is_resolved());
        Ok(if all_resolved {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        })
    }
}
