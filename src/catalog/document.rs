//! The document that a tool becomes: what the keyword index and the embedding model read of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Tool;

/// The most text of one field that is indexed, in bytes; a description longer than that is cut.
const MAX_FIELD_BYTES: usize = 32 * 1024;

/// A part of a tool's document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Field {
    /// The canonical name.
    Name,
    /// The title.
    Title,
    /// The description.
    Description,
    /// The other names.
    Aliases,
    /// The tags.
    Tags,
    /// Parameter names at any depth.
    ParameterNames,
    /// Parameter descriptions at any depth.
    ParameterDescriptions,
    /// Enumerated parameter values at any depth.
    EnumValues,
}

impl Field {
    /// Every field, in the order in which they are reported.
    pub const ALL: [Self; 8] = [
        Self::Name,
        Self::Title,
        Self::Aliases,
        Self::Description,
        Self::Tags,
        Self::ParameterNames,
        Self::ParameterDescriptions,
        Self::EnumValues,
    ];

    /// Returns the words that a sentence uses for the field.
    pub fn label(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Title => "title",
            Self::Description => "description",
            Self::Aliases => "aliases",
            Self::Tags => "tags",
            Self::ParameterNames => "parameter names",
            Self::ParameterDescriptions => "parameter descriptions",
            Self::EnumValues => "parameter values",
        }
    }
}

/// The texts of a tool by field; a field may have several.
pub(crate) fn texts(tool: &Tool) -> Vec<(Field, &str)> {
    let mut texts = vec![(Field::Name, tool.name.as_str())];
    let title = tool.title.as_deref().or(tool.annotations.title.as_deref());
    texts.extend(title.filter(|title| *title != tool.name).map(|title| (Field::Title, title)));
    texts.extend(tool.aliases.iter().map(|alias| (Field::Aliases, alias.name.as_str())));
    texts.push((Field::Description, &tool.description));
    texts.extend(tool.tags.iter().map(|tag| (Field::Tags, tag.as_str())));
    if let Some(parameters) = &tool.parameters {
        schema_texts(parameters, &mut texts);
    }
    for (_, text) in &mut texts {
        *text = &text[..text.floor_char_boundary(MAX_FIELD_BYTES)];
    }
    texts
}

/// Collects parameter names, descriptions and values. The depth is bounded by the schema check.
fn schema_texts<'a>(schema: &'a Value, texts: &mut Vec<(Field, &'a str)>) {
    match schema {
        Value::Object(members) => {
            for (key, member) in members {
                match (key.as_str(), member) {
                    ("properties", Value::Object(properties)) => {
                        for (name, property) in properties {
                            texts.push((Field::ParameterNames, name));
                            schema_texts(property, texts);
                        }
                    }
                    ("description", Value::String(text)) => texts.push((Field::ParameterDescriptions, text)),
                    ("const", Value::String(text)) => texts.push((Field::EnumValues, text)),
                    ("enum", Value::Array(values)) => {
                        texts.extend(values.iter().filter_map(Value::as_str).map(|text| (Field::EnumValues, text)));
                    }
                    ("default" | "examples" | "example" | "required" | "pattern", _) => {}
                    (_, Value::Object(_) | Value::Array(_)) => schema_texts(member, texts),
                    _ => {}
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| schema_texts(item, texts)),
        _ => {}
    }
}

/// The text that an embedding model reads of a tool: the name in words, title, aliases and description.
///
/// Tags and parameters dilute the vector (both lowered the benchmarks' mean); tags stand in for a description
/// that is not there.
pub(crate) fn embedding_text(tool: &Tool, split: impl Fn(&str) -> String) -> String {
    let mut text = split(&tool.name);
    let mut add = |separator: &str, part: &str| {
        text.push_str(separator);
        text.push_str(part);
    };
    let described = !tool.description.trim().is_empty();
    for (field, part) in texts(tool) {
        match field {
            Field::Title | Field::Aliases => add(", ", &split(part)),
            Field::Description if described => add(": ", part),
            Field::Tags if !described => add(", ", part),
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parameter_texts_come_from_any_depth() {
        let mut tool = Tool::new("book", "Books");
        tool.parameters = Some(json!({
            "type": "object",
            "properties": {
                "stay": {"type": "object", "properties": {"board": {"enum": ["half", "full"], "description": "Meals"}}},
                "guests": {"type": "array", "items": {"$ref": "#/$defs/guest"}},
            },
            "$defs": {"guest": {"properties": {"surname": {"type": "string", "default": "Nobody"}}}},
        }));
        let of = |wanted| texts(&tool).into_iter().filter(|(f, _)| *f == wanted).map(|(_, t)| t).collect::<Vec<_>>();
        assert_eq!(of(Field::ParameterNames), ["stay", "board", "guests", "surname"]);
        assert_eq!(of(Field::ParameterDescriptions), ["Meals"]);
        assert_eq!(of(Field::EnumValues), ["half", "full"]);
    }
}
