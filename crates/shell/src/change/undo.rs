//! The built-in tool `undo`.

use picktools::catalog::Tool;
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_call::ValidCall;
use picktools_runtime::{Context, ErrorType, FileChange, RunFuture, RunnableTool, ToolResult};
use serde_json::{Value, json};

use super::{changing_tool, read_bytes, replacing};
use crate::root::{FileFailure, Root};

/// The tool `undo`. It undoes the last write or edit of the current turn. A further call undoes the
/// change before it.
///
/// It is unsafe: only callers that may use unsafe tools see it, and each call must be confirmed. A
/// file that has changed since is left as it is. The result has the fields `file_path` and
/// `removed`, which is `true` if the change had created the file.
#[derive(Debug)]
pub struct Undo {
    definition: Tool,
}

impl Default for Undo {
    fn default() -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {},
            "additionalProperties": false,
        });
        let description = "Undoes the last write or edit of this turn. Refuses if the file has \
                           changed since.";
        Self {
            definition: changing_tool("undo", description, parameters),
        }
    }
}

impl RunnableTool for Undo {
    fn definition(&self) -> &Tool {
        &self.definition
    }

    fn runs_in_order(&self) -> bool {
        true
    }

    fn may_repeat(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, _call: &'a ValidCall, context: &'a Context) -> RunFuture<'a> {
        Box::pin(async move {
            let root = match Root::open(&Value::Null, context) {
                Ok(root) => root,
                Err(failure) => return failure.into_result(""),
            };
            let Some(change) = context.changes().pop() else {
                return ToolResult::failure(
                    ErrorType::User,
                    "nothing was written or edited in this turn",
                );
            };
            let path = root.path_for_calls(&change.path);
            let path_text = marked(&path, MAX_NAME_CHARS);
            match undo(&change, &root, context) {
                Ok(()) => ToolResult::success()
                    .field("file_path", &*path_text)
                    .field("removed", change.before.is_none()),
                Err(failure) => {
                    context.changes().push(change);
                    failure.into_result(&path_text)
                }
            }
        })
    }
}

fn undo(change: &FileChange, root: &Root, context: &Context) -> Result<(), FileFailure> {
    let target = root.resolved_target(change.path.clone())?;
    let changed = || {
        FileFailure::new(
            ErrorType::User,
            "it was changed since, and was not undone",
            "Read the file, and edit it.",
        )
    };
    let (file, metadata) = target.open()?.ok_or_else(changed)?;
    if !change.is_result(&read_bytes(file, &metadata)?) {
        return Err(changed());
    }
    match &change.before {
        Some(before) => {
            let metadata = replacing::replace(&target, before, Some(&metadata), context)?;
            context.files().note_write(&target.path, &metadata);
        }
        None => {
            replacing::check_current(&target, &metadata)?;
            let removed = target.folder.remove_file(&target.name);
            removed.map_err(|error| FileFailure::from_write(&error))?;
            context.files().forget(&target.path);
        }
    }
    Ok(())
}
