//! A fast check for schemas that are certain to compile.
//!
//! Nearly all tools describe their parameters with a few keywords, each with a value of the right
//! type. This check takes a hundredth of the time of compiling, and a catalog is checked whenever
//! it is read. Everything else (references, patterns, other drafts, keywords that are not in the
//! list, mistakes) goes to the compiler, which also writes the error messages.

use serde_json::{Map, Value};

/// The values that `type` may have.
const KINDS: [&str; 7] = [
    "array", "boolean", "integer", "null", "number", "object", "string",
];

/// The drafts that schema generators name, and in which the keywords below have the same rules.
const DRAFTS: [&str; 2] = [
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2020-12/schema",
];

/// Returns `true` if a schema is certain to compile. If it returns `false`, the schema may still
/// compile.
pub(super) fn is_plain(schema: &Map<String, Value>) -> bool {
    let is_listed = |draft: &Value| draft.as_str().is_some_and(|draft| DRAFTS.contains(&draft));
    schema.iter().all(|(keyword, value)| {
        if keyword == "$schema" {
            is_listed(value)
        } else {
            is_valid(keyword, value)
        }
    })
}

fn is_plain_subschema(schema: &Value) -> bool {
    match schema {
        Value::Bool(_) => true,
        Value::Object(members) => members
            .iter()
            .all(|(keyword, value)| is_valid(keyword, value)),
        _ => false,
    }
}

/// Returns `true` if the keyword is in the list and the value is valid for it.
fn is_valid(keyword: &str, value: &Value) -> bool {
    match keyword {
        "type" => {
            is_kind(value)
                || value
                    .as_array()
                    .is_some_and(|kinds| kinds.iter().all(is_kind) && are_distinct(kinds))
        }
        "properties" => value
            .as_object()
            .is_some_and(|members: &Map<String, Value>| members.values().all(is_plain_subschema)),
        "items" | "additionalProperties" | "not" => is_plain_subschema(value),
        "anyOf" | "oneOf" | "allOf" => value
            .as_array()
            .is_some_and(|schemas| !schemas.is_empty() && schemas.iter().all(is_plain_subschema)),
        "required" => value
            .as_array()
            .is_some_and(|names| names.iter().all(Value::is_string)),
        "enum" => value.as_array().is_some_and(|values| are_distinct(values)),
        "const" | "default" => true,
        "examples" => value.is_array(),
        "title" | "description" | "format" => value.is_string(),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            value.is_u64()
        }
        "deprecated" | "readOnly" | "writeOnly" | "uniqueItems" => value.is_boolean(),
        _ => false,
    }
}

fn is_kind(value: &Value) -> bool {
    value.as_str().is_some_and(|kind| KINDS.contains(&kind))
}

/// Returns `true` for 1 to 64 values without duplicates.
fn are_distinct(values: &[Value]) -> bool {
    !values.is_empty()
        && values.len() <= 64
        && (1..values.len()).all(|index| !values[..index].contains(&values[index]))
}

#[cfg(all(test, feature = "json-schema"))]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::schema::compile::compile;

    fn plain(schema: &Value) -> bool {
        schema.as_object().is_some_and(is_plain)
    }

    /// Values that are valid for some keywords, and others that are not.
    fn values() -> Vec<Value> {
        vec![
            json!(null),
            json!(true),
            json!(false),
            json!(0),
            json!(3),
            json!(-1),
            json!(1.5),
            json!("string"),
            json!("integer"),
            json!("any"),
            json!([]),
            json!({}),
            json!(["a"]),
            json!(["a", "a"]),
            json!(["string", "null"]),
            json!([{}]),
            json!([true, 1]),
            json!(["string", "string"]),
            json!(1e300),
            json!(u64::MAX),
            json!("(?=a)"),
            json!(DRAFTS[0]),
            json!(DRAFTS[1]),
            json!({"a": {}}),
            json!({"a": 1}),
            json!({"type": "any"}),
        ]
    }

    /// The same values, nested.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop::sample::select(values());
        leaf.prop_recursive(4, 24, 4, |inner| {
            let keyword = prop::sample::select(vec![
                "type",
                "properties",
                "items",
                "additionalProperties",
                "not",
                "anyOf",
                "oneOf",
                "allOf",
                "required",
                "enum",
                "const",
                "default",
                "examples",
                "title",
                "description",
                "minimum",
                "maximum",
                "minLength",
                "maxLength",
                "minItems",
                "uniqueItems",
                "deprecated",
                "pattern",
                "$ref",
                "$schema",
                "$id",
                "id",
                "definitions",
                "exclusiveMinimum",
                "format",
            ]);
            let members = prop::collection::vec((keyword, inner.clone()), 0..5);
            prop_oneof![
                4 => members.prop_map(|members| {
                    members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
                }),
                1 => prop::collection::vec(inner, 0..3).prop_map(Value::Array),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 1_000,
            max_global_rejects: 100_000,
            ..ProptestConfig::default()
        })]
        #[test]
        fn plain_schema_compiles(schema in value()) {
            prop_assume!(plain(&schema));
            prop_assert!(compile(&schema).is_ok(), "{}", schema);
        }
    }

    #[test]
    fn keyword_values_that_pass_compile() {
        let keywords = [
            "type",
            "properties",
            "items",
            "additionalProperties",
            "not",
            "anyOf",
            "oneOf",
            "allOf",
            "required",
            "enum",
            "const",
            "default",
            "examples",
            "title",
            "description",
            "minimum",
            "maximum",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "format",
            "deprecated",
            "readOnly",
            "writeOnly",
            "uniqueItems",
        ];
        for keyword in keywords {
            let schemas = values().into_iter().map(|value| json!({keyword: value}));
            let plain: Vec<Value> = schemas.filter(plain).collect();
            assert!(!plain.is_empty(), "{keyword}");
            for (schema, draft) in plain
                .iter()
                .flat_map(|schema| DRAFTS.map(|draft| (schema, draft)))
            {
                let mut with_draft = schema.clone();
                with_draft["$schema"] = draft.into();
                let members = with_draft.as_object().expect("the schema is an object");
                assert!(compile(schema).is_ok(), "{schema}");
                assert!(super::is_plain(members), "{with_draft}");
                assert!(compile(&with_draft).is_ok(), "{with_draft}");
            }
        }
    }

    #[test]
    fn schema_that_needs_a_compiler_is_not_plain() {
        for schema in [
            json!({"$ref": "#/x"}),
            json!({"pattern": "("}),
            json!({"$schema": "http://json-schema.org/draft-04/schema#"}),
            json!({"minimum": 1, "exclusiveMinimum": true}),
            json!({"properties": {"a": {"type": "file"}}}),
            json!(3),
        ] {
            assert!(!plain(&schema), "{schema}");
        }
        assert!(plain(&json!({
            "type": "object",
            "properties": {"path": {"type": ["string", "null"], "description": "Where"}},
            "required": ["path", "path"],
        })));
    }
}
