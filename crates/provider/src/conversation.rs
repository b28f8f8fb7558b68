//! The messages of a conversation, in the body of an API request.

use serde_json::{Value, json};

use super::Provider;

impl Provider {
    /// Returns the member of an API request that has the messages; `None` if the format has no
    /// chat.
    pub fn messages_member(self) -> Option<&'static str> {
        match self {
            Self::OpenAiChat | Self::Anthropic | Self::Ollama => Some("messages"),
            Self::OpenAiResponses => Some("input"),
            Self::Gemini => Some("contents"),
            Self::Mcp => None,
        }
    }

    /// Makes a message of the user.
    pub fn user_message(self, text: &str) -> Value {
        match self {
            Self::Gemini => json!({"role": "user", "parts": [{"text": text}]}),
            _ => json!({"role": "user", "content": text}),
        }
    }

    /// Returns the messages of a complete answer as the next API request repeats them, in front of
    /// the [results](Self::results) of its calls. Parts that only the provider understands, such as
    /// signatures of reasoning, are kept.
    ///
    /// ```
    /// use picktools_provider::Provider;
    /// use serde_json::json;
    ///
    /// let content = json!([{"type": "text", "text": "Hello"}]);
    /// let answer = json!({"role": "assistant", "content": content, "stop_reason": "end_turn"});
    /// let message = json!({"role": "assistant", "content": content});
    /// assert_eq!(Provider::Anthropic.answer_messages(&answer), [message]);
    /// ```
    pub fn answer_messages(self, response: &Value) -> Vec<Value> {
        let message = match self {
            Self::OpenAiChat => response.pointer("/choices/0/message").cloned(),
            Self::OpenAiResponses => {
                let items = response.get("output").and_then(Value::as_array);
                return items.cloned().unwrap_or_default();
            }
            Self::Anthropic => {
                let content = response.get("content");
                content.map(|content| json!({"role": "assistant", "content": content}))
            }
            Self::Gemini => response.pointer("/candidates/0/content").cloned(),
            Self::Ollama => response.get("message").cloned(),
            Self::Mcp => None,
        };
        message.into_iter().collect()
    }
}
