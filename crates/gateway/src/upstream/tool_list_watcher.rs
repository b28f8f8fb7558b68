//! The task that keeps an upstream running and reports its tools whenever they may have changed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use picktools_mcp::{Connection, Listing};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, sleep_until, timeout};

use super::change_pauses::ChangePauses;
use super::{ReportedTools, Upstream, UpstreamListing};
use crate::settings::Start;

/// The first and the longest backoff before a restart.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// The interval between listings of an upstream that does not report changes.
const LISTING_INTERVAL: Duration = Duration::from_secs(300);

/// The longest time that an upstream with known tools waits for the reports of the others.
const REPORTS_TIMEOUT: Duration = Duration::from_millis(500);

/// The watcher of the list of tools of an upstream.
pub(crate) struct ToolListWatcher {
    upstream: Arc<Upstream>,
    listings: mpsc::Sender<UpstreamListing>,
    /// `true` once the gateway has the tools of all upstreams.
    is_complete: watch::Receiver<bool>,
    /// The tools of the last listing, which may be a cached one.
    last_reported: Option<ReportedTools>,
    /// `true` once the upstream was asked.
    has_listed: bool,
    change_pauses: ChangePauses,
    backoff: Duration,
}

/// The reason why a watcher ends: the gateway receives no more listings.
struct ReceiverClosed;

impl ToolListWatcher {
    /// Creates the watcher of an upstream.
    pub(crate) fn new(
        upstream: Arc<Upstream>,
        listings: mpsc::Sender<UpstreamListing>,
        is_complete: watch::Receiver<bool>,
    ) -> Self {
        Self {
            upstream,
            listings,
            is_complete,
            last_reported: None,
            has_listed: false,
            change_pauses: ChangePauses::default(),
            backoff: FIRST_BACKOFF,
        }
    }

    /// Follows the upstream as long as the gateway receives its listings.
    pub(crate) async fn run(mut self) {
        if self.report_cached().await.is_err() {
            return;
        }
        if self.upstream.rules.start == Start::Eager && self.last_reported.is_some() {
            self.wait_for_reports().await;
        }
        while self.follow_until_failure().await.is_ok() {
            sleep(self.backoff).await;
            self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
        }
    }

    /// Reports the tools that the upstream had the last time.
    async fn report_cached(&mut self) -> Result<(), ReceiverClosed> {
        let Some(tool_cache) = &self.upstream.tool_cache else {
            return Ok(());
        };
        let Some((listing, _)) = tool_cache.get(&self.upstream.server) else {
            return Ok(());
        };
        let reported = ReportedTools::new(listing);
        self.last_reported = Some(reported.clone());
        self.report(Ok(reported), false).await
    }

    /// Waits until the gateway has the tools of all upstreams, or a call needs this one. The first
    /// list would otherwise share the processor with all the servers that start.
    async fn wait_for_reports(&mut self) {
        let all_reported = self.is_complete.wait_for(|is_complete| *is_complete);
        let wait = async {
            tokio::select! {
                _ = all_reported => {}
                () = self.upstream.start_requested.notified() => {}
            }
        };
        let _elapsed = timeout(REPORTS_TIMEOUT, wait).await;
    }

    /// Starts the upstream, and follows it until it ends or fails.
    async fn follow_until_failure(&mut self) -> Result<(), ReceiverClosed> {
        let upstream = Arc::clone(&self.upstream);
        if upstream.rules.start == Start::Lazy && self.last_reported.is_some() {
            upstream.start_requested.notified().await;
        }
        let deadline = Instant::now() + upstream.limits().time;
        match upstream.connection(&upstream.shared, deadline).await {
            Ok(connection) => self.follow_connection(&connection).await,
            Err(refusal) => self.report(Err(refusal.message), true).await,
        }
    }

    /// Lists the tools again whenever they may have changed, until the connection ends or fails.
    async fn follow_connection(
        &mut self,
        connection: &Arc<Connection>,
    ) -> Result<(), ReceiverClosed> {
        while !connection.is_closed() {
            let limits = self.upstream.limits();
            let result = connection
                .tools(Instant::now() + limits.time, &limits)
                .await;
            match result {
                Ok(listing) => self.record_listing(listing).await?,
                Err(message) => return self.record_failure(connection, message).await,
            }
            self.wait_for_change(connection).await;
        }
        Ok(())
    }

    /// Records the tools of the upstream, and reports them if they are others.
    async fn record_listing(&mut self, listing: Listing) -> Result<(), ReceiverClosed> {
        self.backoff = FIRST_BACKOFF;
        self.upstream.set_down(None);
        if let (Some(tool_cache), None) = (&self.upstream.tool_cache, &listing.incomplete) {
            tool_cache.put(&self.upstream.server, &listing);
        }
        let reported = ReportedTools::new(listing);
        let is_same = |last: &ReportedTools| {
            last.tools.is_same(&reported.tools) && last.instructions == reported.instructions
        };
        let is_reported = self.has_listed && self.last_reported.as_ref().is_some_and(is_same);
        self.has_listed = true;
        if is_reported {
            return Ok(());
        }
        self.last_reported = Some(reported.clone());
        self.report(Ok(reported), true).await
    }

    /// Records that the tools could not be listed.
    async fn record_failure(
        &mut self,
        connection: &Arc<Connection>,
        message: String,
    ) -> Result<(), ReceiverClosed> {
        if connection.is_closed() {
            self.upstream.record_end(connection, &message);
        } else {
            self.upstream.record_failure(&message);
        }
        self.upstream.set_down(Some(&message));
        self.has_listed = true;
        self.report(Err(message), true).await
    }

    /// Waits until the tools may have changed, or the connection ends. A lazily started upstream
    /// that is idle is stopped.
    async fn wait_for_change(&mut self, connection: &Connection) {
        let upstream = &self.upstream;
        tokio::select! {
            () = upstream.shared.listener.changed() => {
                let pause = self.change_pauses.next(Instant::now());
                drop(timeout(pause, connection.closed()).await);
            }
            () = sleep(LISTING_INTERVAL) => {}
            () = connection.closed() => {}
            () = idle(upstream), if upstream.rules.start == Start::Lazy => {
                upstream.shared.end().await;
            }
        }
    }

    /// Sends a listing to the gateway. `is_live` is `false` for a cached listing.
    async fn report(
        &self,
        result: Result<ReportedTools, String>,
        is_live: bool,
    ) -> Result<(), ReceiverClosed> {
        let listing = UpstreamListing {
            upstream: self.upstream.server.name.clone(),
            result,
            is_live,
        };
        let sent = self.listings.send(listing).await;
        sent.map_err(|_closed| ReceiverClosed)
    }
}

/// Waits until no call ran for the idle time.
async fn idle(upstream: &Upstream) {
    let time = Duration::from_secs(upstream.rules.idle_s);
    loop {
        upstream.shared.listener.calls.finished().await;
        let until = upstream.shared.last_use() + time;
        if until <= Instant::now() {
            return;
        }
        sleep_until(until.into()).await;
    }
}
