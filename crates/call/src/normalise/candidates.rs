//! The values that a value of another type or spelling may mean.

use picktools::json::is_long_number;
use serde_json::{Map, Value};

use crate::arguments;

/// The largest number of levels of JSON text inside JSON text.
const MAX_TEXT_LEVELS: usize = 4;

/// Returns the object or array that JSON text contains, if a schema of the value allows its type.
pub(super) fn decoded_structure(value: &Value, schemas: &[&Map<String, Value>]) -> Option<Value> {
    let mut text = value.as_str()?.to_owned();
    for _ in 0..MAX_TEXT_LEVELS {
        match arguments::parse(&text).ok()? {
            Value::String(inner) => text = inner,
            structure @ Value::Object(_) if allow(schemas, "object") => return Some(structure),
            structure @ Value::Array(_) if allow(schemas, "array") => return Some(structure),
            _ => return None,
        }
    }
    None
}

/// Returns `true` if a schema allows values of a type.
fn allow(schemas: &[&Map<String, Value>], kind: &str) -> bool {
    schemas.iter().any(|schema| match schema.get("type") {
        Some(Value::String(only)) => only == kind,
        Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
        _ => match kind {
            "object" => schema.contains_key("properties"),
            "array" => schema.contains_key("items"),
            _ => false,
        },
    })
}

/// Returns the values that a value of another type or spelling may mean. `items` are the schemas of
/// its items, if it may be a list.
pub(super) fn candidates(
    value: &Value,
    schemas: &[&Map<String, Value>],
    items: &[&Map<String, Value>],
) -> Vec<Value> {
    let mut candidates = Vec::new();
    match value {
        Value::String(text) => {
            let text = text.trim();
            candidates.extend(number(text));
            if is_null_text(value, schemas) {
                candidates.push(Value::Null);
            }
            match text.to_ascii_lowercase().as_str() {
                "true" => candidates.push(Value::Bool(true)),
                "false" => candidates.push(Value::Bool(false)),
                _ => {}
            }
            for listed in listed_values(schemas) {
                let is_same = |listed: &str| listed.trim().to_lowercase() == text.to_lowercase();
                if listed.as_str().is_some_and(is_same) && !candidates.contains(listed) {
                    candidates.push(listed.clone());
                }
            }
        }
        Value::Number(number) => candidates.push(Value::String(number.to_string())),
        Value::Bool(is_true) => candidates.push(Value::String(is_true.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => {}
    }
    if allow(schemas, "array") {
        candidates.extend(item(value, items).map(|item| Value::Array(vec![item])));
    }
    candidates
}

/// Returns the item of a list that a value stands for alone.
fn item(value: &Value, items: &[&Map<String, Value>]) -> Option<Value> {
    match value {
        Value::Null | Value::Array(_) => None,
        // An object may stand for a list in other ways, unless the items are objects.
        Value::Object(_) => allow(items, "object").then(|| value.clone()),
        // The text may be a list in the notation of another language.
        Value::String(text) if text.starts_with('[') && text.ends_with(']') => None,
        Value::String(_) => Some(decoded_structure(value, items).unwrap_or_else(|| value.clone())),
        Value::Number(_) | Value::Bool(_) => Some(value.clone()),
    }
}

/// Returns `true` if a value is the text of null, and no schema of the value allows text.
pub(super) fn is_null_text(value: &Value, schemas: &[&Map<String, Value>]) -> bool {
    let is_null = matches!(value.as_str().map(str::trim), Some("null" | "None"));
    is_null && !allow(schemas, "string") && listed_values(schemas).is_empty()
}

/// Returns the number that a text is. Only plain numbers count, not `0x5` or `5 kg`, and only those
/// that keep their value.
fn number(text: &str) -> Option<Value> {
    let is_plain = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
    if !text.chars().all(is_plain) || is_long_number(text) {
        return None;
    }
    serde_json::from_str(text).ok().filter(Value::is_number)
}

/// Returns the values that the schemas list.
fn listed_values<'s>(schemas: &[&'s Map<String, Value>]) -> Vec<&'s Value> {
    let mut listed = Vec::new();
    for schema in schemas {
        let values = schema.get("enum").and_then(Value::as_array);
        listed.extend(values.into_iter().flatten());
        listed.extend(schema.get("const"));
    }
    listed
}
