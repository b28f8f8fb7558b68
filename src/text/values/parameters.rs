//! Detection of the kinds of values that a tool accepts.
//!
//! The evidence for the kind of a parameter is its `format`, a number type, its name, or words of
//! its description. Such words are "file path" or "owner's e-mail address". A tool's name and
//! description mention kinds of files. All evidence comes from the tool's author, so it counts
//! alike, and it is not verified.

use serde_json::Value as Json;

use super::super::analysis::words;
use super::super::field::Field;
use super::extensions::file_kinds_in_text;
use super::kind::ValueKind;

/// The most words of a description that are read. The first words usually define the parameter.
const MAX_WORDS: usize = 12;

/// A kind of value that a tool accepts or mentions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedValue<'a> {
    pub(crate) kind: ValueKind,
    /// The field with the evidence: the parameter names, or the tool's name, title or description.
    pub(crate) field: Field,
    /// The name of the first parameter that accepts the value, or the word that mentions it.
    pub(crate) by: &'a str,
}

/// Returns the kinds of values that a word of a parameter's name stands for.
fn kinds_from_name_word(word: &str) -> &'static [ValueKind] {
    use ValueKind::{Date, Email, Id, Number, Path, Text, Url};
    match word {
        "path" | "paths" | "file" | "files" | "filename" | "filepath" | "dir" | "directory"
        | "folder" => &[Path],
        "url" | "urls" | "uri" | "link" | "href" | "website" | "webpage" | "domain" | "site"
        | "endpoint" => &[Url],
        "email" | "emails" | "mail" | "recipient" | "recipients" | "cc" | "bcc" => &[Email],
        "date" | "time" | "datetime" | "timestamp" | "day" | "month" | "year" | "start" | "end"
        | "since" | "until" | "when" | "at" | "deadline" | "due" | "expires" | "schedule" => {
            &[Date]
        }
        "amount" | "price" | "quantity" | "qty" | "count" | "limit" | "size" | "percent"
        | "value" | "rate" | "minutes" | "seconds" | "hours" | "weight" | "length" | "width"
        | "height" | "distance" | "budget" | "max" | "min" | "total" => &[Number],
        "number" => &[Number, Id],
        "id" | "ids" | "key" | "code" | "ref" | "reference" | "uuid" | "no" | "sku" | "isbn"
        | "ticket" | "identifier" | "case" | "order" | "account" => &[Id],
        "text" | "title" | "name" | "message" | "body" | "content" | "query" | "subject"
        | "caption" | "comment" | "label" | "note" | "term" | "phrase" | "word" | "words" => {
            &[Text]
        }
        _ => &[],
    }
}

/// Returns the kinds of values that a word of a parameter's description stands for. Fewer words
/// count than in names, because prose uses many of them in other meanings.
fn kinds_from_description_word(word: &str) -> &'static [ValueKind] {
    match word {
        "at" | "no" | "order" | "case" | "end" | "start" | "account" | "number" => &[],
        _ => match kinds_from_name_word(word) {
            [ValueKind::Number | ValueKind::Text] => &[],
            kinds => kinds,
        },
    }
}

fn kind_from_format(format: &str) -> Option<ValueKind> {
    Some(match format {
        "email" | "idn-email" => ValueKind::Email,
        "uri" | "uri-reference" | "iri" | "iri-reference" | "url" => ValueKind::Url,
        "date" | "date-time" | "time" => ValueKind::Date,
        "uuid" => ValueKind::Id,
        _ => return None,
    })
}

/// Returns the kinds of values that a tool accepts, each once.
///
/// These are the kinds that its parameters accept, at any depth (which the schema check bounds),
/// and the kinds of files that its `texts` mention.
pub(crate) fn accepted_values<'a>(
    schema: Option<&'a Json>,
    texts: &[(Field, &'a str)],
) -> Vec<AcceptedValue<'a>> {
    let mut accepted = Vec::new();
    if let Some(schema) = schema {
        collect(schema, &mut accepted);
    }
    for &(field, text) in texts {
        if !matches!(field, Field::Name | Field::Title | Field::Description) {
            continue;
        }
        for (kind, by) in file_kinds_in_text(text) {
            add(&mut accepted, AcceptedValue { kind, field, by });
        }
    }
    accepted
}

/// Adds a value unless its kind is present.
fn add<'a>(accepted: &mut Vec<AcceptedValue<'a>>, new: AcceptedValue<'a>) {
    if accepted.iter().all(|other| other.kind != new.kind) {
        accepted.push(new);
    }
}

fn collect<'a>(schema: &'a Json, accepted: &mut Vec<AcceptedValue<'a>>) {
    match schema {
        Json::Object(members) => {
            for (key, member) in members {
                match (key.as_str(), member) {
                    ("properties", Json::Object(properties)) => {
                        for (name, property) in properties {
                            collect_from_parameter(name, property, accepted);
                            collect(property, accepted);
                        }
                    }
                    ("default" | "examples" | "example" | "required" | "enum" | "const", _) => {}
                    (_, Json::Object(_) | Json::Array(_)) => collect(member, accepted),
                    _ => {}
                }
            }
        }
        Json::Array(items) => items.iter().for_each(|item| collect(item, accepted)),
        _ => {}
    }
}

fn collect_from_parameter<'a>(
    name: &'a str,
    property: &Json,
    accepted: &mut Vec<AcceptedValue<'a>>,
) {
    let mut add_kind = |kind: ValueKind| {
        let value = AcceptedValue {
            kind,
            field: Field::ParameterNames,
            by: name,
        };
        add(accepted, value);
    };
    let text = |key: &str| property.get(key)?.as_str();
    if let Some(format) = text("format")
        && let Some(kind) = kind_from_format(format)
    {
        add_kind(kind);
    }
    if matches!(text("type"), Some("integer" | "number")) {
        add_kind(ValueKind::Number);
    }
    let lower_case_words = |text: &str| {
        let words = words(text)
            .take(MAX_WORDS)
            .map(|(start, end)| text[start..end].to_ascii_lowercase());
        words.collect::<Vec<String>>()
    };
    for word in lower_case_words(name) {
        for &kind in kinds_from_name_word(&word) {
            add_kind(kind);
        }
    }
    if let Some(description) = text("description") {
        for word in lower_case_words(description) {
            for &kind in kinds_from_description_word(&word) {
                add_kind(kind);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn formats_types_names_and_descriptions_give_the_kinds() {
        use ValueKind::{Date, Email, Id, Number, Path, Text, Url};
        for (name, property, expected) in [
            ("source", json!({"format": "uri"}), vec![Url]),
            (
                "whom",
                json!({"type": "string", "format": "email"}),
                vec![Email],
            ),
            ("begin", json!({"format": "date-time"}), vec![Date]),
            ("n", json!({"type": "integer"}), vec![Number]),
            ("filePath", json!({}), vec![Path]),
            ("target_url", json!(true), vec![Url]),
            ("created_at", json!({}), vec![Date]),
            ("orderId", json!({}), vec![Id]),
            ("order_number", json!({}), vec![Id, Number]),
            ("what", json!({"description": "file path"}), vec![Path]),
            (
                "who",
                json!({"description": "The e-mail address, or the id"}),
                vec![Email, Id],
            ),
            ("when_to", json!({"description": "words"}), vec![Date]),
            ("message", json!({}), vec![Text]),
            (
                "colour",
                json!({
                    "description": "of the title, at most a number",
                    "default": {"properties": {"id": {}}},
                }),
                vec![],
            ),
            (
                "far",
                json!({
                    "description": "one two three four five six seven eight nine ten eleven twelve \
                                    path",
                }),
                vec![],
            ),
        ] {
            let schema = json!({"type": "object", "properties": {name: property}});
            let mut kinds: Vec<ValueKind> = accepted_values(Some(&schema), &[])
                .into_iter()
                .map(|value| value.kind)
                .collect();
            kinds.sort_unstable_by_key(|kind| format!("{kind:?}"));
            assert_eq!(kinds, expected, "{schema}");
        }
    }

    fn kinds_and_names<'a>(
        schema: Option<&'a Json>,
        texts: &[(Field, &'a str)],
    ) -> Vec<(ValueKind, &'a str)> {
        accepted_values(schema, texts)
            .into_iter()
            .map(|value| (value.kind, value.by))
            .collect()
    }

    #[test]
    fn first_parameter_of_a_kind_is_reported_at_any_depth() {
        let schema = json!({"properties": {
            "files": {"type": "array", "items": {"properties": {"file_id": {}}}},
            "path": {},
        }});
        assert_eq!(
            kinds_and_names(Some(&schema), &[]),
            [(ValueKind::Path, "files"), (ValueKind::Id, "file_id")]
        );
        assert!(
            kinds_and_names(Some(&json!([])), &[]).is_empty()
                && kinds_and_names(Some(&json!("path")), &[]).is_empty()
        );
        let texts = [
            (Field::Name, "listTables"),
            (Field::Description, "Lists the sheets and slides"),
            (Field::Tags, "image"),
        ];
        let expected = [
            (ValueKind::Spreadsheet, "Tables"),
            (ValueKind::Presentation, "slides"),
        ];
        assert_eq!(kinds_and_names(None, &texts), expected);
    }
}
