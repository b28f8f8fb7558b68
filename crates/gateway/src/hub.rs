//! The state that all clients of a gateway share: the upstreams and the current snapshot.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use picktools::Catalog;
use picktools_call::{CallError, Repairer};
use picktools_state::StateStore;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout, timeout_at};

use crate::active_requests::ActiveRequests;
use crate::elicitations::PendingElicitations;
use crate::journal::Journal;
use crate::large_results::LargeResults;
use crate::metrics::Meter;
use crate::pins::Pins;
use crate::queue::CallQueue;
use crate::refusal::{Code, Refusal};
use crate::remembered::SessionApprovals;
use crate::repairs::WaitingRepairs;
use crate::sessions::Sessions;
use crate::settings::{Settings, Share};
use crate::snapshot::{Snapshot, View};
use crate::upstream::{Environment, Owner, ServerDown, Upstream};

/// The longest time that a call waits for the first tool list of its upstream.
pub(crate) const FIRST_LISTING_TIMEOUT: Duration = Duration::from_secs(20);

/// The state that all clients of a gateway share.
pub struct Hub {
    pub(crate) upstreams: RwLock<BTreeMap<String, Arc<Upstream>>>,
    pub(crate) settings: RwLock<Arc<Settings>>,
    /// Tools that no upstream runs: they can be picked but not called.
    pub(crate) catalog: RwLock<Option<Catalog>>,
    /// Notified after a change of any of these.
    pub(crate) replaced: Notify,
    pub(crate) snapshot: watch::Sender<Arc<Snapshot>>,
    /// `true` once each upstream has reported, even if only that it is unreachable.
    pub(crate) complete: watch::Sender<bool>,
    /// The upstreams that were asked for their tools since the start: the answer is in the
    /// snapshot, or the reason why not.
    pub(crate) live: watch::Sender<BTreeMap<String, Result<(), String>>>,
    /// The requests under way, which the gateway finishes before it ends.
    pub active: ActiveRequests,
    pub(crate) elicitations: PendingElicitations,
    pub(crate) session_approvals: SessionApprovals,
    pub(crate) large_results: LargeResults,
    /// Rewrites invalid arguments.
    pub(crate) repairer: Option<Arc<dyn Repairer>>,
    pub(crate) waiting_repairs: WaitingRepairs,
    /// The calls that are pending approval. If `None`, they are refused.
    pub queue: Option<CallQueue>,
    /// The store for shared state other than approvals and calls.
    pub store: Option<StateStore>,
    /// The sessions of all gateways.
    pub sessions: Option<Sessions>,
    /// Approved tool definitions. If `None`, every definition is trusted.
    pub pins: Option<Pins>,
    pub(crate) share: Share,
    /// The time of its start, in seconds since 1970.
    pub(crate) started: u64,
    /// The end of the time in which lists wait for upstreams.
    pub(crate) list_deadline: Instant,
    /// `true` if the last snapshot could not be built, so that an earlier one is in use.
    pub(crate) build_failed: AtomicBool,
    /// The receiver of events.
    pub meter: Arc<dyn Meter>,
    /// The journal of decisions.
    pub journal: Journal,
    /// The environment, for provider keys and for the programs of servers.
    pub environment: Arc<Environment>,
}

impl Hub {
    /// Returns the current snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.borrow())
    }

    pub(crate) fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.subscribe()
    }

    pub(crate) fn upstream(&self, name: &str) -> Option<Arc<Upstream>> {
        self.read_upstreams().get(name).cloned()
    }

    /// Returns the servers that cannot be used and that the role of a view may know.
    pub fn servers_down(&self, view: &View) -> Vec<ServerDown> {
        let mut down = Vec::new();
        for upstream in self.upstreams() {
            let server = &upstream.server.name;
            if !view.servers.may_know(server) {
                continue;
            }
            match upstream.server_down() {
                None if self.is_starting(server) => {
                    down.push(ServerDown::starting(server, self.started));
                }
                state => down.extend(state),
            }
        }
        down
    }

    /// Returns `true` if a server has sent no tools yet, and has not failed either.
    fn is_starting(&self, server: &str) -> bool {
        if self.is_complete() || self.live.borrow().contains_key(server) {
            return false;
        }
        let snapshot = self.snapshot();
        let mut tools = snapshot.engine.catalog().tools().iter();
        !tools.any(|tool| tool.source.as_deref() == Some(server))
    }

    pub(crate) fn forget(&self, owner: &Owner) {
        self.session_approvals.forget(owner);
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

    /// Returns the current settings.
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

    /// Returns `true` if each upstream has reported, even if only that it is unreachable.
    pub fn is_complete(&self) -> bool {
        *self.complete.borrow()
    }

    /// Returns `true` if the tools in use are outdated, because a snapshot could not be built.
    pub fn is_outdated(&self) -> bool {
        self.build_failed.load(Ordering::Relaxed)
    }

    /// Returns the result of an upstream's last listing: an error if it is unreachable, `None`
    /// before the first listing.
    pub fn live_result(&self, upstream: &str) -> Option<Result<(), String>> {
        self.live.borrow().get(upstream).cloned()
    }

    /// Waits until a role may use the tool of this name, until each upstream has reported, or until
    /// the timeout of calls for that.
    pub fn wait_for_tool<'a>(&'a self, role: &'a str, name: &'a str) -> BoxFuture<'a, ()> {
        let wait = async move {
            let mut complete = self.complete.subscribe();
            let mut snapshots = self.snapshots();
            let has_tool = |snapshot: &Arc<Snapshot>| {
                let view = snapshot.view(role);
                view.is_ok_and(|view| {
                    !matches!(view.find_tool(name), Err(CallError::UnknownTool { .. }))
                })
            };
            // The senders live as long as `self`.
            tokio::select! {
                biased;
                _ = complete.wait_for(|complete| *complete) => {}
                _ = snapshots.wait_for(has_tool) => {}
            }
        };
        let bounded = async move { drop(timeout(FIRST_LISTING_TIMEOUT, wait).await) };
        bounded.boxed()
    }

    /// Waits until each upstream has reported, at most until the time for lists is over.
    pub fn wait_for_listings(&self) -> BoxFuture<'_, ()> {
        let wait = async move {
            let mut complete = self.complete.subscribe();
            let all_reported = complete.wait_for(|complete| *complete);
            drop(timeout_at(self.list_deadline, all_reported).await);
        };
        wait.boxed()
    }
}
