//! OpenAI Chat Completions, and all that speak it.
//!
//! Sources: `developers.openai.com/api/reference`, Chat Completions; the OpenAPI description's
//! `FunctionObject`.

use serde_json::{Map, Value, json};

use super::answer::{Finish, Reading};
use super::calls::ToolCall;
use super::format::{BEARER, Endpoint};
use super::format::{Definition, Format, Rules, Strictness};
use super::results::CallResult;
use super::stream::CallStream;
use super::transcript::{Messages, listed};
use super::translate::ToolChanges;
use super::view::Dialect;
use super::wire::At;
use crate::{ResponseError, ResultError};

pub(super) struct OpenAiChat;

pub(super) const RULES: Rules = Rules {
    name: "openai",
    // Chat Completions `tools` ("a max of 128 functions are supported"), and the error
    // `array_above_max_length`.
    max_tools: Some(128),
    // What every OpenAI model takes. The error `string_above_max_length` ("Expected a string with
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

    fn definition(&self, definition: Definition<'_>, _: &mut ToolChanges<'_>) -> Value {
        json!({"type": "function", "function": definition.members("parameters")})
    }

    fn read(&self, answer: &At<'_>, reading: &mut Reading) -> Result<(), ResponseError> {
        let choices = answer.need("choices")?.list()?;
        let Some(choice) = choices.first() else {
            return Ok(());
        };
        let message = choice.need_object("message")?;
        for call in message.list_of("tool_calls")? {
            // Besides functions there are custom tools, whose input is free text.
            if call
                .object()?
                .text_of("type")?
                .is_none_or(|kind| kind == "function")
            {
                reading.calls.add(function_call(&call)?)?;
            }
        }
        if let Some(text) = message.text_if_any("content") {
            reading.say(text);
        }
        reading.end(choice.text_if_any("finish_reason"), |reason| match reason {
            "stop" | "tool_calls" | "function_call" => Finish::Complete,
            "length" => Finish::Length,
            "content_filter" => Finish::Refused,
            _ => Finish::Other,
        });
        Ok(())
    }

    fn push(&self, event: &At<'_>, stream: &mut CallStream) -> Result<(), ResponseError> {
        for choice in event.list_of("choices")? {
            // Of several choices the first counts.
            if choice
                .object()?
                .get("index")
                .is_some_and(|index| index.value.as_u64() != Some(0))
            {
                continue;
            }
            if let Some(delta) = choice.get("delta") {
                for piece in delta.object()?.list_of("tool_calls")? {
                    push_piece(&piece, stream)?;
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

    fn called<'v>(&self, message: &'v Map<String, Value>) -> Vec<&'v Value> {
        called(message)
    }

    fn endpoint(&self) -> Option<&'static Endpoint> {
        Some(&Endpoint {
            path: |_| Some("/chat/completions".to_owned()),
            key: BEARER,
            headers: &[],
        })
    }
}

/// A call of a message; Ollama writes it alike.
pub(super) fn function_call(call: &At<'_>) -> Result<ToolCall, ResponseError> {
    let function = call.need_object("function")?;
    Ok(ToolCall {
        id: call.text_of("id")?.map(str::to_owned),
        name: function.need("name")?.text()?.to_owned(),
        arguments: function.arguments("arguments"),
    })
}

/// The names that a message of a transcript calls, and that of the one call that it had before
/// there were lists.
pub(super) fn called(message: &Map<String, Value>) -> Vec<&Value> {
    let several = listed(message, "tool_calls").filter_map(|call| {
        let called = call.get("function").or(call.get("custom")).unwrap_or(call);
        called.get("name")
    });
    let single = message
        .get("function_call")
        .and_then(|call| call.get("name"));
    several.chain(single).collect()
}

fn push_piece(piece: &At<'_>, stream: &mut CallStream) -> Result<(), ResponseError> {
    let id = piece.object()?.text_of("id")?.filter(|id| !id.is_empty());
    let place = match piece.get("index") {
        Some(index) => index.whole_number()?,
        // Some servers leave it out: a new id is a new call.
        None => stream.place_of(id),
    };
    let pieces = stream.at(place)?;
    if pieces.id.is_none() {
        pieces.id = id.map(str::to_owned);
    }
    let Some(function) = piece.get("function") else {
        return Ok(());
    };
    if let Some(name) = function.object()?.text_of("name")? {
        // Some servers send the whole name with every piece.
        if pieces.name != name {
            pieces.name.push_str(name);
            stream.count(name.len())?;
        }
    }
    match function.text_of("arguments")? {
        Some(text) => stream.append(place, text),
        None => Ok(()),
    }
}
