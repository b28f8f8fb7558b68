//! Tests of the tool manager: tools, the pipeline of a call, events and results. The numbers refer
//! to the list of behaviours in docs/reference/requirements.md.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use picktools::catalog::{Alias, NoSchemaMode};
use picktools::{Access, Engine, PickOptions, Query, Tool};
use picktools_call::{PendingCall, PendingReason, ValidCall};
use picktools_provider::{Arguments, Provider, ToolCall, TranslateOptions};
use picktools_runtime::{
    ConfirmationDecision, Context, ErrorType, EventKind, EventType, ExecutedCall, FunctionTool,
    RunFuture, RunnableTool, Subscription, ToolManager, ToolManagerBuilder, ToolResult, Topic,
};
use picktools_testing::tool;
use serde_json::{Value, json};
use tokio::time::timeout;

/// A time limit that no test reaches.
const FAR: Duration = Duration::from_secs(30);

fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id: Some("toolu_1".to_owned()),
        name: name.to_owned(),
        arguments: Arguments::Json(arguments),
    }
}

fn builder() -> ToolManagerBuilder {
    ToolManager::builder(Access {
        allow_unsafe: true,
        ..Access::default()
    })
}

/// The example tool of the requirements. It takes a string `param1` and returns it.
fn my_tool() -> Tool {
    let parameters = json!({"type": "object", "required": ["param1"], "properties": {
        "param1": {"type": "string"}, "count": {"type": "integer"}, "on": {"type": "boolean"},
        "list": {"type": "array", "items": {"type": "string"}},
        "inner": {"type": "object", "properties": {"x": {"type": "number"}}}}});
    let mut tool = Tool::with_parameters("my_tool", "What my tool does", parameters);
    tool.aliases = vec![Alias {
        name: "mine".to_owned(),
        deprecated: false,
    }];
    tool
}

/// Returns a tool that returns its arguments, and the counter of its runs.
fn echo(definition: Tool) -> (impl RunnableTool + 'static, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let tool = FunctionTool::new(definition, move |arguments, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { ToolResult::success().field("result", arguments) }
    });
    (tool, runs)
}

fn manager_with(definition: Tool) -> (ToolManager, Arc<AtomicUsize>) {
    let (tool, runs) = echo(definition);
    (builder().tool(tool).build().expect("it is valid"), runs)
}

fn fails(error_type: ErrorType, message: &'static str) -> impl RunnableTool {
    FunctionTool::new(my_tool(), move |_, _| async move {
        ToolResult::failure(error_type, message)
    })
}

/// Returns the events so far.
fn collect_events(subscription: &mut Subscription) -> Vec<Value> {
    std::iter::from_fn(|| subscription.try_next())
        .map(|received| json!(*received.event))
        .collect()
}

fn types(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["type"].as_str().expect("it has a type"))
        .collect()
}

async fn run(manager: &ToolManager, name: &str, arguments: Value) -> ExecutedCall {
    timeout(FAR, manager.execute(&call(name, arguments)))
        .await
        .expect("it does not hang")
}

fn error_type(executed: &ExecutedCall) -> Option<ErrorType> {
    executed
        .result
        .failure
        .as_ref()
        .map(|failure| failure.error_type)
}

// 1: required and optional parts of a tool.
#[test]
fn tool_with_only_a_definition_has_defaults() {
    let (mine, _) = echo(my_tool());
    assert_eq!(
        (
            mine.definition().name.as_str(),
            mine.definition().description.as_str()
        ),
        ("my_tool", "What my tool does")
    );
    assert!(!mine.requires_confirmation() && !mine.suppress_execution_animation());
    let (wipe, _) = echo(Tool {
        safe: Some(false),
        ..my_tool()
    });
    assert!(wipe.requires_confirmation(), "it is marked unsafe");
}

// 2, 3, 6, 7, 16, 20, 69.
#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_call_come_in_order_with_one_id() {
    let talks = FunctionTool::new(my_tool(), |_, context: Context| async move {
        context.emit_output_chunk("one\n");
        context.emit_output_chunk("two\n");
        ToolResult::success().field("result", "done")
    });
    let manager = builder().tool(talks).build().expect("it is valid");
    let mut all = manager.events().subscribe(Topic::All);
    let executed = run(&manager, "mine", json!({"param1": "x"})).await;
    let events = collect_events(&mut all);
    assert_eq!(
        types(&events),
        [
            "tool_call_start",
            "tool_output_chunk",
            "tool_output_chunk",
            "tool_call_end"
        ]
    );
    for event in &events {
        assert_eq!(
            event["data"]["call_id"],
            executed.call.call_id.as_str(),
            "{event}"
        );
        assert_eq!(event["data"]["provider_id"], "toolu_1");
        assert_eq!(event["data"]["tool_name"], "my_tool");
        assert_eq!(event["data"]["names"]["requested"], "mine");
        assert!(event["data"]["time_ms"].as_u64() > Some(1_600_000_000_000));
    }
    assert_eq!(events[0]["data"]["arguments"], json!({"param1": "x"}));
    assert_eq!(
        (&events[1]["data"]["chunk"], &events[2]["data"]["chunk"]),
        (&json!("one\n"), &json!("two\n"))
    );
    assert_eq!(events[3]["data"]["success"], true);
    assert_eq!(
        events[3]["data"]["result"],
        json!({"success": true, "error": "", "result": "done"})
    );
    let again = run(&manager, "mine", json!({"param1": "y"})).await;
    assert_ne!(
        again.call.call_id, executed.call.call_id,
        "the provider's id stood twice"
    );
}

// 4, 7, 10: a failed result has an error event.
#[tokio::test(flavor = "multi_thread")]
async fn failed_result_becomes_an_error_event() {
    let manager = builder()
        .tool(fails(ErrorType::User, "File not found"))
        .build()
        .expect("it is valid");
    let mut all = manager.events().subscribe(Topic::All);
    run(&manager, "my_tool", json!({"param1": "value"})).await;
    let events = collect_events(&mut all);
    assert_eq!(types(&events), ["tool_call_start", "error"]);
    let data = &events[1]["data"];
    assert_eq!(data["error"], "my_tool(param1=\"value\"): File not found");
    assert_eq!(
        (&data["tool_name"], &data["success"]),
        (&json!("my_tool"), &json!(false))
    );
    assert_eq!(data["result"]["error_type"], "user_error");
    assert!(data["result"].get("suggestion").is_none());
}

// 5: panics do not escape.
#[tokio::test(flavor = "multi_thread")]
async fn panic_of_a_tool_becomes_an_error() {
    let panics = FunctionTool::new(my_tool(), |_, _| async { panic!("on purpose") });
    let manager = builder().tool(panics).build().expect("it is valid");
    let executed = run(&manager, "my_tool", json!({"param1": "value"})).await;
    assert_eq!(error_type(&executed), Some(ErrorType::System));
    assert_eq!(
        executed.result.error(),
        "my_tool(param1=\"value\"): the tool panicked"
    );
}

// 8, 68.
#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_call_without_secrets_and_long_values() {
    let parameters = json!({"type": "object", "properties": {
        "user": {}, "api_key": {}, "pin": {"type": "string", "writeOnly": true}, "body": {},
        "login": {"$ref": "#/$defs/login"}, "list": {"type": "array", "items": {"format": "password"}}},
        "$defs": {"login": {"type": "object", "properties": {"word": {"allOf": [{"format": "password"}]}}}}});
    let definition = Tool::with_parameters("log_in", "Logs in", parameters);
    let leaks = FunctionTool::new(definition, |arguments: Value, _| async move {
        let message = format!(
            "no user {} with the key {}",
            arguments["user"], arguments["api_key"]
        );
        ToolResult::failure(ErrorType::User, message)
            .suggest(format!("not {}", arguments["login"]["word"]))
    });
    let manager = builder().tool(leaks).build().expect("it is valid");
    let mut all = manager.events().subscribe(Topic::All);
    let secret = |n: usize| format!("hunter-{n}");
    let arguments = json!({"user": "ada", "api_key": secret(1), "pin": secret(2), "body": "x".repeat(500),
        "login": {"word": secret(3)}, "list": [secret(4)]});
    let executed = run(&manager, "log_in", arguments.clone()).await;
    let error = executed.result.error();
    assert!(
        error.starts_with(
            "log_in(user=\"ada\", api_key=\"[redacted]\", pin=\"[redacted]\", body=\"xxx"
        ),
        "{error}"
    );
    assert!(
        error.ends_with(": no user \"ada\" with the key \"[redacted]\""),
        "{error}"
    );
    assert!(error.chars().count() < 500, "{error}");
    let everything = format!("{:?}{}", executed, json!(collect_events(&mut all)));
    assert!(!everything.contains("hunter"), "{everything}");
    // The same holds for arguments that are not valid.
    let refused = run(
        &manager,
        "log_in",
        json!({"login": {"password": "hunter-5"}, "list": {"token": "hunter-6"}}),
    )
    .await;
    let everything = format!("{:?}{}", refused, json!(collect_events(&mut all)));
    assert_eq!(error_type(&refused), Some(ErrorType::Validation));
    assert!(!everything.contains("hunter"), "{everything}");
}

// 9, 10, 11, 39, 40.
#[test]
fn results_serialize_in_one_form() {
    let done = ToolResult::success()
        .field("result", "operation completed")
        .field("count", 42)
        .field("error", "no field");
    assert_eq!(
        json!(done),
        json!({"success": true, "error": "", "result": "operation completed", "count": 42})
    );
    let failed = ToolResult::failure(ErrorType::User, "File not found")
        .suggest("Check the file path and try again");
    assert_eq!(
        json!(failed),
        json!({"success": false, "error": "File not found", "error_type": "user_error",
            "suggestion": "Check the file path and try again"})
    );
    assert_eq!(
        json!(ToolResult::failure(ErrorType::System, "x")).get("suggestion"),
        None
    );
}

// 12, 13.
#[tokio::test(flavor = "multi_thread")]
async fn preview_is_short_and_a_tool_can_replace_it() {
    let lines = ToolResult::success().field("output", "1\n2\n3\n4\n5");
    assert_eq!(lines.preview(3), ["1", "2", "3"]);
    assert_eq!(lines.preview(1), ["1"]);
    struct Counts(Tool);
    impl RunnableTool for Counts {
        fn definition(&self) -> &Tool {
            &self.0
        }
        fn run<'a>(&'a self, call: &'a ValidCall, _: &'a Context) -> RunFuture<'a> {
            let fails = call.arguments()["param1"] == "fail";
            let result = if fails {
                ToolResult::failure(ErrorType::User, "a\nb\nc\nd")
            } else {
                ToolResult::success().field("result", 7)
            };
            Box::pin(std::future::ready(result))
        }
        fn preview(&self, result: &ToolResult, _: usize) -> Vec<String> {
            vec![format!("Result: {}", result.fields["result"])]
        }
    }
    let manager = builder()
        .tool(Counts(my_tool()))
        .build()
        .expect("it is valid");
    assert_eq!(
        run(&manager, "my_tool", json!({"param1": "x"}))
            .await
            .preview,
        ["Result: 7"]
    );
    let failed = run(&manager, "my_tool", json!({"param1": "fail"})).await;
    assert_eq!(
        failed.preview,
        ["my_tool(param1=\"fail\"): a", "b", "c"],
        "the base preview"
    );
}

// 14, 21, 22, 23, 33, 70.
#[tokio::test(flavor = "multi_thread")]
async fn tools_translate_for_each_provider_and_resolve_by_each_name() {
    let (mine, _) = echo(my_tool());
    let (hidden, _) = echo(Tool {
        allowed_roles: ["admin".to_owned()].into(),
        ..Tool::without_arguments("hidden", "x")
    });
    let manager = builder()
        .tool(mine)
        .tool(hidden)
        .build()
        .expect("it is valid");
    let chat = manager
        .definitions(Provider::OpenAiChat, &TranslateOptions::default())
        .expect("it can be shown");
    assert_eq!(
        chat.tools.as_array().map(Vec::len),
        Some(1),
        "what may not be run is not shown"
    );
    let function = &chat.tools[0];
    assert_eq!(
        (&function["type"], &function["function"]["name"]),
        (&json!("function"), &json!("my_tool"))
    );
    assert_eq!(
        function["function"]["parameters"]["required"],
        json!(["param1"])
    );
    for provider in Provider::ALL {
        let translation = manager
            .definitions(provider, &TranslateOptions::default())
            .expect("it can be shown");
        assert_eq!(
            translation.names.values().collect::<Vec<_>>(),
            ["my_tool"],
            "{provider:?}"
        );
    }
    for name in ["my_tool", "mine", "myTool"] {
        assert_eq!(
            manager.get(name).expect("it is known").definition().name,
            "my_tool"
        );
    }
    assert!(manager.get("nothing").is_none() && manager.get("hidden").is_none());
}

// 17, 18, 19.
#[tokio::test(flavor = "multi_thread")]
async fn subscription_gets_its_topic_until_it_is_dropped() {
    let (manager, _) = manager_with(my_tool());
    let mut starts = manager.events().subscribe(Topic::Only(EventType::Start));
    let mut all = manager
        .events()
        .subscribe("*".parse().expect("it is a topic"));
    let gone = manager
        .events()
        .subscribe("tool_call_end".parse().expect("it is a topic"));
    assert!("tool_call".parse::<Topic>().is_err());
    run(&manager, "my_tool", json!({"param1": "x"})).await;
    assert_eq!(types(&collect_events(&mut starts)), ["tool_call_start"]);
    assert_eq!(
        types(&collect_events(&mut all)),
        ["tool_call_start", "tool_call_end"]
    );
    assert_eq!(manager.events().subscribers(), 3);
    drop((gone, starts));
    assert_eq!(manager.events().subscribers(), 1);
    run(&manager, "my_tool", json!({"param1": "y"})).await;
    assert_eq!(
        types(&collect_events(&mut all)),
        ["tool_call_start", "tool_call_end"]
    );
    let next = timeout(FAR, async {
        let (_, next) = tokio::join!(run(&manager, "my_tool", json!({"param1": "z"})), all.next());
        next
    });
    let next = next.await.expect("it does not hang").expect("there is one");
    assert_eq!((next.lost, next.event.event_type()), (0, EventType::Start));
    drop(manager);
    while timeout(FAR, all.next())
        .await
        .expect("it does not hang")
        .is_some()
    {}
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_subscriber_loses_chunks_and_delays_no_call() {
    let talks = FunctionTool::new(my_tool(), |_, context: Context| async move {
        (0..10_000).for_each(|number| context.emit_output_chunk(&format!("{number}\n")));
        context.emit_output_chunk(&"é".repeat(20_000_000));
        ToolResult::success()
    });
    let manager = builder().tool(talks).build().expect("it is valid");
    let mut slow = manager.events().subscribe(Topic::All);
    run(&manager, "my_tool", json!({"param1": "x"})).await;
    let received: Vec<_> = std::iter::from_fn(|| slow.try_next()).collect();
    let chunks = |event_type| {
        received
            .iter()
            .filter(|received| received.event.event_type() == event_type)
            .count()
    };
    assert_eq!(
        (chunks(EventType::Chunk), chunks(EventType::End)),
        (1_024, 1)
    );
    let lost: u64 = received.iter().map(|received| received.lost).sum();
    assert!(lost >= 10_000 - 1_024, "{lost}");
    let bytes = received.iter().map(|received| match &received.event.kind {
        EventKind::Chunk { chunk } => chunk.len(),
        _ => 0,
    });
    assert!(bytes.sum::<usize>() < 20 << 20);
}

// 24, 25, 26, 35, 36, 37, 38, 41, 42.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_call_does_not_run_and_suggests_a_correction() {
    let (manager, runs) = manager_with(my_tool());
    let mut all = manager.events().subscribe(Topic::All);
    let unknown = run(&manager, "my_tol", json!({"param1": "x"})).await;
    assert_eq!(
        unknown.result.error(),
        "Unknown tool: my_tol; did you mean my_tool?"
    );
    let missing = run(&manager, "my_tool", json!({})).await;
    assert_eq!(missing.result.error(), "my_tool(): param1 is required");
    let suggestion = missing
        .result
        .failure
        .as_ref()
        .and_then(|failure| failure.suggestion.clone());
    assert_eq!(
        suggestion.as_deref(),
        Some("Example: my_tool(param1=\"text\")")
    );
    for wrong in [
        json!({"param1": {"of": 1}}),
        json!({"param1": "x", "count": "many"}),
        json!({"param1": "x", "on": "perhaps"}),
        json!({"param1": "x", "list": ["a", {"of": 7}]}),
        json!({"param1": "x", "inner": {"x": "far"}}),
        json!("param1"),
    ] {
        let executed = run(&manager, "my_tool", wrong.clone()).await;
        assert_eq!(
            error_type(&executed),
            Some(ErrorType::Validation),
            "{wrong}: {:?}",
            executed.result
        );
    }
    assert_eq!(
        types(&collect_events(&mut all)),
        ["error"; 8],
        "what is refused never starts"
    );
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert!(
        run(&manager, "my_tool", json!({"param1": "test"}))
            .await
            .result
            .is_success(),
        "what is optional may be absent"
    );
    let names = [
        ErrorType::Validation,
        ErrorType::User,
        ErrorType::System,
        ErrorType::Permission,
        ErrorType::Security,
    ];
    let names = names.map(|error_type| json!(error_type));
    assert_eq!(
        json!(names),
        json!([
            "validation_error",
            "user_error",
            "system_error",
            "permission_error",
            "security_error"
        ])
    );
}

// 27, 28, 29: the order of members does not matter, and a failed call may be repeated.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_call_in_a_turn_is_rejected() {
    let (manager, runs) = manager_with(my_tool());
    let twice = json!({"param1": "x", "count": 1});
    assert!(
        run(&manager, "my_tool", twice.clone())
            .await
            .result
            .is_success()
    );
    let again = run(&manager, "mine", json!({"count": 1, "param1": "x"})).await;
    assert_eq!(error_type(&again), Some(ErrorType::Validation));
    assert!(
        again.result.error().contains("already made in this turn"),
        "{}",
        again.result.error()
    );
    assert!(
        run(&manager, "my_tool", json!({"param1": "x", "count": 2}))
            .await
            .result
            .is_success()
    );
    manager.clear_current_turn();
    assert!(run(&manager, "my_tool", twice).await.result.is_success());
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    let tries = Arc::new(AtomicUsize::new(0));
    let flaky = FunctionTool::new(my_tool(), move |_, _| {
        let is_first = tries.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if is_first {
                ToolResult::failure(ErrorType::System, "busy")
            } else {
                ToolResult::success()
            }
        }
    });
    let manager = builder().tool(flaky).build().expect("it is valid");
    assert!(
        !run(&manager, "my_tool", json!({"param1": "x"}))
            .await
            .result
            .is_success()
    );
    assert!(
        run(&manager, "my_tool", json!({"param1": "x"}))
            .await
            .result
            .is_success()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_call_is_repeated_after_a_change() {
    let mut reading = my_tool();
    reading.annotations.read_only_hint = Some(true);
    let (reading, _) = echo(reading);
    let changing = Tool::with_parameters("change", "Changes", json!({"type": "object"}));
    let (changing, _) = echo(changing);
    let builder = builder().tool(reading).tool(changing);
    let manager = builder.build().expect("it is valid");
    let reads = async || {
        let executed = run(&manager, "my_tool", json!({"param1": "x"})).await;
        executed.result.is_success()
    };
    let changes = async |count: u64| {
        let executed = run(&manager, "change", json!({"count": count})).await;
        executed.result.is_success()
    };
    assert!(reads().await && !reads().await);
    assert!(changes(1).await);
    assert!(reads().await && !reads().await);
    assert!(!changes(1).await, "a change is not repeated");
    assert!(changes(2).await && !changes(1).await);
    assert!(reads().await && !reads().await);
}

/// A tool whose calls depend on each other. It returns the number of earlier calls.
struct InOrder(Tool, AtomicUsize);

impl RunnableTool for InOrder {
    fn definition(&self) -> &Tool {
        &self.0
    }

    fn runs_in_order(&self) -> bool {
        true
    }

    fn may_repeat(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, _call: &'a ValidCall, _context: &'a Context) -> RunFuture<'a> {
        Box::pin(async move {
            let earlier = self.1.load(Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.1.store(earlier + 1, Ordering::SeqCst);
            ToolResult::success().field("earlier", earlier)
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_tool_in_order_run_one_after_the_other() {
    let tool = InOrder(my_tool(), AtomicUsize::new(0));
    let manager = builder().tool(tool).build().expect("it is valid");
    let calls = vec![call("my_tool", json!({"param1": "x"})); 20];
    let executed = manager.execute_all(&calls).await;
    for (earlier, executed) in executed.iter().enumerate() {
        assert_eq!(executed.result.fields["earlier"], earlier);
    }
    assert_eq!(executed.len(), 20);
}

/// A tool that writes a file of the working folder.
struct Writes(Tool);

impl RunnableTool for Writes {
    fn definition(&self) -> &Tool {
        &self.0
    }

    fn writes(&self, arguments: &Value) -> Vec<PathBuf> {
        vec![PathBuf::from(
            arguments["param1"].as_str().unwrap_or_default(),
        )]
    }

    fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a> {
        Box::pin(async move {
            let path = context
                .root()
                .join(call.arguments()["param1"].as_str().unwrap_or_default());
            match fs::write(path, call.arguments()["count"].to_string()) {
                Ok(()) => ToolResult::success(),
                Err(error) => ToolResult::failure(ErrorType::System, error.to_string()),
            }
        })
    }
}

// 30, 31.
#[tokio::test(flavor = "multi_thread")]
async fn write_requires_a_read_of_the_current_content() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("notes.txt");
    fs::write(&path, "old").expect("it can be written");
    let manager = builder()
        .tool(Writes(my_tool()))
        .root(folder.path())
        .build()
        .expect("it is valid");
    let mut count = 0;
    let mut write = async |file: &str| {
        count += 1;
        run(&manager, "my_tool", json!({"param1": file, "count": count})).await
    };
    let unread = write("notes.txt").await;
    assert_eq!(error_type(&unread), Some(ErrorType::Validation));
    assert!(
        unread.result.error().contains("was not read yet"),
        "{}",
        unread.result.error()
    );
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "old");
    let read = |path: &PathBuf| {
        manager
            .files()
            .note_read(path, &fs::metadata(path).expect("it is there"));
    };
    read(&path);
    assert!(write("notes.txt").await.result.is_success());
    assert!(
        write("./notes.txt").await.result.is_success(),
        "what a tool wrote is known"
    );
    let file = manager.files().get(&path).expect("it is known");
    assert_eq!((file.reads, file.writes), (1, 2));
    fs::write(&path, "changed by somebody else").expect("it can be written");
    assert!(
        write("notes.txt")
            .await
            .result
            .error()
            .contains("was changed since it was read")
    );
    assert!(
        write("new.txt").await.result.is_success(),
        "a new file need not have been read"
    );
    manager.clear_current_turn();
    assert!(manager.files().get(&path).is_some());
    manager.clear_state();
    assert!(manager.files().get(&path).is_none());
    assert!(!write("notes.txt").await.result.is_success());
}

// 32, 63, 64.
#[tokio::test(flavor = "multi_thread")]
async fn call_by_alias_runs_the_tool_under_its_own_name() {
    let seen = FunctionTool::new(my_tool(), |arguments, context: Context| async move {
        ToolResult::success()
            .field("arguments", arguments)
            .field("id", context.call_id())
    });
    let manager = builder().tool(seen).build().expect("it is valid");
    let first = run(&manager, "mine", json!({"param1": "x"})).await;
    assert_eq!(first.result.fields["arguments"], json!({"param1": "x"}));
    let second = run(&manager, "my_tool", json!({"param1": "y"})).await;
    assert_ne!(
        first.result.fields["id"], second.result.fields["id"],
        "each call has its own context"
    );
}

// 65.
#[tokio::test(flavor = "multi_thread")]
async fn result_carries_the_id_of_its_call() {
    let (manager, _) = manager_with(my_tool());
    let executed = [
        run(&manager, "mine", json!({"param1": "x"})).await,
        run(&manager, "mine", json!({})).await,
    ];
    let results = executed
        .iter()
        .map(ExecutedCall::call_result)
        .collect::<Vec<_>>();
    let messages = Provider::OpenAiChat
        .results(&results)
        .expect("calls have ids");
    assert_eq!(messages[0]["tool_call_id"], "toolu_1");
    assert_eq!(messages[0]["role"], "tool");
    assert!(
        messages[0]["content"]
            .as_str()
            .is_some_and(|content| content.contains("\"param1\":\"x\"")),
        "{messages:?}"
    );
    assert!(
        messages[1]["content"]
            .as_str()
            .is_some_and(|content| content.contains("mine(): param1 is required"))
    );
}

// 66, 67.
#[tokio::test(flavor = "multi_thread")]
async fn call_that_needs_confirmation_waits_for_it() {
    let mut loose = Tool::without_arguments("loose", "Takes anything");
    (loose.parameters, loose.no_schema_mode) = (None, Some(NoSchemaMode::Full));
    let waits = Tool {
        name: "waits".into(),
        id: "waits".into(),
        no_schema_mode: Some(NoSchemaMode::HumanApproval),
        ..loose.clone()
    };
    let wipe = Tool {
        safe: Some(false),
        ..Tool::without_arguments("wipe", "Wipes the disk")
    };
    let make = |decision: Option<ConfirmationDecision>| {
        let (mut builder, mut runs) = (builder(), Vec::new());
        for definition in [&loose, &waits, &wipe] {
            let (tool, count) = echo(definition.clone());
            builder = builder.tool(tool);
            runs.push(count);
        }
        if let Some(decision) = decision {
            builder = builder.confirm(move |_: &PendingCall| decision.clone());
        }
        (builder.build().expect("it is valid"), runs)
    };
    let ran = |runs: &[Arc<AtomicUsize>]| {
        runs.iter()
            .map(|runs| runs.load(Ordering::SeqCst))
            .collect::<Vec<_>>()
    };
    let all = async |manager: &ToolManager| {
        let calls = ["loose", "waits", "wipe"].map(|name| call(name, json!({})));
        timeout(FAR, manager.execute_all(&calls))
            .await
            .expect("it does not hang")
    };
    let (manager, runs) = make(None);
    let mut starts = manager.events().subscribe(Topic::Only(EventType::Start));
    let executed = all(&manager).await;
    assert_eq!(ran(&runs), [1, 0, 0], "no confirmation handler is set");
    let start = &collect_events(&mut starts)[0]["data"];
    assert_eq!(
        (&start["validated"], &start["no_schema_mode"]),
        (&json!(false), &json!("full"))
    );
    assert_eq!(
        executed[1..].iter().map(error_type).collect::<Vec<_>>(),
        [Some(ErrorType::Permission); 2]
    );
    let (manager, runs) = make(Some(ConfirmationDecision::Allow));
    all(&manager).await;
    assert_eq!(ran(&runs), [1, 1, 1]);
    let (manager, runs) = make(Some(ConfirmationDecision::Deny(
        "not on a Friday".to_owned(),
    )));
    assert!(
        all(&manager).await[2]
            .result
            .error()
            .ends_with("the call was not confirmed: not on a Friday")
    );
    assert_eq!(ran(&runs), [1, 0, 0]);
    // With `Ask`, one call is approved and one is denied.
    let (manager, runs) = make(Some(ConfirmationDecision::Ask));
    let answers = async {
        let mut decided = 0;
        while decided < 2 {
            manager.approvals().arrived().await;
            for (ticket, pending) in manager.approvals().waiting() {
                decided += 1;
                match pending.awaits() {
                    PendingReason::Confirmation => {
                        manager.approvals().approve(ticket).expect("it waits");
                    }
                    _ => manager.approvals().deny(ticket, "no").expect("it waits"),
                }
                assert!(
                    manager.approvals().approve(ticket).is_err(),
                    "it was decided on"
                );
            }
        }
    };
    let (executed, ()) = timeout(FAR, async { tokio::join!(all(&manager), answers) })
        .await
        .expect("it does not hang");
    assert_eq!(ran(&runs), [1, 0, 1]);
    assert_eq!(error_type(&executed[1]), Some(ErrorType::Permission));
}

#[tokio::test(flavor = "multi_thread")]
async fn unanswered_confirmation_expires() {
    let (wipe, runs) = echo(Tool {
        safe: Some(false),
        ..Tool::without_arguments("wipe", "Wipes the disk")
    });
    let builder = builder()
        .tool(wipe)
        .confirm(|_: &PendingCall| ConfirmationDecision::Ask);
    let manager = builder
        .approval_lifetime(Duration::from_millis(20))
        .build()
        .expect("it is valid");
    let executed = run(&manager, "wipe", json!({})).await;
    assert!(
        executed.result.error().contains("was not approved"),
        "{}",
        executed.result.error()
    );
    assert_eq!(
        (
            manager.approvals().waiting().len(),
            runs.load(Ordering::SeqCst)
        ),
        (0, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn complete_turn_goes_from_request_to_result_message() {
    let parameters = json!({"type": "object", "properties": {"to": {"type": "string"}, "amount": {"type": "number"}},
        "required": ["to", "amount"]});
    let mut pay = Tool::with_parameters("send_payment", "Sends money to somebody", parameters);
    pay.aliases = vec![Alias {
        name: "transfer".to_owned(),
        deprecated: false,
    }];
    pay.safe = Some(false);
    let (pays, paid) = echo(pay);
    let (weather, _) = echo(tool(
        "weather",
        "get_forecast",
        "Weather for the coming days",
    ));
    let access = Access {
        allow_unsafe: true,
        ..Access::default()
    };
    let builder = ToolManager::builder(access.clone())
        .tool(pays)
        .tool(weather);
    let manager = builder.confirm(
        |call: &PendingCall| match call.arguments()["amount"].as_f64() {
            Some(amount) if amount < 100.0 => ConfirmationDecision::Allow,
            _ => ConfirmationDecision::Deny("too much".to_owned()),
        },
    );
    let manager = manager.build().expect("it is valid");
    let mut all = manager.events().subscribe(Topic::All);

    let engine = Engine::new(manager.catalog().clone()).expect("it can be indexed");
    let options = PickOptions {
        access,
        max_candidates: 1,
        ..PickOptions::default()
    };
    let selection = engine
        .pick(&Query::new("send bob the money I owe him"), &options)
        .expect("it can be picked");
    assert_eq!(selection.picks[0].tool.name, "send_payment");
    let picked: Vec<_> = selection
        .picks
        .iter()
        .map(|pick| Arc::clone(&pick.tool))
        .collect();
    let shown =
        picktools_provider::translate(&picked, Provider::Anthropic, &TranslateOptions::default())
            .expect("it can be shown");

    let answer = json!({"role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "tool_use", "id": "toolu_a", "name": "transfer", "input": {"to": "bob", "amount": 15}},
        {"type": "tool_use", "id": "toolu_b", "name": "transfer", "input": {"to": "bob", "amount": 1500}},
        {"type": "tool_use", "id": "toolu_c", "name": "get_forecast", "input": {}}]});
    let calls = Provider::Anthropic.calls(&answer).expect("it can be read");
    let executed = manager.translated(&shown).execute_all(&calls).await;
    assert_eq!(paid.load(Ordering::SeqCst), 1);
    let results = executed
        .iter()
        .map(ExecutedCall::call_result)
        .collect::<Vec<_>>();
    let messages = Provider::Anthropic
        .results(&results)
        .expect("calls have ids");
    let content = messages[0]["content"]
        .as_array()
        .expect("it is one message");
    let ids: Vec<_> = content
        .iter()
        .map(|part| part["tool_use_id"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(ids, ["toolu_a", "toolu_b", "toolu_c"]);
    let errors: Vec<_> = content
        .iter()
        .map(|part| part["is_error"] == true)
        .collect();
    assert_eq!(
        errors,
        [false, true, true],
        "one was run, one too much, and one never shown: {content:?}"
    );
    let ends: Vec<_> = collect_events(&mut all)
        .into_iter()
        .filter(|event| event["type"] != "tool_call_start")
        .collect();
    assert_eq!(
        ends.iter()
            .filter(|event| event["type"] == "tool_call_end")
            .count(),
        1
    );
    assert_eq!(ends.len(), 3);
}
