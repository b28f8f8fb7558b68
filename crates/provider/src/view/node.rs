//! Members of a schema node.

use serde_json::{Map, Value};

/// Returns the items of an array; empty if the member is absent or has another type.
pub(crate) fn array_member<'v>(node: &'v Map<String, Value>, key: &str) -> &'v [Value] {
    match node.get(key) {
        Some(Value::Array(items)) => items,
        _ => &[],
    }
}

/// Returns the text of a member; `None` if it is absent or has another type.
pub(crate) fn text_member<'v>(node: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
    match node.get(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// Returns `true` if a `type` includes `kind`.
pub(crate) fn includes(types: &Value, kind: &str) -> bool {
    match types {
        Value::String(name) => name == kind,
        Value::Array(types) => types.iter().any(|name| name == kind),
        _ => false,
    }
}

/// Returns the types of a node without null, and `true` if null is allowed.
///
/// A node without `type` is classified by its keywords. An empty list means that the type is
/// unknown.
pub(crate) fn kinds(node: &Map<String, Value>) -> (Vec<&str>, bool) {
    let mut nullable = node.get("nullable") == Some(&Value::Bool(true));
    let mut kinds: Vec<&str> = match node.get("type") {
        Some(Value::String(kind)) => vec![kind.as_str()],
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if kinds.is_empty() {
        let values = array_member(node, "enum");
        for value in node.get("const").into_iter().chain(values) {
            let kind = kind_of(value);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }
    if kinds.is_empty() && !node.contains_key("anyOf") && !node.contains_key("oneOf") {
        const TYPE_KEYWORDS: [(&str, &[&str]); 4] = [
            (
                "object",
                &[
                    "properties",
                    "required",
                    "additionalProperties",
                    "patternProperties",
                    "minProperties",
                ],
            ),
            (
                "array",
                &[
                    "items",
                    "prefixItems",
                    "minItems",
                    "maxItems",
                    "uniqueItems",
                ],
            ),
            ("string", &["pattern", "minLength", "maxLength", "format"]),
            (
                "number",
                &[
                    "minimum",
                    "maximum",
                    "multipleOf",
                    "exclusiveMinimum",
                    "exclusiveMaximum",
                ],
            ),
        ];
        let implied_kind = TYPE_KEYWORDS
            .iter()
            .find(|(_, keywords)| keywords.iter().any(|keyword| node.contains_key(*keyword)));
        kinds.extend(implied_kind.map(|(kind, _)| *kind));
    }
    nullable |= kinds.contains(&"null");
    kinds.retain(|kind| *kind != "null");
    // An integer is a number, too.
    if kinds.contains(&"number") {
        kinds.retain(|kind| *kind != "integer");
    }
    (kinds, nullable)
}

pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the names that a node requires, each once.
pub(crate) fn required(node: &Map<String, Value>) -> Vec<&str> {
    let mut names_seen = std::collections::HashSet::new();
    let mut names = Vec::new();
    for name in array_member(node, "required") {
        if let Value::String(name) = name
            && names_seen.insert(name)
        {
            names.push(name.as_str());
        }
    }
    names
}

/// Returns the properties of a node.
pub(crate) fn properties(node: &Map<String, Value>) -> Option<&Map<String, Value>> {
    node.get("properties")?.as_object()
}

/// Returns `true` if a root accepts arguments beyond its properties.
pub(crate) fn is_open_root(node: &Map<String, Value>) -> bool {
    let has_no_properties = properties(node).is_none_or(Map::is_empty);
    let allows_additional = node
        .get("additionalProperties")
        .is_some_and(|schema| *schema != Value::Bool(false));
    has_no_properties && (allows_additional || node.contains_key("patternProperties"))
}
