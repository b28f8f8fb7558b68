//! `picktools replay`: verification of an audit log, and a rerun of its selections.

mod again;
mod served;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use comfy_table::{Table, presets};
use picktools::disk;
use picktools_audit::{self as audit, AuditVerification};
use picktools_gateway::Settings;
use serde::Serialize;

use self::again::{Difference, ReplayCounts, Replayer};
use self::served::ServedLog;
use crate::args::{self, ModelArgs};
use crate::reading::{ReadingArgs, read_input};
use crate::{heading, output};

/// The number of differences in the table, largest first.
const MAX_SHOWN: usize = 10;

const EXAMPLES: &str = "\
Examples:
  picktools replay /var/lib/picktools/audit --verify
  picktools replay /var/lib/picktools/audit --catalog tools.json --model tuned";

/// Verify the audit log and rerun its selections.
///
/// The selections are made again with the recorded catalog and policy, or with the catalog, model
/// and settings that you name. The exit code is 1 if the log is damaged or a selection differs.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ReplayCommand {
    /// Folder of the audit log, as `picktools serve --audit FOLDER` writes it.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Only verify the audit log.
    #[arg(long, conflicts_with_all = ["catalog", "settings", "queries", "sequences"],
        help_heading = heading::AUDIT)]
    verify: bool,
    /// Settings file whose access policies replace the recorded ones.
    #[arg(long, value_name = "FILE", help_heading = heading::AUDIT)]
    settings: Option<PathBuf>,
    /// Write requests with tool calls to FILE, and rerun nothing.
    ///
    /// `picktools eval --queries` reads the file.
    #[arg(long, value_name = "FILE", requires = "qrels", help_heading = heading::AUDIT)]
    queries: Option<PathBuf>,
    /// Write the tools that these requests called to FILE.
    ///
    /// `picktools eval --qrels` reads the file.
    #[arg(long, value_name = "FILE", requires = "queries", help_heading = heading::AUDIT)]
    qrels: Option<PathBuf>,
    /// Write the calls of each task to FILE, and rerun nothing.
    ///
    /// `picktools pick --sequences` reads the file.
    #[arg(long, value_name = "FILE", help_heading = heading::AUDIT)]
    sequences: Option<PathBuf>,
    /// Pick from this catalog instead of the recorded ones; may be repeated.
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

/// The JSON output.
#[derive(Serialize)]
struct ReplayReport<'a> {
    audit: &'a AuditVerification,
    #[serde(skip_serializing_if = "Option::is_none")]
    selections: Option<&'a ReplayCounts>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    differences: &'a [Difference],
    #[serde(skip_serializing_if = "Option::is_none")]
    served: Option<ServedCounts>,
}

/// The counts of the written requests and tasks.
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
        let verified = self.verify_log()?;
        let is_intact = verified.broken.is_empty();
        if self.verify {
            return self.end(
                &ReplayReport {
                    audit: &verified,
                    selections: None,
                    differences: &[],
                    served: None,
                },
                is_intact,
            );
        }
        if self.queries.is_some() || self.sequences.is_some() {
            let served = Some(self.write_served()?);
            return self.end(
                &ReplayReport {
                    audit: &verified,
                    selections: None,
                    differences: &[],
                    served,
                },
                is_intact,
            );
        }
        let selections = verified.kinds.get("selection").copied().unwrap_or_default();
        let (counts, differences) = self.rerun(selections)?;
        let answer = ReplayReport {
            audit: &verified,
            selections: Some(&counts),
            differences: &differences,
            served: None,
        };
        self.end(&answer, is_intact && counts.are_same())
    }

    /// Verifies the audit log.
    fn verify_log(&self) -> anyhow::Result<AuditVerification> {
        let bar = args::progress_bar("verifying");
        bar.set_length(audit::size(&self.folder)?);
        let verified = audit::verify(&self.folder, &mut |bytes| bar.inc(bytes));
        bar.finish_and_clear();
        Ok(verified?)
    }

    /// Makes the selections again.
    fn rerun(&self, selections: u64) -> anyhow::Result<(ReplayCounts, Vec<Difference>)> {
        let catalog = if self.catalog.is_empty() {
            None
        } else {
            Some(self.reading.open(&self.catalog)?)
        };
        let settings = match &self.settings {
            Some(path) => {
                let text = String::from_utf8(read_input(path)?)
                    .context("the settings are not valid UTF-8")?;
                Some(Settings::parse(&text).with_context(|| format!("{}", path.display()))?)
            }
            None => None,
        };
        let bar = args::progress_bar("replaying");
        bar.set_length(selections);
        let mut replayer = Replayer::new(
            &self.folder,
            self.model.open()?,
            self.model.mode(),
            catalog,
            settings,
        );
        let skipped = audit::records(&self.folder, |read| {
            bar.inc(u64::from(replayer.take(read)?));
            anyhow::Ok(true)
        });
        bar.finish_and_clear();
        let skipped = skipped?;
        if skipped > 0 {
            output::warn(format!(
                "skipped {skipped} lines that this program cannot read"
            ));
        }
        output::warnings(replayer.warnings(), "");
        Ok(replayer.end())
    }

    /// Writes the requests and tasks with tool calls.
    fn write_served(&self) -> anyhow::Result<ServedCounts> {
        let mut served = ServedLog::default();
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

    fn end(&self, answer: &ReplayReport<'_>, is_same: bool) -> anyhow::Result<ExitCode> {
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

    fn show(&self, answer: &ReplayReport<'_>) -> anyhow::Result<()> {
        let AuditVerification {
            records,
            files,
            first,
            last,
            broken,
            notes,
            ..
        } = answer.audit;
        output::notes(notes.iter().cloned(), output::IN_JSON);
        let state = if broken.is_empty() {
            "the chain is intact"
        } else {
            "THE CHAIN IS BROKEN"
        };
        let in_files = if *files == 1 {
            "1 file".to_owned()
        } else {
            format!("{files} files")
        };
        output::answer(format!(
            "{records} records in {in_files}, {first} to {last}: {state}"
        ))?;
        for line in output::first(
            broken.iter().map(|place| format!("  {place}")),
            MAX_SHOWN * 2,
            output::IN_JSON,
        ) {
            output::answer(line)?;
        }
        if let Some(ServedCounts { requests, tasks }) = answer.served {
            if let (Some(queries), Some(qrels)) = (&self.queries, &self.qrels) {
                let (queries, qrels) = (queries.display(), qrels.display());
                output::answer(format!(
                    "{requests} requests with tool calls: {queries}, {qrels}"
                ))?;
            }
            if let Some(sequences) = &self.sequences {
                output::answer(format!(
                    "{tasks} tasks with tool calls: {}",
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
        for difference in answer.differences.iter().take(MAX_SHOWN) {
            table.add_row(difference.row());
        }
        output::answer(format!("\nThe largest differences:\n{table}"))?;
        let more = answer.differences.len().saturating_sub(MAX_SHOWN);
        if more > 0 {
            output::answer(format!("… and {more} more{}", output::IN_JSON))?;
        }
        Ok(())
    }
}
