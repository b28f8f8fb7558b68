//! Splitting of bytes into entries: text encoding, JSON or JSON Lines, and the wrappers around a
//! list of tools.

use std::sync::Arc;

use rayon::prelude::*;
use serde_json::{Map, Value};

use super::entry;
use super::entry_fault::EntryFault;
use super::error::{CatalogError, Position};
use super::policy::is_policy;
use super::reader::{DocumentError, DocumentOperation, DocumentReader, ToolDocument};
use super::{gemini, provider_tools};
use crate::excerpt::marked;
use crate::json::{self, Json};
use crate::schema::kind;

/// The length of an unknown key in messages, in characters.
const MAX_KEY_CHARS: usize = 60;

/// An entry, or the fault because of which it cannot be read.
pub(super) struct Entry {
    pub(super) position: Position,
    pub(super) value: Result<Value, EntryFault>,
    /// The pointers to its duplicate keys.
    pub(super) repeated: Vec<String>,
    /// The source of the list that holds the entry; for an operation, the title of its document.
    pub(super) source: Option<Arc<str>>,
    /// `true` for an operation of an OpenAPI document: one that is not a valid tool is left out.
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
    let quoted = json::quote_long_numbers(text.as_bytes());
    match serde_json::from_slice::<Json>(&quoted) {
        Ok(json) => match readers.iter().find(|reader| reader.recognizes(&json.value)) {
            Some(reader) => match json.repeated.into_iter().next() {
                Some(pointer) => Err(CatalogError::DuplicateKey {
                    origin: origin.to_owned(),
                    pointer,
                }),
                None => operation_entries(reader.format(), reader.read(&json.value), origin),
            },
            None => unwrap_list(json, origin),
        },
        Err(_) if is_json_lines(text) => Ok(split_lines(text)),
        Err(error) => match readers.iter().find(|reader| reader.recognizes_text(text)) {
            Some(reader) => operation_entries(reader.format(), reader.read_text(text), origin),
            None => Err(CatalogError::Syntax {
                origin: origin.to_owned(),
                line: error.line(),
                column: error.column(),
                message: json::message(&error),
            }),
        },
    }
}

/// Makes an entry from each operation of a document.
fn operation_entries(
    format: &'static str,
    document: Result<ToolDocument, DocumentError>,
    origin: &str,
) -> Result<Vec<Entry>, CatalogError> {
    let document = document.map_err(|source| CatalogError::Document {
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
        let line_start = match valid.iter().rposition(|&byte| byte == b'\n') {
            Some(line_feed) => line_feed + 1,
            None => 0,
        };
        CatalogError::NotUtf8 {
            origin: origin.to_owned(),
            line: valid.iter().filter(|&&byte| byte == b'\n').count() + 1,
            column: valid.len() - line_start + 1,
        }
    })
}

/// Returns `true` if a text is JSON Lines: its first nonblank line is a complete object.
fn is_json_lines(text: &str) -> bool {
    text.lines()
        .find(|line| !line.trim().is_empty())
        .is_some_and(|line| matches!(serde_json::from_str(line), Ok(Value::Object(_))))
}

fn split_lines(text: &str) -> Vec<Entry> {
    let lines: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .collect();
    let entries = lines.into_par_iter().flat_map_iter(|(index, line)| {
        let position = Position::Line(index + 1);
        match serde_json::from_slice(&json::quote_long_numbers(line.as_bytes())) {
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
                    EntryFault::new("", message, "fix or remove the line"),
                )]
            }
        }
    });
    entries.collect()
}

/// Extracts the entries from the list of tools in a document.
fn unwrap_list(json: Json, origin: &str) -> Result<Vec<Entry>, CatalogError> {
    let Json {
        mut value,
        repeated,
    } = json;
    let unknown = |found: String| CatalogError::UnknownFormat {
        origin: origin.to_owned(),
        found,
    };
    let list = match &mut value {
        Value::Array(_) => ToolList {
            tools: value,
            pointer: "",
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
        return Err(CatalogError::PolicyOutsideTools {
            origin: origin.to_owned(),
            pointer: pointer.clone(),
        });
    }
    let (items, repeated) = list
        .items(repeated)
        .map_err(|kind| unknown(format!("`tools` is {kind}, not an array")))?;
    if let Some(pointer) = repeated.into_iter().next() {
        return Err(CatalogError::DuplicateKey {
            origin: origin.to_owned(),
            pointer,
        });
    }
    Ok(unfold_items(items))
}

fn unfold_items(items: Vec<Item>) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        entries.append(&mut unfold(Position::Entry(index + 1), item));
    }
    entries
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

/// A value that may hold several tools.
struct Item {
    value: Value,
    repeated: Vec<String>,
    source: Option<Arc<str>>,
}

/// A list of tools, with the context around it.
struct ToolList {
    tools: Value,
    /// The pointer to the list.
    pointer: &'static str,
    source: Option<Arc<str>>,
    /// The pointers to policy fields outside the tools.
    policy: Vec<String>,
}

impl ToolList {
    /// Returns the items, each with its duplicate keys, and the duplicate keys outside the list.
    /// The error is the kind of a value that is not a list.
    fn items(self, repeated: Vec<String>) -> Result<(Vec<Item>, Vec<String>), &'static str> {
        let Value::Array(values) = self.tools else {
            return Err(kind(&self.tools));
        };
        let mut items: Vec<Item> = Vec::with_capacity(values.len());
        for value in values {
            items.push(Item {
                value,
                repeated: Vec::new(),
                source: self.source.clone(),
            });
        }
        let mut outside = Vec::new();
        for pointer in repeated {
            match split_item_pointer(&pointer, self.pointer) {
                Some((index, member)) if index < items.len() => {
                    items[index].repeated.push(format!("/{member}"));
                }
                _ => outside.push(pointer),
            }
        }
        Ok((items, outside))
    }
}

/// Returns the index of the item of `list` that a pointer leads into, and the rest of the pointer
/// without the first `/`.
fn split_item_pointer<'p>(pointer: &'p str, list: &str) -> Option<(usize, &'p str)> {
    let path = pointer.strip_prefix(list)?.strip_prefix('/')?;
    let (index, member) = path.split_once('/')?;
    Some((index.parse().ok()?, member))
}

/// Removes the tools from an API request, a `tools/list` result, or a JSON-RPC response with such a
/// result.
fn take_list(object: &mut Map<String, Value>) -> Option<ToolList> {
    let (tools, pointer) = match object.get_mut("result") {
        Some(Value::Object(result)) if result.contains_key("tools") => {
            (result.shift_remove("tools")?, "/result/tools")
        }
        _ => (object.shift_remove("tools")?, "/tools"),
    };
    let result = match object.get("result") {
        Some(Value::Object(result)) if pointer == "/result/tools" => Some(result),
        _ => None,
    };
    let wrappers = [("", Some(&*object)), ("/result", result)];
    let mut source = None;
    let mut policy = Vec::new();
    for (prefix, wrapper) in wrappers {
        let Some(wrapper) = wrapper else { continue };
        if source.is_none() {
            let name = wrapper.get("source").and_then(Value::as_str);
            source = name.map(Arc::from);
        }
        for (key, value) in wrapper {
            if is_policy(key) && !value.is_null() {
                policy.push(format!("{prefix}/{key}"));
            }
        }
    }
    Some(ToolList {
        tools,
        pointer,
        source,
        policy,
    })
}

/// Makes an entry from each tool in an item that may hold several: a page of a list, or Gemini's
/// declarations.
fn unfold(position: Position, item: Item) -> Vec<Entry> {
    let (mut items, mut faults) = (Vec::new(), Vec::new());
    let is_list = collect_tools(item, &mut items, &mut faults);
    let mut entries = Vec::with_capacity(items.len() + faults.len());
    for (index, item) in items.into_iter().enumerate() {
        let position = if is_list {
            Position::Part(Box::new(position.clone()), index + 1)
        } else {
            position.clone()
        };
        entries.push(Entry {
            position,
            value: Ok(item.value),
            repeated: item.repeated,
            source: item.source,
            is_operation: false,
        });
    }
    for fault in faults {
        entries.push(Entry::invalid(position.clone(), fault));
    }
    entries
}

/// Collects the tools of an item, and returns `true` if the item is a list.
fn collect_tools(mut item: Item, items: &mut Vec<Item>, faults: &mut Vec<EntryFault>) -> bool {
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
        Some((pointer, tools)) => ToolList {
            tools,
            pointer,
            source: item.source.clone(),
            policy: Vec::new(),
        },
        None => match take_list(object) {
            Some(list) => ToolList {
                source: list.source.or(item.source.clone()),
                ..list
            },
            None => {
                items.push(item);
                return false;
            }
        },
    };
    let pointer = list.pointer;
    faults.extend(list.policy.iter().map(entry::policy_outside_tools));
    let (tools, duplicates) = match list.items(item.repeated) {
        Ok(items_and_duplicates) => items_and_duplicates,
        Err(kind) => {
            faults.push(EntryFault::new(
                pointer,
                format!("it is {kind}, not an array"),
                "give a list of tools",
            ));
            return true;
        }
    };
    faults.extend(duplicates.iter().map(entry::duplicate_key));
    if !is_gemini {
        for tool in tools {
            collect_tools(tool, items, faults);
        }
        return true;
    }
    for tool in tools {
        items.push(Item {
            value: gemini::native(tool.value),
            ..tool
        });
    }
    for (key, value) in std::mem::take(object) {
        if provider_tools::is_gemini_tool(&key) {
            items.push(Item {
                value: Value::Object(Map::from_iter([(key, value)])),
                repeated: Vec::new(),
                source: None,
            });
        } else {
            faults.push(gemini::member_outside_declarations(&key));
        }
    }
    true
}
