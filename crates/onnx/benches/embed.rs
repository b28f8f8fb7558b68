//! Measures the embedding of a request and of 1,000 tools with each model.
//!
//! The texts are a request of 15 words, and the descriptions of the fixture catalog, repeated.
//! MiniLM (int8, ONNX Runtime) is measured too if `scripts/fetch-models.sh` put it into
//! `target/models`. Otherwise a message says that it is skipped.
//!
//! All models use one thread, so that their times are comparable. The program restarts itself with
//! the variable that limits rten's pool to one thread.

use std::env;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group};
use picktools::embed::{Embedder, StaticEmbedder, TextRole};
use picktools_onnx::{FastEmbedder, OnnxOptions};
use picktools_testing::{root, workplace};
use picktools_tuned::TunedEmbedder;

/// Returns the available models by name.
fn models() -> Vec<(&'static str, Arc<dyn Embedder>)> {
    let mut models: Vec<(&str, Arc<dyn Embedder>)> = vec![(
        "static",
        StaticEmbedder::shared().expect("the model is valid"),
    )];
    match TunedEmbedder::shared() {
        Some(model) => models.push(("tuned", model.expect("the model is valid"))),
        None => report_skipped("tuned", "this program was built without it"),
    }
    match minilm() {
        Ok(model) => models.push(("minilm", model)),
        Err(reason) => report_skipped("minilm", &reason),
    }
    models
}

fn minilm() -> Result<Arc<dyn Embedder>, String> {
    let folder = root("target/models");
    let options = OnnxOptions {
        runtime: Some(folder.join("libonnxruntime.so")),
        ..OnnxOptions::default()
    };
    let model = FastEmbedder::from_folder(folder.join("minilm"), &options);
    model
        .map(|model| Arc::new(model) as Arc<dyn Embedder>)
        .map_err(|error| error.to_string())
}

#[expect(
    clippy::print_stderr,
    reason = "the reader must know which models are missing"
)]
fn report_skipped(model: &str, reason: &str) {
    eprintln!("embed: {model} is skipped: {reason}");
}

fn embed(criterion: &mut Criterion) {
    let models = models();
    let request = "find me a quiet hotel near the station in Bergen for two nights in May";
    assert_eq!(request.split(' ').count(), 15);
    let mut group = criterion.benchmark_group("embed/15_words");
    for (name, model) in &models {
        let vectors = model
            .embed(TextRole::Query, &[request], &|_| {})
            .expect("it embeds");
        let length = vectors[0].iter().map(|value| value * value).sum::<f32>();
        assert!(vectors[0].len() == model.dimensions() && (length - 1.0).abs() < 0.01);
        group.bench_function(*name, |bencher| {
            bencher.iter(|| model.embed(TextRole::Query, &[request], &|_| {}));
        });
    }
    group.finish();

    let catalog = workplace();
    let texts: Vec<&str> = catalog
        .tools()
        .expect("readable")
        .iter()
        .map(|tool| tool.description.as_str())
        .cycle()
        .take(1_000)
        .collect();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .expect("a thread can be started");
    let mut group = criterion.benchmark_group("embed/1000_tools");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(1_000));
    for (name, model) in models.iter().filter(|(name, _)| *name != "minilm") {
        group.bench_function(*name, |bencher| {
            bencher.iter(|| pool.install(|| model.embed(TextRole::Document, &texts, &|_| {})));
        });
    }
}

criterion_group!(benches, embed);

/// The variable with the number of threads of rten's pool, which is read once per process.
const RTEN_THREADS: &str = "RTEN_NUM_THREADS";

fn main() -> ExitCode {
    if env::var_os(RTEN_THREADS).is_none_or(|threads| threads != "1") {
        let program = env::current_exe().expect("a program knows itself");
        let status = Command::new(program)
            .args(env::args_os().skip(1))
            .env(RTEN_THREADS, "1")
            .status();
        return if status.is_ok_and(|status| status.success()) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
    ExitCode::SUCCESS
}
