//! Gemini's schema dialect: the message `Schema` of its API, an OpenAPI 3.0 schema object with
//! fewer keywords.
//!
//! It has no references, `const`, `oneOf`, `allOf` or maps. A `type` is a single type, only strings
//! have listed values, and an object has properties. A value without a matching type becomes a
//! string with JSON text, which is decoded in calls.
//!
//! Sources: `ai.google.dev/api/caching#Schema` and `#FunctionDeclaration`; the errors "enum: only
//! allowed for STRING type", "only 'enum' and 'date-time' are supported for STRING type",
//! "properties: should be non-empty for OBJECT type", "enum[0]: cannot be empty", and Vertex AI's
//! "When using any_of, it must be the only field set".

use serde_json::{Map, Value, json};

use super::builder::{ANNOTATIONS, ViewBuilder};
use super::node::{is_open_root, kinds, properties, required, text_member};
use crate::changes::ChangeCode;
use picktools::schema::DEFINITIONS;

/// Constraint keywords of `Schema` by type.
const STRING: [&str; 3] = ["minLength", "maxLength", "pattern"];
const NUMBER: [&str; 2] = ["minimum", "maximum"];
const ARRAY: [&str; 2] = ["minItems", "maxItems"];
const OBJECT: [&str; 2] = ["minProperties", "maxProperties"];

/// Returns `true` if a format is supported. `Schema.format`: "for NUMBER type: float, double; for
/// INTEGER type: int32, int64; for STRING type: enum, date-time".
fn knows_format(kind: &str, format: &str) -> bool {
    match kind {
        "number" => ["float", "double"].contains(&format),
        "integer" => ["int32", "int64"].contains(&format),
        "string" => format == "date-time",
        _ => false,
    }
}

pub(super) fn root(view: &mut ViewBuilder<'_>) -> Option<Value> {
    let root = view.root.as_object()?;
    let expanded = view.expand(root).node.into_owned();
    let object = view.merge_root(expanded);
    if is_open_root(&object) {
        view.change(
            ChangeCode::ValueOpened,
            "the root accepts any arguments, which the format cannot express; the view has none",
        );
        return None;
    }
    (!all_properties(&object).is_empty()).then(|| object_schema(view, &object))
}

fn schema(view: &mut ViewBuilder<'_>, schema: &Value) -> Value {
    let Value::Object(node) = schema else {
        return json_text_schema(view, None, "any value");
    };
    if !view.count_node() {
        return json_text_schema(view, None, "a value");
    }
    let expanded = view.expand(node);
    let node = &*expanded.node;
    if expanded.cut {
        return json_text_schema(view, Some(node), "a value");
    }
    let mut alternative_lists: Vec<(&str, &Vec<Value>)> = Vec::new();
    for keyword in ["anyOf", "oneOf"] {
        if let Some(Value::Array(alternatives)) = node.get(keyword) {
            alternative_lists.push((keyword, alternatives));
        }
    }
    if let Some((keyword, alternatives)) = alternative_lists.first()
        && properties(node).is_none()
        && !node.contains_key("items")
    {
        return alternatives_schema(view, node, keyword, alternatives);
    }
    if let Some(values) = view.listed_values(node) {
        return enum_schema(view, node, &values);
    }
    let (kinds, nullable) = kinds(node);
    let mut schema_view = match kinds[..] {
        [] if nullable => json_text_schema(view, Some(node), "null"),
        [] => json_text_schema(view, Some(node), "any value"),
        [kind] => kind_schema(view, kind, node),
        [..] => {
            view.change(
                ChangeCode::TypesMadeAnyOf,
                "several types are shown as \"anyOf\"",
            );
            let mut alternatives: Vec<Value> = Vec::with_capacity(kinds.len());
            for (index, kind) in kinds.iter().enumerate() {
                let mut alternative = kind_schema(view, kind, node);
                // Only the first alternative has the description.
                if index > 0
                    && let Value::Object(fields) = &mut alternative
                {
                    fields.shift_remove("description");
                }
                alternatives.push(alternative);
            }
            json!({"anyOf": alternatives})
        }
    };
    if nullable {
        make_nullable(&mut schema_view);
    }
    schema_view
}

fn alternatives_schema(
    view: &mut ViewBuilder<'_>,
    node: &Map<String, Value>,
    keyword: &str,
    alternatives: &[Value],
) -> Value {
    if keyword == "oneOf" {
        view.change(
            ChangeCode::OneOfMadeAnyOf,
            "\"oneOf\" is shown as \"anyOf\"",
        );
    }
    if keyword == "anyOf" && node.contains_key("oneOf") {
        view.dropped("oneOf");
    }
    let mut nullable = node.get("nullable") == Some(&Value::Bool(true));
    let mut alternatives_shown = Vec::with_capacity(alternatives.len());
    for (index, alternative) in alternatives.iter().enumerate() {
        let mut alternative = alternative.clone();
        if let Value::Object(alternative) = &mut alternative {
            if alternative.get("type") == Some(&json!("null")) {
                nullable = true;
                continue;
            }
            // The keywords next to the alternatives apply to each of them.
            let is_reference = alternative.contains_key("$ref");
            for (sibling, value) in node {
                if ["anyOf", "oneOf", "description"].contains(&sibling.as_str())
                    || ANNOTATIONS.contains(&sibling.as_str())
                {
                    continue;
                }
                if !is_reference {
                    alternative
                        .entry(sibling.clone())
                        .or_insert_with(|| value.clone());
                } else if !["type", "nullable"].contains(&sibling.as_str()) {
                    view.dropped(sibling);
                }
            }
        }
        let alternative_view = view.below(&[keyword, &index.to_string()], |view| {
            schema(view, &alternative)
        });
        // Nested alternatives become alternatives of this list.
        match alternative_view.get("anyOf") {
            Some(Value::Array(inner)) => alternatives_shown.extend(inner.iter().cloned()),
            _ => alternatives_shown.push(alternative_view),
        }
    }
    let mut schema_view = match alternatives_shown.len() {
        0 => return json_text_schema(view, Some(node), "any value"),
        1 => alternatives_shown.swap_remove(0),
        _ => json!({"anyOf": alternatives_shown}),
    };
    if let Some(text) = text_member(node, "description") {
        describe(&mut schema_view, text);
    }
    if nullable {
        make_nullable(&mut schema_view);
    }
    schema_view
}

/// Adds the description of a node to its view.
///
/// Gemini allows no keywords next to alternatives, so that the first of them gets the description.
fn describe(schema_view: &mut Value, text: &str) {
    let first = match schema_view.get_mut("anyOf") {
        Some(alternatives) => alternatives.get_mut(0),
        None => Some(schema_view),
    };
    if let Some(Value::Object(first)) = first {
        let own_text = text_member(first, "description").unwrap_or_default();
        let text = if own_text.is_empty() {
            text.to_owned()
        } else {
            format!("{text} {own_text}")
        };
        first.insert("description".to_owned(), Value::String(text));
    }
}

fn make_nullable(schema_view: &mut Value) {
    if let Some(Value::Array(alternatives)) = schema_view.get_mut("anyOf") {
        alternatives.iter_mut().for_each(make_nullable);
    } else if let Value::Object(schema_view) = schema_view {
        schema_view.insert("nullable".to_owned(), Value::Bool(true));
    }
}

/// Builds the schema of listed values, which must be strings.
fn enum_schema(view: &mut ViewBuilder<'_>, node: &Map<String, Value>, values: &[&Value]) -> Value {
    let nullable = values.iter().any(|value| value.is_null())
        || node.get("nullable") == Some(&Value::Bool(true));
    if values
        .iter()
        .any(|value| !value.is_string() && !value.is_null())
    {
        view.change(
            ChangeCode::ValuesAsText,
            "the listed values are shown as strings; calls are converted back",
        );
    }
    let mut texts: Vec<String> = Vec::with_capacity(values.len());
    for value in values {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if text.is_empty() {
            view.change(
                ChangeCode::ValueDropped,
                "an empty string cannot be a listed value",
            );
        } else if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let mut fields = Map::from_iter([("type".to_owned(), json!("STRING"))]);
    let keep = |keyword: &str| {
        [
            "type",
            "enum",
            "const",
            "description",
            "nullable",
            "format",
            "anyOf",
            "oneOf",
        ]
        .contains(&keyword)
    };
    if let Some(text) = view.description(node, keep) {
        fields.insert("description".to_owned(), Value::String(text));
    }
    if !texts.is_empty() {
        fields.insert("enum".to_owned(), json!(texts));
    }
    if nullable {
        fields.insert("nullable".to_owned(), Value::Bool(true));
    }
    Value::Object(fields)
}

fn kind_schema(view: &mut ViewBuilder<'_>, kind: &str, node: &Map<String, Value>) -> Value {
    match kind {
        "object" if all_properties(node).is_empty() => {
            json_text_schema(view, Some(node), "an object")
        }
        "object" => object_schema(view, node),
        "array" => {
            let mut fields = typed_fields("ARRAY", kind, view, node, &ARRAY);
            let has_positions =
                node.contains_key("prefixItems") || node.get("items").is_some_and(Value::is_array);
            let keyword_after = match node.contains_key("prefixItems") {
                true => "items",
                false => "additionalItems",
            };
            if has_positions && node.contains_key(keyword_after) {
                view.dropped(keyword_after);
            }
            let items = match node.get("items") {
                Some(items @ Value::Object(_)) if !node.contains_key("prefixItems") => {
                    items.clone()
                }
                _ => match node.get("prefixItems").or_else(|| node.get("items")) {
                    Some(Value::Array(tuple)) if !tuple.is_empty() => {
                        view.change(
                            ChangeCode::TypesMadeAnyOf,
                            "a schema for each position is shown as \"anyOf\"",
                        );
                        json!({"anyOf": tuple})
                    }
                    _ => json!({}),
                },
            };
            let items = view.below(&["items"], |view| schema(view, &items));
            fields.insert("items".to_owned(), items);
            Value::Object(fields)
        }
        "number" => Value::Object(typed_fields("NUMBER", kind, view, node, &NUMBER)),
        "integer" => Value::Object(typed_fields("INTEGER", kind, view, node, &NUMBER)),
        "boolean" => Value::Object(typed_fields("BOOLEAN", kind, view, node, &[])),
        _ => Value::Object(typed_fields("STRING", kind, view, node, &STRING)),
    }
}

fn object_schema(view: &mut ViewBuilder<'_>, node: &Map<String, Value>) -> Value {
    let mut fields = typed_fields("OBJECT", "object", view, node, &OBJECT);
    let properties = all_properties(node);
    let names = view.property_names(&properties);
    let mut shown_properties: Map<String, Value> = Map::new();
    for (key, value) in &properties {
        let name = names.get(key).unwrap_or(key).clone();
        let property = view.below(&["properties", key], |view| schema(view, value));
        shown_properties.insert(name, property);
    }
    let mut required = required(node);
    for name in &mut required {
        if let Some(shown) = names.get(*name) {
            *name = shown;
        }
    }
    fields.insert("properties".to_owned(), Value::Object(shown_properties));
    if !required.is_empty() {
        fields.insert("required".to_owned(), json!(required));
    }
    Value::Object(fields)
}

/// Returns the properties of an object, including those that it only requires, because every
/// required name must be a property.
fn all_properties(node: &Map<String, Value>) -> Map<String, Value> {
    let mut all = properties(node).cloned().unwrap_or_default();
    for name in required(node) {
        if !all.contains_key(name) {
            all.insert(name.to_owned(), json!({}));
        }
    }
    all
}

/// Returns the fields of a type, except for its properties and items.
fn typed_fields(
    name: &str,
    kind: &str,
    view: &mut ViewBuilder<'_>,
    node: &Map<String, Value>,
    type_keywords: &[&str],
) -> Map<String, Value> {
    const SHAPE: [&str; 12] = [
        "type",
        "description",
        "nullable",
        "properties",
        "required",
        "items",
        "prefixItems",
        "additionalItems",
        "additionalProperties",
        "anyOf",
        "oneOf",
        "title",
    ];
    let is_supported = |keyword: &str, value: &Value| {
        type_keywords.contains(&keyword)
            && match keyword {
                "pattern" => value.is_string(),
                "minimum" | "maximum" => value.is_number(),
                _ => value.is_u64(),
            }
            || keyword == "format"
                && value
                    .as_str()
                    .is_some_and(|format| knows_format(kind, format))
    };
    let mut fields = Map::from_iter([("type".to_owned(), json!(name))]);
    for definitions in DEFINITIONS {
        if node.contains_key(definitions) {
            view.change(
                ChangeCode::ReferenceInlined,
                "references are replaced by their targets",
            );
        }
    }
    let keep = |keyword: &str| {
        SHAPE.contains(&keyword)
            || DEFINITIONS.contains(&keyword)
            || node
                .get(keyword)
                .is_some_and(|value| is_supported(keyword, value))
    };
    if node
        .get("additionalProperties")
        .is_some_and(|schema| *schema != Value::Bool(false))
    {
        view.dropped("additionalProperties");
    }
    for alternatives in ["anyOf", "oneOf"] {
        if node.contains_key(alternatives) {
            view.dropped(alternatives);
        }
    }
    if let Some(text) = view.description(node, keep) {
        fields.insert("description".to_owned(), Value::String(text));
    }
    for (keyword, value) in node {
        if is_supported(keyword, value) {
            fields.insert(keyword.clone(), value.clone());
        }
    }
    fields
}

/// Builds the schema of a value without a matching type: a string with JSON text.
fn json_text_schema(
    view: &mut ViewBuilder<'_>,
    node: Option<&Map<String, Value>>,
    what: &str,
) -> Value {
    let kind = node.and_then(|node| kinds(node).0.first().copied());
    let what = match kind {
        Some("object") => "an object",
        Some("array") => "an array",
        _ => what,
    };
    view.change(
        ChangeCode::JsonText,
        format!("{what} has no matching type in the format: shown as a string with JSON text"),
    );
    let note = format!("JSON text of {what}.");
    let own_text = node.and_then(|node| text_member(node, "description"));
    let text = match own_text.unwrap_or_default().trim_end() {
        "" => note,
        own_text => format!("{own_text} {note}"),
    };
    let mut schema_view = json!({"type": "STRING", "description": text});
    if node.is_some_and(|node| kinds(node).1) {
        make_nullable(&mut schema_view);
    }
    schema_view
}
