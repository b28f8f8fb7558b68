//! The built-in tool `cd`.

use std::path::PathBuf;

use picktools::catalog::Tool;
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_call::ValidCall;
use picktools_runtime::{Context, ErrorType, RunFuture, RunnableTool, ToolResult};
use serde_json::{Value, json};

use crate::root::{FileFailure, Root, session_id, session_schema};

/// The tool `cd`. It sets the working folder of a terminal session, inside the root.
///
/// Later calls of the built-in tools with the same `sessionId`, or without one, start there. Its
/// result has the field `folder`, relative to the root.
#[derive(Debug)]
pub struct Cd {
    definition: Tool,
}

impl Default for Cd {
    fn default() -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Folder, relative to the working folder of the session",
                },
                "sessionId": session_schema(),
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        let description = "Changes the working folder of a terminal session, for the calls that \
                           follow. A session starts in the root and never leaves it.";
        Self {
            definition: Tool::with_parameters("cd", description, parameters),
        }
    }
}

impl RunnableTool for Cd {
    fn definition(&self) -> &Tool {
        &self.definition
    }

    fn runs_in_order(&self) -> bool {
        true
    }

    fn may_repeat(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a> {
        Box::pin(async move {
            let path = call.arguments()["path"].as_str().unwrap_or_default();
            match resolve(path, call.arguments(), context) {
                Ok(folder) => set(folder, call.arguments(), context),
                Err(failure) => failure.into_result(&marked(path, MAX_NAME_CHARS)),
            }
        })
    }
}

/// Returns the path of a folder relative to the root, without links.
fn resolve(path: &str, arguments: &Value, context: &Context) -> Result<PathBuf, FileFailure> {
    let root = Root::open(arguments, context)?;
    let from_io = |error| FileFailure::from_io(&error);
    let relative_path = root.relative(path)?;
    let metadata = root.dir.metadata(&relative_path).map_err(from_io)?;
    if !metadata.is_dir() {
        return Err(FileFailure::new(
            ErrorType::User,
            "it is not a folder",
            "Give the path of a folder.",
        ));
    }
    root.resolve(&relative_path).map_err(from_io)
}

fn set(folder: PathBuf, arguments: &Value, context: &Context) -> ToolResult {
    let text = match folder.as_os_str().is_empty() {
        true => ".".to_owned(),
        false => folder.to_string_lossy().into_owned(),
    };
    if !context.folders().set(session_id(arguments), folder) {
        return ToolResult::failure(ErrorType::User, "there are too many sessions")
            .suggest("Use an earlier sessionId.");
    }
    ToolResult::success().field("folder", text)
}
