//! Conversion of Gemini's function declarations to native entries.
//!
//! Source: `ai.google.dev/api`: `Tool`, `FunctionDeclaration`, `Schema`. Its schemas are JSON
//! Schema apart from a few keywords, which are converted.

use serde_json::{Map, Value};

use super::entry::SCHEMA_KEYS;
use super::entry_fault::EntryFault;
use super::policy::is_field;
use crate::excerpt::marked;
use crate::schema::{SubschemaForm, allow_null, subschema_form};

/// The names of a tool's list of declarations; JSON for protocol buffers accepts both.
pub(super) const LISTS: [&str; 2] = ["functionDeclarations", "function_declarations"];

/// Integers that JSON for protocol buffers writes as text.
const COUNTS: [&str; 6] = [
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
];

/// Removes the declarations from a tool, and returns them with their pointer.
pub(super) fn take_declarations(tool: &mut Map<String, Value>) -> Option<(&'static str, Value)> {
    let pointers = ["/functionDeclarations", "/function_declarations"];
    pointers
        .into_iter()
        .find_map(|pointer| Some((pointer, tool.shift_remove(&pointer[1..])?)))
}

/// Returns the fault of a member outside the declarations.
pub(super) fn member_outside_declarations(key: &str) -> EntryFault {
    EntryFault::new(
        format!("/{}", marked(key, 60)),
        "a member outside the function declarations has no effect",
        "move it into each declaration, or remove it",
    )
}

/// Converts a declaration to a native entry.
pub(super) fn native(mut declaration: Value) -> Value {
    let Some(members) = declaration.as_object_mut() else {
        return declaration;
    };
    for (gemini_key, json_schema_keys, native_key) in [
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
        let schema = match members.shift_remove(gemini_key) {
            Some(mut schema) => {
                convert_schema(&mut schema);
                Some(schema)
            }
            None => json_schema_keys
                .into_iter()
                .find_map(|key| members.shift_remove(key)),
        };
        if let Some(schema) = schema {
            members.insert(native_key.to_owned(), schema);
        }
    }
    let has_field = |field| members.keys().any(|key| is_field(key, field));
    if !SCHEMA_KEYS.iter().any(|key| members.contains_key(*key))
        && !has_field("allow_no_schema")
        && !has_field("no_schema_mode")
    {
        // A function without parameters takes no arguments.
        members.insert("parameters".to_owned(), Value::Object(Map::new()));
    }
    declaration
}

/// Converts one of Gemini's schemas to JSON Schema.
fn convert_schema(schema: &mut Value) {
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
        allow_null(members);
    }
    for (key, value) in members.iter_mut() {
        match (subschema_form(key), value) {
            (Some(SubschemaForm::One), value) => convert_schema(value),
            (Some(SubschemaForm::List), Value::Array(list)) => {
                list.iter_mut().for_each(convert_schema);
            }
            (Some(SubschemaForm::Named), Value::Object(named)) => {
                named.values_mut().for_each(convert_schema);
            }
            _ => {}
        }
    }
}
