//! Answers of providers whose calls are moved from the text to where clients expect them.

use picktools_provider::{Finish, Provider};
use serde_json::{Value, json};

use crate::api::ModelApi;
use crate::long_numbers::LongNumbers;
use crate::shown::{ReturnedCall, ShownTools};

/// Moves the calls in the text of a complete answer; `None` if it has no such calls.
pub(crate) fn move_calls(api: ModelApi, shown: &ShownTools, answer: &[u8]) -> Option<Vec<u8>> {
    let answer = std::str::from_utf8(answer).ok()?;
    let (mut document, long_numbers) = LongNumbers::parse(answer)?;
    let provider = match api {
        ModelApi::Chat => Provider::OpenAiChat,
        ModelApi::Responses => Provider::OpenAiResponses,
        ModelApi::Messages => Provider::Anthropic,
        ModelApi::CountTokens => return None,
    };
    let parsed = provider.answer(&document).ok()?;
    // The end of a call may be missing if the answer reached the token limit.
    if !parsed.calls.is_empty() || parsed.finish == Some(Finish::Length) {
        return None;
    }
    let (text, calls) = shown.calls_in(&parsed.text?)?;
    match api {
        ModelApi::Chat => {
            let choice = document.pointer_mut("/choices/0")?;
            choice["message"]["content"] = if text.is_empty() {
                Value::Null
            } else {
                text.into()
            };
            choice["message"]["tool_calls"] = calls.iter().map(chat_call).collect();
            choice["finish_reason"] = "tool_calls".into();
        }
        ModelApi::Responses => set_response(&mut document, &text, &calls),
        _ => {
            let blocks = document.get_mut("content")?.as_array_mut()?;
            replace_texts(blocks, "text", &text);
            blocks.extend(calls.iter().map(block));
            document["stop_reason"] = "tool_use".into();
        }
    }
    Some(long_numbers.write(&document).into_bytes())
}

/// Writes the text and the calls into a response of OpenAI Responses.
pub(crate) fn set_response(response: &mut Value, text: &str, calls: &[ReturnedCall]) {
    let Some(items) = response.get_mut("output").and_then(Value::as_array_mut) else {
        return;
    };
    let mut text = text;
    for item in items.iter_mut().filter(|item| item["type"] == "message") {
        if let Some(parts) = item.get_mut("content").and_then(Value::as_array_mut) {
            replace_texts(parts, "output_text", text);
            text = "";
        }
    }
    items.retain(|item| item["type"] != "message" || item["content"] != json!([]));
    items.extend(calls.iter().map(item));
}

/// Replaces the first part of a kind by a text, and removes the others.
fn replace_texts(parts: &mut Vec<Value>, kind: &str, text: &str) {
    let mut text = Some(text).filter(|text| !text.is_empty());
    parts.retain_mut(|part| {
        if part["type"] != kind {
            return true;
        }
        let Some(text) = text.take() else {
            return false;
        };
        part["text"] = text.into();
        true
    });
}

/// Writes a call for Chat Completions.
pub(crate) fn chat_call(call: &ReturnedCall) -> Value {
    json!({"id": call.id, "type": "function",
        "function": {"name": call.name, "arguments": call.arguments.to_string()}})
}

/// Writes a call as an item of OpenAI Responses.
pub(crate) fn item(call: &ReturnedCall) -> Value {
    json!({"type": "function_call", "id": format!("fc_{}", call.id), "call_id": call.id,
        "name": call.name, "arguments": call.arguments.to_string(), "status": "completed"})
}

/// Writes a call as a block of Anthropic.
pub(crate) fn block(call: &ReturnedCall) -> Value {
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments})
}
