//! Repairs of messages that are almost JSON. MCP servers send such messages, and the official MCP
//! clients accept most of them. Lone surrogates and invalid UTF-8 become U+FFFD. `NaN`, `Infinity`
//! and numbers too large for `f64` become `null`. Control characters in strings are escaped.
//! In definitions of tools, numbers with more digits than 64 bits keep become strings, so that
//! definitions with different numbers have different digests.
//!
//! A response that cannot be repaired is replaced by an error response, so that its request fails
//! at once.

use std::borrow::Cow;

use picktools::excerpt::marked;
use picktools::json::is_long_number;
use serde::de::IgnoredAny;
use serde_json::json;

/// The deepest nesting of a response that is passed to `rmcp`, slightly below the limit of 128 in
/// `serde_json`.
const MAX_DEPTH: usize = 126;
/// The longest shown reason, in characters.
const MAX_REASON_CHARS: usize = 200;

/// The result of scanning a message.
struct Scan<'m> {
    /// The message after the repairs. It may still be invalid JSON.
    text: Cow<'m, str>,
    /// The id of the message, if it has one.
    id: Option<String>,
    /// `true` if the message has a method: it is a request or a notification, not a response.
    has_method: bool,
    is_too_deep: bool,
}

/// Repairs a message. If that does not suffice and the message is a response with an id, returns an
/// error response with this id. Every other message that cannot be repaired is returned unchanged.
pub(super) fn readable(message: &[u8]) -> Cow<'_, [u8]> {
    if message.trim_ascii_start().first() != Some(&b'{') {
        return Cow::Borrowed(message);
    }
    let scan = scan(message);
    let reason = if scan.is_too_deep {
        format!("it is nested more than {MAX_DEPTH} levels deep")
    } else if let Err(error) = serde_json::from_str::<IgnoredAny>(&scan.text) {
        error.to_string()
    } else {
        return match scan.text {
            Cow::Borrowed(_) => Cow::Borrowed(message),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        };
    };
    let id = scan
        .id
        .and_then(|id| serde_json::from_str::<serde_json::Value>(&id).ok());
    let Some(id) = id.filter(|_| !scan.has_method) else {
        return Cow::Borrowed(message);
    };
    let reason = format!(
        "its answer cannot be read: {}",
        marked(&reason, MAX_REASON_CHARS)
    );
    let error = json!({"code": -32700, "message": reason});
    let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
    Cow::Owned(format!("{answer}\n").into_bytes())
}

/// Repairs a message without a check of the result, which may still be invalid JSON.
pub fn mend(message: &[u8]) -> Cow<'_, str> {
    scan(message).text
}

/// Returns the id of a message, even if the message is not valid JSON.
pub fn message_id(message: &[u8]) -> Option<serde_json::Value> {
    serde_json::from_str(&scan(message).id?).ok()
}

fn scan(message: &[u8]) -> Scan<'_> {
    let text = String::from_utf8_lossy(message);
    let bytes = text.as_bytes();
    // The line end after the message is never escaped, not even if the last string is not closed.
    let is_line_end = |byte: &&u8| matches!(byte, b'\r' | b'\n');
    let content_end = bytes.len() - bytes.iter().rev().take_while(is_line_end).count();
    let (mut mended, mut place) = (Mended::default(), ScanPlace::default());
    let (mut id, mut has_method, mut is_too_deep) = (None, false, false);
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let start = at;
                at = scan_string(bytes, content_end, at, &mut mended);
                let is_key = after_spaces(bytes, at).is_some_and(|(_, next)| next == b':');
                if is_key {
                    place.enter(depth, &text[start..at]);
                }
                if depth == 1 && is_key {
                    has_method |= &bytes[start..at] == b"\"method\"";
                    if &bytes[start..at] == b"\"id\"" {
                        id = scan_id(&text, content_end, at);
                    }
                }
                continue;
            }
            b'{' | b'[' => {
                depth += 1;
                is_too_deep |= depth > MAX_DEPTH;
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'N' | b'I' | b'-' | b'0'..=b'9' => {
                let end = token_end(bytes, at);
                let number = &text[at..end];
                if is_not_finite(number) {
                    mended.replace(bytes, at, end, "null");
                } else if place.is_definition && is_long_number(number) {
                    mended.replace(bytes, at, end, &format!("\"{number}\""));
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    let text = match mended.finish(bytes) {
        Some(mended) => Cow::Owned(mended),
        None => text,
    };
    Scan {
        text,
        id,
        has_method,
        is_too_deep,
    }
}

/// The place that a scan has reached in a message.
#[derive(Default)]
struct ScanPlace {
    is_result: bool,
    /// `true` inside the tools of a result.
    is_definition: bool,
}

impl ScanPlace {
    /// Enters the member with a key, given as JSON text. Only two levels are of interest.
    fn enter(&mut self, depth: usize, key: &str) {
        let is_key = |name: &str| match key.contains('\\') {
            false => key.trim_matches('"') == name,
            true => serde_json::from_str(key).is_ok_and(|key: String| key == name),
        };
        match depth {
            1 => {
                self.is_result = is_key("result");
                self.is_definition = false;
            }
            2 => self.is_definition = self.is_result && is_key("tools"),
            _ => {}
        }
    }
}

/// A text that is copied with replacements.
#[derive(Default)]
struct Mended {
    copy: Vec<u8>,
    /// The position in the original up to which `copy` is complete.
    copied_to: usize,
    is_changed: bool,
}

impl Mended {
    fn replace(&mut self, bytes: &[u8], start: usize, end: usize, with: &str) {
        self.copy.extend_from_slice(&bytes[self.copied_to..start]);
        self.copy.extend_from_slice(with.as_bytes());
        (self.copied_to, self.is_changed) = (end, true);
    }

    fn finish(mut self, bytes: &[u8]) -> Option<String> {
        if !self.is_changed {
            return None;
        }
        self.copy.extend_from_slice(&bytes[self.copied_to..]);
        String::from_utf8(self.copy).ok()
    }
}

/// Scans a string from its opening quote, and returns the position after its closing quote.
fn scan_string(bytes: &[u8], content_end: usize, start: usize, mended: &mut Mended) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => match escaped_unit(bytes, at) {
                Some(0xD800..=0xDBFF) => {
                    if matches!(escaped_unit(bytes, at + 6), Some(0xDC00..=0xDFFF)) {
                        at += 12;
                    } else {
                        mended.replace(bytes, at, at + 6, "\\ufffd");
                        at += 6;
                    }
                }
                Some(0xDC00..=0xDFFF) => {
                    mended.replace(bytes, at, at + 6, "\\ufffd");
                    at += 6;
                }
                Some(_) => at += 6,
                None => at += 2,
            },
            0..=0x1F if at < content_end => {
                mended.replace(bytes, at, at + 1, &format!("\\u{byte:04x}"));
                at += 1;
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the code unit of an escape such as `\ud83d`.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at + 6)?;
    let digits = escape.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Returns the position after spaces, and the byte there.
fn after_spaces(bytes: &[u8], at: usize) -> Option<(usize, u8)> {
    let rest = bytes.get(at..)?;
    let spaces = rest.iter().take_while(|byte| byte.is_ascii_whitespace());
    let at = at + spaces.count();
    Some((at, *bytes.get(at)?))
}

/// Returns the text of the value that follows a key: a string or one token. The caller parses it.
fn scan_id(text: &str, content_end: usize, after_key: usize) -> Option<String> {
    let bytes = text.as_bytes();
    let (colon, _) = after_spaces(bytes, after_key)?;
    let (start, first) = after_spaces(bytes, colon + 1)?;
    let end = match first {
        b'"' => scan_string(bytes, content_end, start, &mut Mended::default()),
        _ => token_end(bytes, start),
    };
    Some(text.get(start..end)?.to_owned())
}

fn token_end(bytes: &[u8], start: usize) -> usize {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
    let length = bytes[start..].iter().take_while(is_part).count();
    start + length.max(1)
}

/// Returns `true` for `NaN`, `Infinity` and numbers too large for `f64`.
fn is_not_finite(token: &str) -> bool {
    if matches!(token, "NaN" | "Infinity" | "-Infinity") {
        return true;
    }
    let may_be_large = token.len() > 300 || token.contains(['e', 'E']);
    may_be_large
        && token.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        && token.parse::<f64>().is_ok_and(f64::is_infinite)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn read(message: &[u8]) -> Value {
        let readable = readable(message);
        serde_json::from_slice(&readable)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&readable)))
    }

    fn result(value: &str) -> Value {
        read(format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{value}}}\n").as_bytes())["result"]
            .clone()
    }

    #[test]
    fn invalid_values_are_replaced() {
        for (value, expected) in [
            ("\"a\\ud83d\"", json!("a\u{fffd}")),
            ("\"a\\udc00b\"", json!("a\u{fffd}b")),
            ("\"\\ud83d\\ude00\"", json!("\u{1f600}")),
            ("\"\\\\ud83d\"", json!("\\ud83d")),
            ("{\"\\ud83d\": 1}", json!({"\u{fffd}": 1})),
            (
                "[NaN, Infinity, -Infinity, 1e999, -1e999]",
                json!([null, null, null, null, null]),
            ),
            (
                "[1.5e3, 12345678901234567890, \"NaN\"]",
                json!([1500.0, 12345678901234567890_u64, "NaN"]),
            ),
            ("\"a\u{1}b\tc\"", json!("a\u{1}b\tc")),
        ] {
            assert_eq!(result(value), expected, "{value}");
        }
        let latin = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"caf\xe9\"}\n";
        assert_eq!(read(latin)["result"], json!("caf\u{fffd}"));
    }

    #[test]
    fn long_numbers_of_definitions_keep_their_digits() {
        let long = "1000000000000000000000000000001";
        let decimal = "0.100000000000000000000000000001";
        for key in ["tools", "t\\u006fols"] {
            let list = format!(
                r#"{{"{key}":[{{"name":"a {long}","inputSchema":{{"maximum":{long},"default":[-{decimal},2.5]}}}}]}}"#
            );
            let tool = &result(&list)["tools"][0];
            assert_eq!(tool["name"], json!(format!("a {long}")));
            let expected = json!({"maximum": long, "default": [format!("-{decimal}"), 2.5]});
            assert_eq!(tool["inputSchema"], expected, "{key}");
        }
        // The result of a call is data, which is read as other clients read it.
        let structured =
            format!(r#"{{"structuredContent":{{"tools":{long}}},"content":[{long}]}}"#);
        assert_eq!(
            result(&structured),
            json!({"structuredContent": {"tools": 1e30}, "content": [1e30]})
        );
    }

    #[test]
    fn valid_messages_and_other_lines_are_unchanged() {
        for message in [
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":[1,-2.5e3,\"x\\u00e9\\n\"]}}\r\n",
            "Listening on port 80\n",
            "{\"method\": NotJson}\n",
            "{no json at all\n",
            "\n",
        ] {
            assert!(
                matches!(readable(message.as_bytes()), Cow::Borrowed(_)),
                "{message}"
            );
        }
    }

    #[test]
    fn unreadable_answer_becomes_an_error() {
        let deep = format!(
            "{{\"id\": \"x-1\", \"result\": {}1{}}}\n",
            "[".repeat(500),
            "]".repeat(500)
        );
        let answer = read(deep.as_bytes());
        assert_eq!(answer["id"], "x-1");
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(said.contains("levels deep"), "{answer}");
        let answer = read(b"{\"result\": {'a': 1}, \"id\": 7}\n");
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(7), &json!(-32700))
        );
        // The id inside of the result is not the id of the message.
        let inner = readable(b"{\"result\": {\"id\": 7, 'a': 1}}\n");
        assert!(matches!(inner, Cow::Borrowed(_)));
    }
}
