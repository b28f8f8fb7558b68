//! `picktools init`: the gateway in front of the MCP servers that clients are configured with.
//!
//! A client's file is read and shown. After a confirmation its servers move to a file that
//! `picktools mcp` reads, and one entry that starts the gateway replaces them. `--undo` puts them
//! back in place of that entry.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde_json::json;

use self::client_report::{ClientReport, Status, printable};
use self::clients::{ClientConfig, Notation, Scope};
use self::edit::{ClientSetup, StayingServer};
pub(super) use self::entry::starts_gateway;
use self::files::ClientFile;
pub(super) use self::installed::{InstalledConfig, installed_configs};
use super::output;

mod by_hand;
mod client_report;
mod clients;
mod document;
mod edit;
mod entry;
mod files;
mod installed;
mod json_file;
mod places;
mod server_texts;
mod summary;
mod toml_file;
mod uninstall;

const EXAMPLES: &str = "\
Examples:
  picktools init --dry-run
  picktools init --client cursor --yes";

/// Put picktools in front of the MCP servers of your clients.
///
/// The servers in a client's file move to a file of picktools, and the client starts picktools
/// instead. This works for Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Zed, Gemini CLI,
/// Copilot CLI, Cline, Roo Code, Codex and opencode. The changes are shown, and made after a
/// confirmation. Each file is backed up before it is changed. Then each server is tried. The file of
/// Goose is YAML and is not edited; the change is described.
///
/// Run `init` again to move servers that were added to a client's file since the last run.
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
    /// Include the files of the project in the working folder.
    ///
    /// These are, for example, ./.mcp.json and ./.vscode/mcp.json.
    #[arg(long)]
    project: bool,
    /// Put the servers back, and keep changes that you made to the files after init.
    #[arg(long)]
    undo: bool,
    /// Undo everything, and remove the approvals, caches and other data of picktools.
    #[arg(long, conflicts_with_all = ["undo", "clients", "dry_run"])]
    uninstall: bool,
    /// Do not try the servers afterwards.
    #[arg(long)]
    no_check: bool,
    /// Print JSON. Nothing is asked, so no server is moved without --yes.
    ///
    /// `--undo --json` and `--uninstall --json` put servers back even without --yes. To remove the
    /// data too, `--uninstall --json` needs --yes.
    #[arg(long)]
    json: bool,
}

/// The planned change of a file.
enum PlannedChange {
    /// No change.
    Nothing,
    Write {
        file: ClientFile,
        upstreams: String,
        edited: String,
        /// The file of the servers that are behind the gateway already.
        moved: Option<String>,
    },
    Restore {
        file: ClientFile,
        restored: String,
    },
}

impl InitCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let program = program
            .to_str()
            .context("the path of this program is not valid UTF-8")?;
        let mut places = places::places(&self.clients)?;
        let undo = self.undo || self.uninstall;
        if !self.project && !self.uninstall {
            self.leave_projects(&mut places);
        }
        let mut reports = Vec::new();
        for place in &places {
            let mut report = ClientReport::new(place);
            let planned = match undo {
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
        if self.uninstall {
            let is_removed = self.remove_data(&reports)?;
            if self.json {
                output::json(&json!({"version": 1, "files": reports, "removed": is_removed}))?;
            }
            return Ok(ExitCode::from(u8::from(!is_removed)));
        }
        self.conclude(&places, &reports)
    }

    /// Removes the files of the project, and names those with servers.
    fn leave_projects(&self, places: &mut Vec<ClientConfig>) {
        let (kept, left): (Vec<_>, Vec<_>) = std::mem::take(places)
            .into_iter()
            .partition(|place| place.scope == Scope::User);
        *places = kept;
        for place in left {
            if place.file.is_file() && !self.json {
                output::note(format!(
                    "{} is a project's file and stays as it is; pass --project to include it",
                    printable(&place.file)
                ));
            }
        }
    }

    /// Asks on the terminal. Without a terminal the answer is no.
    fn confirm(&self, question: &str) -> io::Result<bool> {
        if !self.can_ask() {
            return Ok(false);
        }
        ask(question)
    }

    fn can_ask(&self) -> bool {
        !self.json && io::stdin().is_terminal() && io::stderr().is_terminal()
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
        // Servers are put back without a question.
        if report.status != Status::WouldRestore && !self.yes {
            if !self.can_ask() {
                return Ok(());
            }
            if !ask("  Write this file? [y/N] ")? {
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
                moved,
            } => {
                let backup = file.back_up()?;
                let original = moved.is_none().then_some(backup.as_path());
                // The client's file is replaced last, so an earlier failure leaves it unchanged.
                files::write_upstreams(place, &file, &upstreams, &edited, original)?;
                report.backup = Some(printable(&backup));
                if let Err(error) = file.replace(&edited) {
                    // The servers are still in the client's file.
                    match &moved {
                        Some(moved) => files::rewrite_upstreams(place, moved)?,
                        None => files::remove_upstreams(place)?,
                    }
                    return Err(error);
                }
                report.status = Status::Written;
            }
            PlannedChange::Restore { file, restored } => {
                report.backup = Some(printable(file.keep_undone()?));
                file.replace(&restored)?;
                files::remove_upstreams(place)?;
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
        let mut title = format!("{} ({}): {}", report.title, report.client, report.file);
        if let Some(project) = &report.project {
            title.push_str(&format!(", for {project}"));
        }
        output::answer(title)?;
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
            output::answer(output::line(format!(
                "  {name} stays in this file: {reason}"
            )))?;
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
        if let Some(upstreams) = &report.upstreams {
            output::answer(format!("  servers move to {upstreams}"))?;
        }
        if let Some(entry) = &report.entry {
            output::answer(format!("  new entry: \"{}\": {entry}", report.entry_name))?;
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
            Status::Already => "  already uses the picktools gateway".to_owned(),
            Status::WouldWrite => "  nothing was written".to_owned(),
            Status::Written => format!("  written; the backup is {backup}"),
            Status::NotBehind => "  does not use the picktools gateway".to_owned(),
            Status::WouldRestore => "  would put the servers back".to_owned(),
            Status::Restored => format!("  restored; the file with the gateway is in {backup}"),
            Status::Declined => "  left unchanged".to_owned(),
            Status::ByHand => format!("  {message}"),
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
        } else if any(&[Status::WouldWrite]) {
            1
        } else if any(&[Status::Written, Status::Already, Status::Restored]) {
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
        } else if any(&[Status::Written]) {
            self.try_servers(places, reports)?;
        }
        Ok(ExitCode::from(code))
    }
}

impl InitCommand {
    /// Tries the servers that moved, and says how to go on.
    fn try_servers(&self, places: &[ClientConfig], reports: &[ClientReport]) -> anyhow::Result<()> {
        let mut files = Vec::new();
        for place in places {
            let path = printable(&place.upstreams);
            let is_written = |report: &ClientReport| {
                report.status == Status::Written && report.upstreams_file == path
            };
            if reports.iter().any(is_written) {
                files.push(place.upstreams.clone());
            }
        }
        if !self.no_check {
            output::answer("")?;
            crate::doctor::check_files(&files)?;
        }
        output::answer("Restart the clients, because they read their files at the start:")?;
        let mut titles = Vec::new();
        for report in reports {
            if report.status == Status::Written && !titles.contains(&report.title) {
                titles.push(report.title);
                output::answer(format!("  {}: {}", report.title, report.restart))?;
            }
        }
        output::answer(
            "`picktools doctor` shows the state of the servers again, and `picktools init --undo` \
             puts them back.",
        )
    }
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
    if place.client.notation == Notation::Yaml {
        by_hand::plan(&file.text, place, program, report)?;
        return Ok(Some(PlannedChange::Nothing));
    }
    let servers = match edit::find(&file.text, place, files::read_upstreams(place)?)? {
        ClientSetup::Empty => return Ok(Some(PlannedChange::Nothing)),
        ClientSetup::Gateway(staying) => {
            report.status = Status::Already;
            report.staying = staying;
            return Ok(Some(PlannedChange::Nothing));
        }
        ClientSetup::Servers(servers) => servers,
    };
    anyhow::ensure!(
        servers.gateway.is_none() || servers.moved.is_some(),
        "the file of the moved servers is missing: {}",
        place.upstreams.display()
    );
    let (command, path) = place.gateway_command(program)?;
    let entry = servers.entry(place.client, command, &path);
    let upstreams = servers.upstreams(place.client)?;
    let edited = servers.replaced(&file.text, place, &entry)?;
    file.check_writable()?;
    files::check_upstreams(place, &upstreams, servers.moved.as_deref())?;
    report.status = Status::WouldWrite;
    report.upstreams = Some(report.upstreams_file.clone());
    report.entry = servers.gateway.is_none().then_some(entry);
    report.servers = servers.summaries;
    report.staying = servers.staying;
    report.warnings = servers.warnings;
    report.variables = servers.variables.into_iter().collect();
    Ok(Some(PlannedChange::Write {
        file,
        upstreams,
        edited,
        moved: servers.moved,
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
    if place.client.notation == Notation::Yaml {
        by_hand::plan_undo(&file.text, place, report)?;
        return Ok(Some(PlannedChange::Nothing));
    }
    if file.text.trim().is_empty() || !edit::has_gateway(&file.text, place)? {
        report.status = Status::NotBehind;
        return Ok(Some(PlannedChange::Nothing));
    }
    file.check_writable()?;
    let restored = match file.backup_of_unchanged(place) {
        Some(backup) => backup,
        None => {
            let moved = files::read_upstreams(place)?.with_context(|| {
                format!(
                    "the file of the moved servers is missing: {}; a backup of the client's file \
                     is beside it",
                    place.upstreams.display()
                )
            })?;
            edit::restored(&file.text, place, &moved)?.context("the gateway's entry is gone")?
        }
    };
    report.status = Status::WouldRestore;
    Ok(Some(PlannedChange::Restore { file, restored }))
}

/// Asks for confirmation on the terminal.
fn ask(question: &str) -> io::Result<bool> {
    let mut answer = String::new();
    let mut stderr = io::stderr().lock();
    write!(stderr, "{question}")?;
    stderr.flush()?;
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
