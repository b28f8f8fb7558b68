//! The OpenAI Chat Completions format, also used by compatible APIs.
//!
//! Sources: `developers.openai.com/api/reference`, Chat Completions; the OpenAPI description's
//! `FunctionObject`.

use serde_json::{Map, Value, json};

use super::answer::{Finish, PartialAnswer};
use super::calls::ToolCall;
use super::changes::ChangeLog;
use super::format::{BEARER, Endpoint};
use super::format::{Definition, Format, Rules, Strictness};
use super::messages::{Messages, list_items};
use super::pieces::CallPiece;
use super::results::CallResult;
use super::stream::CallStream;
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
            if is_function(&call)? {
                partial.calls.add(function_call(&call)?)?;
            }
        }
        if let Some(call) = only_older_call(&message) {
            partial.calls.add(older_call(&call)?)?;
        }
        if let Some(text) = message.text_if_any("content") {
            partial.push_text(text);
        }
        partial.set_finish(choice.text_if_any("finish_reason"), finish);
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
            // Some servers send a complete message at the end. It repeats calls that came in pieces.
            let complete = choice.get("message").filter(|_| stream.is_empty());
            if let Some(message) = choice.get("delta").or(complete) {
                for delta in message.object()?.optional_list("tool_calls")? {
                    if is_function(&delta)? {
                        stream.take(call_piece(&delta)?)?;
                    }
                }
                if let Some(call) = only_older_call(&message) {
                    stream.take(function_piece(&call)?)?;
                }
                if let Some(text) = message.text_if_any("content") {
                    stream.push_text(text);
                }
            }
            if let Some(reason) = choice.get("finish_reason") {
                stream.end_with(reason.text()?, finish);
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

fn finish(reason: &str) -> Finish {
    match reason {
        "stop" | "tool_calls" | "function_call" => Finish::Complete,
        "length" => Finish::Length,
        "content_filter" => Finish::Refused,
        _ => Finish::Other,
    }
}

/// Returns `true` if a call is one of a function. There are also custom tools, whose input is free
/// text.
fn is_function(call: &JsonCursor<'_>) -> Result<bool, ResponseError> {
    let kind = call.object()?.optional_text("type")?;
    Ok(kind.is_none_or(|kind| matches!(kind, "" | "function")))
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

/// Returns the single `function_call` of the older API. Beside `tool_calls` it repeats one of them.
fn only_older_call<'v>(message: &JsonCursor<'v>) -> Option<JsonCursor<'v>> {
    let has_calls = |calls: &JsonCursor<'_>| calls.value.as_array().is_some_and(|c| !c.is_empty());
    match message.get("tool_calls") {
        Some(calls) if has_calls(&calls) => None,
        _ => message.get("function_call"),
    }
}

/// Parses the single `function_call` of the older API, which has no id.
fn older_call(function: &JsonCursor<'_>) -> Result<ToolCall, ResponseError> {
    let function = function.object()?;
    Ok(ToolCall {
        id: None,
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

/// Reads an entry of `tool_calls` as a piece of a call.
pub(super) fn call_piece<'v>(call: &JsonCursor<'v>) -> Result<CallPiece<'v>, ResponseError> {
    let mut piece = match call.get("function") {
        Some(function) => function_piece(&function)?,
        None => CallPiece::default(),
    };
    let id = call.object()?.optional_text("id")?;
    piece.id = id.filter(|id| !id.is_empty());
    if let Some(index) = call.get("index") {
        piece.index = Some(index.whole_number()?);
    }
    Ok(piece)
}

/// Reads the name and the arguments of a piece.
fn function_piece<'v>(function: &JsonCursor<'v>) -> Result<CallPiece<'v>, ResponseError> {
    let name = function.object()?.optional_text("name")?;
    Ok(CallPiece {
        name: name.filter(|name| !name.is_empty()),
        arguments: function.argument_piece("arguments"),
        ..CallPiece::default()
    })
}
