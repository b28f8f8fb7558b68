//! Measures a shared catalog: a complete publication, picks, the publication of 1,000 changed
//! tools, and the time until two engines have the change.
//!
//! The data is the fixture catalog, or another catalog with its requests:
//!
//! ```text
//! cargo bench --bench store -- target/corpora/tools-1000000.jsonl target/corpora/requests.jsonl
//! ```
//!
//! The store is an empty server from `scripts/fetch-store.sh`. Without it, the measurement is
//! skipped with a message. A separate process picks for all requests in turn, three times, for
//! three tools with evidence on one thread. No snapshot is loaded completely, so every pick uses
//! the store.
//!
//! Criterion is not used, because the tail of the distribution matters and a publication takes too
//! long for a hundred repetitions.

#![expect(clippy::print_stdout, reason = "these are the results")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use picktools::catalog::Changes;
use picktools::{Catalog, Engine, PickOptions, Query, Selection, Tool};
use picktools_eval::{Latency, QuerySet};
use picktools_store::{RedisOptions, RedisStore, SharedEngine, SharedOptions, publish, status};
use picktools_testing::store::StoreServer;
use picktools_testing::{fixture, root};

/// The program's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The argument of the process that picks.
const PICK_ARGUMENT: &str = "--ask";
/// The numbers of cached rows: the default, and enough for a large catalog.
const CACHED_ROWS: [usize; 2] = [50_000, 200_000];
/// The number of repetitions.
const ROUNDS: usize = 3;
/// The number of changed tools.
const CHANGED_TOOLS: usize = 1_000;
/// The smallest share of requests with the best tool of the local engine.
const MIN_AGREEMENT: f64 = 0.9;

fn main() {
    let arguments: Vec<String> = env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    if let [first, url, requests, keep] = &arguments[..]
        && first == PICK_ARGUMENT
    {
        return measure_picks(
            url,
            &read_requests(requests.as_ref()),
            keep.parse().expect("a number"),
        );
    }
    let paths: Vec<PathBuf> = arguments.iter().map(PathBuf::from).collect();
    let fixture = fixture("catalogs/workplace");
    let (catalog, requests) = match &paths[..] {
        [] => (fixture.join("tools.jsonl"), fixture.join("queries.jsonl")),
        [catalog, requests] => (catalog.clone(), requests.clone()),
        // Other arguments, such as filters of other benches.
        _ => {
            return println!("skipped: name a catalog and a file of requests, or neither");
        }
    };
    if !root("target/store/valkey-server").is_file() {
        return println!("skipped: no store; run scripts/fetch-store.sh");
    }
    let server = StoreServer::with_search(&[]);
    let store = RedisStore::new(RedisOptions::new(server.url())).expect("an address");
    let engine = timed("indexed", || {
        Engine::new(Catalog::open(&catalog).expect("a catalog")).expect("it is indexed")
    });
    let queries = read_requests(&requests);
    println!(
        "{} tools, {} requests",
        engine.catalog().len(),
        queries.len()
    );
    let publication = timed("complete publication", || {
        publish(&engine, &store, &|_, _| {}).expect("it is published")
    });
    assert!(publication.anew);
    compare(&engine, &open(&store, CACHED_ROWS[0]), &queries);
    for keep in CACHED_ROWS {
        let mut command = Command::new(env::current_exe().expect("this program"));
        command
            .arg(PICK_ARGUMENT)
            .arg(server.url())
            .arg(&requests)
            .arg(keep.to_string());
        assert!(command.status().expect("it runs").success());
    }
    for round in 1..=ROUNDS {
        measure_change(&engine, &store, round);
    }
    let memory = status(&store).ok().and_then(|status| status.memory);
    println!(
        "memory of the server: {} MiB",
        memory.unwrap_or_default() >> 20
    );
}

fn read_requests(requests: &Path) -> Vec<Query> {
    let requests = QuerySet::read(requests).expect("requests");
    requests
        .into_iter()
        .map(|request| Query::new(request.text.clone()))
        .collect()
}

fn open(store: &RedisStore, keep: usize) -> SharedEngine {
    let options = SharedOptions {
        max_cached_tools: keep,
        max_local_tools: 0,
        ..SharedOptions::default()
    };
    SharedEngine::open(store.clone(), options).expect("it opens")
}

fn options() -> PickOptions {
    PickOptions {
        max_candidates: 3,
        ..PickOptions::default()
    }
}

fn timed<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = work();
    println!("{name}: {:.2?}", started.elapsed());
    result
}

/// Checks that the shared engine picks like the local engine.
fn compare(engine: &Engine, shared: &SharedEngine, requests: &[Query]) {
    let best = |selection: Selection| selection.picks.first().map(|pick| pick.tool.id.clone());
    let is_alike = |request: &&Query| {
        let selection = shared.pick(request, &options()).expect("it picks");
        best(selection) == best(engine.pick(request, &options()).expect("it picks"))
    };
    let share = requests.iter().filter(is_alike).count() as f64 / requests.len() as f64;
    assert!(
        share >= MIN_AGREEMENT,
        "only {share} of the best tools equal those of the local engine"
    );
}

/// Measures picks for all requests. In the first round, the cache has only rows of earlier
/// requests.
fn measure_picks(url: &str, requests: &[Query], keep: usize) {
    let store = RedisStore::new(RedisOptions::new(url)).expect("an address");
    let shared = open(&store, keep);
    for round in 1..=ROUNDS {
        let mut times = Vec::with_capacity(requests.len());
        for request in requests {
            let started = Instant::now();
            let selection = shared.pick(request, &options()).expect("it picks");
            times.push(started.elapsed());
            assert!(selection.degraded.is_empty(), "{:?}", selection.degraded);
        }
        let Latency {
            p50, p90, p99, max, ..
        } = Latency::from_durations(&times).expect("there are requests");
        println!(
            "pick, keep {keep}, round {round}: p50 {p50:.0} us, p90 {p90:.0}, p99 {p99:.0}, \
             at most {max:.0}"
        );
    }
}

/// Publishes a change that two engines follow, and reverts it.
fn measure_change(engine: &Engine, store: &RedisStore, round: usize) {
    let tools = engine.catalog().tools().expect("readable");
    let changed = tools
        .iter()
        .step_by((tools.len() / CHANGED_TOOLS).max(1))
        .take(CHANGED_TOOLS);
    let put = changed.map(|tool| Tool {
        description: format!("{} Revised.", tool.description),
        ..Tool::clone(tool)
    });
    let changed = engine
        .update(Changes {
            put: put.collect(),
            ..Changes::default()
        })
        .expect("it is indexed");
    let followers = [open(store, CACHED_ROWS[0]), open(store, CACHED_ROWS[0])];
    let publication = publish(&changed, store, &|_, _| {}).expect("it is published");
    let published = Instant::now();
    while followers
        .iter()
        .any(|engine| engine.state().snapshot.version < publication.version)
    {
        assert!(
            published.elapsed() < Duration::from_secs(60),
            "the engines do not follow"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    println!(
        "change, round {round}: {} tools written and {} removed in {} ms; two engines had it \
         {:.0?} later",
        publication.written,
        publication.removed,
        publication.took_ms,
        published.elapsed()
    );
    publish(engine, store, &|_, _| {}).expect("it is published");
}
