//! `picktools import mcp --watch`: a catalog that follows its servers.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use picktools_import::mcp::Server;
use picktools_mcp::{Connection, Handshake, Limits, Listing, ToolChanges};
use serde_json::Value;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::interruption::interrupted;
use crate::output;

/// What changes within this time is written together.
const TOGETHER: Duration = Duration::from_millis(300);
/// How often servers are asked that say nothing.
const NOW_AND_THEN: Duration = Duration::from_secs(300);
/// How often is looked whether a server is there.
const LOOK: Duration = Duration::from_secs(1);
/// How long after a failure a server is started again: at first, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// What was heard of the server of a number.
type Heard = (usize, Result<Listing, String>);

/// The servers, each with the tools that it sent last.
pub(super) struct Followed {
    tools: Vec<(String, Option<Vec<Value>>)>,
    /// Why tools are missing, of those servers of which they are.
    pub(super) missing: Vec<Option<String>>,
}

impl Followed {
    fn hear(&mut self, (number, heard): Heard) {
        let missing = match heard {
            Ok(listing) => {
                self.tools[number].1 = Some(listing.tools);
                listing.incomplete
            }
            Err(message) => Some(message),
        };
        let missing = missing.map(|reason| format!("{}: {reason}", self.tools[number].0));
        if let Some(missing) = missing
            .as_ref()
            .filter(|missing| self.missing[number].as_ref() != Some(missing))
        {
            output::warn(missing);
        }
        self.missing[number] = missing;
    }

    /// Whether each server has said something, if only that it cannot be reached.
    fn is_complete(&self) -> bool {
        self.tools
            .iter()
            .zip(&self.missing)
            .all(|((_, tools), missing)| tools.is_some() || missing.is_some())
    }

    /// The servers that sent tools, with these.
    pub(super) fn tools(&self) -> impl Iterator<Item = (&str, &[Value])> {
        self.tools
            .iter()
            .filter_map(|(name, tools)| Some((name.as_str(), tools.as_deref()?)))
    }
}

/// Writes the file anew whenever `lines` makes something else of the tools of the servers, until it
/// is interrupted.
pub(super) fn watch(
    servers: Vec<Server>,
    limits: Limits,
    path: &Path,
    lines: impl Fn(&Followed) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let (tell, heard) = mpsc::channel(16);
        let names = servers
            .iter()
            .map(|server| (server.name.clone(), None))
            .collect();
        let followed = Followed {
            missing: vec![None; servers.len()],
            tools: names,
        };
        // Dropped, they let go of their connections, which ends what they started.
        let mut tasks = JoinSet::new();
        for (number, server) in servers.into_iter().enumerate() {
            tasks.spawn(follow(number, server, limits, tell.clone()));
        }
        tokio::select! {
            written = write(heard, followed, path, lines) => written,
            () = interrupted() => Ok(()),
        }
    })
}

async fn write(
    mut heard: Receiver<Heard>,
    mut followed: Followed,
    path: &Path,
    lines: impl Fn(&Followed) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let mut written = None;
    while let Some(first) = heard.recv().await {
        followed.hear(first);
        while let Ok(Some(more)) = timeout(TOGETHER, heard.recv()).await {
            followed.hear(more);
        }
        if !followed.is_complete() {
            continue;
        }
        let text = lines(&followed)?;
        if written.as_ref() != Some(&text) {
            picktools::disk::write(path, text.as_bytes())
                .with_context(|| format!("{}", path.display()))?;
            output::note(format!(
                "{} tools written to {}",
                text.lines().count(),
                path.display()
            ));
            written = Some(text);
        }
    }
    Ok(())
}

/// Tells of a server's tools whenever they may have changed, and starts it again when it has ended.
async fn follow(number: usize, server: Server, limits: Limits, tell: Sender<Heard>) {
    let mut again = AGAIN.0;
    loop {
        let changes = ToolChanges::default();
        let environment = |name: &str| std::env::var_os(name);
        let deadline = Instant::now() + limits.time;
        let handshake = Handshake::KnownFirst;
        match Connection::open(
            &server,
            &environment,
            deadline,
            &limits,
            handshake,
            changes.clone(),
        )
        .await
        {
            Ok(connection) => {
                again = AGAIN.0;
                while !connection.is_closed() {
                    let listed = connection
                        .tools(Instant::now() + limits.time, &limits)
                        .await;
                    let failed = listed.is_err();
                    if tell.send((number, listed)).await.is_err() || failed {
                        break;
                    }
                    tokio::select! {
                        () = changes.changed() => sleep(TOGETHER).await,
                        () = sleep(NOW_AND_THEN) => {}
                        () = closed(&connection) => {}
                    }
                }
                drop(connection.end().await);
            }
            Err(error) => {
                if tell.send((number, Err(error.to_string()))).await.is_err() {
                    return;
                }
            }
        }
        sleep(again).await;
        again = (again * 2).min(AGAIN.1);
    }
}

async fn closed(connection: &Connection) {
    while !connection.is_closed() {
        sleep(LOOK).await;
    }
}
