//! The texts of a tool that a model reads, each with its JSON pointer.

use std::collections::HashSet;

use serde_json::Value;

use picktools::catalog::Tool;
use picktools::catalog::spelling::normalise;
use picktools::schema::pointer_part;

/// The kind of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextKind {
    /// The tool's name.
    Name,
    /// The title.
    Title,
    /// The tool's description.
    Description,
    /// Another name, or a tag.
    Label,
    /// The name of a parameter.
    ParameterName,
    /// A description inside a parameter schema.
    Parameter,
    /// A value: a member of an enumeration, a default, an example.
    Value,
}

/// A text of a definition with its position.
pub struct ToolText<'a> {
    /// JSON pointer into the definition.
    pub(super) pointer: String,
    pub(super) kind: TextKind,
    pub(super) text: &'a str,
}

/// Lists the texts of a tool. The JSON reader limits the depth of schemas.
pub fn texts(tool: &Tool) -> Vec<ToolText<'_>> {
    let mut texts = Vec::new();
    let mut add = |pointer: String, kind, text| {
        texts.push(ToolText {
            pointer,
            kind,
            text,
        });
    };
    add("/name".to_owned(), TextKind::Name, tool.name.as_str());
    if let Some(title) = &tool.title {
        add("/title".to_owned(), TextKind::Title, title);
    }
    if let Some(title) = &tool.annotations.title {
        add("/annotations/title".to_owned(), TextKind::Title, title);
    }
    add(
        "/description".to_owned(),
        TextKind::Description,
        &tool.description,
    );
    for (index, alias) in tool.aliases.iter().enumerate() {
        add(format!("/aliases/{index}"), TextKind::Label, &alias.name);
    }
    for (index, tag) in tool.tags.iter().enumerate() {
        add(format!("/tags/{index}"), TextKind::Label, tag);
    }
    let schemas = [
        ("/parameters", &tool.parameters),
        ("/provider_schema", &tool.provider_schema),
        ("/output_schema", &tool.output_schema),
    ];
    for (field, schema) in schemas {
        if let Some(schema) = schema {
            SchemaTexts {
                pointer: field.to_owned(),
                texts: &mut texts,
            }
            .visit(schema, TextKind::Parameter);
        }
    }
    texts
}

/// Returns the names of the tool's parameters, normalised.
pub(super) fn parameter_names(texts: &[ToolText<'_>]) -> HashSet<String> {
    let mut names = HashSet::new();
    for text in texts {
        if text.kind == TextKind::ParameterName {
            names.insert(normalise(text.text));
        }
    }
    names
}

/// A walk through a schema that collects its texts.
struct SchemaTexts<'w, 'a> {
    pointer: String,
    texts: &'w mut Vec<ToolText<'a>>,
}

impl<'a> SchemaTexts<'_, 'a> {
    fn visit(&mut self, value: &'a Value, kind: TextKind) {
        match value {
            Value::String(text) => self.texts.push(ToolText {
                pointer: self.pointer.clone(),
                kind,
                text,
            }),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.below(&index.to_string(), |walk| walk.visit(item, kind));
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    self.below(key, |walk| walk.member(key, member, kind));
                }
            }
            _ => {}
        }
    }

    fn member(&mut self, key: &'a str, member: &'a Value, kind: TextKind) {
        match (key, member) {
            // Only validators read these members; the catalog reader has checked
            // references.
            (
                "type" | "format" | "pattern" | "$ref" | "$schema" | "$id" | "contentEncoding"
                | "required",
                _,
            ) => {}
            (
                "properties" | "$defs" | "definitions" | "patternProperties",
                Value::Object(properties),
            ) => {
                for (name, property) in properties {
                    self.below(name, |walk| {
                        let pointer = walk.pointer.clone();
                        walk.texts.push(ToolText {
                            pointer,
                            kind: TextKind::ParameterName,
                            text: name,
                        });
                        walk.visit(property, TextKind::Parameter);
                    });
                }
            }
            ("enum" | "const" | "default" | "examples" | "example", value) => {
                self.visit(value, TextKind::Value);
            }
            (_, value) => self.visit(value, kind),
        }
    }

    fn below(&mut self, key: &str, visit: impl FnOnce(&mut Self)) {
        let end = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(&pointer_part(key));
        visit(self);
        self.pointer.truncate(end);
    }
}
