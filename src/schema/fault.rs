//! Faults in the arguments of a call.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::excerpt::cut;

/// A value in a call's arguments that does not match the tool's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ArgumentFault {
    /// JSON pointer into the arguments; empty for the arguments as a whole.
    pub pointer: String,
    /// The keyword of the schema that failed, such as `type` or `required`.
    pub keyword: String,
    /// The value that the schema expects, in words.
    pub expected: String,
    /// The value that was received, as JSON, shortened.
    pub received: String,
    /// The faults of each alternative, if the value matches none of `anyOf` or `oneOf`.
    #[serde(skip)]
    pub alternatives: Vec<Vec<Self>>,
}

impl ArgumentFault {
    /// Makes a fault. `received` is shortened.
    pub fn new(
        pointer: impl Into<String>,
        keyword: impl Into<String>,
        expected: impl Into<String>,
        received: &Value,
    ) -> Self {
        let (pointer, keyword, expected) = (pointer.into(), keyword.into(), expected.into());
        fault(pointer, &keyword, expected, received)
    }

    /// Returns the missing member, such as `city` or `/address/city`, if the fault is that a
    /// required member is missing.
    pub fn missing(&self) -> Option<String> {
        let name = self
            .expected
            .strip_prefix("the member ")?
            .strip_suffix(", which is required")?;
        let name: String = serde_json::from_str(name).ok()?;
        Some(if self.pointer.is_empty() {
            name
        } else {
            format!("{}/{name}", self.pointer)
        })
    }
}

impl fmt::Display for ArgumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = location(&self.pointer);
        write!(
            f,
            "{location}: expected {}, received {}",
            self.expected, self.received
        )
    }
}

/// Names a JSON pointer into arguments for a message.
pub fn location(pointer: &str) -> &str {
    match pointer {
        "" => "the arguments",
        _ => pointer,
    }
}

pub(super) fn fault(
    pointer: String,
    keyword: &str,
    expected: String,
    received: &Value,
) -> ArgumentFault {
    ArgumentFault {
        pointer,
        keyword: keyword.to_owned(),
        expected,
        received: shorten(&received.to_string()),
        alternatives: Vec::new(),
    }
}

/// A reason for which a schema is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemaFault {
    /// JSON pointer into the schema.
    pub(crate) pointer: String,
    pub(crate) message: String,
    pub(crate) remedy: &'static str,
}

/// A place in a schema that is not checked as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemaSlip {
    /// JSON pointer into the schema.
    pub(crate) pointer: String,
    pub(crate) message: String,
}

/// Shortens a message, because it may quote a long input.
pub(super) fn shorten(message: &str) -> String {
    cut(message, 300).into_owned()
}
