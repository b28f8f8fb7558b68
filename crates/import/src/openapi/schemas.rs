//! From the schemas of a document to one JSON Schema that stands by itself.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value, json};

use super::error::{Fault, Refusal};
use super::naming::plain;
use super::prose;
use super::references::{References, part, reference};
use picktools::schema;
use picktools::schema::{Holds, MAX_SCHEMA_NODES, holds, kind};

/// The most characters of a description within a schema.
const MAX_DESCRIPTION_CHARS: usize = 1_000;
/// The most values of a schema whose references are written out where they stand.
const MAX_INLINE_VALUES: usize = 300;
/// The most levels of schemas within schemas, written out.
const MAX_INLINE_DEPTH: usize = 12;
/// The most levels of schemas within schemas at all; each is at most two levels of JSON.
const MAX_DEPTH: usize = 28;

/// What stands beside a reference and says something about this place alone.
const NOTES: [&str; 6] = [
    "title",
    "description",
    "default",
    "deprecated",
    "example",
    "examples",
];
/// Members of a schema that mean nothing to JSON Schema, or that would make what stands here
/// another document.
const DROPPED: [&str; 11] = [
    "xml",
    "externalDocs",
    "discriminator",
    "nullable",
    "example",
    "readOnly",
    "$id",
    "id",
    "$schema",
    "$anchor",
    "$comment",
];
/// What a parameter of version 2.0 holds beside its schema.
const OF_PARAMETERS: [&str; 5] = [
    "name",
    "in",
    "required",
    "collectionFormat",
    "allowEmptyValue",
];
/// What a property of a request may not be sent with.
const READ_ONLY: &str = "readOnly";

/// Whether references are written out where they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// As far as they do not run in a circle.
    Inline,
    /// Each is kept under `$defs`.
    Bundled,
}

/// Why a schema was not made.
pub(super) enum Stop {
    /// It is too large to be written out; it may be bundled.
    TooLarge,
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Makes JSON Schemas that may share definitions.
pub(super) struct Schemas<'d> {
    references: References<'d>,
    style: Style,
    /// The references that are being written out.
    open: Vec<&'d str>,
    /// Names of definitions by reference.
    names: HashMap<&'d str, String>,
    taken: HashSet<String>,
    /// Definitions that are still to be made.
    pending: VecDeque<&'d str>,
    values: usize,
    pub(super) patterns_left_out: usize,
}

impl<'d> Schemas<'d> {
    pub(super) fn new(references: References<'d>, style: Style) -> Self {
        Self {
            references,
            style,
            open: Vec::new(),
            names: HashMap::new(),
            taken: HashSet::new(),
            pending: VecDeque::new(),
            values: 0,
            patterns_left_out: 0,
        }
    }

    /// Makes one schema; `at` is the pointer to it.
    pub(super) fn schema(&mut self, schema: &'d Value, at: &str) -> Result<Value, Stop> {
        self.convert(schema, at, 0)
    }

    /// Makes the schema of a parameter that is one itself, as in version 2.0.
    pub(super) fn parameter(
        &mut self,
        members: &'d Map<String, Value>,
        at: &str,
    ) -> Result<Value, Stop> {
        let mut made = Map::new();
        for (key, value) in members
            .iter()
            .filter(|(key, _)| !OF_PARAMETERS.contains(&key.as_str()))
        {
            self.member(&mut made, key, value, at, 0)?;
        }
        exclusive_bounds(&mut made);
        Ok(Value::Object(made))
    }

    /// Makes the definitions that the schemas made so far refer to.
    pub(super) fn definitions(mut self) -> Result<(Map<String, Value>, usize), Stop> {
        let mut definitions = Map::new();
        let written_out = std::mem::replace(&mut self.style, Style::Bundled);
        while let Some(reference) = self.pending.pop_front() {
            let target = self.references.target(reference, reference)?;
            let definition = self.convert(target, reference, 0)?;
            definitions.insert(self.names[reference].clone(), definition);
            if written_out == Style::Inline && self.values > MAX_INLINE_VALUES {
                return Err(Stop::TooLarge);
            }
        }
        Ok((definitions, self.patterns_left_out))
    }

    fn convert(&mut self, schema: &'d Value, at: &str, depth: usize) -> Result<Value, Stop> {
        self.values += 1;
        let (values, levels) = match self.style {
            Style::Inline => (MAX_INLINE_VALUES, MAX_INLINE_DEPTH),
            Style::Bundled => (MAX_SCHEMA_NODES, MAX_DEPTH),
        };
        if self.values > values || depth > levels {
            return Err(Stop::TooLarge);
        }
        let members = match schema {
            Value::Bool(_) => return Ok(schema.clone()),
            Value::Object(members) => members,
            other => {
                let refusal = Refusal::WrongKind {
                    found: kind(other),
                    wanted: "a schema",
                };
                return Err(Fault::new(at, refusal).into());
            }
        };
        match reference(schema) {
            Some(reference) => self.refer(reference, members, at, depth),
            None => self.members(members, at, depth).map(Value::Object),
        }
    }

    fn refer(
        &mut self,
        reference: &'d str,
        members: &'d Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Result<Value, Stop> {
        let target = self.references.target(reference, at)?;
        self.references.follow(target, at)?;
        let notes = || {
            members
                .iter()
                .filter(|(key, _)| NOTES.contains(&key.as_str()))
        };
        let mut made = if self.style == Style::Bundled || self.open.contains(&reference) {
            json!({"$ref": format!("#/$defs/{}", self.name(reference))})
        } else {
            self.open.push(reference);
            let made = self.convert(target, at, depth);
            self.open.pop();
            made?
        };
        if let Some(made) = made.as_object_mut() {
            for (key, value) in notes() {
                self.member(made, key, value, at, depth)?;
            }
        }
        Ok(made)
    }

    /// The name of a definition, which is made later.
    fn name(&mut self, reference: &'d str) -> &str {
        if !self.names.contains_key(reference) {
            let last = reference
                .rsplit('/')
                .next()
                .map(plain)
                .filter(|last| !last.is_empty());
            let base = last.unwrap_or_else(|| "definition".to_owned());
            let numbered = (2..).map(|number| format!("{base}_{number}"));
            let mut names = std::iter::once(base.clone()).chain(numbered);
            let name = names
                .find(|name| !self.taken.contains(name))
                .unwrap_or(base);
            self.taken.insert(name.clone());
            self.names.insert(reference, name);
            self.pending.push_back(reference);
        }
        &self.names[reference]
    }

    fn members(
        &mut self,
        members: &'d Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Result<Map<String, Value>, Stop> {
        let mut made = Map::with_capacity(members.len());
        for (key, value) in members {
            self.member(&mut made, key, value, at, depth)?;
        }
        self.leave_out_read_only(members, &mut made);
        exclusive_bounds(&mut made);
        if members.get("nullable") == Some(&Value::Bool(true)) {
            schema::take_null(&mut made);
        }
        Ok(made)
    }

    fn member(
        &mut self,
        made: &mut Map<String, Value>,
        key: &'d str,
        value: &'d Value,
        at: &str,
        depth: usize,
    ) -> Result<(), Stop> {
        let within = || format!("{at}/{}", part(key));
        let value = match (key, value) {
            ("example", example) => {
                made.entry("examples").or_insert_with(|| json!([example]));
                return Ok(());
            }
            // Version 3.1 has a list here, 3.0 knows only `example`, and some documents have an
            // object.
            ("examples", Value::Array(_)) => value.clone(),
            ("examples", _) => return Ok(()),
            ("description", Value::String(text)) => {
                prose::clean(text, MAX_DESCRIPTION_CHARS).into()
            }
            ("title" | "description", value) if !value.is_string() => return Ok(()),
            // Before draft 4, `required` was a boolean of the property itself.
            ("required", value) if !is_list_of_texts(value) => return Ok(()),
            ("enum", Value::Array(values)) if values.is_empty() => return Ok(()),
            ("enum", value) if !value.is_array() => return Ok(()),
            ("type", value) => match json_type(value) {
                Some(value) => value,
                None => return Ok(()),
            },
            ("pattern", pattern) if !pattern.as_str().is_some_and(schema::is_pattern) => {
                self.patterns_left_out += 1;
                return Ok(());
            }
            (key, _) if DROPPED.contains(&key) || key.starts_with("x-") => return Ok(()),
            (key, value) => match (holds(key), value) {
                (Some(Holds::List), Value::Array(list))
                | (Some(Holds::One), Value::Array(list)) => {
                    let at = within();
                    let list = list
                        .iter()
                        .map(|schema| self.convert(schema, &at, depth + 1));
                    Value::Array(list.collect::<Result<_, _>>()?)
                }
                (Some(Holds::One), schema) => self.convert(schema, &within(), depth + 1)?,
                (Some(Holds::Named), Value::Object(named)) => {
                    let at = within();
                    let one = |(name, schema): (&'d String, &'d Value)| {
                        Ok((
                            name.clone(),
                            self.convert(schema, &format!("{at}/{}", part(name)), depth + 1)?,
                        ))
                    };
                    Value::Object(named.iter().map(one).collect::<Result<_, Stop>>()?)
                }
                (Some(_), _) => return Ok(()),
                (None, value) => value.clone(),
            },
        };
        made.insert(key.to_owned(), value);
        Ok(())
    }

    /// Takes out the properties that only answers have.
    fn leave_out_read_only(&self, members: &'d Map<String, Value>, made: &mut Map<String, Value>) {
        let properties = members.get("properties").and_then(Value::as_object);
        let read_only = properties.into_iter().flatten().filter(|(_, schema)| {
            self.references
                .follow(schema, "")
                .ok()
                .and_then(|schema| schema.get(READ_ONLY))
                == Some(&Value::Bool(true))
        });
        for (name, _) in read_only {
            if let Some(Value::Object(properties)) = made.get_mut("properties") {
                properties.shift_remove(name);
            }
            if let Some(Value::Array(required)) = made.get_mut("required") {
                required.retain(|required| required.as_str() != Some(name));
            }
        }
    }
}

/// Returns `true` if a property is in answers only.
pub(super) fn is_read_only(references: &References<'_>, schema: &Value) -> bool {
    let own = schema.get(READ_ONLY) == Some(&Value::Bool(true));
    own || references
        .follow(schema, "")
        .is_ok_and(|schema| schema.get(READ_ONLY) == Some(&Value::Bool(true)))
}

fn is_list_of_texts(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|names| names.iter().all(Value::is_string))
}

/// The type or types that are JSON Schema's; other words that documents use for them are read as
/// what they mean.
fn json_type(value: &Value) -> Option<Value> {
    let one = |name: &str| {
        Some(match name.to_ascii_lowercase().as_str() {
            "string" | "file" | "date" | "datetime" | "date-time" | "uuid" | "text" => "string",
            "number" | "float" | "double" | "decimal" => "number",
            "integer" | "int" | "int32" | "int64" | "long" => "integer",
            "boolean" | "bool" => "boolean",
            "array" => "array",
            "object" => "object",
            "null" => "null",
            _ => return None,
        })
    };
    match value {
        Value::String(name) => one(name).map(Value::from),
        Value::Array(names) => {
            let names: Option<Vec<_>> = names.iter().map(|name| one(name.as_str()?)).collect();
            names.filter(|names| !names.is_empty()).map(Value::from)
        }
        _ => None,
    }
}

/// Version 3.0 says with a boolean that a bound is not reached; JSON Schema has the bound itself
/// there.
fn exclusive_bounds(made: &mut Map<String, Value>) {
    for (exclusive, bound) in [
        ("exclusiveMinimum", "minimum"),
        ("exclusiveMaximum", "maximum"),
    ] {
        match made.get(exclusive) {
            Some(Value::Bool(true)) => match made.shift_remove(bound) {
                Some(value) => made.insert(exclusive.to_owned(), value),
                None => made.shift_remove(exclusive),
            },
            Some(Value::Bool(false)) => made.shift_remove(exclusive),
            _ => None,
        };
    }
}
