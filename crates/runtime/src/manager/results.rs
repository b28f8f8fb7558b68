//! Results of calls: those of cancelled calls, and previews.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::super::result::{ErrorType, PREVIEW_LINES, ToolResult};
use super::super::tool::RunnableTool;

/// Returns the result of a cancelled call.
pub(super) fn cancelled() -> ToolResult {
    ToolResult::failure(ErrorType::User, "the call was cancelled")
}

/// Returns the tool's preview of a result; empty if the tool's code panics.
pub(super) fn preview(tool: &dyn RunnableTool, result: &ToolResult) -> Vec<String> {
    // For a failure, the default preview with the error is more useful.
    if !result.is_success() {
        return result.preview(PREVIEW_LINES);
    }
    let mut lines =
        catch_unwind(AssertUnwindSafe(|| tool.preview(result, PREVIEW_LINES))).unwrap_or_default();
    lines.truncate(PREVIEW_LINES);
    lines
}
