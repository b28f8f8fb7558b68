//! The texts of a tool that a model gets to read, each with its place.

use std::collections::HashSet;

use serde_json::Value;

use picktools::catalog::Tool;
use picktools::catalog::spelling::normalise;
use picktools::schema::pointer_part;

/// What kind of text it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
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
    /// What is said of a parameter.
    Parameter,
    /// A value: one of an enumeration, a default, an example.
    Value,
}

/// A text and where it stands.
pub struct Text<'a> {
    /// JSON pointer into the definition.
    pub(super) pointer: String,
    pub(super) kind: Kind,
    pub(super) text: &'a str,
}

/// The texts of a tool. The depth of schemas is bounded by the reader of JSON.
pub fn texts(tool: &Tool) -> Vec<Text<'_>> {
    let mut texts = Vec::new();
    let mut add = |pointer: String, kind, text| {
        texts.push(Text {
            pointer,
            kind,
            text,
        })
    };
    add("/name".to_owned(), Kind::Name, tool.name.as_str());
    if let Some(title) = &tool.title {
        add("/title".to_owned(), Kind::Title, title);
    }
    if let Some(title) = &tool.annotations.title {
        add("/annotations/title".to_owned(), Kind::Title, title);
    }
    add(
        "/description".to_owned(),
        Kind::Description,
        &tool.description,
    );
    for (index, alias) in tool.aliases.iter().enumerate() {
        add(format!("/aliases/{index}"), Kind::Label, &alias.name);
    }
    for (index, tag) in tool.tags.iter().enumerate() {
        add(format!("/tags/{index}"), Kind::Label, tag);
    }
    let schemas = [
        ("/parameters", &tool.parameters),
        ("/provider_schema", &tool.provider_schema),
        ("/output_schema", &tool.output_schema),
    ];
    for (field, schema) in schemas {
        if let Some(schema) = schema {
            Walk {
                pointer: field.to_owned(),
                texts: &mut texts,
            }
            .visit(schema, Kind::Parameter);
        }
    }
    texts
}

/// The names of the tool's parameters, without case and separators.
pub(super) fn parameter_names(texts: &[Text<'_>]) -> HashSet<String> {
    texts
        .iter()
        .filter(|text| text.kind == Kind::ParameterName)
        .map(|text| normalise(text.text))
        .collect()
}

struct Walk<'w, 'a> {
    pointer: String,
    texts: &'w mut Vec<Text<'a>>,
}

impl<'a> Walk<'_, 'a> {
    fn visit(&mut self, value: &'a Value, kind: Kind) {
        match value {
            Value::String(text) => self.texts.push(Text {
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

    fn member(&mut self, key: &'a str, member: &'a Value, kind: Kind) {
        match (key, member) {
            // What a validator reads and no model takes for prose; the reader has looked at
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
                        walk.texts.push(Text {
                            pointer,
                            kind: Kind::ParameterName,
                            text: name,
                        });
                        walk.visit(property, Kind::Parameter);
                    });
                }
            }
            ("enum" | "const" | "default" | "examples" | "example", value) => {
                self.visit(value, Kind::Value)
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
