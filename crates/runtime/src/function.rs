//! A tool that calls a Rust function.

use serde_json::Value;

use super::context::Context;
use super::result::ToolResult;
use super::tool::{RunFuture, RunnableTool};
use picktools::catalog::Tool;
use picktools_call::ValidCall;

/// A tool that calls one asynchronous function.
///
/// ```
/// use picktools::Tool;
/// use picktools_runtime::{FunctionTool, ToolResult};
///
/// let definition = Tool::without_arguments("get_time", "The time");
/// let now = FunctionTool::new(definition, |_arguments, _context| async {
///     ToolResult::success().field("time", "12:00")
/// });
/// ```
pub struct FunctionTool<F> {
    definition: Tool,
    function: F,
}

impl<F, R> FunctionTool<F>
where
    F: Fn(Value, Context) -> R + Send + Sync,
    R: Future<Output = ToolResult> + Send + 'static,
{
    /// Makes a tool from a function. The function gets arguments that are valid for the schema of
    /// the definition.
    pub fn new(definition: Tool, function: F) -> Self {
        Self {
            definition,
            function,
        }
    }
}

impl<F, R> RunnableTool for FunctionTool<F>
where
    F: Fn(Value, Context) -> R + Send + Sync,
    R: Future<Output = ToolResult> + Send + 'static,
{
    fn definition(&self) -> &Tool {
        &self.definition
    }

    fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a> {
        Box::pin((self.function)(call.arguments().clone(), context.clone()))
    }
}
