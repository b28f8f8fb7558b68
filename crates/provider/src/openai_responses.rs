//! OpenAI Responses.
//!
//! Sources: `developers.openai.com/api/reference`, Responses; "Migrate to the Responses API"; "Tool
//! search".

use serde_json::{Map, Value, json};

use super::answer::{Finish, Reading};
use super::calls::{Arguments, ToolCall};
use super::format::{BEARER, Endpoint};
use super::format::{Definition, Format, Rules, SearchTool, Strictness};
use super::openai_chat;
use super::results::CallResult;
use super::stream::CallStream;
use super::transcript::{Item, Messages};
use super::translate::ToolChanges;
use super::wire::At;
use crate::{ResponseError, ResultError};

pub(super) struct OpenAiResponses;

impl Format for OpenAiResponses {
    fn rules(&self) -> &'static Rules {
        const {
            &Rules {
                name: "openai-responses",
                // "Migrate to the Responses API": functions are strict by default in Responses.
                strict: Strictness::ByDefault,
                // `developers.openai.com/api/docs/guides/tools-tool-search`; no limit is stated for
                // what is searched.
                search: Some(SearchTool {
                    kind: "tool_search",
                    name: None,
                }),
                ..openai_chat::RULES
            }
        }
    }

    fn definition(&self, definition: Definition<'_>, _: &mut ToolChanges<'_>) -> Value {
        let mut whole = Map::from_iter([("type".to_owned(), json!("function"))]);
        whole.append(&mut definition.members("parameters"));
        Value::Object(whole)
    }

    fn read(&self, answer: &At<'_>, reading: &mut Reading) -> Result<(), ResponseError> {
        for item in answer.need("output")?.list()? {
            match item.object()?.text_of("type")? {
                Some("function_call") => reading.calls.add(function_call(&item)?)?,
                Some("message") => {
                    let parts = item
                        .value
                        .get("content")
                        .and_then(Value::as_array)
                        .into_iter()
                        .flatten();
                    let text = parts
                        .filter(|part| part["type"] == "output_text")
                        .filter_map(|part| part["text"].as_str());
                    text.for_each(|text| reading.say(text));
                }
                _ => {}
            }
        }
        let why = answer
            .get("incomplete_details")
            .and_then(|details| details.text_if_any("reason"));
        reading.end(
            why.or(answer.text_if_any("status")),
            |reason| match reason {
                "completed" => Finish::Complete,
                "max_output_tokens" => Finish::Length,
                "content_filter" => Finish::Refused,
                _ => Finish::Other,
            },
        );
        Ok(())
    }

    fn push(&self, event: &At<'_>, stream: &mut CallStream) -> Result<(), ResponseError> {
        let place = |event: &At<'_>| event.need("output_index")?.whole_number();
        match event.text_of("type")? {
            Some("error") => {
                let message = event.text_of("message")?.unwrap_or("no reason given");
                return Err(event.refused(message.to_owned()));
            }
            Some(kind @ ("response.output_item.added" | "response.output_item.done")) => {
                let item = event.need("item")?;
                if item.object()?.text_of("type")? != Some("function_call") {
                    return Ok(());
                }
                let (place, call) = (place(event)?, function_call(&item)?);
                let pieces = stream.at(place)?;
                (pieces.id, pieces.name) = (call.id, call.name);
                pieces.whole = kind.ends_with("done");
                match call.arguments {
                    Arguments::Text(text) => stream.replace(place, &text)?,
                    Arguments::Json(value) => pieces.given = Some(value),
                }
            }
            Some("response.function_call_arguments.delta") => {
                stream.append(place(event)?, event.need("delta")?.text()?)?;
            }
            Some("response.function_call_arguments.done") => {
                stream.replace(place(event)?, event.need("arguments")?.text()?)?;
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
            texts: &["input_text"],
        })
    }

    fn item<'v>(&self, item: &'v Map<String, Value>) -> Option<Item<'v>> {
        match item.get("type")?.as_str()? {
            "function_call" | "custom_tool_call" => item.get("name").map(Item::Call),
            kind => {
                let known = matches!(kind, "reasoning" | "item_reference");
                (known || kind.ends_with("_call") || kind.ends_with("_call_output"))
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

fn function_call(item: &At<'_>) -> Result<ToolCall, ResponseError> {
    Ok(ToolCall {
        id: item
            .text_of("call_id")?
            .or(item.text_of("id")?)
            .map(str::to_owned),
        name: item.need("name")?.text()?.to_owned(),
        arguments: item.arguments("arguments"),
    })
}
