//! Deserialisation of valid arguments to a Rust type.

use picktools::schema::pointer_part;
use serde::de::DeserializeOwned;
use serde_json::{Number, Value};
use serde_path_to_error::{Path, Segment};

/// A difference between valid arguments and a Rust type.
pub(crate) struct TypeFault {
    /// JSON pointer to the value that differs; empty for the arguments as a whole.
    pub(crate) pointer: String,
    /// The error of the deserialiser.
    pub(crate) reason: String,
}

/// Deserialises arguments. A number such as `3.0` counts as an integer, as in JSON Schema, if the
/// type accepts no fraction.
pub(crate) fn deserialise<T: DeserializeOwned>(arguments: &Value) -> Result<T, TypeFault> {
    serde_path_to_error::deserialize(arguments).or_else(|error| {
        let mut whole = arguments.clone();
        let changed = write_whole_numbers_as_integers(&mut whole);
        let retried = changed.then(|| T::deserialize(whole).ok()).flatten();
        retried.ok_or_else(|| TypeFault {
            pointer: pointer(error.path()),
            reason: error.inner().to_string(),
        })
    })
}

/// Changes numbers such as `3.0` to integers. Returns `true` if there are any.
fn write_whole_numbers_as_integers(value: &mut Value) -> bool {
    let mut changed = false;
    match value {
        Value::Number(number) => {
            if let Some(whole) = whole_number(number) {
                *number = whole;
                changed = true;
            }
        }
        Value::Array(items) => {
            for item in items {
                changed |= write_whole_numbers_as_integers(item);
            }
        }
        Value::Object(members) => {
            for member in members.values_mut() {
                changed |= write_whole_numbers_as_integers(member);
            }
        }
        _ => {}
    }
    changed
}

/// Returns the integer that a floating-point number equals, if it keeps all digits.
fn whole_number(number: &Number) -> Option<Number> {
    /// The largest integer up to which a double keeps all integers.
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|_| number.is_f64())?;
    if float.fract().abs() > 0.0 || float.abs() > MAX_EXACT {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the number is a small integer"
    )]
    let integer = float as i64;
    Some(integer.into())
}

/// Returns the JSON pointer of a path. It ends at the first part that the deserialiser does not
/// know, such as in an untagged enumeration.
fn pointer(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key: name } | Segment::Enum { variant: name } => {
                pointer.push_str(&format!("/{}", pointer_part(name)));
            }
            Segment::Unknown => break,
        }
    }
    pointer
}
