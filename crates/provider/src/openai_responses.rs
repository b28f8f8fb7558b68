//! The OpenAI Responses format.
//!
//! Sources: `developers.openai.com/api/reference`, Responses; "Migrate to the Responses API"; "Tool
//! search".

use serde_json::{Map, Value, json};

use super::answer::{Finish, PartialAnswer};
use super::calls::ToolCall;
use super::changes::ChangeLog;
use super::format::{BEARER, Endpoint};
use super::format::{Definition, Format, Rules, SearchTool, Strictness};
use super::messages::{Item, Messages};
use super::openai_chat;
use super::pieces::{CallItem, ItemArguments};
use super::results::CallResult;
use super::stream::CallStream;
use super::wire::JsonCursor;
use crate::{ResponseError, ResultError};

pub(super) struct OpenAiResponses;

impl Format for OpenAiResponses {
    fn rules(&self) -> &'static Rules {
        const {
            &Rules {
                name: "openai-responses",
                // "Migrate to the Responses API": functions are strict by default in Responses.
                strict: Strictness::ByDefault,
                // `developers.openai.com/api/docs/guides/tools-tool-search`; it states no limit for
                // deferred tools.
                search: Some(SearchTool {
                    kind: "tool_search",
                    name: None,
                }),
                ..openai_chat::RULES
            }
        }
    }

    fn definition(&self, definition: Definition<'_>, _: &mut ChangeLog<'_>) -> Value {
        let mut members = Map::from_iter([("type".to_owned(), json!("function"))]);
        members.append(&mut definition.members("parameters"));
        Value::Object(members)
    }

    fn read_answer(
        &self,
        answer: &JsonCursor<'_>,
        partial: &mut PartialAnswer,
    ) -> Result<(), ResponseError> {
        for item in answer.need("output")?.list()? {
            match item.object()?.optional_text("type")? {
                Some("function_call") => partial.calls.add(function_call(&item)?)?,
                Some("message") => {
                    let content = item.value.get("content");
                    for part in content.and_then(Value::as_array).into_iter().flatten() {
                        if part["type"] == "output_text"
                            && let Value::String(text) = &part["text"]
                        {
                            partial.push_text(text);
                        }
                    }
                }
                _ => {}
            }
        }
        partial.set_finish(finish_reason(answer), finish);
        Ok(())
    }

    fn push(&self, event: &JsonCursor<'_>, stream: &mut CallStream) -> Result<(), ResponseError> {
        let kind = event.optional_text("type")?;
        match kind {
            Some("error") => {
                let message = event.optional_text("message")?.unwrap_or("no reason given");
                return Err(event.refused(message.to_owned()));
            }
            Some("response.output_item.added" | "response.output_item.done") => {
                let is_complete = kind.is_some_and(|kind| kind.ends_with("done"));
                take_item(&event.need("item")?, index(event)?, is_complete, stream)?;
            }
            Some("response.function_call_arguments.delta") => {
                let arguments = event.argument_piece("delta").map(ItemArguments::Part);
                take_arguments(event, arguments, stream)?;
            }
            Some("response.function_call_arguments.done") => {
                let arguments = event.argument_piece("arguments").map(ItemArguments::All);
                take_arguments(event, arguments, stream)?;
            }
            Some("response.output_text.delta") => {
                if let Some(text) = event.text_if_any("delta") {
                    stream.push_text(text);
                }
            }
            Some("response.completed" | "response.incomplete") => {
                take_response(event, stream)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn results(&self, results: &[CallResult]) -> Result<Vec<Value>, ResultError> {
        let item = |result: &CallResult| {
            let id = result.need_id(self.rules().name)?;
            Ok(
                json!({"type": "function_call_output", "call_id": id, "output": result.plain_text()}),
            )
        };
        results.iter().map(item).collect()
    }

    fn messages(&self) -> Option<&'static Messages> {
        Some(&Messages {
            list: "input",
            content: "content",
            calls: &[],
            texts: &["input_text", "output_text"],
        })
    }

    fn item<'v>(&self, item: &'v Map<String, Value>) -> Option<Item<'v>> {
        match item.get("type")?.as_str()? {
            "function_call" | "custom_tool_call" => item.get("name").map(Item::Call),
            kind => {
                let is_item = matches!(kind, "reasoning" | "item_reference");
                (is_item || kind.ends_with("_call") || kind.ends_with("_call_output"))
                    .then_some(Item::Other)
            }
        }
    }

    fn endpoint(&self) -> Option<&'static Endpoint> {
        Some(&Endpoint {
            path: |_| Some("/responses".to_owned()),
            key: BEARER,
            headers: &[],
        })
    }
}

/// Returns the reason for the end of a response.
fn finish_reason<'v>(response: &JsonCursor<'v>) -> Option<&'v str> {
    let details = response.get("incomplete_details");
    let reason = details.and_then(|details| details.text_if_any("reason"));
    reason.or(response.text_if_any("status"))
}

fn finish(reason: &str) -> Finish {
    match reason {
        "completed" => Finish::Complete,
        "max_output_tokens" => Finish::Length,
        "content_filter" => Finish::Refused,
        _ => Finish::Other,
    }
}

/// Returns the index of the item of an event. Some servers omit it.
fn index(event: &JsonCursor<'_>) -> Result<Option<u64>, ResponseError> {
    let index = event.get("output_index").map(|index| index.whole_number());
    index.transpose()
}

/// Takes the start or the end of an item.
fn take_item(
    item: &JsonCursor<'_>,
    index: Option<u64>,
    is_complete: bool,
    stream: &mut CallStream,
) -> Result<(), ResponseError> {
    if item.object()?.optional_text("type")? != Some("function_call") {
        return Ok(());
    }
    stream.take_item(CallItem {
        index,
        item_id: item.optional_text("id")?,
        call: function_call(item)?,
        is_complete,
    })
}

fn take_arguments(
    event: &JsonCursor<'_>,
    arguments: Option<ItemArguments<'_>>,
    stream: &mut CallStream,
) -> Result<(), ResponseError> {
    match arguments {
        Some(arguments) => {
            stream.take_item_arguments(index(event)?, event.optional_text("item_id")?, arguments)
        }
        None => Ok(()),
    }
}

/// Takes the end of the response, and its items if the stream had none.
fn take_response(event: &JsonCursor<'_>, stream: &mut CallStream) -> Result<(), ResponseError> {
    let Some(response) = event.get("response") else {
        stream.end();
        return Ok(());
    };
    if stream.is_empty() {
        for item in response.object()?.optional_list("output")? {
            take_item(&item, None, true, stream)?;
        }
    }
    match finish_reason(&response) {
        Some(reason) => stream.end_with(reason, finish),
        None => stream.end(),
    }
    Ok(())
}

fn function_call(item: &JsonCursor<'_>) -> Result<ToolCall, ResponseError> {
    Ok(ToolCall {
        id: item
            .optional_text("call_id")?
            .or(item.optional_text("id")?)
            .map(str::to_owned),
        name: item.need("name")?.text()?.to_owned(),
        arguments: item.arguments("arguments"),
    })
}
