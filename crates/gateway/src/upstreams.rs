//! All upstreams of a gateway: their connections, the tasks that follow their lists of tools, and
//! the results of their first lists.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use futures_util::future::join_all;
use picktools_import::mcp::Server;
use picktools_state::keys::now;
use picktools_state::lock;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::refusal::{Code, Refusal};
use crate::settings::{Share, UpstreamRules};
use crate::upstream::{Owner, ToolListWatcher, Upstream, UpstreamContext, UpstreamListing};

/// The time that upstreams have to stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The servers of a gateway with their rules, by name.
pub(crate) type PlannedUpstreams = BTreeMap<String, (Server, UpstreamRules)>;
/// The results of the last listings, by upstream. An error is the reason of the failure.
pub(crate) type LiveResults = BTreeMap<String, Result<(), String>>;

/// The upstreams of a gateway.
pub struct Upstreams {
    by_name: RwLock<BTreeMap<String, Arc<Upstream>>>,
    /// The tasks that follow the upstreams, by name.
    following: Mutex<BTreeMap<String, JoinHandle<()>>>,
    /// The receiver of their lists.
    listings: mpsc::Sender<UpstreamListing>,
    /// `true` once the gateway has the tools of all upstreams.
    is_complete: watch::Receiver<bool>,
    /// The upstreams that were asked for their tools since the start: the answer is in the
    /// snapshot, or the reason why not.
    live: watch::Sender<LiveResults>,
    context: UpstreamContext,
    share: Share,
    /// The time of the start, in seconds since 1970.
    started: u64,
}

impl Upstreams {
    /// Creates the collection without upstreams. `listings` receives their lists of tools.
    /// `is_complete` says whether all have reported.
    pub(crate) fn new(
        context: UpstreamContext,
        share: Share,
        listings: mpsc::Sender<UpstreamListing>,
        is_complete: watch::Receiver<bool>,
    ) -> Self {
        Self {
            by_name: RwLock::default(),
            following: Mutex::default(),
            listings,
            is_complete,
            live: watch::Sender::default(),
            context,
            share,
            started: now(),
        }
    }

    /// Returns an upstream.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Upstream>> {
        self.read().get(name).cloned()
    }

    /// Returns all upstreams, by name.
    pub fn all(&self) -> Vec<Arc<Upstream>> {
        self.read().values().cloned().collect()
    }

    /// Returns the time of the start, in seconds since 1970.
    pub(crate) fn started(&self) -> u64 {
        self.started
    }

    /// Returns the default for sharing connections.
    pub(crate) fn share(&self) -> Share {
        self.share
    }

    /// Returns the notification of changed circuit breakers, and of other upstreams.
    pub(crate) fn circuit_changes(&self) -> Arc<Notify> {
        Arc::clone(&self.context.circuit_changed)
    }

    /// Follows new and changed upstreams, and stops the removed ones.
    pub(crate) fn replace(&self, planned: PlannedUpstreams) {
        let mut upstreams = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        let mut following = lock(&self.following);
        let mut new_upstreams = BTreeMap::new();
        for (name, (server, rules)) in planned {
            if let Some(unchanged) = upstreams.get(&name)
                && unchanged.server == server
                && unchanged.rules == rules
            {
                new_upstreams.insert(name, Arc::clone(unchanged));
                continue;
            }
            let upstream = Upstream::new(server, rules, self.context.clone());
            self.live.send_modify(|live| drop(live.remove(&name)));
            let (listings, is_complete) = (self.listings.clone(), self.is_complete.clone());
            let watcher = ToolListWatcher::new(Arc::clone(&upstream), listings, is_complete);
            let task = tokio::spawn(watcher.run());
            if let Some(previous) = following.insert(name.clone(), task) {
                previous.abort();
            }
            new_upstreams.insert(name, upstream);
        }
        let previous = std::mem::replace(&mut *upstreams, new_upstreams);
        for (name, upstream) in previous {
            if upstreams
                .get(&name)
                .is_some_and(|now| Arc::ptr_eq(now, &upstream))
            {
                continue;
            }
            if !upstreams.contains_key(&name)
                && let Some(task) = following.remove(&name)
            {
                task.abort();
            }
            drop(tokio::spawn(async move { upstream.retire().await }));
        }
        self.context.circuit_changed.notify_one();
    }

    /// Returns the result of an upstream's last listing: an error if it is unreachable, `None`
    /// before the first listing.
    pub fn live_result(&self, name: &str) -> Option<Result<(), String>> {
        self.live.borrow().get(name).cloned()
    }

    /// Changes the results of the last listings.
    pub(crate) fn update_live_results(&self, update: impl FnOnce(&mut LiveResults)) {
        self.live.send_modify(update);
    }

    /// Waits until an upstream has listed its tools since the start, so that no call runs with a
    /// cached definition. Returns `true` if it had to wait.
    pub(crate) async fn wait_for_live_tools(
        &self,
        upstream: &Upstream,
        time: Duration,
    ) -> Result<bool, Refusal> {
        let name = &upstream.server.name;
        let mut live = self.live.subscribe();
        if live.borrow_and_update().get(name) == Some(&Ok(())) {
            return Ok(false);
        }
        upstream.request_start();
        let result = match timeout(time, live.wait_for(|live| live.contains_key(name))).await {
            Ok(Ok(live_results)) => live_results.get(name).cloned(),
            _ => None,
        };
        let reason = match result {
            Some(Ok(())) => return Ok(true),
            Some(Err(reason)) => reason,
            None => "it has not listed its tools yet".to_owned(),
        };
        let refusal = Refusal::new(
            Code::UpstreamDown,
            format!("{} cannot be reached: {reason}", upstream.display_name()),
        );
        Err(upstream.text_scan().refusal(refusal))
    }

    /// Ends the connections of an owner.
    pub(crate) fn forget(&self, owner: &Owner) {
        for upstream in self.all() {
            upstream.forget(owner);
        }
    }

    /// Stops the tasks that follow the upstreams.
    pub(crate) fn stop_following(&self) {
        lock(&self.following).values().for_each(JoinHandle::abort);
    }

    /// Ends all connections gracefully.
    pub(crate) async fn end(&self) {
        let upstreams = self.all();
        let ended = join_all(upstreams.iter().map(|upstream| upstream.end()));
        drop(timeout(SHUTDOWN_TIMEOUT, ended).await);
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<Upstream>>> {
        self.by_name.read().unwrap_or_else(PoisonError::into_inner)
    }
}
