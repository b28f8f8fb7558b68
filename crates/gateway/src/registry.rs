//! The tools of a gateway: the settings, the operator's own catalog, and the snapshot that is built
//! from them and the lists of the upstreams. A snapshot is replaced as one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use picktools::Catalog;
use picktools_call::CallError;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout, timeout_at};

use crate::settings::Settings;
use crate::snapshot::Snapshot;

/// The longest time that a call waits for the first tool list of its upstream.
pub(crate) const FIRST_LISTING_TIMEOUT: Duration = Duration::from_secs(20);

/// The current snapshot, and what it is built from.
pub struct Registry {
    settings: RwLock<Arc<Settings>>,
    /// Tools that no upstream runs: they can be picked but not called.
    catalog: RwLock<Option<Catalog>>,
    /// Notified if the snapshot must be built anew.
    rebuild_requested: Notify,
    snapshot: watch::Sender<Arc<Snapshot>>,
    /// `true` once each upstream has reported, even if only that it is unreachable.
    complete: watch::Sender<bool>,
    /// `true` if the last snapshot could not be built, so that an earlier one is in use.
    build_failed: AtomicBool,
    /// The end of the time in which lists wait for upstreams.
    list_deadline: Instant,
}

impl Registry {
    /// Creates the registry with the snapshot of the settings and the catalog. Without upstreams it
    /// is complete from the start.
    pub(crate) fn new(
        first_snapshot: Snapshot,
        catalog: Option<Catalog>,
        is_complete: bool,
        list_deadline: Instant,
    ) -> Self {
        Self {
            settings: RwLock::new(Arc::clone(&first_snapshot.settings)),
            catalog: RwLock::new(catalog),
            rebuild_requested: Notify::new(),
            snapshot: watch::Sender::new(Arc::new(first_snapshot)),
            complete: watch::Sender::new(is_complete),
            build_failed: AtomicBool::new(false),
            list_deadline,
        }
    }

    /// Returns the current snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.borrow())
    }

    pub(crate) fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.subscribe()
    }

    /// Returns the current settings.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn catalog(&self) -> Option<Catalog> {
        let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner);
        catalog.clone()
    }

    /// Replaces the settings and the catalog, for the next snapshot.
    pub(crate) fn replace_sources(&self, settings: Settings, catalog: Option<Catalog>) {
        *self
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = catalog;
    }

    /// Requests a new snapshot.
    pub(crate) fn request_rebuild(&self) {
        self.rebuild_requested.notify_one();
    }

    /// Waits until a new snapshot is requested. Only one task may wait.
    pub(crate) async fn rebuild_requested(&self) {
        self.rebuild_requested.notified().await;
    }

    /// Replaces the snapshot, and returns the previous one.
    pub(crate) fn publish(&self, snapshot: Arc<Snapshot>) -> Arc<Snapshot> {
        self.snapshot.send_replace(snapshot)
    }

    /// Records the result of the last attempt to build a snapshot.
    pub(crate) fn record_build(&self, has_failed: bool) {
        self.build_failed.store(has_failed, Ordering::Relaxed);
    }

    /// Records that each upstream has reported.
    pub(crate) fn record_complete(&self) {
        self.complete.send_replace(true);
    }

    /// Returns the notification that each upstream has reported.
    pub(crate) fn completion(&self) -> watch::Receiver<bool> {
        self.complete.subscribe()
    }

    /// Returns `true` if each upstream has reported, even if only that it is unreachable.
    pub fn is_complete(&self) -> bool {
        *self.complete.borrow()
    }

    /// Returns `true` if the tools in use are outdated, because a snapshot could not be built.
    pub fn is_outdated(&self) -> bool {
        self.build_failed.load(Ordering::Relaxed)
    }

    /// Waits until a role may use the tool of this name, until each upstream has reported, or until
    /// the timeout of calls for that.
    pub async fn wait_for_tool(&self, role: &str, name: &str) {
        // Each call comes here, and nearly all of them after the start.
        if !self.is_complete() {
            self.wait_for_unreported_tool(role, name).await;
        }
    }

    fn wait_for_unreported_tool<'a>(&'a self, role: &'a str, name: &'a str) -> BoxFuture<'a, ()> {
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
    pub async fn wait_for_listings(&self) {
        if !self.is_complete() {
            self.wait_for_reports().await;
        }
    }

    fn wait_for_reports(&self) -> BoxFuture<'_, ()> {
        let wait = async move {
            let mut complete = self.complete.subscribe();
            let all_reported = complete.wait_for(|complete| *complete);
            drop(timeout_at(self.list_deadline, all_reported).await);
        };
        wait.boxed()
    }
}
