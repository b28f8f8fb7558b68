//! A call as it may be reported, without secrets.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::events::CallInfo;
use super::super::redaction;
use super::super::tool::RunnableTool;
use super::state::{RunningCall, ToolManager};
use picktools::catalog::Tool;
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::json::quote_long_numbers;
use picktools_call::{CallError, CallNames, HydratedCall};
use picktools_provider::{Arguments, ToolCall};

/// A call as it may be reported, with the secrets that no report may contain.
pub(super) struct RedactedCall {
    pub(super) call: Arc<CallInfo>,
    /// The call as text, used as the prefix of an error.
    pub(super) text: String,
    pub(super) arguments: Value,
    pub(super) secrets: Vec<String>,
    /// The changes of the arguments.
    pub(super) repaired: Vec<String>,
}

impl RedactedCall {
    pub(super) fn from_hydrated(running: &RunningCall<'_>, hydrated: &HydratedCall) -> Self {
        let mut redacted = Self::new(
            running,
            hydrated.id().map(str::to_owned),
            hydrated.names().clone(),
            hydrated.arguments(),
            Some(hydrated.tool()),
        );
        for repair in hydrated.repaired() {
            let text = redaction::describe_repair(repair, &redacted.secrets);
            redacted.repaired.push(text);
        }
        redacted
    }

    pub(super) fn new(
        running: &RunningCall<'_>,
        provider_id: Option<String>,
        names: CallNames,
        arguments: &Value,
        tool: Option<&Tool>,
    ) -> Self {
        let schema = tool.and_then(|tool| tool.parameters.as_ref());
        let (arguments, secrets) = redaction::redact(arguments, schema);
        let text = redaction::format_call(&names.requested, &arguments);
        let call = Arc::new(CallInfo {
            call_id: running.call_id.clone(),
            manager: running.shared.name.clone(),
            parent_call_id: None,
            provider_id,
            names,
        });
        Self {
            call,
            text,
            arguments,
            secrets,
            repaired: Vec::new(),
        }
    }
}

impl ToolManager {
    /// Returns a call that was not validated as it may be reported, and its runner. `error` is the
    /// reason for which it is not valid.
    pub(super) fn redact_unchecked(
        &self,
        running: &RunningCall<'_>,
        call: &ToolCall,
        error: Option<&CallError>,
    ) -> (RedactedCall, Option<&Arc<dyn RunnableTool>>) {
        let resolved = self.hydrator.resolve(&call.name).ok();
        let tool = resolved.map(|resolved| self.hydrator.tool(resolved.tool));
        let arguments = match &call.arguments {
            _ if matches!(error, Some(CallError::TooLarge { .. })) => json!({}),
            Arguments::Json(value) => value.clone(),
            // A text that cannot be parsed is not reported: secrets in it cannot be recognised.
            Arguments::Text(text) => {
                serde_json::from_slice(&quote_long_numbers(text.as_bytes())).unwrap_or_default()
            }
        };
        let requested = marked(&call.name, MAX_NAME_CHARS).into_owned();
        let canonical = match tool {
            Some(tool) => tool.name.clone(),
            None => requested.clone(),
        };
        let names = CallNames {
            requested,
            advertised: None,
            canonical,
            deprecated: resolved.is_some_and(|resolved| resolved.deprecated),
        };
        let definition = tool.map(AsRef::as_ref);
        let redacted = RedactedCall::new(running, call.id.clone(), names, &arguments, definition);
        let runner = tool.and_then(|tool| self.shared.runners.get(&tool.id));
        (redacted, runner)
    }
}
