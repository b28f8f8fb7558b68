//! The start of calls in a text that is still arriving.

use super::is_name_byte;
use super::literal::Cursor;

/// The texts with which marked calls start.
const OPENINGS: [&str; 18] = [
    "<tool_call>",
    "<function=",
    "<function_calls>",
    "<function_call>",
    "<invoke ",
    "<|python_tag|>",
    "<|python_start|>",
    "<|tool_call|>",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<|from|>",
    "<|recipient|>",
    "<|start|>assistant",
    "<|channel|>",
    "[TOOL_CALLS]",
    ">>>",
];

/// Returns the first position, from `from` on, at which a call may start in a text that is still
/// arriving. Everything in front of it certainly stays text.
///
/// ```
/// use picktools_provider::possible_call;
///
/// assert_eq!(possible_call("I look.", 0), None);
/// assert_eq!(possible_call("I look. <tool", 0), Some(8));
/// assert_eq!(possible_call("a < b", 0), None);
/// ```
pub fn possible_call(text: &str, from: usize) -> Option<usize> {
    if from == 0 && may_be_leading_name(text) {
        return Some(0);
    }
    let starts = text.get(from..)?.match_indices(['<', '[', '{', '>']);
    let mut starts = starts.map(|(offset, _)| from + offset);
    starts.find(|&start| may_start(text, start))
}

fn may_start(text: &str, start: usize) -> bool {
    let rest = &text[start..];
    let agrees = |opening: &str| opening.starts_with(rest) || rest.starts_with(opening);
    if OPENINGS.into_iter().any(agrees) {
        return true;
    }
    let mut cursor = Cursor {
        text,
        at: start + 1,
    };
    if rest.starts_with('<') {
        let prefix = cursor.take_while(|byte| byte.is_ascii_alphanumeric());
        let agrees_with = |name: &str| {
            let rest = cursor.rest().get(1..).unwrap_or_default();
            name.starts_with(rest) || rest.starts_with(name)
        };
        return match cursor.peek() {
            None => prefix.len() < 32,
            Some(b':') => agrees_with("invoke ") || agrees_with("function_calls>"),
            Some(_) => false,
        };
    }
    let before = text[..start].trim_end_matches([' ', '\t', '\r']);
    if !(before.is_empty() || before.ends_with(['\n', '>'])) {
        return false;
    }
    cursor.skip_space();
    let next = cursor.peek();
    match rest.as_bytes()[0] {
        b'{' => matches!(next, None | Some(b'"' | b'\'')),
        b'[' if matches!(next, None | Some(b'{')) => true,
        b'[' => {
            let name = cursor.take_while(is_name_byte);
            !name.is_empty() && matches!(cursor.peek(), None | Some(b'('))
        }
        _ => false,
    }
}

/// Returns `true` if a text may start with the name of a tool, alone in its line, and its arguments.
fn may_be_leading_name(text: &str) -> bool {
    let mut cursor = Cursor { text, at: 0 };
    cursor.skip_space();
    cursor.take_while(is_name_byte);
    cursor.skip_blanks();
    if !cursor.skip("\n") {
        return cursor.rest().is_empty();
    }
    cursor.skip_space();
    matches!(cursor.peek(), None | Some(b'{'))
}
