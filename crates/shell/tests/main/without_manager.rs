//! Built-in tools that run without a manager.

use std::fs;

use picktools::{Access, Catalog};
use picktools_call::{HydratedCall, Hydrator, ValidCall};
use picktools_provider::{Arguments, ToolCall};
use picktools_runtime::{Context, RunnableTool};
use picktools_shell::{Read, Write};
use serde_json::{Value, json};

fn valid(tool: &dyn RunnableTool, arguments: Value) -> ValidCall {
    let definition = tool.definition().clone();
    let call = ToolCall {
        id: None,
        name: definition.name.clone(),
        arguments: Arguments::Json(arguments),
    };
    let access = Access {
        allow_unsafe: true,
        ..Access::default()
    };
    let catalog = Catalog::from_tools([definition]).expect("it is valid");
    let hydrator = Hydrator::new(catalog, &access).expect("it is valid");
    match hydrator.hydrate(&call) {
        Ok(HydratedCall::Ready(call)) => call,
        other => panic!("it can run, but is {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_one_session_read_and_write_below_the_root() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.txt");
    fs::write(&file, "before\n").expect("it is written");
    let (read, write) = (Read::default(), Write::default());
    let reading = valid(&read, json!({"file_paths": ["a.txt"]}));
    let writing = valid(&write, json!({"file_path": "a.txt", "content": "after\n"}));
    let context = Context::new(&reading, folder.path()).expect("it is a folder");
    let result = read.run(&reading, &context).await;
    assert!(result.is_success(), "{result:?}");
    let result = write.run(&writing, &context.for_call(&writing)).await;
    assert!(result.is_success(), "{result:?}");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "after\n");
    let outside = valid(&read, json!({"file_paths": ["../secret.txt"]}));
    let result = read.run(&outside, &context.for_call(&outside)).await;
    assert!(!result.is_success(), "{result:?}");
}
