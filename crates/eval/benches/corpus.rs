//! What is measured: real texts in large numbers. Indexing a catalog, opening it saved, with the
//! first pick, taking 100 changed tools over, and picks as they are by default: three tools out of
//! all, with reasons and without, for requests of one sentence, of three and of any.
//!
//! On what: the corpora of `scripts/make-corpora.py`, as many tools of them as are asked for:
//!
//! ```text
//! cargo bench --bench corpus -- target/corpora 1000 16000 100000
//! ```
//!
//! One pick runs on one thread. All requests are asked in turn, [`ROUNDS`] times, and the round
//! with the least median is told: what else runs on a machine only ever adds. The median of the
//! first round is told beside, as the engine knows nothing of any tool by then. Criterion is not
//! used: requests differ, so that their median and their 99th percentile say more than a mean.

#![expect(clippy::print_stdout, reason = "these are the results")]

use std::env;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use picktools::catalog::Changes;
use picktools::{Catalog, Engine, PickOptions, Query, Tool};
use picktools_eval::Latency;
use serde_json::{Value, json};

/// The program's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 5;
const CHANGED: usize = 100;
/// The corpora, the smallest first.
const FILES: [(usize, &str); 3] = [
    (16_000, "tools-16000.jsonl"),
    (100_000, "tools-100000.jsonl"),
    (1_000_000, "tools-1000000.jsonl"),
];

fn main() {
    let arguments: Vec<String> = env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let asked = arguments.split_first().and_then(|(folder, sizes)| {
        Some((
            Path::new(folder),
            sizes
                .iter()
                .map(|size| size.parse().ok())
                .collect::<Option<Vec<usize>>>()?,
        ))
    });
    // Else there is nothing, or what other benches are filtered by.
    let Some((folder, sizes)) = asked.filter(|(_, sizes)| !sizes.is_empty()) else {
        return println!("corpora are left out: name their folder, and how many tools");
    };
    let requests = read_requests(folder);
    for size in sizes {
        measure(folder, size, &requests);
    }
}

/// Reads the requests, each with its number of sentences.
fn read_requests(folder: &Path) -> Vec<(Query, u64)> {
    let text = fs::read_to_string(folder.join("requests.jsonl"))
        .expect("requests, which scripts/make-corpora.py makes");
    let read = |line| {
        let request: Value = serde_json::from_str(line).expect("a request");
        let text = request["text"].as_str().expect("it has a text");
        (
            Query::new(text),
            request["sentences"].as_u64().expect("a number"),
        )
    };
    text.lines().map(read).collect()
}

/// Reads the first tools of the smallest corpus that has so many.
fn read_tools(folder: &Path, size: usize) -> Catalog {
    let (_, name) = FILES
        .into_iter()
        .find(|(tools, _)| *tools >= size)
        .expect("no corpus has as many tools");
    let text =
        fs::read_to_string(folder.join(name)).expect("tools, which scripts/make-corpora.py makes");
    let end = text
        .match_indices('\n')
        .nth(size - 1)
        .map_or(text.len(), |(end, _)| end);
    let file = tempfile::Builder::new()
        .suffix(".jsonl")
        .tempfile()
        .expect("a file can be made");
    fs::write(file.path(), &text[..end]).expect("it can be written");
    Catalog::open(file.path()).expect("the tools are valid")
}

fn measure(folder: &Path, size: usize, requests: &[(Query, u64)]) {
    let catalog = read_tools(folder, size);
    assert_eq!(catalog.len(), size);
    println!("{size} tools");
    let saved = tempfile::tempdir().expect("a folder can be made");
    let expected = {
        let engine = timed("indexed", || Engine::new(catalog).expect("it is indexed"));
        timed("saved", || {
            engine
                .save(saved.path(), json!(null))
                .expect("it can be saved")
        });
        update(&engine);
        json!(
            engine
                .pick(&requests[0].0, &PickOptions::default())
                .expect("it picks")
        )
    };
    let open = || {
        Engine::new(Catalog::open_saved(saved.path()).expect("it opens"))
            .expect("nothing is missing")
    };
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let engine = open();
        let opened = started.elapsed();
        let selection = engine
            .pick(&requests[0].0, &PickOptions::default())
            .expect("it picks");
        let picked = started.elapsed();
        assert_eq!(json!(selection), expected);
        println!("  opened: {opened:.2?}, with the first pick {picked:.2?}");
    }
    let engine = open();
    let bare = PickOptions {
        reasons: false,
        ..PickOptions::default()
    };
    for (reasons, options) in [("", PickOptions::default()), (", without reasons", bare)] {
        for (asked, wanted) in [
            ("of any", None),
            ("of one sentence", Some(1)),
            ("of three", Some(3)),
        ] {
            let asked_of = requests
                .iter()
                .filter(|(_, sentences)| wanted.is_none_or(|wanted| wanted == *sentences));
            let queries: Vec<&Query> = asked_of.map(|(query, _)| query).collect();
            let rounds: Vec<Latency> = (0..ROUNDS)
                .map(|_| round(&engine, &queries, &options))
                .collect();
            let best = rounds
                .iter()
                .min_by(|a, b| a.p50.total_cmp(&b.p50))
                .expect("there are rounds");
            println!(
                "  pick, {} requests {asked}{reasons}: p50 {:.0} us, p99 {:.0}; in the first round p50 {:.0}",
                queries.len(),
                best.p50,
                best.p99,
                rounds[0].p50
            );
        }
    }
    let memory: usize = engine.memory().iter().map(|part| part.bytes).sum();
    println!(
        "  memory beside the definitions: {} bytes a tool",
        memory / size
    );
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let made = work();
    println!("  {what}: {:.2?}", started.elapsed());
    made
}

fn round(engine: &Engine, queries: &[&Query], options: &PickOptions) -> Latency {
    let times = queries.iter().map(|query| {
        let started = Instant::now();
        let selection = engine.pick(query, options).expect("it picks");
        let took = started.elapsed();
        assert!(selection.degraded.is_empty(), "{:?}", selection.degraded);
        took
    });
    Latency::from_durations(&times.collect::<Vec<Duration>>()).expect("there are requests")
}

/// Takes over tools that have changed, of which the words are found afterwards.
fn update(engine: &Engine) {
    let tools = engine.catalog().tools();
    let changed = tools
        .iter()
        .step_by(tools.len().div_ceil(CHANGED))
        .take(CHANGED);
    let put = changed.map(|tool| Tool {
        description: format!("{} Umbrella.", tool.description),
        ..Tool::clone(tool)
    });
    let changes = Changes {
        put: put.collect(),
        ..Changes::default()
    };
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..ROUNDS {
        let changes = changes.clone();
        let started = Instant::now();
        let updated = engine.update(changes).expect("the changes are valid");
        times.push(started.elapsed());
        let least = PickOptions {
            min_score: 0.0,
            ..PickOptions::default()
        };
        let found = updated
            .pick(&Query::new("umbrella"), &least)
            .expect("it picks");
        assert!(
            found
                .picks
                .iter()
                .all(|pick| pick.tool.description.ends_with("Umbrella."))
        );
    }
    times.sort_unstable();
    println!(
        "  update of {} tools: median {:.2?}, at least {:.2?}",
        changes.put.len(),
        times[ROUNDS / 2],
        times[0]
    );
}
