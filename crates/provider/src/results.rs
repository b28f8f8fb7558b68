//! Results of tool calls in the format of a provider.
//!
//! A provider identifies the result of a call by the call's id or name. Some formats have a member
//! for failed calls. In the others, the result of a failed call is a JSON object whose member
//! `error` contains the message.

use serde_json::{Value, json};

use super::{Provider, ToolCall};
use crate::ResultError;

/// The message of a tool that failed without one, because Anthropic rejects an empty error.
const NO_MESSAGE: &str = "the tool failed, and gave no reason";

/// The result of one call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult {
    /// The call's id, as the provider gave it.
    pub id: Option<String>,
    /// The called name.
    pub name: String,
    /// The output of the tool, or the error message.
    ///
    /// A string is sent unchanged. Other JSON is sent as compact text, or unchanged if the format
    /// supports it.
    pub outcome: Result<Value, String>,
}

impl CallResult {
    /// Makes the result of a call.
    pub fn new(call: &ToolCall, outcome: Result<Value, String>) -> Self {
        Self {
            id: call.id.clone(),
            name: call.name.clone(),
            outcome,
        }
    }

    /// Returns the id, which the provider requires.
    pub(super) fn need_id(&self, provider: &'static str) -> Result<&str, ResultError> {
        self.id.as_deref().ok_or_else(|| ResultError::NoId {
            provider,
            name: self.name.clone(),
        })
    }

    /// Returns the output as text, or the error message.
    pub(super) fn text(&self) -> Result<String, &str> {
        match &self.outcome {
            Ok(Value::String(text)) => Ok(text.clone()),
            Ok(value) => Ok(value.to_string()),
            Err(message) if message.trim().is_empty() => Err(NO_MESSAGE),
            Err(message) => Err(message),
        }
    }

    /// Returns the text for a format without a member for failed calls.
    pub(super) fn plain_text(&self) -> String {
        self.text()
            .unwrap_or_else(|message| json!({"error": message}).to_string())
    }
}

impl Provider {
    /// Writes the results of a model's calls for the next API request. They follow the model's own
    /// message there.
    ///
    /// The results are messages for OpenAI Chat and Ollama, and items for OpenAI Responses.
    /// Anthropic and Gemini get one message with all results. For MCP each result is a
    /// `CallToolResult`, the `result` of the response to its request.
    ///
    /// # Errors
    ///
    /// [`ResultError`] if a call has no id although the provider requires one.
    ///
    /// ```
    /// use picktools_provider::Provider;
    /// use picktools_provider::CallResult;
    /// use serde_json::json;
    ///
    /// let function = json!({"name": "get_forecast", "arguments": "{}"});
    /// let call = json!({"id": "call_1", "type": "function", "function": function});
    /// let answer = json!({"choices": [{"message": {"role": "assistant", "tool_calls": [call]}}]});
    /// let calls = Provider::OpenAiChat.calls(&answer)?;
    /// let results = [CallResult::new(&calls[0], Ok(json!({"rain": false})))];
    /// let content = r#"{"rain":false}"#;
    /// let message = json!({"role": "tool", "tool_call_id": "call_1", "content": content});
    /// assert_eq!(Provider::OpenAiChat.results(&results)?, [message]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn results(self, results: &[CallResult]) -> Result<Vec<Value>, ResultError> {
        if results.is_empty() {
            return Ok(Vec::new());
        }
        self.format().results(results)
    }
}
