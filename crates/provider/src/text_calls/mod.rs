//! Calls that a local model writes in its text.
//!
//! Each model family has a form of its own; the modules below have one reader per form. A call
//! counts only if its name was shown to the model. Everything else stays text.
//!
//! The text is hostile: readers never evaluate it. All failed attempts together may read a fixed
//! multiple of the text, so the time is linear. Examples in code fences and code spans, and the
//! reasoning in a `<think>` block, are not calls.

mod bare;
mod literal;
mod marked;
mod possible;
mod tags;

use std::ops::Range;

pub use self::possible::possible_call;

use self::literal::Cursor;
use super::calls::{Arguments, MAX_ANSWER_ARGUMENT_BYTES, MAX_CALLS, ToolCall};
use serde_json::{Map, Value};

/// The bytes that failed attempts may read, per byte of the text.
const WORK_PER_BYTE: usize = 16;

/// The calls in a text.
#[derive(Debug, Clone, PartialEq)]
pub struct TextCalls {
    /// The text without the calls.
    pub text: String,
    /// The calls, in order. Their names are as the model wrote them.
    pub calls: Vec<ToolCall>,
}

/// Reads the calls in the text of a model.
///
/// `is_shown` returns `true` for the name of a tool that the model was shown.
///
/// ```
/// use picktools_provider::calls_in_text;
///
/// let text = "Let me look.\n<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}</tool_call>";
/// let read = calls_in_text(text, &|name| name == "weather");
/// assert_eq!(read.text, "Let me look.");
/// assert_eq!(read.calls[0].name, "weather");
/// assert!(calls_in_text(text, &|name| name == "time").calls.is_empty());
/// ```
pub fn calls_in_text(text: &str, is_shown: &dyn Fn(&str) -> bool) -> TextCalls {
    let mut scanner = Scanner::new(text);
    let mut remaining = String::new();
    let mut calls = Vec::new();
    let mut copied = 0;
    if text.len() > MAX_ANSWER_ARGUMENT_BYTES {
        return TextCalls {
            text: text.to_owned(),
            calls,
        };
    }
    while let Some((start, block)) = scanner.next_block(is_shown) {
        if calls.len() + block.calls.len() > MAX_CALLS {
            break;
        }
        remaining.push_str(&text[copied..start]);
        for call in block.calls {
            if is_shown(&call.name) {
                calls.push(call.finish());
            } else {
                remaining.push_str(&text[call.range]);
            }
        }
        copied = block.end;
    }
    if calls.is_empty() {
        remaining.clear();
        copied = 0;
    }
    remaining.push_str(&text[copied..]);
    if !calls.is_empty() {
        remaining = remaining.trim().to_owned();
    }
    TextCalls {
        text: remaining,
        calls,
    }
}

/// The texts that only calls start with.
const CALL_MARKS: [&str; 9] = [
    "<tool_call>",
    "<function_call>",
    "<function_calls>",
    "<function=",
    "<|python_tag|>",
    "<|tool_call|>",
    "<|tool_call_begin|>",
    "<｜tool▁call▁begin｜>",
    "[TOOL_CALLS]",
];

/// Returns the mark of the first call in a text, readable or not. Examples in code fences and code
/// spans, and the reasoning, have no marks.
///
/// ```
/// use picktools_provider::call_mark;
///
/// assert_eq!(call_mark("<tool_call>{\"name\": \"a\", </tool_call>"), Some("<tool_call>"));
/// assert_eq!(call_mark("Write `<tool_call>` first."), None);
/// ```
pub fn call_mark(text: &str) -> Option<&'static str> {
    let mut scanner = Scanner::new(text);
    loop {
        let rest = scanner.cursor.rest();
        scanner.cursor.at += rest.find(['<', '[', '`', '~'])?;
        if scanner.skip_quoted() {
            continue;
        }
        let rest = scanner.cursor.rest();
        if let Some(mark) = CALL_MARKS.into_iter().find(|mark| rest.starts_with(mark)) {
            return Some(mark);
        }
        scanner.cursor.at += 1;
    }
}

/// A call as a reader returns it.
#[derive(Debug)]
struct CallInText {
    id: Option<String>,
    name: String,
    arguments: Arguments,
    /// The part of the text that stays if the name was not shown.
    range: Range<usize>,
    /// `true` if the JSON of the call has arguments, and no members that a call does not have.
    is_exact: bool,
}

impl CallInText {
    fn new(name: &str, arguments: Value, range: Range<usize>) -> Self {
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

    fn finish(self) -> ToolCall {
        ToolCall {
            id: self.id,
            name: self.name,
            arguments: self.arguments,
        }
    }
}

/// A part of the text that consists of calls.
#[derive(Debug)]
struct CallBlock {
    calls: Vec<CallInText>,
    end: usize,
}

/// The tokens that some servers leave behind the calls of an answer.
const END_TOKENS: [&str; 9] = [
    "<|eom_id|>",
    "<|eot_id|>",
    "<|eot|>",
    "<|im_end|>",
    "<|call|>",
    "<|end|>",
    "<|end_of_text|>",
    "<｜end▁of▁sentence｜>",
    "</s>",
];

/// The search for the blocks of a text.
struct Scanner<'t> {
    cursor: Cursor<'t>,
    /// The end of the last block or of the reasoning. Text behind it is at the start of a line.
    start_of_text: usize,
    has_no_end_of_reasoning: bool,
    /// The number of bytes that further failed attempts may read.
    work_left: usize,
}

impl<'t> Scanner<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            cursor: Cursor { text, at: 0 },
            start_of_text: 0,
            has_no_end_of_reasoning: false,
            work_left: text.len().saturating_mul(WORK_PER_BYTE),
        }
    }
}

impl Scanner<'_> {
    /// Returns the start of the next block with a call of a shown tool, and the block.
    fn next_block(&mut self, is_shown: &dyn Fn(&str) -> bool) -> Option<(usize, CallBlock)> {
        if self.cursor.at == 0
            && let Some(block) = marked::leading_name(self.cursor, is_shown)
        {
            self.pass(block.end);
            return Some((0, self.with_end_tokens(block)));
        }
        loop {
            let rest = self.cursor.rest();
            let start = self.cursor.at + rest.find(['<', '[', '{', '>', '`', '~'])?;
            self.cursor.at = start;
            if self.skip_quoted() {
                continue;
            }
            if self.work_left == 0 {
                return None;
            }
            let mut attempt = self.cursor;
            match read_block(&mut attempt, self.is_line_start()) {
                Some(block) if block.calls.iter().any(|call| is_shown(&call.name)) => {
                    let block = self.with_end_tokens(block);
                    self.pass(block.end);
                    return Some((start, block));
                }
                _ => {
                    self.work_left = self.work_left.checked_sub(attempt.at - start)?;
                    self.cursor.at = start + 1;
                }
            }
        }
    }

    fn pass(&mut self, end: usize) {
        self.cursor.at = end;
        self.start_of_text = end;
    }

    /// Returns `true` if only white space is in front of the position in its line.
    fn is_line_start(&self) -> bool {
        let before = &self.cursor.text[self.start_of_text..self.cursor.at];
        let before = before.trim_end_matches([' ', '\t', '\r']);
        before.is_empty() || before.ends_with('\n')
    }

    /// Moves behind a quoted part of the text, if one starts here.
    fn skip_quoted(&mut self) -> bool {
        let rest = self.cursor.rest();
        if rest.starts_with("<think>") && !self.has_no_end_of_reasoning {
            match rest.find("</think>") {
                Some(end) => self.pass(self.cursor.at + end + "</think>".len()),
                None => {
                    self.has_no_end_of_reasoning = true;
                    self.cursor.at += 1;
                }
            }
            return true;
        }
        let first = rest.as_bytes()[0];
        if !matches!(first, b'`' | b'~') {
            return false;
        }
        let mark = rest.len() - rest.trim_start_matches(char::from(first)).len();
        if mark >= 3 && self.is_line_start() {
            self.cursor.at += fence_length(rest, mark);
            return true;
        }
        let line = rest[mark..].split('\n').next().unwrap_or_default();
        let end = line.find(&rest[..mark]).filter(|_| first == b'`');
        if end.is_none() {
            self.work_left = self.work_left.saturating_sub(line.len());
        }
        self.cursor.at += end.map_or(mark, |end| mark + end + mark);
        true
    }

    /// Moves the end of a block behind the tokens that end an answer.
    fn with_end_tokens(&self, mut block: CallBlock) -> CallBlock {
        let mut cursor = Cursor {
            at: block.end,
            ..self.cursor
        };
        loop {
            let before = cursor;
            cursor.skip_space();
            if !END_TOKENS.iter().any(|token| cursor.skip(token)) {
                block.end = before.at;
                return block;
            }
        }
    }
}

/// Returns the length of a code fence with its content, up to the end of the text if it is open.
fn fence_length(text: &str, mark: usize) -> usize {
    let mut length = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        length += line.len();
        let line = line.trim();
        if number > 0 && line.len() >= mark && line.bytes().all(|byte| byte == text.as_bytes()[0]) {
            break;
        }
    }
    length
}

/// Reads the block of calls at a position.
fn read_block(cursor: &mut Cursor<'_>, is_line_start: bool) -> Option<CallBlock> {
    match cursor.peek()? {
        b'<' if cursor.rest().starts_with("<|") || cursor.rest().starts_with("<｜") => {
            marked::read_marked_calls(cursor)
        }
        b'<' => tags::read_tagged_calls(cursor),
        b'[' if cursor.rest().starts_with("[TOOL_CALLS]") => marked::mistral(cursor),
        b'>' => marked::functionary(cursor),
        _ if is_line_start => bare::read_bare_calls(cursor),
        _ => None,
    }
}

/// Returns `true` for the bytes of a tool's name.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte) || !byte.is_ascii()
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

/// Reads one or several calls that are written as JSON: an object, objects with separators between
/// them, or an array.
fn json_calls(cursor: &mut Cursor<'_>) -> Option<Vec<CallInText>> {
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
