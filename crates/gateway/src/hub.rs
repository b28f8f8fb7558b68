//! What all clients of a gateway share: the upstreams, and what there is now.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use picktools::Catalog;
use picktools_state::Store;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::journal::Journal;
use crate::metrics::Meter;
use crate::pins::Pins;
use crate::queue::CallQueue;
use crate::refusal::{Code, Refusal};
use crate::rounds::Rounds;
use crate::sessions::Sessions;
use crate::settings::{Settings, Share};
use crate::snapshot::Snapshot;
use crate::upstream::{Environment, Owner, Upstream};

/// How many servers are named to a model.
const MAX_NAMED: usize = 20;

/// The state that all clients of a gateway share.
pub struct Hub {
    pub(crate) upstreams: RwLock<BTreeMap<String, Arc<Upstream>>>,
    pub(crate) settings: RwLock<Arc<Settings>>,
    /// Tools that no upstream has: they can be picked, and not called.
    pub(crate) catalog: RwLock<Option<Catalog>>,
    /// Told when any of these has become another.
    pub(crate) replaced: Notify,
    pub(crate) snapshot: watch::Sender<Arc<Snapshot>>,
    /// Whether each upstream has said something, if only that it cannot be reached.
    pub(crate) complete: watch::Sender<bool>,
    /// The upstreams that were asked for their tools since the start, and whose answer is in the
    /// snapshot; or why they are not.
    pub(crate) live: watch::Sender<BTreeMap<String, Result<(), String>>>,
    pub(crate) rounds: Rounds,
    /// The calls that wait for the operator; without it they are refused.
    pub queue: Option<CallQueue>,
    /// The store in which it shares with other gateways what is not approvals or calls.
    pub store: Option<Store>,
    /// The sessions of all of them.
    pub sessions: Option<Sessions>,
    /// The definitions that were approved; without it all are believed.
    pub pins: Option<Pins>,
    pub(crate) share: Share,
    /// The meter that hears what happens.
    pub meter: Arc<dyn Meter>,
    /// The record of what is decided.
    pub journal: Journal,
    /// The environment of the gateway, for the keys of providers and what servers are started with.
    pub environment: Arc<Environment>,
}

impl Hub {
    /// Returns what there is now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.borrow())
    }

    pub(crate) fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.subscribe()
    }

    pub(crate) fn upstream(&self, name: &str) -> Option<Arc<Upstream>> {
        self.read_upstreams().get(name).cloned()
    }

    pub(crate) fn forget(&self, owner: &Owner) {
        for upstream in self.upstreams() {
            upstream.forget(owner);
        }
    }

    fn read_upstreams(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<Upstream>>> {
        self.upstreams
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the servers behind the gateway, by name.
    pub fn upstreams(&self) -> Vec<Arc<Upstream>> {
        self.read_upstreams().values().cloned().collect()
    }

    /// Returns the settings that hold now.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn catalog(&self) -> Option<Catalog> {
        self.catalog
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn share(&self) -> Share {
        self.share
    }

    /// What a model is told of the gateway. What upstreams say of themselves is not passed on:
    /// nobody has approved it.
    pub(crate) fn instructions(&self) -> String {
        let names: Vec<String> = self.read_upstreams().keys().cloned().collect();
        let mut named = names
            .iter()
            .take(MAX_NAMED)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        if names.len() > MAX_NAMED {
            named.push_str(&format!(" and {} more", names.len() - MAX_NAMED));
        }
        let servers = if names.len() == 1 {
            "server"
        } else {
            "servers"
        };
        format!(
            "Tools of {} {servers}: {named}. Where search_tools is listed, find tools with it by what you want to do, and run \
             them with call_tool. Not carried: roots, tasks.",
            names.len()
        )
    }

    /// Waits until an upstream has said which tools it has today, so that none is called under a
    /// definition of the past. Returns whether it had to wait.
    pub(crate) async fn asked(&self, upstream: &Upstream, time: Duration) -> Result<bool, Refusal> {
        let name = &upstream.server.name;
        let mut live = self.live.subscribe();
        if live.borrow_and_update().get(name) == Some(&Ok(())) {
            return Ok(false);
        }
        upstream.wake();
        let said = timeout(time, live.wait_for(|live| live.contains_key(name))).await;
        let said = said
            .ok()
            .and_then(Result::ok)
            .and_then(|live| live.get(name).cloned());
        let why = match said {
            Some(Ok(())) => return Ok(true),
            Some(Err(why)) => why,
            None => "it has not said yet which tools it has".to_owned(),
        };
        Err(Refusal::new(
            Code::UpstreamDown,
            format!("{} cannot be reached: {why}", upstream.shown()),
        ))
    }

    /// Returns `true` if each upstream has said something, if only that it cannot be reached.
    pub fn is_complete(&self) -> bool {
        *self.complete.borrow()
    }

    /// Returns how it went when an upstream was last asked for its tools: why it is not there for
    /// an error, `None` before it was.
    pub fn said_of(&self, upstream: &str) -> Option<Result<(), String>> {
        self.live.borrow().get(upstream).cloned()
    }

    /// Waits until each upstream has said something, but not for ever.
    pub fn listed(&self, time: Duration) -> BoxFuture<'_, ()> {
        let listed = async move {
            let mut complete = self.complete.subscribe();
            drop(timeout(time, complete.wait_for(|complete| *complete)).await);
        };
        listed.boxed()
    }
}
