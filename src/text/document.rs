//! The document of a tool: the texts that the keyword index and the embedding model read.

use serde_json::Value;

use super::analysis::split_identifier;
use super::field::Field;
use super::values::{self, AcceptedValue};
use crate::catalog::Tool;

/// The longest text of one field that is indexed, in bytes. Longer texts are cut.
const MAX_FIELD_BYTES: usize = 32 * 1024;
/// The most tags of a tool that are embedded.
const MAX_TAGS: usize = 32;
/// The longest text of a tag that is embedded, in bytes. Longer texts are cut.
const MAX_TAG_BYTES: usize = 256;

/// Returns the indexed texts of a tool with their fields. A field may have several texts.
pub fn texts(tool: &Tool) -> Vec<(Field, &str)> {
    let mut texts = top_level_texts(tool);
    if let Some(parameters) = &tool.parameters {
        schema_texts(parameters, &mut texts);
    }
    for (_, text) in &mut texts {
        *text = cut_field(text);
    }
    texts
}

/// Returns the indexed texts of one field, in the same order as [`texts`].
pub fn field_texts(tool: &Tool, field: Field) -> impl Iterator<Item = &str> {
    let candidates = match field {
        Field::ParameterNames | Field::ParameterDescriptions | Field::EnumValues => texts(tool),
        _ => top_level_texts(tool),
    };
    candidates
        .into_iter()
        .filter(move |(text_field, _)| *text_field == field)
        .map(|(_, text)| cut_field(text))
}

/// Returns the tags of a tool in words, each once.
pub(crate) fn tag_texts(tool: &Tool) -> Vec<String> {
    let mut texts = Vec::new();
    for tag in tool.tags.iter().take(MAX_TAGS) {
        let text = split_identifier(&tag[..tag.floor_char_boundary(MAX_TAG_BYTES)]);
        if !text.is_empty() && !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

/// Returns the kinds of values that the tool accepts, each once.
pub fn accepted_values(tool: &Tool) -> Vec<AcceptedValue<'_>> {
    let mut texts = top_level_texts(tool);
    for (_, text) in &mut texts {
        *text = cut_field(text);
    }
    values::accepted_values(tool.parameters.as_ref(), &texts)
}

/// Cuts a text to [`MAX_FIELD_BYTES`].
fn cut_field(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_FIELD_BYTES)]
}

/// Returns the texts of the tool itself, without those of its parameters.
fn top_level_texts(tool: &Tool) -> Vec<(Field, &str)> {
    let mut texts = vec![(Field::Name, tool.name.as_str())];
    let title = tool.title.as_deref().or(tool.annotations.title.as_deref());
    if let Some(title) = title
        && title != tool.name
    {
        texts.push((Field::Title, title));
    }
    for alias in &tool.aliases {
        texts.push((Field::Aliases, &alias.name));
    }
    texts.push((Field::Description, &tool.description));
    for tag in &tool.tags {
        texts.push((Field::Tags, tag));
    }
    texts
}

/// Collects parameter names, descriptions and values. The schema check bounds the depth.
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
                        texts.push((Field::ParameterDescriptions, text));
                    }
                    ("const", Value::String(text)) => texts.push((Field::EnumValues, text)),
                    ("enum", Value::Array(values)) => {
                        for value in values {
                            if let Some(text) = value.as_str() {
                                texts.push((Field::EnumValues, text));
                            }
                        }
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

/// The text of a tool for an embedding model: the name in words, title, aliases and description.
///
/// Tags and parameters are left out because they dilute the vector: both lowered the mean of the
/// benchmarks. Tags replace a missing description. Beside the text, tags have vectors of their own.
#[derive(Default)]
pub struct EmbeddingText {
    /// The text, one field after the other.
    pub text: String,
    /// The end of each field's part, in bytes.
    ends: Vec<(usize, Field)>,
}

impl EmbeddingText {
    /// Builds the embedding text of a tool.
    pub fn new(tool: &Tool) -> Self {
        let mut text = Self::default();
        text.add("", &split_identifier(&tool.name), Field::Name);
        let has_description = !tool.description.trim().is_empty();
        for (field, part) in top_level_texts(tool) {
            let part = cut_field(part);
            match field {
                Field::Title | Field::Aliases => text.add(", ", &split_identifier(part), field),
                Field::Description if has_description => text.add(": ", part, field),
                Field::Tags if !has_description => text.add(", ", part, field),
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

    /// Returns the field of the byte at `position`.
    ///
    /// # Panics
    ///
    /// If `position` is after the end of the text.
    pub(crate) fn field_at(&self, position: usize) -> Field {
        self.ends[self.ends.partition_point(|&(end, _)| end <= position)].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn embedding_text_maps_positions_to_fields() {
        let mut tool = Tool::without_arguments("readFile", "Reads files.");
        tool.title = Some("File reader".to_owned());
        tool.tags = vec!["disk".to_owned(), "io".to_owned()];
        let field_at_part = |text: &EmbeddingText, part: &str| {
            text.field_at(text.text.find(part).expect("the part is in the text"))
        };
        let text = EmbeddingText::new(&tool);
        assert_eq!(text.text, "read File, File reader: Reads files.");
        let fields =
            ["read F", "File,", "reader", "Reads", "."].map(|part| field_at_part(&text, part));
        let [name, title, description] = [Field::Name, Field::Title, Field::Description];
        assert_eq!(fields, [name, name, title, description, description]);
        tool.description.clear();
        let text = EmbeddingText::new(&tool);
        assert_eq!(text.text, "read File, File reader, disk, io");
        assert_eq!(
            ["disk", "io"].map(|part| field_at_part(&text, part)),
            [Field::Tags; 2]
        );
    }

    #[test]
    fn parameter_texts_come_from_any_depth() {
        let mut tool = Tool::without_arguments("book", "Books");
        tool.parameters = Some(json!({
            "type": "object",
            "properties": {
                "stay": {
                    "type": "object",
                    "properties": {"board": {"enum": ["half", "full"], "description": "Meals"}},
                },
                "guests": {"type": "array", "items": {"$ref": "#/$defs/guest"}},
            },
            "$defs": {
                "guest": {"properties": {"surname": {"type": "string", "default": "Nobody"}}},
            },
        }));
        let texts_in = |field| field_texts(&tool, field).collect::<Vec<_>>();
        assert_eq!(
            texts_in(Field::ParameterNames),
            ["stay", "board", "guests", "surname"]
        );
        assert_eq!(texts_in(Field::ParameterDescriptions), ["Meals"]);
        assert_eq!(texts_in(Field::EnumValues), ["half", "full"]);
    }
}
