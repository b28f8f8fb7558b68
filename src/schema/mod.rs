//! Bounded checking, validation and examples for JSON Schema.
//!
//! A schema comes from a catalog, and a catalog may come from an untrusted source. So before a
//! schema is compiled, its depth and size are checked. A `$ref` may only point into the schema
//! itself: no validator ever opens a connection or a file. The work of validating a value is
//! bounded (`cost`). Regular expressions run on a linear-time engine with a bounded program size.
//! Keywords that do not compile, such as patterns with look-around, are not checked and are
//! reported (`relaxed`). The schema itself is never changed.

mod cost;
mod example;
mod fault;
mod keywords;
mod limits;
mod plain;
mod reference;
#[cfg(feature = "json-schema")]
mod relaxed;
#[cfg(feature = "json-schema")]
mod validate;
mod validators;

#[cfg(feature = "json-schema")]
use std::borrow::Cow;
#[cfg(feature = "json-schema")]
use std::collections::HashSet;

#[cfg(feature = "json-schema")]
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

use cost::Cost;
use example::example;
pub use fault::{ArgumentFault, location};
pub use keywords::{DEFINITIONS, SubschemaForm, subschema_form, within};
pub use limits::{MAX_SCHEMA_DEPTH, MAX_SCHEMA_NODES};
pub use reference::{decode_fragment, resolve};
#[cfg(feature = "json-schema")]
pub use validators::JsonSchema;
pub use validators::{ArgumentCheck, Validators};
pub use validators::{ArgumentValidator, SchemaCompiler};

use crate::excerpt::cut;

#[cfg(feature = "json-schema")]
/// The most memory that one compiled regular expression of a schema may take, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A reason for which a schema is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemaFault {
    /// JSON pointer into the schema.
    pub(crate) pointer: String,
    pub(crate) message: String,
    pub(crate) remedy: &'static str,
}

/// A place in a schema that is not checked as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemaSlip {
    /// JSON pointer into the schema.
    pub(crate) pointer: String,
    pub(crate) message: String,
}

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

#[cfg(feature = "json-schema")]
/// Compiles a schema with the draft that it names.
///
/// A schema without `$schema` that fails with the newest draft is tried with draft 4, in which
/// `exclusiveMinimum` is a boolean.
fn compile(schema: &Value) -> Result<Validator, ValidationError<'static>> {
    let schema = without_repeated_names(schema);
    let build = |draft: Option<Draft>| {
        let patterns = PatternOptions::regex()
            .size_limit(MAX_PATTERN_BYTES)
            .dfa_size_limit(MAX_PATTERN_BYTES);
        let mut options = jsonschema::options().with_pattern_options(patterns);
        if let Some(draft) = draft {
            options = options.with_draft(draft);
        }
        options.build(&schema)
    };
    build(None).or_else(|error| match schema.get("$schema") {
        Some(_) => Err(error),
        None => build(Some(Draft::Draft4)).map_err(|_| error),
    })
}

/// Returns `true` if a regular expression can run in linear time.
#[cfg(feature = "json-schema")]
pub fn is_pattern(pattern: &str) -> bool {
    compile(&serde_json::json!({"pattern": pattern})).is_ok()
}

/// Counts the values inside a value, itself included.
pub fn count_values(value: &Value) -> usize {
    1 + within(value).map(count_values).sum::<usize>()
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

#[cfg(feature = "json-schema")]
/// Returns a schema in which `required` lists each name once.
///
/// The drafts forbid duplicates in `required`, but many generated catalogs have them. They do not
/// change the meaning.
fn without_repeated_names(schema: &Value) -> Cow<'_, Value> {
    if !repeats_names(schema) {
        return Cow::Borrowed(schema);
    }
    let mut schema = schema.clone();
    remove_repeated_names(&mut schema);
    Cow::Owned(schema)
}

#[cfg(feature = "json-schema")]
fn repeats_names(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(key, member)| match member {
            Value::Array(names) if key == "required" => names
                .iter()
                .enumerate()
                .any(|(index, name)| names[..index].contains(name)),
            _ => repeats_names(member),
        }),
        Value::Array(items) => items.iter().any(repeats_names),
        _ => false,
    }
}

#[cfg(feature = "json-schema")]
fn remove_repeated_names(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (key, member) in members {
                match member {
                    Value::Array(names) if key == "required" => {
                        let mut unique = HashSet::new();
                        names.retain(|name| unique.insert(name.to_string()));
                    }
                    _ => remove_repeated_names(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(remove_repeated_names),
        _ => {}
    }
}

/// Escapes a member's name as a part of a JSON pointer (RFC 6901).
pub fn pointer_part(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Returns the member's name that a part of a JSON pointer stands for: the inverse of
/// [`pointer_part`].
pub fn name_from_pointer_part(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
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

/// Shortens a message, because it may quote a long input.
fn shorten(message: &str) -> String {
    cut(message, 300).into_owned()
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
