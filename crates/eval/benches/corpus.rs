//! Speed with real texts in large numbers.
//!
//! Measures indexing a catalog, opening it saved, with the first pick, and an update of 100 tools.
//! Measures picks with the default options: three tools out of all, with and without reasons, for
//! requests of one sentence, of three and of any length.
//!
//! The data are the corpora of `scripts/make-corpora.py`; the arguments are their folder and the
//! numbers of tools:
//!
//! ```text
//! cargo bench --bench corpus -- target/corpora 1000 16000 100000
//! ```
//!
//! One pick runs on one thread. All requests are picked for in turn, [`ROUNDS`] times, and the
//! result is the round with the least median, because other programs only ever add time. The median
//! of the first round is printed too, as the engine has no cached data then. Criterion is not used:
//! requests differ, so their median and 99th percentile say more than a mean.

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
/// The corpora with their sizes, the smallest first.
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
    let usage = "corpora are left out: give their folder and numbers of tools";
    let Some((folder, sizes)) = arguments.split_first() else {
        return println!("{usage}");
    };
    // `cargo bench` passes the filters of other benches too; they are not numbers.
    let sizes: Result<Vec<usize>, _> = sizes.iter().map(|size| size.parse()).collect();
    let Ok(sizes) = sizes else {
        return println!("{usage}");
    };
    if sizes.is_empty() {
        return println!("{usage}");
    }
    let folder = Path::new(folder);
    let requests = read_requests(folder);
    for size in sizes {
        measure(folder, size, &requests);
    }
}

/// Reads the requests, each with its number of sentences.
fn read_requests(folder: &Path) -> Vec<(Query, u64)> {
    let text = fs::read_to_string(folder.join("requests.jsonl"))
        .expect("scripts/make-corpora.py makes the requests");
    let parse = |line| {
        let request: Value = serde_json::from_str(line).expect("a request");
        let text = request["text"].as_str().expect("a request has a text");
        (
            Query::new(text),
            request["sentences"].as_u64().expect("a number"),
        )
    };
    text.lines().map(parse).collect()
}

/// Reads the first tools of the smallest corpus that is large enough.
fn read_tools(folder: &Path, size: usize) -> Catalog {
    let (_, name) = FILES
        .into_iter()
        .find(|(tools, _)| *tools >= size)
        .expect("a corpus is large enough");
    let text =
        fs::read_to_string(folder.join(name)).expect("scripts/make-corpora.py makes the tools");
    let end = match text.match_indices('\n').nth(size - 1) {
        Some((end, _)) => end,
        None => text.len(),
    };
    let file = tempfile::Builder::new()
        .suffix(".jsonl")
        .tempfile()
        .expect("a temporary file can be created");
    fs::write(file.path(), &text[..end]).expect("the file can be written");
    Catalog::open(file.path()).expect("the tools are valid")
}

fn measure(folder: &Path, size: usize, requests: &[(Query, u64)]) {
    let catalog = read_tools(folder, size);
    assert_eq!(catalog.len(), size);
    println!("{size} tools");
    let saved = tempfile::tempdir().expect("a temporary folder can be created");
    let expected = {
        let engine = timed("indexed", || {
            Engine::new(catalog).expect("the catalog is valid")
        });
        timed("saved", || {
            engine
                .save(saved.path(), json!(null))
                .expect("the folder can be written");
        });
        update(&engine);
        json!(
            engine
                .pick(&requests[0].0, &PickOptions::default())
                .expect("the options are valid")
        )
    };
    let open = || {
        Engine::new(Catalog::open_saved(saved.path()).expect("the saved catalog is intact"))
            .expect("the saved catalog is complete")
    };
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let engine = open();
        let opened = started.elapsed();
        let selection = engine
            .pick(&requests[0].0, &PickOptions::default())
            .expect("the options are valid");
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
        for (kind, sentences) in [
            ("of any", None),
            ("of one sentence", Some(1)),
            ("of three", Some(3)),
        ] {
            let mut queries = Vec::new();
            for (query, query_sentences) in requests {
                if sentences.is_none_or(|sentences| sentences == *query_sentences) {
                    queries.push(query);
                }
            }
            let rounds: Vec<Latency> = (0..ROUNDS)
                .map(|_| round(&engine, &queries, &options))
                .collect();
            let best = rounds
                .iter()
                .min_by(|a, b| a.p50.total_cmp(&b.p50))
                .expect("there are rounds");
            println!(
                "  pick, {} requests {kind}{reasons}: p50 {:.0} us, p99 {:.0}; \
                 in the first round p50 {:.0}",
                queries.len(),
                best.p50,
                best.p99,
                rounds[0].p50
            );
        }
    }
    let memory: usize = engine.memory().iter().map(|part| part.bytes).sum();
    println!(
        "  memory without the definitions: {} bytes a tool",
        memory / size
    );
}

fn timed<T>(step: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = work();
    println!("  {step}: {:.2?}", started.elapsed());
    result
}

fn round(engine: &Engine, queries: &[&Query], options: &PickOptions) -> Latency {
    let mut times: Vec<Duration> = Vec::new();
    for query in queries {
        let started = Instant::now();
        let selection = engine.pick(query, options).expect("the options are valid");
        times.push(started.elapsed());
        assert!(selection.degraded.is_empty(), "{:?}", selection.degraded);
    }
    Latency::from_durations(&times).expect("there are requests")
}

/// Updates tools with a new word, and asserts that a pick finds it.
fn update(engine: &Engine) {
    let tools = engine.catalog().tools().expect("readable");
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
        let all_scores = PickOptions {
            min_score: 0.0,
            ..PickOptions::default()
        };
        let selection = updated
            .pick(&Query::new("umbrella"), &all_scores)
            .expect("the options are valid");
        assert!(
            selection
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
