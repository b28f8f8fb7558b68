//! Calls behind special tokens: Llama, Mistral, Granite, DeepSeek, Kimi, functionary, and the
//! harmony format.

use super::bare::{python_call, python_list};
use super::call_in_text::{CallBlock, CallInText, is_name_byte, json_calls};
use super::literal::Cursor;

/// The longest header of a message in the harmony format, in bytes.
const MAX_HEADER_BYTES: usize = 512;

/// Reads calls behind a token such as `<|python_tag|>`.
pub(super) fn read_marked_calls(cursor: &mut Cursor<'_>) -> Option<CallBlock> {
    if cursor.skip("<|python_tag|>") || cursor.skip("<|python_start|>") {
        return llama(cursor);
    }
    if cursor.skip("<|tool_call|>") {
        return granite(cursor);
    }
    if cursor.rest().starts_with("<｜") {
        return deepseek(cursor);
    }
    if cursor.rest().starts_with("<|tool_call") {
        return kimi(cursor);
    }
    if cursor.rest().starts_with("<|from|>") || cursor.rest().starts_with("<|recipient|>") {
        return functionary_message(cursor);
    }
    harmony(cursor)
}

/// Reads the calls of Llama: JSON, a list in Python, or calls in Python.
fn llama(cursor: &mut Cursor<'_>) -> Option<CallBlock> {
    cursor.skip_space();
    let mut look = *cursor;
    look.skip("[");
    look.skip_space();
    let calls = match (cursor.peek()?, look.peek()?) {
        (_, b'{') => json_calls(cursor)?,
        (b'[', _) => python_list(cursor)?,
        _ => {
            let mut call = python_call(cursor)?;
            // Llama calls its own tools as `brave_search.call(query="…")`.
            if let Some(name) = call.name.strip_suffix(".call") {
                call.name = name.to_owned();
            }
            vec![call]
        }
    };
    let mut end = cursor.at;
    cursor.skip_space();
    if cursor.skip("<|python_end|>") {
        end = cursor.at;
    }
    Some(CallBlock { calls, end })
}

/// Reads the calls of Granite: an array. Phi closes it with a token.
fn granite(cursor: &mut Cursor<'_>) -> Option<CallBlock> {
    let calls = json_calls(cursor)?;
    let mut end = cursor.at;
    cursor.skip_space();
    if cursor.skip("<|/tool_call|>") {
        end = cursor.at;
    }
    Some(CallBlock { calls, end })
}

/// Reads the calls of DeepSeek. Some models leave the tokens around all calls out.
fn deepseek(cursor: &mut Cursor<'_>) -> Option<CallBlock> {
    cursor.skip("<｜tool▁calls▁begin｜>");
    let mut calls = Vec::new();
    let mut end = cursor.at;
    loop {
        cursor.skip_space();
        if !cursor.rest().starts_with("<｜tool▁call▁begin｜>") {
            break;
        }
        calls.push(deepseek_call(cursor)?);
        end = cursor.at;
    }
    if cursor.skip("<｜tool▁calls▁end｜>") {
        end = cursor.at;
    }
    (!calls.is_empty()).then_some(CallBlock { calls, end })
}

/// Reads one call of DeepSeek. V3.1 writes the name and the arguments on both sides of the
/// separator. Earlier versions write the type, the name, and the arguments in a code fence.
fn deepseek_call(cursor: &mut Cursor<'_>) -> Option<CallInText> {
    let start = cursor.at;
    cursor.expect("<｜tool▁call▁begin｜>")?;
    cursor.skip_space();
    let mut name = cursor.take_while(is_name_byte);
    cursor.skip_space();
    cursor.expect("<｜tool▁sep｜>")?;
    cursor.skip_space();
    let is_fenced = cursor.peek()? != b'{';
    if is_fenced {
        if name != "function" {
            return None;
        }
        name = cursor.take_while(is_name_byte);
        cursor.skip_space();
        cursor.expect("```")?;
        cursor.skip("json");
    }
    let mut call = call_with_arguments(cursor, name, start)?;
    cursor.skip_space();
    if is_fenced && cursor.skip("```") {
        cursor.skip_space();
    }
    cursor.skip("<｜tool▁call▁end｜>");
    call.range.end = cursor.at;
    Some(call)
}

/// Reads the calls of Kimi. The tokens around all calls may be missing.
fn kimi(cursor: &mut Cursor<'_>) -> Option<CallBlock> {
    cursor.skip("<|tool_calls_section_begin|>");
    let mut calls = Vec::new();
    let mut end = cursor.at;
    loop {
        cursor.skip_space();
        if !cursor.rest().starts_with("<|tool_call_begin|>") {
            break;
        }
        calls.push(kimi_call(cursor)?);
        end = cursor.at;
    }
    if cursor.skip("<|tool_calls_section_end|>") {
        end = cursor.at;
    }
    (!calls.is_empty()).then_some(CallBlock { calls, end })
}

/// Reads one call of Kimi. Its id is `functions.name:number`.
fn kimi_call(cursor: &mut Cursor<'_>) -> Option<CallInText> {
    let start = cursor.at;
    cursor.expect("<|tool_call_begin|>")?;
    cursor.skip_space();
    let id = cursor.take_while(is_name_byte);
    cursor.skip_space();
    cursor.expect("<|tool_call_argument_begin|>")?;
    let name = id.strip_prefix("functions.").unwrap_or(id);
    let name = match name.rsplit_once(':') {
        Some((name, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    };
    let mut call = call_with_arguments(cursor, name, start)?;
    call.id = Some(id.to_owned());
    cursor.skip_space();
    cursor.skip("<|tool_call_end|>");
    call.range.end = cursor.at;
    Some(call)
}

/// Reads the calls of Mistral: `[TOOL_CALLS]` with an array, or with a name and its arguments.
pub(super) fn mistral(cursor: &mut Cursor<'_>) -> Option<CallBlock> {
    cursor.expect("[TOOL_CALLS]")?;
    cursor.skip_space();
    if matches!(cursor.peek()?, b'[' | b'{') {
        let calls = json_calls(cursor)?;
        let end = cursor.at;
        return Some(CallBlock { calls, end });
    }
    let start = cursor.at;
    let name = cursor.take_while(is_name_byte);
    let id = if cursor.skip("[CALL_ID]") {
        Some(cursor.take_while(|byte| byte.is_ascii_alphanumeric()))
    } else {
        None
    };
    cursor.skip("[ARGS]");
    let mut call = call_with_arguments(cursor, name, start)?;
    call.id = id.map(str::to_owned);
    let end = cursor.at;
    Some(CallBlock {
        calls: vec![call],
        end,
    })
}

/// Reads the JSON object behind a name.
fn call_with_arguments(cursor: &mut Cursor<'_>, name: &str, start: usize) -> Option<CallInText> {
    cursor.skip_space();
    if name.is_empty() || cursor.peek()? != b'{' {
        return None;
    }
    let arguments = cursor.literal()?;
    Some(CallInText::new(name, arguments, start..cursor.at))
}

/// Reads a call of functionary 3.2: `>>>`, the name, and the arguments in the next line.
pub(super) fn functionary(cursor: &mut Cursor<'_>) -> Option<CallBlock> {
    let start = cursor.at;
    cursor.expect(">>>")?;
    let name = cursor.take_while(is_name_byte);
    named_line(cursor, name, start)
}

/// Reads a call of functionary 3.2 at the start of the text, where the prompt has its `>>>`.
pub(super) fn leading_name(
    mut cursor: Cursor<'_>,
    is_shown: &dyn Fn(&str) -> bool,
) -> Option<CallBlock> {
    cursor.skip_space();
    let start = cursor.at;
    let name = cursor.take_while(is_name_byte);
    let block = named_line(&mut cursor, name, start)?;
    is_shown(name).then_some(block)
}

fn named_line(cursor: &mut Cursor<'_>, name: &str, start: usize) -> Option<CallBlock> {
    cursor.skip_blanks();
    cursor.expect("\n")?;
    let call = call_with_arguments(cursor, name, start)?;
    let end = cursor.at;
    Some(CallBlock {
        calls: vec![call],
        end,
    })
}

/// Reads a call of functionary 2: a message with a recipient.
fn functionary_message(cursor: &mut Cursor<'_>) -> Option<CallBlock> {
    let start = cursor.at;
    if cursor.skip("<|from|>") {
        cursor.skip_blanks();
        cursor.expect("assistant")?;
        cursor.skip_space();
    }
    cursor.expect("<|recipient|>")?;
    cursor.skip_blanks();
    let name = cursor.take_while(is_name_byte);
    cursor.skip_space();
    cursor.expect("<|content|>")?;
    let call = call_with_arguments(cursor, name, start)?;
    let end = cursor.at;
    Some(CallBlock {
        calls: vec![call],
        end,
    })
}

/// Reads a message to a function in the harmony format. Its header names the recipient:
/// `<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{…}<|call|>`.
fn harmony(cursor: &mut Cursor<'_>) -> Option<CallBlock> {
    let start = cursor.at;
    if !(cursor.rest().starts_with("<|start|>assistant")
        || cursor.rest().starts_with("<|channel|>"))
    {
        return None;
    }
    let rest = cursor.rest();
    let mut limit = rest.len().min(MAX_HEADER_BYTES);
    while !rest.is_char_boundary(limit) {
        limit -= 1;
    }
    cursor.at += limit;
    let header = &rest[..rest[..limit].find("<|message|>")?];
    cursor.at = start + header.len();
    let (_, recipient) = header.split_once(" to=")?;
    let is_final = header.contains("<|channel|>final");
    let end_of_name = recipient.bytes().position(|byte| !is_name_byte(byte));
    let name = &recipient[..end_of_name.unwrap_or(recipient.len())];
    // The namespace of all functions; it is no part of the name.
    let name = name.strip_prefix("functions.").unwrap_or(name);
    cursor.expect("<|message|>")?;
    let call = call_with_arguments(cursor, name, start)?;
    let end = cursor.at;
    (!is_final).then(|| CallBlock {
        calls: vec![call],
        end,
    })
}
