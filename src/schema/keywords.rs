//! The keywords of JSON Schema (drafts 4 to 2020-12) that hold schemas.

use serde_json::{Map, Value};

/// How a keyword holds schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Its value is a schema.
    One,
    /// Its value is a list of schemas.
    List,
    /// Its value is an object whose members are schemas.
    Named,
}

/// The keywords under which definitions stand that references lead to.
pub const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// Returns how a keyword holds schemas; `None` where it holds none. In older drafts `items` may be
/// a list as well, and `dependencies` names either schemas or lists of names.
pub fn holds(keyword: &str) -> Option<Holds> {
    Some(match keyword {
        "items" | "additionalItems" | "unevaluatedItems" | "contains" => Holds::One,
        "additionalProperties" | "unevaluatedProperties" | "propertyNames" => Holds::One,
        "not" | "if" | "then" | "else" | "contentSchema" => Holds::One,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Holds::List,
        "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => {
            Holds::Named
        }
        _ => return None,
    })
}

/// Returns `true` if the schemas that a keyword holds apply to the same value as the schema around
/// them.
pub(super) fn applies_in_place(keyword: &str) -> bool {
    matches!(
        keyword,
        "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" | "dependentSchemas"
    )
}

/// Returns the schemas that a keyword holds.
pub(super) fn children<'a>(keyword: &str, value: &'a Value) -> Vec<&'a Value> {
    match (holds(keyword), value) {
        (Some(Holds::One), _) => vec![value],
        (Some(Holds::List), Value::Array(list)) => list.iter().collect(),
        (Some(Holds::Named), Value::Object(named)) => named.values().collect(),
        _ => Vec::new(),
    }
}

/// Returns the values directly within a value: the members of an object, the items of an array. A
/// walk over everything in a schema, schemas or not, goes on from here.
pub fn within(value: &Value) -> impl Iterator<Item = &Value> {
    let members = value.as_object().into_iter().flat_map(Map::values);
    members.chain(value.as_array().into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_keyword_holds_schemas_in_one_way() {
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
        fn a_walk_meets_every_value_once(value in values()) {
            fn count(value: &Value) -> usize {
                1 + within(value).map(count).sum::<usize>()
            }
            // In compact JSON a value begins after a bracket, a comma or a colon that stands in no
            // text.
            let text = value.to_string();
            let opening = text.matches(['[', '{']).count() - text.matches("[]").count() - text.matches("{}").count();
            prop_assert_eq!(count(&value), 1 + opening + text.matches(',').count());
        }
    }
}
