//! Helpers: stores with a published catalog, and picks.

use std::time::{Duration, Instant};

use picktools::options::SelectionMode;
use picktools::{Engine, PickOptions, Query, Selection};
use picktools_store::{
    Publication, RedisOptions, RedisStore, SharedEngine, SharedOptions, StoreError, publish,
};
use picktools_testing::store::StoreServer;
use picktools_testing::workplace;

/// Requests for one tool, several tools, named tools, excluded tools and no tool.
pub(crate) const REQUESTS: [&str; 8] = [
    "book a meeting room for tomorrow at nine",
    "send the minutes to everybody and file a bug about the projector",
    "how is the weather in Oslo? Then tell Anna on the chat.",
    "use `send_email`, don't book anything",
    "delete the branch",
    "search the documents for the contract with the agency",
    "zzz qqq",
    "translate this",
];

/// Starts a store, and publishes the workplace catalog.
pub(crate) fn with_workplace() -> (StoreServer, Engine, Publication) {
    let (server, engine) = (
        StoreServer::with_search(&[]),
        Engine::new(workplace()).expect("it is indexed"),
    );
    let publication = published(&engine, &server.url());
    (server, engine, publication)
}

pub(crate) fn store(url: &str, tenant: &str) -> RedisStore {
    let options = RedisOptions {
        tenant: tenant.to_owned(),
        ..RedisOptions::new(url)
    };
    RedisStore::new(options).expect("an address")
}

pub(crate) fn published(engine: &Engine, url: &str) -> Publication {
    try_publish(engine, url).expect("it is published")
}

pub(crate) fn try_publish(engine: &Engine, url: &str) -> Result<Publication, StoreError> {
    publish(engine, &store(url, "acme"), &|_, _| {})
}

/// Opens the published catalog. A snapshot of at most `max_local_tools` tools is loaded completely.
pub(crate) fn shared(url: &str, max_local_tools: usize) -> SharedEngine {
    SharedEngine::open(
        store(url, "acme"),
        SharedOptions {
            max_local_tools,
            ..SharedOptions::default()
        },
    )
    .expect("it opens")
}

/// Returns options for many picks without a threshold.
pub(crate) fn wide() -> PickOptions {
    PickOptions {
        max_candidates: 10,
        min_score: 0.0,
        choice: SelectionMode::Best,
        ..PickOptions::default()
    }
}

pub(crate) fn pick(engine: &SharedEngine, request: &str, options: &PickOptions) -> Selection {
    engine
        .pick(&Query::new(request), options)
        .expect("it picks")
}

pub(crate) fn ids(selection: &Selection) -> Vec<String> {
    selection
        .picks
        .iter()
        .map(|pick| pick.tool.id.clone())
        .collect()
}

/// Waits until a condition holds, and fails after `limit`.
pub(crate) fn within(limit: Duration, condition: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < limit, "{condition} within {limit:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
