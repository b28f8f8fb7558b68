//! The tool manager: tools, the pipeline that runs every call of a model, and the events of a call.
//!
//! ```
//! # #[tokio::main(flavor = "multi_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use picktools_provider::{Arguments, ToolCall};
//! use picktools_runtime::{FunctionTool, ToolManager, ToolResult};
//! use picktools::{Access, Tool};
//! use serde_json::json;
//!
//! let schema = json!({
//!     "type": "object",
//!     "properties": {"city": {"type": "string"}},
//!     "required": ["city"],
//! });
//! let weather = Tool::with_parameters("get_weather", "The weather in a city", schema);
//! let weather = FunctionTool::new(weather, |arguments, _context| async move {
//!     ToolResult::success().field("weather", format!("rain in {}", arguments["city"]))
//! });
//! let manager = ToolManager::builder(Access::default()).tool(weather).build()?;
//!
//! let call = |arguments| ToolCall {
//!     id: None,
//!     name: "getWeather".to_owned(),
//!     arguments: Arguments::Json(arguments),
//! };
//! let executed = manager.execute(&call(json!({"city": "Bergen"}))).await;
//! assert_eq!(executed.result.fields["weather"], "rain in \"Bergen\"");
//! let invalid = manager.execute(&call(json!({}))).await;
//! assert!(invalid.result.error().contains("city is required"));
//! # Ok(())
//! # }
//! ```
//!
//! Every call takes the same steps ([`ToolManager::execute`]):
//!
//! 1. resolve the tool name,
//! 2. check the caller's [`Access`](picktools::Access),
//! 3. validate the arguments,
//! 4. ask for a confirmation if the tool requires one,
//! 5. reject the call if it repeats an earlier call of the turn,
//! 6. run the tool with a time limit on its own thread,
//! 7. record the result.
//!
//! A tool that a pick may not show does not run under any name.

mod agent;
mod changes;
mod confirmation;
mod context;
mod events;
mod files;
mod folders;
mod function;
mod http;
mod manager;
mod mcp;
mod redaction;
mod result;
mod tool;
mod turn;
#[cfg(feature = "schemars")]
mod typed;
mod waiting;

/// The Rust program of a guide, which `cargo test --doc` compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/how-to/complete-flow.md")]
mod complete_flow {}

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use agent::{AgentEnd, AgentError, AgentLimits, AgentLoop, AgentTool, AgentTurn};
pub use changes::{FileChange, TurnChanges};
pub use confirmation::{Approvals, Confirm, ConfirmationDecision, DecisionFuture};
pub use context::Context;
pub use events::{
    CallInfo, Event, EventKind, EventType, Events, ReceivedEvent, Subscription, Topic, UnknownTopic,
};
pub use files::{FileError, FileLedger, FileUse};
pub use folders::SessionFolders;
pub use function::FunctionTool;
pub use http::{HttpClient, HttpOptions, HttpTool};
pub use manager::{ExecutedCall, ManagerError, ToolManager, ToolManagerBuilder};
pub use mcp::{McpServer, McpTool};
pub use result::{ErrorType, Failure, PREVIEW_LINES, ToolResult};
pub use tool::{CloseFuture, RunFuture, RunnableTool};
// The token of `Context::with_cancellation`.
pub use tokio_util::sync::CancellationToken;
#[cfg(feature = "schemars")]
pub use typed::TypedTool;

use picktools::Tool;
use serde_json::Value;

/// Formats a call for people as `tool(param="value")`, on one short line with redacted secrets.
pub fn describe_call(tool: &Tool, arguments: &Value) -> String {
    let (arguments, _) = redaction::redact(arguments, tool.parameters.as_ref());
    redaction::format_call(tool.id.as_str(), &arguments)
}

/// Returns the arguments of a call with each secret replaced.
///
/// A value is secret if its schema says so (`writeOnly`, `format: password`) or if its name looks
/// like the name of a secret. `schema` is the schema of the tool's parameters, if it has one.
///
/// ```
/// use picktools_runtime::redact_arguments;
/// use serde_json::json;
///
/// let redacted = redact_arguments(&json!({"user": "ada", "password": "hunter2"}), None);
/// assert_eq!(redacted, json!({"user": "ada", "password": "[redacted]"}));
/// ```
pub fn redact_arguments(arguments: &Value, schema: Option<&Value>) -> Value {
    redaction::redact(arguments, schema).0
}

/// Locks a mutex and ignores poisoning: no panic leaves the data half-changed.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
