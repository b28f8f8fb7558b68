//! Conversion of a document's schemas to one self-contained JSON Schema.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value, json};

use super::error::{OperationError, OperationProblem};
use super::naming::plain;
use super::prose;
use super::references::{References, object_member, part, reference};
use picktools::schema;
use picktools::schema::{MAX_SCHEMA_NODES, SubschemaForm, kind, subschema_form};

/// The longest description within a schema, in characters.
const MAX_DESCRIPTION_CHARS: usize = 1_000;
/// The largest number of values in a schema with inlined references.
const MAX_INLINE_VALUES: usize = 300;
/// The deepest nesting of schemas with inlined references.
const MAX_INLINE_DEPTH: usize = 12;
/// The deepest nesting of schemas; each is at most two levels of JSON.
const MAX_DEPTH: usize = 28;

/// Keywords that apply to the reference itself, not to its target.
const REFERENCE_KEYWORDS: [&str; 6] = [
    "title",
    "description",
    "default",
    "deprecated",
    "example",
    "examples",
];
/// Keywords that are dropped: JSON Schema does not define them, or they would start another
/// document.
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
/// Members of a version 2.0 parameter that are not part of its schema.
const PARAMETER_KEYWORDS: [&str; 5] = [
    "name",
    "in",
    "required",
    "collectionFormat",
    "allowEmptyValue",
];
/// The keyword of a property that requests may not contain.
const READ_ONLY: &str = "readOnly";

/// The treatment of references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// References are replaced by their targets, except for circular ones.
    Inline,
    /// Each target is kept under `$defs`.
    Bundled,
}

/// Error of a schema conversion.
pub(super) enum SchemaError {
    /// The schema is too large for inlined references; bundling may still work.
    TooLarge,
    Operation(OperationError),
}

impl From<OperationError> for SchemaError {
    fn from(error: OperationError) -> Self {
        Self::Operation(error)
    }
}

/// Builder for JSON Schemas that share definitions.
pub(super) struct Schemas<'d> {
    references: References<'d>,
    style: Style,
    /// The references that are being inlined.
    open: Vec<&'d str>,
    /// The definition names by reference.
    names: HashMap<&'d str, String>,
    taken: HashSet<String>,
    /// The references whose definitions are not built yet.
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

    /// Converts one schema; `at` is the JSON pointer to it.
    pub(super) fn schema(&mut self, schema: &'d Value, at: &str) -> Result<Value, SchemaError> {
        self.convert(schema, at, 0)
    }

    /// Converts a version 2.0 parameter, which is a schema itself.
    pub(super) fn parameter(
        &mut self,
        members: &'d Map<String, Value>,
        at: &str,
    ) -> Result<Value, SchemaError> {
        let mut schema = Map::new();
        for (key, value) in members {
            if !PARAMETER_KEYWORDS.contains(&key.as_str()) {
                self.member(&mut schema, key, value, at, 0)?;
            }
        }
        exclusive_bounds(&mut schema);
        Ok(Value::Object(schema))
    }

    /// Builds the definitions to which the converted schemas refer.
    pub(super) fn definitions(mut self) -> Result<(Map<String, Value>, usize), SchemaError> {
        let mut definitions = Map::new();
        let original_style = std::mem::replace(&mut self.style, Style::Bundled);
        while let Some(reference) = self.pending.pop_front() {
            let target = self.references.target(reference, reference)?;
            let definition = self.convert(target, reference, 0)?;
            definitions.insert(self.names[reference].clone(), definition);
            if original_style == Style::Inline && self.values > MAX_INLINE_VALUES {
                return Err(SchemaError::TooLarge);
            }
        }
        Ok((definitions, self.patterns_left_out))
    }

    fn convert(&mut self, schema: &'d Value, at: &str, depth: usize) -> Result<Value, SchemaError> {
        self.values += 1;
        let (values, levels) = match self.style {
            Style::Inline => (MAX_INLINE_VALUES, MAX_INLINE_DEPTH),
            Style::Bundled => (MAX_SCHEMA_NODES, MAX_DEPTH),
        };
        if self.values > values || depth > levels {
            return Err(SchemaError::TooLarge);
        }
        let members = match schema {
            Value::Bool(_) => return Ok(schema.clone()),
            Value::Object(members) => members,
            other => {
                let problem = OperationProblem::WrongKind {
                    found: kind(other),
                    expected: "a schema",
                };
                return Err(OperationError::new(at, problem).into());
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
    ) -> Result<Value, SchemaError> {
        let target = self.references.target(reference, at)?;
        self.references.follow(target, at)?;
        let notes = || {
            members
                .iter()
                .filter(|(key, _)| REFERENCE_KEYWORDS.contains(&key.as_str()))
        };
        let mut converted = if self.style == Style::Bundled || self.open.contains(&reference) {
            json!({"$ref": format!("#/$defs/{}", self.name(reference))})
        } else {
            self.open.push(reference);
            let inlined = self.convert(target, at, depth);
            self.open.pop();
            inlined?
        };
        if let Some(schema) = converted.as_object_mut() {
            for (key, value) in notes() {
                self.member(schema, key, value, at, depth)?;
            }
        }
        Ok(converted)
    }

    /// Returns the name of a definition and schedules its conversion.
    fn name(&mut self, reference: &'d str) -> &str {
        if !self.names.contains_key(reference) {
            let mut base = plain(reference.rsplit('/').next().unwrap_or_default());
            if base.is_empty() {
                base = "definition".to_owned();
            }
            let mut name = base.clone();
            let mut number = 1;
            while self.taken.contains(&name) {
                number += 1;
                name = format!("{base}_{number}");
            }
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
    ) -> Result<Map<String, Value>, SchemaError> {
        let mut converted = Map::with_capacity(members.len());
        for (key, value) in members {
            self.member(&mut converted, key, value, at, depth)?;
        }
        self.leave_out_read_only(members, &mut converted);
        exclusive_bounds(&mut converted);
        if members.get("nullable") == Some(&Value::Bool(true)) {
            schema::allow_null(&mut converted);
        }
        Ok(converted)
    }

    fn member(
        &mut self,
        converted: &mut Map<String, Value>,
        key: &'d str,
        value: &'d Value,
        at: &str,
        depth: usize,
    ) -> Result<(), SchemaError> {
        let within = || format!("{at}/{}", part(key));
        let value = match (key, value) {
            ("example", example) => {
                converted
                    .entry("examples")
                    .or_insert_with(|| json!([example]));
                return Ok(());
            }
            // Version 3.1 has a list here, version 3.0 only `example`; some documents have an
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
            (key, value) => match (subschema_form(key), value) {
                (Some(SubschemaForm::List), Value::Array(list))
                | (Some(SubschemaForm::One), Value::Array(list)) => {
                    let at = within();
                    let mut schemas = Vec::with_capacity(list.len());
                    for schema in list {
                        schemas.push(self.convert(schema, &at, depth + 1)?);
                    }
                    Value::Array(schemas)
                }
                (Some(SubschemaForm::One), schema) => self.convert(schema, &within(), depth + 1)?,
                (Some(SubschemaForm::Named), Value::Object(named)) => {
                    let at = within();
                    let mut schemas = Map::new();
                    for (name, schema) in named {
                        let at = format!("{at}/{}", part(name));
                        schemas.insert(name.clone(), self.convert(schema, &at, depth + 1)?);
                    }
                    Value::Object(schemas)
                }
                (Some(_), _) => return Ok(()),
                (None, value) => value.clone(),
            },
        };
        converted.insert(key.to_owned(), value);
        Ok(())
    }

    /// Removes the properties that only responses have.
    fn leave_out_read_only(
        &self,
        members: &'d Map<String, Value>,
        converted: &mut Map<String, Value>,
    ) {
        for (name, schema) in object_member(members, "properties") {
            let target = self.references.follow(schema, "");
            if !target.is_ok_and(is_marked_read_only) {
                continue;
            }
            if let Some(Value::Object(properties)) = converted.get_mut("properties") {
                properties.shift_remove(name);
            }
            if let Some(Value::Array(required)) = converted.get_mut("required") {
                required.retain(|required| required.as_str() != Some(name));
            }
        }
    }
}

/// Returns `true` if only responses contain a property.
pub(super) fn is_read_only(references: &References<'_>, schema: &Value) -> bool {
    is_marked_read_only(schema) || references.follow(schema, "").is_ok_and(is_marked_read_only)
}

fn is_marked_read_only(schema: &Value) -> bool {
    schema.get(READ_ONLY) == Some(&Value::Bool(true))
}

fn is_list_of_texts(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|names| names.iter().all(Value::is_string))
}

/// Converts type names to those of JSON Schema, including common other names.
fn json_type(value: &Value) -> Option<Value> {
    let standard_type = |name: &str| {
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
        Value::String(name) => Some(standard_type(name)?.into()),
        Value::Array(names) if !names.is_empty() => {
            let mut types = Vec::with_capacity(names.len());
            for name in names {
                types.push(standard_type(name.as_str()?)?);
            }
            Some(types.into())
        }
        _ => None,
    }
}

/// Converts exclusive bounds.
///
/// In version 3.0 a boolean makes a bound exclusive; in JSON Schema the keyword holds the bound
/// itself.
fn exclusive_bounds(schema: &mut Map<String, Value>) {
    for (exclusive, bound) in [
        ("exclusiveMinimum", "minimum"),
        ("exclusiveMaximum", "maximum"),
    ] {
        match schema.get(exclusive) {
            Some(Value::Bool(true)) => match schema.shift_remove(bound) {
                Some(value) => schema.insert(exclusive.to_owned(), value),
                None => schema.shift_remove(exclusive),
            },
            Some(Value::Bool(false)) => schema.shift_remove(exclusive),
            _ => None,
        };
    }
}
