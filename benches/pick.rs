//! Measured: building an engine, opening a saved one, and updating one; picking by keyword and with
//! the static model (the default), for requests of one part and of three sentences, with and
//! without reasons; picking for a role with ten eligible tools; resolving a name; and the overrun
//! of a deadline. The bench `embed` of the crate `picktools-onnx` measures models.
//!
//! Data: catalogs of 100 to 10,000 tools for building and of 1,000 to 100,000 for picking, made
//! from a fixed seed. Words follow Zipf's law, as in prose, so that posting lists have realistic
//! lengths. Each tool has a unique name, a description of about 15 words and three parameters.
//!
//! Not measured: ranking quality (`picktools eval`), reading catalogs from disk, real texts
//! (`scripts/measure-speed.py`).
//!
//! One pick runs on one thread; building uses all cores.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use picktools::catalog::Changes;
use picktools::engine::IndexError;
use picktools::names::{NameTable, Resolution};
use picktools::rerank::{Rerank, RerankFuture, Reranker};
use picktools::scorer::{Score, ScoreFuture, Scorer};
use picktools::selection::Stage;
use picktools::{Catalog, Engine, PickOptions, Query, Tool};
use serde_json::json;

const SIZES: [usize; 3] = [100, 1_000, 10_000];
const PICK_SIZES: [usize; 3] = [1_000, 16_000, 100_000];
const VOCABULARY: u64 = 5_000;
const SEED: u64 = 7;

/// SplitMix64 (Steele, Lea, Flood 2014): small, seeded, the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a word whose rank follows Zipf's law: the logarithm of the rank is uniform.
    fn word(&mut self) -> String {
        let uniform = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a rank is no larger than the vocabulary"
        )]
        let mut rank = (VOCABULARY as f64).powf(uniform) as u64;
        let mut word = String::from("w");
        while rank > 0 {
            word.push(char::from(b'a' + (rank % 20) as u8));
            rank /= 20;
        }
        word
    }

    fn words(&mut self, count: usize) -> String {
        (0..count)
            .map(|_| self.word())
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Makes a catalog. With `roles`, ten evenly spread tools are for everyone and the others for one
/// role.
fn tools(count: usize, roles: bool) -> Vec<Tool> {
    let mut random = Random(SEED);
    (0..count)
        .map(|index| {
            let name = format!("{}_{}_tool{index}x", random.word(), random.word());
            let mut tool = Tool::without_arguments(name, random.words(15));
            let (a, b, c) = (random.word(), random.word(), random.word());
            tool.parameters = Some(json!({
                "type": "object",
                "properties": {
                    a: {"type": "string", "description": random.words(6)},
                    b: {"type": "string", "enum": [random.word(), random.word()]},
                    c: {"type": "integer", "description": random.words(4)},
                },
            }));
            tool.source = Some(format!("server{}", index % 40));
            tool.id = tool.qualified_name();
            if roles && index % (count / 10).max(1) != 0 {
                tool.allowed_roles.insert("operator".to_owned());
            }
            tool
        })
        .collect()
}

fn catalog(count: usize, roles: bool) -> Catalog {
    Catalog::from_tools(tools(count, roles)).expect("the tools are valid")
}

/// Makes requests of 20 words.
fn queries() -> Vec<Query> {
    let mut random = Random(SEED + 1);
    (0..64).map(|_| Query::new(random.words(20))).collect()
}

/// Makes requests of three sentences with 21 words together.
fn three_sentences() -> Vec<Query> {
    let mut random = Random(SEED + 2);
    (0..64)
        .map(|_| Query::new(sentences([7; 3].map(|count| random.words(count)))))
        .collect()
}

fn sentences(texts: [String; 3]) -> String {
    texts.map(|text| format!("{text}.")).join(" ")
}

fn keyword_engine(catalog: Catalog) -> Result<Engine, IndexError> {
    Engine::builder(catalog).keyword_only().build()
}

fn build(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("build");
    group.sample_size(10);
    for size in SIZES {
        let catalog = catalog(size, false);
        assert_eq!(
            Engine::new(catalog.clone())
                .expect("it builds")
                .stats()
                .tools,
            size
        );
        group.throughput(Throughput::Elements(size as u64));
        group.bench_function(BenchmarkId::new("keyword", size), |bencher| {
            bencher.iter_batched(|| catalog.clone(), keyword_engine, BatchSize::LargeInput);
        });
        group.bench_function(BenchmarkId::new("static", size), |bencher| {
            bencher.iter_batched(|| catalog.clone(), Engine::new, BatchSize::LargeInput);
        });
    }
}

/// Measures opening a saved index with the first pick, and updating 100 tools.
fn open_and_update(criterion: &mut Criterion) {
    let request = &queries()[0];
    for size in PICK_SIZES {
        let engine = Engine::new(catalog(size, false)).expect("it builds");
        let folder = tempfile::tempdir().expect("a folder can be made");
        engine
            .save(folder.path(), json!(null))
            .expect("it can be saved");
        let open = || {
            let engine = Engine::new(Catalog::open_saved(folder.path()).expect("it opens"))
                .expect("nothing is missing");
            engine
                .pick(request, &PickOptions::default())
                .expect("it picks")
        };
        let picked = engine
            .pick(request, &PickOptions::default())
            .expect("it picks");
        assert_eq!(json!(open()), json!(picked));
        let mut group = criterion.benchmark_group("open");
        group.sample_size(10);
        group.bench_function(BenchmarkId::new("with_first_pick", size), |bencher| {
            bencher.iter(open);
        });
        group.finish();

        let mut put: Vec<Tool> = engine
            .catalog()
            .tools()
            .expect("readable")
            .iter()
            .step_by(size / 100)
            .map(|tool| (**tool).clone())
            .collect();
        put.iter_mut()
            .for_each(|tool| tool.description.push_str(" umbrella"));
        let changes = Changes {
            put,
            ..Changes::default()
        };
        let updated = engine
            .update(changes.clone())
            .expect("the changes are valid");
        let least = PickOptions {
            min_score: 0.0,
            ..PickOptions::default()
        };
        let words = updated
            .pick(&Query::new("umbrella"), &least)
            .expect("it picks");
        assert!(
            updated.catalog().len() == size
                && words.picks[0].tool.description.ends_with("umbrella")
        );
        let mut group = criterion.benchmark_group("update_100");
        group.sample_size(10);
        group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
            bencher.iter_batched(
                || changes.clone(),
                |changes| engine.update(changes),
                BatchSize::LargeInput,
            );
        });
    }
}

fn pick(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pick");
    let options = PickOptions::default();
    let bare = PickOptions {
        reasons: false,
        ..PickOptions::default()
    };
    let (one, three) = (queries(), three_sentences());
    for size in PICK_SIZES {
        let catalog = catalog(size, false);
        let keyword = keyword_engine(catalog.clone()).expect("it builds");
        for (mode, engine) in [
            ("keyword", keyword),
            ("static", Engine::new(catalog).expect("it builds")),
        ] {
            assert_finds(&engine, usize::from(mode == "static"));
            cycle(
                &mut group,
                BenchmarkId::new(mode, size),
                &engine,
                &one,
                &options,
            );
            cycle(
                &mut group,
                BenchmarkId::new(format!("{mode}_three_sentences"), size),
                &engine,
                &three,
                &options,
            );
            let reason = |options| {
                engine.pick(&one[0], options).expect("it picks").picks[0]
                    .reason
                    .clone()
            };
            assert!(!reason(&options).is_empty() && reason(&bare).is_empty());
            cycle(
                &mut group,
                BenchmarkId::new(format!("{mode}_without_reasons"), size),
                &engine,
                &one,
                &bare,
            );
        }
    }
    let engine = keyword_engine(catalog(10_000, true)).expect("it builds");
    let ten = engine.pick(&one[0], &options).expect("it picks");
    assert_eq!(ten.ineligible.total, 10_000 - 10);
    cycle(
        &mut group,
        BenchmarkId::new("keyword_role_sees_10", 10_000),
        &engine,
        &one,
        &options,
    );
}

/// Checks that a request that names a tool picks it, with one semantic signal per model; and that a
/// request of three sentences picks the three named tools.
fn assert_finds(engine: &Engine, models: usize) {
    let name_at = |share: usize| {
        engine.catalog().tools().expect("readable")[engine.catalog().len() * share / 4]
            .name
            .clone()
    };
    let options = PickOptions::default();
    let selection = engine
        .pick(&Query::new(name_at(2)), &options)
        .expect("it picks");
    let mentioned = selection
        .picks
        .iter()
        .find(|pick| pick.tool.name == name_at(2))
        .expect("the mentioned tool is picked");
    assert_eq!(mentioned.provenance.semantic.len(), models);
    let names = [1, 2, 3].map(name_at);
    let selection = engine
        .pick(&Query::new(sentences(names.clone())), &options)
        .expect("it picks");
    assert_eq!(selection.picks.len(), names.len());
    assert!(
        selection
            .picks
            .iter()
            .all(|pick| names.contains(&pick.tool.name))
    );
}

/// Measures an exact name and a variant spelling.
fn resolve(criterion: &mut Criterion) {
    let catalog = catalog(10_000, false);
    let table = NameTable::new(&catalog).expect("readable");
    let name = &catalog.tools().expect("readable")[5_000].name;
    let mut group = criterion.benchmark_group("resolve");
    for (writing, name) in [
        ("name", name.clone()),
        ("other_writing", name.replace('_', "-").to_uppercase()),
    ] {
        assert!(
            matches!(table.resolve(&name, &catalog).expect("readable"), Resolution::Tool(found) if found.tool.index() == 5_000)
        );
        group.bench_function(writing, |bencher| {
            bencher.iter(|| table.resolve(black_box(&name), &catalog).expect("readable"));
        });
    }
}

fn cycle(
    group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>,
    id: BenchmarkId,
    engine: &Engine,
    queries: &[Query],
    options: &PickOptions,
) {
    let mut next = queries.iter().cycle();
    group.bench_function(id, |bencher| {
        bencher.iter(|| next.next().map(|query| engine.pick(query, options)));
    });
}

/// A scorer and reranker that never answers in time and blocks its thread.
struct SleepingModel;

impl SleepingModel {
    fn sleep(&self) {
        std::thread::sleep(Duration::from_secs(2));
    }
}

impl Scorer for SleepingModel {
    fn name(&self) -> &str {
        "sleeper"
    }

    fn score<'a>(&'a self, _: &'a Query, tools: &'a [Arc<Tool>]) -> ScoreFuture<'a> {
        Box::pin(async move {
            self.sleep();
            Ok(tools.iter().map(|_| Score::new(1.0)).collect())
        })
    }
}

impl Reranker for SleepingModel {
    fn name(&self) -> &str {
        "sleeper"
    }

    fn rerank<'a>(
        &'a self,
        _: &'a Query,
        _: &'a [Arc<Tool>],
        _: Option<Instant>,
    ) -> RerankFuture<'a> {
        Box::pin(async move {
            self.sleep();
            Ok(Vec::new())
        })
    }
}

/// Measures the time between the deadline and the answer with a scorer and a reranker that never
/// answer. Its 99th percentile must stay below 50 ms.
fn deadline(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("deadline");
    group
        .sample_size(20)
        .measurement_time(Duration::from_secs(5));
    let catalog = catalog(10_000, false);
    let plain = PickOptions {
        timeout: Some(DEADLINE),
        ..PickOptions::default()
    };
    let engine = Engine::builder(catalog.clone())
        .scorer(Arc::new(SleepingModel))
        .build()
        .expect("it builds");
    overrun(&mut group, "scorer", &engine, &plain);
    let engine = Engine::builder(catalog)
        .reranker(Arc::new(SleepingModel))
        .build()
        .expect("it builds");
    let options = PickOptions {
        rerank: Rerank::Always,
        min_score: 0.0,
        ..plain
    };
    overrun(&mut group, "reranker", &engine, &options);
}

const DEADLINE: Duration = Duration::from_millis(20);

fn overrun(
    group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>,
    name: &str,
    engine: &Engine,
    options: &PickOptions,
) {
    let query = &queries()[0];
    let late = engine.pick(query, options).expect("it picks");
    let stage = if name == "scorer" {
        Stage::Scorer
    } else {
        Stage::Rerank
    };
    assert_eq!(
        (late.degraded[0].stage, late.picks.len()),
        (stage, options.max_candidates)
    );
    let mut overruns = Vec::new();
    group.bench_function(BenchmarkId::new("overrun", name), |bencher| {
        bencher.iter_custom(|rounds| {
            let overrun = |_| {
                let started = Instant::now();
                engine.pick(query, options).expect("it picks");
                started.elapsed().saturating_sub(DEADLINE)
            };
            let measured: Vec<Duration> = (0..rounds).map(overrun).collect();
            overruns.extend_from_slice(&measured);
            measured.iter().sum()
        });
    });
    overruns.sort_unstable();
    // There are no samples if the bench was filtered out.
    let Some(&worst) = overruns.last() else {
        return;
    };
    let p99 = overruns[(overruns.len() - 1) * 99 / 100];
    #[expect(
        clippy::print_stdout,
        reason = "the tail is a result, which criterion does not show"
    )]
    {
        println!(
            "deadline/overrun/{name} p99 of {} picks: {p99:.2?}, worst: {worst:.2?}",
            overruns.len()
        );
    }
    assert!(
        p99 < Duration::from_millis(50),
        "a pick overran its deadline by {p99:?}"
    );
}

criterion_group!(benches, build, open_and_update, pick, resolve, deadline);
criterion_main!(benches);
