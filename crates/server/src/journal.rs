//! What was decided, entry by entry, as it is told to whoever watches.

use std::sync::Arc;
use std::time::Duration;

use picktools::{PickOptions, Query, Selection};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast;

/// How many entries whoever watches may be behind.
const BEHIND: usize = 256;

/// What was decided.
pub(crate) struct Journal {
    live: broadcast::Sender<Arc<Entry>>,
}

/// Something that was decided.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Entry {
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    #[serde(flatten)]
    pub(crate) what: What,
}

/// What it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum What {
    /// Tools were picked.
    Selection(Value),
    /// A tool was called.
    Call(Value),
}

/// Which way a request for tools came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Via {
    /// The gateway's `search_tools`.
    Search,
    /// The HTTP interface.
    Pick,
    /// A request to a model.
    Model,
}

/// A pick, and for whom.
pub(crate) struct Selected<'a> {
    pub(crate) key: &'a str,
    pub(crate) role: &'a str,
    pub(crate) via: Via,
    pub(crate) query: &'a Query,
    pub(crate) options: &'a PickOptions,
    pub(crate) selection: &'a Selection,
    pub(crate) time: Duration,
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self { live: broadcast::Sender::new(BEHIND) }
    }

    /// Notes a pick.
    pub(crate) fn selected(&self, selected: &Selected<'_>) {
        let _ = selected;
    }

    /// What is noted from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Arc<Entry>> {
        self.live.subscribe()
    }
}
