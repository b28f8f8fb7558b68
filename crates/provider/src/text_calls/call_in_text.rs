//! A call in a text, and its form in JSON.

use std::ops::Range;

use serde_json::{Map, Value};

use super::literal::Cursor;
use crate::calls::{Arguments, ToolCall};

/// A call as a reader returns it.
#[derive(Debug)]
pub(super) struct CallInText {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: Arguments,
    /// The part of the text that stays if the name was not shown.
    pub(super) range: Range<usize>,
    /// `true` if the JSON of the call has arguments, and no members that a call does not have.
    pub(super) is_exact: bool,
}

impl CallInText {
    pub(super) fn new(name: &str, arguments: Value, range: Range<usize>) -> Self {
        let arguments = match arguments {
            Value::String(text) => Arguments::Text(text),
            Value::Null => Arguments::Json(Value::Object(Map::new())),
            value => Arguments::Json(value),
        };
        Self {
            id: None,
            name: name.to_owned(),
            arguments,
            range,
            is_exact: true,
        }
    }

    pub(super) fn finish(self) -> ToolCall {
        ToolCall {
            id: self.id,
            name: self.name,
            arguments: self.arguments,
        }
    }
}

/// A part of the text that consists of calls.
#[derive(Debug)]
pub(super) struct CallBlock {
    pub(super) calls: Vec<CallInText>,
    pub(super) end: usize,
}

/// Returns `true` for the bytes of a tool's name.
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte) || !byte.is_ascii()
}

/// Reads one or several calls that are written as JSON: an object, objects with separators between
/// them, or an array.
pub(super) fn json_calls(cursor: &mut Cursor<'_>) -> Option<Vec<CallInText>> {
    cursor.skip_space();
    let mut calls = Vec::new();
    if cursor.skip("[") {
        loop {
            cursor.skip_space();
            if cursor.skip("]") {
                break;
            }
            calls.push(json_call(cursor)?);
            cursor.separate("]")?;
        }
    } else {
        calls.push(json_call(cursor)?);
        loop {
            let mut next = *cursor;
            next.skip_space();
            let is_separated = next.skip(";") || next.skip(",") || next.at > cursor.at;
            next.skip_space();
            if next.peek() != Some(b'{') || !is_separated {
                break;
            }
            let Some(call) = json_call(&mut next) else {
                break;
            };
            calls.push(call);
            *cursor = next;
        }
    }
    (!calls.is_empty()).then_some(calls)
}

/// Reads a call that is written as a JSON object: its name, and its arguments or parameters.
fn json_call(cursor: &mut Cursor<'_>) -> Option<CallInText> {
    cursor.skip_space();
    let start = cursor.at;
    let Value::Object(members) = cursor.literal()? else {
        return None;
    };
    call_from_members(members, start..cursor.at)
}

/// The members of a call that is written as JSON.
const MEMBERS: [&str; 6] = ["name", "function", "arguments", "parameters", "id", "type"];

fn call_from_members(mut members: Map<String, Value>, range: Range<usize>) -> Option<CallInText> {
    let has_other_members = members.keys().any(|key| !MEMBERS.contains(&key.as_str()));
    let id = members.remove("id");
    let name = match (members.remove("name"), members.remove("function")) {
        (Some(Value::String(name)), _) | (None, Some(Value::String(name))) => name,
        (None, Some(Value::Object(function))) => {
            let mut call = call_from_members(function, range)?;
            call.is_exact &= !has_other_members;
            return Some(with_id(call, id));
        }
        _ => return None,
    };
    let arguments = members.remove("arguments").or(members.remove("parameters"));
    let has_arguments = match &arguments {
        Some(Value::String(text)) => text.trim_start().starts_with('{'),
        arguments => arguments.as_ref().is_some_and(Value::is_object),
    };
    let mut call = CallInText::new(&name, arguments.unwrap_or_default(), range);
    call.is_exact = has_arguments && !has_other_members;
    Some(with_id(call, id))
}

fn with_id(mut call: CallInText, id: Option<Value>) -> CallInText {
    if let Some(Value::String(id)) = id {
        call.id = Some(id);
    }
    call
}
