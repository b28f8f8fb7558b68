//! Execution of calls for `call` and `run`: the tools, the confirmations and the output of events.

use std::collections::BTreeSet;
use std::io::{self, BufRead, IsTerminal, Write as _};
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
#[cfg(unix)]
use clap::ValueEnum;
use picktools::Catalog;
use picktools::catalog::{FaultKind, OperatorAliases};
use picktools::excerpt::marked;
use picktools::names::{NameTable, Resolution};
use picktools::saved::SavedError;
use picktools_call::PendingCall;
use picktools_provider::ToolCall;
use picktools_runtime::{
    Confirm, ConfirmationDecision, DecisionFuture, Event, EventKind, ExecutedCall, FileLedger,
    ToolManager, Topic,
};
#[cfg(unix)]
use picktools_shell::{Bash, BashOptions, Sandbox};
use picktools_shell::{Cd, Edit, Glob, Grep, Read, Undo, Write};
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::asking::AccessArgs;
use super::interruption::Signals;
use super::llm::RepairArgs;
use super::numbers::integer;
use super::reading::{ReadingArgs, open_aliases};
use super::runners::runners;
use super::{heading, output};

/// The longest time that cancelled tools may take to end.
const ENDING: Duration = Duration::from_secs(2);
/// The longest time that connections and their programs may take to close.
const CLOSING: Duration = Duration::from_secs(5);
/// The names of the built-in tools.
const BUILT_IN: [&str; 8] = [
    "read", "write", "edit", "undo", "grep", "glob", "cd", "bash",
];
/// The most characters of arguments in the output.
const MAX_ARGUMENT_CHARS: usize = 300;

/// The tools to run, and the conditions under which they run.
#[derive(Args)]
pub(super) struct RunningArgs {
    /// Catalog: tools, an OpenAPI document, MCP servers, a folder, or - for stdin.
    ///
    /// A catalog is a file of tools, an OpenAPI document, or a configuration of MCP servers. It may
    /// also be a folder of such files, or the folder of an index. May be repeated.
    #[arg(long, visible_alias = "index", value_name = "PATH", required_unless_present = "built_in",
        help_heading = heading::CATALOG)]
    catalog: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    access: AccessArgs,
    /// Add the built-in tools for files and commands.
    ///
    /// `read`, `grep` and `glob` read files below the root. The unsafe tools `write`, `edit` and
    /// `undo` change them, and `bash` runs commands in the root. `cd` sets the working folder. They
    /// have their well-known names as aliases, such as `read_file` and `run_command`.
    #[arg(long, help_heading = heading::CALLS)]
    built_in: bool,
    /// Sandbox for the built-in tool `bash`.
    ///
    /// In the sandbox a command can read the system and the root, and write the root and temporary
    /// files. It cannot use UNIX sockets. It can use the network, and change the mode and times of
    /// your files outside the root. auto: use it if the system has one; required: run nothing
    /// without it; off: do not use it.
    #[cfg(unix)]
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto",
        help_heading = heading::CALLS)]
    sandbox: SandboxArg,
    /// Working folder of the tools.
    #[arg(long, value_name = "FOLDER", default_value = ".", help_heading = heading::CALLS)]
    root: PathBuf,
    /// Confirm all calls that need a confirmation.
    ///
    /// Without this option you are asked on the terminal. Without a terminal such calls are
    /// refused. The option does not allow calls that the access policy forbids.
    #[arg(long, short, help_heading = heading::CALLS)]
    yes: bool,
    #[command(flatten)]
    repair: RepairArgs,
    /// Time limit of a call in milliseconds.
    ///
    /// A limit that the tool itself defines takes precedence.
    #[arg(long, value_name = "MS", default_value_t = 120_000, value_parser = integer::<u64>,
        allow_negative_numbers = true, help_heading = heading::CALLS)]
    time_limit_ms: u64,
    /// Print events as JSON Lines.
    #[arg(long, help_heading = heading::OUTPUT)]
    pub(super) json: bool,
}

impl RunningArgs {
    /// Opens the tools.
    pub(super) fn open(self) -> anyhow::Result<OpenTools> {
        let json = self.json;
        let manager = self.manager()?;
        Ok(OpenTools { manager, json })
    }

    fn manager(mut self) -> anyhow::Result<ToolManager> {
        let access = self.access.access();
        let mut builder = ToolManager::builder(access.clone());
        let mut aliases = match self.built_in {
            true => self.reading.leave_aliases(),
            false => None,
        }
        .as_deref()
        .map(open_aliases)
        .transpose()?;
        let mut other_tools = None;
        if !self.catalog.is_empty() {
            let catalog = self.reading.open(&self.catalog)?;
            output::warn_of_unknown(&access.unknown_values(&catalog)?);
            let runners = runners(&self.reading, &catalog)?;
            other_tools = Some(catalog.clone());
            builder = builder.catalog(catalog, runners);
        }
        if self.built_in {
            let known = built_in_aliases(other_tools.as_ref())?;
            match &mut aliases {
                Some(aliases) => aliases.add_missing(&known),
                None => aliases = Some(known),
            }
            builder = builder
                .tool(Read::default())
                .tool(Write::default())
                .tool(Edit::default())
                .tool(Undo::default())
                .tool(Grep::default())
                .tool(Glob::default())
                .tool(Cd::default());
            #[cfg(unix)]
            {
                let options = BashOptions {
                    sandbox: self.sandbox.into(),
                    ..BashOptions::default()
                };
                builder = builder.tool(Bash::new(std::env::vars_os(), options));
            }
        }
        let confirmation = TerminalConfirmation {
            yes: self.yes,
            terminal: tokio::sync::Mutex::default(),
        };
        if let Some(aliases) = aliases {
            builder = builder.aliases(aliases);
        }
        if let Some(repairer) = self.repair.repairer()? {
            builder = builder.repairer(repairer);
        }
        let builder = builder.root(self.root).confirm(confirmation);
        let manager = builder
            .time_limit(Duration::from_millis(self.time_limit_ms))
            .build()?;
        let notices = manager.catalog().notices();
        let invalid_aliases = notices
            .iter()
            .filter(|notice| notice.kind == FaultKind::OperatorAlias);
        output::warnings(invalid_aliases, "");
        Ok(manager)
    }
}

/// The tools of a command, and the form in which it prints their events.
pub(super) struct OpenTools {
    manager: ToolManager,
    json: bool,
}

impl OpenTools {
    /// Returns `true` if a name means a tool that may run.
    pub(super) fn is_callable(&self, name: &str) -> bool {
        self.manager.is_callable(name)
    }

    /// Returns the record of files that the tools read and write.
    pub(super) fn files(&self) -> FileLedger {
        self.manager.files().clone()
    }

    /// Runs the calls, prints their events, and returns their results.
    pub(super) fn execute(self, calls: &[ToolCall]) -> anyhow::Result<Vec<ExecutedCall>> {
        let Self { manager, json } = self;
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start the asynchronous runtime")?;
        let executed = runtime.block_on(async {
            let mut signals = Signals::listen();
            let mut events = manager.events().subscribe(Topic::All);
            let mut work = pin!(async {
                let mut work = pin!(manager.execute_all(calls));
                tokio::select! {
                    executed = &mut work => executed,
                    _ = signals.next() => {
                        manager.cancel_all();
                        timeout(ENDING, work).await.unwrap_or_default()
                    }
                }
            });
            let executed = loop {
                tokio::select! {
                    biased;
                    // If the output is closed, no further work is needed.
                    Some(received) = events.next() => show(&received.event, received.lost, json)?,
                    executed = &mut work => break executed,
                }
            };
            while let Some(received) = events.try_next() {
                show(&received.event, received.lost, json)?;
            }
            anyhow::Ok(executed)
        });
        // Ends all programs that tools started, also after an error.
        runtime.block_on(async {
            let _in_time = timeout(CLOSING, manager.close()).await;
        });
        let executed = executed?;
        runtime.shutdown_timeout(ENDING);
        warn_of_deprecated(&executed);
        Ok(executed)
    }
}

/// Warns of the deprecated aliases by which tools were called, once for each.
fn warn_of_deprecated(executed: &[ExecutedCall]) {
    let mut warned = BTreeSet::new();
    for ExecutedCall { call, .. } in executed {
        let names = &call.names;
        if names.deprecated && warned.insert(&names.requested) {
            output::warn(output::deprecated(&names.requested, &names.canonical));
        }
    }
}

/// Returns the well-known names of the built-in tools that mean nothing in the catalog: the names
/// that mean such a tool, and the names of the same tool in other hosts.
fn built_in_aliases(catalog: Option<&Catalog>) -> Result<OperatorAliases, SavedError> {
    let mut names = None;
    if let Some(catalog) = catalog {
        names = Some((NameTable::new(catalog)?, catalog));
    }
    let is_free = |alias: &str| match &names {
        Some((names, catalog)) => {
            let resolution = names.resolve(alias, catalog)?;
            Ok::<_, SavedError>(matches!(resolution, Resolution::Unknown { .. }))
        }
        None => Ok(true),
    };
    let ecosystem = OperatorAliases::ecosystem();
    let mut pairs = Vec::new();
    for tool in BUILT_IN {
        let names = ecosystem.names_for(tool).chain(ecosystem.targets(tool));
        for alias in names {
            if is_free(alias)? && !BUILT_IN.contains(&alias) {
                pairs.push((alias.to_owned(), tool.to_owned()));
            }
        }
    }
    Ok(OperatorAliases::from_pairs(pairs))
}

/// The use of a sandbox.
#[cfg(unix)]
#[derive(Clone, Copy, ValueEnum)]
enum SandboxArg {
    Auto,
    Required,
    Off,
}

#[cfg(unix)]
impl From<SandboxArg> for Sandbox {
    fn from(sandbox: SandboxArg) -> Self {
        match sandbox {
            SandboxArg::Auto => Self::Auto,
            SandboxArg::Required => Self::Required,
            SandboxArg::Off => Self::Off,
        }
    }
}

/// A confirmation on the terminal, one call at a time.
struct TerminalConfirmation {
    yes: bool,
    terminal: tokio::sync::Mutex<()>,
}

impl Confirm for TerminalConfirmation {
    fn decide<'a>(&'a self, call: &'a PendingCall) -> DecisionFuture<'a> {
        Box::pin(async move {
            if self.yes {
                return ConfirmationDecision::Allow;
            }
            if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
                return ConfirmationDecision::Deny(format!(
                    "{}; pass --yes to confirm",
                    call.awaits()
                ));
            }
            let _one_at_a_time = self.terminal.lock().await;
            let arguments = marked(&call.arguments().to_string(), MAX_ARGUMENT_CHARS).into_owned();
            let question = format!(
                "{} {arguments}\n{}. Run it? [y/N] ",
                call.tool().id,
                call.awaits()
            );
            let answer = tokio::task::spawn_blocking(move || {
                let mut answer = String::new();
                write!(io::stderr().lock(), "{question}")?;
                io::stdin().lock().read_line(&mut answer)?;
                io::Result::Ok(answer)
            });
            match answer.await {
                Ok(Ok(answer)) if matches!(answer.trim(), "y" | "Y" | "yes") => {
                    ConfirmationDecision::Allow
                }
                _ => ConfirmationDecision::Deny("you did not confirm the call".to_owned()),
            }
        })
    }
}

fn show(event: &Event, lost: u64, json: bool) -> anyhow::Result<()> {
    if lost > 0 {
        output::warn(format!("{lost} output events were lost"));
    }
    if json {
        return output::json_text(serde_json::to_string(event)?);
    }
    let name = marked(&event.call.names.canonical, MAX_ARGUMENT_CHARS);
    match &event.kind {
        EventKind::Start {
            arguments,
            repaired,
            ..
        } => {
            output::note(format!(
                "{name} {}",
                marked(&arguments.to_string(), MAX_ARGUMENT_CHARS)
            ));
            for repair in repaired {
                output::note(format!("  {}", marked(repair, MAX_ARGUMENT_CHARS)));
            }
        }
        // Results and errors are printed later, in the order of the calls.
        EventKind::Chunk { chunk } => chunk
            .lines()
            .for_each(|line| output::note(format!("  {line}"))),
        _ => {}
    }
    Ok(())
}
