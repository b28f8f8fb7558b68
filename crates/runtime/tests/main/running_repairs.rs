//! Repairs of invalid calls on the way to running.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use picktools::{Access, Tool};
use picktools_call::{FaultyCall, PendingCall, RepairError, RepairFuture, Repairer};
use picktools_provider::{Arguments, ToolCall};
use picktools_runtime::{
    ConfirmationDecision, ErrorType, FunctionTool, ToolManager, ToolManagerBuilder, ToolResult,
    Topic,
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// A repairer that always gives the same answer, and counts its calls.
struct Answers(Result<&'static str, &'static str>, Arc<AtomicUsize>);

impl Repairer for Answers {
    fn name(&self) -> &str {
        "helper"
    }

    fn repair<'a>(&'a self, _: FaultyCall<'a>) -> RepairFuture<'a> {
        self.1.fetch_add(1, Ordering::SeqCst);
        let answer = self.0.map(str::to_owned);
        let answer = answer.map_err(|reason| RepairError {
            reason: reason.to_owned(),
        });
        Box::pin(std::future::ready(answer))
    }
}

/// A repairer that never answers.
struct Hangs;

impl Repairer for Hangs {
    fn name(&self) -> &str {
        "slow"
    }

    fn repair<'a>(&'a self, _: FaultyCall<'a>) -> RepairFuture<'a> {
        Box::pin(std::future::pending())
    }
}

fn login() -> Tool {
    let schema = json!({"type": "object", "properties": {"user": {"type": "string"},
        "password": {"type": "string"}}, "required": ["user"], "additionalProperties": false});
    Tool::with_parameters("login", "Logs a user in", schema)
}

fn builder(tool: Tool) -> ToolManagerBuilder {
    let echo = FunctionTool::new(tool, |arguments, _| async move {
        ToolResult::success().field("user", arguments["user"].clone())
    });
    let access = Access {
        allow_unsafe: true,
        ..Access::default()
    };
    ToolManager::builder(access).tool(echo)
}

/// Returns a manager with a repairer, and the number of its calls.
fn manager(
    tool: Tool,
    answer: Result<&'static str, &'static str>,
) -> (ToolManager, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let builder = builder(tool).repairer(Answers(answer, Arc::clone(&asked)));
    let builder = builder.confirm(|_: &PendingCall| ConfirmationDecision::Allow);
    (builder.build().expect("it is valid"), asked)
}

fn call(arguments: Value) -> ToolCall {
    ToolCall {
        id: None,
        name: "login".to_owned(),
        arguments: Arguments::Json(arguments),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faulty_call_is_repaired_and_reported_once() {
    let mended = r#"{"user": "ada", "password": "hunter22"}"#;
    let (manager, asked) = manager(login(), Ok(mended));
    let mut events = manager.events().subscribe(Topic::All);
    let faulty = call(json!({"login": "ada", "pass": "hunter22-old"}));
    let executed = manager.execute(&faulty).await;
    assert_eq!(executed.result.fields["user"], "ada");
    let report = "rewritten by helper: /login removed, /pass removed, /user added, /password added";
    assert_eq!(executed.repaired, [report]);
    let start = json!(*events.try_next().expect("it started").event);
    assert_eq!(start["data"]["repaired"], json!([report]));
    assert_eq!(start["data"]["arguments"]["password"], "[redacted]");
    assert!(!start.to_string().contains("hunter22"), "{start}");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let correct = manager.execute(&call(json!({"user": "bob"}))).await;
    assert!(correct.repaired.is_empty());
    let normalised = manager.execute(&call(json!({"User": "eve"}))).await;
    assert_eq!(
        normalised.repaired,
        [r#"repaired: "/User" was renamed to "user""#]
    );
    assert_eq!(
        asked.load(Ordering::SeqCst),
        1,
        "only the faulty call was asked about"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_repair_leaves_the_error_of_the_call() {
    for answer in [Ok("{}"), Err("it is paused")] {
        let (manager, asked) = manager(login(), answer);
        let executed = manager.execute(&call(json!({"login": "ada"}))).await;
        let failure = executed.result.failure.as_ref().expect("it failed");
        assert_eq!(failure.error_type, ErrorType::Validation);
        assert!(
            failure.error.contains("user is required")
                && failure.error.contains("(a repair failed: helper: "),
            "{failure:?}"
        );
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unsafe_and_unknown_tools_are_not_repaired() {
    let unsafe_tool = Tool {
        safe: Some(false),
        ..login()
    };
    let (manager, asked) = manager(unsafe_tool, Ok(r#"{"user": "ada"}"#));
    let executed = manager.execute(&call(json!({"login": "ada"}))).await;
    assert!(!executed.result.is_success());
    let unknown = ToolCall {
        name: "other".to_owned(),
        ..call(json!({}))
    };
    assert!(!manager.execute(&unknown).await.result.is_success());
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn repairs_of_one_answer_are_limited() {
    let (manager, asked) = manager(login(), Err("no"));
    let calls: Vec<ToolCall> = (0..20).map(|number| call(json!({"n": number}))).collect();
    let executed = manager.execute_all(&calls).await;
    assert_eq!(asked.load(Ordering::SeqCst), 16);
    let last = executed[19].result.error();
    assert!(
        last.contains("16 other calls of the answer were faulty too"),
        "{last}"
    );
    manager.execute_all(&calls[..1]).await;
    assert_eq!(
        asked.load(Ordering::SeqCst),
        17,
        "the next answer has its own limit"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn call_is_cancelled_while_it_is_repaired() {
    let manager = builder(login())
        .repairer(Hangs)
        .build()
        .expect("it is valid");
    let faulty = call(json!({"login": "ada"}));
    let cancel = async {
        sleep(Duration::from_millis(20)).await;
        manager.cancel_all();
    };
    let both = async { tokio::join!(manager.execute(&faulty), cancel) };
    let (executed, ()) = timeout(Duration::from_secs(30), both)
        .await
        .expect("it ends");
    let failure = executed.result.failure.as_ref().expect("it failed");
    assert_eq!(failure.error_type, ErrorType::User);
    assert!(
        failure.error.contains("the call was cancelled"),
        "{failure:?}"
    );
}
