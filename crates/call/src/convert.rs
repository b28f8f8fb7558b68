//! Conversion of arguments whose type does not match the schema, such as `"5"` for an integer or
//! `"red"` for a list of one. Models often send them.

use picktools::json::is_long_number;
use picktools::schema::{ArgumentCheck, name_from_pointer_part, resolve};
use serde_json::Value;

/// The largest number of conversions for one call, plus one final check.
const MAX_ROUNDS: usize = 64;
/// The keywords of faults that a conversion may mend.
const KEYWORDS: [&str; 5] = ["type", "enum", "const", "anyOf", "oneOf"];

/// A value that was converted.
pub(crate) struct Conversion {
    pub(crate) pointer: String,
    pub(crate) from: Value,
    pub(crate) to: Value,
}

/// Converts values whose type or case the schema does not allow, if each has one conversion that it
/// allows. Returns `None` if the arguments are still invalid then.
pub(crate) fn convert(
    check: &ArgumentCheck,
    schema: &Value,
    arguments: &Value,
) -> Option<(Value, Vec<Conversion>)> {
    let mut converted = arguments.clone();
    let mut conversions = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let faults = check.faults(&converted);
        let Some(fault) = faults.first() else {
            return check
                .accepts(&converted)
                .then_some((converted, conversions));
        };
        if !KEYWORDS.contains(&fault.keyword.as_str()) {
            return None;
        }
        let pointer = fault.pointer.clone();
        let from = converted.pointer(&pointer)?.clone();
        let mut fitting = Vec::new();
        for to in candidates(&from, subschema(schema, &pointer)) {
            *converted.pointer_mut(&pointer)? = to.clone();
            let below = format!("{pointer}/");
            let faults = check.faults(&converted);
            let is_here = |place: &str| place == pointer || place.starts_with(&below);
            if !faults.iter().any(|fault| is_here(&fault.pointer)) {
                fitting.push(to);
            }
        }
        // With several conversions the meaning is not clear.
        let [to] = &fitting[..] else { return None };
        *converted.pointer_mut(&pointer)? = to.clone();
        conversions.push(Conversion {
            pointer,
            from,
            to: to.clone(),
        });
    }
    None
}

/// Returns the values that a value of another type may mean.
fn candidates(value: &Value, schema: Option<&Value>) -> Vec<Value> {
    let mut candidates = Vec::new();
    match value {
        Value::String(text) => {
            let text = text.trim();
            // Only plain numbers, not `0x5` or `5 kg`.
            let is_plain = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
            if text.chars().all(is_plain)
                && !is_long_number(text)
                && let Ok(number @ Value::Number(_)) = serde_json::from_str(text)
            {
                candidates.push(number);
            }
            match text.to_ascii_lowercase().as_str() {
                "true" => candidates.push(Value::Bool(true)),
                "false" => candidates.push(Value::Bool(false)),
                _ => {}
            }
            let values = schema.and_then(|schema| schema.get("enum")?.as_array());
            for allowed in values.into_iter().flatten() {
                let differs_in_case = |allowed: &str| allowed.to_lowercase() == text.to_lowercase();
                if allowed.as_str().is_some_and(differs_in_case) {
                    candidates.push(allowed.clone());
                }
            }
            candidates.push(Value::Array(vec![value.clone()]));
        }
        Value::Number(number) => {
            candidates.push(Value::String(number.to_string()));
            candidates.push(Value::Array(vec![value.clone()]));
        }
        Value::Bool(is_true) => {
            candidates.push(Value::String(is_true.to_string()));
            candidates.push(Value::Array(vec![value.clone()]));
        }
        Value::Null | Value::Array(_) | Value::Object(_) => {}
    }
    candidates
}

/// Returns the schema of the value at a pointer, along properties and items.
fn subschema<'s>(root: &'s Value, pointer: &str) -> Option<&'s Value> {
    let follow = |schema: &'s Value| match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => resolve(root, reference),
        None => Some(schema),
    };
    let mut schema = follow(root)?;
    for segment in pointer.split('/').skip(1) {
        let name = name_from_pointer_part(segment);
        let property = schema.get("properties").and_then(|all| all.get(&name));
        schema = follow(property.or_else(|| schema.get("items"))?)?;
    }
    Some(schema)
}
