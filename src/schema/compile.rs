//! The compilation of a schema with the crate `jsonschema`.

use std::borrow::Cow;
use std::collections::HashSet;

use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;

/// The most memory that one compiled regular expression of a schema may take, in bytes.
pub(super) const MAX_PATTERN_BYTES: usize = 1 << 20;

/// Compiles a schema with the draft that it names.
///
/// A schema without `$schema` that fails with the newest draft is tried with draft 4, in which
/// `exclusiveMinimum` is a boolean.
pub(super) fn compile(schema: &Value) -> Result<Validator, ValidationError<'static>> {
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
pub fn is_pattern(pattern: &str) -> bool {
    compile(&serde_json::json!({"pattern": pattern})).is_ok()
}

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
