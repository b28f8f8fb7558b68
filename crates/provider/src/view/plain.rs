//! The loose view: the original schema without the parts that a provider rejects.
//!
//! Providers reject a root that is not a plain object, some property keys, and keywords outside
//! JSON Schema 2020-12. Schemas of a catalog may use older drafts.

use serde_json::{Map, Value, json};

use super::builder::ViewBuilder;
use super::node::{self, includes};
use crate::changes::ChangeCode;
use picktools::schema::{SubschemaForm, subschema_form};

/// Builds the view for MCP, whose schemas are JSON Schema: only the root must be an object.
///
/// Source: MCP specification 2025-11-25, `Tool.inputSchema` (`type: "object"`).
pub(super) fn json_schema(view: &mut ViewBuilder<'_>) -> Value {
    let mut schema = view.root.as_object().cloned().unwrap_or_default();
    if schema.get("type") != Some(&json!("object")) {
        if schema.contains_key("type") || !schema.is_empty() {
            view.change(
                ChangeCode::RootMadeObject,
                "the root must declare the type \"object\"",
            );
        }
        schema.insert("type".to_owned(), json!("object"));
    }
    Value::Object(schema)
}

/// Builds the view for OpenAI and Anthropic without strict mode.
///
/// Sources for the root: OpenAI's error "schema must have type 'object' and not have
/// 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"; Anthropic's error "input_schema does not
/// support oneOf, allOf, or anyOf at the top level".
pub(super) fn root(view: &mut ViewBuilder<'_>) -> Value {
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
        let object = view.merge_root(expanded);
        // The root's own references are merged into it; references below it are followed again.
        view.following.clear();
        object
    } else {
        root.clone()
    };
    let mut root_view = node(view, &root);
    // OpenAI: "object schema missing properties".
    if let Value::Object(fields) = &mut root_view {
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    root_view
}

fn schema(view: &mut ViewBuilder<'_>, schema: &Value) -> Value {
    match schema {
        Value::Object(map) => node(view, map),
        Value::Bool(false) => json!({"not": {}}),
        _ => json!({}),
    }
}

fn node(view: &mut ViewBuilder<'_>, source: &Map<String, Value>) -> Value {
    if !view.count_node() {
        return json!({});
    }
    let followed;
    let mut source = source;
    if let Some(Value::String(reference)) = source.get("$ref")
        && !is_kept(reference)
    {
        // A pointer into the schema would miss its target if keys are renamed or the root is
        // replaced.
        let expanded = view.expand(source);
        view.change(
            ChangeCode::ReferenceInlined,
            "the reference is replaced by its target",
        );
        followed = expanded.node.into_owned();
        source = &followed;
    }
    let mut fields = Map::new();
    for (keyword, value) in source {
        show(view, source, keyword, value, &mut fields);
    }
    // OpenAI: "array schema missing items".
    if fields
        .get("type")
        .is_some_and(|kind| includes(kind, "array"))
        && !fields.contains_key("items")
    {
        fields.insert("items".to_owned(), json!({}));
    }
    Value::Object(fields)
}

/// Adds one keyword of a node to its view.
fn show(
    view: &mut ViewBuilder<'_>,
    source: &Map<String, Value>,
    keyword: &str,
    value: &Value,
    fields: &mut Map<String, Value>,
) {
    let value = match (keyword, value) {
        ("$schema" | "$id" | "id" | "$vocabulary", Value::String(_)) => return,
        ("properties", Value::Object(properties)) => {
            return show_properties(view, source, properties, fields);
        }
        // Older drafts allow duplicate names. If keys were renamed, `required` is already written.
        ("required", Value::Array(_)) if fields.contains_key("required") => return,
        ("required", Value::Array(_)) => json!(node::required(source)),
        ("items", Value::Array(tuple)) => return show_tuple(view, source, tuple, fields),
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
        (_, value) if subschema_form(keyword) == Some(SubschemaForm::One) => {
            view.below(&[keyword], |view| schema(view, value))
        }
        (_, Value::Array(list)) if subschema_form(keyword) == Some(SubschemaForm::List) => {
            schemas(view, keyword, list)
        }
        (_, Value::Object(subschemas)) if subschema_form(keyword) == Some(SubschemaForm::Named) => {
            let mut views = Map::new();
            for (key, value) in subschemas {
                let view = view.below(&[keyword, key], |view| schema(view, value));
                views.insert(key.clone(), view);
            }
            Value::Object(views)
        }
        _ => value.clone(),
    };
    fields.insert(keyword.to_owned(), value);
}

fn schemas(view: &mut ViewBuilder<'_>, keyword: &str, list: &[Value]) -> Value {
    let list = list.iter().enumerate();
    list.map(|(index, part)| view.below(&[keyword, &index.to_string()], |view| schema(view, part)))
        .collect()
}

/// Adds the properties under accepted keys, and `required` with the same keys.
fn show_properties(
    view: &mut ViewBuilder<'_>,
    source: &Map<String, Value>,
    properties: &Map<String, Value>,
    fields: &mut Map<String, Value>,
) {
    let names = view.property_names(properties);
    let mut shown_properties = Map::new();
    for (key, value) in properties {
        let name = names.get(key).unwrap_or(key).clone();
        let property = view.below(&["properties", key], |view| schema(view, value));
        shown_properties.insert(name, property);
    }
    fields.insert("properties".to_owned(), Value::Object(shown_properties));
    if !names.is_empty() && source.contains_key("required") {
        let mut required = node::required(source);
        for name in &mut required {
            if let Some(shown) = names.get(*name) {
                *name = shown;
            }
        }
        fields.insert("required".to_owned(), json!(required));
    }
}

/// Adds a list in `items`, which drafts before 2020-12 allow.
fn show_tuple(
    view: &mut ViewBuilder<'_>,
    source: &Map<String, Value>,
    tuple: &[Value],
    fields: &mut Map<String, Value>,
) {
    fields.insert("prefixItems".to_owned(), schemas(view, "items", tuple));
    let rest = source.get("additionalItems").unwrap_or(&Value::Bool(true));
    fields.insert(
        "items".to_owned(),
        view.below(&["additionalItems"], |view| schema(view, rest)),
    );
    view.change(
        ChangeCode::OlderDraft,
        "a list in \"items\" is written as \"prefixItems\"",
    );
}

/// Returns `true` if a reference has the same target in the view.
fn is_kept(reference: &str) -> bool {
    let definition = reference
        .strip_prefix("#/$defs/")
        .or_else(|| reference.strip_prefix("#/definitions/"));
    reference == "#" || definition.is_some_and(|name| !name.contains('/'))
}
