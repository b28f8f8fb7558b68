//! The document that a tool becomes: what the keyword index and the embedding model read of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::analysis::split_identifier;
use super::values::{self, Taken};
use crate::catalog::Tool;

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

/// The texts of a tool by field, as they are indexed; a field may have several.
pub fn texts(tool: &Tool) -> Vec<(Field, &str)> {
    let mut texts = own_texts(tool);
    if let Some(parameters) = &tool.parameters {
        schema_texts(parameters, &mut texts);
    }
    texts
        .into_iter()
        .map(|(field, text)| (field, beginning(text)))
        .collect()
}

/// Returns what is read of one field, in the same order.
pub fn texts_of(tool: &Tool, field: Field) -> impl Iterator<Item = &str> {
    let all = match field {
        Field::ParameterNames | Field::ParameterDescriptions | Field::EnumValues => texts(tool),
        _ => own_texts(tool)
            .into_iter()
            .map(|(field, text)| (field, beginning(text)))
            .collect(),
    };
    all.into_iter()
        .filter(move |(own, _)| *own == field)
        .map(|(_, text)| text)
}

/// The kinds of values that the tool takes, each once.
pub fn taken(tool: &Tool) -> Vec<Taken<'_>> {
    let texts: Vec<(Field, &str)> = own_texts(tool)
        .into_iter()
        .map(|(field, text)| (field, beginning(text)))
        .collect();
    values::taken(tool.parameters.as_ref(), &texts)
}

/// What is read of a field.
fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_FIELD_BYTES)]
}

/// The texts of the tool itself, without those of its parameters.
fn own_texts(tool: &Tool) -> Vec<(Field, &str)> {
    let mut texts = vec![(Field::Name, tool.name.as_str())];
    let title = tool.title.as_deref().or(tool.annotations.title.as_deref());
    texts.extend(
        title
            .filter(|title| *title != tool.name)
            .map(|title| (Field::Title, title)),
    );
    texts.extend(
        tool.aliases
            .iter()
            .map(|alias| (Field::Aliases, alias.name.as_str())),
    );
    texts.push((Field::Description, &tool.description));
    texts.extend(tool.tags.iter().map(|tag| (Field::Tags, tag.as_str())));
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
                    ("description", Value::String(text)) => {
                        texts.push((Field::ParameterDescriptions, text))
                    }
                    ("const", Value::String(text)) => texts.push((Field::EnumValues, text)),
                    ("enum", Value::Array(values)) => {
                        texts.extend(
                            values
                                .iter()
                                .filter_map(Value::as_str)
                                .map(|text| (Field::EnumValues, text)),
                        );
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

/// The text that an embedding model reads of a tool: the name in words, title, aliases and
/// description.
///
/// Tags and parameters dilute the vector (both lowered the benchmarks' mean); tags stand in for a
/// description that is not there.
#[derive(Default)]
pub struct EmbeddingText {
    /// The text, one field after the other.
    pub text: String,
    /// Where each field's part ends, in bytes.
    ends: Vec<(usize, Field)>,
}

impl EmbeddingText {
    /// Collects the text of a tool that models embed.
    pub fn new(tool: &Tool) -> Self {
        let mut text = Self::default();
        text.add("", &split_identifier(&tool.name), Field::Name);
        let described = !tool.description.trim().is_empty();
        for (field, part) in own_texts(tool) {
            let part = beginning(part);
            match field {
                Field::Title | Field::Aliases => text.add(", ", &split_identifier(part), field),
                Field::Description if described => text.add(": ", part, field),
                Field::Tags if !described => text.add(", ", part, field),
                _ => {}
            }
        }
        text
    }

    fn add(&mut self, separator: &str, part: &str, field: Field) {
        self.text.push_str(separator);
        self.text.push_str(part);
        self.ends.push((self.text.len(), field));
    }

    /// Returns the field that the byte at `at` comes from.
    ///
    /// # Panics
    ///
    /// Behind the end of the text.
    pub(crate) fn field_at(&self, at: usize) -> Field {
        self.ends[self.ends.partition_point(|&(end, _)| end <= at)].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_embedding_text_knows_its_fields() {
        let mut tool = Tool::without_arguments("readFile", "Reads files.");
        tool.title = Some("File reader".to_owned());
        tool.tags = vec!["disk".to_owned(), "io".to_owned()];
        let field_of = |text: &EmbeddingText, part: &str| {
            text.field_at(text.text.find(part).expect("it is there"))
        };
        let text = EmbeddingText::new(&tool);
        assert_eq!(text.text, "read File, File reader: Reads files.");
        let fields = ["read F", "File,", "reader", "Reads", "."].map(|part| field_of(&text, part));
        let [name, title, description] = [Field::Name, Field::Title, Field::Description];
        assert_eq!(fields, [name, name, title, description, description]);
        tool.description.clear();
        let text = EmbeddingText::new(&tool);
        assert_eq!(text.text, "read File, File reader, disk, io");
        assert_eq!(
            ["disk", "io"].map(|part| field_of(&text, part)),
            [Field::Tags; 2]
        );
    }

    #[test]
    fn parameter_texts_come_from_any_depth() {
        let mut tool = Tool::without_arguments("book", "Books");
        tool.parameters = Some(json!({
            "type": "object",
            "properties": {
                "stay": {"type": "object", "properties": {"board": {"enum": ["half", "full"], "description": "Meals"}}},
                "guests": {"type": "array", "items": {"$ref": "#/$defs/guest"}},
            },
            "$defs": {"guest": {"properties": {"surname": {"type": "string", "default": "Nobody"}}}},
        }));
        let of = |wanted| {
            texts(&tool)
                .into_iter()
                .filter(|(f, _)| *f == wanted)
                .map(|(_, t)| t)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of(Field::ParameterNames),
            ["stay", "board", "guests", "surname"]
        );
        assert_eq!(of(Field::ParameterDescriptions), ["Meals"]);
        assert_eq!(of(Field::EnumValues), ["half", "full"]);
    }
}
