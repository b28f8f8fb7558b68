//! Bounded checking, validation and examples for JSON Schema.
//!
//! A schema comes from a catalog, and a catalog may come from an untrusted source. So before a
//! schema is compiled, its depth and size are checked. A `$ref` may only point into the schema
//! itself: no validator ever opens a connection or a file. The work of validating a value is
//! bounded (`cost`). Regular expressions run on a linear-time engine with a bounded program size.
//! Keywords that do not compile, such as patterns with look-around, are not checked and are
//! reported (`relaxed`). The schema itself is never changed.

#[cfg(feature = "json-schema")]
mod compile;
mod compiler;
mod cost;
mod example;
mod fault;
mod keywords;
mod limits;
mod plain;
mod pointer;
mod reference;
#[cfg(feature = "json-schema")]
mod relaxed;
#[cfg(feature = "json-schema")]
mod validate;
mod validators;

use serde_json::{Map, Value};

#[cfg(feature = "json-schema")]
pub use compile::is_pattern;
pub use compiler::{ArgumentValidator, SchemaCompiler};
#[cfg(not(feature = "json-schema"))]
use cost::Cost;
pub use fault::{ArgumentFault, location};
pub(crate) use fault::{SchemaFault, SchemaSlip};
pub use keywords::{DEFINITIONS, SubschemaForm, count_values, subschema_form, within};
pub use limits::{MAX_SCHEMA_DEPTH, MAX_SCHEMA_NODES};
pub use pointer::{name_from_pointer_part, pointer_part};
pub use reference::{decode_fragment, resolve};
#[cfg(feature = "json-schema")]
pub use validators::JsonSchema;
pub use validators::{ArgumentCheck, Validators};

/// Checks that `schema` is a bounded JSON Schema object that refers only to itself. Returns the
/// places that are not checked as they are written.
pub(crate) fn check(schema: &Value) -> Result<Vec<SchemaSlip>, Vec<SchemaFault>> {
    let Some(object) = schema.as_object() else {
        return Err(vec![SchemaFault {
            pointer: String::new(),
            message: format!("the schema is {}, not an object", kind(schema)),
            remedy: "give a JSON Schema object; `{}` means that the tool takes no arguments",
        }]);
    };
    if object.is_empty() {
        return Ok(Vec::new());
    }
    let faults = limits::check(schema);
    if !faults.is_empty() {
        return Err(faults);
    }
    // Without references each subschema is applied to a value at most once: the cost is small.
    if plain::is_plain(object) {
        return Ok(Vec::new());
    }
    check_compiles(schema).map_err(|fault| vec![fault])
}

/// Compiles the schema to a validator, and returns the places that are not checked.
#[cfg(feature = "json-schema")]
fn check_compiles(schema: &Value) -> Result<Vec<SchemaSlip>, SchemaFault> {
    Ok(relaxed::compile_relaxed(schema)?.slips)
}

/// Accepts every bounded schema. This build has no validator, so calls of the tools are refused.
#[cfg(not(feature = "json-schema"))]
fn check_compiles(schema: &Value) -> Result<Vec<SchemaSlip>, SchemaFault> {
    Cost::new(schema)?;
    Ok(Vec::new())
}

/// Changes a schema so that it also accepts `null`.
pub fn allow_null(members: &mut Map<String, Value>) {
    if let Some(kind) = members.get_mut("type")
        && kind.is_string()
        && *kind != "null"
    {
        *kind = Value::Array(vec![kind.take(), "null".into()]);
    }
    if let Some(Value::Array(values)) = members.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    if let Some(Value::Array(alternatives)) = members.get_mut("anyOf") {
        alternatives.push(serde_json::json!({"type": "null"}));
    }
}

/// Names the kind of a JSON value for a message.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(all(test, feature = "json-schema"))]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pointer_part_returns_to_its_name() {
        for name in ["a", "/", "~", "~1", "~01", "a/b~c", ""] {
            assert_eq!(name_from_pointer_part(&pointer_part(name)), name);
        }
        assert_eq!(name_from_pointer_part("a~1b~0c"), "a/b~c");
    }

    fn faults(schema: &Value) -> String {
        check(schema)
            .expect_err("the schema is invalid")
            .iter()
            .map(|fault| format!("{}: {}", fault.pointer, fault.message))
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn valid_schemas_pass() {
        for schema in [
            json!({}),
            json!({
                "type": "object",
                "properties": {"city": {"type": "string", "pattern": "^[A-Z]"}},
            }),
            json!({
                "$defs": {"id": {"type": "string"}},
                "properties": {"id": {"$ref": "#/$defs/id"}},
            }),
            json!({"properties": {"$ref": {"type": "string"}}}),
            json!({"properties": {"a": {"required": ["b", "b"]}}, "required": ["a", "a"]}),
        ] {
            assert_eq!(check(&schema), Ok(Vec::new()), "{schema}");
        }
    }

    #[test]
    fn faults_have_a_pointer_to_their_place() {
        assert!(faults(&json!([])).contains("an array, not an object"));
        let remote = json!({"properties": {"a": {"$ref": "https://example.org/s.json"}}});
        assert!(
            faults(&remote).starts_with("/properties/a/$ref: "),
            "{}",
            faults(&remote)
        );
        let circular = json!({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"});
        assert!(faults(&circular).contains("leads back to itself"));
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let mut deep = json!({"type": "string"});
        for _ in 0..MAX_SCHEMA_DEPTH {
            deep = json!({"properties": {"inner": deep}});
        }
        assert!(faults(&deep).contains("nested deeper"));
        let wide: serde_json::Map<String, Value> = (0..MAX_SCHEMA_NODES)
            .map(|i| (format!("p{i}"), json!({"type": "string"})))
            .collect();
        assert!(faults(&json!({"properties": wide})).contains("more than"));
    }
}
