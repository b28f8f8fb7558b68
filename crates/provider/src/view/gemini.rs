//! Gemini's subset: the message `Schema` of its API, an OpenAPI 3.0 schema object with fewer
//! keywords.
//!
//! There are no references, no `const`, `oneOf`, `allOf` or maps; a `type` is one; values are
//! listed for strings only; an object has properties. What has no such shape is a string that holds
//! JSON text, which the call side decodes.
//!
//! Sources: `ai.google.dev/api/caching#Schema` and `#FunctionDeclaration`; the errors "enum: only
//! allowed for STRING type", "only 'enum' and 'date-time' are supported for STRING type",
//! "properties: should be non-empty for OBJECT type", "enum[0]: cannot be empty", and Vertex AI's
//! "When using any_of, it must be the only field set".

use serde_json::{Map, Value, json};

use super::{ChangeCode, View, is_open_root, kinds, listed, properties, required};
use picktools::schema::DEFINITIONS;

/// `Schema` fields by kind, beside those of shape.
const STRING: [&str; 3] = ["minLength", "maxLength", "pattern"];
const NUMBER: [&str; 2] = ["minimum", "maximum"];
const ARRAY: [&str; 2] = ["minItems", "maxItems"];
const OBJECT: [&str; 2] = ["minProperties", "maxProperties"];

/// `Schema.format`: "for NUMBER type: float, double; for INTEGER type: int32, int64; for STRING
/// type: enum, date-time".
fn knows_format(kind: &str, format: &str) -> bool {
    match kind {
        "number" => ["float", "double"].contains(&format),
        "integer" => ["int32", "int64"].contains(&format),
        "string" => format == "date-time",
        _ => false,
    }
}

pub(super) fn root(view: &mut View<'_>) -> Option<Value> {
    let root = view.root.as_object()?;
    let expanded = view.expand(root).node.into_owned();
    let object = view.one_object(expanded);
    if is_open_root(&object) {
        view.change(
            ChangeCode::ValueOpened,
            "any arguments are taken, which cannot be shown: none are",
        );
        return None;
    }
    (!named(&object).is_empty()).then(|| object_of(view, &object))
}

fn schema(view: &mut View<'_>, schema: &Value) -> Value {
    let Value::Object(node) = schema else {
        return as_text(view, None, "any value");
    };
    if !view.may_go_on() {
        return as_text(view, None, "a value");
    }
    let expanded = view.expand(node);
    let node = &*expanded.node;
    if expanded.cut {
        return as_text(view, Some(node), "a value");
    }
    let mut ways: Vec<(&str, &Vec<Value>)> = Vec::new();
    for keyword in ["anyOf", "oneOf"] {
        if let Some(Value::Array(alternatives)) = node.get(keyword) {
            ways.push((keyword, alternatives));
        }
    }
    if let Some((keyword, alternatives)) = ways.first()
        && properties(node).is_none()
        && !node.contains_key("items")
    {
        return any_of(view, node, keyword, alternatives);
    }
    if let Some(values) = listed(node) {
        return one_of(view, node, &values);
    }
    let (kinds, nullable) = kinds(node);
    let mut shown = match kinds[..] {
        [] if nullable => as_text(view, Some(node), "null"),
        [] => as_text(view, Some(node), "any value"),
        [kind] => of_kind(view, kind, node),
        [..] => {
            view.change(
                ChangeCode::TypesMadeAnyOf,
                "several types are shown as \"anyOf\"",
            );
            let mut shown: Vec<Value> =
                kinds.iter().map(|kind| of_kind(view, kind, node)).collect();
            // One of them has the description for all.
            shown
                .iter_mut()
                .skip(1)
                .filter_map(Value::as_object_mut)
                .for_each(|way| {
                    way.shift_remove("description");
                });
            json!({"anyOf": shown})
        }
    };
    if nullable {
        make_nullable(&mut shown);
    }
    shown
}

fn any_of(
    view: &mut View<'_>,
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
    let mut nullable = node.get("nullable") == Some(&Value::Bool(true));
    let mut shown = Vec::with_capacity(alternatives.len());
    for (index, way) in alternatives.iter().enumerate() {
        let mut way = way.clone();
        if let Value::Object(way) = &mut way {
            if way.get("type") == Some(&json!("null")) {
                nullable = true;
                continue;
            }
            // What stands beside the alternatives holds for each.
            for (beside, value) in node
                .iter()
                .filter(|(key, _)| !["anyOf", "oneOf", "description"].contains(&key.as_str()))
            {
                if !super::NOTES.contains(&beside.as_str()) && !way.contains_key("$ref") {
                    way.entry(beside.clone()).or_insert_with(|| value.clone());
                }
            }
        }
        let shown_way = view.below(&[keyword, &index.to_string()], |view| schema(view, &way));
        // Alternatives of alternatives are alternatives.
        match shown_way.get("anyOf").and_then(Value::as_array) {
            Some(inner) => shown.extend(inner.iter().cloned()),
            None => shown.push(shown_way),
        }
    }
    let mut whole = match shown.len() {
        0 => return as_text(view, Some(node), "any value"),
        1 => shown.swap_remove(0),
        _ => json!({"anyOf": shown}),
    };
    if let Some(text) = node.get("description").and_then(Value::as_str) {
        describe(&mut whole, text);
    }
    if nullable {
        make_nullable(&mut whole);
    }
    whole
}

/// Beside alternatives nothing may stand, so that the first of them carries what is said of all.
fn describe(shown: &mut Value, text: &str) {
    let first = match shown.get_mut("anyOf") {
        Some(ways) => ways.get_mut(0),
        None => Some(shown),
    };
    if let Some(Value::Object(first)) = first {
        let own = first
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let text = if own.is_empty() {
            text.to_owned()
        } else {
            format!("{text} {own}")
        };
        first.insert("description".to_owned(), Value::String(text));
    }
}

fn make_nullable(shown: &mut Value) {
    if let Some(Value::Array(ways)) = shown.get_mut("anyOf") {
        ways.iter_mut().for_each(make_nullable);
    } else if let Value::Object(shown) = shown {
        shown.insert("nullable".to_owned(), Value::Bool(true));
    }
}

/// Values out of a list, which are strings here.
fn one_of(view: &mut View<'_>, node: &Map<String, Value>, values: &[&Value]) -> Value {
    let nullable = values.iter().any(|value| value.is_null())
        || node.get("nullable") == Some(&Value::Bool(true));
    if values
        .iter()
        .any(|value| !value.is_string() && !value.is_null())
    {
        view.change(
            ChangeCode::ValuesAsText,
            "the listed values are shown as strings, which the call side undoes",
        );
    }
    let mut texts: Vec<String> = Vec::with_capacity(values.len());
    for value in values.iter().filter(|value| !value.is_null()) {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        if text.is_empty() {
            view.change(ChangeCode::ValueDropped, "an empty string cannot be listed");
        } else if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let mut shown = Map::from_iter([("type".to_owned(), json!("STRING"))]);
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
        shown.insert("description".to_owned(), Value::String(text));
    }
    if !texts.is_empty() {
        shown.insert("enum".to_owned(), json!(texts));
    }
    if nullable {
        shown.insert("nullable".to_owned(), Value::Bool(true));
    }
    Value::Object(shown)
}

fn of_kind(view: &mut View<'_>, kind: &str, node: &Map<String, Value>) -> Value {
    match kind {
        "object" if named(node).is_empty() => as_text(view, Some(node), "an object"),
        "object" => object_of(view, node),
        "array" => {
            let mut shown = shown_as("ARRAY", kind, view, node, &ARRAY);
            let items = match node.get("items") {
                Some(items @ Value::Object(_)) if !node.contains_key("prefixItems") => {
                    items.clone()
                }
                _ => match node.get("prefixItems").or_else(|| node.get("items")) {
                    Some(Value::Array(tuple)) if !tuple.is_empty() => {
                        view.change(
                            ChangeCode::TypesMadeAnyOf,
                            "a schema for each place is shown as \"anyOf\"",
                        );
                        json!({"anyOf": tuple})
                    }
                    _ => json!({}),
                },
            };
            let items = view.below(&["items"], |view| schema(view, &items));
            shown.insert("items".to_owned(), items);
            Value::Object(shown)
        }
        "number" => Value::Object(shown_as("NUMBER", kind, view, node, &NUMBER)),
        "integer" => Value::Object(shown_as("INTEGER", kind, view, node, &NUMBER)),
        "boolean" => Value::Object(shown_as("BOOLEAN", kind, view, node, &[])),
        _ => Value::Object(shown_as("STRING", kind, view, node, &STRING)),
    }
}

fn object_of(view: &mut View<'_>, node: &Map<String, Value>) -> Value {
    let mut shown = shown_as("OBJECT", "object", view, node, &OBJECT);
    let properties = named(node);
    let names = view.property_names(&properties);
    let shown_properties: Map<String, Value> = properties
        .iter()
        .map(|(key, value)| {
            let name = names.get(key).unwrap_or(key).clone();
            (
                name,
                view.below(&["properties", key], |view| schema(view, value)),
            )
        })
        .collect();
    let required: Vec<&str> = required(node)
        .into_iter()
        .map(|name| names.get(name).map_or(name, String::as_str))
        .collect();
    shown.insert("properties".to_owned(), Value::Object(shown_properties));
    if !required.is_empty() {
        shown.insert("required".to_owned(), json!(required));
    }
    Value::Object(shown)
}

/// The properties of an object, also those that it only requires: each required name must be a
/// property.
fn named(node: &Map<String, Value>) -> Map<String, Value> {
    let mut named = properties(node).cloned().unwrap_or_default();
    for name in required(node) {
        if !named.contains_key(name) {
            named.insert(name.to_owned(), json!({}));
        }
    }
    named
}

/// The fields that a kind has, but for those of shape.
fn shown_as(
    name: &str,
    kind: &str,
    view: &mut View<'_>,
    node: &Map<String, Value>,
    known: &[&str],
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
    let keeps = |keyword: &str, value: &Value| {
        known.contains(&keyword)
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
    let mut shown = Map::from_iter([("type".to_owned(), json!(name))]);
    for definitions in DEFINITIONS {
        if node.contains_key(definitions) {
            view.change(
                ChangeCode::ReferenceInlined,
                "references are replaced by what they refer to",
            );
        }
    }
    let keep = |keyword: &str| {
        SHAPE.contains(&keyword)
            || DEFINITIONS.contains(&keyword)
            || node.get(keyword).is_some_and(|value| keeps(keyword, value))
    };
    if node
        .get("additionalProperties")
        .is_some_and(|more| *more != Value::Bool(false))
    {
        view.dropped("additionalProperties");
    }
    if let Some(text) = view.description(node, keep) {
        shown.insert("description".to_owned(), Value::String(text));
    }
    for (keyword, value) in node {
        if keeps(keyword, value) {
            shown.insert(keyword.clone(), value.clone());
        }
    }
    shown
}

/// What has no shape here is a string that holds JSON.
fn as_text(view: &mut View<'_>, node: Option<&Map<String, Value>>, what: &str) -> Value {
    let kind = node.and_then(|node| kinds(node).0.first().copied());
    let what = match kind {
        Some("object") => "an object",
        Some("array") => "an array",
        _ => what,
    };
    view.change(
        ChangeCode::JsonText,
        format!("{what} that has no shape here: a string that holds it as JSON text"),
    );
    let said = format!("JSON text of {what}.");
    let own = node
        .and_then(|node| node.get("description"))
        .and_then(Value::as_str)
        .map(str::trim_end);
    let text = match own {
        Some(own) if !own.is_empty() => format!("{own} {said}"),
        _ => said,
    };
    let mut shown = json!({"type": "STRING", "description": text});
    if node.is_some_and(|node| kinds(node).1) {
        make_nullable(&mut shown);
    }
    shown
}
