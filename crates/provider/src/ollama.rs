//! Ollama `/api/chat`.
//!
//! Source: `docs.ollama.com/api/chat`. It states no rule for names; models and proxies before it
//! know OpenAI's.

use serde_json::{Map, Value, json};

use super::answer::{Finish, Reading};
use super::format::{BEARER, Endpoint};
use super::format::{Definition, Format, Rules};
use super::openai_chat;
use super::results::CallResult;
use super::stream::CallStream;
use super::transcript::Messages;
use super::translate::ToolChanges;
use super::view::Dialect;
use super::wire::At;
use crate::{ResponseError, ResultError};

pub(super) struct Ollama;

impl Format for Ollama {
    fn rules(&self) -> &'static Rules {
        const {
            &Rules {
                name: "ollama",
                dialect: Dialect::Ollama,
                ..Rules::PLAIN
            }
        }
    }

    fn definition(&self, definition: Definition<'_>, _: &mut ToolChanges<'_>) -> Value {
        json!({"type": "function", "function": definition.members("parameters")})
    }

    fn read(&self, answer: &At<'_>, reading: &mut Reading) -> Result<(), ResponseError> {
        let message = answer.need("message")?;
        for call in message.object()?.list_of("tool_calls")? {
            reading.calls.add(openai_chat::function_call(&call)?)?;
        }
        if let Some(text) = message.text_if_any("content") {
            reading.say(text);
        }
        reading.end(answer.text_if_any("done_reason"), |reason| match reason {
            "stop" => Finish::Complete,
            "length" => Finish::Length,
            _ => Finish::Other,
        });
        Ok(())
    }

    /// Calls come whole.
    fn push(&self, event: &At<'_>, stream: &mut CallStream) -> Result<(), ResponseError> {
        let Some(message) = event.get("message") else {
            return Ok(());
        };
        for call in message.object()?.list_of("tool_calls")? {
            stream.add(openai_chat::function_call(&call)?)?;
        }
        Ok(())
    }

    fn results(&self, results: &[CallResult]) -> Result<Vec<Value>, ResultError> {
        let message = |result: &CallResult| {
            let mut message =
                json!({"role": "tool", "tool_name": result.name, "content": result.plain_text()});
            if let Some(id) = &result.id {
                message["tool_call_id"] = json!(id);
            }
            message
        };
        Ok(results.iter().map(message).collect())
    }

    fn messages(&self) -> Option<&'static Messages> {
        Some(&Messages {
            list: "messages",
            content: "content",
            calls: &["tool_calls"],
            texts: &[],
        })
    }

    fn called<'v>(&self, message: &'v Map<String, Value>) -> Vec<&'v Value> {
        openai_chat::called(message)
    }

    fn endpoint(&self) -> Option<&'static Endpoint> {
        Some(&Endpoint {
            path,
            key: BEARER,
            headers: &[],
        })
    }
}

/// It streams unless told otherwise: it is told so where the API request does not say.
fn path(request: &mut Value) -> Option<String> {
    if let Some(body) = request.as_object_mut() {
        body.entry("stream").or_insert(Value::Bool(false));
    }
    Some("/api/chat".to_owned())
}
