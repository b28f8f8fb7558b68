//! What is measured: what the pipeline costs over calling a tool's function itself, for a call that
//! is resolved by an alias, validated, held to what the caller may do, looked for among the calls
//! of its turn, run on a thread of its own and recorded; and how many events reach 10,000
//! subscribers.
//!
//! On what: a tool of five parameters that gives back two fields at once; nobody listens but in the
//! last.
//!
//! Criterion gives the mean; the medians are printed before, from 20,000 calls each.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use picktools::catalog::Alias;
use picktools::{Access, Tool};
use picktools_provider::{Arguments, ToolCall};
use picktools_runtime::{FunctionTool, Subscription, ToolManager, ToolResult, Topic};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const SUBSCRIBERS: usize = 10_000;

fn definition() -> Tool {
    let parameters = json!({"type": "object", "required": ["owner", "title"], "additionalProperties": false,
        "properties": {"owner": {"type": "string"}, "title": {"type": "string"}, "body": {"type": "string"},
            "labels": {"type": "array", "items": {"type": "string"}}, "number": {"type": "integer"}}});
    let mut tool = Tool::with_parameters("create_issue", "Opens an issue", parameters);
    tool.aliases = vec![Alias {
        name: "open_issue".to_owned(),
        deprecated: false,
    }];
    tool
}

fn arguments(number: usize) -> Value {
    json!({"owner": "harbour", "title": "The table of March is a day late", "body": "Low water on the 3rd is listed for the 4th.",
        "labels": ["bug", "data"], "number": number})
}

async fn function(arguments: Value) -> ToolResult {
    ToolResult::success()
        .field("number", arguments["number"].clone())
        .field("state", "open")
}

fn manager() -> ToolManager {
    let tool = FunctionTool::new(definition(), |arguments, _| function(arguments));
    ToolManager::builder(Access::default())
        .tool(tool)
        .build()
        .expect("it is valid")
}

fn call(number: usize) -> ToolCall {
    ToolCall {
        id: None,
        name: "open_issue".to_owned(),
        arguments: Arguments::Json(arguments(number)),
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[expect(
    clippy::print_stdout,
    reason = "criterion reports no medians of single calls"
)]
fn pipeline(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("it can be started");
    let manager = manager();
    let calls: Vec<ToolCall> = (0..20_000).map(call).collect();
    let (direct, piped) = runtime.block_on(async {
        let (mut direct, mut piped) = (Vec::new(), Vec::new());
        for (number, call) in calls.iter().enumerate() {
            let given = arguments(number);
            let begun = Instant::now();
            black_box(function(given).await);
            direct.push(begun.elapsed());
            let begun = Instant::now();
            let executed = manager.execute(call).await;
            piped.push(begun.elapsed());
            assert!(executed.result.is_success());
        }
        (median(direct), median(piped))
    });
    println!("medians: {direct:?} for the function itself, {piped:?} through the pipeline");
    let mut number = calls.len();
    criterion.bench_function("execute", |bencher| {
        bencher.iter_custom(|count| {
            let calls: Vec<ToolCall> = (0..count)
                .map(|_| {
                    number += 1;
                    call(number)
                })
                .collect();
            let begun = Instant::now();
            runtime.block_on(async {
                for call in &calls {
                    black_box(manager.execute(call).await);
                }
            });
            begun.elapsed()
        });
    });
}

fn deliveries(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("it can be started");
    let manager = manager();
    let mut subscribers: Vec<Subscription> = (0..SUBSCRIBERS)
        .map(|_| manager.events().subscribe(Topic::All))
        .collect();
    let mut group = criterion.benchmark_group("deliver");
    // A call has two events, which each subscriber takes.
    group
        .throughput(Throughput::Elements(2 * SUBSCRIBERS as u64))
        .sample_size(20);
    let mut number = 0;
    group.bench_function("10000_subscribers", |bencher| {
        bencher.iter(|| {
            number += 1;
            runtime.block_on(manager.execute(&call(number)));
            let taken: usize = subscribers
                .iter_mut()
                .map(|subscriber| std::iter::from_fn(|| subscriber.try_next()).count())
                .sum();
            assert_eq!(taken, 2 * SUBSCRIBERS);
        });
    });
}

criterion_group!(benches, pipeline, deliveries);
criterion_main!(benches);
