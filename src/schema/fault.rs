//! Faults of a call's arguments.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::shorten;

/// One thing in a call's arguments that does not fit the tool's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ArgumentFault {
    /// JSON pointer into the arguments; empty for all of them.
    pub pointer: String,
    /// The schema's keyword that is not met, such as `type` or `required`.
    pub keyword: String,
    /// What the schema expects there.
    pub expected: String,
    /// What stands there, as JSON, shortened.
    pub received: String,
}

impl ArgumentFault {
    /// Makes one; `received` is shortened.
    pub fn new(
        pointer: impl Into<String>,
        keyword: impl Into<String>,
        expected: impl Into<String>,
        received: &Value,
    ) -> Self {
        let (pointer, keyword, expected) = (pointer.into(), keyword.into(), expected.into());
        fault(pointer, &keyword, expected, received)
    }

    /// Returns the missing member if that is the fault: `city`, `/address/city`.
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
        let place = if self.pointer.is_empty() {
            "the arguments"
        } else {
            &self.pointer
        };
        write!(
            f,
            "{place}: expected {}, received {}",
            self.expected, self.received
        )
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
    }
}
