//! Anthropic Messages.
//!
//! Sources: `platform.claude.com`: "Define tools", "Handle tool calls", "Parallel tool use",
//! "Strict tool use", "Structured outputs", "Tool search tool", "Handling stop reasons".

use serde_json::{Map, Value, json};

use super::answer::{Finish, Reading};
use super::calls::{Arguments, ToolCall};
use super::format::Endpoint;
use super::format::{Definition, Format, Rules, SearchTool, Strictness};
use super::naming::NameRule;
use super::results::CallResult;
use super::stream::CallStream;
use super::transcript::{Messages, listed};
use super::translate::ToolChanges;
use super::view::Dialect;
use super::wire::At;
use crate::{ResponseError, ResultError};
use picktools::schema::within;

pub(super) struct Anthropic;

/// What all strict tools of an API request may have together: tools, optional properties, values of
/// several kinds. Source: "Structured outputs", schema complexity limits; the error "Schemas
/// contains too many parameters with union types (… limit: 16)".
const MAX_STRICT: [(&str, usize); 3] = [
    ("strict tools", 20),
    ("optional parameters", 24),
    ("parameters with union types", 16),
];

impl Format for Anthropic {
    fn rules(&self) -> &'static Rules {
        const {
            &Rules {
                name: "anthropic",
                // "Tool search tool", limits.
                max_deferred: Some(10_000),
                // "Define tools": `^[a-zA-Z0-9_-]{1,64}$`.
                tool_names: NameRule {
                    most: 64,
                    others: "-",
                    starts_with_letter: false,
                },
                // The error "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'".
                property_keys: Some(NameRule {
                    most: 64,
                    others: "-.",
                    starts_with_letter: false,
                }),
                // "Strict tool use": off unless asked for.
                strict: Strictness::OnRequest,
                // "Tool search tool"; the name is fixed.
                search: Some(SearchTool {
                    kind: "tool_search_tool_bm25_20251119",
                    name: Some("tool_search_tool_bm25"),
                }),
                // "Tool search tool", Custom tool search implementation.
                tool_references: true,
                dialect: Dialect::Anthropic,
                ..Rules::PLAIN
            }
        }
    }

    fn definition(&self, definition: Definition<'_>, _: &mut ToolChanges<'_>) -> Value {
        Value::Object(definition.members("input_schema"))
    }

    fn too_much_strict(&self, definitions: &[Value]) -> Vec<String> {
        let strict: Vec<&Value> = definitions
            .iter()
            .filter(|definition| definition["strict"] == true)
            .collect();
        let mut counts = [strict.len(), 0, 0];
        strict
            .iter()
            .for_each(|definition| count_complexity(&definition["input_schema"], &mut counts));
        let limits = MAX_STRICT
            .into_iter()
            .zip(counts)
            .filter(|((_, most), count)| count > most);
        limits
            .map(|((what, most), count)| {
                format!(
                    "{} takes {most} {what} in a request, and there are {count}",
                    self.rules().name
                )
            })
            .collect()
    }

    fn read(&self, answer: &At<'_>, reading: &mut Reading) -> Result<(), ResponseError> {
        for block in answer.need("content")?.list()? {
            match block.object()?.text_of("type")? {
                Some("tool_use") => reading.calls.add(tool_use(&block)?)?,
                Some("text") => block
                    .text_if_any("text")
                    .into_iter()
                    .for_each(|text| reading.say(text)),
                _ => {}
            }
        }
        reading.end(answer.text_if_any("stop_reason"), |reason| match reason {
            "end_turn" | "stop_sequence" | "tool_use" => Finish::Complete,
            "max_tokens" | "model_context_window_exceeded" => Finish::Length,
            "refusal" => Finish::Refused,
            _ => Finish::Other,
        });
        Ok(())
    }

    fn push(&self, event: &At<'_>, stream: &mut CallStream) -> Result<(), ResponseError> {
        let place = |event: &At<'_>| event.need("index")?.whole_number();
        match event.text_of("type")? {
            Some("content_block_start") => {
                let block = event.need("content_block")?;
                if block.object()?.text_of("type")? == Some("tool_use") {
                    let (place, call) = (place(event)?, tool_use(&block)?);
                    let pieces = stream.at(place)?;
                    (pieces.id, pieces.name) = (call.id, call.name);
                    if let Arguments::Json(value) = call.arguments {
                        pieces.given = Some(value);
                    }
                }
            }
            Some("content_block_delta") => {
                let delta = event.need("delta")?;
                if delta.object()?.text_of("type")? == Some("input_json_delta") {
                    let (place, text) = (place(event)?, delta.need("partial_json")?.text()?);
                    // What else takes JSON in pieces, such as a search by the provider itself, is
                    // no call.
                    if stream.known(place).is_some() {
                        stream.append(place, text)?;
                    }
                }
            }
            Some("content_block_stop") => {
                if let Some(pieces) = stream.known(place(event)?) {
                    pieces.whole = true;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// "Parallel tool use": all results of an answer stand in one message.
    fn results(&self, results: &[CallResult]) -> Result<Vec<Value>, ResultError> {
        let block = |result: &CallResult| {
            let id = result.need_id(self.rules().name)?;
            let block = |content: &str| json!({"type": "tool_result", "tool_use_id": id, "content": content});
            Ok(match result.text() {
                Ok(text) => block(&text),
                Err(message) => {
                    let mut failed = block(message);
                    failed["is_error"] = true.into();
                    failed
                }
            })
        };
        let blocks = results
            .iter()
            .map(block)
            .collect::<Result<Vec<Value>, ResultError>>()?;
        Ok(vec![json!({"role": "user", "content": blocks})])
    }

    fn messages(&self) -> Option<&'static Messages> {
        Some(&Messages {
            list: "messages",
            content: "content",
            calls: &[],
            texts: &["text"],
        })
    }

    fn called<'v>(&self, message: &'v Map<String, Value>) -> Vec<&'v Value> {
        let calls = listed(message, "content").filter(|part| {
            matches!(
                part.get("type").and_then(Value::as_str),
                Some("tool_use" | "mcp_tool_use")
            )
        });
        calls.filter_map(|call| call.get("name")).collect()
    }

    fn endpoint(&self) -> Option<&'static Endpoint> {
        Some(&Endpoint {
            path: |_| Some("/messages".to_owned()),
            key: ("x-api-key", ""),
            // The version of the interface that is spoken; its reference names no other.
            headers: &[("anthropic-version", "2023-06-01")],
        })
    }
}

/// A block of content.
fn tool_use(block: &At<'_>) -> Result<ToolCall, ResponseError> {
    Ok(ToolCall {
        id: block.text_of("id")?.map(str::to_owned),
        name: block.need("name")?.text()?.to_owned(),
        arguments: block.arguments("input"),
    })
}

/// Counts optional properties and values of several kinds.
fn count_complexity(schema: &Value, counts: &mut [usize; 3]) {
    if let Some(Value::Object(properties)) = schema.get("properties") {
        let required = schema
            .get("required")
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        counts[1] += properties.len().saturating_sub(required);
    }
    if schema.get("anyOf").is_some() || schema.get("type").is_some_and(Value::is_array) {
        counts[2] += 1;
    }
    within(schema).for_each(|value| count_complexity(value, counts));
}
