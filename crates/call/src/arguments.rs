//! From text to JSON, strictly and bounded.

use std::fmt;

use serde_json::Value;

use picktools::json::Json;

/// The most text of one call's arguments that is read unless told otherwise, in bytes.
pub const MAX_ARGUMENT_BYTES: usize = 1 << 20;
/// The deepest that arguments may be nested, which is what the JSON parser allows of text.
const MAX_DEPTH: usize = 127;

/// Reads JSON text. A member that stands twice is an error, since nobody knows which was meant; so
/// are numbers beyond a double, `NaN` and lone surrogates.
pub fn parse(text: &str) -> Result<Value, String> {
    let Json { value, repeated } =
        serde_json::from_str(text).map_err(|error| in_plain_words(&error))?;
    match repeated.first() {
        Some(pointer) => Err(format!("the member {pointer:?} stands twice")),
        None => Ok(value),
    }
}

fn in_plain_words(error: &serde_json::Error) -> String {
    let message = error.to_string();
    if message.starts_with("recursion limit exceeded") {
        return format!("the text is nested deeper than {MAX_DEPTH} levels");
    }
    message
}

/// About the size of a value as JSON text, in bytes, or the first limit that it breaks. Walks
/// without recursion, as a value may be nested deeper than text is read.
pub(super) fn measure(value: &Value, most: usize) -> Result<usize, Limit> {
    let mut bytes = 0_usize;
    let mut values = vec![(value, 0)];
    while let Some((value, depth)) = values.pop() {
        if depth > MAX_DEPTH {
            return Err(Limit::Depth);
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
        if bytes > most {
            return Err(Limit::Bytes(bytes));
        }
    }
    Ok(bytes)
}

/// About the size of a value as JSON text, in bytes; `None` where it is larger than `most`, or
/// nested too deeply.
pub fn size(value: &Value, most: usize) -> Option<usize> {
    measure(value, most).ok()
}

/// What a value exceeds.
#[derive(Debug, PartialEq)]
pub(super) enum Limit {
    /// It is at least this many bytes of JSON.
    Bytes(usize),
    /// It is nested too deep.
    Depth,
}

impl fmt::Display for Limit {
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
    fn what_is_no_sound_json_is_told_with_its_place() {
        for (text, part) in [
            ("{\"a\": 1, \"a\": 2}", "the member \"/a\" stands twice"),
            ("{\"a\": {\"b\": 1, \"b\": 1}}", "\"/a/b\" stands twice"),
            ("{\"a\": 1e999}", "number out of range"),
            ("{\"a\": NaN}", "column 7"),
            ("{\"a\": \"\\ud800\"}", "hex escape"),
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
    fn size_and_depth_of_values_are_bounded() {
        assert!(matches!(
            measure(&json!({"a": "x".repeat(100)}), 50),
            Err(Limit::Bytes(100..120))
        ));
        let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(measure(&deep, 10_000), Err(Limit::Depth));
        assert!(measure(&json!({"a": [1, 2, {"b": null}]}), 100).is_ok());
    }

    proptest! {
        #[test]
        fn sound_json_stays_as_it_is(text in "[\\[\\]{}:,\"a0-9.eE\\\\ \\-]{0,40}") {
            if let Ok(value @ (Value::Object(_) | Value::Array(_))) = parse(&text) {
                prop_assert_eq!(crate::repair::repair(&text), Some((value, Vec::new())));
            }
        }
    }
}
