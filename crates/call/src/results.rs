//! Call results for the model, under the tool names that the model knows.

use serde_json::Value;

use super::{CallError, CallableTools, Hydrator, PendingCall, ValidCall};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_provider::{CallResult, ToolCall};

/// The longest error message for a model, in characters.
const MAX_ERROR_CHARS: usize = 4000;

impl ValidCall {
    /// Makes the result of the call for
    /// [`Provider::results`](picktools_provider::Provider::results).
    pub fn result(&self, outcome: Result<Value, String>) -> CallResult {
        CallResult {
            id: self.id.clone(),
            name: self.names.requested.clone(),
            outcome,
        }
    }
}

impl PendingCall {
    /// Makes the result of a call that was not approved, for
    /// [`Provider::results`](picktools_provider::Provider::results).
    pub fn refused(&self, reason: impl Into<String>) -> CallResult {
        self.call.result(Err(reason.into()))
    }
}

impl Hydrator {
    /// Makes the result of a call that cannot run, from which a model can correct the call.
    ///
    /// The message uses the tool names of the model, and suggests only names that the model was
    /// shown ([`translated`](Self::translated)). Text of third parties is put on one line, without
    /// hidden characters.
    pub fn error_result(&self, call: &ToolCall, error: &CallError) -> CallResult {
        let mut shown_error = error.clone();
        match &mut shown_error {
            CallError::UnknownTool { suggestions, .. } => *suggestions = self.as_shown(suggestions),
            CallError::AmbiguousTool { candidates, .. } => *candidates = self.as_shown(candidates),
            CallError::Ineligible { tool, .. }
            | CallError::TooLarge { tool, .. }
            | CallError::Malformed { tool, .. }
            | CallError::Invalid { tool, .. }
            | CallError::NotReadOnly { tool }
            | CallError::Removed { tool }
            | CallError::Changed { tool, .. }
            | CallError::Typed { tool, .. } => {
                *tool = marked(&call.name, MAX_NAME_CHARS).into_owned();
            }
            CallError::HiddenCharacter { .. } => {}
        }
        CallResult::new(
            call,
            Err(marked(&shown_error.to_string(), MAX_ERROR_CHARS).into_owned()),
        )
    }

    /// Translates names to those that the model was shown, and drops tools that it was not shown.
    fn as_shown(&self, names: &[String]) -> Vec<String> {
        if self.shown.is_empty() {
            return names.to_vec();
        }
        let mut shown_names: Vec<String> = Vec::new();
        for name in names {
            let CallableTools { names, catalog, .. } = &*self.callable;
            let tools = names.possible_tools(name, catalog);
            for tool in tools.expect("all definitions are in memory") {
                if self.admits(tool)
                    && let Some(shown) = self.shown.get(&tool)
                    && !shown_names.contains(shown)
                {
                    shown_names.push(shown.clone());
                }
            }
        }
        shown_names
    }
}
