//! Tools that run outside a manager, and managers that share one stream of events.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use picktools::{Access, Catalog, Tool};
use picktools_call::{HydratedCall, Hydrator, ValidCall};
use picktools_provider::{Arguments, ToolCall};
use picktools_runtime::{
    CancellationToken, Context, Events, FunctionTool, ManagerError, RunnableTool, ToolManager,
    ToolManagerBuilder, ToolResult, Topic,
};
use serde_json::{Value, json};

fn definition() -> Tool {
    Tool::without_arguments("list", "Lists all messages")
}

fn call() -> ToolCall {
    ToolCall {
        id: Some("toolu_1".to_owned()),
        name: "list".to_owned(),
        arguments: Arguments::Json(json!({})),
    }
}

fn valid() -> ValidCall {
    let catalog = Catalog::from_tools([definition()]).expect("it is valid");
    let hydrator = Hydrator::new(catalog, &Access::default()).expect("it is valid");
    match hydrator.hydrate(&call()) {
        Ok(HydratedCall::Ready(call)) => call,
        other => panic!("it can run, but is {other:?}"),
    }
}

/// Returns a tool that reports its context.
fn reporting() -> impl RunnableTool {
    FunctionTool::new(definition(), |_, context: Context| async move {
        context.emit_output_chunk("listing\n");
        ToolResult::success()
            .field("root", context.root().display().to_string())
            .field("cancelled", context.is_cancelled())
            .field("call_id", context.call_id())
    })
}

#[tokio::test]
async fn tool_runs_outside_a_manager() {
    let folder = tempfile::tempdir().expect("a folder");
    let events = Events::default();
    let mut received = events.subscribe(Topic::All);
    let cancellation = CancellationToken::new();
    let deadline = Instant::now() + Duration::from_secs(5);
    let valid = valid();
    let context = Context::new(&valid, folder.path())
        .expect("it is a folder")
        .with_deadline(deadline)
        .with_cancellation(cancellation.clone())
        .with_events(events);
    assert_eq!(context.deadline(), deadline);
    let tool = reporting();
    let result = tool.run(&valid, &context).await;
    let root = folder.path().canonicalize().expect("it is a folder");
    assert_eq!(result.fields["root"], json!(root));
    assert_eq!(result.fields["cancelled"], json!(false));
    let event = json!(*received.try_next().expect("a chunk").event);
    assert_eq!(
        (&event["type"], &event["data"]["chunk"]),
        (&json!("tool_output_chunk"), &json!("listing\n"))
    );
    assert_eq!(event["data"]["provider_id"], "toolu_1");
    assert_eq!(event["data"]["call_id"], result.fields["call_id"]);
    cancellation.cancel();
    let result = tool.run(&valid, &context).await;
    assert_eq!(result.fields["cancelled"], json!(true));
}

#[tokio::test]
async fn contexts_of_one_session_share_its_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.txt");
    fs::write(&file, "text").expect("it is written");
    let valid = valid();
    let first = Context::new(&valid, folder.path()).expect("it is a folder");
    let second = first.for_call(&valid);
    assert_ne!(first.call_id(), second.call_id());
    first
        .files()
        .check_write(&file)
        .expect_err("it was not read");
    let metadata = fs::metadata(&file).expect("it is there");
    first.files().note_read(&file, &metadata);
    second.files().check_write(&file).expect("it was read");
    let other = Context::new(&valid, folder.path()).expect("it is a folder");
    other
        .files()
        .check_write(&file)
        .expect_err("it is another session");
}

#[test]
fn context_without_a_folder_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.txt");
    fs::write(&file, "text").expect("it is written");
    for root in [file, folder.path().join("missing")] {
        let error = Context::new(&valid(), &root).expect_err("it is no folder");
        assert!(matches!(error, ManagerError::Root { .. }), "{error}");
    }
}

fn builder(events: &Events) -> ToolManagerBuilder {
    ToolManager::builder(Access::default())
        .tool(reporting())
        .events(events.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn managers_share_one_stream_of_events() {
    let events = Events::default();
    let mut received = events.subscribe(Topic::All);
    let ada = builder(&events).name("ada").build().expect("it is valid");
    let bob = builder(&events).name("bob").build().expect("it is valid");
    let unnamed = builder(&events).build().expect("it is valid");
    let call = call();
    let executed = tokio::join!(
        ada.execute(&call),
        bob.execute(&call),
        unnamed.execute(&call)
    );
    let ids = [&executed.0, &executed.1, &executed.2].map(|executed| &executed.call.call_id);
    assert_eq!(BTreeSet::from(ids).len(), 3, "{ids:?}");
    let mut seen: Vec<(Value, Value)> = Vec::new();
    while let Some(received) = received.try_next() {
        let event = json!(*received.event);
        let data = &event["data"];
        let (name, id) = (data["manager"].as_str(), data["call_id"].as_str());
        let expected = match name {
            Some("ada") => ids[0],
            Some("bob") => ids[1],
            None => ids[2],
            other => panic!("{other:?}"),
        };
        assert_eq!(id, Some(expected.as_str()));
        seen.push((data["manager"].clone(), event["type"].clone()));
    }
    assert_eq!(seen.len(), 9, "start, chunk and end of each: {seen:?}");
    assert!(!ada.cancel(ids[1]), "a manager knows its own calls only");
    // The stream ends with its last owner.
    drop((ada, bob, events));
    unnamed.execute(&call).await;
    drop(unnamed);
    let mut more = 0;
    while received.next().await.is_some() {
        more += 1;
    }
    assert!(more >= 1, "the events of the last manager arrive");
}

#[tokio::test(flavor = "multi_thread")]
async fn managers_have_streams_of_their_own_by_default() {
    let build = || ToolManager::builder(Access::default()).tool(reporting());
    let (first, second) = (
        build().build().expect("it is valid"),
        build().build().expect("it is valid"),
    );
    let mut received = second.events().subscribe(Topic::All);
    first.execute(&call()).await;
    assert!(received.try_next().is_none());
}
