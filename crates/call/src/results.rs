//! What a model is told of its calls, under the names that it was shown.

use serde_json::Value;

use super::{CallError, Hydrator, PendingCall, ValidCall};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_provider::{CallResult, ToolCall};

/// The most characters of an error that a model is told.
const MAX_ERROR_CHARS: usize = 4000;

impl ValidCall {
    /// Makes the result of the call, for
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
    /// Makes the result of a call that nobody approved, for
    /// [`Provider::results`](picktools_provider::Provider::results).
    pub fn refused(&self, reason: impl Into<String>) -> CallResult {
        self.call.result(Err(reason.into()))
    }
}

impl Hydrator {
    /// Makes the result of a call that cannot be run, by which a model can mend it.
    ///
    /// It names tools as the model does, and suggests no other names than it was shown
    /// ([`translated`](Self::translated)). What strangers wrote stands in it on one line, without
    /// hidden characters.
    pub fn error_result(&self, call: &ToolCall, error: &CallError) -> CallResult {
        let mut told = error.clone();
        match &mut told {
            CallError::UnknownTool { suggestions, .. } => *suggestions = self.as_shown(suggestions),
            CallError::AmbiguousTool { candidates, .. } => *candidates = self.as_shown(candidates),
            CallError::Ineligible { tool, .. }
            | CallError::TooLarge { tool, .. }
            | CallError::Malformed { tool, .. }
            | CallError::Invalid { tool, .. }
            | CallError::NotReadOnly { tool }
            | CallError::Typed { tool, .. } => {
                *tool = marked(&call.name, MAX_NAME_CHARS).into_owned()
            }
            CallError::HiddenCharacter { .. } => {}
        }
        CallResult::new(
            call,
            Err(marked(&told.to_string(), MAX_ERROR_CHARS).into_owned()),
        )
    }

    /// The names as the model was shown them; those of tools that it was not shown are left out.
    fn as_shown(&self, names: &[String]) -> Vec<String> {
        if self.shown.is_empty() {
            return names.to_vec();
        }
        let mut shown: Vec<String> = Vec::new();
        let meant = names
            .iter()
            .flat_map(|name| self.callable.names.meant(name));
        for tool in meant.filter(|&tool| self.admits(tool)) {
            shown.extend(
                self.shown
                    .get(&tool)
                    .filter(|name| !shown.contains(name))
                    .cloned(),
            );
        }
        shown
    }
}
