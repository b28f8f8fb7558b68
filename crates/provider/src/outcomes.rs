//! The outcomes of calls in a transcript, in any provider's format.
//!
//! A result can only change the outcome of the call that it answers.

use serde_json::{Map, Value};

use super::messages::list_items;

/// The beginnings of texts with which tools and frameworks report a failure, in lower case.
const ERROR_BEGINNINGS: [&str; 5] = [
    "error:",
    "error executing",
    "exception:",
    "<tool_use_error>",
    "traceback (most recent call last)",
];

/// The calls of one turn with their outcomes.
#[derive(Default)]
pub(super) struct CallOutcomes<'a> {
    calls: Vec<Call<'a>>,
}

struct Call<'a> {
    id: Option<&'a str>,
    name: &'a str,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unknown,
    Done,
    Failed,
}

impl<'a> CallOutcomes<'a> {
    /// Adds the calls of a message or item.
    pub(super) fn add_calls(&mut self, message: &'a Map<String, Value>) {
        for call in list_items(message, "tool_calls") {
            let function = call.get("function").or(call.get("custom")).unwrap_or(call);
            self.add(call.get("id"), function.get("name"));
        }
        if let Some(call) = message.get("function_call") {
            self.add(None, call.get("name"));
        }
        for part in list_items(message, "content") {
            if matches!(text(part.get("type")), Some("tool_use" | "mcp_tool_use")) {
                self.add(part.get("id"), part.get("name"));
            }
        }
        for part in list_items(message, "parts") {
            if let Some(call) = part.get("functionCall").or(part.get("function_call")) {
                self.add(call.get("id"), call.get("name"));
            }
        }
        if matches!(
            text(message.get("type")),
            Some("function_call" | "custom_tool_call")
        ) {
            self.add(message.get("call_id"), message.get("name"));
        }
    }

    fn add(&mut self, id: Option<&'a Value>, name: Option<&'a Value>) {
        if let Some(name) = text(name) {
            self.calls.push(Call {
                id: text(id),
                name,
                outcome: Outcome::Unknown,
            });
        }
    }

    /// Reads the results of a message or item.
    pub(super) fn add_results(&mut self, message: &Map<String, Value>) {
        let kind = text(message.get("type")).unwrap_or_default();
        if matches!(text(message.get("role")), Some("tool" | "function")) {
            let name = message.get("name").or(message.get("tool_name"));
            let is_failed = is_failure(message) || is_error_content(message.get("content"));
            self.answer(text(message.get("tool_call_id")), text(name), is_failed);
        } else if kind.ends_with("_call_output") {
            let is_failed = is_failure(message) || is_error_content(message.get("output"));
            self.answer(text(message.get("call_id")), None, is_failed);
        }
        for part in list_items(message, "content").filter_map(Value::as_object) {
            if matches!(
                text(part.get("type")),
                Some("tool_result" | "mcp_tool_result")
            ) {
                let is_failed = is_failure(part) || is_error_content(part.get("content"));
                self.answer(text(part.get("tool_use_id")), None, is_failed);
            }
        }
        for part in list_items(message, "parts") {
            let response = part.get("functionResponse");
            if let Some(result) = response.or(part.get("function_response")) {
                let is_failed = is_error_content(result.get("response"));
                self.answer(text(result.get("id")), text(result.get("name")), is_failed);
            }
        }
    }

    /// Sets the outcome of the call with this id, or else of the first open call of this name.
    fn answer(&mut self, id: Option<&str>, name: Option<&str>, is_failed: bool) {
        let is_answered = |call: &&mut Call<'_>| match (id, call.id) {
            (Some(id), Some(call_id)) => id == call_id,
            _ => call.outcome == Outcome::Unknown && name.is_none_or(|name| name == call.name),
        };
        if let Some(call) = self.calls.iter_mut().find(is_answered) {
            call.outcome = if is_failed {
                Outcome::Failed
            } else {
                Outcome::Done
            };
        }
    }

    /// Returns the names of the tools of which every call failed, each once, and clears the calls.
    pub(super) fn take_failed(&mut self) -> Vec<String> {
        let calls = std::mem::take(&mut self.calls);
        let mut failed: Vec<String> = Vec::new();
        for call in &calls {
            let has_failed =
                |other: &Call<'_>| other.name != call.name || other.outcome == Outcome::Failed;
            if !failed.iter().any(|name| name == call.name) && calls.iter().all(has_failed) {
                failed.push(call.name.to_owned());
            }
        }
        failed
    }
}

fn text(value: Option<&Value>) -> Option<&str> {
    value?.as_str()
}

/// Returns `true` if the members of a result say that the call failed.
fn is_failure(result: &Map<String, Value>) -> bool {
    let is_flag = |key: &str, flag: bool| result.get(key) == Some(&Value::Bool(flag));
    let has_error = match result.get("error") {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(_) => true,
    };
    let is_failed_status = matches!(
        text(result.get("status")),
        Some("error" | "failed" | "incomplete")
    );
    is_flag("is_error", true)
        || is_flag("isError", true)
        || is_flag("success", false)
        || has_error
        || is_failed_status
}

/// Returns `true` if the content of a result says that the call failed.
fn is_error_content(content: Option<&Value>) -> bool {
    match content {
        Some(Value::String(text)) => is_error_text(text),
        Some(Value::Object(result)) => is_failure(result),
        Some(Value::Array(parts)) => parts
            .iter()
            .any(|part| text(part.get("text")).is_some_and(is_error_text)),
        _ => false,
    }
}

fn is_error_text(content: &str) -> bool {
    let content = content.trim_start();
    if content.starts_with('{') {
        return serde_json::from_str::<Map<String, Value>>(content)
            .is_ok_and(|result| is_failure(&result));
    }
    ERROR_BEGINNINGS.iter().any(|beginning| {
        content
            .get(..beginning.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(beginning))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::turns;

    /// Returns the failed tools of a turn in which `a` and then `b` were called.
    fn failed(messages: &[Value]) -> Vec<String> {
        let mut transcript = vec![json!({"role": "user", "content": "do it"})];
        transcript.extend_from_slice(messages);
        let turns = turns(&Value::Array(transcript)).expect("it is a transcript");
        assert_eq!(turns[0].called, ["a", "b"], "failed calls are calls");
        turns[0].failed.clone()
    }

    #[test]
    fn failed_calls_are_found_in_every_format() {
        let call = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
        let chat = json!({"role": "assistant", "tool_calls": [call("1", "a"), call("2", "b")]});
        let tool = |id: &str, content: &str| json!({"role": "tool", "tool_call_id": id, "content": content});
        for text in [
            "Error: no such file",
            "{\"error\": \"denied\"}",
            "{\"success\": false}",
            "{\"isError\": true, \"content\": []}",
            "Traceback (most recent call last):\n  x",
        ] {
            // The results have another order than the calls.
            let found = failed(&[chat.clone(), tool("2", "fine"), tool("1", text)]);
            assert_eq!(found, ["a"], "{text}");
        }
        let fine = tool("1", "{\"error\": null, \"success\": true}");
        assert!(failed(&[chat.clone(), fine, tool("2", "No errors: 0")]).is_empty());
        assert!(failed(std::slice::from_ref(&chat)).is_empty());

        let anthropic = json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": "1", "name": "a", "input": {}},
            {"type": "tool_use", "id": "2", "name": "b", "input": {}},
        ]});
        let results = json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "2", "is_error": true, "content": "no"},
            {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "ok"}]},
        ]});
        assert_eq!(failed(&[anthropic, results]), ["b"]);

        let item = |id: &str, name: &str| json!({"type": "function_call", "call_id": id, "name": name, "arguments": "{}"});
        let output = |id: &str, output: &str| json!({"type": "function_call_output", "call_id": id, "output": output});
        let items = [
            item("1", "a"),
            output("1", "error: x"),
            item("2", "b"),
            output("2", "3"),
        ];
        assert_eq!(failed(&items), ["a"]);

        let gemini = json!({"role": "model", "parts": [
            {"functionCall": {"name": "a", "args": {}}}, {"functionCall": {"name": "b", "args": {}}},
        ]});
        let responses = json!({"role": "user", "parts": [
            {"functionResponse": {"name": "a", "response": {"output": 1}}},
            {"functionResponse": {"name": "b", "response": {"error": "late"}}},
        ]});
        assert_eq!(failed(&[gemini, responses]), ["b"]);

        let ollama = json!({"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "a"}}, {"function": {"name": "b"}},
        ]});
        let named = |name: &str, content: &str| json!({"role": "tool", "tool_name": name, "content": content});
        assert_eq!(
            failed(&[ollama, named("b", "Error: x"), named("a", "1")]),
            ["b"]
        );
    }

    #[test]
    fn tool_that_succeeds_later_has_not_failed() {
        let call = |id: &str, name: &str| json!({"role": "assistant", "tool_calls": [{"id": id, "function": {"name": name}}]});
        let result = |id: &str, content: &str| json!({"role": "tool", "tool_call_id": id, "content": content});
        let found = failed(&[
            call("1", "a"),
            result("1", "Error: the city is missing"),
            call("2", "a"),
            result("2", "Sunny"),
            call("3", "b"),
            result("3", "Error: 1"),
            call("4", "b"),
            result("4", "Error: 2"),
        ]);
        assert_eq!(found, ["b"]);
    }
}
