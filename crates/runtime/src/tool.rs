//! The trait of tools that can be run.

use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;

use super::context::Context;
use super::result::ToolResult;
use picktools::catalog::Tool;
use picktools_call::ValidCall;

/// The future of [`RunnableTool::run`].
pub type RunFuture<'a> = Pin<Box<dyn Future<Output = ToolResult> + Send + 'a>>;

/// The future of [`RunnableTool::close`].
pub type CloseFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A tool that can be run: its definition and its code.
///
/// ```
/// use picktools::Tool;
/// use picktools_call::ValidCall;
/// use picktools_runtime::{Context, RunFuture, RunnableTool, ToolResult};
/// use serde_json::json;
///
/// struct Add(Tool);
///
/// impl RunnableTool for Add {
///     fn definition(&self) -> &Tool {
///         &self.0
///     }
///
///     fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a> {
///         Box::pin(async move {
///             context.emit_output_chunk("adding\n");
///             let number = |name: &str| call.arguments()[name].as_f64().unwrap_or_default();
///             ToolResult::success().field("sum", number("a") + number("b"))
///         })
///     }
/// }
///
/// let number = json!({"type": "number"});
/// let schema = json!({
///     "type": "object",
///     "properties": {"a": number, "b": number},
///     "required": ["a", "b"],
/// });
/// let add = Add(Tool::with_parameters("add", "Adds two numbers", schema));
/// assert!(!add.requires_confirmation());
/// ```
pub trait RunnableTool: Send + Sync {
    /// Returns the definition: name, description, schema and policy.
    fn definition(&self) -> &Tool;

    /// Returns `true` if a person must confirm each call. Calls of an unsafe tool always need a
    /// confirmation, even if this is `false`.
    fn requires_confirmation(&self) -> bool {
        self.definition().is_unsafe()
    }

    /// Returns `true` if a user interface should not show that the tool is running.
    fn suppress_execution_animation(&self) -> bool {
        false
    }

    /// Returns the time limit of a call with these arguments; `None` for the manager's limit.
    fn time_limit(&self, _arguments: &Value) -> Option<Duration> {
        None
    }

    /// Returns the files that a call writes. If such a file exists, it must have been read before
    /// and must be unchanged since.
    fn writes(&self, _arguments: &Value) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns `true` if a call runs after the earlier calls of its answer and before the later ones,
    /// because they depend on each other. Other calls of an answer run concurrently.
    fn runs_in_order(&self) -> bool {
        false
    }

    /// Returns `true` if the same call may be made several times in a turn.
    fn may_repeat(&self) -> bool {
        false
    }

    /// Runs a call. Its arguments are valid for the tool's schema, if the tool has one.
    ///
    /// A panic becomes an error. After [`Context::cancelled`] completes, the manager waits a few
    /// more milliseconds for the result and then drops the future. The future has its own thread
    /// and may block it; the manager does not wait for a blocked thread.
    fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a>;

    /// Returns the preview of a result for a user interface, in at most `lines` lines.
    fn preview(&self, result: &ToolResult, lines: usize) -> Vec<String> {
        result.preview(lines)
    }

    /// Releases everything that the tool keeps between calls, such as a connection. A later call
    /// opens it again.
    fn close(&self) -> CloseFuture<'_> {
        Box::pin(std::future::ready(()))
    }
}
