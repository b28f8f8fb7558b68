//! The properties of an object in the arguments, and their spelling.

use std::collections::BTreeSet;
use std::fmt;

use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::schema::{name_from_pointer_part, pointer_part, resolve};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::Repair;

/// The most schemas that are collected for one value.
const MAX_SCHEMAS: usize = 256;
/// The deepest nesting of references and alternatives.
const MAX_DEPTH: usize = 16;
/// The most objects and arrays whose properties are compared with the schema.
const MAX_VISITED: usize = 64;
/// The most unknown properties that are reported for one call.
const MAX_UNKNOWN: usize = 10;
/// The lowest similarity (0 to 1) at which a property is suggested for an unknown one.
const SUGGESTION_SIMILARITY: f64 = 0.85;
/// The keywords with which a schema allows properties that it does not list.
const OTHER_PROPERTIES: [&str; 3] = [
    "additionalProperties",
    "patternProperties",
    "unevaluatedProperties",
];

/// A property that the schema does not list, although it is similar to one that is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UnknownProperty {
    /// JSON pointer to the property.
    pub pointer: String,
    /// The listed property that is similar.
    pub suggestion: String,
}

impl fmt::Display for UnknownProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pointer = marked(&self.pointer, MAX_NAME_CHARS);
        let suggestion = marked(&self.suggestion, MAX_NAME_CHARS);
        write!(
            f,
            "{pointer} is not a property of the tool; did you mean {suggestion:?}?"
        )
    }
}

/// The properties that the schemas of one object list.
pub(super) struct Properties<'s> {
    schemas: Vec<&'s Map<String, Value>>,
    listed: BTreeSet<&'s str>,
}

impl<'s> Properties<'s> {
    /// Returns the properties of the object at a JSON pointer.
    pub(super) fn at(root: &'s Value, pointer: &str) -> Self {
        let schemas = schemas_at(root, pointer);
        let mut listed = BTreeSet::new();
        for schema in &schemas {
            let properties = schema.get("properties").and_then(Value::as_object);
            listed.extend(
                properties
                    .into_iter()
                    .flat_map(Map::keys)
                    .map(String::as_str),
            );
            listed.extend(required(schema));
        }
        Self { schemas, listed }
    }

    /// Returns `true` if the schema lists a property.
    pub(super) fn lists(&self, name: &str) -> bool {
        self.listed.contains(name)
    }

    /// Returns `true` if a schema requires a property.
    pub(super) fn requires(&self, name: &str) -> bool {
        let mut schemas = self.schemas.iter();
        schemas.any(|schema| required(schema).any(|required| required == name))
    }

    /// Returns `true` if the schema lists properties and does not describe others.
    pub(super) fn are_complete(&self) -> bool {
        let describes_others = |schema: &&Map<String, Value>| {
            let others = OTHER_PROPERTIES.iter().filter_map(|key| schema.get(*key));
            others.into_iter().any(|other| *other != Value::Bool(false))
        };
        !self.listed.is_empty() && !self.schemas.iter().any(describes_others)
    }

    /// Renames the first property that differs from one listed and absent property only in case and
    /// separators.
    pub(super) fn correct_name(&self, pointer: &str, arguments: &mut Value) -> Option<Repair> {
        let object = arguments.pointer_mut(pointer)?.as_object_mut()?;
        let (from, to) = self.misspelt(object)?;
        let renamed = std::mem::take(object);
        for (name, value) in renamed {
            let name = if name == from { to.clone() } else { name };
            object.insert(name, value);
        }
        Some(Repair::Renamed {
            pointer: format!("{pointer}/{}", pointer_part(&from)),
            to,
        })
    }

    fn misspelt(&self, object: &Map<String, Value>) -> Option<(String, String)> {
        let unknown: Vec<&String> = object.keys().filter(|name| !self.lists(name)).collect();
        unknown.iter().find_map(|name| {
            let plain = spelling(name);
            let mut listed = self
                .listed
                .iter()
                .filter(|listed| spelling(listed) == plain);
            let (Some(only), None) = (listed.next(), listed.next()) else {
                return None;
            };
            let has_rival = unknown
                .iter()
                .any(|other| other != name && spelling(other) == plain);
            let is_free = !plain.is_empty() && !has_rival && !object.contains_key(*only);
            is_free.then(|| ((*name).clone(), (*only).to_owned()))
        })
    }

    /// Returns the listed and absent property that is most similar to an unknown one.
    fn nearest(&self, name: &str, object: &Map<String, Value>) -> Option<&'s str> {
        let name = name.to_lowercase();
        let absent = self
            .listed
            .iter()
            .filter(|listed| !object.contains_key(**listed));
        let near = absent.map(|listed| {
            let listed_name = listed.to_lowercase();
            (strsim::jaro_winkler(&name, &listed_name), *listed)
        });
        let best = near.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
        (best.0 >= SUGGESTION_SIMILARITY).then_some(best.1)
    }
}

/// Returns the properties that the schema does not list and that are similar to one that it lists.
pub(crate) fn unknown_properties(root: &Value, arguments: &Value) -> Vec<UnknownProperty> {
    let mut unknown = Vec::new();
    for (pointer, properties) in objects(root, arguments) {
        let Some(object) = arguments.pointer(&pointer).and_then(Value::as_object) else {
            continue;
        };
        if !properties.are_complete() {
            continue;
        }
        for name in object.keys().filter(|name| !properties.lists(name)) {
            if let Some(suggestion) = properties.nearest(name, object) {
                unknown.push(UnknownProperty {
                    pointer: format!("{pointer}/{}", pointer_part(name)),
                    suggestion: suggestion.to_owned(),
                });
            }
        }
    }
    unknown.truncate(MAX_UNKNOWN);
    unknown
}

/// Returns the pointers to the first objects of the arguments that may have properties that the
/// schema does not list, with the properties that it lists.
pub(super) fn objects<'s>(root: &'s Value, arguments: &Value) -> Vec<(String, Properties<'s>)> {
    let mut objects = Vec::new();
    let mut open = vec![(String::new(), arguments)];
    for _ in 0..MAX_VISITED {
        let Some((pointer, value)) = open.pop() else {
            break;
        };
        match value {
            Value::Object(members) => {
                for (name, member) in members.iter().rev().filter(|(_, member)| has_parts(member)) {
                    open.push((format!("{pointer}/{}", pointer_part(name)), member));
                }
                if pointer.is_empty() && lists_all(root, members) {
                    continue;
                }
                let properties = Properties::at(root, &pointer);
                if !properties.listed.is_empty() {
                    objects.push((pointer, properties));
                }
            }
            Value::Array(items) => {
                let parts = items.iter().enumerate().filter(|(_, item)| has_parts(item));
                for (index, item) in parts.take(MAX_VISITED) {
                    open.push((format!("{pointer}/{index}"), item));
                }
            }
            _ => {}
        }
    }
    objects
}

/// Returns `true` if the `properties` of a schema have all members of an object.
fn lists_all(schema: &Value, members: &Map<String, Value>) -> bool {
    let listed = schema.get("properties").and_then(Value::as_object);
    listed.is_some_and(|listed| members.keys().all(|name| listed.contains_key(name)))
}

fn has_parts(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Array(_))
}

fn required(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the letters and digits of a name in lower case.
pub(super) fn spelling(name: &str) -> String {
    let letters = name.chars().filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// Returns the schemas that may apply to the value at a pointer, along properties and items, with
/// their alternatives.
pub(super) fn schemas_at<'s>(root: &'s Value, pointer: &str) -> Vec<&'s Map<String, Value>> {
    let mut schemas = Vec::new();
    expand(root, root, 0, &mut schemas);
    for part in pointer.split('/').skip(1) {
        let name = name_from_pointer_part(part);
        let mut inner = Vec::new();
        for schema in schemas {
            for below in subschemas(schema, &name) {
                expand(root, below, 0, &mut inner);
            }
        }
        schemas = inner;
    }
    schemas
}

/// Returns the schemas of a property or an item.
fn subschemas<'s>(schema: &'s Map<String, Value>, name: &str) -> Vec<&'s Value> {
    let property = schema.get("properties").and_then(|all| all.get(name));
    let item = |key: &str| match schema.get(key)? {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        items => Some(items),
    };
    if let Some(property) = property {
        return vec![property];
    }
    let others = [
        schema.get("additionalProperties"),
        item("prefixItems").or_else(|| item("items")),
    ];
    others.into_iter().flatten().collect()
}

/// Adds a schema with those that it refers to or combines.
fn expand<'s>(
    root: &'s Value,
    schema: &'s Value,
    depth: usize,
    schemas: &mut Vec<&'s Map<String, Value>>,
) {
    let Some(members) = schema.as_object() else {
        return;
    };
    if depth > MAX_DEPTH || schemas.len() >= MAX_SCHEMAS {
        return;
    }
    schemas.push(members);
    if let Some(reference) = members.get("$ref").and_then(Value::as_str)
        && let Some(target) = resolve(root, reference)
    {
        expand(root, target, depth + 1, schemas);
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let combined = members.get(keyword).and_then(Value::as_array);
        for one in combined.into_iter().flatten() {
            expand(root, one, depth + 1, schemas);
        }
    }
}
