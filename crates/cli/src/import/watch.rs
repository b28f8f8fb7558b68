//! `picktools import mcp --watch`: a catalog that follows the tools of its servers.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use picktools_import::mcp::Server;
use picktools_mcp::{ConnectOptions, Connection, Handshake, Limits, Listing, ToolChanges};
use serde_json::Value;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::interruption::Signals;
use crate::{live, output};

/// Changes within this time are written together.
const DEBOUNCE: Duration = Duration::from_millis(300);
/// The interval after which a server without notifications is asked again.
const POLL_INTERVAL: Duration = Duration::from_secs(300);
/// The first and the longest pause before a failed server is started pause.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The number of a server, with its tools or the cause of its failure.
type ServerUpdate = (usize, Result<Listing, String>);

/// The watched servers, each with its latest tools.
pub(super) struct WatchedServers {
    tools: Vec<(String, Option<Arc<[Value]>>)>,
    /// The reasons of missing tools, by server.
    pub(super) missing: Vec<Option<String>>,
}

impl WatchedServers {
    fn update(&mut self, (number, result): ServerUpdate) {
        let missing = match result {
            Ok(listing) => {
                self.tools[number].1 = Some(listing.tools);
                listing.incomplete
            }
            Err(message) => Some(message),
        };
        let missing = missing.map(|reason| format!("{}: {reason}", self.tools[number].0));
        if let Some(missing) = &missing
            && self.missing[number].as_ref() != Some(missing)
        {
            output::warn(missing);
        }
        self.missing[number] = missing;
    }

    /// Returns `true` if each server has sent tools or failed.
    fn is_complete(&self) -> bool {
        self.tools
            .iter()
            .zip(&self.missing)
            .all(|((_, tools), missing)| tools.is_some() || missing.is_some())
    }

    /// Returns the servers that sent tools, with these.
    pub(super) fn tools(&self) -> impl Iterator<Item = (&str, &[Value])> {
        self.tools
            .iter()
            .filter_map(|(name, tools)| Some((name.as_str(), tools.as_deref()?)))
    }
}

/// Writes the file whenever the result of `lines` changes, until the command is interrupted.
pub(super) fn watch(
    servers: Vec<Server>,
    limits: Limits,
    path: &Path,
    lines: impl Fn(&WatchedServers) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut signals = Signals::listen();
        let (sender, updates) = mpsc::channel(16);
        let names = servers
            .iter()
            .map(|server| (server.name.clone(), None))
            .collect();
        let watched = WatchedServers {
            missing: vec![None; servers.len()],
            tools: names,
        };
        // Dropping the tasks closes their connections, which ends the programs that they started.
        let mut tasks = JoinSet::new();
        for (number, server) in servers.into_iter().enumerate() {
            tasks.spawn(follow(number, server, limits, sender.clone()));
        }
        tokio::select! {
            result = write(updates, watched, path, lines) => result,
            _ = signals.next() => Ok(()),
        }
    })
}

async fn write(
    mut updates: Receiver<ServerUpdate>,
    mut watched: WatchedServers,
    path: &Path,
    lines: impl Fn(&WatchedServers) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let mut written = None;
    while let Some(first) = updates.recv().await {
        watched.update(first);
        while let Ok(Some(more)) = timeout(DEBOUNCE, updates.recv()).await {
            watched.update(more);
        }
        if !watched.is_complete() {
            continue;
        }
        let text = lines(&watched)?;
        if written.as_ref() != Some(&text) {
            picktools::disk::write(path, text.as_bytes())
                .with_context(|| format!("{}", path.display()))?;
            output::note(format!(
                "wrote {} tools to {}",
                text.lines().count(),
                path.display()
            ));
            written = Some(text);
        }
    }
    Ok(())
}

/// Sends a server's tools whenever they may have changed, and restarts the server after its end.
async fn follow(number: usize, server: Server, limits: Limits, sender: Sender<ServerUpdate>) {
    let mut pause = BACKOFF.0;
    loop {
        let changes = ToolChanges::default();
        let cache = live::cache();
        let options = ConnectOptions {
            environment: &|name: &str| std::env::var_os(name),
            deadline: Instant::now() + limits.time,
            limits: &limits,
            handshake: Handshake::LegacyFirst,
            cache: cache.as_ref(),
        };
        match Connection::open(&server, &options, changes.clone()).await {
            Ok(connection) => {
                pause = BACKOFF.0;
                while !connection.is_closed() {
                    let listed = connection
                        .tools(Instant::now() + limits.time, &limits)
                        .await;
                    let failed = listed.is_err();
                    if sender.send((number, listed)).await.is_err() || failed {
                        break;
                    }
                    tokio::select! {
                        () = changes.changed() => sleep(DEBOUNCE).await,
                        () = sleep(POLL_INTERVAL) => {}
                        () = connection.closed() => {}
                    }
                }
                drop(connection.end().await);
            }
            Err(error) => {
                if sender.send((number, Err(error.to_string()))).await.is_err() {
                    return;
                }
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(BACKOFF.1);
    }
}
