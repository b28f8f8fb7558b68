//! The built-in tool `write`.

use picktools::catalog::Tool;
use picktools_call::ValidCall;
use picktools_runtime::{Context, RunFuture, RunnableTool, ToolResult};
use serde_json::{Value, json};

use super::{change_file, changing_tool, file_path_schema, read_known, write_and_record};
use crate::root::{FileFailure, Root, session_schema};

/// The tool `write`. It creates a file, or replaces the content of a file that was read before.
///
/// It is unsafe: only callers that may use unsafe tools see it, and each call must be confirmed.
/// Its result has the fields `file_path`, `bytes` and `created`.
#[derive(Debug)]
pub struct Write {
    definition: Tool,
}

impl Default for Write {
    fn default() -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "file_path": file_path_schema(),
                "content": {
                    "type": "string",
                    "description": "The complete content of the file",
                },
                "sessionId": session_schema(),
            },
            "required": ["file_path", "content"],
            "additionalProperties": false,
        });
        let description = "Creates a text file, or replaces its content. An existing file must have \
                           been read before. To change a part of a file, use edit.";
        Self {
            definition: changing_tool("write", description, parameters),
        }
    }
}

impl RunnableTool for Write {
    fn definition(&self) -> &Tool {
        &self.definition
    }

    fn runs_in_order(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a> {
        Box::pin(async move { change_file(write, call.arguments(), context) })
    }
}

fn write(path: &str, arguments: &Value, context: &Context) -> Result<ToolResult, FileFailure> {
    let content = arguments["content"].as_str().unwrap_or_default();
    let target = Root::open(arguments, context)?.write_target(path)?;
    let existing = read_known(&target, context)?;
    let created = existing.is_none();
    write_and_record(&target, content.as_bytes(), existing, context)?;
    Ok(ToolResult::success()
        .field("bytes", content.len())
        .field("created", created))
}
