//! The session of a client: the tools that are listed to it, and its notifications about changes.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use picktools_state::lock;
use rmcp::model::LoggingLevel;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::calls::Caller;
use crate::hub::Hub;
use crate::metrics::GatewayEvent;
use crate::sessions::SessionTools;
use crate::snapshot::{ListDigests, Snapshot};
use crate::upstream::Owner;

/// The time that a client has to accept a notification before the notification is dropped.
pub(super) const NOTIFY_TIMEOUT: Duration = Duration::from_secs(2);
/// The most tools that a dynamic list adds.
const MAX_JOINED: usize = 64;

/// The form of the pages of `tools/list` for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageForm {
    /// The protocol library writes the values.
    Values,
    /// The transport writes texts; see [`text_page`](crate::tool_page::text_page).
    Text,
}

/// The state of a connected client.
pub(super) struct Session {
    pub(super) gateway: Arc<Hub>,
    /// `true` after the handshake.
    pub(super) has_begun: AtomicBool,
    pub(super) caller: Caller,
    pub(super) page_form: PageForm,
    /// The owner of its connections, if other gateways know it too.
    pub(super) owner: OnceLock<Owner>,
    /// The tools that are listed to the client, decided at the first list.
    pub(super) session_tools: OnceLock<SessionTools>,
    /// The definitions that joined a dynamic list, in order.
    pub(super) joined: Mutex<Vec<Value>>,
    /// `true` if a result was cut, so that the tool that reads the rest is listed.
    pub(super) reads_results: AtomicBool,
    /// `true` if a list was sent before all upstreams had reported.
    pub(super) has_partial_list: AtomicBool,
    pub(super) level: Mutex<Option<LoggingLevel>>,
    pub(super) watch: Mutex<Option<AbortHandle>>,
    /// The tasks that report changed resources, by upstream.
    pub(super) updates: Mutex<HashMap<String, AbortHandle>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(watch) = lock(&self.watch).take() {
            watch.abort();
        }
        lock(&self.updates)
            .drain()
            .for_each(|(_, updates)| updates.abort());
        self.gateway.forget(&self.caller.owner);
        if let Some(owner) = self.owner.get() {
            self.gateway.forget(owner);
        }
        if *self.has_begun.get_mut() {
            self.gateway
                .meter
                .record(&GatewayEvent::Session { begun: false });
        }
    }
}

impl Session {
    pub(super) fn new(gateway: &Arc<Hub>, caller: Caller, page_form: PageForm) -> Self {
        Self {
            gateway: Arc::clone(gateway),
            has_begun: AtomicBool::new(false),
            caller,
            page_form,
            owner: OnceLock::new(),
            session_tools: OnceLock::new(),
            joined: Mutex::default(),
            reads_results: AtomicBool::new(false),
            has_partial_list: AtomicBool::new(false),
            level: Mutex::new(Some(LoggingLevel::Info)),
            watch: Mutex::default(),
            updates: Mutex::default(),
        }
    }

    /// Adds definitions to a dynamic list, and returns the new ones.
    pub(super) fn add(&self, definitions: impl IntoIterator<Item = Value>) -> Vec<Value> {
        let mut joined = lock(&self.joined);
        let first_new = joined.len();
        for definition in definitions {
            if joined.len() < MAX_JOINED
                && joined
                    .iter()
                    .all(|existing| existing["name"] != definition["name"])
            {
                joined.push(definition);
            }
        }
        joined[first_new..].to_vec()
    }
}

/// Sends a notification whenever the tools of a role change. `is_shown_all` returns `true` if the
/// client sees all tools, and `None` once the client is gone.
pub(super) async fn notify_changes<T, F>(
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    role: &str,
    is_shown_all: impl Fn() -> Option<bool>,
    notify: T,
) where
    T: Fn() -> F,
    F: Future<Output = bool>,
{
    // Digests in place of lists: each session keeps them as long as it lasts.
    let digests = |snapshot: &Snapshot| {
        let view = snapshot.view(role).ok()?;
        Some(snapshot.list_digests(&view))
    };
    let mut previous = {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        digests(&snapshot)
    };
    while snapshots.changed().await.is_ok() {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        let current = digests(&snapshot);
        let Some(is_shown_all) = is_shown_all() else {
            return;
        };
        let shown_digest = |digests: ListDigests| match is_shown_all {
            true => digests.all,
            false => digests.always_listed,
        };
        let has_changed = current.map(shown_digest) != previous.map(shown_digest);
        previous = current;
        if has_changed && timeout(NOTIFY_TIMEOUT, notify()).await == Ok(false) {
            return;
        }
    }
}
