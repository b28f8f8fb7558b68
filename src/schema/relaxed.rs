//! Compiling of schemas as servers really send them.
//!
//! A tool is not lost because of one keyword that the validator cannot run. A slip with one meaning
//! is read by that meaning (`"type": "int"`), and any other keyword that does not compile is not
//! checked. The definition itself stays unchanged, and each such place is reported.

use jsonschema::Validator;
use serde_json::{Map, Value};

use super::compile::{compile, is_pattern};
use super::cost::Cost;
use super::fault::{SchemaFault, SchemaSlip, shorten};
use super::keywords::{SubschemaForm, count_values, subschema_form};
use super::pointer::{name_from_pointer_part, pointer_part};
use super::reference::resolve;

/// The most keywords that are left unchecked because they do not compile. A schema with more is
/// refused.
const MAX_REMOVED: usize = 32;
/// The most values that are compiled again and again for that, which bounds the time for a large
/// schema.
const MAX_COMPILED_VALUES: usize = 200_000;

/// Names of types in other languages, each with the type that it means.
const TYPES: [(&str, &[&str]); 6] = [
    ("integer", &["int", "int32", "int64", "long", "uint"]),
    ("number", &["float", "double", "decimal", "real", "numeric"]),
    ("string", &["str", "text", "varchar"]),
    ("boolean", &["bool"]),
    ("object", &["dict", "map", "record", "struct", "json"]),
    ("array", &["list", "tuple", "sequence"]),
];
/// The types of JSON Schema.
const JSON_TYPES: [&str; 7] = [
    "string", "number", "integer", "boolean", "object", "array", "null",
];

/// A compiled schema, and the places that are not checked as they are written.
pub(super) struct RelaxedSchema {
    pub(super) validator: Validator,
    pub(super) cost: Cost,
    pub(super) slips: Vec<SchemaSlip>,
}

/// Compiles a schema that is within the limits of depth and size.
pub(super) fn compile_relaxed(schema: &Value) -> Result<RelaxedSchema, SchemaFault> {
    let cost = Cost::new(schema)?;
    if let Ok(validator) = compile(schema) {
        return Ok(RelaxedSchema {
            validator,
            cost,
            slips: Vec::new(),
        });
    }
    let mut mended = schema.clone();
    let mut mending = Mending {
        root: schema,
        names_draft: schema.get("$schema").is_some(),
        slips: Vec::new(),
    };
    mending.draft(&mut mended);
    mending.schema(&mut mended, &mut String::new());
    let mut slips = mending.slips;
    let most_removed = (MAX_COMPILED_VALUES / count_values(schema)).min(MAX_REMOVED);
    for _ in 0..=most_removed {
        let cost = Cost::new(&mended)?;
        let error = match compile(&mended) {
            Ok(validator) => {
                return Ok(RelaxedSchema {
                    validator,
                    cost,
                    slips,
                });
            }
            Err(error) => error,
        };
        let (pointer, message) = (error.instance_path().to_string(), error.to_string());
        let message = shorten(&message);
        if !remove(&mut mended, &pointer) {
            return Err(fault(pointer, message));
        }
        slips.push(SchemaSlip {
            pointer,
            message: format!("not checked, because it is not valid JSON Schema: {message}"),
        });
    }
    Err(fault(
        String::new(),
        format!("more than {most_removed} keywords are not valid JSON Schema"),
    ))
}

fn fault(pointer: String, message: String) -> SchemaFault {
    SchemaFault {
        pointer,
        message,
        remedy: "write a valid JSON Schema (drafts 4 to 2020-12)",
    }
}

/// Removes the keyword that a pointer leads to or into. A subschema that is no schema becomes
/// `true`. Returns `false` if there is no such keyword.
fn remove(schema: &mut Value, pointer: &str) -> bool {
    let parts: Vec<&str> = pointer.split('/').skip(1).collect();
    // The pointer to the current subschema.
    let mut place = String::new();
    let mut position = 0;
    while let Some(part) = parts.get(position) {
        let keyword = name_from_pointer_part(part);
        let steps = match subschema_form(&keyword) {
            Some(SubschemaForm::One) => 1,
            Some(SubschemaForm::List | SubschemaForm::Named) => 2,
            None => 0,
        };
        let inner = parts.get(position..position + steps);
        let inner_place = inner.map(|inner| format!("{place}/{}", inner.join("/")));
        let subschema = inner_place
            .as_ref()
            .filter(|_| steps > 0)
            .and_then(|inner| schema.pointer_mut(inner));
        match subschema {
            Some(subschema) if subschema.is_object() => {
                position += steps;
                place = inner_place.unwrap_or_default();
            }
            Some(subschema) => {
                *subschema = Value::Bool(true);
                return true;
            }
            None => {
                let holder = schema.pointer_mut(&place);
                return holder.is_some_and(|holder| remove_member(holder, &keyword));
            }
        }
    }
    // The pointer leads to a subschema as a whole.
    false
}

fn remove_member(schema: &mut Value, keyword: &str) -> bool {
    schema
        .as_object_mut()
        .is_some_and(|members| members.remove(keyword).is_some())
}

/// Reads slips by their meaning.
struct Mending<'s> {
    root: &'s Value,
    names_draft: bool,
    slips: Vec<SchemaSlip>,
}

impl Mending<'_> {
    /// Removes the name of a draft that is not one of JSON Schema.
    fn draft(&mut self, schema: &mut Value) {
        let Some(members) = schema.as_object_mut() else {
            return;
        };
        let is_draft = |draft: &Value| compile(&serde_json::json!({"$schema": draft})).is_ok();
        if members.get("$schema").is_some_and(|draft| !is_draft(draft)) {
            let removed = members.remove("$schema").unwrap_or_default();
            self.names_draft = false;
            self.report(
                "/$schema",
                format!("{removed} is not a draft of JSON Schema; the newest is used"),
            );
        }
    }

    fn report(&mut self, pointer: &str, message: String) {
        self.slips.push(SchemaSlip {
            pointer: pointer.to_owned(),
            message: shorten(&message),
        });
    }

    /// Mends a schema and its subschemas. `pointer` leads to it.
    fn schema(&mut self, schema: &mut Value, pointer: &mut String) {
        let Value::Object(members) = schema else {
            return;
        };
        self.types(members, pointer);
        self.properties(members, pointer);
        self.patterns(members, pointer);
        self.older_forms(members, pointer);
        let reference = members.get("$ref").and_then(Value::as_str);
        if let Some(reference) = reference
            && resolve(self.root, reference).is_none()
        {
            let message = format!("not checked, because {reference:?} leads nowhere");
            self.report(&format!("{pointer}/$ref"), message);
            members.remove("$ref");
        }
        for (keyword, value) in members {
            let length = pointer.len();
            pointer.push('/');
            pointer.push_str(&pointer_part(keyword));
            match (subschema_form(keyword), value) {
                (Some(SubschemaForm::One), value) => self.schema(value, pointer),
                (Some(SubschemaForm::List), Value::Array(list)) => {
                    for (index, item) in list.iter_mut().enumerate() {
                        self.inner(item, pointer, &index.to_string());
                    }
                }
                (Some(SubschemaForm::Named), Value::Object(named)) => {
                    for (name, value) in named {
                        self.inner(value, pointer, name);
                    }
                }
                _ => {}
            }
            pointer.truncate(length);
        }
    }

    fn inner(&mut self, schema: &mut Value, pointer: &mut String, name: &str) {
        let length = pointer.len();
        pointer.push('/');
        pointer.push_str(&pointer_part(name));
        self.schema(schema, pointer);
        pointer.truncate(length);
    }

    /// Reads names of types in other languages. A type without a meaning is not checked.
    fn types(&mut self, members: &mut Map<String, Value>, pointer: &str) {
        let Some(kind) = members.get("type") else {
            return;
        };
        let names: Vec<&Value> = match kind {
            Value::Array(names) => names.iter().collect(),
            name => vec![name],
        };
        let is_known = |name: &Value| name.as_str().is_some_and(|name| JSON_TYPES.contains(&name));
        if !names.is_empty() && names.iter().all(|name| is_known(name)) {
            return;
        }
        let meanings: Option<Vec<&str>> =
            names.iter().map(|name| meaning(name.as_str()?)).collect();
        let place = format!("{pointer}/type");
        match meanings {
            Some(mut meanings) if !meanings.is_empty() => {
                meanings.dedup();
                let meant = match meanings[..] {
                    [one] => Value::from(one),
                    _ => Value::from(meanings),
                };
                self.report(&place, format!("{kind} is read as {meant}"));
                members.insert("type".to_owned(), meant);
            }
            _ => {
                self.report(
                    &place,
                    format!("not checked, because {kind} is no type of JSON Schema"),
                );
                members.remove("type");
            }
        }
    }

    /// Reads `required` and `properties` in forms that are not valid.
    fn properties(&mut self, members: &mut Map<String, Value>, pointer: &str) {
        match members.get("properties") {
            Some(Value::Null) => {
                self.report(
                    &format!("{pointer}/properties"),
                    "null is read as {}".to_owned(),
                );
                members.remove("properties");
            }
            Some(Value::Array(list)) if list.is_empty() => {
                self.report(
                    &format!("{pointer}/properties"),
                    "[] is read as {}".to_owned(),
                );
                members.remove("properties");
            }
            _ => {}
        }
        // Draft 3 marks a required property inside the property itself.
        let mut required = Vec::new();
        if let Some(Value::Object(properties)) = members.get_mut("properties") {
            for (name, property) in properties {
                let Some(Value::Bool(is_required)) = property.get("required") else {
                    continue;
                };
                if *is_required {
                    required.push(Value::from(name.as_str()));
                }
                remove_member(property, "required");
                let place = format!("{pointer}/properties/{}/required", pointer_part(name));
                self.report(
                    &place,
                    "read as in draft 3: the property is required or not".to_owned(),
                );
            }
        }
        let place = format!("{pointer}/required");
        match members.get_mut("required") {
            Some(Value::Array(names)) => names.append(&mut required),
            Some(Value::String(name)) => {
                required.push(Value::from(name.as_str()));
                self.report(&place, "one name is read as a list of it".to_owned());
            }
            Some(other) => {
                let message = format!("{other} is read as []");
                self.report(&place, message);
                members.remove("required");
            }
            None => {}
        }
        if !required.is_empty() {
            members.insert("required".to_owned(), Value::from(required));
        }
    }

    /// Removes patterns that the validator cannot run in linear time.
    fn patterns(&mut self, members: &mut Map<String, Value>, pointer: &str) {
        const REASON: &str = "not checked, because the validator cannot run this pattern in \
                              bounded time (look-around, back-reference, or too large)";
        let pattern = members.get("pattern").and_then(Value::as_str);
        if pattern.is_some_and(|pattern| !is_pattern(pattern)) {
            members.remove("pattern");
            self.report(&format!("{pointer}/pattern"), REASON.to_owned());
        }
        let Some(Value::Object(by_pattern)) = members.get_mut("patternProperties") else {
            return;
        };
        let count = by_pattern.len();
        by_pattern.retain(|pattern, _| is_pattern(pattern));
        if by_pattern.len() < count {
            // A property that the pattern allows must not be refused as an additional one.
            members.remove("additionalProperties");
            members.remove("unevaluatedProperties");
            self.report(&format!("{pointer}/patternProperties"), REASON.to_owned());
        }
    }

    /// Reads keywords of older drafts beside newer ones.
    fn older_forms(&mut self, members: &mut Map<String, Value>, pointer: &str) {
        if self.names_draft {
            return;
        }
        if let Some(Value::Array(_)) = members.get("items") {
            let items = members.remove("items").unwrap_or_default();
            if items.as_array().is_some_and(|items| !items.is_empty()) {
                members.insert("prefixItems".to_owned(), items);
            }
            if let Some(more) = members.remove("additionalItems") {
                members.insert("items".to_owned(), more);
            }
            self.report(
                &format!("{pointer}/items"),
                "a list is read as prefixItems".to_owned(),
            );
        }
        for (exclusive, limit) in [
            ("exclusiveMinimum", "minimum"),
            ("exclusiveMaximum", "maximum"),
        ] {
            let Some(&Value::Bool(is_exclusive)) = members.get(exclusive) else {
                continue;
            };
            members.remove(exclusive);
            if is_exclusive && let Some(number) = members.remove(limit) {
                members.insert(exclusive.to_owned(), number);
            }
            self.report(
                &format!("{pointer}/{exclusive}"),
                "read as in draft 4".to_owned(),
            );
        }
    }
}

/// Returns the type that a name means.
fn meaning(name: &str) -> Option<&'static str> {
    let lower = name.trim().to_ascii_lowercase();
    if lower.ends_with("[]") {
        return Some("array");
    }
    if let Some(name) = JSON_TYPES.iter().find(|name| **name == lower) {
        return Some(name);
    }
    let (kind, _) = TYPES
        .iter()
        .find(|(_, names)| names.contains(&lower.as_str()))?;
    Some(kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns what the mended schema accepts, and the slips as text.
    fn check(schema: &Value, arguments: &Value) -> (bool, String) {
        let relaxed = compile_relaxed(schema).unwrap_or_else(|fault| panic!("{fault:?}"));
        let slips: Vec<String> = relaxed
            .slips
            .iter()
            .map(|slip| format!("{}: {}", slip.pointer, slip.message))
            .collect();
        (relaxed.validator.is_valid(arguments), slips.join("\n"))
    }

    #[test]
    fn slips_are_read_by_their_meaning_and_reported() {
        for (schema, accepted, refused, place) in [
            (
                json!({"properties": {"n": {"type": "int"}}}),
                json!({"n": 1}),
                json!({"n": "1"}),
                "/properties/n/type",
            ),
            (
                json!({"properties": {"n": {"type": "String"}}}),
                json!({"n": "1"}),
                json!({"n": 1}),
                "/properties/n/type",
            ),
            (
                json!({"properties": {"n": {"type": ["string", "string[]"]}}}),
                json!({"n": ["1"]}),
                json!({"n": 1}),
                "/properties/n/type",
            ),
            (
                json!({"type": "object", "required": null, "properties": {"n": {"type": "string"}}}),
                json!({}),
                json!({"n": 1}),
                "/required",
            ),
            (
                json!({"type": "object", "required": "n"}),
                json!({"n": 1}),
                json!({}),
                "/required",
            ),
            (
                json!({"type": "object", "properties": {"n": {"type": "string", "required": true}}}),
                json!({"n": "1"}),
                json!({}),
                "/properties/n/required",
            ),
            (
                json!({"type": "object", "properties": null}),
                json!({}),
                json!([]),
                "/properties",
            ),
            (
                json!({"type": "object", "properties": []}),
                json!({}),
                json!([]),
                "/properties",
            ),
            (
                json!({"properties": {"n": {"type": "string", "pattern": "^(?!x)"}}}),
                json!({"n": "x"}),
                json!({"n": 1}),
                "/properties/n/pattern",
            ),
            (
                json!({"type": "object", "patternProperties": {"^(?!x)": {}}, "additionalProperties": false}),
                json!({"n": 1}),
                json!([]),
                "/patternProperties",
            ),
            (
                json!({"properties": {"n": {"$ref": "#/$defs/none", "type": "string"}}}),
                json!({"n": "x"}),
                json!({"n": 1}),
                "/properties/n/$ref",
            ),
            (
                json!({"properties": {"n": {"minLength": "3", "type": "string"}}}),
                json!({"n": "x"}),
                json!({"n": 1}),
                "/properties/n/minLength",
            ),
            (
                json!({"type": "object", "properties": {"coin": {"type": "string"}, "required": ["coin"]}, "additionalProperties": false}),
                json!({"coin": "x", "required": 1}),
                json!({"coin": 1}),
                "/properties/required",
            ),
            (
                json!({"properties": {"n": {"items": [{"type": "string"}]}, "p": {"pattern": "(?=x)"}, "q": {"minimum": 1, "exclusiveMinimum": true}}}),
                json!({"n": ["x"], "q": 2}),
                json!({"q": 1}),
                "/properties/q/exclusiveMinimum",
            ),
            (
                json!({"$schema": "https://example.com/own", "properties": {"n": {"type": "string"}}}),
                json!({"n": "x"}),
                json!({"n": 1}),
                "/$schema",
            ),
            (
                json!({"properties": {"n": {"type": "file"}}}),
                json!({"n": 1}),
                json!({"type": []}),
                "/properties/n/type",
            ),
            (
                json!({"type": "object", "description": null}),
                json!({}),
                json!([]),
                "/description",
            ),
        ] {
            let (accepts, slips) = check(&schema, &accepted);
            assert!(accepts, "{schema}: {slips}");
            assert!(slips.contains(&format!("{place}: ")), "{schema}: {slips}");
            if place != "/properties/n/type" || refused.get("type").is_none() {
                assert!(!check(&schema, &refused).0, "{schema}");
            }
        }
    }

    #[test]
    fn valid_schema_has_no_slips_and_hopeless_one_is_refused() {
        let valid = json!({"properties": {"n": {"type": "integer", "minimum": 1}}});
        assert_eq!(check(&valid, &json!({"n": 0})), (false, String::new()));
        let faulty: Map<String, Value> = (0..100)
            .map(|n| (format!("p{n}"), json!({"minLength": "x"})))
            .collect();
        assert!(compile_relaxed(&json!({"properties": faulty})).is_err());
    }
}
