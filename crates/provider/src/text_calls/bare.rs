//! Calls without a mark, on lines of their own: JSON of Llama, and Python lists.

use serde_json::{Map, Value};

use super::call_in_text::{CallBlock, CallInText, is_name_byte, json_calls};
use super::literal::Cursor;

/// Reads bare calls. Nothing may follow them in their line.
pub(super) fn read_bare_calls(cursor: &mut Cursor<'_>) -> Option<CallBlock> {
    let is_list = cursor.peek() == Some(b'[');
    let mut calls = if is_python_list(*cursor) {
        python_list(cursor)?
    } else {
        json_calls(cursor)?
    };
    let exact = calls.iter().take_while(|call| call.is_exact).count();
    if exact < calls.len() {
        if is_list || exact == 0 {
            return None;
        }
        calls.truncate(exact);
        cursor.at = calls[exact - 1].range.end;
    }
    let end = cursor.at;
    cursor.skip_blanks();
    let is_line_end = matches!(cursor.peek(), None | Some(b'\n' | b'<'));
    is_line_end.then_some(CallBlock { calls, end })
}

/// Returns `true` if a list starts with the name of a function and a parenthesis.
fn is_python_list(mut cursor: Cursor<'_>) -> bool {
    cursor.skip("[") && {
        cursor.skip_space();
        !cursor.take_while(is_name_byte).is_empty() && cursor.peek() == Some(b'(')
    }
}

/// Reads a list of calls in Python: `[weather(city="Oslo"), time()]`.
pub(super) fn python_list(cursor: &mut Cursor<'_>) -> Option<Vec<CallInText>> {
    cursor.expect("[")?;
    let mut calls = Vec::new();
    loop {
        cursor.skip_space();
        if cursor.skip("]") {
            break;
        }
        calls.push(python_call(cursor)?);
        cursor.separate("]")?;
    }
    (!calls.is_empty()).then_some(calls)
}

/// Reads a call in Python. Its arguments have names, and are literals.
pub(super) fn python_call(cursor: &mut Cursor<'_>) -> Option<CallInText> {
    let start = cursor.at;
    let name = cursor.take_while(is_name_byte);
    if name.is_empty() {
        return None;
    }
    cursor.expect("(")?;
    let mut arguments = Map::new();
    loop {
        cursor.skip_space();
        if cursor.skip(")") {
            break;
        }
        let key = cursor.take_while(is_name_byte);
        cursor.skip_space();
        if key.is_empty() || !cursor.skip("=") {
            return None;
        }
        let value = cursor.literal()?;
        if arguments.insert(key.to_owned(), value).is_some() {
            return None;
        }
        cursor.separate(")")?;
    }
    let range = start..cursor.at;
    Some(CallInText::new(name, Value::Object(arguments), range))
}
