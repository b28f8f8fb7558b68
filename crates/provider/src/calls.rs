//! The calls of a model, within limits.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ResponseError;

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

/// The calls of an answer as far as it is read, within the limits.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<ToolCall>,
    bytes: usize,
}

impl Calls {
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
}

pub(super) fn too_many() -> ResponseError {
    ResponseError::TooLarge {
        what: "calls",
        limit: MAX_CALLS,
    }
}

pub(super) fn too_long() -> ResponseError {
    ResponseError::TooLarge {
        what: "bytes of arguments",
        limit: MAX_ANSWER_ARGUMENT_BYTES,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_call_is_written_and_read_alike() {
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
