//! From bytes to entries: text encoding, JSON or JSON Lines, and the wrappers around a list of tools.

use serde_json::Value;

use super::error::{CatalogError, CatalogFault, FaultKind, Position};
use crate::json::Json;
use crate::schema::kind;

/// The entries of one file, before anything is known of what they say.
pub(super) struct Document {
    pub(super) entries: Vec<Entry>,
    /// The source that the file itself states for all its tools.
    pub(super) source: Option<String>,
}

/// One entry, or the fault that kept it from being read.
pub(super) struct Entry {
    pub(super) position: Position,
    pub(super) value: Result<Value, CatalogFault>,
    /// Pointers to its members that stand twice.
    pub(super) repeated: Vec<String>,
}

/// Splits the content of a catalog file into its entries.
pub(super) fn split(bytes: &[u8], origin: &str) -> Result<Document, CatalogError> {
    let text = utf8(bytes, origin)?.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Err(CatalogError::UnknownFormat { origin: origin.to_owned(), found: "the file is empty".to_owned() });
    }
    match serde_json::from_str::<Json>(text) {
        Ok(json) => unwrap(json, origin),
        Err(_) if is_json_lines(text) => Ok(lines(text)),
        Err(error) => Err(CatalogError::Syntax {
            origin: origin.to_owned(),
            line: error.line(),
            column: error.column(),
            message: syntax_message(&error),
        }),
    }
}

fn utf8<'a>(bytes: &'a [u8], origin: &str) -> Result<&'a str, CatalogError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = &bytes[..error.valid_up_to()];
        let line_start = valid.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        CatalogError::NotUtf8 {
            origin: origin.to_owned(),
            line: valid.iter().filter(|&&byte| byte == b'\n').count() + 1,
            column: valid.len() - line_start + 1,
        }
    })
}

/// A text is JSON Lines if its first line with content is a whole object.
fn is_json_lines(text: &str) -> bool {
    text.lines()
        .find(|line| !line.trim().is_empty())
        .is_some_and(|line| matches!(serde_json::from_str(line), Ok(Value::Object(_))))
}

fn lines(text: &str) -> Document {
    let entries = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| {
            let position = Position::Line(index + 1);
            let read = serde_json::from_str(line).map_err(|error| CatalogFault {
                position: position.clone(),
                kind: FaultKind::InvalidEntry,
                name: None,
                pointer: String::new(),
                message: format!("not valid JSON at column {}: {}", error.column(), syntax_message(&error)),
                remedy: "mend or remove the line".to_owned(),
            });
            match read {
                Ok(Json { value, repeated }) => Entry { position, value: Ok(value), repeated },
                Err(fault) => Entry { position, value: Err(fault), repeated: Vec::new() },
            }
        })
        .collect();
    Document { entries, source: None }
}

/// Takes the list of tools out of what stands around it.
fn unwrap(Json { value, repeated }: Json, origin: &str) -> Result<Document, CatalogError> {
    let unknown = |found: String| CatalogError::UnknownFormat { origin: origin.to_owned(), found };
    let (tools, at, source) = match value {
        Value::Array(items) => (items, "", None),
        Value::Object(mut object) => {
            if let Some(Value::Object(result)) = object.get_mut("result")
                && let Some(tools) = result.remove("tools")
            {
                (list(tools).map_err(unknown)?, "/result/tools", None)
            } else if let Some(tools) = object.remove("tools") {
                let source = object.get("source").and_then(Value::as_str).map(str::to_owned);
                (list(tools).map_err(unknown)?, "/tools", source)
            } else if object.contains_key("name") || object.contains_key("function") {
                let value = Ok(Value::Object(object));
                return Ok(Document {
                    entries: vec![Entry { position: Position::Entry(1), value, repeated }],
                    source: None,
                });
            } else {
                let keys: Vec<&str> = object.keys().map(String::as_str).take(5).collect();
                return Err(unknown(format!("an object with the members {keys:?}")));
            }
        }
        other => return Err(unknown(kind(&other).to_owned())),
    };
    array(tools, repeated, at)
        .map(|entries| Document { entries, source })
        .map_err(|pointer| CatalogError::Repeated { origin: origin.to_owned(), pointer })
}

fn list(tools: Value) -> Result<Vec<Value>, String> {
    match tools {
        Value::Array(items) => Ok(items),
        other => Err(format!("`tools` is {}, not an array", kind(&other))),
    }
}

/// The entries of a list at `at`, each with its members that stand twice; an error is one that is in none of them.
fn array(items: Vec<Value>, repeated: Vec<String>, at: &str) -> Result<Vec<Entry>, String> {
    let entry = |(index, value)| Entry { position: Position::Entry(index + 1), value: Ok(value), repeated: Vec::new() };
    let mut entries: Vec<Entry> = items.into_iter().enumerate().map(entry).collect();
    for pointer in repeated {
        let within = pointer.strip_prefix(at).and_then(|rest| rest.strip_prefix('/')?.split_once('/'));
        let entry = within.and_then(|(index, member)| Some((entries.get_mut(index.parse::<usize>().ok()?)?, member)));
        match entry {
            Some((entry, member)) => entry.repeated.push(format!("/{member}")),
            None => return Err(pointer),
        }
    }
    Ok(entries)
}

/// The parser's message without the position, which is reported beside it.
fn syntax_message(error: &serde_json::Error) -> String {
    let message = error.to_string();
    if message.starts_with("recursion limit exceeded") {
        return "nested deeper than 128 levels; flatten what stands here".to_owned();
    }
    match message.rfind(" at line ") {
        Some(end) => message[..end].to_owned(),
        None => message,
    }
}
