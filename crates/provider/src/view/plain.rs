//! The loose view: the schema as it is, but for what a provider refuses.
//!
//! Refused are a root that is no plain object, keys outside a provider's pattern, and what is not
//! JSON Schema 2020-12: the drafts of a catalog may be older.

use serde_json::{Map, Value, json};

use super::{ChangeCode, View, includes};
use picktools::schema::{Holds, holds};

/// For MCP, whose schemas are JSON Schema: only the root must say that it is an object.
///
/// Source: MCP specification 2025-11-25, `Tool.inputSchema` (`type: "object"`).
pub(super) fn as_it_is(view: &mut View<'_>) -> Value {
    let mut schema = view.root.as_object().cloned().unwrap_or_default();
    if schema.get("type") != Some(&json!("object")) {
        if schema.contains_key("type") || !schema.is_empty() {
            view.change(
                ChangeCode::RootMadeObject,
                "the root must say that it is an object",
            );
        }
        schema.insert("type".to_owned(), json!("object"));
    }
    Value::Object(schema)
}

/// For OpenAI and Anthropic where they hold the model to nothing.
///
/// Sources for the root: OpenAI's error "schema must have type 'object' and not have
/// 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"; Anthropic's error "input_schema does not
/// support oneOf, allOf, or anyOf at the top level".
pub(super) fn root(view: &mut View<'_>) -> Value {
    let Value::Object(root) = view.root else {
        return json!({"type": "object", "properties": {}});
    };
    let root = if [
        "$ref", "allOf", "anyOf", "oneOf", "not", "if", "enum", "const",
    ]
    .iter()
    .any(|k| root.contains_key(*k))
        || root.get("type") != Some(&json!("object"))
    {
        if !root.is_empty() {
            view.change(
                ChangeCode::RootMadeObject,
                "the root must be a plain object",
            );
        }
        let expanded = view.expand(root).node.into_owned();
        let object = view.one_object(expanded);
        // The root's own references are merged into it; those below are followed anew.
        view.following.clear();
        object
    } else {
        root.clone()
    };
    let mut shown = node(view, &root);
    // OpenAI: "object schema missing properties".
    if let Value::Object(shown) = &mut shown {
        shown.entry("properties").or_insert_with(|| json!({}));
    }
    shown
}

fn schema(view: &mut View<'_>, schema: &Value) -> Value {
    match schema {
        Value::Object(map) => node(view, map),
        Value::Bool(false) => json!({"not": {}}),
        _ => json!({}),
    }
}

fn node(view: &mut View<'_>, source: &Map<String, Value>) -> Value {
    if !view.may_go_on() {
        return json!({});
    }
    let followed;
    let mut source = source;
    if let Some(Value::String(reference)) = source.get("$ref")
        && !is_kept(reference)
    {
        // A pointer into the schema would miss its target where keys are renamed or the root is
        // another.
        let expanded = view.expand(source);
        view.change(
            ChangeCode::ReferenceInlined,
            "the reference is replaced by what it refers to",
        );
        followed = expanded.node.into_owned();
        source = &followed;
    }
    let mut shown = Map::new();
    for (keyword, value) in source {
        show(view, source, keyword, value, &mut shown);
    }
    // OpenAI: "array schema missing items".
    if shown
        .get("type")
        .is_some_and(|kind| includes(kind, "array"))
        && !shown.contains_key("items")
    {
        shown.insert("items".to_owned(), json!({}));
    }
    Value::Object(shown)
}

/// Shows one keyword of a node.
fn show(
    view: &mut View<'_>,
    source: &Map<String, Value>,
    keyword: &str,
    value: &Value,
    shown: &mut Map<String, Value>,
) {
    let value = match (keyword, value) {
        ("$schema" | "$id" | "id" | "$vocabulary", Value::String(_)) => return,
        ("properties", Value::Object(properties)) => {
            return show_properties(view, source, properties, shown);
        }
        // Older drafts let a name be listed twice. Where keys were renamed, this is done.
        ("required", Value::Array(_)) if shown.contains_key("required") => return,
        ("required", Value::Array(_)) => json!(super::required(source)),
        ("items", Value::Array(tuple)) => return show_tuple(view, source, tuple, shown),
        ("additionalItems", _) => return,
        ("additionalProperties" | "unevaluatedProperties" | "unevaluatedItems", Value::Bool(_)) => {
            value.clone()
        }
        ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(exclusive)) => {
            let bound = if keyword == "exclusiveMinimum" {
                "minimum"
            } else {
                "maximum"
            };
            let (true, Some(limit)) = (*exclusive, source.get(bound)) else {
                return;
            };
            view.change(
                ChangeCode::OlderDraft,
                format!("{keyword:?} is written as a number"),
            );
            limit.clone()
        }
        ("minimum", _) if source.get("exclusiveMinimum") == Some(&Value::Bool(true)) => return,
        ("maximum", _) if source.get("exclusiveMaximum") == Some(&Value::Bool(true)) => return,
        (_, value) if holds(keyword) == Some(Holds::One) => {
            view.below(&[keyword], |view| schema(view, value))
        }
        (_, Value::Array(list)) if holds(keyword) == Some(Holds::List) => {
            schemas(view, keyword, list)
        }
        (_, Value::Object(named)) if holds(keyword) == Some(Holds::Named) => {
            let named = named.iter();
            named
                .map(|(key, value)| {
                    (
                        key.clone(),
                        view.below(&[keyword, key], |view| schema(view, value)),
                    )
                })
                .collect()
        }
        _ => value.clone(),
    };
    shown.insert(keyword.to_owned(), value);
}

fn schemas(view: &mut View<'_>, keyword: &str, list: &[Value]) -> Value {
    let list = list.iter().enumerate();
    list.map(|(index, part)| view.below(&[keyword, &index.to_string()], |view| schema(view, part)))
        .collect()
}

/// Shows properties under keys that the provider takes, and `required` with the same keys.
fn show_properties(
    view: &mut View<'_>,
    source: &Map<String, Value>,
    properties: &Map<String, Value>,
    shown: &mut Map<String, Value>,
) {
    let names = view.property_names(properties);
    let shown_properties = properties.iter().map(|(key, value)| {
        let name = names.get(key).unwrap_or(key).clone();
        (
            name,
            view.below(&["properties", key], |view| schema(view, value)),
        )
    });
    shown.insert("properties".to_owned(), shown_properties.collect());
    if !names.is_empty() && source.contains_key("required") {
        let required = super::required(source).into_iter();
        let required: Vec<&str> = required
            .map(|name| names.get(name).map_or(name, String::as_str))
            .collect();
        shown.insert("required".to_owned(), json!(required));
    }
}

/// Shows a list in `items`, as drafts before 2020-12 have it.
fn show_tuple(
    view: &mut View<'_>,
    source: &Map<String, Value>,
    tuple: &[Value],
    shown: &mut Map<String, Value>,
) {
    shown.insert("prefixItems".to_owned(), schemas(view, "items", tuple));
    let rest = source.get("additionalItems").unwrap_or(&Value::Bool(true));
    shown.insert(
        "items".to_owned(),
        view.below(&["additionalItems"], |view| schema(view, rest)),
    );
    view.change(
        ChangeCode::OlderDraft,
        "a list in \"items\" is written as \"prefixItems\"",
    );
}

/// Whether a reference means the same in the view.
fn is_kept(reference: &str) -> bool {
    let definition = reference
        .strip_prefix("#/$defs/")
        .or_else(|| reference.strip_prefix("#/definitions/"));
    reference == "#" || definition.is_some_and(|name| !name.contains('/'))
}
