//! The keywords of JSON Schema (drafts 4 to 2020-12) that contain subschemas.

use serde_json::{Map, Value};

/// The form in which a keyword contains subschemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubschemaForm {
    /// Its value is a schema.
    One,
    /// Its value is a list of schemas.
    List,
    /// Its value is an object whose members are schemas.
    Named,
}

/// The keywords that contain the targets of references.
pub const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// Returns the form in which a keyword contains subschemas, or `None` if it contains none.
///
/// In older drafts `items` may also be a list, and `dependencies` has either schemas or lists of
/// names as members.
pub fn subschema_form(keyword: &str) -> Option<SubschemaForm> {
    Some(match keyword {
        "items" | "additionalItems" | "unevaluatedItems" | "contains" => SubschemaForm::One,
        "additionalProperties" | "unevaluatedProperties" | "propertyNames" => SubschemaForm::One,
        "not" | "if" | "then" | "else" | "contentSchema" => SubschemaForm::One,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => SubschemaForm::List,
        "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => {
            SubschemaForm::Named
        }
        _ => return None,
    })
}

/// Returns `true` if a keyword's subschemas apply to the same value as the schema itself.
pub(super) fn applies_in_place(keyword: &str) -> bool {
    matches!(
        keyword,
        "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" | "dependentSchemas"
    )
}

/// Returns the subschemas of a keyword.
pub(super) fn children<'a>(keyword: &str, value: &'a Value) -> Vec<&'a Value> {
    match (subschema_form(keyword), value) {
        (Some(SubschemaForm::One), _) => vec![value],
        (Some(SubschemaForm::List), Value::Array(list)) => list.iter().collect(),
        (Some(SubschemaForm::Named), Value::Object(named)) => named.values().collect(),
        _ => Vec::new(),
    }
}

/// Returns the values directly inside a value: the members of an object, the items of an array.
///
/// The values need not be schemas. Repeated calls walk over everything in a schema.
pub fn within(value: &Value) -> impl Iterator<Item = &Value> {
    let members = value.as_object().into_iter().flat_map(Map::values);
    members.chain(value.as_array().into_iter().flatten())
}

/// Counts the values inside a value, itself included.
pub fn count_values(value: &Value) -> usize {
    1 + within(value).map(count_values).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_keyword_has_one_form_of_subschemas() {
        let (a, b) = (json!({"type": "string"}), json!(true));
        assert_eq!(children("not", &a), [&a]);
        assert_eq!(children("anyOf", &json!([a, b])), [&a, &b]);
        assert_eq!(children("properties", &json!({"x": a, "y": b})), [&a, &b]);
        for (keyword, value) in [
            ("anyOf", &a),
            ("properties", &b),
            ("enum", &a),
            ("required", &a),
        ] {
            assert!(children(keyword, value).is_empty(), "{keyword}: {value}");
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            "[a-c]".prop_map(Value::from),
            Just(Value::Null)
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[a-e]", inner, 0..5)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn walk_visits_every_value_once(value in values()) {
            fn count(value: &Value) -> usize {
                1 + within(value).map(count).sum::<usize>()
            }
            // In compact JSON a value begins after an opening bracket or a comma. No string here
            // contains one.
            let text = value.to_string();
            let empty = text.matches("[]").count() + text.matches("{}").count();
            let opening = text.matches(['[', '{']).count() - empty;
            prop_assert_eq!(count(&value), 1 + opening + text.matches(',').count());
        }
    }
}
