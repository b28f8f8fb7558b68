//! Common parts of the tests of `bash`: a folder with files outside the root, and a run of a
//! command.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use picktools::Access;
use picktools_provider::{Arguments, ToolCall};
use picktools_runtime::{ConfirmationDecision, ErrorType, ExecutedCall, ToolManager};
use picktools_shell::{Bash, BashOptions};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::timeout;

pub(crate) const FAR: Duration = Duration::from_secs(60);
/// The content of files outside the root.
pub(crate) const OUTSIDE: &str = "OUTSIDE-SECRET";
/// The value of a secret environment variable.
pub(crate) const SECRET: &str = "SECRET-VALUE";

/// A folder with the root, `root`, and files outside the root.
pub(crate) struct TestFolder {
    pub(crate) folder: TempDir,
    pub(crate) root: PathBuf,
}

impl TestFolder {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("the folder is writable");
        let base = folder.path().canonicalize().expect("it is there");
        let root = base.join("root");
        for made in [
            "root/inner",
            "root/empty",
            "root/src",
            "outside",
            "home",
            "temporary",
        ] {
            fs::create_dir_all(base.join(made)).expect("it is writable");
        }
        fs::write(base.join("outside/secret.txt"), OUTSIDE).expect("it is writable");
        symlink("../outside", root.join("link")).expect("it is writable");
        Self { folder, root }
    }

    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let path = std::env::var_os("PATH").expect("it is set");
        let home = self.folder.path().join("home").into_os_string();
        let profile = self.root.join("profile").into_os_string();
        let temporary = self.folder.path().join("temporary").into_os_string();
        let variables = [
            ("PATH", path),
            ("HOME", home),
            ("TMPDIR", temporary),
            ("BASH_ENV", profile),
        ];
        let variables = variables
            .into_iter()
            .chain([("SERVICE_API_KEY", SECRET.into())]);
        variables
            .map(|(name, value)| (name.into(), value))
            .collect()
    }

    /// The system's temporary folders are not temporary here, because they may contain this folder.
    pub(crate) fn bash(&self, options: BashOptions) -> Bash {
        let options = BashOptions {
            temporary: Vec::new(),
            ..options
        };
        Bash::new(self.environment(), options)
    }

    pub(crate) fn manager(&self, options: BashOptions) -> ToolManager {
        let access = Access {
            allow_unsafe: true,
            ..Access::default()
        };
        let builder = ToolManager::builder(access)
            .tool(self.bash(options))
            .root(&self.root);
        builder
            .confirm(|_: &_| ConfirmationDecision::Allow)
            .build()
            .expect("it is valid")
    }
}

pub(crate) fn call(arguments: Value) -> ToolCall {
    ToolCall {
        id: None,
        name: "bash".to_owned(),
        arguments: Arguments::Json(arguments),
    }
}

pub(crate) async fn run(manager: &ToolManager, arguments: Value) -> ExecutedCall {
    timeout(FAR, manager.execute(&call(arguments)))
        .await
        .expect("it does not hang")
}

pub(crate) fn error_type(executed: &ExecutedCall) -> Option<ErrorType> {
    executed
        .result
        .failure
        .as_ref()
        .map(|failure| failure.error_type)
}

pub(crate) fn output(executed: &ExecutedCall) -> &str {
    executed
        .result
        .fields
        .get("output")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns the command lines of processes that contain a text.
pub(crate) fn processes_with(text: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(text)).collect()
}
