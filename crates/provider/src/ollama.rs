//! The Ollama `/api/chat` format.
//!
//! Source: `docs.ollama.com/api/chat`. It states no rule for names. Models and proxies support
//! OpenAI's rule.

use serde_json::{Map, Value, json};

use super::answer::{Finish, PartialAnswer};
use super::changes::ChangeLog;
use super::format::{BEARER, Endpoint};
use super::format::{Definition, Format, Rules};
use super::messages::Messages;
use super::openai_chat;
use super::results::CallResult;
use super::stream::CallStream;
use super::view::Dialect;
use super::wire::JsonCursor;
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

    fn definition(&self, definition: Definition<'_>, _: &mut ChangeLog<'_>) -> Value {
        json!({"type": "function", "function": definition.members("parameters")})
    }

    fn read_answer(
        &self,
        answer: &JsonCursor<'_>,
        partial: &mut PartialAnswer,
    ) -> Result<(), ResponseError> {
        let message = answer.need("message")?;
        for call in message.object()?.optional_list("tool_calls")? {
            partial.calls.add(openai_chat::function_call(&call)?)?;
        }
        if let Some(text) = message.text_if_any("content") {
            partial.push_text(text);
        }
        partial.set_finish(answer.text_if_any("done_reason"), finish);
        Ok(())
    }

    /// Takes complete calls. Some servers send the arguments of a call in later chunks.
    fn push(&self, event: &JsonCursor<'_>, stream: &mut CallStream) -> Result<(), ResponseError> {
        if let Some(message) = event.get("message") {
            for call in message.object()?.optional_list("tool_calls")? {
                if stream.is_empty() {
                    call.need_object("function")?.need("name")?;
                }
                stream.take_complete(openai_chat::call_piece(&call)?)?;
            }
            if let Some(text) = message.text_if_any("content") {
                stream.push_text(text);
            }
        }
        if let Some(reason) = event.text_if_any("done_reason") {
            stream.end_with(reason, finish);
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

    fn called_names<'v>(&self, message: &'v Map<String, Value>) -> Vec<&'v Value> {
        openai_chat::called_names(message)
    }

    fn endpoint(&self) -> Option<&'static Endpoint> {
        Some(&Endpoint {
            path,
            key: BEARER,
            headers: &[],
        })
    }
}

fn finish(reason: &str) -> Finish {
    match reason {
        "stop" => Finish::Complete,
        "length" => Finish::Length,
        _ => Finish::Other,
    }
}

/// Switches streaming off, which is on by default, unless the API request sets it.
fn path(request: &mut Value) -> Option<String> {
    if let Some(body) = request.as_object_mut() {
        body.entry("stream").or_insert(Value::Bool(false));
    }
    Some("/api/chat".to_owned())
}
