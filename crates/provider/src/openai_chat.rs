//! The OpenAI Chat Completions format, also used by compatible APIs.
//!
//! Sources: `developers.openai.com/api/reference`, Chat Completions; the OpenAPI description's
//! `FunctionObject`.

use serde_json::{Map, Value, json};

use super::answer::{Finish, PartialAnswer};
use super::calls::ToolCall;
use super::format::{BEARER, Endpoint};
use super::format::{Definition, Format, Rules, Strictness};
use super::results::CallResult;
use super::stream::CallStream;
use super::transcript::{Messages, list_items};
use super::translate::ChangeLog;
use super::view::Dialect;
use super::wire::JsonCursor;
use crate::{ResponseError, ResultError};

pub(super) struct OpenAiChat;

pub(super) const RULES: Rules = Rules {
    name: "openai",
    // Chat Completions `tools` ("a max of 128 functions are supported"), and the error
    // `array_above_max_length`.
    max_tools: Some(128),
    // The limit of every OpenAI model. The error `string_above_max_length` ("Expected a string with
    // maximum length 1024").
    max_description: Some(1024),
    // Names: `FunctionObject.name` ("a-z, A-Z, 0-9, or contain underscores and dashes, with a
    // maximum length of 64"). "Migrate to the Responses API": functions are non-strict by default
    // in Chat Completions.
    strict: Strictness::OnRequest,
    dialect: Dialect::OpenAi,
    ..Rules::PLAIN
};

impl Format for OpenAiChat {
    fn rules(&self) -> &'static Rules {
        &RULES
    }

    fn definition(&self, definition: Definition<'_>, _: &mut ChangeLog<'_>) -> Value {
        json!({"type": "function", "function": definition.members("parameters")})
    }

    fn read_answer(
        &self,
        answer: &JsonCursor<'_>,
        partial: &mut PartialAnswer,
    ) -> Result<(), ResponseError> {
        let choices = answer.need("choices")?.list()?;
        let Some(choice) = choices.first() else {
            return Ok(());
        };
        let message = choice.need_object("message")?;
        for call in message.optional_list("tool_calls")? {
            // In addition to functions there are custom tools, whose input is free text.
            if call
                .object()?
                .optional_text("type")?
                .is_none_or(|kind| kind == "function")
            {
                partial.calls.add(function_call(&call)?)?;
            }
        }
        if let Some(text) = message.text_if_any("content") {
            partial.push_text(text);
        }
        partial.set_finish(choice.text_if_any("finish_reason"), |reason| match reason {
            "stop" | "tool_calls" | "function_call" => Finish::Complete,
            "length" => Finish::Length,
            "content_filter" => Finish::Refused,
            _ => Finish::Other,
        });
        Ok(())
    }

    fn push(&self, event: &JsonCursor<'_>, stream: &mut CallStream) -> Result<(), ResponseError> {
        for choice in event.optional_list("choices")? {
            // Only the first of several choices is read.
            if choice
                .object()?
                .get("index")
                .is_some_and(|index| index.value.as_u64() != Some(0))
            {
                continue;
            }
            if let Some(message) = choice.get("delta") {
                for delta in message.object()?.optional_list("tool_calls")? {
                    push_delta(&delta, stream)?;
                }
            }
            if choice.get("finish_reason").is_some() {
                stream.end();
            }
        }
        Ok(())
    }

    fn results(&self, results: &[CallResult]) -> Result<Vec<Value>, ResultError> {
        let message = |result: &CallResult| {
            let id = result.need_id(self.rules().name)?;
            Ok(json!({"role": "tool", "tool_call_id": id, "content": result.plain_text()}))
        };
        results.iter().map(message).collect()
    }

    fn messages(&self) -> Option<&'static Messages> {
        Some(&Messages {
            list: "messages",
            content: "content",
            calls: &["tool_calls", "function_call"],
            texts: &["text"],
        })
    }

    fn called_names<'v>(&self, message: &'v Map<String, Value>) -> Vec<&'v Value> {
        called_names(message)
    }

    fn endpoint(&self) -> Option<&'static Endpoint> {
        Some(&Endpoint {
            path: |_| Some("/chat/completions".to_owned()),
            key: BEARER,
            headers: &[],
        })
    }
}

/// Parses a call of a message. Ollama uses the same form.
pub(super) fn function_call(call: &JsonCursor<'_>) -> Result<ToolCall, ResponseError> {
    let function = call.need_object("function")?;
    Ok(ToolCall {
        id: call.optional_text("id")?.map(str::to_owned),
        name: function.need("name")?.text()?.to_owned(),
        arguments: function.arguments("arguments"),
    })
}

/// Returns the names of the calls in a message, including the single `function_call` of the older
/// API.
pub(super) fn called_names(message: &Map<String, Value>) -> Vec<&Value> {
    let several = list_items(message, "tool_calls").filter_map(|call| {
        let function = call.get("function").or(call.get("custom")).unwrap_or(call);
        function.get("name")
    });
    let mut names: Vec<&Value> = several.collect();
    if let Some(call) = message.get("function_call") {
        names.extend(call.get("name"));
    }
    names
}

fn push_delta(delta: &JsonCursor<'_>, stream: &mut CallStream) -> Result<(), ResponseError> {
    let id = delta
        .object()?
        .optional_text("id")?
        .filter(|id| !id.is_empty());
    let index = match delta.get("index") {
        Some(number) => number.whole_number()?,
        // Some servers omit the index: a new id then starts a new call.
        None => stream.index_from_id(id),
    };
    let call = stream.call_at(index)?;
    if call.id.is_none() {
        call.id = id.map(str::to_owned);
    }
    let Some(function) = delta.get("function") else {
        return Ok(());
    };
    if let Some(name) = function.object()?.optional_text("name")? {
        // Some servers repeat the complete name in every delta.
        if call.name != name {
            call.name.push_str(name);
            stream.count(name.len())?;
        }
    }
    match function.optional_text("arguments")? {
        Some(text) => stream.append(index, text),
        None => Ok(()),
    }
}
