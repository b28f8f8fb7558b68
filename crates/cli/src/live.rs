//! Tools of MCP servers, listed once per run and cached for an hour.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use picktools::catalog::CatalogFile;
use picktools_import::mcp;
use picktools_import::mcp::{ConfigEnvironment, Configuration, Server};
use picktools_mcp::{Limits, ListError, Listing, ToolListCache};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::interruption::Signals;
use crate::{heading, output};

/// The age up to which cached tools are used without asking their server.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);
/// The largest size of a file of variables, in bytes.
const MAX_VARIABLES_BYTES: u64 = 1 << 20;
/// The most lines of a server's standard error that a message has.
const MAX_STDERR_LINES: usize = 3;
/// The largest number of servers that are asked at the same time.
const MAX_CONCURRENT: usize = 16;

/// The options of requests to MCP servers.
#[derive(Args, Clone)]
#[command(next_help_heading = heading::CATALOG)]
pub(super) struct LiveArgs {
    /// Ask MCP servers for their tools even if the cache is fresh.
    ///
    /// By default, cached tools of the last hour are used. `picktools import mcp` always asks the
    /// servers, unless --offline is given.
    #[arg(long, conflicts_with = "offline")]
    refresh: bool,
    /// Use cached tools of any age; do not contact MCP servers.
    ///
    /// This affects MCP servers only. If the command has options that name other services, such as
    /// --llm-url, --embed-url or --store, those services are still contacted.
    #[arg(long)]
    offline: bool,
    /// Timeout in milliseconds for each MCP server to connect and list its tools.
    #[arg(long, value_name = "MS", default_value_t = 30_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    server_timeout_ms: u64,
}

/// The answers of MCP servers.
#[derive(Default)]
pub(super) struct ServerAnswers {
    /// One file per server that sent tools.
    pub(super) files: Vec<CatalogFile>,
    /// These servers, in the order of the files.
    pub(super) servers: Vec<Server>,
    /// Messages about servers or tools that are missing.
    pub(super) missing: Vec<String>,
}

/// Returns the cache of servers that all commands share; `None` if there is no folder for it.
pub(super) fn cache() -> Option<ToolListCache> {
    let folder = crate::args::default_cache_dir()?;
    Some(ToolListCache::new(folder.join("mcp")))
}

/// Reads a file of variables that a configuration names.
fn read_variables(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    let length = file
        .take(MAX_VARIABLES_BYTES + 1)
        .read_to_string(&mut text)?;
    if length as u64 > MAX_VARIABLES_BYTES {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

/// Parses a configuration file.
pub(super) fn configuration(path: &Path, text: &str) -> anyhow::Result<Configuration> {
    let variable = |name: &str| std::env::var(name).ok();
    // A bare name and `-` have an empty parent, which stands for the working folder.
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => std::path::absolute(folder),
        _ => std::env::current_dir(),
    };
    let folder = folder.context("cannot find the folder of the configuration")?;
    mcp::parse_configuration(
        text,
        &ConfigEnvironment {
            variable: &variable,
            folder: &folder,
            read: &read_variables,
        },
    )
    .with_context(|| format!("cannot read the configuration {}", path.display()))
}

/// Asks several servers at the same time, with a progress bar. Returns the answers in order.
pub(super) fn ask_each<T>(
    servers: &[Server],
    ask: impl AsyncFn(&Server) -> T,
) -> anyhow::Result<Vec<T>> {
    let progress = ProgressBar::new(servers.len() as u64);
    progress.set_style(
        ProgressStyle::with_template("{spinner} {pos}/{len} MCP servers").context("progress")?,
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let answers = runtime.block_on(async {
        let mut signals = Signals::listen();
        let permits = Semaphore::new(MAX_CONCURRENT);
        let ask_one = |server| {
            let (permits, progress, ask) = (&permits, &progress, &ask);
            async move {
                // The semaphore is never closed.
                let _permit = permits.acquire().await;
                let answer = ask(server).await;
                progress.inc(1);
                answer
            }
        };
        tokio::select! {
            answers = futures_util::future::join_all(servers.iter().map(ask_one)) => Some(answers),
            // Dropping the requests ends the programs that they started.
            _ = signals.next() => None,
        }
    });
    progress.finish_and_clear();
    answers.context("interrupted; the started MCP servers were stopped")
}

/// Describes in one line why a server listed no tools.
pub(super) fn describe(error: &ListError) -> String {
    let mut text = error.message.clone();
    let start = error.stderr.len().saturating_sub(MAX_STDERR_LINES);
    let lines = &error.stderr[start..];
    if !lines.is_empty() {
        text.push_str(&format!("; its last output was: {}", lines.join(" | ")));
    }
    text
}

impl LiveArgs {
    /// Returns options that ignore the cache, unless --offline is set.
    pub(super) fn refreshed(&self) -> Self {
        Self {
            refresh: !self.offline,
            ..self.clone()
        }
    }

    /// Returns the limits of a server.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            time: Duration::from_millis(self.server_timeout_ms),
            ..Limits::default()
        }
    }

    /// Lists the tools of all servers of a configuration.
    pub(super) fn tools(&self, configuration: &Configuration) -> anyhow::Result<ServerAnswers> {
        let mut answers = ServerAnswers::default();
        answers
            .missing
            .extend(configuration.faults.iter().map(ToString::to_string));
        output::warnings(&configuration.warnings, "");
        if !configuration.disabled.is_empty() {
            output::note(format!("disabled: {}", configuration.disabled.join(", ")));
        }
        if !configuration.built_in.is_empty() {
            let names = configuration.built_in.join(", ");
            output::note(format!(
                "skipped, because they run inside their client: {names}"
            ));
        }
        let servers = &configuration.servers;
        let results = ask_each(servers, async |server: &Server| {
            self.server_tools(server).await
        })?;
        for (server, answer) in servers.iter().zip(results) {
            let (tools, missing) = answer;
            answers.missing.extend(missing);
            if let Some(tools) = tools {
                answers
                    .files
                    .push(CatalogFile::from_server(&server.name, &*tools));
                answers.servers.push(server.clone());
            }
        }
        Ok(answers)
    }

    /// Lists the tools of one server. Also returns a message if tools are missing.
    async fn server_tools(&self, server: &Server) -> (Option<Arc<[Value]>>, Option<String>) {
        let cache = cache();
        let cached = cache.as_ref().and_then(|cache| cache.get(server));
        match cached {
            Some((listing, age)) if self.offline || (!self.refresh && age < MAX_AGE) => {
                return (Some(listing.tools), None);
            }
            None if self.offline => {
                let missing = format!(
                    "{}: its tools are not in the cache; run without --offline",
                    server.name
                );
                return (None, Some(missing));
            }
            _ => {}
        }
        let environment = |name: &str| std::env::var_os(name);
        let limits = self.limits();
        match picktools_mcp::list(server, &environment, &limits, cache.as_ref()).await {
            Ok(listing) if listing.incomplete.is_none() => {
                if let Some(cache) = cache {
                    cache.put(server, &listing);
                }
                (Some(listing.tools), None)
            }
            Ok(Listing {
                tools, incomplete, ..
            }) => {
                let reason = incomplete.unwrap_or_default();
                let name = &server.name;
                let missing = format!("{name}: some of its tools are missing: {reason}");
                (Some(tools), Some(missing))
            }
            Err(error) => {
                let reason = format!("{}: {}", error.server, describe(&error));
                let Some((listing, age)) = cached else {
                    return (None, Some(reason));
                };
                let age = age.as_secs() / 60;
                let reason = format!("{reason}; using its tools of {age} minutes ago");
                (Some(listing.tools), Some(reason))
            }
        }
    }
}
