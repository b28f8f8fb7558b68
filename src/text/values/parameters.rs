//! Which kinds of values the parameters of a tool take.
//!
//! A JSON Schema says it with `format`, with the type of a number, with the parameter's name, or in
//! what is said of it: "file path", "owner's e-mail address". What kinds of files a tool is for,
//! its name and description say. All of these are of the author's own, so each counts alike, and
//! none is checked.

use serde_json::Value as Json;

use super::super::analysis::words;
use super::super::document::Field;
use super::ValueKind;
use super::endings::spoken_of_in;

/// The most words of a description that are read: what a parameter is stands in front.
const MAX_WORDS: usize = 12;

/// A kind of value that a tool takes, or speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken<'a> {
    pub(crate) kind: ValueKind,
    /// Where the tool says so: with the name of a parameter, or in its name or description.
    pub(crate) field: Field,
    /// The first parameter that takes it, or the word.
    pub(crate) by: &'a str,
}

/// Words of parameters' names that say what they take.
fn in_name(word: &str) -> &'static [ValueKind] {
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

/// Words of parameters' descriptions that say what they take: fewer, as they stand among others.
fn in_description(word: &str) -> &'static [ValueKind] {
    match word {
        "at" | "no" | "order" | "case" | "end" | "start" | "account" | "number" => &[],
        _ => match in_name(word) {
            [ValueKind::Number | ValueKind::Text] => &[],
            kinds => kinds,
        },
    }
}

fn of_format(format: &str) -> Option<ValueKind> {
    Some(match format {
        "email" | "idn-email" => ValueKind::Email,
        "uri" | "uri-reference" | "iri" | "iri-reference" | "url" => ValueKind::Url,
        "date" | "date-time" | "time" => ValueKind::Date,
        "uuid" => ValueKind::Id,
        _ => return None,
    })
}

/// Returns the kinds of values that a tool takes: those that its parameters take, at any depth
/// (which is bounded by the schema check), and the kinds of files that its `texts` speak of.
pub(crate) fn taken<'a>(schema: Option<&'a Json>, texts: &[(Field, &'a str)]) -> Vec<Taken<'a>> {
    let mut taken = Vec::new();
    schema
        .into_iter()
        .for_each(|schema| collect(schema, &mut taken));
    for &(field, text) in texts
        .iter()
        .filter(|(field, _)| matches!(field, Field::Name | Field::Title | Field::Description))
    {
        spoken_of_in(text).for_each(|(kind, by)| add(&mut taken, Taken { kind, field, by }));
    }
    taken
}

/// Adds a kind unless it is there.
fn add<'a>(taken: &mut Vec<Taken<'a>>, new: Taken<'a>) {
    if taken.iter().all(|known| known.kind != new.kind) {
        taken.push(new);
    }
}

fn collect<'a>(schema: &'a Json, taken: &mut Vec<Taken<'a>>) {
    match schema {
        Json::Object(members) => {
            for (key, member) in members {
                match (key.as_str(), member) {
                    ("properties", Json::Object(properties)) => {
                        for (name, property) in properties {
                            of_parameter(name, property, taken);
                            collect(property, taken);
                        }
                    }
                    ("default" | "examples" | "example" | "required" | "enum" | "const", _) => {}
                    (_, Json::Object(_) | Json::Array(_)) => collect(member, taken),
                    _ => {}
                }
            }
        }
        Json::Array(items) => items.iter().for_each(|item| collect(item, taken)),
        _ => {}
    }
}

fn of_parameter<'a>(name: &'a str, property: &Json, taken: &mut Vec<Taken<'a>>) {
    let mut add = |kind: ValueKind| {
        add(
            taken,
            Taken {
                kind,
                field: Field::ParameterNames,
                by: name,
            },
        )
    };
    let text = |key: &str| property.get(key).and_then(Json::as_str);
    text("format")
        .and_then(of_format)
        .into_iter()
        .for_each(&mut add);
    if matches!(text("type"), Some("integer" | "number")) {
        add(ValueKind::Number);
    }
    let lower = |text: &str| {
        let words = words(text)
            .take(MAX_WORDS)
            .map(|(start, end)| text[start..end].to_ascii_lowercase());
        words.collect::<Vec<String>>()
    };
    lower(name)
        .iter()
        .flat_map(|word| in_name(word))
        .copied()
        .for_each(&mut add);
    let description = text("description").map(lower).unwrap_or_default();
    description
        .iter()
        .flat_map(|word| in_description(word))
        .copied()
        .for_each(&mut add);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn formats_types_names_and_descriptions_say_what_a_parameter_takes() {
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
                json!({"description": "of the title, at most a number", "default": {"properties": {"id": {}}}}),
                vec![],
            ),
            (
                "far",
                json!({"description": "one two three four five six seven eight nine ten eleven twelve path"}),
                vec![],
            ),
        ] {
            let schema = json!({"type": "object", "properties": {name: property}});
            let mut kinds: Vec<ValueKind> = taken(Some(&schema), &[])
                .into_iter()
                .map(|taken| taken.kind)
                .collect();
            kinds.sort_unstable_by_key(|kind| format!("{kind:?}"));
            assert_eq!(kinds, expected, "{schema}");
        }
    }

    fn by<'a>(schema: Option<&'a Json>, texts: &[(Field, &'a str)]) -> Vec<(ValueKind, &'a str)> {
        taken(schema, texts)
            .into_iter()
            .map(|taken| (taken.kind, taken.by))
            .collect()
    }

    #[test]
    fn the_first_parameter_of_a_kind_stands_for_it_at_any_depth() {
        let schema = json!({"properties": {
            "files": {"type": "array", "items": {"properties": {"file_id": {}}}},
            "path": {},
        }});
        assert_eq!(
            by(Some(&schema), &[]),
            [(ValueKind::Path, "files"), (ValueKind::Id, "file_id")]
        );
        assert!(by(Some(&json!([])), &[]).is_empty() && by(Some(&json!("path")), &[]).is_empty());
        let texts = [
            (Field::Name, "listTables"),
            (Field::Description, "Lists the sheets and slides"),
            (Field::Tags, "image"),
        ];
        let found = [
            (ValueKind::Spreadsheet, "Tables"),
            (ValueKind::Presentation, "slides"),
        ];
        assert_eq!(by(None, &texts), found);
    }
}
