//! The keywords of JSON Schema (drafts 4 to 2020-12) that hold schemas.

use serde_json::Value;

/// How a keyword holds schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Its value is a schema.
    One,
    /// Its value is a list of schemas.
    List,
    /// Its value is an object whose members are schemas.
    Named,
}

/// The keywords under which definitions stand that references lead to.
pub(crate) const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// Returns how a keyword holds schemas; `None` where it holds none. In older drafts `items` may be a list as well, and
/// `dependencies` names either schemas or lists of names.
pub(crate) fn holds(keyword: &str) -> Option<Holds> {
    Some(match keyword {
        "items" | "additionalItems" | "unevaluatedItems" | "contains" => Holds::One,
        "additionalProperties" | "unevaluatedProperties" | "propertyNames" => Holds::One,
        "not" | "if" | "then" | "else" | "contentSchema" => Holds::One,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Holds::List,
        "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => Holds::Named,
        _ => return None,
    })
}

/// Returns `true` if the schemas that a keyword holds apply to the same value as the schema around them.
pub(super) fn applies_in_place(keyword: &str) -> bool {
    matches!(keyword, "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" | "dependentSchemas")
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
