//! `picktools init`: the gateway in front of the MCP servers that clients are configured with.
//!
//! A client's file is read and shown. After a confirmation its servers move to a file that
//! `picktools mcp` reads, and one entry that starts the gateway replaces them. `--undo` restores
//! the backup that is written first.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use picktools_import::mcp::{Server, ServerTransport};
use serde::Serialize;
use serde_json::{Value, json};

use self::edit::{ClientSetup, ServerSummary, StayingServer};
use self::files::ClientFile;
use self::places::ClientConfig;
use super::output;

mod edit;
mod files;
mod places;

const EXAMPLES: &str = "\
Examples:
  picktools init --dry-run
  picktools init --client cursor --yes";

/// Put picktools in front of the MCP servers of your clients.
///
/// Clients are Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Zed and Gemini CLI. Their
/// files are shown first, and changed after a confirmation. A backup is written, which --undo
/// restores.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct InitCommand {
    /// Configure only this client; may be repeated.
    #[arg(long = "client", value_name = "NAME", value_parser = places::NAMES)]
    clients: Vec<String>,
    /// Write without asking.
    #[arg(long)]
    yes: bool,
    /// Show the changes without writing them.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Restore the newest backup of each file.
    #[arg(long)]
    undo: bool,
    /// Print JSON, and ask nothing.
    #[arg(long)]
    json: bool,
}

/// The state of a client's file, done or planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// The file has no servers.
    NoServers,
    /// The file starts the gateway already.
    Already,
    /// The change waits for a confirmation.
    WouldWrite,
    Written,
    /// The file equals the backup.
    AsBefore,
    NoBackup,
    WouldRestore,
    /// The backup would replace changes that were made after `init`.
    Changed,
    Restored,
    /// The user declined.
    Declined,
    Failed,
}

/// The report about one client's file.
#[derive(Debug, Serialize)]
struct ClientReport {
    client: &'static str,
    #[serde(skip)]
    title: &'static str,
    file: String,
    status: Status,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<ServerSummary>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    staying: Vec<StayingServer>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
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

/// The planned change of a file.
enum PlannedChange {
    /// No change.
    Nothing,
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
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let program = program
            .to_str()
            .context("the path of this program is not valid UTF-8")?;
        let places = places::places(&self.clients)?;
        let mut reports = Vec::new();
        for place in &places {
            let mut report = ClientReport::new(place);
            let planned = match self.undo {
                true => plan_undo(place, &mut report),
                false => plan(place, program, &mut report),
            };
            // Missing files are not reported.
            let Some(change) = planned.transpose() else {
                continue;
            };
            let result = change.and_then(|change| {
                self.show(&report)?;
                self.apply(place, change, &mut report)
            });
            if let Err(error) = result {
                report.status = Status::Failed;
                report.message = Some(output::line(format!("{error:#}")));
            }
            self.print_status(&report)?;
            reports.push(report);
        }
        self.conclude(&places, &reports)
    }

    /// Applies a planned change, after a confirmation if needed.
    fn apply(
        &self,
        place: &ClientConfig,
        change: PlannedChange,
        report: &mut ClientReport,
    ) -> anyhow::Result<()> {
        if matches!(change, PlannedChange::Nothing) || self.dry_run {
            return Ok(());
        }
        // A file without later changes is restored without a question.
        if report.status != Status::WouldRestore && !self.yes {
            if self.json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
                return Ok(());
            }
            if !ask(report.status)? {
                report.status = Status::Declined;
                return Ok(());
            }
        }
        match change {
            PlannedChange::Nothing => {}
            PlannedChange::Write {
                file,
                upstreams,
                edited,
            } => {
                // The client's file is replaced last, so an earlier failure leaves it unchanged.
                files::write_upstreams(place, &file, &upstreams, &edited)?;
                report.backup = Some(printable(&file.back_up()?));
                file.replace(&edited)?;
                report.status = Status::Written;
            }
            PlannedChange::Restore { file, backup } => {
                if report.status == Status::Changed {
                    report.message = Some(format!(
                        "the replaced version is in {}",
                        file.keep_undone()?.display()
                    ));
                }
                file.replace(&backup)?;
                report.status = Status::Restored;
            }
        }
        Ok(())
    }

    /// Prints a file and its planned change.
    fn show(&self, report: &ClientReport) -> anyhow::Result<()> {
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
            let off = if server.disabled { "  (disabled)" } else { "" };
            output::answer(output::line(format!(
                "  {:width$}  {}{off}",
                server.name, server.at
            )))?;
        }
        for StayingServer { name, reason } in &report.staying {
            output::answer(output::line(format!("  {name} stays: {reason}")))?;
        }
        for warning in &report.warnings {
            output::answer(output::line(format!("  warning: {warning}")))?;
        }
        if !report.variables.is_empty() {
            let names = report.variables.join(", ");
            output::answer(output::line(format!(
                "  variables that the client must pass on: {names}"
            )))?;
        }
        if let (Some(upstreams), Some(entry)) = (&report.upstreams, &report.entry) {
            output::answer(format!("  servers move to {upstreams}"))?;
            output::answer(format!("  new entry: \"picktools\": {entry}"))?;
        }
        Ok(())
    }

    /// Prints the state of a file.
    fn print_status(&self, report: &ClientReport) -> anyhow::Result<()> {
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
            Status::NoServers => "  no servers".to_owned(),
            Status::Already => "  already behind picktools".to_owned(),
            Status::WouldWrite => "  nothing was written".to_owned(),
            Status::Written => format!("  written; the backup is {backup}"),
            Status::AsBefore => "  equals the backup".to_owned(),
            Status::NoBackup => "  no backup".to_owned(),
            Status::WouldRestore => format!("  would restore {backup}"),
            Status::Changed => {
                format!("  changed after init; --undo --yes restores {backup} and keeps a copy")
            }
            Status::Restored if message.is_empty() => format!("  restored {backup}"),
            Status::Restored => format!("  restored {backup}; {message}"),
            Status::Declined => "  left unchanged".to_owned(),
        })
    }

    /// Prints the conclusion, and returns the exit code.
    fn conclude(
        &self,
        places: &[ClientConfig],
        reports: &[ClientReport],
    ) -> anyhow::Result<ExitCode> {
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
                let mut causes = Vec::new();
                for report in reports {
                    if let Some(message) = &report.message {
                        causes.push(output::line(message));
                    }
                }
                answer["error"] = json!({"message": "no file could be written", "causes": causes});
            }
            output::json(&answer)?;
        } else if reports.is_empty() {
            let files: Vec<_> = places.iter().map(|place| printable(&place.file)).collect();
            output::answer(format!(
                "no client configuration found; searched for:\n  {}",
                files.join("\n  ")
            ))?;
        } else if code == 1 && any(&[Status::WouldWrite]) {
            output::note("pass --yes to write without asking");
        }
        Ok(ExitCode::from(code))
    }
}

impl ClientReport {
    fn new(place: &ClientConfig) -> Self {
        Self {
            client: place.client.name,
            title: place.client.title,
            file: printable(&place.file),
            status: Status::NoServers,
            servers: Vec::new(),
            staying: Vec::new(),
            warnings: Vec::new(),
            variables: Vec::new(),
            upstreams: None,
            entry: None,
            backup: None,
            message: None,
        }
    }
}

/// A configuration file with servers: that of a client, or that of the gateway behind it.
pub(super) struct InstalledConfig {
    /// The client's name for people.
    pub(super) title: &'static str,
    pub(super) file: PathBuf,
    /// `true` if the file belongs to the project in the working folder.
    pub(super) is_project: bool,
    /// `true` if the client's gateway uses it.
    pub(super) behind_gateway: bool,
}

/// Returns the existing configuration files of all clients, and those of their gateways.
pub(super) fn installed_configs() -> anyhow::Result<Vec<InstalledConfig>> {
    let mut configs = Vec::new();
    for place in places::places(&[])? {
        for (file, behind_gateway) in [(&place.file, false), (&place.upstreams, true)] {
            if file.is_file() {
                configs.push(InstalledConfig {
                    title: place.client.title,
                    file: file.clone(),
                    is_project: place.scope == places::Scope::Project,
                    behind_gateway,
                });
            }
        }
    }
    Ok(configs)
}

/// Returns `true` if a server is the gateway that `init` configured.
pub(super) fn starts_gateway(server: &Server) -> bool {
    let ServerTransport::Stdio { arguments, .. } = &server.transport else {
        return false;
    };
    let start = arguments
        .iter()
        .map(String::as_str)
        .take(edit::ARGUMENTS.len());
    server.name == edit::ENTRY && start.eq(edit::ARGUMENTS)
}

/// Plans the change of `init` to a file. Returns `None` if the file does not exist.
fn plan(
    place: &ClientConfig,
    program: &str,
    report: &mut ClientReport,
) -> anyhow::Result<Option<PlannedChange>> {
    let Some(file) = ClientFile::open(place)? else {
        return Ok(None);
    };
    let servers = match edit::find(&file.text, place.client, place.scope, &place.upstreams)? {
        ClientSetup::Empty => return Ok(Some(PlannedChange::Nothing)),
        ClientSetup::Gateway => {
            report.status = Status::Already;
            return Ok(Some(PlannedChange::Nothing));
        }
        ClientSetup::Servers(servers) => servers,
    };
    let path = place
        .upstreams
        .to_str()
        .context("the path of its upstreams file is not valid UTF-8")?;
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
    report.servers = servers.summaries;
    report.staying = servers.staying;
    report.warnings = servers.warnings;
    report.variables = servers.variables.into_iter().collect();
    Ok(Some(PlannedChange::Write {
        file,
        upstreams,
        edited,
    }))
}

/// Plans the change of `--undo` to a file. Returns `None` if the file does not exist.
fn plan_undo(
    place: &ClientConfig,
    report: &mut ClientReport,
) -> anyhow::Result<Option<PlannedChange>> {
    let Some(file) = ClientFile::open(place)? else {
        return Ok(None);
    };
    let Some((path, backup)) = file.newest_backup()? else {
        report.status = Status::NoBackup;
        return Ok(Some(PlannedChange::Nothing));
    };
    report.backup = Some(printable(&path));
    if backup == file.text {
        report.status = Status::AsBefore;
        return Ok(Some(PlannedChange::Nothing));
    }
    file.check_writable()?;
    report.status = if file.is_as_written(place) {
        Status::WouldRestore
    } else {
        Status::Changed
    };
    Ok(Some(PlannedChange::Restore { file, backup }))
}

/// Asks for confirmation on the terminal.
fn ask(status: Status) -> io::Result<bool> {
    let question = match status {
        Status::Changed => {
            "  The file was changed after init. Restore the backup, and keep a copy? [y/N] "
        }
        _ => "  Write this file? [y/N] ",
    };
    let mut answer = String::new();
    let mut stderr = io::stderr().lock();
    write!(stderr, "{question}")?;
    stderr.flush()?;
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn printable(path: impl AsRef<Path>) -> String {
    output::line(path.as_ref().display())
}
