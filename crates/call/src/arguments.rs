//! Strict and bounded parsing of JSON arguments.

use std::fmt;

use serde_json::Value;

use picktools::json::{Json, first_long_number, long_number_fault};

/// The default limit for the text of one call's arguments, in bytes.
pub const MAX_ARGUMENT_BYTES: usize = 1 << 20;
/// The deepest nesting of arguments, which equals the limit of the JSON parser.
const MAX_DEPTH: usize = 127;

/// Parses JSON text.
///
/// Duplicate keys, numbers beyond the range of a double or with more digits than 64 bits keep, `NaN`
/// and lone surrogates are errors.
pub fn parse(text: &str) -> Result<Value, String> {
    let Json { value, repeated } =
        serde_json::from_str(text).map_err(|error| error_message(&error))?;
    if let Some(pointer) = repeated.first() {
        return Err(format!("duplicate key {pointer:?}"));
    }
    match first_long_number(text) {
        Some(number) => Err(long_number_fault(number)),
        None => Ok(value),
    }
}

fn error_message(error: &serde_json::Error) -> String {
    let message = error.to_string();
    if message.starts_with("recursion limit exceeded") {
        return format!("the text is nested deeper than {MAX_DEPTH} levels");
    }
    message
}

/// Measures the approximate size of a value as JSON text, in bytes, or returns the first limit that
/// it exceeds.
///
/// The walk is iterative, because a value may be nested deeper than the parser allows.
pub(super) fn measure(value: &Value, max_bytes: usize) -> Result<usize, ExceededLimit> {
    let mut bytes = 0_usize;
    let mut values = vec![(value, 0)];
    while let Some((value, depth)) = values.pop() {
        if depth > MAX_DEPTH {
            return Err(ExceededLimit::Depth);
        }
        bytes += match value {
            Value::String(text) => text.len() + 2,
            Value::Number(_) | Value::Bool(_) | Value::Null => 4,
            Value::Array(items) => {
                values.extend(items.iter().map(|item| (item, depth + 1)));
                items.len() + 2
            }
            Value::Object(members) => {
                values.extend(members.values().map(|member| (member, depth + 1)));
                members.keys().map(|key| key.len() + 4).sum::<usize>() + 2
            }
        };
        if bytes > max_bytes {
            return Err(ExceededLimit::Bytes(bytes));
        }
    }
    Ok(bytes)
}

/// Returns the approximate size of a value as JSON text, in bytes; `None` if the value exceeds
/// `max_bytes` or is nested too deeply.
pub fn size(value: &Value, max_bytes: usize) -> Option<usize> {
    measure(value, max_bytes).ok()
}

/// The limit that a value exceeds.
#[derive(Debug, PartialEq)]
pub(super) enum ExceededLimit {
    /// The value has at least this many bytes of JSON.
    Bytes(usize),
    /// The value is nested too deeply.
    Depth,
}

impl fmt::Display for ExceededLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "they are more than {bytes} bytes"),
            Self::Depth => write!(f, "they are nested deeper than {MAX_DEPTH} levels"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn parse_invalid_json_names_the_position() {
        for (text, part) in [
            ("{\"a\": 1, \"a\": 2}", "duplicate key \"/a\""),
            ("{\"a\": {\"b\": 1, \"b\": 1}}", "duplicate key \"/a/b\""),
            ("{\"a\": 1e999}", "number out of range"),
            ("{\"a\": NaN}", "column 7"),
            ("{\"a\": \"\\ud800\"}", "hex escape"),
            (
                "{\"a\": 1000000000000000000000000000001}",
                "1000000000000000000000000000001 has more digits",
            ),
            ("{\"a\": [0.100000000000000000000000000001]}", "a string"),
            ("{\"a\": 1} and more", "trailing characters"),
            ("{\"a\": ", "EOF"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        assert!(
            parse(&deep)
                .expect_err("it is too deep")
                .contains("nested deeper than 127 levels")
        );
    }

    #[test]
    fn measure_large_or_deep_values_fails() {
        assert!(matches!(
            measure(&json!({"a": "x".repeat(100)}), 50),
            Err(ExceededLimit::Bytes(100..120))
        ));
        let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(measure(&deep, 10_000), Err(ExceededLimit::Depth));
        assert!(measure(&json!({"a": [1, 2, {"b": null}]}), 100).is_ok());
    }

    proptest! {
        #[test]
        fn repair_keeps_valid_json(text in "[\\[\\]{}:,\"a0-9.eE\\\\ \\-]{0,40}") {
            if let Ok(value @ (Value::Object(_) | Value::Array(_))) = parse(&text) {
                prop_assert_eq!(crate::repair::repair(&text), Some((value, Vec::new())));
            }
        }
    }
}
