//! The time between the deadline of a pick and its answer, with a language model that never
//! answers.
//!
//! The data are the fixture catalog. The 99th percentile must stay below 50 ms.

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use picktools::rerank::{Rerank, Reranker};
use picktools::selection::Stage;
use picktools::{Engine, PickOptions, Query};
use picktools_llm::{EndpointOptions, LlmReranker, ProviderClient};
use picktools_provider::Provider;
use picktools_testing::workplace;

const DEADLINE: Duration = Duration::from_millis(20);

/// Returns a language model whose server accepts requests and never answers.
fn silent_model() -> Arc<dyn Reranker> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/v1", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
        }
    });
    let client = ProviderClient::new(Provider::OpenAiChat, &url, &EndpointOptions::default());
    let model = LlmReranker::new(client.expect("the URL is valid"), "silent")
        .expect("the model has a name");
    Arc::new(model.max_concurrent(64))
}

fn deadline(criterion: &mut Criterion) {
    let engine = Engine::builder(workplace())
        .reranker(silent_model())
        .build()
        .expect("the options are valid");
    let options = PickOptions {
        timeout: Some(DEADLINE),
        rerank: Rerank::Always,
        min_score: 0.0,
        ..PickOptions::default()
    };
    let query = Query::new("book a meeting room and send the minutes to everybody");
    let late = engine
        .pick(&query, &options)
        .expect("the options are valid");
    assert_eq!(
        (late.degraded[0].stage, late.picks.len()),
        (Stage::Rerank, options.max_candidates)
    );
    let mut group = criterion.benchmark_group("deadline");
    group
        .sample_size(20)
        .measurement_time(Duration::from_secs(5));
    let mut overruns = Vec::new();
    group.bench_function(BenchmarkId::new("overrun", "language_model"), |bencher| {
        bencher.iter_custom(|rounds| {
            let overrun = |_| {
                let started = Instant::now();
                engine
                    .pick(&query, &options)
                    .expect("the options are valid");
                started.elapsed().saturating_sub(DEADLINE)
            };
            let measured: Vec<Duration> = (0..rounds).map(overrun).collect();
            overruns.extend_from_slice(&measured);
            measured.iter().sum()
        });
    });
    overruns.sort_unstable();
    // Empty if a filter excluded the bench.
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
            "deadline/overrun/language_model p99 of {} picks: {p99:.2?}, worst: {worst:.2?}",
            overruns.len()
        );
    }
    assert!(
        p99 < Duration::from_millis(50),
        "a pick overran its deadline by {p99:?}"
    );
}

criterion_group!(benches, deadline);
criterion_main!(benches);
