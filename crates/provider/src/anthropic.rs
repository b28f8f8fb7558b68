//! The Anthropic Messages format.
//!
//! Sources: `platform.claude.com`: "Define tools", "Handle tool calls", "Parallel tool use",
//! "Strict tool use", "Structured outputs", "Tool search tool", "Handling stop reasons".

use serde_json::{Map, Value, json};

use super::answer::{Finish, PartialAnswer};
use super::calls::ToolCall;
use super::changes::ChangeLog;
use super::format::Endpoint;
use super::format::{Definition, Format, Rules, SearchTool, Strictness};
use super::messages::{Messages, list_items};
use super::naming::NameRule;
use super::pieces::CallPiece;
use super::results::CallResult;
use super::stream::CallStream;
use super::view::Dialect;
use super::wire::JsonCursor;
use crate::{ResponseError, ResultError};
use picktools::schema::within;

pub(super) struct Anthropic;

/// The largest total of all strict tools in an API request: tools, optional properties, and values
/// with several types.
///
/// Source: "Structured outputs", schema complexity limits; the error "Schemas contains too many
/// parameters with union types (… limit: 16)".
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
                    max_length: 64,
                    extra_chars: "-",
                    starts_with_letter: false,
                },
                // The error "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'".
                property_keys: Some(NameRule {
                    max_length: 64,
                    extra_chars: "-.",
                    starts_with_letter: false,
                }),
                // "Strict tool use": off by default.
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

    fn definition(&self, definition: Definition<'_>, _: &mut ChangeLog<'_>) -> Value {
        Value::Object(definition.members("input_schema"))
    }

    fn too_much_strict(&self, definitions: &[Value]) -> Vec<String> {
        let mut counts = [0, 0, 0];
        for definition in definitions {
            if definition["strict"] == true {
                counts[0] += 1;
                count_complexity(&definition["input_schema"], &mut counts);
            }
        }
        let mut exceeded_limits = Vec::new();
        for ((what, most), count) in MAX_STRICT.into_iter().zip(counts) {
            if count > most {
                exceeded_limits.push(format!(
                    "{} accepts at most {most} {what} per request, but there are {count}",
                    self.rules().name
                ));
            }
        }
        exceeded_limits
    }

    fn read_answer(
        &self,
        answer: &JsonCursor<'_>,
        partial: &mut PartialAnswer,
    ) -> Result<(), ResponseError> {
        for block in answer.need("content")?.list()? {
            match block.object()?.optional_text("type")? {
                Some("tool_use") => partial.calls.add(tool_use(&block)?)?,
                Some("text") => {
                    if let Some(text) = block.text_if_any("text") {
                        partial.push_text(text);
                    }
                }
                _ => {}
            }
        }
        partial.set_finish(answer.text_if_any("stop_reason"), finish);
        Ok(())
    }

    fn push(&self, event: &JsonCursor<'_>, stream: &mut CallStream) -> Result<(), ResponseError> {
        let index = event.get("index").map(|index| index.whole_number());
        let index = index.transpose()?;
        match event.optional_text("type")? {
            Some("content_block_start") => {
                let block = event.need("content_block")?;
                match (block.object()?.optional_text("type")?, index) {
                    (Some("tool_use"), _) => stream.take(tool_use_piece(&block, index)?)?,
                    (_, Some(index)) => stream.start_other_part(index),
                    _ => {}
                }
            }
            Some("content_block_delta") => push_delta(&event.need("delta")?, index, stream)?,
            Some("content_block_stop") => {
                if let Some(index) = index.filter(|index| !stream.is_other_part(*index))
                    && let Some(call) = stream.call_at(index)
                {
                    call.complete = true;
                }
            }
            Some("message_delta") => {
                let delta = event.get("delta");
                if let Some(reason) = delta.and_then(|delta| delta.text_if_any("stop_reason")) {
                    stream.end_with(reason, finish);
                }
            }
            Some("message_stop") => stream.end(),
            _ => {}
        }
        Ok(())
    }

    /// Writes all results of an answer into one message, as "Parallel tool use" requires.
    fn results(&self, results: &[CallResult]) -> Result<Vec<Value>, ResultError> {
        let mut blocks = Vec::with_capacity(results.len());
        for result in results {
            let id = result.need_id(self.rules().name)?;
            blocks.push(result_block(id, result));
        }
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

    fn called_names<'v>(&self, message: &'v Map<String, Value>) -> Vec<&'v Value> {
        let mut names = Vec::new();
        for part in list_items(message, "content") {
            if let Some(Value::String(kind)) = part.get("type")
                && matches!(kind.as_str(), "tool_use" | "mcp_tool_use")
            {
                names.extend(part.get("name"));
            }
        }
        names
    }

    fn endpoint(&self) -> Option<&'static Endpoint> {
        Some(&Endpoint {
            path: |_| Some("/messages".to_owned()),
            key: ("x-api-key", ""),
            // The API version; the API reference lists no other.
            headers: &[("anthropic-version", "2023-06-01")],
        })
    }
}

fn finish(reason: &str) -> Finish {
    match reason {
        "end_turn" | "stop_sequence" | "tool_use" => Finish::Complete,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "refusal" => Finish::Refused,
        _ => Finish::Other,
    }
}

/// Returns the block of a call's result.
fn result_block(id: &str, result: &CallResult) -> Value {
    let block =
        |content: &str| json!({"type": "tool_result", "tool_use_id": id, "content": content});
    match result.text() {
        Ok(text) => block(&text),
        Err(message) => {
            let mut failed = block(message);
            failed["is_error"] = true.into();
            failed
        }
    }
}

/// Reads the start of a `tool_use` block as a piece of a call.
fn tool_use_piece<'v>(
    block: &JsonCursor<'v>,
    index: Option<u64>,
) -> Result<CallPiece<'v>, ResponseError> {
    let id = block.optional_text("id")?;
    Ok(CallPiece {
        index,
        id: id.filter(|id| !id.is_empty()),
        name: Some(block.need("name")?.text()?),
        arguments: block.argument_piece("input"),
    })
}

/// Takes a part of a block.
fn push_delta(
    delta: &JsonCursor<'_>,
    index: Option<u64>,
    stream: &mut CallStream,
) -> Result<(), ResponseError> {
    match delta.object()?.optional_text("type")? {
        Some("text_delta") => {
            if let Some(text) = delta.text_if_any("text") {
                stream.push_text(text);
            }
        }
        Some("input_json_delta") => {
            let arguments = delta.argument_piece("partial_json");
            // Other blocks with JSON deltas, such as a provider's search, are not calls.
            let is_other = index.is_some_and(|index| stream.is_other_part(index));
            if !is_other && !stream.is_empty() {
                stream.take(CallPiece {
                    index,
                    arguments,
                    ..CallPiece::default()
                })?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Parses a `tool_use` block.
fn tool_use(block: &JsonCursor<'_>) -> Result<ToolCall, ResponseError> {
    Ok(ToolCall {
        id: block.optional_text("id")?.map(str::to_owned),
        name: block.need("name")?.text()?.to_owned(),
        arguments: block.arguments("input"),
    })
}

/// Counts optional properties and values with several types.
fn count_complexity(schema: &Value, counts: &mut [usize; 3]) {
    if let Some(Value::Object(properties)) = schema.get("properties") {
        let required = match schema.get("required") {
            Some(Value::Array(names)) => names.len(),
            _ => 0,
        };
        counts[1] += properties.len().saturating_sub(required);
    }
    if schema.get("anyOf").is_some() || schema.get("type").is_some_and(Value::is_array) {
        counts[2] += 1;
    }
    within(schema).for_each(|value| count_complexity(value, counts));
}
