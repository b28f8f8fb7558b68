//! The calls in a provider's whole answer.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Provider;
use crate::error::ResponseError;
use crate::excerpt::cut;
use crate::schema::kind;

/// The most bytes of arguments in all calls of an answer together.
pub const MAX_ANSWER_ARGUMENT_BYTES: usize = 4 << 20;

/// The most calls in an answer.
pub const MAX_CALLS: usize = 1_024;

/// A call as a model asked for it: nothing in it is checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// What the result must be returned under, where the provider gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name that the model called, which is an advertised one if it is honest.
    pub name: String,
    /// The arguments.
    pub arguments: Arguments,
}

/// The arguments of a call, as the provider gives them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Arguments {
    /// Text that should be JSON.
    Text(String),
    /// JSON.
    Json(Value),
}

// A string is always text: where arguments are read, nobody passes a JSON string as such.
impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::String(text) => Self::Text(text),
            value => Self::Json(value),
        })
    }
}

impl Provider {
    /// Returns the calls in a whole answer, in its order; for MCP, the call of a `tools/call` request.
    ///
    /// An answer without calls has none, which is no error. Of several choices the first counts.
    ///
    /// # Errors
    ///
    /// [`ResponseError`] for an answer that reports an error, is of another shape, or is too large.
    pub fn calls(self, response: &Value) -> Result<Vec<ToolCall>, ResponseError> {
        let mut calls = Calls::new(self);
        let answer = At::new(self, response);
        answer.refuse_errors()?;
        match self {
            Self::OpenAiChat => {
                if let Some(choice) = answer.need("choices")?.list()?.first() {
                    let message = choice.need_object("message")?;
                    for call in message.list_of("tool_calls")? {
                        calls.add_openai_call(&call)?;
                    }
                }
            }
            Self::OpenAiResponses => {
                for item in answer.need("output")?.list()? {
                    if item.object()?.text_of("type")? == Some("function_call") {
                        calls.add(function_call_item(&item)?)?;
                    }
                }
            }
            Self::Anthropic => {
                for block in answer.need("content")?.list()? {
                    if block.object()?.text_of("type")? == Some("tool_use") {
                        calls.add(tool_use(&block)?)?;
                    }
                }
            }
            Self::Gemini => calls.add_gemini(&answer, true)?,
            Self::Ollama => calls.add_ollama(&answer.need("message")?)?,
            Self::Mcp => {
                let method = answer.need("method")?;
                if method.text()? != "tools/call" {
                    return Err(method.not("\"tools/call\""));
                }
                calls.add(mcp_call(&answer)?)?;
            }
        }
        Ok(calls.finish())
    }
}

/// The calls of an answer as far as it is read, within the limits.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) provider: Provider,
    calls: Vec<ToolCall>,
    bytes: usize,
}

impl Calls {
    pub(super) fn new(provider: Provider) -> Self {
        Self { provider, calls: Vec::new(), bytes: 0 }
    }

    pub(super) fn add(&mut self, call: ToolCall) -> Result<(), ResponseError> {
        if self.calls.len() >= MAX_CALLS {
            return Err(too_many());
        }
        let rest = MAX_ANSWER_ARGUMENT_BYTES - self.bytes;
        let size = match &call.arguments {
            Arguments::Text(text) => text.len(),
            Arguments::Json(value) => size_of(value),
        };
        if size > rest {
            return Err(too_long());
        }
        self.bytes += size;
        self.calls.push(call);
        Ok(())
    }

    pub(super) fn finish(self) -> Vec<ToolCall> {
        self.calls
    }

    fn add_openai_call(&mut self, call: &At<'_>) -> Result<(), ResponseError> {
        // Besides functions there are custom tools, whose input is free text.
        if call.object()?.text_of("type")?.is_some_and(|kind| kind != "function") {
            return Ok(());
        }
        let function = call.need_object("function")?;
        self.add(ToolCall {
            id: call.text_of("id")?.map(str::to_owned),
            name: function.need("name")?.text()?.to_owned(),
            arguments: function.arguments("arguments"),
        })
    }

    /// Adds the calls of a whole answer, or of a chunk, which may have no candidates.
    pub(super) fn add_gemini(&mut self, answer: &At<'_>, whole: bool) -> Result<(), ResponseError> {
        if !whole && answer.get("candidates").is_none() {
            return Ok(());
        }
        let candidates = answer.need("candidates")?.list()?;
        let Some(candidate) = candidates.first() else { return Ok(()) };
        let Some(content) = candidate.object()?.get("content") else { return Ok(()) };
        for part in content.object()?.list_of("parts")? {
            let Some(call) = part.object()?.get("functionCall") else { continue };
            self.add(ToolCall {
                id: call.object()?.text_of("id")?.map(str::to_owned),
                name: call.need("name")?.text()?.to_owned(),
                arguments: call.arguments("args"),
            })?;
        }
        Ok(())
    }

    pub(super) fn add_ollama(&mut self, message: &At<'_>) -> Result<(), ResponseError> {
        for call in message.object()?.list_of("tool_calls")? {
            let function = call.need_object("function")?;
            self.add(ToolCall {
                id: call.text_of("id")?.map(str::to_owned),
                name: function.need("name")?.text()?.to_owned(),
                arguments: function.arguments("arguments"),
            })?;
        }
        Ok(())
    }
}

pub(super) fn too_many() -> ResponseError {
    ResponseError::TooLarge { what: "calls", limit: MAX_CALLS }
}

pub(super) fn too_long() -> ResponseError {
    ResponseError::TooLarge { what: "bytes of arguments", limit: MAX_ANSWER_ARGUMENT_BYTES }
}

/// An item of a Responses answer.
pub(super) fn function_call_item(item: &At<'_>) -> Result<ToolCall, ResponseError> {
    Ok(ToolCall {
        id: item.text_of("call_id")?.or(item.text_of("id")?).map(str::to_owned),
        name: item.need("name")?.text()?.to_owned(),
        arguments: item.arguments("arguments"),
    })
}

/// A block of an Anthropic answer.
pub(super) fn tool_use(block: &At<'_>) -> Result<ToolCall, ResponseError> {
    Ok(ToolCall {
        id: block.text_of("id")?.map(str::to_owned),
        name: block.need("name")?.text()?.to_owned(),
        arguments: block.arguments("input"),
    })
}

/// A JSON-RPC request.
pub(super) fn mcp_call(request: &At<'_>) -> Result<ToolCall, ResponseError> {
    let params = request.need_object("params")?;
    let id = match request.get("id").map(|id| id.value) {
        Some(Value::String(id)) => Some(id.clone()),
        Some(Value::Number(id)) => Some(id.to_string()),
        _ => None,
    };
    let name = params.need("name")?.text()?.to_owned();
    Ok(ToolCall { id, name, arguments: params.arguments("arguments") })
}

/// The bytes of a value as compact JSON.
fn size_of(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

/// A value of an answer, and where it stands.
#[derive(Debug)]
pub(super) struct At<'v> {
    provider: Provider,
    pointer: String,
    pub(super) value: &'v Value,
}

impl<'v> At<'v> {
    pub(super) fn new(provider: Provider, value: &'v Value) -> Self {
        Self { provider, pointer: String::new(), value }
    }

    /// The error that something else was expected here.
    pub(super) fn not(&self, expected: &'static str) -> ResponseError {
        ResponseError::Shape {
            provider: self.provider.name(),
            pointer: self.pointer.clone(),
            found: kind(self.value),
            expected,
        }
    }

    /// A member that is there and not null.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(Self { provider: self.provider, pointer: format!("{}/{key}", self.pointer), value })
    }

    pub(super) fn need(&self, key: &str) -> Result<Self, ResponseError> {
        let missing = Self { provider: self.provider, pointer: format!("{}/{key}", self.pointer), value: &Value::Null };
        self.object()?.get(key).ok_or_else(|| missing.not("a value"))
    }

    fn need_object(&self, key: &str) -> Result<Self, ResponseError> {
        let member = self.need(key)?;
        member.object()?;
        Ok(member)
    }

    pub(super) fn object(&self) -> Result<&Self, ResponseError> {
        if self.value.is_object() { Ok(self) } else { Err(self.not("an object")) }
    }

    pub(super) fn text(&self) -> Result<&'v str, ResponseError> {
        self.value.as_str().ok_or_else(|| self.not("a string"))
    }

    pub(super) fn text_of(&self, key: &str) -> Result<Option<&'v str>, ResponseError> {
        self.get(key).map(|member| member.text()).transpose()
    }

    pub(super) fn list(&self) -> Result<Vec<Self>, ResponseError> {
        let items = self.value.as_array().ok_or_else(|| self.not("an array"))?;
        let item =
            |(index, value)| Self { provider: self.provider, pointer: format!("{}/{index}", self.pointer), value };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// A list that may not be there.
    pub(super) fn list_of(&self, key: &str) -> Result<Vec<Self>, ResponseError> {
        self.get(key).map_or(Ok(Vec::new()), |list| list.list())
    }

    /// Arguments, which are none where nothing stands.
    fn arguments(&self, key: &str) -> Arguments {
        match self.value.get(key) {
            Some(Value::String(text)) => Arguments::Text(text.clone()),
            None | Some(Value::Null) => Arguments::Json(Value::Object(Map::new())),
            Some(value) => Arguments::Json(value.clone()),
        }
    }

    /// Refuses an answer that says that there is none.
    pub(super) fn refuse_errors(&self) -> Result<(), ResponseError> {
        self.object()?;
        let error = self.get("error").or_else(|| self.get("response")?.get("error"));
        if let Some(error) = error {
            let message = error.value.get("message").unwrap_or(error.value);
            return Err(self.refused(message.as_str().map_or_else(|| message.to_string(), str::to_owned)));
        }
        if self.provider == Provider::Gemini {
            let blocked = self.get("promptFeedback").and_then(|feedback| feedback.get("blockReason"));
            let reason = self.value.pointer("/candidates/0/finishReason");
            let malformed = reason.filter(|reason| *reason == "MALFORMED_FUNCTION_CALL");
            if let Some(reason) = blocked.map(|reason| reason.value).or(malformed) {
                return Err(self.refused(reason.as_str().unwrap_or("blocked").to_owned()));
            }
        }
        Ok(())
    }

    pub(super) fn refused(&self, message: String) -> ResponseError {
        ResponseError::Refused { provider: self.provider.name(), message: cut(&message, 300).into_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(id: Option<&str>, arguments: Arguments) -> ToolCall {
        ToolCall { id: id.map(str::to_owned), name: "get_weather".into(), arguments }
    }

    /// An answer of each provider with one call, and the call.
    fn answers() -> Vec<(Provider, Value, ToolCall)> {
        let text = || Arguments::Text("{\"city\": \"Oslo\"}".into());
        let value = || Arguments::Json(json!({"city": "Oslo"}));
        vec![
            (
                Provider::OpenAiChat,
                json!({"choices": [{"message": {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}},
                    {"id": "c2", "type": "custom", "custom": {"name": "x", "input": "y"}}]}}]}),
                call(Some("c1"), text()),
            ),
            (
                Provider::OpenAiResponses,
                json!({"error": null, "output": [{"type": "reasoning"}, {"type": "function_call", "id": "fc_1",
                    "call_id": "c1", "name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}]}),
                call(Some("c1"), text()),
            ),
            (
                Provider::Anthropic,
                json!({"type": "message", "content": [{"type": "text", "text": "Let me see."},
                    {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Oslo"}}]}),
                call(Some("t1"), value()),
            ),
            (
                Provider::Gemini,
                json!({"candidates": [{"content": {"parts": [{"text": "Hm."},
                    {"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}}]}}]}),
                call(None, value()),
            ),
            (
                Provider::Ollama,
                json!({"message": {"role": "assistant", "content": "", "tool_calls": [
                    {"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}]}, "done": true}),
                call(None, value()),
            ),
            (
                Provider::Mcp,
                json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
                    "params": {"name": "get_weather", "arguments": {"city": "Oslo"}}}),
                call(Some("7"), value()),
            ),
        ]
    }

    #[test]
    fn every_provider_s_calls_are_read() {
        for (provider, answer, expected) in answers() {
            assert_eq!(provider.calls(&answer), Ok(vec![expected]), "{provider}");
        }
    }

    #[test]
    fn an_answer_without_calls_has_none() {
        for (provider, answer) in [
            (Provider::OpenAiChat, json!({"choices": [{"message": {"content": "No.", "tool_calls": null}}]})),
            (Provider::OpenAiResponses, json!({"output": []})),
            (Provider::Anthropic, json!({"content": [{"type": "text", "text": "No."}]})),
            (Provider::Gemini, json!({"candidates": [{"finishReason": "STOP"}]})),
            (Provider::Ollama, json!({"message": {"content": "No."}})),
        ] {
            assert_eq!(provider.calls(&answer), Ok(vec![]), "{provider}");
        }
    }

    #[test]
    fn what_is_no_answer_is_told_with_its_place() {
        let told = |provider: Provider, answer: Value| provider.calls(&answer).expect_err("it is none").to_string();
        assert!(
            told(Provider::OpenAiChat, json!({"error": {"message": "slow down"}})).ends_with("an error: slow down")
        );
        assert!(told(Provider::Ollama, json!({"error": "no such model"})).contains("no such model"));
        assert!(told(Provider::Anthropic, json!({"type": "error", "error": {"message": "x"}})).contains("error: x"));
        assert!(told(Provider::Gemini, json!({"promptFeedback": {"blockReason": "SAFETY"}})).contains("SAFETY"));
        let wrong = json!({"choices": [{"message": {"tool_calls": [{"function": {"name": 5}}]}}]});
        assert_eq!(
            told(Provider::OpenAiChat, wrong),
            "the answer is none of openai: /choices/0/message/tool_calls/0/function/name is a number, expected a string"
        );
        assert!(
            told(Provider::Mcp, json!({"method": "tools/list"}))
                .contains("/method is a string, expected \"tools/call\"")
        );
        for provider in Provider::ALL {
            for answer in [
                json!(null),
                json!([]),
                json!({}),
                json!("x"),
                json!({"choices": {}, "output": 1, "content": 1,
                "candidates": 1, "message": 1, "method": 1}),
            ] {
                assert!(matches!(provider.calls(&answer), Err(ResponseError::Shape { .. })), "{provider} {answer}");
            }
        }
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let block = |input: Value| json!({"type": "tool_use", "name": "x", "input": input});
        let many = json!({"content": vec![block(json!({})); MAX_CALLS + 1]});
        assert!(matches!(Provider::Anthropic.calls(&many), Err(ResponseError::TooLarge { what: "calls", .. })));
        let long = json!({"content": [block(json!("x".repeat(MAX_ANSWER_ARGUMENT_BYTES))), block(json!({}))]});
        let error = Provider::Anthropic.calls(&long).expect_err("it is too long");
        assert!(matches!(error, ResponseError::TooLarge { what: "bytes of arguments", .. }), "{error}");
    }

    #[test]
    fn a_call_is_written_and_read_alike() {
        for arguments in [Arguments::Text("{}".into()), Arguments::Json(json!({"a": 1}))] {
            let call = call(None, arguments);
            let text = serde_json::to_string(&call).expect("it can be written");
            assert_eq!(serde_json::from_str::<ToolCall>(&text).expect("it can be read"), call);
        }
    }
}
