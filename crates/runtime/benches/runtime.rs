//! Measurements of the tool manager.
//!
//! - `execute`: the cost of the pipeline, compared with a direct call of the tool's function. The
//!   call is resolved by an alias, validated, checked against the access policy and the calls of
//!   its turn, run on its own thread, and recorded. There is no subscriber.
//! - `deliver`: the events that reach 10,000 subscribers.
//!
//! The tool has five parameters and returns two fields immediately. Criterion reports the mean. The
//! medians of 20,000 calls are printed first.

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
    let parameters = json!({
        "type": "object",
        "required": ["owner", "title"],
        "additionalProperties": false,
        "properties": {
            "owner": {"type": "string"},
            "title": {"type": "string"},
            "body": {"type": "string"},
            "labels": {"type": "array", "items": {"type": "string"}},
            "number": {"type": "integer"},
        },
    });
    let mut tool = Tool::with_parameters("create_issue", "Opens an issue", parameters);
    tool.aliases = vec![Alias {
        name: "open_issue".to_owned(),
        deprecated: false,
    }];
    tool
}

fn arguments(number: usize) -> Value {
    json!({
        "owner": "harbour",
        "title": "The table of March is a day late",
        "body": "Low water on the 3rd is listed for the 4th.",
        "labels": ["bug", "data"],
        "number": number,
    })
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
    let runtime = Runtime::new().expect("the runtime starts");
    let manager = manager();
    let calls: Vec<ToolCall> = (0..20_000).map(call).collect();
    let (direct, piped) = runtime.block_on(async {
        let (mut direct, mut piped) = (Vec::new(), Vec::new());
        for (number, call) in calls.iter().enumerate() {
            let arguments = arguments(number);
            let start = Instant::now();
            black_box(function(arguments).await);
            direct.push(start.elapsed());
            let start = Instant::now();
            let executed = manager.execute(call).await;
            piped.push(start.elapsed());
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
            let start = Instant::now();
            runtime.block_on(async {
                for call in &calls {
                    black_box(manager.execute(call).await);
                }
            });
            start.elapsed()
        });
    });
}

fn deliveries(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("the runtime starts");
    let manager = manager();
    let mut subscribers: Vec<Subscription> = (0..SUBSCRIBERS)
        .map(|_| manager.events().subscribe(Topic::All))
        .collect();
    let mut group = criterion.benchmark_group("deliver");
    // Each subscriber receives the two events of a call.
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
