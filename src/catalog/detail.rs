//! How much of a tool a model is shown.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Tool;
use crate::excerpt::one_line;
use crate::schema::{Holds, holds};

/// The most characters of a description that is cut to one line.
const MAX_LINE_CHARS: usize = 120;
/// The keywords of a schema that say which values there are, and nothing about them.
const SHAPE: [&str; 15] = [
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

/// How much of a tool a model is shown. A call is validated against the whole schema all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Detail {
    /// Its name and a description of one line; any arguments.
    Name,
    /// Also the names, types and choices of all arguments and which are required, without
    /// descriptions and constraints.
    Signature,
    /// All of its definition.
    Full,
}

impl Detail {
    /// Every level, the least first.
    pub const ALL: [Self; 3] = [Self::Name, Self::Signature, Self::Full];

    /// Returns the level's stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Signature => "signature",
            Self::Full => "full",
        }
    }

    /// Returns the tool with what is shown of it.
    pub fn of(self, tool: &Arc<Tool>) -> Arc<Tool> {
        if self == Self::Full {
            return Arc::clone(tool);
        }
        let mut shown =
            Tool::without_arguments(&tool.name, one_line(&tool.description, MAX_LINE_CHARS));
        shown.id.clone_from(&tool.id);
        shown.source.clone_from(&tool.source);
        shown.aliases.clone_from(&tool.aliases);
        shown.strict = tool.strict;
        let schema = tool.provider_schema.as_ref().or(tool.parameters.as_ref());
        shown.parameters = match self {
            Self::Name => schema.filter(|schema| takes_nothing(schema)).map(shape),
            _ => schema.map(shape),
        };
        Arc::new(shown)
    }
}

/// Returns `true` if a schema names no arguments.
fn takes_nothing(schema: &Value) -> bool {
    schema.as_object().is_some_and(|members| {
        members.keys().all(|key| {
            ["type", "properties", "required", "additionalProperties"].contains(&key.as_str())
        }) && members
            .get("properties")
            .is_none_or(|properties| properties.as_object().is_some_and(Map::is_empty))
    })
}

/// A schema without what is said about its values. Its depth is bounded, as that of every schema of
/// a catalog.
fn shape(schema: &Value) -> Value {
    let Value::Object(members) = schema else {
        return schema.clone();
    };
    let all = |values: &Value| match values {
        Value::Array(schemas) => Value::Array(schemas.iter().map(shape).collect()),
        other => shape(other),
    };
    let kept = members
        .iter()
        .filter(|(key, _)| SHAPE.contains(&key.as_str()))
        .map(|(key, value)| {
            let value = match (holds(key), value) {
                (Some(Holds::Named), Value::Object(schemas)) => Value::Object(
                    schemas
                        .iter()
                        .map(|(name, schema)| (name.clone(), shape(schema)))
                        .collect(),
                ),
                (Some(Holds::One | Holds::List), value) => all(value),
                _ => value.clone(),
            };
            (key.clone(), value)
        });
    Value::Object(kept.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_signature_has_the_shape_of_the_arguments_and_a_name_none() {
        let mut tool = Tool::without_arguments("book", "Books a room.\nFor a day.");
        tool.parameters = Some(json!({
            "type": "object", "title": "Booking", "required": ["room"], "additionalProperties": false,
            "properties": {
                "room": {"type": "string", "description": "Which one", "minLength": 2},
                "description": {"anyOf": [{"type": "string", "pattern": "x"}, {"type": "null"}], "default": null},
                "days": {"type": "array", "items": {"enum": ["mon", "tue"], "description": "A day"}},
            },
        }));
        let tool = Arc::new(tool);
        let signature = Detail::Signature.of(&tool);
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
        assert_eq!(Detail::Name.of(&tool).parameters, None);
        assert_eq!(Detail::Full.of(&tool), tool);
        let plain = Arc::new(Tool::without_arguments("ping", "Answers"));
        assert_eq!(
            Detail::Name.of(&plain).parameters,
            plain.parameters,
            "that it takes nothing is short to say"
        );
    }
}
