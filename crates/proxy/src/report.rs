//! The response headers that report what a request kept and what was left out.

use std::fmt::Write as _;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::narrow::{KeptReasons, NarrowedRequest};
use crate::unchanged::UnchangedReason;

/// The longest list of names in a header, in bytes.
const MAX_NAMES_BYTES: usize = 1_000;
/// The longest name in a header, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Adds the headers that report the result of the narrowing.
pub(crate) fn add_headers(
    narrowed: &Result<NarrowedRequest, UnchangedReason>,
    time: Duration,
    headers: &mut HeaderMap,
) {
    let mut put = |name: &'static str, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    put("picktools-time-us", time.as_micros().to_string());
    let narrowed = match narrowed {
        Ok(narrowed) => narrowed,
        Err(reason) => {
            put("picktools-unchanged", reason.name().to_owned());
            return;
        }
    };
    put("picktools-mode", narrowed.mode.name().to_owned());
    let (shown, total) = (narrowed.shown, narrowed.total);
    put("picktools-tools", format!("{shown}/{total}"));
    put("picktools-saved-tokens", narrowed.saved.to_string());
    if narrowed.reasons != KeptReasons::default() {
        put("picktools-kept", list_reasons(narrowed.reasons));
    }
    put("picktools-left-out", (total - shown).to_string());
    if !narrowed.left_out.is_empty() {
        put("picktools-left-out-names", list_names(&narrowed.left_out));
    }
    if !narrowed.removed.is_empty() {
        put("picktools-removed", narrowed.removed.join(", "));
    }
}

/// Lists the reasons for which tools were kept, each with the number of tools.
fn list_reasons(reasons: KeptReasons) -> String {
    let KeptReasons {
        provider,
        host,
        always,
        unranked,
        used,
        picked,
        chosen,
    } = reasons;
    let counts = [
        ("provider", provider),
        ("host", host),
        ("always", always),
        ("unranked", unranked),
        ("used", used),
        ("picked", picked),
        ("chosen", chosen),
    ];
    let mut parts = Vec::new();
    for (reason, count) in counts {
        if count > 0 {
            parts.push(format!("{reason}={count}"));
        }
    }
    parts.join(", ")
}

/// Lists the first names, within the limit. Other bytes than those of plain names are
/// percent-encoded, so that a name can neither end the header nor look like several names.
fn list_names(names: &[String]) -> String {
    let mut list = String::new();
    for name in names {
        let name = encode_name(name);
        let separator = if list.is_empty() { "" } else { ", " };
        if list.len() + separator.len() + name.len() > MAX_NAMES_BYTES {
            break;
        }
        list.push_str(separator);
        list.push_str(&name);
    }
    list
}

/// Percent-encodes a name, and cuts it at the limit.
fn encode_name(name: &str) -> String {
    let mut encoded = String::new();
    for byte in name.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"_-./:".contains(&byte);
        let size = if is_plain { 1 } else { 3 };
        if encoded.len() + size > MAX_NAME_BYTES {
            break;
        }
        if is_plain {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_stay_plain_and_bounded() {
        let names = [
            "git__log",
            "a\r\nSet-Cookie: x=1",
            "a, b",
            "50%",
            "wörter/日",
            "\0\u{7f}",
            &"x".repeat(5_000),
            "last",
        ];
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let list = list_names(&names);
        assert_eq!(
            list,
            format!(
                "git__log, a%0D%0ASet-Cookie:%20x%3D1, a%2C%20b, 50%25, \
                 w%C3%B6rter/%E6%97%A5, %00%7F, {}, last",
                "x".repeat(MAX_NAME_BYTES)
            )
        );
        let many: Vec<String> = (0..5_000).map(|number| format!("日{number}")).collect();
        let list = list_names(&many);
        assert!(list.len() <= MAX_NAMES_BYTES && list.len() > 900);
        assert!(
            list.bytes()
                .all(|byte| byte.is_ascii_graphic() || byte == b' ')
        );
        assert_eq!(encode_name(&"日".repeat(100)).len() % 3, 0);
    }
}
