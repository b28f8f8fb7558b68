//! From bytes to entries: text encoding, JSON or JSON Lines, and the wrappers around a list of
//! tools.

use std::sync::Arc;

use rayon::prelude::*;
use serde_json::{Map, Value};

use super::entry::{self, EntryFault};
use super::error::{CatalogError, Position};
use super::policy::is_policy;
use super::reader::{DocumentError, DocumentOperation, DocumentReader, ToolDocument};
use super::{gemini, provider_tools};
use crate::excerpt::marked;
use crate::json::{self, Json};
use crate::schema::kind;

/// How much is shown of a key that is not known.
const MAX_KEY_CHARS: usize = 60;

/// One entry, or the fault that kept it from being read.
pub(super) struct Entry {
    pub(super) position: Position,
    pub(super) value: Result<Value, EntryFault>,
    /// Pointers to its members that stand twice.
    pub(super) repeated: Vec<String>,
    /// The source that is stated for the list that it stands in; of an operation the title of its
    /// document.
    pub(super) source: Option<Arc<str>>,
    /// Whether it is an operation of an OpenAPI document: one that makes no valid tool is left out.
    pub(super) is_operation: bool,
}

/// Splits the content of a catalog file into its entries.
pub(super) fn split(
    bytes: &[u8],
    origin: &str,
    readers: &[Arc<dyn DocumentReader>],
) -> Result<Vec<Entry>, CatalogError> {
    let text = utf8(bytes, origin)?.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Err(CatalogError::UnknownFormat {
            origin: origin.to_owned(),
            found: "the file is empty".to_owned(),
        });
    }
    match serde_json::from_str::<Json>(text) {
        Ok(json) => match readers.iter().find(|reader| reader.recognizes(&json.value)) {
            Some(reader) => match json.repeated.into_iter().next() {
                Some(pointer) => Err(CatalogError::Repeated {
                    origin: origin.to_owned(),
                    pointer,
                }),
                None => operations(reader.format(), reader.read(&json.value), origin),
            },
            None => unwrap(json, origin),
        },
        Err(_) if is_json_lines(text) => Ok(lines(text)),
        Err(error) => match readers.iter().find(|reader| reader.recognizes_text(text)) {
            Some(reader) => operations(reader.format(), reader.read_text(text), origin),
            None => Err(CatalogError::Syntax {
                origin: origin.to_owned(),
                line: error.line(),
                column: error.column(),
                message: json::message(&error),
            }),
        },
    }
}

/// Makes an entry of each operation of a document.
fn operations(
    format: &'static str,
    read: Result<ToolDocument, DocumentError>,
    origin: &str,
) -> Result<Vec<Entry>, CatalogError> {
    let document = read.map_err(|source| CatalogError::Document {
        origin: origin.to_owned(),
        format,
        source,
    })?;
    let source: Option<Arc<str>> = document.source.map(Arc::from);
    let entry = |DocumentOperation { label, tool }| Entry {
        position: Position::Operation(label),
        value: tool.map_err(|fault| EntryFault::new(fault.pointer, fault.message, fault.remedy)),
        repeated: Vec::new(),
        source: source.clone(),
        is_operation: true,
    };
    Ok(document.operations.into_iter().map(entry).collect())
}

fn utf8<'a>(bytes: &'a [u8], origin: &str) -> Result<&'a str, CatalogError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = &bytes[..error.valid_up_to()];
        let line_start = valid
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
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

fn lines(text: &str) -> Vec<Entry> {
    let lines: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .collect();
    let entries = lines.into_par_iter().flat_map_iter(|(index, line)| {
        let position = Position::Line(index + 1);
        match serde_json::from_str(line) {
            Ok(Json { value, repeated }) => unfold(
                position,
                Item {
                    value,
                    repeated,
                    source: None,
                },
            ),
            Err(error) => {
                let message = format!(
                    "not valid JSON at column {}: {}",
                    error.column(),
                    json::message(&error)
                );
                vec![Entry::invalid(
                    position,
                    EntryFault::new("", message, "mend or remove the line"),
                )]
            }
        }
    });
    entries.collect()
}

/// Takes the list of tools out of what stands around it.
fn unwrap(
    Json {
        mut value,
        repeated,
    }: Json,
    origin: &str,
) -> Result<Vec<Entry>, CatalogError> {
    let unknown = |found: String| CatalogError::UnknownFormat {
        origin: origin.to_owned(),
        found,
    };
    let list = match &mut value {
        Value::Array(_) => List {
            tools: value,
            at: "",
            source: None,
            policy: Vec::new(),
        },
        Value::Object(object) => match take_list(object) {
            Some(list) => list,
            None if ["name", "function"]
                .into_iter()
                .chain(gemini::LISTS)
                .any(|key| object.contains_key(key)) =>
            {
                return Ok(unfold(
                    Position::Entry(1),
                    Item {
                        value,
                        repeated,
                        source: None,
                    },
                ));
            }
            None => {
                let keys: Vec<_> = object
                    .keys()
                    .map(|key| marked(key, MAX_KEY_CHARS))
                    .take(5)
                    .collect();
                return Err(unknown(format!("an object with the members {keys:?}")));
            }
        },
        other => return Err(unknown(kind(other).to_owned())),
    };
    if let Some(pointer) = list.policy.first() {
        return Err(CatalogError::PolicyBeside {
            origin: origin.to_owned(),
            pointer: pointer.clone(),
        });
    }
    let (items, repeated) = list
        .items(repeated)
        .map_err(|found| unknown(format!("`tools` is {found}, not an array")))?;
    if let Some(pointer) = repeated.into_iter().next() {
        return Err(CatalogError::Repeated {
            origin: origin.to_owned(),
            pointer,
        });
    }
    let items = items.into_iter().enumerate();
    Ok(items
        .flat_map(|(index, item)| unfold(Position::Entry(index + 1), item))
        .collect())
}

impl Entry {
    fn invalid(position: Position, fault: EntryFault) -> Self {
        Self {
            position,
            value: Err(fault),
            repeated: Vec::new(),
            source: None,
            is_operation: false,
        }
    }
}

/// A value that may stand for several tools.
struct Item {
    value: Value,
    repeated: Vec<String>,
    source: Option<Arc<str>>,
}

/// What stands in the place of a list of tools.
struct List {
    tools: Value,
    /// The pointer to it.
    at: &'static str,
    source: Option<Arc<str>>,
    /// Pointers to the policy that stands beside it.
    policy: Vec<String>,
}

impl List {
    /// Returns the items, each with its members that stand twice, and those that stand twice beside
    /// the list; an error is what it is in place of a list.
    fn items(self, repeated: Vec<String>) -> Result<(Vec<Item>, Vec<String>), &'static str> {
        let Value::Array(values) = self.tools else {
            return Err(kind(&self.tools));
        };
        let item = |value| Item {
            value,
            repeated: Vec::new(),
            source: self.source.clone(),
        };
        let mut items: Vec<Item> = values.into_iter().map(item).collect();
        let mut beside = Vec::new();
        for pointer in repeated {
            let within = pointer
                .strip_prefix(self.at)
                .and_then(|rest| rest.strip_prefix('/')?.split_once('/'));
            let item = within.and_then(|(index, member)| {
                Some((items.get_mut(index.parse::<usize>().ok()?)?, member))
            });
            match item {
                Some((item, member)) => item.repeated.push(format!("/{member}")),
                None => beside.push(pointer),
            }
        }
        Ok((items, beside))
    }
}

/// Takes the tools out of a request, a `tools/list` result, or the JSON-RPC response with one.
fn take_list(object: &mut Map<String, Value>) -> Option<List> {
    let (tools, at) = match object.get_mut("result") {
        Some(Value::Object(result)) if result.contains_key("tools") => {
            (result.shift_remove("tools")?, "/result/tools")
        }
        _ => (object.shift_remove("tools")?, "/tools"),
    };
    let result = object
        .get("result")
        .and_then(Value::as_object)
        .filter(|_| at == "/result/tools");
    let around = [("", Some(&*object)), ("/result", result)];
    let around = || {
        around
            .into_iter()
            .filter_map(|(at, object)| Some((at, object?)))
    };
    let source = around()
        .find_map(|(_, object)| object.get("source")?.as_str())
        .map(Arc::from);
    let policy = around().flat_map(|(at, object)| {
        object
            .iter()
            .filter(|(key, value)| is_policy(key) && !value.is_null())
            .map(move |(key, _)| format!("{at}/{key}"))
    });
    Some(List {
        tools,
        at,
        source,
        policy: policy.collect(),
    })
}

/// Takes the tools out of an item that holds several: a page of a list, or Gemini's declarations.
fn unfold(position: Position, item: Item) -> Vec<Entry> {
    let (mut items, mut faults) = (Vec::new(), Vec::new());
    let several = collect(item, &mut items, &mut faults);
    let entry = |(
        index,
        Item {
            value,
            repeated,
            source,
        },
    ): (usize, Item)| {
        let position = if several {
            Position::Part(Box::new(position.clone()), index + 1)
        } else {
            position.clone()
        };
        Entry {
            position,
            value: Ok(value),
            repeated,
            source,
            is_operation: false,
        }
    };
    let mut entries: Vec<Entry> = items.into_iter().enumerate().map(entry).collect();
    entries.extend(
        faults
            .into_iter()
            .map(|fault| Entry::invalid(position.clone(), fault)),
    );
    entries
}

/// Collects the tools of an item, and returns `true` if it is a list.
fn collect(mut item: Item, items: &mut Vec<Item>, faults: &mut Vec<EntryFault>) -> bool {
    let object = item.value.as_object_mut().filter(|object| {
        !["name", "function"]
            .iter()
            .any(|key| object.contains_key(*key))
    });
    let Some(object) = object else {
        items.push(item);
        return false;
    };
    let declarations = gemini::take_declarations(object);
    let is_gemini = declarations.is_some();
    let list = match declarations {
        Some((at, tools)) => List {
            tools,
            at,
            source: item.source.clone(),
            policy: Vec::new(),
        },
        None => match take_list(object) {
            Some(list) => List {
                source: list.source.or(item.source.clone()),
                ..list
            },
            None => {
                items.push(item);
                return false;
            }
        },
    };
    let at = list.at;
    faults.extend(list.policy.iter().map(entry::beside_list));
    let (within, beside) = match list.items(item.repeated) {
        Ok(found) => found,
        Err(found) => {
            faults.push(EntryFault::new(
                at,
                format!("it is {found}, not an array"),
                "give a list of tools",
            ));
            return true;
        }
    };
    faults.extend(beside.iter().map(entry::repeated));
    if is_gemini {
        items.extend(within.into_iter().map(|item| Item {
            value: gemini::native(item.value),
            ..item
        }));
        let rest = std::mem::take(object).into_iter();
        let (own, others): (Map<_, _>, Map<_, _>) =
            rest.partition(|(key, _)| provider_tools::is_geminis(key));
        items.extend(own.into_iter().map(|own| Item {
            value: Value::Object(Map::from_iter([own])),
            repeated: Vec::new(),
            source: None,
        }));
        faults.extend(others.keys().map(|key| gemini::beside(key)));
    } else {
        within.into_iter().for_each(|item| {
            collect(item, items, faults);
        });
    }
    true
}
