//! Calls that a local model writes in its text.
//!
//! Each model family has a form of its own; the modules below have one reader per form. A call
//! counts only if its name was shown to the model. Everything else stays text.
//!
//! The text is hostile: readers never evaluate it. All failed attempts together may read a fixed
//! multiple of the text, so the time is linear. Examples in code fences and code spans, and the
//! reasoning in a `<think>` block, are not calls.

mod bare;
mod call_in_text;
mod literal;
mod marked;
mod possible;
mod tags;

pub use self::possible::possible_call;

use self::call_in_text::{CallBlock, is_name_byte};
use self::literal::Cursor;
use super::calls::{MAX_ANSWER_ARGUMENT_BYTES, MAX_CALLS, ToolCall};

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
