//! A small correct value for a schema, to show a caller what would have been right.
//!
//! Only what is required is given, by preference values that the schema itself names. What the walk
//! makes is held against the schema before it counts: a schema that it cannot satisfy has no
//! example, never a wrong one.

use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Value, json};

use super::reference::resolve;
use super::validators::Check;

/// The most values in an example.
const MAX_VALUES: usize = 500;
/// The deepest an example goes, references counted.
const MAX_DEPTH: usize = 32;
/// The longest text, in characters.
const MAX_TEXT: usize = 1000;
/// How many ways of choosing among alternatives are tried.
const ATTEMPTS: usize = 6;

/// Texts of the formats that JSON Schema names.
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

/// Returns a small value that `schema` accepts as arguments, where one is found.
pub(super) fn example(schema: &Value, check: &Check) -> Option<Value> {
    (0..ATTEMPTS)
        .flat_map(|choice| [true, false].map(|hints| (choice, hints)))
        .find_map(|(choice, hints)| {
            let mut walk = Walk {
                root: schema,
                values: 0,
                choice,
                hints,
            };
            let value = walk.value(schema, 0)?;
            check.accepts(&value).then_some(value)
        })
}

struct Walk<'a> {
    root: &'a Value,
    values: usize,
    /// Which of several alternatives is taken.
    choice: usize,
    /// Whether the schema's own defaults and examples are used.
    hints: bool,
}

impl Walk<'_> {
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
        if self.hints {
            let given = schema.get("examples").and_then(|examples| examples.get(0));
            let given = given
                .or_else(|| schema.get("example"))
                .or_else(|| schema.get("default"));
            if let Some(value) = given.filter(|value| !value.is_null()) {
                return Some(value.clone());
            }
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

    /// A schema with what it refers to, all of `allOf`, and one of `anyOf` and `oneOf`.
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
                parts.extend(all.iter().map(|part| (part, depth + 1)));
            }
            for alternatives in ["anyOf", "oneOf"] {
                if let Some(Value::Array(some)) = part.get(alternatives) {
                    parts.push((some.get(self.choice % some.len().max(1))?, depth + 1));
                }
            }
            part.iter()
                .for_each(|(key, value)| merge(&mut merged, key, value));
        }
        Some(merged)
    }

    fn object(&mut self, schema: &Map<String, Value>, depth: usize) -> Option<Value> {
        let none = Map::new();
        let properties = schema
            .get("properties")
            .and_then(Value::as_object)
            .unwrap_or(&none);
        let required = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let least = usize::try_from(
            schema
                .get("minProperties")
                .and_then(Value::as_u64)
                .unwrap_or(0),
        )
        .ok()?;
        let mut members = Map::new();
        for name in required.chain(properties.keys().map(String::as_str)) {
            let needed = schema
                .get("required")
                .is_some_and(|names| names.as_array().is_some_and(|n| n.contains(&json!(name))));
            if members.contains_key(name) || !(needed || members.len() < least) {
                continue;
            }
            let any = Value::Bool(true);
            let property = properties
                .get(name)
                .or_else(|| schema.get("additionalProperties"))
                .unwrap_or(&any);
            members.insert(name.to_owned(), self.value(property, depth + 1)?);
        }
        while members.len() < least {
            let any = Value::Bool(true);
            let more = self.value(
                schema.get("additionalProperties").unwrap_or(&any),
                depth + 1,
            )?;
            members.insert(format!("key{}", members.len() + 1), more);
        }
        Some(Value::Object(members))
    }

    fn array(&mut self, schema: &Map<String, Value>, depth: usize) -> Option<Value> {
        let least =
            usize::try_from(schema.get("minItems").and_then(Value::as_u64).unwrap_or(0)).ok()?;
        let any = Value::Bool(true);
        let (first, rest) = match (schema.get("prefixItems"), schema.get("items")) {
            (Some(Value::Array(first)), rest) => (&first[..], rest.unwrap_or(&any)),
            (_, Some(Value::Array(first))) => {
                (&first[..], schema.get("additionalItems").unwrap_or(&any))
            }
            (_, rest) => (&[][..], rest.unwrap_or(&any)),
        };
        let mut items = Vec::new();
        for index in 0..least.max(usize::from(self.choice > 0)) {
            let mut item = self.value(first.get(index).unwrap_or(rest), depth + 1)?;
            if schema.get("uniqueItems") == Some(&Value::Bool(true)) && items.contains(&item) {
                item = another(&item, index)?;
            }
            items.push(item);
        }
        Some(Value::Array(items))
    }

    fn text(&self, schema: &Map<String, Value>) -> Option<Value> {
        if let Some(Value::String(pattern)) = schema.get("pattern") {
            let hir = regex_syntax::Parser::new().parse(pattern).ok()?;
            let mut text = String::new();
            shortest(&hir, &mut text)?;
            return Some(Value::String(text));
        }
        let format = schema.get("format").and_then(Value::as_str);
        let known = FORMATS
            .iter()
            .find(|(name, _)| Some(*name) == format)
            .map(|(_, text)| *text);
        let mut text = known.unwrap_or("text").to_owned();
        let length = |key: &str| {
            schema
                .get(key)
                .and_then(Value::as_u64)
                .and_then(|length| usize::try_from(length).ok())
        };
        if let Some(least) = length("minLength") {
            if least > MAX_TEXT {
                return None;
            }
            text.extend(std::iter::repeat_n(
                'x',
                least.saturating_sub(text.chars().count()),
            ));
        }
        if let Some(most) = length("maxLength") {
            text = text.chars().take(most).collect();
        }
        Some(Value::String(text))
    }
}

/// The type to give: what the schema says, else what its keywords are about.
fn kind(schema: &Map<String, Value>) -> Option<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => return Some(kind),
        Some(Value::Array(kinds)) => {
            let kinds = kinds.iter().filter_map(Value::as_str);
            return kinds
                .clone()
                .find(|kind| *kind != "null")
                .or(kinds.clone().next());
        }
        _ => {}
    }
    let about = |keys: &[&str]| keys.iter().any(|key| schema.contains_key(*key));
    if about(&[
        "properties",
        "required",
        "additionalProperties",
        "minProperties",
    ]) {
        Some("object")
    } else if about(&["items", "prefixItems", "minItems"]) {
        Some("array")
    } else if about(&[
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

/// Adds a keyword of one part of a schema to those of the parts before it.
fn merge(merged: &mut Map<String, Value>, key: &str, value: &Value) {
    match (merged.get_mut(key), value) {
        (Some(Value::Object(known)), Value::Object(more)) if key == "properties" => {
            more.iter().for_each(|(name, property)| {
                known.entry(name).or_insert_with(|| property.clone());
            });
        }
        (Some(Value::Array(known)), Value::Array(more)) if key == "required" => {
            let new: Vec<Value> = more
                .iter()
                .filter(|name| !known.contains(name))
                .cloned()
                .collect();
            known.extend(new);
        }
        (Some(_), _) => {}
        (None, _) => {
            merged.insert(key.to_owned(), value.clone());
        }
    }
}

/// Another value of the same kind.
fn another(value: &Value, index: usize) -> Option<Value> {
    match value {
        Value::String(text) => Some(json!(format!("{text}{}", index + 1))),
        Value::Number(number) => Some(json!(number.as_i64()? + i64::try_from(index).ok()?)),
        Value::Bool(value) => Some(json!(!value)),
        _ => None,
    }
}

/// The number nearest to 1 that the bounds allow.
fn number(schema: &Map<String, Value>, whole: bool) -> Option<Value> {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let step = bound("multipleOf")
        .filter(|step| *step > 0.0)
        .unwrap_or(if whole { 1.0 } else { 0.0 });
    // In draft 4 an exclusive bound is a flag beside the bound.
    let open = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    let margin = |least: f64| {
        if step > 0.0 {
            step
        } else {
            least.abs().max(1.0) * 1e-3
        }
    };
    let least = [
        bound("minimum").map(|least| {
            if open("exclusiveMinimum") {
                least + margin(least)
            } else {
                least
            }
        }),
        bound("exclusiveMinimum").map(|least| least + margin(least)),
    ];
    let most = [
        bound("maximum").map(|most| {
            if open("exclusiveMaximum") {
                most - margin(most)
            } else {
                most
            }
        }),
        bound("exclusiveMaximum").map(|most| most - margin(most)),
    ];
    let mut value = most.into_iter().flatten().fold(1.0, f64::min);
    value = least.into_iter().flatten().fold(value, f64::max);
    if step > 0.0 {
        value = (value / step).ceil() * step;
    }
    if whole && value.abs() < 9e15 {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
        return Some(json!(value as i64));
    }
    serde_json::Number::from_f64(value).map(Value::Number)
}

/// Adds the shortest text that a pattern matches.
fn shortest(hir: &Hir, text: &mut String) -> Option<()> {
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
            let least = usize::try_from(repetition.min).ok()?;
            if least > MAX_TEXT {
                return None;
            }
            (0..least).try_for_each(|_| shortest(&repetition.sub, text))?;
        }
        HirKind::Capture(capture) => shortest(&capture.sub, text)?,
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| shortest(part, text))?,
        HirKind::Alternation(parts) => shortest(parts.first()?, text)?,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(schema: &Value) -> Option<Value> {
        example(
            schema,
            &Check::new(schema, &crate::schema::JsonSchema).expect("the schema is valid"),
        )
    }

    #[test]
    fn examples_are_small_and_correct() {
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
                json!({"required": ["n"], "properties": {"n": {"type": "integer", "default": "five"}}}),
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
                json!({"required": ["d"], "properties": {"d": {"type": "string", "format": "date"}}}),
                json!({"d": "2026-01-31"}),
            ),
            (
                json!({"required": ["z"], "properties": {"z": {"type": "string", "pattern": "^[A-Z]{2}-\\d{3}$"}}}),
                json!({"z": "AA-000"}),
            ),
            (
                json!({"required": ["l"], "properties": {"l": {"type": "array", "minItems": 2, "uniqueItems": true, "items": {"type": "integer"}}}}),
                json!({"l": [1, 2]}),
            ),
            (
                json!({"$defs": {"p": {"required": ["x"], "properties": {"x": {"type": "number"}}}}, "required": ["at"], "properties": {"at": {"$ref": "#/$defs/p"}}}),
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
                json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": false, "b": {"const": 3}}}),
                json!({"b": 3}),
            ),
        ] {
            assert_eq!(of(&schema), Some(expected), "{schema}");
        }
    }

    #[test]
    fn what_cannot_be_satisfied_has_no_example() {
        for schema in [
            json!({"required": ["a"], "properties": {"a": false}}),
            json!({"required": ["a"], "properties": {"a": {"type": "string", "pattern": "^a$", "minLength": 3}}}),
            json!({"type": "array"}),
            json!({"required": ["t"], "properties": {"t": {"$ref": "#"}}}),
            json!({"required": ["t"], "properties": {"t": {"type": "string", "minLength": 1_000_000_000}}}),
            json!({"required": ["t"], "properties": {"t": {"type": "array", "minItems": 1_000_000_000}}}),
            json!({"minProperties": 1_000_000_000_u64}),
        ] {
            assert_eq!(of(&schema), None, "{schema}");
        }
    }
}
