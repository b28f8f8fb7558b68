//! Changes of a call's arguments, and the differences between those of a model and of a repairer.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use picktools::excerpt::marked;
use picktools::schema::pointer_part;

/// The largest number of changes in a summary.
const MAX_LISTED_CHANGES: usize = 5;
/// The longest excerpt of a value or a pointer, in characters.
const MAX_EXCERPT_CHARS: usize = 80;

/// One change of a call's arguments: a normalisation or a repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Repair {
    /// The text was nearly JSON.
    Syntax {
        /// The kinds of changes.
        changes: Vec<&'static str>,
    },
    /// A value was JSON text although the schema requires an object or an array.
    Decoded {
        /// JSON pointer to the value.
        pointer: String,
    },
    /// A value had another type, or other upper and lower case, than the schema requires, or was not
    /// in a list.
    Converted {
        /// JSON pointer to the value.
        pointer: String,
        /// The value of the model.
        from: Value,
        /// The value that the tool gets.
        to: Value,
    },
    /// The arguments were inside another value, which was removed.
    Unwrapped {
        /// JSON pointer to the arguments in the value of the model.
        pointer: String,
    },
    /// The name of a property differed in case or separators.
    Renamed {
        /// JSON pointer to the property of the model.
        pointer: String,
        /// The name in the schema.
        to: String,
    },
    /// An optional property was null.
    Removed {
        /// JSON pointer to the property.
        pointer: String,
    },
    /// A [`Repairer`](crate::Repairer) rewrote the arguments.
    Rewritten {
        /// The name of the repairer.
        by: String,
        /// The differences from the arguments of the model.
        changes: Vec<ArgumentChange>,
    },
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { changes } => write!(f, "repaired: {}", changes.join(", ")),
            Self::Decoded { pointer } if pointer.is_empty() => {
                f.write_str("repaired: the arguments were decoded from JSON text")
            }
            Self::Decoded { pointer } => {
                write!(f, "repaired: {pointer} was decoded from JSON text")
            }
            Self::Unwrapped { pointer } => {
                let pointer = marked(pointer, 100);
                write!(f, "repaired: the arguments were taken out of {pointer}")
            }
            Self::Renamed { pointer, to } => {
                let (pointer, to) = (marked(pointer, 100), marked(to, 100));
                write!(f, "repaired: {pointer:?} was renamed to {to:?}")
            }
            Self::Removed { pointer } => {
                let pointer = marked(pointer, 100);
                write!(
                    f,
                    "repaired: {pointer} was removed, as it was null and is optional"
                )
            }
            Self::Converted { pointer, from, to } => {
                let shown = |value: &Value| marked(&value.to_string(), 100).into_owned();
                let (from, to) = (shown(from), shown(to));
                let place = if pointer.is_empty() {
                    "the arguments"
                } else {
                    pointer
                };
                write!(f, "repaired: {place}: {from} became {to}")
            }
            Self::Rewritten { by, changes } => {
                write!(f, "rewritten by {by}: {}", summarize(changes))
            }
        }
    }
}

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
