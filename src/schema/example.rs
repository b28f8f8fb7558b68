//! Small valid example arguments for a schema, for error messages.
//!
//! An example has only the required members, with values that the schema itself names if possible.
//! Each example is validated against the schema. A schema that the builder cannot satisfy has no
//! example, never a wrong one.

use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Value, json};

use super::reference::resolve;
use super::validators::ArgumentCheck;

/// The most values in an example.
const MAX_VALUES: usize = 500;
/// The deepest nesting of an example, including references.
const MAX_DEPTH: usize = 32;
/// The longest text, in characters.
const MAX_TEXT: usize = 1000;
/// The number of alternatives of `anyOf`, `oneOf` and `enum` that are tried.
const ATTEMPTS: usize = 6;

/// Example texts for the formats of JSON Schema.
const FORMATS: [(&str, &str); 14] = [
    ("date", "2026-01-31"),
    ("date-time", "2026-01-31T12:00:00Z"),
    ("time", "12:00:00Z"),
    ("duration", "PT1H"),
    ("email", "user@example.org"),
    ("idn-email", "user@example.org"),
    ("hostname", "example.org"),
    ("ipv4", "192.0.2.1"),
    ("ipv6", "2001:db8::1"),
    ("uri", "https://example.org/"),
    ("url", "https://example.org/"),
    ("uri-reference", "/path"),
    ("uuid", "3f2b1c9e-6d2a-4c1b-9a57-0f6d8f1f2a11"),
    ("byte", "dGV4dA=="),
];

/// Returns a small value that `schema` accepts as arguments, if one is found.
pub(super) fn example(schema: &Value, check: &ArgumentCheck) -> Option<Value> {
    for choice in 0..ATTEMPTS {
        for hints in [true, false] {
            let mut builder = ExampleBuilder {
                root: schema,
                values: 0,
                choice,
                hints,
            };
            let value = builder.value(schema, 0);
            if let Some(value) = value
                && check.accepts(&value)
            {
                return Some(value);
            }
        }
    }
    None
}

impl ArgumentCheck {
    /// Returns small valid example arguments, if some are found.
    pub fn example(&self, schema: &Value) -> Option<Value> {
        example(schema, self)
    }
}

struct ExampleBuilder<'a> {
    root: &'a Value,
    /// The number of values that were built so far.
    values: usize,
    /// The index of the alternative that is used, modulo their number.
    choice: usize,
    /// If `true`, the schema's own defaults and examples are used.
    hints: bool,
}

impl ExampleBuilder<'_> {
    fn value(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        self.values += 1;
        if depth > MAX_DEPTH || self.values > MAX_VALUES {
            return None;
        }
        let schema = match schema {
            Value::Bool(true) => return Some(json!("text")),
            Value::Object(_) => self.merged(schema, depth)?,
            _ => return None,
        };
        if let Some(value) = schema.get("const") {
            return Some(value.clone());
        }
        if let Some(Value::Array(options)) = schema.get("enum") {
            return options.get(self.choice % options.len().max(1)).cloned();
        }
        if self.hints
            && let Some(value) = hint(&schema)
            && !value.is_null()
        {
            return Some(value.clone());
        }
        match kind(&schema).unwrap_or(if depth == 0 { "object" } else { "string" }) {
            "object" => self.object(&schema, depth),
            "array" => self.array(&schema, depth),
            "string" => self.text(&schema),
            "integer" => number(&schema, true),
            "number" => number(&schema, false),
            "boolean" => Some(json!(true)),
            _ => Some(Value::Null),
        }
    }

    /// Merges a schema with the target of its reference, all of `allOf`, and one alternative each
    /// of `anyOf` and `oneOf`.
    fn merged(&self, schema: &Value, depth: usize) -> Option<Map<String, Value>> {
        let mut merged = Map::new();
        let mut parts = vec![(schema, depth)];
        let mut steps = 0;
        while let Some((part, depth)) = parts.pop() {
            steps += 1;
            if depth > MAX_DEPTH || steps > MAX_VALUES {
                return None;
            }
            let Some(part) = part.as_object() else {
                if part == &Value::Bool(false) {
                    return None;
                }
                continue;
            };
            if let Some(Value::String(reference)) = part.get("$ref") {
                parts.push((resolve(self.root, reference)?, depth + 1));
            }
            if let Some(Value::Array(all)) = part.get("allOf") {
                for part in all {
                    parts.push((part, depth + 1));
                }
            }
            for alternatives in ["anyOf", "oneOf"] {
                if let Some(Value::Array(schemas)) = part.get(alternatives) {
                    parts.push((schemas.get(self.choice % schemas.len().max(1))?, depth + 1));
                }
            }
            for (key, value) in part {
                merge(&mut merged, key, value);
            }
        }
        Some(merged)
    }

    fn object(&mut self, schema: &Map<String, Value>, depth: usize) -> Option<Value> {
        let no_properties = Map::new();
        let properties = match schema.get("properties") {
            Some(Value::Object(properties)) => properties,
            _ => &no_properties,
        };
        let required = match schema.get("required") {
            Some(Value::Array(names)) => &names[..],
            _ => &[],
        };
        let min_members = usize::try_from(unsigned(schema, "minProperties").unwrap_or(0)).ok()?;
        let any = Value::Bool(true);
        let additional = schema.get("additionalProperties").unwrap_or(&any);
        let mut members = Map::new();
        for name in required {
            if let Some(name) = name.as_str()
                && !members.contains_key(name)
            {
                let property = properties.get(name).unwrap_or(additional);
                members.insert(name.to_owned(), self.value(property, depth + 1)?);
            }
        }
        for (name, property) in properties {
            if members.len() < min_members && !members.contains_key(name) {
                members.insert(name.clone(), self.value(property, depth + 1)?);
            }
        }
        while members.len() < min_members {
            let value = self.value(additional, depth + 1)?;
            members.insert(format!("key{}", members.len() + 1), value);
        }
        Some(Value::Object(members))
    }

    fn array(&mut self, schema: &Map<String, Value>, depth: usize) -> Option<Value> {
        let min_items = usize::try_from(unsigned(schema, "minItems").unwrap_or(0)).ok()?;
        let any = Value::Bool(true);
        let (prefix, other) = match (schema.get("prefixItems"), schema.get("items")) {
            (Some(Value::Array(prefix)), other) => (&prefix[..], other.unwrap_or(&any)),
            (_, Some(Value::Array(prefix))) => {
                (&prefix[..], schema.get("additionalItems").unwrap_or(&any))
            }
            (_, other) => (&[][..], other.unwrap_or(&any)),
        };
        let mut items = Vec::new();
        for index in 0..min_items.max(usize::from(self.choice > 0)) {
            let mut item = self.value(prefix.get(index).unwrap_or(other), depth + 1)?;
            if schema.get("uniqueItems") == Some(&Value::Bool(true)) && items.contains(&item) {
                item = different_value(&item, index)?;
            }
            items.push(item);
        }
        Some(Value::Array(items))
    }

    fn text(&self, schema: &Map<String, Value>) -> Option<Value> {
        if let Some(Value::String(pattern)) = schema.get("pattern") {
            let hir = regex_syntax::Parser::new().parse(pattern).ok()?;
            let mut text = String::new();
            push_shortest(&hir, &mut text)?;
            return Some(Value::String(text));
        }
        let mut sample = "text";
        if let Some(Value::String(format)) = schema.get("format")
            && let Some((_, text)) = FORMATS.iter().find(|(name, _)| name == format)
        {
            sample = text;
        }
        let mut text = sample.to_owned();
        let length = |key: &str| usize::try_from(unsigned(schema, key)?).ok();
        if let Some(min_length) = length("minLength") {
            if min_length > MAX_TEXT {
                return None;
            }
            text.extend(std::iter::repeat_n(
                'x',
                min_length.saturating_sub(text.chars().count()),
            ));
        }
        if let Some(max_length) = length("maxLength") {
            text = text.chars().take(max_length).collect();
        }
        Some(Value::String(text))
    }
}

/// Returns the value that the schema itself suggests.
fn hint(schema: &Map<String, Value>) -> Option<&Value> {
    if let Some(Value::Array(examples)) = schema.get("examples")
        && let Some(first) = examples.first()
    {
        return Some(first);
    }
    schema.get("example").or_else(|| schema.get("default"))
}

/// Returns the value of a keyword that is a limit for a count.
fn unsigned(schema: &Map<String, Value>, key: &str) -> Option<u64> {
    schema.get(key)?.as_u64()
}

/// Returns the type of the example: the schema's `type`, or the type that its keywords apply to.
fn kind(schema: &Map<String, Value>) -> Option<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => return Some(kind),
        Some(Value::Array(kinds)) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str);
            let first = kinds.next()?;
            if first != "null" {
                return Some(first);
            }
            return kinds.find(|kind| *kind != "null").or(Some(first));
        }
        _ => {}
    }
    let has_any = |keys: &[&str]| keys.iter().any(|key| schema.contains_key(*key));
    if has_any(&[
        "properties",
        "required",
        "additionalProperties",
        "minProperties",
    ]) {
        Some("object")
    } else if has_any(&["items", "prefixItems", "minItems"]) {
        Some("array")
    } else if has_any(&[
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
    ]) {
        Some("number")
    } else {
        None
    }
}

/// Adds a keyword of one part of a schema to the merged keywords of the earlier parts.
fn merge(merged: &mut Map<String, Value>, key: &str, value: &Value) {
    match (merged.get_mut(key), value) {
        (Some(Value::Object(properties)), Value::Object(more)) if key == "properties" => {
            for (name, property) in more {
                properties.entry(name).or_insert_with(|| property.clone());
            }
        }
        (Some(Value::Array(names)), Value::Array(more)) if key == "required" => {
            let name_count = names.len();
            for name in more {
                if !names[..name_count].contains(name) {
                    names.push(name.clone());
                }
            }
        }
        (Some(_), _) => {}
        (None, _) => {
            merged.insert(key.to_owned(), value.clone());
        }
    }
}

/// Returns a different value of the same type, for lists of unique items.
fn different_value(value: &Value, index: usize) -> Option<Value> {
    match value {
        Value::String(text) => Some(json!(format!("{text}{}", index + 1))),
        Value::Number(number) => Some(json!(number.as_i64()? + i64::try_from(index).ok()?)),
        Value::Bool(value) => Some(json!(!value)),
        _ => None,
    }
}

/// Returns the number nearest to 1 that the bounds allow.
fn number(schema: &Map<String, Value>, is_integer: bool) -> Option<Value> {
    let bound = |key: &str| schema.get(key)?.as_f64();
    let step = match bound("multipleOf") {
        Some(step) if step > 0.0 => step,
        _ if is_integer => 1.0,
        _ => 0.0,
    };
    // In draft 4 an exclusive bound is a flag next to the bound.
    let is_exclusive = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    let margin = |bound: f64| {
        if step > 0.0 {
            step
        } else {
            bound.abs().max(1.0) * 1e-3
        }
    };
    let mut value = 1.0_f64;
    if let Some(mut maximum) = bound("maximum") {
        if is_exclusive("exclusiveMaximum") {
            maximum -= margin(maximum);
        }
        value = value.min(maximum);
    }
    if let Some(limit) = bound("exclusiveMaximum") {
        value = value.min(limit - margin(limit));
    }
    if let Some(mut minimum) = bound("minimum") {
        if is_exclusive("exclusiveMinimum") {
            minimum += margin(minimum);
        }
        value = value.max(minimum);
    }
    if let Some(limit) = bound("exclusiveMinimum") {
        value = value.max(limit + margin(limit));
    }
    if step > 0.0 {
        value = (value / step).ceil() * step;
    }
    if is_integer && value.abs() < 9e15 {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
        return Some(json!(value as i64));
    }
    Some(Value::Number(serde_json::Number::from_f64(value)?))
}

/// Appends the shortest text that a pattern matches.
fn push_shortest(hir: &Hir, text: &mut String) -> Option<()> {
    if text.len() > MAX_TEXT {
        return None;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(Class::Unicode(class)) => {
            let readable = class
                .ranges()
                .iter()
                .find(|range| range.end() >= '0' && range.start() <= 'z');
            let range = readable.or(class.ranges().first())?;
            text.push(if range.start() < 'a' && range.end() >= 'a' {
                'a'
            } else {
                range.start().max('0').min(range.end())
            });
        }
        HirKind::Class(Class::Bytes(_)) => return None,
        HirKind::Repetition(repetition) => {
            let count = usize::try_from(repetition.min).ok()?;
            if count > MAX_TEXT {
                return None;
            }
            for _ in 0..count {
                push_shortest(&repetition.sub, text)?;
            }
        }
        HirKind::Capture(capture) => push_shortest(&capture.sub, text)?,
        HirKind::Concat(parts) => {
            for part in parts {
                push_shortest(part, text)?;
            }
        }
        HirKind::Alternation(parts) => push_shortest(parts.first()?, text)?,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked_example(schema: &Value) -> Option<Value> {
        example(
            schema,
            &ArgumentCheck::new(schema, &crate::schema::JsonSchema).expect("the schema is valid"),
        )
    }

    #[test]
    fn examples_are_small_and_valid() {
        for (schema, expected) in [
            (json!({}), json!({})),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}}),
                json!({}),
            ),
            (
                json!({"required": ["a"], "properties": {"a": {"type": "string", "default": "x"}}}),
                json!({"a": "x"}),
            ),
            (
                json!({
                    "required": ["n"],
                    "properties": {"n": {"type": "integer", "default": "five"}},
                }),
                json!({"n": 1}),
            ),
            (
                json!({"required": ["n"], "properties": {"n": {"type": "integer", "minimum": 7}}}),
                json!({"n": 7}),
            ),
            (
                json!({"required": ["e"], "properties": {"e": {"enum": ["red", "blue"]}}}),
                json!({"e": "red"}),
            ),
            (
                json!({
                    "required": ["d"],
                    "properties": {"d": {"type": "string", "format": "date"}},
                }),
                json!({"d": "2026-01-31"}),
            ),
            (
                json!({
                    "required": ["z"],
                    "properties": {"z": {"type": "string", "pattern": "^[A-Z]{2}-\\d{3}$"}},
                }),
                json!({"z": "AA-000"}),
            ),
            (
                json!({
                    "required": ["l"],
                    "properties": {"l": {
                        "type": "array",
                        "minItems": 2,
                        "uniqueItems": true,
                        "items": {"type": "integer"},
                    }},
                }),
                json!({"l": [1, 2]}),
            ),
            (
                json!({
                    "$defs": {"p": {
                        "required": ["x"],
                        "properties": {"x": {"type": "number"}},
                    }},
                    "required": ["at"],
                    "properties": {"at": {"$ref": "#/$defs/p"}},
                }),
                json!({"at": {"x": 1.0}}),
            ),
            (
                json!({"required": ["m"], "properties": {"m": {"type": ["null", "boolean"]}}}),
                json!({"m": true}),
            ),
            (
                json!({"required": ["k"], "additionalProperties": {"type": "integer"}}),
                json!({"k": 1}),
            ),
            (
                json!({
                    "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
                    "properties": {"a": false, "b": {"const": 3}},
                }),
                json!({"b": 3}),
            ),
        ] {
            assert_eq!(checked_example(&schema), Some(expected), "{schema}");
        }
    }

    #[test]
    fn unsatisfiable_schema_has_no_example() {
        for schema in [
            json!({"required": ["a"], "properties": {"a": false}}),
            json!({
                "required": ["a"],
                "properties": {"a": {"type": "string", "pattern": "^a$", "minLength": 3}},
            }),
            json!({"type": "array"}),
            json!({"required": ["t"], "properties": {"t": {"$ref": "#"}}}),
            json!({
                "required": ["t"],
                "properties": {"t": {"type": "string", "minLength": 1_000_000_000}},
            }),
            json!({
                "required": ["t"],
                "properties": {"t": {"type": "array", "minItems": 1_000_000_000}},
            }),
            json!({"minProperties": 1_000_000_000_u64}),
        ] {
            assert_eq!(checked_example(&schema), None, "{schema}");
        }
    }
}
