//! What is measured: a catalog in a store. Publishing it anew, picks, publishing a change of 1,000
//! tools, and how soon two engines have that.
//!
//! On what: the fixture catalog, or another one with its requests:
//!
//! ```text
//! cargo bench --bench store -- target/corpora/tools-1000000.jsonl target/corpora/requests.jsonl
//! ```
//!
//! The store is the one that `scripts/fetch-store.sh` has fetched, started here with nothing in it;
//! without it a line says that it is left out. All requests are asked in turn, three times, for
//! three tools with evidence on one thread, and nothing is kept whole, so that every pick asks the
//! store; by a process of its own, as one that picks from a store does not hold the catalog.
//! Criterion is not used: a pick out of a store has a tail, and a publication cannot be repeated a
//! hundred times.

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

/// What the process that asks is started with.
const ASK: &str = "--ask";
/// How many rows are kept: the usual number, and one that leaves none of a large catalog to be read
/// anew.
const KEEP: [usize; 2] = [50_000, 200_000];
const ROUNDS: usize = 3;
const CHANGED: usize = 1_000;
/// The least share of requests whose best tool is the local engine's.
const LEAST_ALIKE: f64 = 0.9;

fn main() {
    let arguments: Vec<String> = env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    if let [first, url, requests, keep] = &arguments[..]
        && first == ASK
    {
        return ask(
            url,
            &read(requests.as_ref()),
            keep.parse().expect("a number"),
        );
    }
    let paths: Vec<PathBuf> = arguments.iter().map(PathBuf::from).collect();
    let fixture = fixture("catalogs/workplace");
    let (catalog, requests) = match &paths[..] {
        [] => (fixture.join("tools.jsonl"), fixture.join("queries.jsonl")),
        [catalog, requests] => (catalog.clone(), requests.clone()),
        // What others are filtered by.
        _ => {
            return println!(
                "the store is left out: name a catalog and a file of requests, or neither"
            );
        }
    };
    if !root("target/store/valkey-server").is_file() {
        return println!("the store is left out: run scripts/fetch-store.sh");
    }
    let server = StoreServer::with_search(&[]);
    let store = RedisStore::new(RedisOptions::new(server.url())).expect("an address");
    let engine = timed("indexed", || {
        Engine::new(Catalog::open(&catalog).expect("a catalog")).expect("it is indexed")
    });
    let asked = read(&requests);
    println!("{} tools, {} requests", engine.catalog().len(), asked.len());
    let publication = timed("published anew", || {
        publish(&engine, &store, &|_, _| {}).expect("it is published")
    });
    assert!(publication.anew);
    compare(&engine, &open(&store, KEEP[0]), &asked);
    for keep in KEEP {
        let mut asking = Command::new(env::current_exe().expect("this program"));
        asking
            .arg(ASK)
            .arg(server.url())
            .arg(&requests)
            .arg(keep.to_string());
        assert!(asking.status().expect("it runs").success());
    }
    for round in 1..=ROUNDS {
        change(&engine, &store, round);
    }
    let memory = status(&store).ok().and_then(|status| status.memory);
    println!(
        "memory of the server: {} MiB",
        memory.unwrap_or_default() >> 20
    );
}

fn read(requests: &Path) -> Vec<Query> {
    let requests = QuerySet::read(requests).expect("requests");
    requests
        .into_iter()
        .map(|request| Query::new(request.text.clone()))
        .collect()
}

fn open(store: &RedisStore, keep: usize) -> SharedEngine {
    let options = SharedOptions {
        keep,
        whole: 0,
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

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let made = work();
    println!("{what}: {:.2?}", started.elapsed());
    made
}

/// Sees to it that the store answers as the catalog itself does.
fn compare(engine: &Engine, shared: &SharedEngine, requests: &[Query]) {
    let best = |selection: Selection| selection.picks.first().map(|pick| pick.tool.id.clone());
    let is_alike = |request: &&Query| {
        let there = shared.pick(request, &options()).expect("it picks");
        best(there) == best(engine.pick(request, &options()).expect("it picks"))
    };
    let share = requests.iter().filter(is_alike).count() as f64 / requests.len() as f64;
    assert!(
        share >= LEAST_ALIKE,
        "only {share} of the best tools are those of a local engine"
    );
}

/// Asks all requests in turn. In the first round the engine was never asked them, and has the rows
/// of those before at most.
fn ask(url: &str, requests: &[Query], keep: usize) {
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
            "pick, keep {keep}, round {round}: p50 {p50:.0} us, p90 {p90:.0}, p99 {p99:.0}, at most {max:.0}"
        );
    }
}

/// Publishes a change, which two engines follow, and takes it back.
fn change(engine: &Engine, store: &RedisStore, round: usize) {
    let tools = engine.catalog().tools();
    let changed = tools
        .iter()
        .step_by((tools.len() / CHANGED).max(1))
        .take(CHANGED);
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
    let followers = [open(store, KEEP[0]), open(store, KEEP[0])];
    let publication = publish(&changed, store, &|_, _| {}).expect("it is published");
    let published = Instant::now();
    while followers
        .iter()
        .any(|engine| engine.state().snapshot.version < publication.version)
    {
        assert!(
            published.elapsed() < Duration::from_secs(60),
            "it is never seen"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    println!(
        "change, round {round}: {} tools written and {} removed in {} ms, and two engines had it {:.0?} later",
        publication.written,
        publication.removed,
        publication.took_ms,
        published.elapsed()
    );
    publish(engine, store, &|_, _| {}).expect("it is published");
}
