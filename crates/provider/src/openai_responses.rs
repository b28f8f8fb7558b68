//! The OpenAI Responses format.
//!
//! Sources: `developers.openai.com/api/reference`, Responses; "Migrate to the Responses API"; "Tool
//! search".

use serde_json::{Map, Value, json};

use super::answer::{Finish, PartialAnswer};
use super::calls::{Arguments, ToolCall};
use super::format::{BEARER, Endpoint};
use super::format::{Definition, Format, Rules, SearchTool, Strictness};
use super::openai_chat;
use super::results::CallResult;
use super::stream::CallStream;
use super::transcript::{Item, Messages};
use super::translate::ChangeLog;
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
        let reason = answer
            .get("incomplete_details")
            .and_then(|details| details.text_if_any("reason"));
        partial.set_finish(
            reason.or(answer.text_if_any("status")),
            |reason| match reason {
                "completed" => Finish::Complete,
                "max_output_tokens" => Finish::Length,
                "content_filter" => Finish::Refused,
                _ => Finish::Other,
            },
        );
        Ok(())
    }

    fn push(&self, event: &JsonCursor<'_>, stream: &mut CallStream) -> Result<(), ResponseError> {
        let index = |event: &JsonCursor<'_>| event.need("output_index")?.whole_number();
        match event.optional_text("type")? {
            Some("error") => {
                let message = event.optional_text("message")?.unwrap_or("no reason given");
                return Err(event.refused(message.to_owned()));
            }
            Some(kind @ ("response.output_item.added" | "response.output_item.done")) => {
                let item = event.need("item")?;
                if item.object()?.optional_text("type")? != Some("function_call") {
                    return Ok(());
                }
                let (index, received) = (index(event)?, function_call(&item)?);
                let call = stream.call_at(index)?;
                (call.id, call.name) = (received.id, received.name);
                call.complete = kind.ends_with("done");
                match received.arguments {
                    Arguments::Text(text) => stream.replace(index, &text)?,
                    Arguments::Json(value) => call.initial_arguments = Some(value),
                }
            }
            Some("response.function_call_arguments.delta") => {
                stream.append(index(event)?, event.need("delta")?.text()?)?;
            }
            Some("response.function_call_arguments.done") => {
                stream.replace(index(event)?, event.need("arguments")?.text()?)?;
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
