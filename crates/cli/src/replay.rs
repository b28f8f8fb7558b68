//! `picktools replay`: whether an audit is whole, and what its selections would be today.

mod again;
mod served;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use comfy_table::{Table, presets};
use picktools::disk;
use picktools_audit::{self as audit, Verified};
use picktools_gateway::Settings;
use serde::Serialize;

use self::again::{Again, Counts, Difference};
use self::served::Served;
use crate::args::{self, ModelArgs};
use crate::reading::{ReadingArgs, read_input};
use crate::{heading, output};

/// How many of the largest differences a table shows.
const SHOWN: usize = 10;

#[derive(Args)]
pub(super) struct ReplayCommand {
    /// The folder of an audit, as `picktools serve --audit FOLDER` writes it.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Tell whether the audit is whole, and run nothing.
    #[arg(long, conflicts_with_all = ["catalog", "settings", "queries", "sequences"], help_heading = heading::AUDIT)]
    verify: bool,
    /// A file of settings: who may see what by these, in place of what held then.
    #[arg(long, value_name = "FILE", help_heading = heading::AUDIT)]
    settings: Option<PathBuf>,
    /// Write the requests after which tools were called to FILE, for `picktools eval`, and run
    /// nothing.
    #[arg(long, value_name = "FILE", requires = "qrels", help_heading = heading::AUDIT)]
    queries: Option<PathBuf>,
    /// Write which tools those were to FILE.
    #[arg(long, value_name = "FILE", requires = "queries", help_heading = heading::AUDIT)]
    qrels: Option<PathBuf>,
    /// Write what was called together to FILE, for --sequences of `picktools pick`, and run
    /// nothing.
    #[arg(long, value_name = "FILE", help_heading = heading::AUDIT)]
    sequences: Option<PathBuf>,
    /// Pick from this catalog, in place of the recorded ones; may be repeated.
    #[arg(long, visible_alias = "index", value_name = "PATH", help_heading = heading::CATALOG)]
    catalog: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    model: ModelArgs,
    /// Print JSON.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    audit: &'a Verified,
    #[serde(skip_serializing_if = "Option::is_none")]
    selections: Option<&'a Counts>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    differences: &'a [Difference],
    #[serde(skip_serializing_if = "Option::is_none")]
    served: Option<ServedCounts>,
}

/// What was written of what tools served.
#[derive(Serialize)]
struct ServedCounts {
    requests: usize,
    tasks: usize,
}

impl ReplayCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        for path in [&self.queries, &self.qrels, &self.sequences]
            .into_iter()
            .flatten()
        {
            disk::check_writable(path)?;
        }
        let verified = self.look_through()?;
        let is_whole = verified.broken.is_empty();
        if self.verify {
            return self.end(
                &Answer {
                    audit: &verified,
                    selections: None,
                    differences: &[],
                    served: None,
                },
                is_whole,
            );
        }
        if self.queries.is_some() || self.sequences.is_some() {
            let served = Some(self.write_served()?);
            return self.end(
                &Answer {
                    audit: &verified,
                    selections: None,
                    differences: &[],
                    served,
                },
                is_whole,
            );
        }
        let selections = verified.kinds.get("selection").copied().unwrap_or_default();
        let (counts, differences) = self.again(selections)?;
        let answer = Answer {
            audit: &verified,
            selections: Some(&counts),
            differences: &differences,
            served: None,
        };
        self.end(&answer, is_whole && counts.are_same())
    }

    /// Looks whether the audit is whole.
    fn look_through(&self) -> anyhow::Result<Verified> {
        let bar = args::progress_bar("verifying");
        bar.set_length(audit::size(&self.folder)?);
        let verified = audit::verify(&self.folder, &mut |bytes| bar.inc(bytes));
        bar.finish_and_clear();
        Ok(verified?)
    }

    /// Runs the selections again.
    fn again(&self, selections: u64) -> anyhow::Result<(Counts, Vec<Difference>)> {
        let catalog = if self.catalog.is_empty() {
            None
        } else {
            Some(self.reading.open(&self.catalog)?)
        };
        let settings = match &self.settings {
            Some(path) => {
                let text =
                    String::from_utf8(read_input(path)?).context("the settings are not UTF-8")?;
                Some(Settings::read(&text).with_context(|| format!("{}", path.display()))?)
            }
            None => None,
        };
        let bar = args::progress_bar("replaying");
        bar.set_length(selections);
        let mut again = Again::new(
            &self.folder,
            self.model.open()?,
            self.model.mode(),
            catalog,
            settings,
        );
        let passed_over = audit::records(&self.folder, |read| {
            bar.inc(u64::from(again.take(read)?));
            anyhow::Ok(true)
        });
        bar.finish_and_clear();
        let passed_over = passed_over?;
        if passed_over > 0 {
            output::warn(format!(
                "{passed_over} lines are no records that this program can read, and were passed over"
            ));
        }
        output::warnings(again.warnings(), "");
        Ok(again.end())
    }

    /// Writes what tools served.
    fn write_served(&self) -> anyhow::Result<ServedCounts> {
        let mut served = Served::default();
        audit::records(&self.folder, |read| {
            served.take(read);
            anyhow::Ok(true)
        })?;
        let served = served.end();
        if let (Some(queries), Some(qrels)) = (&self.queries, &self.qrels) {
            disk::write(queries, served.queries()?.as_bytes())?;
            served.qrels().write_trec(qrels)?;
        }
        if let Some(path) = &self.sequences {
            disk::write(path, served.sequences()?.as_bytes())?;
        }
        Ok(ServedCounts {
            requests: served.requests.len(),
            tasks: served.tasks.len(),
        })
    }

    fn end(&self, answer: &Answer<'_>, is_same: bool) -> anyhow::Result<ExitCode> {
        if self.json {
            output::json(answer)?;
        } else {
            self.show(answer)?;
        }
        Ok(if is_same {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    fn show(&self, answer: &Answer<'_>) -> anyhow::Result<()> {
        let Verified {
            records,
            files,
            first,
            last,
            broken,
            notes,
            ..
        } = answer.audit;
        output::notes(notes.iter().cloned(), output::IN_JSON);
        let told = if broken.is_empty() {
            "the chain is whole"
        } else {
            "THE CHAIN IS BROKEN"
        };
        let in_files = if *files == 1 {
            "1 file".to_owned()
        } else {
            format!("{files} files")
        };
        output::answer(format!(
            "{records} records in {in_files}, {first} to {last}: {told}"
        ))?;
        for line in output::first(
            broken.iter().map(|place| format!("  {place}")),
            SHOWN * 2,
            output::IN_JSON,
        ) {
            output::answer(line)?;
        }
        if let Some(ServedCounts { requests, tasks }) = answer.served {
            if let (Some(queries), Some(qrels)) = (&self.queries, &self.qrels) {
                let (queries, qrels) = (queries.display(), qrels.display());
                output::answer(format!(
                    "{requests} requests that tools served: {queries}, {qrels}"
                ))?;
            }
            if let Some(sequences) = &self.sequences {
                output::answer(format!(
                    "{tasks} tasks that called tools: {}",
                    sequences.display()
                ))?;
            }
        }
        let Some(counts) = answer.selections else {
            return Ok(());
        };
        output::answer(counts)?;
        if answer.differences.is_empty() {
            return Ok(());
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["record", "differs in", "request", "then", "now"]);
        for difference in answer.differences.iter().take(SHOWN) {
            table.add_row(difference.row());
        }
        output::answer(format!("\nThe largest differences:\n{table}"))?;
        let more = answer.differences.len().saturating_sub(SHOWN);
        if more > 0 {
            output::answer(format!("… and {more} more{}", output::IN_JSON))?;
        }
        Ok(())
    }
}
