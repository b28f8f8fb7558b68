//! What a repairer changed.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use picktools::excerpt::marked;
use picktools::schema::pointer_part;

/// The most changes that a sentence tells.
const TOLD_CHANGES: usize = 5;
/// The most characters that are told of a value or a place.
const TOLD_CHARS: usize = 80;

/// A place of a call's arguments at which a repairer put something else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ArgumentChange {
    /// JSON pointer to it.
    pub pointer: String,
    /// What stood there; absent where nothing did. Arguments that could not be read are one string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// What stands there now; absent where nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

impl fmt::Display for ArgumentChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = |value: &Value| marked(&value.to_string(), TOLD_CHARS).into_owned();
        let place = if self.pointer.is_empty() {
            "the arguments".into()
        } else {
            marked(&self.pointer, TOLD_CHARS)
        };
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => write!(f, "{place} was {}, is {}", told(from), told(to)),
            (Some(from), None) => write!(f, "{place} was {}, is left out", told(from)),
            (None, to) => write!(
                f,
                "{place} is {}",
                told(to.as_ref().unwrap_or(&Value::Null))
            ),
        }
    }
}

/// Tells the first few changes.
pub(super) fn told(changes: &[ArgumentChange]) -> String {
    let first: Vec<String> = changes
        .iter()
        .take(TOLD_CHANGES)
        .map(ToString::to_string)
        .collect();
    match changes.len().saturating_sub(TOLD_CHANGES) {
        0 => first.join("; "),
        more => format!("{}; and {more} more", first.join("; ")),
    }
}

/// Returns the places at which `to` is not what `from` is, down to the smallest that hold the
/// difference.
pub(super) fn changes(from: &Value, to: &Value) -> Vec<ArgumentChange> {
    let mut found = Vec::new();
    compare(String::new(), Some(from), Some(to), &mut found);
    found
}

fn compare(
    pointer: String,
    from: Option<&Value>,
    to: Option<&Value>,
    found: &mut Vec<ArgumentChange>,
) {
    match (from, to) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let added = after.keys().filter(|key| !before.contains_key(*key));
            for key in before.keys().chain(added) {
                compare(
                    format!("{pointer}/{}", pointer_part(key)),
                    before.get(key),
                    after.get(key),
                    found,
                );
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) if before.len() == after.len() => {
            for (place, (before, after)) in before.iter().zip(after).enumerate() {
                compare(
                    format!("{pointer}/{place}"),
                    Some(before),
                    Some(after),
                    found,
                );
            }
        }
        (before, after) if before == after => {}
        (before, after) => {
            found.push(ArgumentChange {
                pointer,
                from: before.cloned(),
                to: after.cloned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_told_at_the_smallest_place_that_holds_them() {
        let from = json!({"a": {"b": [1, 2], "c": "x"}, "d/e": 1, "f": null, "same": [1]});
        let to = json!({"a": {"b": [1, 3], "c": ["x"]}, "f": null, "g": true, "same": [1]});
        let told: Vec<String> = changes(&from, &to)
            .iter()
            .map(ToString::to_string)
            .collect();
        let expected = [
            "/a/b/1 was 2, is 3",
            "/a/c was \"x\", is [\"x\"]",
            "/d~1e was 1, is left out",
            "/g is true",
        ];
        assert_eq!(told, expected);
        assert_eq!(changes(&from, &from), []);
        let text = json!("{\"a\": ");
        assert_eq!(
            super::told(&changes(&text, &json!({}))),
            "the arguments was \"{\\\"a\\\": \", is {}"
        );
    }

    #[test]
    fn a_sentence_tells_the_first_few_changes_without_hidden_characters() {
        let to: Value = (0..9)
            .map(|n| (format!("k{n}\u{202e}"), json!("\u{200b}".repeat(500))))
            .collect();
        let told = super::told(&changes(&json!({}), &to));
        assert!(
            told.starts_with("/k0\u{fffd} is \"\u{fffd}") && told.ends_with("; and 4 more"),
            "{told}"
        );
        assert!(
            told.chars().count() < 600 && !told.contains('\u{202e}'),
            "{told}"
        );
    }
}
