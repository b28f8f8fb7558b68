//! Differences between the arguments of a model and those of a repairer.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use picktools::excerpt::marked;
use picktools::schema::pointer_part;

/// The largest number of changes in a summary.
const MAX_LISTED_CHANGES: usize = 5;
/// The longest excerpt of a value or a pointer, in characters.
const MAX_EXCERPT_CHARS: usize = 80;

/// One value that a repairer changed in the arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ArgumentChange {
    /// JSON pointer to the value.
    pub pointer: String,
    /// The value before the repair; `None` if it was absent. Unreadable arguments are one string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// The value after the repair; `None` if it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

impl fmt::Display for ArgumentChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let excerpt = |value: &Value| marked(&value.to_string(), MAX_EXCERPT_CHARS).into_owned();
        let name = if self.pointer.is_empty() {
            "the arguments".into()
        } else {
            marked(&self.pointer, MAX_EXCERPT_CHARS)
        };
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => {
                write!(
                    f,
                    "{name} changed from {} to {}",
                    excerpt(from),
                    excerpt(to)
                )
            }
            (Some(from), None) => write!(f, "{name} removed (was {})", excerpt(from)),
            (None, to) => {
                let value = to.as_ref().unwrap_or(&Value::Null);
                write!(f, "{name} added: {}", excerpt(value))
            }
        }
    }
}

/// Lists the first few changes in one line.
pub(super) fn summarize(changes: &[ArgumentChange]) -> String {
    let first: Vec<String> = changes
        .iter()
        .take(MAX_LISTED_CHANGES)
        .map(ToString::to_string)
        .collect();
    match changes.len().saturating_sub(MAX_LISTED_CHANGES) {
        0 => first.join("; "),
        more => format!("{}; and {more} more", first.join("; ")),
    }
}

/// Compares two values and returns the smallest parts in which they differ.
pub(super) fn compare(from: &Value, to: &Value) -> Vec<ArgumentChange> {
    let mut changes = Vec::new();
    collect(String::new(), Some(from), Some(to), &mut changes);
    changes
}

fn collect(
    pointer: String,
    from: Option<&Value>,
    to: Option<&Value>,
    changes: &mut Vec<ArgumentChange>,
) {
    match (from, to) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let added = after.keys().filter(|key| !before.contains_key(*key));
            for key in before.keys().chain(added) {
                collect(
                    format!("{pointer}/{}", pointer_part(key)),
                    before.get(key),
                    after.get(key),
                    changes,
                );
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                collect(
                    format!("{pointer}/{index}"),
                    Some(before),
                    Some(after),
                    changes,
                );
            }
        }
        (before, after) if before == after => {}
        (before, after) => {
            changes.push(ArgumentChange {
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
    fn changes_name_the_smallest_differing_value() {
        let from = json!({"a": {"b": [1, 2], "c": "x"}, "d/e": 1, "f": null, "same": [1]});
        let to = json!({"a": {"b": [1, 3], "c": ["x"]}, "f": null, "g": true, "same": [1]});
        let lines: Vec<String> = compare(&from, &to)
            .iter()
            .map(ToString::to_string)
            .collect();
        let expected = [
            "/a/b/1 changed from 2 to 3",
            "/a/c changed from \"x\" to [\"x\"]",
            "/d~1e removed (was 1)",
            "/g added: true",
        ];
        assert_eq!(lines, expected);
        assert_eq!(compare(&from, &from), []);
        let text = json!("{\"a\": ");
        assert_eq!(
            summarize(&compare(&text, &json!({}))),
            "the arguments changed from \"{\\\"a\\\": \" to {}"
        );
    }

    #[test]
    fn summary_lists_few_changes_without_hidden_characters() {
        let to: Value = (0..9)
            .map(|n| (format!("k{n}\u{202e}"), json!("\u{200b}".repeat(500))))
            .collect();
        let summary = summarize(&compare(&json!({}), &to));
        assert!(
            summary.starts_with("/k0<U+202E> added: \"<U+200B>")
                && summary.ends_with("; and 4 more"),
            "{summary}"
        );
        assert!(
            summary.chars().count() < 600 && !summary.contains('\u{202e}'),
            "{summary}"
        );
    }
}
