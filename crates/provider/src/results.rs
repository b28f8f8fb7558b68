//! What goes back to a model for its calls.
//!
//! A provider takes the result of a call under the call's id, or its name, in messages of its own
//! form. Some have a place that says that a call failed; where a format has none, what is sent is
//! JSON whose member `error` is the message.

use serde_json::{Value, json};

use super::{Provider, ToolCall};
use crate::ResultError;

/// What stands in where a tool failed without a word: Anthropic takes no empty error.
const NO_MESSAGE: &str = "the tool failed, and gave no reason";

/// What a model is told of one of its calls.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult {
    /// The id of the call, as the provider gave it.
    pub id: Option<String>,
    /// The name that the model called.
    pub name: String,
    /// What the tool gave, of which a string is sent as it is and other JSON as compact text or as
    /// it is; else why it gave nothing.
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

    /// The id, which the provider needs.
    pub(super) fn need_id(&self, provider: &'static str) -> Result<&str, ResultError> {
        self.id.as_deref().ok_or_else(|| ResultError::NoId {
            provider,
            name: self.name.clone(),
        })
    }

    /// What the tool gave as text, else what is said of its failure.
    pub(super) fn text(&self) -> Result<String, &str> {
        match &self.outcome {
            Ok(Value::String(text)) => Ok(text.clone()),
            Ok(value) => Ok(value.to_string()),
            Err(message) if message.trim().is_empty() => Err(NO_MESSAGE),
            Err(message) => Err(message),
        }
    }

    /// The same for a format that has no place for failures.
    pub(super) fn plain_text(&self) -> String {
        self.text()
            .unwrap_or_else(|message| json!({"error": message}).to_string())
    }
}

impl Provider {
    /// Writes the results of a model's calls as they go into the next API request, behind the
    /// model's own message: messages of OpenAI Chat and Ollama, items of OpenAI Responses, and one
    /// message with all results of Anthropic and Gemini. For MCP each is a `CallToolResult`, the
    /// `result` of the response to its request.
    ///
    /// # Errors
    ///
    /// [`ResultError`] where a call has no id, and the provider takes results by id.
    ///
    /// ```
    /// use picktools_provider::Provider;
    /// use picktools_provider::CallResult;
    /// use serde_json::json;
    ///
    /// let answer = json!({"choices": [{"message": {"role": "assistant", "tool_calls": [
    ///     {"id": "call_1", "type": "function", "function": {"name": "get_forecast", "arguments": "{}"}}]}}]});
    /// let calls = Provider::OpenAiChat.calls(&answer)?;
    /// let results = [CallResult::new(&calls[0], Ok(json!({"rain": false})))];
    /// let message = json!({"role": "tool", "tool_call_id": "call_1", "content": r#"{"rain":false}"#});
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
