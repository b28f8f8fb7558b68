//! Tests of the tool manager with tools that hang, misbehave or produce too much output.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use picktools::{Access, Tool};
use picktools_provider::{Arguments, ToolCall};
use picktools_runtime::{
    Context, ErrorType, EventType, FunctionTool, RunnableTool, ToolManager, ToolResult, Topic,
};
use serde_json::{Value, json};
use tokio::time::timeout;

const FAR: Duration = Duration::from_secs(30);
/// The time limit of a call, and the tolerance for a busy machine.
const LIMIT: Duration = Duration::from_millis(100);
const SLACK: Duration = Duration::from_secs(2);

fn call(number: usize) -> ToolCall {
    ToolCall {
        id: None,
        name: "work".to_owned(),
        arguments: Arguments::Json(json!({"number": number})),
    }
}

fn definition() -> Tool {
    let parameters = json!({"type": "object", "properties": {"number": {"type": "integer"}}});
    Tool::with_parameters("work", "Does work", parameters)
}

fn manager(tool: impl RunnableTool + 'static) -> ToolManager {
    ToolManager::builder(Access::default())
        .tool(tool)
        .time_limit(LIMIT)
        .build()
        .expect("it is valid")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tool_that_never_returns_ends_at_the_time_limit() {
    let (held, hold) = mpsc::channel::<()>();
    let hold = Arc::new(std::sync::Mutex::new(hold));
    let hangs = FunctionTool::new(definition(), move |arguments: Value, _| {
        let hold = Arc::clone(&hold);
        async move {
            if arguments["number"] == 0 {
                std::future::pending::<()>().await;
            }
            let _until_the_test_ends = hold.lock().expect("nobody panicked").recv();
            ToolResult::success()
        }
    });
    let manager = manager(hangs);
    // More calls at once than the runtime has threads.
    let calls: Vec<ToolCall> = (0..8).map(call).collect();
    let begun = Instant::now();
    let executed = timeout(FAR, manager.execute_all(&calls))
        .await
        .expect("it does not hang");
    assert!(begun.elapsed() < LIMIT + SLACK, "{:?}", begun.elapsed());
    for executed in executed {
        let failure = executed.result.failure.as_ref().expect("it failed");
        assert_eq!(failure.error_type, ErrorType::System);
        assert!(
            failure.error.ends_with("the tool did not end within 100ms"),
            "{}",
            failure.error
        );
    }
    drop(held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_after_the_end_of_a_call_is_dropped() {
    let (told, tells) = mpsc::channel::<()>();
    let told = Arc::new(std::sync::Mutex::new(told));
    let late = FunctionTool::new(definition(), move |_, context: Context| {
        let told = Arc::clone(&told);
        async move {
            context.emit_output_chunk("in time\n");
            while !context.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(4 * LIMIT);
            context.emit_output_chunk("too late\n");
            let _the_test_waits = told.lock().expect("nobody panicked").send(());
            ToolResult::success()
        }
    });
    let manager = manager(late);
    let mut all = manager.events().subscribe(Topic::All);
    assert!(!manager.execute(&call(1)).await.result.is_success());
    tokio::task::spawn_blocking(move || tells.recv_timeout(FAR))
        .await
        .expect("it ends")
        .expect("it ends in time");
    let types: Vec<_> = std::iter::from_fn(|| all.try_next())
        .map(|received| received.event.event_type())
        .collect();
    assert_eq!(
        types,
        [EventType::Start, EventType::Chunk, EventType::Error]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_call_returns_an_error() {
    let waits = FunctionTool::new(definition(), |_, context: Context| async move {
        context.cancelled().await;
        std::future::pending::<()>().await;
        ToolResult::success()
    });
    let manager = ToolManager::builder(Access::default())
        .tool(waits)
        .build()
        .expect("it is valid");
    let mut starts = manager.events().subscribe(Topic::Only(EventType::Start));
    let cancels = async {
        let start = starts.next().await.expect("it starts").event;
        assert!(manager.cancel(&start.call.call_id) && !manager.cancel("call_99"));
    };
    let call = call(1);
    let (executed, ()) = timeout(FAR, async { tokio::join!(manager.execute(&call), cancels) })
        .await
        .expect("it does not hang");
    assert!(
        executed.result.error().ends_with("the call was cancelled"),
        "{}",
        executed.result.error()
    );
    assert!(!manager.cancel(&executed.call.call_id), "it has ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_call_is_cancelled_and_may_be_repeated() {
    struct Dropped(mpsc::Sender<()>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _the_test_waits = self.0.send(());
        }
    }
    let (sender, dropped) = mpsc::channel();
    let sender = Arc::new(std::sync::Mutex::new(sender));
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let waits = FunctionTool::new(definition(), move |_, _| {
        let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
        let guard = Dropped(sender.lock().expect("nobody panicked").clone());
        async move {
            if first {
                std::future::pending::<()>().await;
            }
            drop(guard);
            ToolResult::success()
        }
    });
    let manager = ToolManager::builder(Access::default())
        .tool(waits)
        .build()
        .expect("it is valid");
    let mut all = manager.events().subscribe(Topic::All);
    assert!(
        timeout(LIMIT, manager.execute(&call(1))).await.is_err(),
        "it never ends"
    );
    tokio::task::spawn_blocking(move || dropped.recv_timeout(FAR))
        .await
        .expect("it ends")
        .expect("it was dropped");
    let types: Vec<_> = std::iter::from_fn(|| all.try_next())
        .map(|received| received.event.event_type())
        .collect();
    assert_eq!(
        types,
        [EventType::Start, EventType::Error],
        "its end is told all the same"
    );
    assert!(manager.execute(&call(1)).await.result.is_success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_calls_run_in_parallel_and_keep_their_order() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let works = FunctionTool::new(definition(), move |arguments: Value, _| {
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(1)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            ToolResult::success().field("number", arguments["number"].clone())
        }
    });
    let builder = ToolManager::builder(Access::default())
        .tool(works)
        .max_parallel(4);
    let manager = builder.build().expect("it is valid");
    let calls: Vec<ToolCall> = (0..1_000).map(call).collect();
    let executed = timeout(FAR, manager.execute_all(&calls))
        .await
        .expect("it does not hang");
    for (number, executed) in executed.iter().enumerate() {
        assert_eq!(
            executed.result.fields.get("number"),
            Some(&json!(number)),
            "{:?}",
            executed.result
        );
    }
    assert!(
        (2..=4).contains(&seen.load(Ordering::SeqCst)),
        "{}",
        seen.load(Ordering::SeqCst)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_large_results_and_arguments_are_refused() {
    let large = FunctionTool::new(definition(), |_, _| async {
        ToolResult::success().field("text", "x".repeat(9 << 20))
    });
    let manager = manager(large);
    let executed = manager.execute(&call(1)).await;
    assert!(
        executed.result.error().contains("larger than"),
        "{}",
        executed.result.error()
    );
    let arguments = Arguments::Text(format!(
        "{{\"number\": 1, \"text\": \"{}\"}}",
        "x".repeat(10 << 20)
    ));
    let refused = manager
        .execute(&ToolCall {
            id: None,
            name: "work".to_owned(),
            arguments,
        })
        .await;
    assert_eq!(
        refused
            .result
            .failure
            .as_ref()
            .map(|failure| failure.error_type),
        Some(ErrorType::Validation)
    );
    assert!(refused.result.error().len() < 1_000);
}

#[test]
fn call_without_a_tokio_runtime_is_an_error() {
    let manager = manager(FunctionTool::new(definition(), |_, _| async {
        ToolResult::success()
    }));
    let executed = futures_executor(manager.execute(&call(1)));
    assert!(
        executed.result.error().contains("Tokio runtime"),
        "{}",
        executed.result.error()
    );
}

/// Polls a future that never waits.
fn futures_executor<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("it waits for a runtime that is not there"),
    }
}
