//! The counts of a gateway's events.

use std::collections::BTreeMap;

use serde::Serialize;

/// The counts so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GatewayCounts {
    /// The counts of each upstream.
    pub upstreams: BTreeMap<String, UpstreamCounts>,
    /// Searches.
    pub searches: u64,
    /// Searches that found nothing.
    pub empty_searches: u64,
    /// The total duration of searches, in microseconds.
    pub search_us: u64,
    /// Picks over HTTP.
    pub picks: u64,
    /// Picks that found nothing.
    pub empty_picks: u64,
    /// The total duration of picks, in microseconds.
    pub pick_us: u64,
    /// Requests over HTTP, by route and status.
    pub requests: BTreeMap<String, BTreeMap<u16, u64>>,
    /// Lists.
    pub lists: u64,
    /// The tokens of the lists that clients were shown.
    pub listed_tokens: u64,
    /// The tokens that these lists would have had with all tools.
    pub whole_tokens: u64,
    /// API requests to models.
    pub models: u64,
    /// API requests that were passed on unchanged, by reason.
    pub unchanged: BTreeMap<String, u64>,
    /// The tokens of the definitions that models were not shown.
    pub saved_tokens: u64,
    /// The total time until API requests were passed on, in microseconds.
    pub model_us: u64,
    /// The current fault of the shared store, by purpose.
    pub store: BTreeMap<String, String>,
    /// The number of faults of the shared store, by kind.
    pub store_faults: BTreeMap<String, u64>,
    /// `true` if the last snapshot of the tools could not be built.
    pub is_outdated: bool,
    /// Clients that connected.
    pub sessions: u64,
    /// Clients that are connected.
    pub open_sessions: u64,
}

/// The counts of an upstream.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UpstreamCounts {
    /// Calls that have ended.
    pub calls: u64,
    /// Calls that were not carried out, by code.
    pub refused: BTreeMap<String, u64>,
    /// The total duration of calls, in microseconds.
    pub call_us: u64,
    /// The number of times that it became reachable.
    pub starts: u64,
    /// `true` if it is reachable.
    pub up: bool,
}
