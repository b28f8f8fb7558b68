//! `picktools resolve`.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde::Serialize;

use super::reading::CatalogArgs;
use super::{heading, output};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::names::NameTable;
use picktools::skills::ToolMeaning;

#[derive(Args)]
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
struct Report {
    version: u32,
    names: Vec<Answer>,
}

/// What one name means.
#[derive(Serialize)]
struct Answer {
    name: String,
    #[serde(flatten)]
    meaning: ToolMeaning,
}

impl ResolveCommand {
    /// Answers "no" where a name does not mean one tool.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let catalog = self.catalog.open_for_picks()?;
        let table = NameTable::of(&catalog)?;
        let answers = self.names.into_iter().map(|name| {
            let meaning = ToolMeaning::of(&name, &catalog, &table);
            Answer { name, meaning }
        });
        let report = Report {
            version: 1,
            names: answers.collect(),
        };
        if let Some(error) = catalog.fault() {
            bail!("{error}");
        }
        for Answer { name, meaning } in &report.names {
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
        let all = report
            .names
            .iter()
            .all(|answer| matches!(answer.meaning, ToolMeaning::Tool { .. }));
        Ok(if all {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        })
    }
}
