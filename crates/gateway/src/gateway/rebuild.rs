//! Building a new snapshot whenever an upstream sends other tools, or an approval or the settings
//! change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use picktools_state::{StateChanges, StateStamp};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::hub::Hub;
use crate::metrics::GatewayEvent;
use crate::pins::Pins;
use crate::snapshot::{Notice, Snapshot, UnparsedUpstreamTools};
use crate::upstream::{ReportedTools, StoredTools, Upstream, UpstreamListing};

/// Listings within this time of the first one become one snapshot.
const BATCH_WINDOW: Duration = Duration::from_millis(100);
/// The pause after a snapshot before listings cause the next one, as a multiple of the time that it
/// took to build, and its limit. So servers whose tools change all the time leave the processor to
/// others.
const PAUSE_PER_BUILD: u32 = 4;
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// The pause before a failed snapshot is built again.
const REBUILD_BACKOFF: Duration = Duration::from_secs(2);

/// Reports of upstreams so far.
#[derive(Default)]
struct UpstreamReports {
    tools: BTreeMap<String, StoredTools>,
    /// The known instructions, by upstream.
    instructions: BTreeMap<String, String>,
    /// The upstreams that have reported, even if only that they are unreachable.
    reported: BTreeSet<String>,
    /// The live results since the last snapshot: tools were listed, or the reason why not.
    live: BTreeMap<String, Result<(), String>>,
}

impl UpstreamReports {
    fn record(
        &mut self,
        UpstreamListing {
            upstream,
            result,
            is_live,
        }: UpstreamListing,
    ) {
        if is_live {
            let live_result = match &result {
                Ok(_) => Ok(()),
                Err(reason) => Err(reason.clone()),
            };
            self.live.insert(upstream.clone(), live_result);
        }
        // The upstream logs why it cannot be listed.
        if let Ok(ReportedTools {
            tools,
            incomplete,
            instructions,
        }) = result
        {
            self.tools.insert(upstream.clone(), tools);
            if let Some(instructions) = instructions {
                self.instructions.insert(upstream.clone(), instructions);
            }
            if let Some(reason) = &incomplete {
                tracing::warn!(
                    target: "picktools::gateway", server = %upstream, %reason,
                    "incomplete list of tools"
                );
            }
        }
        self.reported.insert(upstream);
    }

    /// Returns `true` if each of these upstreams has reported.
    fn is_complete(&self, upstreams: &[Arc<Upstream>]) -> bool {
        let mut upstreams = upstreams.iter();
        upstreams.all(|upstream| self.reported.contains(&upstream.server.name))
    }

    /// Returns the reported tools of these upstreams.
    fn collect_tools(&self, upstreams: &[Arc<Upstream>]) -> Vec<UnparsedUpstreamTools> {
        let mut upstream_tools = Vec::with_capacity(upstreams.len());
        for upstream in upstreams {
            let Some(tools) = self.tools.get(&upstream.server.name) else {
                continue;
            };
            upstream_tools.push(UnparsedUpstreamTools {
                server: upstream.server.clone(),
                rules: upstream.rules,
                tools: tools.clone(),
                instructions: self.instructions.get(&upstream.server.name).cloned(),
            });
        }
        upstream_tools
    }

    /// Replaces the results of the servers whose tools could not be used.
    fn record_failures(&mut self, failed: &BTreeMap<String, String>) {
        for (server, reason) in failed {
            let result = Err(format!("its tools cannot be used: {reason}"));
            self.live.insert(server.clone(), result);
        }
    }

    /// Publishes the live results, or the error because of which no snapshot could be built.
    fn publish(&mut self, hub: &Hub, error: Option<&String>) {
        if self.live.is_empty() {
            return;
        }
        let snapshot = hub.registry.snapshot();
        hub.upstreams.update_live_results(|live_results| {
            for (upstream, result) in &self.live {
                match error {
                    Some(message) => {
                        drop(live_results.insert(upstream.clone(), Err(message.clone())));
                    }
                    // After the first live listing the tools are known; a call finds out if the
                    // server is reachable.
                    None if live_results.get(upstream) == Some(&Ok(()))
                        && !snapshot.failed.contains_key(upstream) => {}
                    None => drop(live_results.insert(upstream.clone(), result.clone())),
                }
            }
        });
        if error.is_none() {
            self.live.clear();
        }
    }
}

/// Returns the stamp of the approvals. It may wait for a store.
async fn approvals_stamp(pins: &Option<Pins>) -> Option<StateStamp> {
    let pins = pins.clone()?;
    tokio::task::spawn_blocking(move || pins.stamp()).await.ok()
}

/// Builds a snapshot from the current tools of upstreams, on another thread.
async fn build_snapshot(
    hub: &Hub,
    pins: &Option<Pins>,
    unparsed_tools: Vec<UnparsedUpstreamTools>,
) -> Result<Snapshot, String> {
    let (settings, own_catalog) = (hub.registry.settings(), hub.registry.catalog());
    let (pins, store) = (pins.clone(), hub.store.clone());
    let previous = hub.registry.snapshot();
    let build_result = tokio::task::spawn_blocking(move || -> Result<Snapshot, String> {
        let mut upstream_tools = Vec::with_capacity(unparsed_tools.len());
        for unparsed in unparsed_tools {
            upstream_tools.push(unparsed.parse()?);
        }
        let snapshot = Snapshot::build(
            settings,
            own_catalog.as_ref(),
            &upstream_tools,
            pins.as_ref(),
            Some(&previous),
        )?;
        Ok(snapshot.with_store(store))
    });
    build_result
        .await
        .unwrap_or_else(|error| Err(error.to_string()))
}

/// Warns if the number of quarantined tools of a server has changed.
fn warn_of_quarantine(previous: &Snapshot, current: &Snapshot) {
    let before = previous.quarantined_by_source();
    for (server, tools) in current.quarantined_by_source() {
        if before.get(&server) != Some(&tools) {
            tracing::warn!(
                target: "picktools::gateway", %server, tools,
                "tools are quarantined; review them with `picktools approve`"
            );
        }
    }
    let instructions = &current.quarantined_instructions;
    for server in instructions.difference(&previous.quarantined_instructions) {
        tracing::warn!(
            target: "picktools::gateway", %server,
            "the instructions of the server are quarantined; review them with `picktools approve`"
        );
    }
}

/// Reports the servers whose tools could not be used, and those whose tools can be used again.
fn count_failures(hub: &Hub, previous: &Snapshot, current: &Snapshot) {
    for name in current.failed.keys() {
        hub.meter
            .record(&GatewayEvent::Upstream { name, up: false });
    }
    for name in previous.failed.keys() {
        if !current.failed.contains_key(name) {
            hub.meter.record(&GatewayEvent::Upstream { name, up: true });
        }
    }
}

/// The notices of snapshots that were logged.
#[derive(Default)]
pub(super) struct NoticeLog {
    notices: BTreeSet<Notice>,
    /// The number of tools with examples of a pack.
    pack_tools: Option<usize>,
}

impl NoticeLog {
    /// Logs the notices that the last snapshot did not have.
    pub(super) fn log(&mut self, snapshot: &Snapshot, is_complete: bool) {
        let mut current = BTreeSet::new();
        for notice in &snapshot.notices {
            if notice.may_be_early && !is_complete {
                continue;
            }
            if !self.notices.contains(notice) && current.insert(notice.clone()) {
                tracing::warn!(target: "picktools::gateway", notice = %notice.text, "catalog notice");
            }
            current.insert(notice.clone());
        }
        self.notices = current;
        let pack_tools = snapshot.engine.example_stats();
        let pack_tools = pack_tools.and_then(|stats| stats.pack_tools);
        if let Some(covered) = pack_tools
            && self.pack_tools != pack_tools
        {
            let tools = snapshot.engine.catalog().len();
            tracing::info!(
                target: "picktools::gateway",
                covered,
                tools,
                "the pack of examples has requests for tools"
            );
        }
        self.pack_tools = pack_tools;
    }
}

/// Builds a new snapshot whenever an upstream sends other tools or an approval changes.
pub(super) async fn rebuild_snapshots(
    hub: Arc<Hub>,
    pins: Option<Pins>,
    mut state_changes: StateChanges,
    mut listings: mpsc::Receiver<UpstreamListing>,
    mut notice_log: NoticeLog,
    on_snapshot: Arc<dyn Fn() + Send + Sync>,
) {
    let mut reports = UpstreamReports::default();
    let mut stamp = approvals_stamp(&pins).await;
    // The time of the last attempt, and its error.
    let (mut last_attempt, mut last_error): (Instant, Option<String>) = (Instant::now(), None);
    let mut pause_end = Instant::now();
    // The time at which the listings since the last snapshot become one; `None` without any.
    let mut batch_end: Option<Instant> = None;
    loop {
        tokio::select! {
            biased;
            () = sleep_until(batch_end.unwrap_or(last_attempt)), if batch_end.is_some() => {}
            () = hub.registry.rebuild_requested() => {}
            () = state_changes.changed(), if pins.is_some() => {
                let current_stamp = approvals_stamp(&pins).await;
                if current_stamp == stamp {
                    continue;
                }
                stamp = current_stamp;
            }
            // A failed build is repeated, because an unreachable store may be back.
            () = sleep_until(last_attempt + REBUILD_BACKOFF),
                if pins.is_some() && last_error.is_some() =>
            {
                stamp = approvals_stamp(&pins).await;
            }
            listing = listings.recv() => {
                let Some(listing) = listing else { return };
                let upstreams = hub.upstreams.all();
                let was_complete = reports.is_complete(&upstreams);
                reports.record(listing);
                // Nothing is gained by waiting after the last of the first listings.
                if was_complete || !reports.is_complete(&upstreams) {
                    batch_end
                        .get_or_insert_with(|| pause_end.max(Instant::now() + BATCH_WINDOW));
                    continue;
                }
            }
        }
        batch_end = None;
        while let Ok(listing) = listings.try_recv() {
            reports.record(listing);
        }
        let upstreams = hub.upstreams.all();
        let started = Instant::now();
        let build_result = build_snapshot(&hub, &pins, reports.collect_tools(&upstreams)).await;
        last_attempt = Instant::now();
        let build_time = last_attempt - started;
        pause_end = last_attempt + MAX_PAUSE.min(build_time.saturating_mul(PAUSE_PER_BUILD));
        let error = match build_result {
            Ok(snapshot) => {
                // Approvals that this build wrote need not be read again, but later approvals of
                // others must.
                stamp.clone_from(&snapshot.approvals);
                let snapshot = Arc::new(snapshot);
                hub.journal.record_policy(&snapshot);
                reports.record_failures(&snapshot.failed);
                let previous = hub.registry.publish(Arc::clone(&snapshot));
                warn_of_quarantine(&previous, &snapshot);
                count_failures(&hub, &previous, &snapshot);
                notice_log.log(&snapshot, reports.is_complete(&upstreams));
                let on_snapshot = Arc::clone(&on_snapshot);
                drop(tokio::task::spawn_blocking(move || {
                    drop(previous);
                    on_snapshot();
                }));
                None
            }
            Err(message) => Some(message),
        };
        if let Some(message) = &error
            && last_error.as_ref() != Some(message)
        {
            tracing::error!(
                target: "picktools::gateway", %message,
                "cannot build a new snapshot; the current one stays in use"
            );
        }
        hub.registry.record_build(error.is_some());
        hub.meter.record(&GatewayEvent::Snapshot {
            is_current: error.is_none(),
        });
        reports.publish(&hub, error.as_ref());
        last_error = error;
        if reports.is_complete(&upstreams) {
            hub.registry.record_complete();
        }
    }
}
