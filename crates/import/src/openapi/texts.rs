//! Scalars of a document that are texts although they look like other values, such as `1.10` in YAML
//! under `type: string`.

use serde_json::{Map, Value};

/// Members that hold a text, or a list of texts.
const TEXTS: [&str; 6] = [
    "name",
    "operationId",
    "title",
    "summary",
    "description",
    "tags",
];
/// Keywords whose value is a value of the schema that has them.
const VALUES: [&str; 3] = ["const", "default", "example"];
/// Keywords whose items are values of the schema that has them.
const VALUE_LISTS: [&str; 2] = ["enum", "examples"];
/// Members whose keys are names.
const NAMED: [&str; 6] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "schemas",
    "parameters",
];

/// Returns `true` if [`keep`] would change a value.
pub(super) fn would_change(value: &Value) -> bool {
    let mut changed = value.clone();
    keep(&mut changed, None);
    changed != *value
}

/// Replaces numbers and booleans by texts where only texts can stand: under `type: string`, in
/// lists of property names, and in names and descriptions. `written` has the scalars as the document
/// writes them, in the same places.
pub(super) fn keep(value: &mut Value, written: Option<&Value>) {
    match value {
        Value::Array(_) => each_item(value, written, keep),
        Value::Object(members) => keep_members(members, written),
        _ => {}
    }
}

fn keep_members(members: &mut Map<String, Value>, written: Option<&Value>) {
    let keys: Vec<String> = members.keys().cloned().collect();
    for key in keys {
        let written = written.and_then(|written| written.get(&key));
        let mut value = members[&key].take();
        match key.as_str() {
            name if NAMED.contains(&name) && value.is_object() => {
                for (name, value) in value.as_object_mut().into_iter().flatten() {
                    keep(value, written.and_then(|written| written.get(name)));
                }
            }
            name if VALUES.contains(&name) => keep_value(&mut value, members, written),
            name if VALUE_LISTS.contains(&name) => {
                each_item(&mut value, written, |item, written| {
                    keep_value(item, members, written);
                });
            }
            "required" => each_item(&mut value, written, make_text),
            name if TEXTS.contains(&name) => {
                make_text(&mut value, written);
                each_item(&mut value, written, make_text);
            }
            _ => keep(&mut value, written),
        }
        members[&key] = value;
    }
}

/// Makes texts of the scalars of a value that a schema calls texts.
fn keep_value(value: &mut Value, schema: &Map<String, Value>, written: Option<&Value>) {
    let part = |key: &str| schema.get(key).and_then(Value::as_object);
    match value {
        Value::Array(_) => {
            let Some(items) = part("items") else { return };
            each_item(value, written, |item, written| {
                keep_value(item, items, written);
            });
        }
        Value::Object(members) => {
            let Some(properties) = part("properties") else {
                return;
            };
            for (name, value) in members {
                if let Some(property) = properties.get(name).and_then(Value::as_object) {
                    keep_value(
                        value,
                        property,
                        written.and_then(|written| written.get(name)),
                    );
                }
            }
        }
        _ if is_text(schema) => make_text(value, written),
        _ => {}
    }
}

/// Returns `true` if the values of a schema are texts, or `null`.
fn is_text(schema: &Map<String, Value>) -> bool {
    match schema.get("type") {
        Some(Value::String(name)) => name == "string",
        Some(Value::Array(names)) => {
            names.iter().any(|name| name == "string")
                && names.iter().all(|name| name == "string" || name == "null")
        }
        _ => false,
    }
}

/// Calls `change` for each item of a list, with the item as it is written.
fn each_item(
    value: &mut Value,
    written: Option<&Value>,
    change: impl Fn(&mut Value, Option<&Value>),
) {
    for (index, item) in value.as_array_mut().into_iter().flatten().enumerate() {
        change(item, written.and_then(|written| written.get(index)));
    }
}

/// Replaces a number or boolean by the text that stands there.
fn make_text(value: &mut Value, written: Option<&Value>) {
    if matches!(value, Value::Number(_) | Value::Bool(_)) {
        *value = match written {
            Some(Value::String(text)) => text.as_str().into(),
            _ => value.to_string().into(),
        };
    }
}
