//! What `call` and `run` share: which tools there are, who confirms, and how events are shown.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
#[cfg(unix)]
use clap::ValueEnum;
use picktools::excerpt::marked;
use picktools_call::PendingCall;
use picktools_provider::ToolCall;
use picktools_runtime::{
    Confirm, Decision, DecisionFuture, Event, EventKind, Executed, ToolManager, Topic,
};
use picktools_shell::Read;
#[cfg(unix)]
use picktools_shell::{Bash, BashOptions, Sandbox};
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::asking::AccessArgs;
use super::interruption::interrupted;
use super::numbers::whole;
use super::reading::ReadingArgs;
use super::runners::runners;
use super::{heading, output};

/// How long tools that are cancelled may take to end.
const ENDING: Duration = Duration::from_secs(2);
/// How long connections may take to be closed, and the programs behind them to end.
const CLOSING: Duration = Duration::from_secs(5);
/// The most characters of arguments that are shown.
const MAX_SHOWN: usize = 300;

/// Which tools are run, for whom and where.
#[derive(Args)]
pub(super) struct RunningArgs {
    /// A file of tools, an OpenAPI document, or a configuration of MCP servers; `-` for standard
    /// input; or a folder of such; may be repeated.
    #[arg(long, visible_alias = "index", value_name = "PATH", required_unless_present = "built_in", help_heading = heading::CATALOG)]
    catalog: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    access: AccessArgs,
    /// Add the built-in tools: `read`, which reads files of the root, and `bash`, which runs
    /// commands there and is unsafe.
    #[arg(long, help_heading = heading::CALLS)]
    built_in: bool,
    /// Whether commands of `bash` run in a sandbox, which keeps them from files outside the root:
    /// where the system has one (auto), always (required), or never (off).
    #[cfg(unix)]
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto", help_heading = heading::CALLS)]
    sandbox: SandboxArg,
    /// The folder that tools work in.
    #[arg(long, value_name = "FOLDER", default_value = ".", help_heading = heading::CALLS)]
    root: PathBuf,
    /// Confirm all calls that must be confirmed. Without it you are asked where there is a
    /// terminal, and they are refused where there is none. What may not be called at all stays so.
    #[arg(long, short, help_heading = heading::CALLS)]
    yes: bool,
    /// End calls after so many milliseconds whose tool names no time of its own.
    #[arg(long, value_name = "MS", default_value_t = 120_000, value_parser = whole::<u64>,
        allow_negative_numbers = true, help_heading = heading::CALLS)]
    time_limit_ms: u64,
    /// Print events as JSON Lines.
    #[arg(long, help_heading = heading::OUTPUT)]
    pub(super) json: bool,
}

impl RunningArgs {
    /// Runs calls, tells of them while they run, and returns what came of them.
    pub(super) fn execute(self, calls: &[ToolCall]) -> anyhow::Result<Vec<Executed>> {
        let (json, manager) = (self.json, self.manager()?);
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("no runtime can be started")?;
        let executed = runtime.block_on(async {
            let mut events = manager.events().subscribe(Topic::All);
            let mut work = pin!(async {
                let mut work = pin!(manager.execute_all(calls));
                tokio::select! {
                    executed = &mut work => executed,
                    () = interrupted() => {
                        manager.cancel_all();
                        timeout(ENDING, work).await.unwrap_or_default()
                    }
                }
            });
            let executed = loop {
                tokio::select! {
                    biased;
                    // Who reads no further wants no more done.
                    Some(received) = events.next() => show(&received.event, received.lost, json)?,
                    executed = &mut work => break executed,
                }
            };
            while let Some(received) = events.try_next() {
                show(&received.event, received.lost, json)?;
            }
            anyhow::Ok(executed)
        });
        // No program that a tool started is left behind, whatever went wrong.
        runtime.block_on(async {
            let _in_time = timeout(CLOSING, manager.close()).await;
        });
        let executed = executed?;
        runtime.shutdown_timeout(ENDING);
        Ok(executed)
    }

    fn manager(self) -> anyhow::Result<ToolManager> {
        let access = self.access.access();
        let mut builder = ToolManager::builder(access.clone());
        if !self.catalog.is_empty() {
            let catalog = self.reading.open(&self.catalog)?;
            output::warn_of_unknown(&access.unknown_values(&catalog));
            let runners = runners(&self.reading, &catalog)?;
            builder = builder.catalog(catalog, runners);
        }
        if self.built_in {
            builder = builder.tool(Read::default());
            #[cfg(unix)]
            {
                let options = BashOptions {
                    sandbox: self.sandbox.into(),
                    ..BashOptions::default()
                };
                builder = builder.tool(Bash::new(std::env::vars_os(), options));
            }
        }
        let confirm = Asks {
            yes: self.yes,
            terminal: tokio::sync::Mutex::default(),
        };
        let builder = builder.root(self.root).confirm(confirm);
        Ok(builder
            .time_limit(Duration::from_millis(self.time_limit_ms))
            .build()?)
    }
}

/// Whether there is a sandbox.
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

/// Asks whoever sits at the terminal, one call at a time.
struct Asks {
    yes: bool,
    terminal: tokio::sync::Mutex<()>,
}

impl Confirm for Asks {
    fn decide<'a>(&'a self, call: &'a PendingCall) -> DecisionFuture<'a> {
        Box::pin(async move {
            if self.yes {
                return Decision::Allow;
            }
            if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
                return Decision::Deny(format!("{}; --yes confirms", call.awaits()));
            }
            let _one_at_a_time = self.terminal.lock().await;
            let shown = marked(&call.arguments().to_string(), MAX_SHOWN).into_owned();
            let question = format!(
                "{} {shown}\n{}. Run it? [y/N] ",
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
                Ok(Ok(answer)) if matches!(answer.trim(), "y" | "Y" | "yes") => Decision::Allow,
                _ => Decision::Deny("you did not confirm it".to_owned()),
            }
        })
    }
}

fn show(event: &Event, lost: u64, json: bool) -> anyhow::Result<()> {
    if lost > 0 {
        output::warn(format!("{lost} pieces of output were lost"));
    }
    if json {
        return output::verbatim(serde_json::to_string(event)?);
    }
    let name = marked(&event.call.names.canonical, MAX_SHOWN);
    match &event.kind {
        EventKind::Start { arguments, .. } => {
            output::note(format!(
                "{name} {}",
                marked(&arguments.to_string(), MAX_SHOWN)
            ));
        }
        // Ends and errors are answers, which are printed in the order of the calls.
        EventKind::Chunk { chunk } => chunk
            .lines()
            .for_each(|line| output::note(format!("  {line}"))),
        _ => {}
    }
    Ok(())
}
