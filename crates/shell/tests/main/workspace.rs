//! A root with all built-in tools for files, for their tests.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use picktools::Access;
use picktools_provider::{Arguments, ToolCall};
use picktools_runtime::{ConfirmationDecision, ErrorType, ExecutedCall, ToolManager};
use picktools_shell::{Cd, Edit, Glob, Grep, Read, SearchOptions, Undo, Write};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::timeout;

const FAR: Duration = Duration::from_secs(30);
/// The content of files outside the root.
pub(crate) const OUTSIDE: &str = "OUTSIDE-SECRET";

/// A folder with the root, `root`, and a folder beside it.
pub(crate) struct Workspace {
    _folder: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) manager: ToolManager,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        Self::with_limits(SearchOptions::default())
    }

    pub(crate) fn with_limits(options: SearchOptions) -> Self {
        let folder = TempDir::new().expect("the folder is writable");
        let base = folder.path().canonicalize().expect("it is there");
        let (root, outside) = (base.join("root"), base.join("outside"));
        fs::create_dir_all(&root).expect("it is writable");
        fs::create_dir_all(&outside).expect("it is writable");
        fs::write(outside.join("secret.txt"), OUTSIDE).expect("it is writable");
        let access = Access {
            allow_unsafe: true,
            ..Access::default()
        };
        let manager = ToolManager::builder(access)
            .tool(Read::default())
            .tool(Write::default())
            .tool(Edit::default())
            .tool(Undo::default())
            .tool(Grep::new(options))
            .tool(Glob::new(options))
            .tool(Cd::default())
            .root(&root)
            .confirm(|_: &_| ConfirmationDecision::Allow)
            .build()
            .expect("it is valid");
        Self {
            _folder: folder,
            root,
            outside,
            manager,
        }
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().expect("it is in the root")).expect("it is writable");
        fs::write(path, content).expect("it is writable");
    }

    /// Returns the content of a file, or `None` if there is none.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.root.join(name)).ok()
    }

    /// Returns the names in a folder, in order.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(folder)).expect("it is there");
        let names = entries.map(|entry| entry.expect("it is there").file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into()).collect();
        names.sort();
        names
    }

    pub(crate) async fn call(&self, name: &str, arguments: Value) -> ExecutedCall {
        let calls = [call(name, arguments)];
        timeout(FAR, self.manager.execute(&calls[0]))
            .await
            .expect("it does not hang")
    }

    pub(crate) async fn read(&self, path: &str) -> ExecutedCall {
        self.call("read", serde_json::json!({"file_paths": [path]}))
            .await
    }
}

pub(crate) fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id: None,
        name: name.to_owned(),
        arguments: Arguments::Json(arguments),
    }
}

pub(crate) fn error_type(executed: &ExecutedCall) -> Option<ErrorType> {
    let failure = executed.result.failure.as_ref();
    failure.map(|failure| failure.error_type)
}

pub(crate) fn text<'a>(executed: &'a ExecutedCall, field: &str) -> &'a str {
    let value = executed.result.fields.get(field);
    value.and_then(Value::as_str).unwrap_or_default()
}

/// Asserts that a call failed with a type and a part of its message.
#[track_caller]
pub(crate) fn assert_fails(executed: &ExecutedCall, error_type: ErrorType, message: &str) {
    assert_eq!(
        self::error_type(executed),
        Some(error_type),
        "{:?}",
        executed.result
    );
    let error = executed.result.error();
    assert!(error.contains(message), "{error}");
}

#[track_caller]
pub(crate) fn assert_succeeds(executed: &ExecutedCall) {
    assert!(executed.result.is_success(), "{}", executed.result.error());
}
