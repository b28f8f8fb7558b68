//! Checks that arguments can match a schema: a contradiction refuses every call.

use std::collections::HashSet;

use picktools::catalog::Tool;
use picktools::schema::{SubschemaForm, pointer_part, resolve, subschema_form};
use serde_json::{Map, Value};

use super::finding::ToolFinding;
use super::rules::UNSATISFIABLE;

/// The deepest nesting that is checked.
const MAX_DEPTH: usize = 64;
/// The most contradictions that are reported for one tool.
const MAX_FINDINGS: usize = 8;
/// Lower and upper bounds.
const BOUNDS: [(&str, &str); 4] = [
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
    ("minContains", "maxContains"),
];

/// The types of JSON Schema.
const TYPES: [&str; 7] = [
    "null", "boolean", "string", "array", "object", "integer", "number",
];

/// Reports each contradiction in the parameters of a tool.
pub(super) fn check(tool: &Tool, findings: &mut Vec<ToolFinding>) {
    let Some(root) = &tool.parameters else { return };
    let mut contradictions = Contradictions {
        root,
        found: Vec::new(),
    };
    contradictions.visit(root, "/parameters", 0);
    for (pointer, message) in contradictions.found {
        findings.push(ToolFinding {
            message,
            ..ToolFinding::new(&UNSATISFIABLE, &pointer, "")
        });
    }
}

/// The contradictions of a schema, with JSON pointers to them.
struct Contradictions<'s> {
    root: &'s Value,
    found: Vec<(String, String)>,
}

impl<'s> Contradictions<'s> {
    fn visit(&mut self, schema: &'s Value, at: &str, depth: usize) {
        let Some(members) = schema.as_object() else {
            return;
        };
        if depth > MAX_DEPTH || self.found.len() >= MAX_FINDINGS {
            return;
        }
        if let Some(message) = self.contradiction(members) {
            self.found.push((at.to_owned(), message));
        }
        for (keyword, value) in members {
            // What must not match may be unsatisfiable.
            if matches!(keyword.as_str(), "not" | "if") {
                continue;
            }
            let at = format!("{at}/{}", pointer_part(keyword));
            match (subschema_form(keyword), value) {
                (Some(SubschemaForm::One), value) => self.visit(value, &at, depth + 1),
                (Some(SubschemaForm::List), Value::Array(schemas)) => {
                    for (index, schema) in schemas.iter().enumerate() {
                        self.visit(schema, &format!("{at}/{index}"), depth + 1);
                    }
                }
                (Some(SubschemaForm::Named), Value::Object(named)) => {
                    for (name, schema) in named {
                        self.visit(schema, &format!("{at}/{}", pointer_part(name)), depth + 1);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the contradiction of a schema's own keywords.
    fn contradiction(&self, members: &'s Map<String, Value>) -> Option<String> {
        bounds(members)
            .or_else(|| listed_values(members))
            .or_else(|| self.forbidden_required(members))
            .or_else(|| self.separate_types(members))
    }

    /// Finds a required property that the schema or a part of `allOf` does not allow.
    fn forbidden_required(&self, members: &'s Map<String, Value>) -> Option<String> {
        let parts = self.parts(members);
        let required = parts.iter().flat_map(|part| list(part, "required"));
        for name in required.filter_map(Value::as_str) {
            if parts.iter().any(|part| forbids(part, name)) {
                return Some(format!("the property {name:?} is required and not allowed"));
            }
        }
        None
    }

    /// Finds parts of `allOf` whose types have nothing in common.
    fn separate_types(&self, members: &'s Map<String, Value>) -> Option<String> {
        let mut common: Option<HashSet<&str>> = None;
        for part in self.parts(members) {
            let Some(types) = types(part) else { continue };
            let next = match common {
                Some(common) => common
                    .iter()
                    .copied()
                    .filter(|name| types.contains(name))
                    .collect(),
                None => types,
            };
            if next.is_empty() {
                return Some("the types of its parts have nothing in common".to_owned());
            }
            common = Some(next);
        }
        None
    }

    /// Returns a schema with the parts of `allOf` and the target of its reference, one level deep.
    fn parts(&self, members: &'s Map<String, Value>) -> Vec<&'s Map<String, Value>> {
        let target = |members: &'s Map<String, Value>| {
            let reference = members.get("$ref")?.as_str()?;
            resolve(self.root, reference)?.as_object()
        };
        let mut parts = vec![members];
        parts.extend(target(members));
        for part in list(members, "allOf").filter_map(Value::as_object) {
            parts.push(part);
            parts.extend(target(part));
        }
        parts
    }
}

fn list<'s>(members: &'s Map<String, Value>, keyword: &str) -> impl Iterator<Item = &'s Value> {
    members
        .get(keyword)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Finds a lower bound above its upper bound.
fn bounds(members: &Map<String, Value>) -> Option<String> {
    let number = |keyword: &str| members.get(keyword).and_then(Value::as_f64);
    for (least, most) in BOUNDS {
        if let (Some(low), Some(high)) = (number(least), number(most))
            && low > high
        {
            return Some(format!("{least} {low} is more than {most} {high}"));
        }
    }
    let lower = ["minimum", "exclusiveMinimum"];
    let upper = ["maximum", "exclusiveMaximum"];
    for (least, most) in lower
        .iter()
        .flat_map(|least| upper.map(|most| (*least, most)))
    {
        let is_exclusive = least.starts_with('e') || most.starts_with('e');
        if let (Some(low), Some(high)) = (number(least), number(most))
            && (low > high || (is_exclusive && low >= high))
        {
            return Some(format!("{least} {low} leaves no value below {most} {high}"));
        }
    }
    None
}

/// Finds listed values none of which has the type of the schema.
fn listed_values(members: &Map<String, Value>) -> Option<String> {
    let types = types(members);
    let has_type = |value: &Value| types.as_ref().is_none_or(|types| is_of_type(value, types));
    if let Some(Value::Array(values)) = members.get("enum")
        && !values.iter().any(has_type)
    {
        return Some("none of the listed values has the type of the schema".to_owned());
    }
    let value = members.get("const").filter(|value| !has_type(value))?;
    let text: String = value.to_string().chars().take(40).collect();
    Some(format!(
        "the value {text} does not have the type of the schema"
    ))
}

/// Returns the types that a schema allows; `None` if it does not say.
fn types(members: &Map<String, Value>) -> Option<HashSet<&str>> {
    let mut types: HashSet<&str> = match members.get("type")? {
        Value::String(name) => HashSet::from([name.as_str()]),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    // Every integer is a number.
    if types.contains("number") {
        types.insert("integer");
    }
    Some(types)
}

fn is_of_type(value: &Value, types: &HashSet<&str>) -> bool {
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Number(number) if number.as_f64().is_some_and(|value| value.fract() == 0.0) => {
            "integer"
        }
        Value::Number(_) => "number",
    };
    // A type of another name is read by its meaning elsewhere.
    types.contains(name) || !types.iter().all(|name| TYPES.contains(name))
}

/// Returns `true` if a schema does not allow a property.
fn forbids(members: &Map<String, Value>, name: &str) -> bool {
    let property = members
        .get("properties")
        .and_then(|properties| properties.get(name));
    match property {
        Some(property) => *property == Value::Bool(false),
        None => {
            members.get("additionalProperties") == Some(&Value::Bool(false))
                && !members.contains_key("patternProperties")
        }
    }
}
