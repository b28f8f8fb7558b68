//! What all clients of a gateway share: the upstreams, and what there is now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::refusal::{Code, Refusal};
use crate::rounds::Rounds;
use crate::settings::Share;
use crate::snapshot::Snapshot;
use crate::upstream::{Owner, Upstream};

/// What all clients of a gateway share.
pub(crate) struct Hub {
    pub(crate) upstreams: BTreeMap<String, Arc<Upstream>>,
    pub(crate) snapshot: watch::Sender<Arc<Snapshot>>,
    /// Whether each upstream has said something, if only that it cannot be reached.
    pub(crate) complete: watch::Sender<bool>,
    /// The upstreams that were asked for their tools since the start, and whose answer is in the snapshot.
    /// Why those were not that could not be.
    pub(crate) live: watch::Sender<BTreeMap<String, Result<(), String>>>,
    pub(crate) rounds: Rounds,
    pub(crate) instructions: String,
    pub(crate) share: Share,
}

impl Hub {
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.borrow())
    }

    pub(crate) fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.subscribe()
    }

    pub(crate) fn upstream(&self, name: &str) -> Option<Arc<Upstream>> {
        self.upstreams.get(name).cloned()
    }

    pub(crate) fn forget(&self, owner: &Owner) {
        for upstream in self.upstreams.values() {
            upstream.forget(owner);
        }
    }

    pub(crate) fn upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.upstreams.values()
    }

    pub(crate) fn share(&self) -> Share {
        self.share
    }

    pub(crate) fn instructions(&self) -> String {
        self.instructions.clone()
    }

    /// Waits until an upstream has said which tools it has today, so that none is called under a definition of the past.
    /// Returns whether it had to wait.
    pub(crate) async fn asked(&self, upstream: &Upstream, time: Duration) -> Result<bool, Refusal> {
        let name = &upstream.server.name;
        let mut live = self.live.subscribe();
        if live.borrow_and_update().get(name) == Some(&Ok(())) {
            return Ok(false);
        }
        upstream.wake();
        let said = timeout(time, live.wait_for(|live| live.contains_key(name))).await;
        let said = said.ok().and_then(Result::ok).and_then(|live| live.get(name).cloned());
        let why = match said {
            Some(Ok(())) => return Ok(true),
            Some(Err(why)) => why,
            None => "it has not said yet which tools it has".to_owned(),
        };
        Err(Refusal::new(Code::UpstreamDown, format!("{} cannot be reached: {why}", upstream.shown())))
    }

    /// Waits until each upstream has said something, but not for ever.
    pub(crate) async fn listed(&self, time: Duration) {
        let mut complete = self.complete.subscribe();
        drop(timeout(time, complete.wait_for(|complete| *complete)).await);
    }
}
