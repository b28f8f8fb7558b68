//! Calls that were validated earlier, and run later by a manager with other tools or access.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use picktools::catalog::{Annotations, NoSchemaMode};
use picktools::{Access, Catalog, Tool};
use picktools_call::{
    ApprovalQueue, HydratedCall, Hydrator, PendingCall, PendingReason, ValidCall,
};
use picktools_provider::{Arguments, Provider, ToolCall, TranslateOptions};
use picktools_runtime::{
    ConfirmationDecision, ErrorType, ExecutedCall, FunctionTool, ToolManager, ToolManagerBuilder,
    ToolResult, Topic,
};
use serde_json::json;

fn send() -> Tool {
    let schema = json!({"type": "object", "properties": {"to": {"type": "string"}},
        "required": ["to"]});
    Tool::with_parameters("send", "Sends a message", schema)
}

fn wipe() -> Tool {
    Tool {
        safe: Some(false),
        ..Tool::without_arguments("wipe", "Wipes the disk")
    }
}

fn all() -> Access {
    Access {
        allow_unsafe: true,
        ..Access::default()
    }
}

fn hydrate(tool: Tool, access: &Access) -> HydratedCall {
    let arguments = match tool.name.as_str() {
        "send" => json!({"to": "ada"}),
        _ => json!({}),
    };
    let call = ToolCall {
        id: Some("toolu_1".to_owned()),
        name: tool.name.clone(),
        arguments: Arguments::Json(arguments),
    };
    let catalog = Catalog::from_tools([tool]).expect("it is valid");
    let hydrator = Hydrator::new(catalog, access).expect("it is valid");
    hydrator.hydrate(&call).expect("it is valid")
}

fn valid(tool: Tool) -> ValidCall {
    match hydrate(tool, &all()) {
        HydratedCall::Ready(call) => call,
        other => panic!("it can run, but is {other:?}"),
    }
}

/// Returns a builder of a manager with a tool, and the counter of its runs.
fn builder(tool: Tool, access: Access) -> (ToolManagerBuilder, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let tool = FunctionTool::new(tool, move |arguments, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { ToolResult::success().field("sent", arguments) }
    });
    (ToolManager::builder(access).tool(tool), runs)
}

fn manager(tool: Tool, access: Access) -> (ToolManager, Arc<AtomicUsize>) {
    let (builder, runs) = builder(tool, access);
    (builder.build().expect("it is valid"), runs)
}

fn error_type(executed: &ExecutedCall) -> Option<ErrorType> {
    let failure = executed.result.failure.as_ref();
    failure.map(|failure| failure.error_type)
}

/// Runs a call that the manager must refuse, and returns the error.
async fn refuse(tool: Tool, access: Access, call: ValidCall) -> (Option<ErrorType>, String) {
    let (manager, runs) = manager(tool, access);
    let mut events = manager.events().subscribe(Topic::All);
    let executed = manager.run(call).await;
    assert_eq!(runs.load(Ordering::SeqCst), 0, "{executed:?}");
    let event = events.try_next().expect("it is reported").event;
    assert_eq!(event.event_type().name(), "error");
    assert!(events.try_next().is_none());
    (error_type(&executed), executed.result.error().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_another_hydrator_runs_once_in_a_turn() {
    let (manager, runs) = manager(send(), all());
    let executed = manager.run(valid(send())).await;
    assert_eq!(executed.result.fields["sent"], json!({"to": "ada"}));
    assert_eq!(executed.call.provider_id.as_deref(), Some("toolu_1"));
    let repeated = manager.run(valid(send())).await;
    assert!(
        repeated
            .result
            .error()
            .contains("already made in this turn"),
        "{repeated:?}"
    );
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_a_changed_definition_is_refused() {
    let mut with_more = send();
    with_more.parameters = Some(
        json!({"type": "object", "properties": {"to": {"type": "string"},
        "subject": {"type": "string"}}, "required": ["to", "subject"]}),
    );
    let described = Tool {
        description: "Sends a message to everybody".to_owned(),
        ..send()
    };
    let unsafe_now = Tool {
        safe: Some(false),
        ..send()
    };
    let writes = Tool {
        annotations: Annotations {
            read_only_hint: Some(false),
            ..Annotations::default()
        },
        ..send()
    };
    let mut loose = send();
    (loose.parameters, loose.no_schema_mode) = (None, Some(NoSchemaMode::Full));
    for (tool, members) in [
        (with_more, "parameters"),
        (described, "description"),
        (unsafe_now, "safe"),
        (writes, "annotations"),
        (loose, "parameters, no_schema_mode"),
    ] {
        let (error_type, error) = refuse(tool, all(), valid(send())).await;
        assert_eq!(error_type, Some(ErrorType::Validation));
        let expected = format!(
            "the definition of send has changed since the call was validated ({members}); validate \
             the call again"
        );
        assert!(error.contains(&expected), "{error}");
    }
    let tagged = Tool {
        tags: vec!["mail".to_owned()],
        ..send()
    };
    let (manager, _) = manager(tagged, all());
    let executed = manager.run(valid(send())).await;
    assert!(executed.result.is_success(), "{executed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_a_removed_or_denied_tool_is_refused() {
    let other = Tool::without_arguments("list", "Lists messages");
    let (error_type, error) = refuse(other, all(), valid(send())).await;
    assert_eq!(error_type, Some(ErrorType::Validation));
    assert!(
        error.contains("send is no longer in the catalog; validate the call again"),
        "{error}"
    );
    let restricted = Tool {
        allowed_roles: ["admin".to_owned()].into(),
        ..send()
    };
    let (error_type, error) = refuse(restricted, all(), valid(send())).await;
    assert_eq!(error_type, Some(ErrorType::Permission));
    assert!(error.contains("send cannot be called: "), "{error}");
    let (error_type, _) = refuse(wipe(), Access::default(), valid(wipe())).await;
    assert_eq!(error_type, Some(ErrorType::Permission));
    // A manager for a translation runs only tools that the model was shown.
    let (manager, runs) = manager(send(), all());
    let nothing =
        picktools_provider::translate(&[], Provider::Ollama, &TranslateOptions::default())
            .expect("it can be shown");
    let executed = manager.translated(&nothing).run(valid(send())).await;
    assert_eq!(
        (executed.result.is_success(), runs.load(Ordering::SeqCst)),
        (false, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn call_needs_the_confirmation_of_the_manager() {
    let (error_type, error) = refuse(wipe(), all(), valid(wipe())).await;
    assert_eq!(error_type, Some(ErrorType::Permission));
    assert!(error.contains("no confirmation handler is set"), "{error}");
    // The access of the manager has an execution mode that the earlier one did not have.
    let read_only = Access {
        execution_mode: Some("read-only".to_owned()),
        ..all()
    };
    let (error_type, error) = refuse(send(), read_only, valid(send())).await;
    assert_eq!(error_type, Some(ErrorType::Permission));
    assert!(error.contains("execution mode is read-only"), "{error}");
    let (builder, runs) = builder(wipe(), all());
    let builder = builder.confirm(|_: &PendingCall| ConfirmationDecision::Allow);
    let executed = builder
        .build()
        .expect("it is valid")
        .run(valid(wipe()))
        .await;
    assert!(executed.result.is_success(), "{executed:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// Returns the call after its approval in a queue.
fn approve(call: PendingCall) -> ValidCall {
    let mut queue = ApprovalQueue::new(Duration::from_secs(60));
    let now = Instant::now();
    let ticket = queue.push(call, now).expect("there is room");
    queue.approve(ticket, now).expect("it waits")
}

#[tokio::test(flavor = "multi_thread")]
async fn confirmed_call_runs_without_another_question() {
    let pending = PendingCall::new(valid(wipe()), PendingReason::Confirmation);
    let (manager, runs) = manager(wipe(), all());
    let executed = manager.run(approve(pending)).await;
    assert!(executed.result.is_success(), "{executed:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    // A confirmation for another reason does not answer the question of this manager.
    let read_only = Access {
        execution_mode: Some("read-only".to_owned()),
        ..all()
    };
    let pending = PendingCall::new(valid(wipe()), PendingReason::Confirmation);
    let (error_type, error) = refuse(wipe(), read_only.clone(), approve(pending)).await;
    assert_eq!(error_type, Some(ErrorType::Permission));
    assert!(error.contains("execution mode is read-only"), "{error}");
    let HydratedCall::NeedsApproval(pending) = hydrate(send(), &read_only) else {
        panic!("it must wait");
    };
    let (builder, runs) = builder(send(), read_only);
    let manager = builder.build().expect("it is valid");
    let executed = manager.run(approve(pending)).await;
    assert!(executed.result.is_success(), "{executed:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_call_asks_the_manager_and_is_checked_again() {
    let pending = || PendingCall::new(valid(send()), PendingReason::NoSchema);
    let (without_hook, runs) = manager(send(), all());
    let executed = without_hook.run_pending(pending()).await;
    assert_eq!(error_type(&executed), Some(ErrorType::Permission));
    assert_eq!(runs.load(Ordering::SeqCst), 0, "its reason stays");
    let (hooked, runs) = builder(send(), all());
    let hooked = hooked.confirm(|call: &PendingCall| match call.awaits() {
        PendingReason::NoSchema => ConfirmationDecision::Allow,
        other => ConfirmationDecision::Deny(other.to_string()),
    });
    let executed = hooked
        .build()
        .expect("it is valid")
        .run_pending(pending())
        .await;
    assert!(executed.result.is_success(), "{executed:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let described = Tool {
        description: "Sends a message to everybody".to_owned(),
        ..send()
    };
    let (changed, runs) = builder(described, all());
    let changed = changed.confirm(|_: &PendingCall| ConfirmationDecision::Allow);
    let executed = changed
        .build()
        .expect("it is valid")
        .run_pending(pending())
        .await;
    assert!(
        executed.result.error().contains("(description)"),
        "{executed:?}"
    );
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_a_refused_call_are_redacted() {
    let schema = json!({"type": "object", "properties": {"password": {"type": "string"}}});
    let login = Tool::with_parameters("login", "Logs in", schema);
    let call = ToolCall {
        id: None,
        name: "login".to_owned(),
        arguments: Arguments::Json(json!({"password": "hunter22"})),
    };
    let catalog = Catalog::from_tools([login]).expect("it is valid");
    let hydrator = Hydrator::new(catalog, &all()).expect("it is valid");
    let Ok(HydratedCall::Ready(call)) = hydrator.hydrate(&call) else {
        panic!("it is valid");
    };
    let (_, error) = refuse(send(), all(), call).await;
    assert!(
        error.contains("[redacted]") && !error.contains("hunter22"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn person_confirms_the_normalised_arguments() {
    let schema = json!({"type": "object", "properties": {"count": {"type": "integer"}}});
    let tool = Tool {
        safe: Some(false),
        ..Tool::with_parameters("drop", "Drops rows", schema)
    };
    let call = ToolCall {
        id: None,
        name: "drop".to_owned(),
        arguments: Arguments::Json(json!({"Count": "5"})),
    };
    let shown = Arc::new(std::sync::Mutex::new(None));
    let seen_by_hook = Arc::clone(&shown);
    let (builder, runs) = builder(tool, all());
    let builder = builder.confirm(move |call: &PendingCall| {
        *seen_by_hook.lock().expect("the lock") = Some(call.arguments().clone());
        ConfirmationDecision::Ask
    });
    let manager = builder.build().expect("it is valid");
    let approve = async {
        manager.approvals().arrived().await;
        let (ticket, waiting) = manager.approvals().waiting().remove(0);
        assert_eq!(waiting.arguments(), &json!({"count": 5}));
        manager.approvals().approve(ticket).expect("it waits");
    };
    let (executed, ()) = tokio::join!(manager.execute(&call), approve);
    assert!(executed.result.is_success(), "{executed:?}");
    let shown = shown.lock().expect("the lock").take();
    assert_eq!(shown, Some(json!({"count": 5})), "the hook");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
