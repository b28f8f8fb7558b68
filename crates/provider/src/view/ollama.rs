//! Ollama's subset: what its decoder keeps.
//!
//! The tools of `/api/chat` are decoded into Go structs and written into the model's prompt from
//! them, so that every keyword without a field is lost on the way: it is put into the description
//! instead. A field of another type than its struct has makes the whole API request fail.
//!
//! Source: `ollama/ollama`, `api/types.go`, `ToolFunctionParameters` (`type` a string, `$defs`,
//! `items`, `required`, `properties`) and `ToolProperty` (`anyOf`, `type` a string or a list of
//! them, `items`, `description`, `enum`, `properties`, `required`). A property has no `$ref`, so
//! references are replaced, and `$defs` is not needed.

use serde_json::{Map, Value, json};

use super::{ChangeCode, View, kinds, listed, properties, required};

pub(super) fn root(view: &mut View<'_>) -> Value {
    let root = view.root.as_object().cloned().unwrap_or_default();
    let expanded = view.expand(&root).node.into_owned();
    let object = view.one_object(expanded);
    let mut shown = Map::from_iter([("type".to_owned(), json!("object"))]);
    if super::is_open_root(&object) {
        view.change(
            ChangeCode::ValueOpened,
            "any arguments are taken, which is not shown",
        );
    }
    // There is no description at the root.
    if let Some(text) = object.get("description").and_then(Value::as_str) {
        view.notes.push(text.to_owned());
    }
    shape(view, &object, &mut shown);
    shown.entry("properties").or_insert_with(|| json!({}));
    Value::Object(shown)
}

fn schema(view: &mut View<'_>, schema: &Value) -> Value {
    let Value::Object(node) = schema else {
        view.change(
            ChangeCode::ValueOpened,
            "a schema that is true or false is shown as any value",
        );
        return json!({});
    };
    if !view.may_go_on() {
        return json!({});
    }
    let expanded = view.expand(node);
    let node = &*expanded.node;
    let (mut kinds, nullable) = kinds(node);
    if nullable {
        kinds.push("null");
    }
    let mut shown = Map::new();
    match kinds[..] {
        [] => {}
        [kind] => {
            shown.insert("type".to_owned(), json!(kind));
        }
        [..] => {
            shown.insert("type".to_owned(), json!(kinds));
        }
    }
    const KEPT: [&str; 13] = [
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
    if let Some(text) = view.description(node, |keyword| KEPT.contains(&keyword)) {
        shown.insert("description".to_owned(), Value::String(text));
    }
    if let Some(values) = listed(node) {
        let mut values: Vec<Value> = values.into_iter().cloned().collect();
        if nullable && !values.contains(&Value::Null) {
            values.push(Value::Null);
        }
        shown.insert("enum".to_owned(), Value::Array(values));
        if node.contains_key("const") {
            view.change(ChangeCode::ConstMadeEnum, "\"const\" is shown as \"enum\"");
        }
    }
    for keyword in ["anyOf", "oneOf"] {
        let Some(Value::Array(ways)) = node.get(keyword) else {
            continue;
        };
        if shown.contains_key("anyOf") {
            view.dropped(keyword);
            continue;
        }
        if keyword == "oneOf" {
            view.change(
                ChangeCode::OneOfMadeAnyOf,
                "\"oneOf\" is shown as \"anyOf\"",
            );
        }
        let ways = ways.iter().enumerate();
        let ways = ways
            .map(|(i, way)| view.below(&[keyword, &i.to_string()], |view| self::schema(view, way)));
        shown.insert("anyOf".to_owned(), ways.collect());
    }
    shape(view, node, &mut shown);
    Value::Object(shown)
}

/// Properties and items.
fn shape(view: &mut View<'_>, node: &Map<String, Value>, shown: &mut Map<String, Value>) {
    if let Some(properties) = properties(node) {
        let properties = properties.iter().map(|(key, value)| {
            (
                key.clone(),
                view.below(&["properties", key], |view| schema(view, value)),
            )
        });
        shown.insert("properties".to_owned(), Value::Object(properties.collect()));
    }
    let names = required(node);
    if !names.is_empty() {
        shown.insert("required".to_owned(), json!(names));
    }
    if node
        .get("additionalProperties")
        .is_some_and(|more| *more != Value::Bool(false))
    {
        view.dropped("additionalProperties");
    }
    let tuple = node
        .get("prefixItems")
        .or_else(|| node.get("items").filter(|items| items.is_array()));
    match (tuple, node.get("items")) {
        (Some(Value::Array(tuple)), _) => {
            view.change(
                ChangeCode::TypesMadeAnyOf,
                "a schema for each place is shown as \"anyOf\"",
            );
            let places = json!({"anyOf": tuple});
            shown.insert(
                "items".to_owned(),
                view.below(&["items"], |view| schema(view, &places)),
            );
        }
        (None, Some(items @ Value::Object(_))) => {
            shown.insert(
                "items".to_owned(),
                view.below(&["items"], |view| schema(view, items)),
            );
        }
        _ => {}
    }
}
