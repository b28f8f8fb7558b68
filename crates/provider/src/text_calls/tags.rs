//! Calls in tags: Hermes and Qwen, Qwen3-Coder, GLM, functionary, and Anthropic's invoke.

use serde_json::{Map, Value};

use super::call_in_text::{CallBlock, CallInText, is_name_byte, json_calls};
use super::literal::Cursor;

/// The tags around calls, with their ends.
const CALL_TAGS: [(&str, &str); 2] = [
    ("<tool_call>", "</tool_call>"),
    ("<function_call>", "</function_call>"),
];

/// Reads calls in tags.
pub(super) fn read_tagged_calls(cursor: &mut Cursor<'_>) -> Option<CallBlock> {
    for (open, close) in CALL_TAGS {
        if cursor.skip(open) {
            return tool_call(cursor, close);
        }
    }
    let calls = if cursor.rest().starts_with("<function=") {
        vec![function(cursor)?]
    } else {
        invokes(cursor)?
    };
    let end = cursor.at;
    Some(CallBlock { calls, end })
}

/// Reads the content of `<tool_call>`: JSON, also in a code fence, the functions of Qwen3-Coder, or
/// the name and the pairs of GLM. Some models leave the closing tag out.
fn tool_call(cursor: &mut Cursor<'_>, close: &str) -> Option<CallBlock> {
    cursor.skip_space();
    let calls = match cursor.peek()? {
        b'<' => functions(cursor)?,
        b'{' | b'[' => json_calls(cursor)?,
        b'`' => fenced_calls(cursor)?,
        _ => vec![named_pairs(cursor, close)?],
    };
    let mut end = cursor.at;
    cursor.skip_space();
    if cursor.skip(close) {
        end = cursor.at;
    }
    Some(CallBlock { calls, end })
}

/// Reads the functions of Qwen3-Coder, one behind the other.
fn functions(cursor: &mut Cursor<'_>) -> Option<Vec<CallInText>> {
    let mut calls = Vec::new();
    while cursor.rest().starts_with("<function=") {
        calls.push(function(cursor)?);
        cursor.skip_space();
    }
    (!calls.is_empty()).then_some(calls)
}

/// Reads JSON calls in a code fence.
fn fenced_calls(cursor: &mut Cursor<'_>) -> Option<Vec<CallInText>> {
    cursor.expect("```")?;
    cursor.skip("json");
    let calls = json_calls(cursor)?;
    cursor.skip_space();
    cursor.expect("```")?;
    Some(calls)
}

/// Reads the call of GLM: the name, and each argument as `<arg_key>` and `<arg_value>`.
fn named_pairs(cursor: &mut Cursor<'_>, close: &str) -> Option<CallInText> {
    let start = cursor.at;
    let name = cursor.take_while(is_name_byte);
    let mut arguments = Map::new();
    let mut end = cursor.at;
    let ends_line = cursor.rest().starts_with('\n');
    cursor.skip_space();
    while cursor.skip("<arg_key>") {
        let key = cursor.take_until(&["</arg_key>"])?.trim();
        cursor.skip("</arg_key>");
        cursor.skip_space();
        cursor.expect("<arg_value>")?;
        let value = unwrap_lines(cursor.take_until(&["</arg_value>"])?);
        cursor.skip("</arg_value>");
        if arguments.insert(key.to_owned(), value.into()).is_some() {
            return None;
        }
        end = cursor.at;
        cursor.skip_space();
    }
    // Without arguments, only the line and the closing tag tell a name from a word.
    let is_call = !arguments.is_empty() || ends_line && cursor.rest().starts_with(close);
    let call = CallInText::new(name, Value::Object(arguments), start..end);
    (is_call && !name.is_empty()).then_some(call)
}

/// Reads `<function=name>` with parameters in tags, or with a JSON object.
fn function(cursor: &mut Cursor<'_>) -> Option<CallInText> {
    let start = cursor.at;
    cursor.expect("<function=")?;
    let name = cursor.take_while(is_name_byte);
    cursor.expect(">")?;
    cursor.skip_space();
    let arguments = if cursor.peek() == Some(b'{') {
        cursor.literal()?
    } else {
        let mut arguments = Map::new();
        while cursor.skip("<parameter=") {
            let key = cursor.take_while(is_name_byte);
            cursor.expect(">")?;
            // Some models leave closing tags out.
            let ends = ["</parameter>", "<parameter=", "</function>"];
            let value = unwrap_lines(cursor.take_until(&ends)?);
            cursor.skip("</parameter>");
            if arguments.insert(key.to_owned(), value.into()).is_some() {
                return None;
            }
            cursor.skip_space();
        }
        Value::Object(arguments)
    };
    cursor.skip_space();
    let is_closed = cursor.skip("</function>");
    let is_open = cursor.rest().is_empty() || cursor.rest().starts_with("</tool_call>");
    let range = start..cursor.at;
    (is_closed || is_open).then(|| CallInText::new(name, arguments, range))
}

/// Reads `<invoke name="…">`, several of them in `<function_calls>`, all with the same prefix.
fn invokes(cursor: &mut Cursor<'_>) -> Option<Vec<CallInText>> {
    cursor.expect("<")?;
    let mut prefix = *cursor;
    let name = prefix.take_while(|byte| byte.is_ascii_alphanumeric());
    let prefix = if prefix.skip(":") {
        format!("{name}:")
    } else {
        String::new()
    };
    cursor.at -= 1;
    let has_wrapper = cursor.skip(&format!("<{prefix}function_calls>"));
    let mut calls = Vec::new();
    loop {
        let end = *cursor;
        cursor.skip_space();
        if !cursor
            .rest()
            .starts_with(&format!("<{prefix}invoke name=\""))
        {
            *cursor = end;
            break;
        }
        calls.push(invoke(cursor, &prefix)?);
    }
    if has_wrapper {
        let end = *cursor;
        cursor.skip_space();
        if !cursor.skip(&format!("</{prefix}function_calls>")) {
            *cursor = end;
        }
    }
    (!calls.is_empty()).then_some(calls)
}

fn invoke(cursor: &mut Cursor<'_>, prefix: &str) -> Option<CallInText> {
    let start = cursor.at;
    cursor.expect(&format!("<{prefix}invoke name=\""))?;
    let name = cursor.take_while(is_name_byte);
    cursor.expect("\">")?;
    let mut arguments = Map::new();
    loop {
        cursor.skip_space();
        if cursor.skip(&format!("</{prefix}invoke>")) {
            break;
        }
        cursor.expect(&format!("<{prefix}parameter name=\""))?;
        let key = cursor.take_while(is_name_byte);
        cursor.expect("\">")?;
        let close = format!("</{prefix}parameter>");
        let value = unwrap_lines(cursor.take_until(&[&close])?);
        cursor.skip(&close);
        if arguments.insert(key.to_owned(), value.into()).is_some() {
            return None;
        }
    }
    Some(CallInText::new(
        name,
        Value::Object(arguments),
        start..cursor.at,
    ))
}

/// Removes the line break at the start and the end of a value that has lines of its own.
fn unwrap_lines(value: &str) -> &str {
    match value.strip_prefix('\n') {
        Some(value) => value.strip_suffix('\n').unwrap_or(value),
        None => value,
    }
}
