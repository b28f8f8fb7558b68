//! A tool that can be run.

use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;

use super::context::Context;
use super::result::ToolResult;
use picktools::catalog::Tool;
use picktools_call::ValidCall;

/// What a tool's `run` returns.
pub type RunFuture<'a> = Pin<Box<dyn Future<Output = ToolResult> + Send + 'a>>;

/// What a tool's `close` returns.
pub type CloseFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A tool that can be run: its definition, and what it does.
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
/// let schema = json!({"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]});
/// let add = Add(Tool::with_parameters("add", "Adds two numbers", schema));
/// assert!(!add.requires_confirmation());
/// ```
pub trait RunnableTool: Send + Sync {
    /// Returns the definition: name, description, schema, and who may use the tool.
    fn definition(&self) -> &Tool;

    /// Returns `true` if somebody must confirm each call; so they must for an unsafe tool, whatever
    /// this says.
    fn requires_confirmation(&self) -> bool {
        self.definition().is_unsafe()
    }

    /// Returns `true` if a user interface should not show that the tool is running.
    fn suppress_execution_animation(&self) -> bool {
        false
    }

    /// Returns how long a call with these arguments may run, where it is not as long as for any
    /// other.
    fn time_limit(&self, _arguments: &Value) -> Option<Duration> {
        None
    }

    /// Returns the files that a call writes: one that is there must have been read before, and be
    /// as it was then.
    fn writes(&self, _arguments: &Value) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Runs a call, whose arguments fit the tool's schema where it has one.
    ///
    /// A panic is an error. When [`Context::cancelled`] is done, the result is waited for a few
    /// milliseconds more; then the future is dropped. It has a thread to itself, which it may
    /// block; a blocked thread is not waited for either.
    fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a>;

    /// Returns what a user interface shows of a result, in at most so many lines.
    fn preview(&self, result: &ToolResult, lines: usize) -> Vec<String> {
        result.preview(lines)
    }

    /// Ends what the tool keeps between calls, such as a connection; a later call begins it anew.
    fn close(&self) -> CloseFuture<'_> {
        Box::pin(std::future::ready(()))
    }
}
