//! `picktools init`: the gateway before the MCP servers that clients are configured with.
//!
//! A client's file is read, shown and, after a yes, written: its servers move to a file that
//! `picktools mcp` reads, and one entry that starts the gateway stands in their place. A backup is
//! written first, which `--undo` puts back.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use self::edit::{Found, Shown};
use self::files::ClientFile;
use self::places::Place;
use super::output;

mod edit;
mod files;
mod places;

#[derive(Args)]
pub(super) struct InitCommand {
    /// A client whose files are looked for, instead of all; may be repeated.
    #[arg(long = "client", value_name = "NAME", value_parser = places::NAMES)]
    clients: Vec<String>,
    /// Write without asking.
    #[arg(long)]
    yes: bool,
    /// Show what would be written, and write nothing.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Put the newest backup of each file back.
    #[arg(long)]
    undo: bool,
    /// Print JSON; nothing is asked then.
    #[arg(long)]
    json: bool,
}

/// What became of a file, or would.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// There is nothing to put the gateway in front of.
    NoServers,
    /// It was done before.
    Already,
    /// It waits for a yes.
    WouldWrite,
    Written,
    /// It is what it was before `init`.
    AsBefore,
    NoBackup,
    WouldRestore,
    /// The same, and what was changed since would be replaced.
    Changed,
    Restored,
    /// Somebody said no.
    Declined,
    Failed,
}

/// What is told of a file.
#[derive(Debug, Serialize)]
struct Report {
    client: &'static str,
    #[serde(skip)]
    title: &'static str,
    file: String,
    status: Status,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<Shown>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    variables: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstreams: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// What is to be done to a file.
enum Step {
    /// Nothing.
    Leave,
    Write {
        file: ClientFile,
        upstreams: String,
        edited: String,
    },
    Restore {
        file: ClientFile,
        backup: String,
    },
}

impl InitCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let program = std::env::current_exe().context("the path of this program is not known")?;
        let program = program
            .to_str()
            .context("the path of this program is not UTF-8")?;
        let places = places::places(&self.clients)?;
        let mut reports = Vec::new();
        for place in &places {
            let mut report = Report::of(place);
            let planned = match self.undo {
                true => plan_undo(place, &mut report),
                false => plan(place, program, &mut report),
            };
            // Files that are not there are not spoken of.
            let Some(step) = planned.transpose() else {
                continue;
            };
            let done = step.and_then(|step| {
                self.show(&report)?;
                self.go(place, step, &mut report)
            });
            if let Err(error) = done {
                report.status = Status::Failed;
                report.message = Some(output::line(format!("{error:#}")));
            }
            self.tell(&report)?;
            reports.push(report);
        }
        self.conclude(&places, &reports)
    }

    /// Does what was planned, where somebody agrees.
    fn go(&self, place: &Place, step: Step, report: &mut Report) -> anyhow::Result<()> {
        if matches!(step, Step::Leave) || self.dry_run {
            return Ok(());
        }
        // What was not changed since is put back unasked.
        if report.status != Status::WouldRestore && !self.yes {
            if self.json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
                return Ok(());
            }
            if !ask(report.status)? {
                report.status = Status::Declined;
                return Ok(());
            }
        }
        match step {
            Step::Leave => {}
            Step::Write {
                file,
                upstreams,
                edited,
            } => {
                // The client's file comes last: whatever ends this before leaves it as it was.
                files::write_upstreams(place, &file, &upstreams, &edited)?;
                report.backup = Some(shown(&file.back_up()?));
                file.replace(&edited)?;
                report.status = Status::Written;
            }
            Step::Restore { file, backup } => {
                if report.status == Status::Changed {
                    report.message = Some(format!(
                        "what it was is in {}",
                        file.keep_undone()?.display()
                    ));
                }
                file.replace(&backup)?;
                report.status = Status::Restored;
            }
        }
        Ok(())
    }

    /// Shows a file and what would be done to it.
    fn show(&self, report: &Report) -> anyhow::Result<()> {
        if self.json {
            return Ok(());
        }
        output::answer(format!(
            "{} ({}): {}",
            report.title, report.client, report.file
        ))?;
        let width = report
            .servers
            .iter()
            .map(|server| server.name.chars().count())
            .max()
            .unwrap_or(0)
            .min(40);
        for server in &report.servers {
            let off = if server.disabled {
                "  (switched off)"
            } else {
                ""
            };
            output::answer(output::line(format!(
                "  {:width$}  {}{off}",
                server.name, server.at
            )))?;
        }
        if !report.variables.is_empty() {
            let names = report.variables.join(", ");
            output::answer(output::line(format!(
                "  they ask for variables that the client has to pass on: {names}"
            )))?;
        }
        if let (Some(upstreams), Some(entry)) = (&report.upstreams, &report.entry) {
            output::answer(format!("  they move to {upstreams}"))?;
            output::answer(format!("  in their place: \"picktools\": {entry}"))?;
        }
        Ok(())
    }

    /// Tells what became of a file.
    fn tell(&self, report: &Report) -> anyhow::Result<()> {
        if self.json {
            return Ok(());
        }
        let backup = report.backup.as_deref().unwrap_or_default();
        let message = report.message.as_deref().unwrap_or_default();
        output::answer(match report.status {
            Status::Failed => {
                output::warn(format!("{}: {message}", report.file));
                return Ok(());
            }
            Status::NoServers => "  it has no servers".to_owned(),
            Status::Already => "  already behind picktools".to_owned(),
            Status::WouldWrite => "  nothing was written".to_owned(),
            Status::Written => format!("  written; the backup is {backup}"),
            Status::AsBefore => "  it is as it was before".to_owned(),
            Status::NoBackup => "  it has no backup".to_owned(),
            Status::WouldRestore => format!("  {backup} would be put back"),
            Status::Changed => {
                format!(
                    "  it was changed since; --undo --yes puts {backup} back all the same, and keeps a copy"
                )
            }
            Status::Restored if message.is_empty() => format!("  {backup} was put back"),
            Status::Restored => format!("  {backup} was put back; {message}"),
            Status::Declined => "  left as it is".to_owned(),
        })
    }

    /// Says what came of it all.
    fn conclude(&self, places: &[Place], reports: &[Report]) -> anyhow::Result<ExitCode> {
        let any = |statuses: &[Status]| {
            reports
                .iter()
                .any(|report| statuses.contains(&report.status))
        };
        let code = if self.dry_run {
            0
        } else if any(&[Status::WouldWrite, Status::Changed]) {
            1
        } else if any(&[
            Status::Written,
            Status::Already,
            Status::Restored,
            Status::AsBefore,
        ]) {
            0
        } else if any(&[Status::Failed]) {
            2
        } else {
            1
        };
        if self.json {
            let mut answer = json!({"version": 1, "files": reports});
            if code == 2 {
                let causes = reports
                    .iter()
                    .filter_map(|report| report.message.as_deref());
                let causes: Vec<_> = causes.map(output::line).collect();
                answer["error"] = json!({"message": "nothing could be written", "causes": causes});
            }
            output::json(&answer)?;
        } else if reports.is_empty() {
            let files: Vec<_> = places.iter().map(|place| shown(&place.file)).collect();
            output::answer(format!(
                "no client is configured here; looked for:\n  {}",
                files.join("\n  ")
            ))?;
        } else if code == 1 && any(&[Status::WouldWrite]) {
            output::note("--yes writes without asking");
        }
        Ok(ExitCode::from(code))
    }
}

impl Report {
    fn of(place: &Place) -> Self {
        Self {
            client: place.client.name,
            title: place.client.title,
            file: shown(&place.file),
            status: Status::NoServers,
            servers: Vec::new(),
            variables: Vec::new(),
            upstreams: None,
            entry: None,
            backup: None,
            message: None,
        }
    }
}

/// Plans what `init` does to a file; `None` where there is none.
fn plan(place: &Place, program: &str, report: &mut Report) -> anyhow::Result<Option<Step>> {
    let Some(file) = ClientFile::read(place)? else {
        return Ok(None);
    };
    let servers = match edit::find(&file.text, place.client, place.scope, &place.upstreams)? {
        Found::Nothing => return Ok(Some(Step::Leave)),
        Found::Gateway => {
            report.status = Status::Already;
            return Ok(Some(Step::Leave));
        }
        Found::Servers(servers) => servers,
    };
    let path = place
        .upstreams
        .to_str()
        .context("the path of its upstreams file is not UTF-8")?;
    let entry = edit::entry(place.client, program, path);
    let (upstreams, edited) = (
        servers.upstreams(&file.text, place.client),
        servers.replaced(&file.text, &entry),
    );
    file.check_writable()?;
    files::check_upstreams(place, &upstreams)?;
    report.status = Status::WouldWrite;
    report.upstreams = Some(path.to_owned());
    report.entry = Some(entry);
    report.servers = servers.shown;
    report.variables = servers.variables.into_iter().collect();
    Ok(Some(Step::Write {
        file,
        upstreams,
        edited,
    }))
}

/// Plans what `--undo` does to a file; `None` where there is none.
fn plan_undo(place: &Place, report: &mut Report) -> anyhow::Result<Option<Step>> {
    let Some(file) = ClientFile::read(place)? else {
        return Ok(None);
    };
    let Some((path, backup)) = file.newest_backup()? else {
        report.status = Status::NoBackup;
        return Ok(Some(Step::Leave));
    };
    report.backup = Some(shown(&path));
    if backup == file.text {
        report.status = Status::AsBefore;
        return Ok(Some(Step::Leave));
    }
    file.check_writable()?;
    report.status = if file.is_as_written(place) {
        Status::WouldRestore
    } else {
        Status::Changed
    };
    Ok(Some(Step::Restore { file, backup }))
}

/// Asks whoever sits at the terminal.
fn ask(status: Status) -> io::Result<bool> {
    let question = match status {
        Status::Changed => {
            "  It was changed since picktools wrote it. Put the backup back, and keep a copy? [y/N] "
        }
        _ => "  Write it? [y/N] ",
    };
    let mut answer = String::new();
    let mut stderr = io::stderr().lock();
    write!(stderr, "{question}")?;
    stderr.flush()?;
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn shown(path: impl AsRef<Path>) -> String {
    output::line(path.as_ref().display())
}
