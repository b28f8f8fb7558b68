//! Tests of the working folders of terminal sessions.

use std::fs;

use picktools::Access;
use picktools_provider::ToolCall;
use picktools_runtime::{ConfirmationDecision, ErrorType, ToolManager};
use picktools_shell::{BashOptions, Cd};
use serde_json::json;

use crate::support::{TestFolder, call, error_type, output, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_run_in_the_folder_of_their_session() {
    let place = TestFolder::new();
    let access = Access {
        allow_unsafe: true,
        ..Access::default()
    };
    let manager = ToolManager::builder(access)
        .tool(place.bash(BashOptions::default()))
        .tool(Cd::default())
        .root(&place.root)
        .confirm(|_: &_| ConfirmationDecision::Allow)
        .build()
        .expect("it is valid");
    let cd = |arguments| ToolCall {
        name: "cd".to_owned(),
        ..call(arguments)
    };
    // The calls of one answer are run in order.
    let calls = [
        call(json!({"command": "pwd -P"})),
        cd(json!({"path": "inner"})),
        call(json!({"command": "pwd -P; cd ../src"})),
        cd(json!({"path": "src", "sessionId": "a"})),
        call(json!({"command": "pwd -P", "sessionId": "a"})),
        call(json!({"command": "pwd -P", "working_dir": "src"})),
        call(json!({"command": "pwd -P; true"})),
    ];
    let executed = manager.execute_all(&calls).await;
    let folders: Vec<&str> = [0, 2, 4, 5, 6].map(|index| output(&executed[index])).into();
    let folder = |name: &str| format!("{}\n", place.root.join(name).display());
    let root = format!("{}\n", place.root.display());
    assert_eq!(
        folders,
        [
            root,
            folder("inner"),
            folder("src"),
            folder("src"),
            folder("inner")
        ]
    );
    fs::remove_dir(place.root.join("inner")).expect("it is empty");
    let gone = run(&manager, json!({"command": "pwd"})).await;
    assert_eq!(error_type(&gone), Some(ErrorType::User));
}
