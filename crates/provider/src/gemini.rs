//! The Gemini `generateContent` format.
//!
//! Sources: `ai.google.dev/api` and the Vertex AI reference, `FunctionDeclaration`, `Tool`,
//! `Candidate.finishReason`.

use serde_json::{Map, Value, json};

use super::answer::{Finish, PartialAnswer};
use super::calls::ToolCall;
use super::changes::ChangeLog;
use super::format::Endpoint;
use super::format::{Definition, Format, Rules};
use super::messages::{Item, Messages, list_items};
use super::naming::NameRule;
use super::pieces::CallPiece;
use super::results::CallResult;
use super::stream::CallStream;
use super::view::Dialect;
use super::wire::JsonCursor;
use crate::{ResponseError, ResultError};

pub(super) struct Gemini;

impl Format for Gemini {
    fn rules(&self) -> &'static Rules {
        const {
            &Rules {
                name: "gemini",
                // Vertex AI reference, `Tool.functionDeclarations`.
                max_tools: Some(512),
                // `FunctionDeclaration.description` is required.
                needs_description: true,
                // `FunctionDeclaration.name` ("Must start with a letter or an underscore. Must be
                // a-z, A-Z, 0-9, or contain underscores, dots and dashes, with a maximum length of
                // 64").
                tool_names: NameRule {
                    max_length: 64,
                    extra_chars: "-.",
                    starts_with_letter: true,
                },
                // `FunctionDeclaration.parameters` ("Parameter names must start with a letter or an
                // underscore and must only contain chars a-z, A-Z, 0-9, or underscores with a
                // maximum length of 64").
                property_keys: Some(NameRule {
                    max_length: 64,
                    extra_chars: "",
                    starts_with_letter: true,
                }),
                dialect: Dialect::Gemini,
                ..Rules::PLAIN
            }
        }
    }

    fn definition(&self, definition: Definition<'_>, _: &mut ChangeLog<'_>) -> Value {
        Value::Object(definition.members("parameters"))
    }

    fn tools(&self, definitions: Vec<Value>) -> Value {
        if definitions.is_empty() {
            json!([])
        } else {
            json!([{"functionDeclarations": definitions}])
        }
    }

    fn refusal(&self, answer: &Value) -> Option<String> {
        if let Some(reason) = answer.pointer("/promptFeedback/blockReason")
            && !reason.is_null()
        {
            return Some(reason.as_str().unwrap_or("blocked").to_owned());
        }
        let finish = answer.pointer("/candidates/0/finishReason")?.as_str()?;
        (finish == "MALFORMED_FUNCTION_CALL").then(|| finish.to_owned())
    }

    fn read_answer(
        &self,
        answer: &JsonCursor<'_>,
        partial: &mut PartialAnswer,
    ) -> Result<(), ResponseError> {
        let candidates = answer.need("candidates")?.list()?;
        let Some(candidate) = candidates.first() else {
            return Ok(());
        };
        for part in parts(candidate)? {
            match part.object()?.get("functionCall") {
                Some(call) => partial.calls.add(function_call(&call)?)?,
                None if part.value["thought"] == true => {}
                None => part
                    .text_if_any("text")
                    .into_iter()
                    .for_each(|text| partial.push_text(text)),
            }
        }
        partial.set_finish(candidate.text_if_any("finishReason"), finish);
        Ok(())
    }

    /// Takes complete calls. A chunk may have no candidates. Some servers send the arguments of a
    /// call in later chunks.
    fn push(&self, event: &JsonCursor<'_>, stream: &mut CallStream) -> Result<(), ResponseError> {
        for candidate in event.optional_list("candidates")?.iter().take(1) {
            for part in parts(candidate)? {
                match part.object()?.get("functionCall") {
                    Some(call) => {
                        if stream.is_empty() {
                            call.need("name")?;
                        }
                        stream.take_complete(call_piece(&call)?)?;
                    }
                    None if part.value["thought"] == true => {}
                    None => part
                        .text_if_any("text")
                        .into_iter()
                        .for_each(|text| stream.push_text(text)),
                }
            }
            if let Some(reason) = candidate.text_if_any("finishReason") {
                stream.end_with(reason, finish);
            }
        }
        Ok(())
    }

    /// Writes `FunctionResponse.response` ("Use "output" key to specify function output and "error"
    /// key to specify error details").
    fn results(&self, results: &[CallResult]) -> Result<Vec<Value>, ResultError> {
        let part = |result: &CallResult| {
            let response = match (&result.outcome, result.text()) {
                (Ok(value), _) => json!({"output": value}),
                (Err(_), text) => json!({"error": text.unwrap_or_else(str::to_owned)}),
            };
            let mut response_part = Map::from_iter([("name".to_owned(), json!(result.name))]);
            response_part.insert("response".to_owned(), response);
            if let Some(id) = &result.id {
                response_part.insert("id".to_owned(), json!(id));
            }
            json!({"functionResponse": response_part})
        };
        let parts: Vec<Value> = results.iter().map(part).collect();
        Ok(vec![json!({"role": "user", "parts": parts})])
    }

    fn messages(&self) -> Option<&'static Messages> {
        Some(&Messages {
            list: "contents",
            content: "parts",
            calls: &[],
            texts: &[],
        })
    }

    fn called_names<'v>(&self, message: &'v Map<String, Value>) -> Vec<&'v Value> {
        list_items(message, "parts")
            .filter_map(|part| {
                part.get("functionCall")
                    .or(part.get("function_call"))?
                    .get("name")
            })
            .collect()
    }

    /// Recognises messages of the user, which need no role.
    fn item<'v>(&self, item: &'v Map<String, Value>) -> Option<Item<'v>> {
        (item.get("type").and_then(Value::as_str).is_none() && item.contains_key("parts"))
            .then_some(Item::User(item))
    }

    fn endpoint(&self) -> Option<&'static Endpoint> {
        Some(&Endpoint {
            path,
            key: ("x-goog-api-key", ""),
            headers: &[],
        })
    }
}

fn parts<'v>(candidate: &JsonCursor<'v>) -> Result<Vec<JsonCursor<'v>>, ResponseError> {
    match candidate.object()?.get("content") {
        Some(content) => content.object()?.optional_list("parts"),
        None => Ok(Vec::new()),
    }
}

fn call_piece<'v>(call: &JsonCursor<'v>) -> Result<CallPiece<'v>, ResponseError> {
    let text = |key| {
        call.optional_text(key)
            .map(|text| text.filter(|text| !text.is_empty()))
    };
    Ok(CallPiece {
        index: None,
        id: text("id")?,
        name: text("name")?,
        arguments: call.argument_piece("args"),
    })
}

fn finish(reason: &str) -> Finish {
    match reason {
        "STOP" => Finish::Complete,
        "MAX_TOKENS" => Finish::Length,
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => {
            Finish::Refused
        }
        _ => Finish::Other,
    }
}

fn function_call(call: &JsonCursor<'_>) -> Result<ToolCall, ResponseError> {
    Ok(ToolCall {
        id: call.object()?.optional_text("id")?.map(str::to_owned),
        name: call.need("name")?.text()?.to_owned(),
        arguments: call.arguments("args"),
    })
}

/// Moves the member `model` into the path.
fn path(request: &mut Value) -> Option<String> {
    let model = request.as_object_mut()?.shift_remove("model")?;
    let model = model.as_str()?;
    let model = model.strip_prefix("models/").unwrap_or(model);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    (!model.is_empty() && model.chars().all(is_plain))
        .then(|| format!("/models/{model}:generateContent"))
}
