//! Tool calls of a model, and the limits for an answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ResponseError;

/// The largest total size of the arguments in one answer, in bytes.
pub const MAX_ANSWER_ARGUMENT_BYTES: usize = 4 << 20;

/// The largest number of calls in one answer.
pub const MAX_CALLS: usize = 1_024;

/// A tool call of a model, not validated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's id, under which the result must be returned, if the provider gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The called name; a well-behaved model uses an advertised name.
    pub name: String,
    /// The arguments.
    pub arguments: Arguments,
}

/// The arguments of a call, in the form of the provider.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Arguments {
    /// Text that should contain JSON.
    Text(String),
    /// A JSON value.
    Json(Value),
}

// A string is always text, because arguments that are a JSON string do not occur.
impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::String(text) => Self::Text(text),
            value => Self::Json(value),
        })
    }
}

/// Collector for the calls of an answer, within the limits.
#[derive(Debug, Default)]
pub(super) struct CallCollector {
    calls: Vec<ToolCall>,
    bytes: usize,
}

impl CallCollector {
    pub(super) fn add(&mut self, call: ToolCall) -> Result<(), ResponseError> {
        if self.calls.len() >= MAX_CALLS {
            return Err(too_many_calls());
        }
        let remaining = MAX_ANSWER_ARGUMENT_BYTES - self.bytes;
        let size = match &call.arguments {
            Arguments::Text(text) => text.len(),
            Arguments::Json(value) => json_size(value),
        };
        if size > remaining {
            return Err(too_many_bytes());
        }
        self.bytes += size;
        self.calls.push(call);
        Ok(())
    }

    pub(super) fn finish(self) -> Vec<ToolCall> {
        self.calls
    }
}

pub(super) fn too_many_calls() -> ResponseError {
    ResponseError::TooLarge {
        what: "calls",
        limit: MAX_CALLS,
    }
}

pub(super) fn too_many_bytes() -> ResponseError {
    ResponseError::TooLarge {
        what: "bytes of arguments",
        limit: MAX_ANSWER_ARGUMENT_BYTES,
    }
}

/// Returns the size of a value as compact JSON, in bytes.
pub(super) fn json_size(value: &Value) -> usize {
    struct ByteCounter(usize);
    impl std::io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = ByteCounter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tool_call_survives_a_round_trip() {
        for arguments in [
            Arguments::Text("{}".into()),
            Arguments::Json(json!({"a": 1})),
        ] {
            let call = ToolCall {
                id: None,
                name: "get_weather".into(),
                arguments,
            };
            let text = serde_json::to_string(&call).expect("it can be written");
            assert_eq!(
                serde_json::from_str::<ToolCall>(&text).expect("it can be read"),
                call
            );
        }
    }
}
