//! Running what a model calls: tools, the pipeline that every call passes, and what happens told as
//! events.
//!
//! ```
//! # #[tokio::main(flavor = "multi_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use picktools_provider::{Arguments, ToolCall};
//! use picktools_runtime::{FunctionTool, ToolManager, ToolResult};
//! use picktools::{Access, Tool};
//! use serde_json::json;
//!
//! let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
//! let weather = Tool::with_parameters("get_weather", "The weather in a city", schema);
//! let weather = FunctionTool::new(weather, |arguments, _context| async move {
//!     ToolResult::success().field("weather", format!("rain in {}", arguments["city"]))
//! });
//! let manager = ToolManager::builder(Access::default()).tool(weather).build()?;
//!
//! let call = |arguments| ToolCall { id: None, name: "getWeather".to_owned(), arguments: Arguments::Json(arguments) };
//! let executed = manager.execute(&call(json!({"city": "Bergen"}))).await;
//! assert_eq!(executed.result.fields["weather"], "rain in \"Bergen\"");
//! let refused = manager.execute(&call(json!({}))).await;
//! assert!(refused.result.error().contains("city is required"));
//! # Ok(())
//! # }
//! ```
//!
//! Every call passes one pipeline ([`ToolManager::execute`]): it is resolved, held to the caller's
//! [`Access`](picktools::Access), validated, confirmed where it must be, refused where it repeats
//! another of the turn, run with a time limit on a thread of its own, and recorded. What a pick may
//! not show is not run, by whatever name.

mod confirmation;
mod context;
mod events;
mod files;
mod function;
mod http;
mod manager;
mod mcp;
mod redaction;
mod result;
mod tool;
mod turn;
mod waiting;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use confirmation::{Approvals, Confirm, Decision, DecisionFuture};
pub use context::Context;
pub use events::{
    CallInfo, Event, EventKind, EventType, Events, Received, Subscription, Topic, UnknownTopic,
};
pub use files::{FileError, FileLedger, FileUse};
pub use function::FunctionTool;
pub use http::{HttpClient, HttpOptions, HttpTool};
pub use manager::{Executed, ManagerError, ToolManager, ToolManagerBuilder};
pub use mcp::{McpServer, McpTool};
pub use result::{ErrorType, Failure, PREVIEW_LINES, ToolResult};
pub use tool::{CloseFuture, RunFuture, RunnableTool};

use picktools_call::ValidCall;

/// Writes a call for people, `tool(param="value")`: short, on one line, and with each secret
/// replaced.
pub fn told(call: &ValidCall) -> String {
    let (arguments, _) = redaction::redacted(call.arguments(), call.tool().parameters.as_ref());
    redaction::call(call.tool().id.as_str(), &arguments)
}

/// Returns the arguments of a call with each secret replaced: what the schema says is one
/// (`writeOnly`, `format: password`), and what is called like one. `schema` is that of the tool's
/// parameters, where there is one.
///
/// ```
/// use picktools_runtime::told_arguments;
/// use serde_json::json;
///
/// let told = told_arguments(&json!({"user": "ada", "password": "hunter2"}), None);
/// assert_eq!(told, json!({"user": "ada", "password": "[redacted]"}));
/// ```
pub fn told_arguments(
    arguments: &serde_json::Value,
    schema: Option<&serde_json::Value>,
) -> serde_json::Value {
    redaction::redacted(arguments, schema).0
}

/// Locks what no panic leaves half-changed.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
