//! Levels of detail in which a model sees a tool.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Tool;
use crate::excerpt::one_line;
use crate::schema::{SubschemaForm, subschema_form};

/// The length of a description on one line, in characters.
const MAX_LINE_CHARS: usize = 120;
/// The keywords of a schema that a signature keeps: they determine the structure of the values.
const STRUCTURE: [&str; 15] = [
    "type",
    "required",
    "enum",
    "const",
    "$ref",
    "nullable",
    "additionalProperties",
    "items",
    "prefixItems",
    "properties",
    "$defs",
    "definitions",
    "anyOf",
    "oneOf",
    "allOf",
];

/// The detail in which a model sees a tool. A call is validated against the full schema in any
/// case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Detail {
    /// The name and a description of one line; any arguments.
    Name,
    /// The names, types and choices of all arguments too, and which are required, without
    /// descriptions and constraints.
    Signature,
    /// The complete definition.
    Full,
}

impl Detail {
    /// All levels, in ascending order.
    pub const ALL: [Self; 3] = [Self::Name, Self::Signature, Self::Full];

    /// Returns the level's stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Signature => "signature",
            Self::Full => "full",
        }
    }

    /// Returns the tool, reduced to this level of detail.
    pub fn apply(self, tool: &Arc<Tool>) -> Arc<Tool> {
        if self == Self::Full {
            return Arc::clone(tool);
        }
        let mut reduced =
            Tool::without_arguments(&tool.name, one_line(&tool.description, MAX_LINE_CHARS));
        reduced.id.clone_from(&tool.id);
        reduced.source.clone_from(&tool.source);
        reduced.aliases.clone_from(&tool.aliases);
        reduced.strict = tool.strict;
        let schema = tool.provider_schema.as_ref().or(tool.parameters.as_ref());
        reduced.parameters = match self {
            Self::Name => schema
                .filter(|schema| has_no_arguments(schema))
                .map(keep_structure),
            _ => schema.map(keep_structure),
        };
        Arc::new(reduced)
    }
}

/// Returns `true` if a schema names no arguments.
fn has_no_arguments(schema: &Value) -> bool {
    schema.as_object().is_some_and(|members| {
        members.keys().all(|key| {
            ["type", "properties", "required", "additionalProperties"].contains(&key.as_str())
        }) && members
            .get("properties")
            .is_none_or(|properties| properties.as_object().is_some_and(Map::is_empty))
    })
}

/// Returns a schema without descriptions and constraints of its values. The recursion is bounded,
/// because a catalog bounds the depth of every schema.
fn keep_structure(schema: &Value) -> Value {
    let Value::Object(members) = schema else {
        return schema.clone();
    };
    let mut structure = Map::new();
    for (key, value) in members {
        if !STRUCTURE.contains(&key.as_str()) {
            continue;
        }
        let value = match (subschema_form(key), value) {
            (Some(SubschemaForm::Named), Value::Object(schemas)) => {
                let mut structures = Map::new();
                for (name, schema) in schemas {
                    structures.insert(name.clone(), keep_structure(schema));
                }
                Value::Object(structures)
            }
            (Some(SubschemaForm::One | SubschemaForm::List), Value::Array(schemas)) => {
                Value::Array(schemas.iter().map(keep_structure).collect())
            }
            (Some(SubschemaForm::One | SubschemaForm::List), schema) => keep_structure(schema),
            _ => value.clone(),
        };
        structure.insert(key.clone(), value);
    }
    Value::Object(structure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn signature_keeps_argument_structure_and_name_drops_it() {
        let mut tool = Tool::without_arguments("book", "Books a room.\nFor a day.");
        tool.parameters = Some(json!({
            "type": "object", "title": "Booking", "required": ["room"],
            "additionalProperties": false,
            "properties": {
                "room": {"type": "string", "description": "Which one", "minLength": 2},
                "description": {
                    "anyOf": [{"type": "string", "pattern": "x"}, {"type": "null"}],
                    "default": null,
                },
                "days": {
                    "type": "array",
                    "items": {"enum": ["mon", "tue"], "description": "A day"},
                },
            },
        }));
        let tool = Arc::new(tool);
        let signature = Detail::Signature.apply(&tool);
        assert_eq!(signature.description, "Books a room. For a day.");
        let expected = json!({
            "type": "object", "required": ["room"], "additionalProperties": false,
            "properties": {
                "room": {"type": "string"},
                "description": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "days": {"type": "array", "items": {"enum": ["mon", "tue"]}},
            },
        });
        assert_eq!(signature.parameters, Some(expected));
        assert_eq!(Detail::Name.apply(&tool).parameters, None);
        assert_eq!(Detail::Full.apply(&tool), tool);
        let plain = Arc::new(Tool::without_arguments("ping", "Answers"));
        assert_eq!(
            Detail::Name.apply(&plain).parameters,
            plain.parameters,
            "an empty schema stays, because it is short"
        );
    }
}
