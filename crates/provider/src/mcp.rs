//! The Model Context Protocol: definitions as in `tools/list`, calls as `tools/call` requests.
//!
//! Source: specification 2025-11-25, "Tools". MCP has no transcripts and no chat.

use serde_json::{Value, json};

use super::answer::PartialAnswer;
use super::calls::ToolCall;
use super::changes::{ChangeCode, ChangeLog};
use super::format::{Definition, Format, Rules};
use super::naming::NameRule;
use super::pieces::CallPiece;
use super::results::CallResult;
use super::stream::CallStream;
use super::view::Dialect;
use super::wire::JsonCursor;
use crate::{ResponseError, ResultError};

pub(super) struct Mcp;

impl Format for Mcp {
    fn rules(&self) -> &'static Rules {
        const {
            &Rules {
                name: "mcp",
                // "Tool Names": 1 to 128 of letters, digits, `_`, `-`, `.`.
                tool_names: NameRule {
                    max_length: 128,
                    extra_chars: "-.",
                    starts_with_letter: false,
                },
                dialect: Dialect::JsonSchema,
                ..Rules::PLAIN
            }
        }
    }

    fn definition(&self, definition: Definition<'_>, changes: &mut ChangeLog<'_>) -> Value {
        let tool = definition.tool;
        let mut members = definition.members("inputSchema");
        if let Some(title) = &tool.title {
            members.shift_insert(1, "title".to_owned(), json!(title));
        }
        if let Some(schema) = &tool.output_schema {
            if schema.get("type") == Some(&json!("object")) {
                members.insert("outputSchema".to_owned(), schema.clone());
            } else {
                let detail = "MCP accepts an output schema only if its root is an object";
                changes.add("/output_schema", ChangeCode::OutputSchemaDropped, detail);
            }
        }
        if let Ok(Value::Object(hints)) = serde_json::to_value(&tool.annotations)
            && !hints.is_empty()
        {
            members.insert("annotations".to_owned(), Value::Object(hints));
        }
        Value::Object(members)
    }

    fn read_answer(
        &self,
        answer: &JsonCursor<'_>,
        partial: &mut PartialAnswer,
    ) -> Result<(), ResponseError> {
        let method = answer.need("method")?;
        if method.text()? != "tools/call" {
            return Err(method.unexpected("\"tools/call\""));
        }
        partial.calls.add(call(answer)?)
    }

    /// Writes a `CallToolResult`. Structured content must be an object; "for backwards
    /// compatibility" the text contains it too.
    fn results(&self, results: &[CallResult]) -> Result<Vec<Value>, ResultError> {
        let result = |result: &CallResult| {
            let text = result.text();
            let is_error = text.is_err();
            let text = text.unwrap_or_else(str::to_owned);
            let mut call_result =
                json!({"content": [{"type": "text", "text": text}], "isError": is_error});
            if let Ok(structured @ Value::Object(_)) = &result.outcome {
                call_result["structuredContent"] = structured.clone();
            }
            call_result
        };
        Ok(results.iter().map(result).collect())
    }

    fn push(&self, event: &JsonCursor<'_>, stream: &mut CallStream) -> Result<(), ResponseError> {
        match event.optional_text("method")? {
            Some("tools/call") => {
                let call = call(event)?;
                stream.take_complete(CallPiece {
                    index: None,
                    id: call.id.as_deref(),
                    name: Some(&call.name),
                    arguments: Some(call.arguments.piece()),
                })
            }
            _ => Ok(()),
        }
    }
}

/// Parses a JSON-RPC request.
fn call(request: &JsonCursor<'_>) -> Result<ToolCall, ResponseError> {
    let params = request.need_object("params")?;
    let id = match request.get("id").map(|id| id.value) {
        Some(Value::String(id)) => Some(id.clone()),
        Some(Value::Number(id)) => Some(id.to_string()),
        _ => None,
    };
    let name = params.need("name")?.text()?.to_owned();
    Ok(ToolCall {
        id,
        name,
        arguments: params.arguments("arguments"),
    })
}
