//! Tools of MCP servers, asked for them once per run and kept for a while.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use picktools::catalog::CatalogFile;
use picktools_import::mcp;
use picktools_import::mcp::{Configuration, Server, Surroundings};
use picktools_mcp::{KeptTools, Limits, Listing};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::interruption::interrupted;
use crate::{heading, output};

/// How long tools that a server sent are used without asking it again.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);
/// How many servers are asked at once.
const AT_ONCE: usize = 16;

/// How MCP servers are asked.
#[derive(Args, Clone)]
#[command(next_help_heading = heading::CATALOG)]
pub(super) struct LiveArgs {
    /// Ask MCP servers for their tools again, also where what they sent within the last hour is in
    /// the cache.
    #[arg(long, conflicts_with = "offline")]
    refresh: bool,
    /// Do not start or call MCP servers; use what they sent before, however long ago.
    #[arg(long)]
    offline: bool,
    /// How long each MCP server may take, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(1..))]
    server_timeout_ms: u64,
}

/// What became of the servers.
#[derive(Default)]
pub(super) struct Answers {
    /// A file for each server that gave tools.
    pub(super) files: Vec<CatalogFile>,
    /// These servers, in the same order.
    pub(super) servers: Vec<Server>,
    /// What is missing, and why.
    pub(super) missing: Vec<String>,
}

/// Reads a configuration file.
pub(super) fn configuration(path: &Path, text: &str) -> anyhow::Result<Configuration> {
    let variable = |name: &str| std::env::var(name).ok();
    // A bare name, and `-`, have an empty parent: they stand for the folder that the program works
    // in.
    let folder = match path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        Some(folder) => std::path::absolute(folder),
        None => std::env::current_dir(),
    };
    let folder = folder.context("cannot tell the folder of the configuration")?;
    mcp::read(
        text,
        &Surroundings {
            variable: &variable,
            folder: &folder,
        },
    )
    .with_context(|| format!("cannot read the configuration {}", path.display()))
}

impl LiveArgs {
    /// Asks servers anew.
    pub(super) fn refreshed(&self) -> Self {
        Self {
            refresh: !self.offline,
            ..self.clone()
        }
    }

    /// How long a server may take.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            time: Duration::from_millis(self.server_timeout_ms),
            ..Limits::default()
        }
    }

    /// The tools of the servers of a configuration.
    pub(super) fn tools(&self, configuration: &Configuration) -> anyhow::Result<Answers> {
        let mut answers = Answers::default();
        answers
            .missing
            .extend(configuration.faults.iter().map(ToString::to_string));
        if !configuration.disabled.is_empty() {
            output::note(format!(
                "switched off: {}",
                configuration.disabled.join(", ")
            ));
        }
        let servers = &configuration.servers;
        let progress = ProgressBar::new(servers.len() as u64);
        progress.set_style(
            ProgressStyle::with_template("{spinner} {pos}/{len} MCP servers")
                .context("progress")?,
        );
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let asked = runtime.block_on(async {
            let permits = Semaphore::new(AT_ONCE);
            let ask = |server| {
                let (permits, progress) = (&permits, &progress);
                async move {
                    // The semaphore is never closed.
                    let _permit = permits.acquire().await;
                    let answer = self.tools_of(server).await;
                    progress.inc(1);
                    answer
                }
            };
            tokio::select! {
                asked = futures_util::future::join_all(servers.iter().map(ask)) => Some(asked),
                // What is let go of ends the programs that it started.
                () = interrupted() => None,
            }
        });
        progress.finish_and_clear();
        let asked = asked.context("interrupted; the MCP servers that were started are ended")?;
        for (server, answer) in servers.iter().zip(asked) {
            let (tools, missing) = answer;
            answers.missing.extend(missing);
            if let Some(tools) = tools {
                answers
                    .files
                    .push(CatalogFile::of_server(&server.name, &tools));
                answers.servers.push(server.clone());
            }
        }
        Ok(answers)
    }

    /// The tools of one server, and what is missing.
    async fn tools_of(&self, server: &Server) -> (Option<Vec<Value>>, Option<String>) {
        let cache =
            crate::args::default_cache_dir().map(|folder| KeptTools::new(folder.join("mcp")));
        let kept = cache.as_ref().and_then(|cache| cache.get(server));
        match kept {
            Some((tools, age)) if self.offline || (!self.refresh && age < MAX_AGE) => {
                return (Some(tools), None);
            }
            None if self.offline => {
                let missing = format!(
                    "{}: nothing that it sent is in the cache; ask it without --offline",
                    server.name
                );
                return (None, Some(missing));
            }
            _ => {}
        }
        match picktools_mcp::list(server, &|name| std::env::var_os(name), &self.limits()).await {
            Ok(Listing {
                tools,
                incomplete: None,
                ..
            }) => {
                if let Some(cache) = cache {
                    cache.put(server, &tools);
                }
                (Some(tools), None)
            }
            Ok(Listing {
                tools,
                incomplete: Some(reason),
                ..
            }) => (
                Some(tools),
                Some(format!(
                    "{}: some of its tools are missing: {reason}",
                    server.name
                )),
            ),
            Err(error) => match kept {
                Some((tools, age)) => {
                    let age = age.as_secs() / 60;
                    (
                        Some(tools),
                        Some(format!(
                            "{error}\n  its tools of {age} minutes ago are used"
                        )),
                    )
                }
                None => (None, Some(error.to_string())),
            },
        }
    }
}
