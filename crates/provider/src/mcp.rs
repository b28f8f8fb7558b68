//! The Model Context Protocol: definitions as in `tools/list`, calls as `tools/call` requests.
//!
//! Source: specification 2025-11-25, "Tools". It is a protocol of tools, without transcripts and
//! without a chat.

use serde_json::{Value, json};

use super::answer::Reading;
use super::calls::ToolCall;
use super::format::{Definition, Format, Rules};
use super::naming::NameRule;
use super::results::CallResult;
use super::stream::CallStream;
use super::translate::{ChangeCode, ToolChanges};
use super::view::Dialect;
use super::wire::At;
use crate::{ResponseError, ResultError};

pub(super) struct Mcp;

impl Format for Mcp {
    fn rules(&self) -> &'static Rules {
        const {
            &Rules {
                name: "mcp",
                // "Tool Names": 1 to 128 of letters, digits, `_`, `-`, `.`.
                tool_names: NameRule {
                    most: 128,
                    others: "-.",
                    starts_with_letter: false,
                },
                dialect: Dialect::JsonSchema,
                ..Rules::PLAIN
            }
        }
    }

    fn definition(&self, definition: Definition<'_>, changes: &mut ToolChanges<'_>) -> Value {
        let tool = definition.tool;
        let mut members = definition.members("inputSchema");
        if let Some(title) = &tool.title {
            members.shift_insert(1, "title".to_owned(), json!(title));
        }
        if let Some(schema) = &tool.output_schema {
            if schema.get("type") == Some(&json!("object")) {
                members.insert("outputSchema".to_owned(), schema.clone());
            } else {
                let detail = "MCP takes an output schema only where its root is an object";
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

    fn read(&self, answer: &At<'_>, reading: &mut Reading) -> Result<(), ResponseError> {
        let method = answer.need("method")?;
        if method.text()? != "tools/call" {
            return Err(method.not("\"tools/call\""));
        }
        reading.calls.add(call(answer)?)
    }

    /// `CallToolResult`. Structured content is an object; "for backwards compatibility" it stands
    /// in the text as well.
    fn results(&self, results: &[CallResult]) -> Result<Vec<Value>, ResultError> {
        let result = |result: &CallResult| {
            let text = result.text();
            let is_error = text.is_err();
            let text = text.unwrap_or_else(str::to_owned);
            let mut whole =
                json!({"content": [{"type": "text", "text": text}], "isError": is_error});
            if let Ok(structured @ Value::Object(_)) = &result.outcome {
                whole["structuredContent"] = structured.clone();
            }
            whole
        };
        Ok(results.iter().map(result).collect())
    }

    fn push(&self, event: &At<'_>, stream: &mut CallStream) -> Result<(), ResponseError> {
        match event.text_of("method")? {
            Some("tools/call") => stream.add(call(event)?),
            _ => Ok(()),
        }
    }
}

/// A JSON-RPC request.
fn call(request: &At<'_>) -> Result<ToolCall, ResponseError> {
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
