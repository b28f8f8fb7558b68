//! Gemini's function declarations as native entries.
//!
//! Source: `ai.google.dev/api`: `Tool`, `FunctionDeclaration`, `Schema`. Its schemas are JSON
//! Schema but for a few keywords, which are written as JSON Schema has them.

use serde_json::{Map, Value};

use super::entry::{EntryFault, SCHEMA_KEYS};
use super::policy::is_field;
use crate::excerpt::marked;
use crate::schema::{Holds, holds, take_null};

/// Under which names a tool holds its declarations; JSON for protocol buffers knows both.
pub(super) const LISTS: [&str; 2] = ["functionDeclarations", "function_declarations"];

/// Whole numbers that JSON for protocol buffers writes as text.
const COUNTS: [&str; 6] = [
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
];

/// Takes the declarations out of a tool, with the pointer to them.
pub(super) fn take_declarations(tool: &mut Map<String, Value>) -> Option<(&'static str, Value)> {
    let at = ["/functionDeclarations", "/function_declarations"];
    at.into_iter()
        .find_map(|at| Some((at, tool.shift_remove(&at[1..])?)))
}

/// The fault of a member that stands beside the declarations.
pub(super) fn beside(key: &str) -> EntryFault {
    let message = "it stands beside the function declarations, where it counts for nothing";
    EntryFault::new(
        format!("/{}", marked(key, 60)),
        message,
        "put it into each declaration, or remove it",
    )
}

/// Makes a native entry of a declaration.
pub(super) fn native(mut declaration: Value) -> Value {
    let Some(members) = declaration.as_object_mut() else {
        return declaration;
    };
    for (theirs, json, ours) in [
        (
            "parameters",
            ["parametersJsonSchema", "parameters_json_schema"],
            "parameters",
        ),
        (
            "response",
            ["responseJsonSchema", "response_json_schema"],
            "output_schema",
        ),
    ] {
        if let Some(mut schema) = members.shift_remove(theirs) {
            json_schema(&mut schema);
            members.insert(ours.to_owned(), schema);
        } else if let Some(schema) = json.into_iter().find_map(|key| members.shift_remove(key)) {
            members.insert(ours.to_owned(), schema);
        }
    }
    let says = |field| members.keys().any(|key| is_field(key, field));
    if !SCHEMA_KEYS.iter().any(|key| members.contains_key(*key))
        && !says("allow_no_schema")
        && !says("no_schema_mode")
    {
        // A function without parameters takes no arguments.
        members.insert("parameters".to_owned(), Value::Object(Map::new()));
    }
    declaration
}

fn json_schema(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::String(name)) = members.get_mut("type") {
        name.make_ascii_lowercase();
    }
    for key in COUNTS {
        if let Some(value) = members.get_mut(key)
            && let Some(count) = value.as_str().and_then(|text| text.parse::<u64>().ok())
        {
            *value = count.into();
        }
    }
    if members.get("nullable").is_some_and(Value::is_boolean)
        && members.shift_remove("nullable") == Some(true.into())
    {
        take_null(members);
    }
    for (key, value) in members.iter_mut() {
        match (holds(key), value) {
            (Some(Holds::One), value) => json_schema(value),
            (Some(Holds::List), Value::Array(list)) => list.iter_mut().for_each(json_schema),
            (Some(Holds::Named), Value::Object(named)) => named.values_mut().for_each(json_schema),
            _ => {}
        }
    }
}
