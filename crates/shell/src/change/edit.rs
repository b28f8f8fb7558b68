//! The built-in tool `edit`.

use picktools::catalog::Tool;
use picktools_call::ValidCall;
use picktools_runtime::{Context, ErrorType, RunFuture, RunnableTool, ToolResult};
use serde_json::{Value, json};

use super::matching::{Replacement, matches, replace_matches};
use super::{
    MAX_FILE_BYTES, change_file, changing_tool, file_path_schema, read_known, write_and_record,
};
use crate::root::{FileFailure, Root, session_schema};

/// The tool `edit`. It replaces a text in a file that was read before.
///
/// It is unsafe: only callers that may use unsafe tools see it, and each call must be confirmed.
/// The text must occur exactly once, unless all occurrences are replaced. Line endings and the end
/// of the file stay as they are. Its result has the fields `file_path`, `replacements` and `line`,
/// the number of the first changed line.
#[derive(Debug)]
pub struct Edit {
    definition: Tool,
}

impl Default for Edit {
    fn default() -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "file_path": file_path_schema(),
                "old_string": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The text to replace, exactly as in the file, without line numbers",
                },
                "new_string": {
                    "type": "string",
                    "description": "The text to put in its place",
                },
                "replace_all": {
                    "type": "boolean",
                    "description": "true to replace all occurrences; otherwise there must be one",
                },
                "sessionId": session_schema(),
            },
            "required": ["file_path", "old_string", "new_string"],
            "additionalProperties": false,
        });
        let description = "Replaces a text in a text file. The file must have been read before. \
                           The text must occur exactly once, unless replace_all is true.";
        Self {
            definition: changing_tool("edit", description, parameters),
        }
    }
}

impl RunnableTool for Edit {
    fn definition(&self) -> &Tool {
        &self.definition
    }

    fn runs_in_order(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a> {
        Box::pin(async move { change_file(edit, call.arguments(), context) })
    }
}

fn edit(path: &str, arguments: &Value, context: &Context) -> Result<ToolResult, FileFailure> {
    let text = |name: &str| arguments[name].as_str().unwrap_or_default();
    let (old, new) = (text("old_string"), text("new_string"));
    if old == new {
        return Err(FileFailure::new(
            ErrorType::Validation,
            "old_string and new_string are equal",
            "Give another new_string.",
        ));
    }
    let target = Root::open(arguments, context)?.write_target(path)?;
    let existing = read_known(&target, context)?;
    let Some(existing) = existing else {
        return Err(FileFailure::new(
            ErrorType::User,
            "there is no such file",
            "Create it with write, or check the path.",
        ));
    };
    let all = match arguments["replace_all"].as_bool() {
        Some(true) => Replacement::All,
        _ => Replacement::One,
    };
    let ranges = matches(&existing.content, old, all).map_err(|count| {
        let suggestion = match count {
            0 => "Read the file again, and copy the text exactly.",
            _ => "Give more of the text around it, or set replace_all.",
        };
        let message = match count {
            0 => "old_string does not occur in it".to_owned(),
            _ => format!("old_string occurs {count} times in it"),
        };
        FileFailure::new(ErrorType::User, message, suggestion)
    })?;
    let added = new.len().saturating_mul(ranges.len());
    if added as u64 > MAX_FILE_BYTES {
        return Err(FileFailure::new(
            ErrorType::User,
            format!("it would have more than {MAX_FILE_BYTES} bytes"),
            "",
        ));
    }
    let line = 1 + existing.content[..ranges[0].start].matches('\n').count();
    let content = replace_matches(&existing.content, &ranges, new);
    write_and_record(&target, content.as_bytes(), Some(existing), context)?;
    Ok(ToolResult::success()
        .field("replacements", ranges.len())
        .field("line", line))
}
