//! Ollama's schema dialect: the keywords that its decoder keeps.
//!
//! The tools of `/api/chat` are decoded into Go structs, from which Ollama writes the prompt. A
//! keyword without a field would be lost, so that it is added to the description. A field of the
//! wrong type makes the whole API request fail.
//!
//! Source: `ollama/ollama`, `api/types.go`, `ToolFunctionParameters` (`type` a string, `$defs`,
//! `items`, `required`, `properties`) and `ToolProperty` (`anyOf`, `type` a string or a list of
//! them, `items`, `description`, `enum`, `properties`, `required`). A property has no `$ref`, so
//! references are replaced, and `$defs` is not needed.

use serde_json::{Map, Value, json};

use super::builder::ViewBuilder;
use super::node::{is_open_root, kinds, properties, required, text_member};
use crate::changes::ChangeCode;

pub(super) fn root(view: &mut ViewBuilder<'_>) -> Value {
    let root = view.root.as_object().cloned().unwrap_or_default();
    let expanded = view.expand(&root).node.into_owned();
    let object = view.merge_root(expanded);
    let mut fields = Map::from_iter([("type".to_owned(), json!("object"))]);
    if is_open_root(&object) {
        view.change(
            ChangeCode::ValueOpened,
            "the root accepts any arguments, which the view does not show",
        );
    }
    // The root has no description.
    if let Some(text) = text_member(&object, "description") {
        view.notes.push(text.to_owned());
    }
    shape(view, &object, &mut fields);
    fields.entry("properties").or_insert_with(|| json!({}));
    Value::Object(fields)
}

fn schema(view: &mut ViewBuilder<'_>, schema: &Value) -> Value {
    let Value::Object(node) = schema else {
        view.change(
            ChangeCode::ValueOpened,
            "a boolean schema is shown as any value",
        );
        return json!({});
    };
    if !view.count_node() {
        return json!({});
    }
    let expanded = view.expand(node);
    let node = &*expanded.node;
    let (mut kinds, nullable) = kinds(node);
    if nullable {
        kinds.push("null");
    }
    let mut fields = Map::new();
    match kinds[..] {
        [] => {}
        [kind] => {
            fields.insert("type".to_owned(), json!(kind));
        }
        [..] => {
            fields.insert("type".to_owned(), json!(kinds));
        }
    }
    const SUPPORTED: [&str; 13] = [
        "type",
        "description",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "items",
        "prefixItems",
        "properties",
        "required",
        "nullable",
        "additionalProperties",
        "$defs",
    ];
    if let Some(text) = view.description(node, |keyword| SUPPORTED.contains(&keyword)) {
        fields.insert("description".to_owned(), Value::String(text));
    }
    if let Some(values) = view.listed_values(node) {
        let mut values: Vec<Value> = values.into_iter().cloned().collect();
        if nullable && !values.contains(&Value::Null) {
            values.push(Value::Null);
        }
        fields.insert("enum".to_owned(), Value::Array(values));
        if node.contains_key("const") {
            view.change(ChangeCode::ConstMadeEnum, "\"const\" is shown as \"enum\"");
        }
    }
    add_alternatives(view, node, &mut fields);
    shape(view, node, &mut fields);
    Value::Object(fields)
}

/// Adds the alternatives of a node; a second list of alternatives is omitted.
fn add_alternatives(
    view: &mut ViewBuilder<'_>,
    node: &Map<String, Value>,
    fields: &mut Map<String, Value>,
) {
    for keyword in ["anyOf", "oneOf"] {
        let Some(Value::Array(alternatives)) = node.get(keyword) else {
            continue;
        };
        if fields.contains_key("anyOf") {
            view.dropped(keyword);
            continue;
        }
        if keyword == "oneOf" {
            view.change(
                ChangeCode::OneOfMadeAnyOf,
                "\"oneOf\" is shown as \"anyOf\"",
            );
        }
        let mut alternative_views = Vec::with_capacity(alternatives.len());
        for (index, alternative) in alternatives.iter().enumerate() {
            let index = index.to_string();
            alternative_views
                .push(view.below(&[keyword, &index], |view| schema(view, alternative)));
        }
        fields.insert("anyOf".to_owned(), Value::Array(alternative_views));
    }
}

/// Adds properties and items.
fn shape(view: &mut ViewBuilder<'_>, node: &Map<String, Value>, fields: &mut Map<String, Value>) {
    if let Some(properties) = properties(node) {
        let mut shown_properties = Map::new();
        for (key, value) in properties {
            let property = view.below(&["properties", key], |view| schema(view, value));
            shown_properties.insert(key.clone(), property);
        }
        fields.insert("properties".to_owned(), Value::Object(shown_properties));
    }
    let names = required(node);
    if !names.is_empty() {
        fields.insert("required".to_owned(), json!(names));
    }
    if node
        .get("additionalProperties")
        .is_some_and(|schema| *schema != Value::Bool(false))
    {
        view.dropped("additionalProperties");
    }
    match (node.get("prefixItems"), node.get("items")) {
        (Some(Value::Array(tuple)), _) | (None, Some(Value::Array(tuple))) => {
            view.change(
                ChangeCode::TypesMadeAnyOf,
                "a schema for each position is shown as \"anyOf\"",
            );
            let positions = json!({"anyOf": tuple});
            fields.insert(
                "items".to_owned(),
                view.below(&["items"], |view| schema(view, &positions)),
            );
        }
        (None, Some(items @ Value::Object(_))) => {
            fields.insert(
                "items".to_owned(),
                view.below(&["items"], |view| schema(view, items)),
            );
        }
        _ => {}
    }
}
