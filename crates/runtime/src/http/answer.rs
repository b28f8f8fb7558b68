//! Conversion of HTTP responses to results.

use reqwest::header::{CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use serde_json::Value;

use crate::redaction;
use crate::{ErrorType, ToolResult};
use picktools::excerpt::{MAX_NAME_CHARS, marked};

/// The most characters of the body in an error.
const MAX_BODY_CHARS_OF_ERROR: usize = 1_000;

/// Reads a response, and at most `max_body_bytes` of its body.
pub(super) async fn read_response(
    mut response: Response,
    max_body_bytes: usize,
    secrets: &[String],
) -> Result<ToolResult, reqwest::Error> {
    let status = response.status();
    let header = |name: HeaderName| {
        let value = response.headers().get(name)?.to_str().ok()?;
        Some(redaction::redact_text(
            &marked(value, MAX_NAME_CHARS * 5),
            secrets,
        ))
    };
    let (content_type, location, retry_after) =
        (header(CONTENT_TYPE), header(LOCATION), header(RETRY_AFTER));
    let content_length = response.content_length();
    let mut body = Vec::new();
    let mut is_cut = false;
    while let Some(chunk) = response.chunk().await? {
        let room = max_body_bytes - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            is_cut = true;
            break;
        }
    }
    // Closes the connection without reading the rest.
    drop(response);
    let mut result = if status.is_success() {
        ToolResult::success()
    } else {
        let text = decode_text(&body, is_cut).unwrap_or_default();
        let text = redaction::redact_text(&text, secrets);
        failure(status, location.as_deref(), retry_after.as_deref(), &text)
    };
    let succeeded = result.is_success();
    result = result.field("status", status.as_u16());
    for (name, value) in [
        ("content_type", content_type.clone()),
        ("location", location),
        ("retry_after", retry_after),
    ] {
        if let Some(value) = value {
            result = result.field(name, value);
        }
    }
    // The error of a failed request contains the body already.
    if !succeeded {
        return Ok(result);
    }
    if !body.is_empty() {
        result = result.field(
            "body",
            value(
                &body,
                is_cut,
                content_type.as_deref(),
                content_length,
                secrets,
            ),
        );
    }
    Ok(if is_cut {
        result.field(
            "truncated",
            format!("only the first {max_body_bytes} bytes were read"),
        )
    } else {
        result
    })
}

/// Makes the result for a status that is not a success.
fn failure(
    status: StatusCode,
    location: Option<&str>,
    retry_after: Option<&str>,
    text: &str,
) -> ToolResult {
    let kind = match status.as_u16() {
        401 | 403 => ErrorType::Permission,
        400..=499 => ErrorType::User,
        _ => ErrorType::System,
    };
    let detail = match (status.is_redirection(), location) {
        (true, Some(location)) => format!("the redirect to {location} was not followed"),
        _ => marked(text.trim(), MAX_BODY_CHARS_OF_ERROR).into_owned(),
    };
    let reason = status.canonical_reason().unwrap_or_default();
    let colon = if detail.is_empty() { "" } else { ": " };
    let code = status.as_u16();
    let failure = ToolResult::failure(
        kind,
        format!(
            "status {}{colon}{detail}",
            format!("{code} {reason}").trim_end()
        ),
    );
    match retry_after {
        Some(after) => failure.suggest(format!("Try again after {after} (seconds or a date).")),
        None => failure,
    }
}

/// Converts a body to JSON, to text, or to a description of binary data.
fn value(
    body: &[u8],
    is_cut: bool,
    content_type: Option<&str>,
    content_length: Option<u64>,
    secrets: &[String],
) -> Value {
    let Some(text) = decode_text(body, is_cut) else {
        let kind = content_type.unwrap_or("unknown type");
        let size = match content_length {
            Some(bytes) if is_cut => format!("{bytes} bytes"),
            None if is_cut => format!("more than {} bytes", body.len()),
            _ => format!("{} bytes", body.len()),
        };
        return format!("[binary data: {size} of {kind}]").into();
    };
    let text = redaction::redact_text(&text, secrets);
    let essence = content_type
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let is_json = essence.is_empty() || essence.ends_with("/json") || essence.ends_with("+json");
    if is_json && let Ok(value) = serde_json::from_str(&text) {
        return value;
    }
    text.into()
}

/// Returns the body as text; `None` for binary data. If the body was cut, an incomplete last
/// character is dropped.
fn decode_text(body: &[u8], is_cut: bool) -> Option<String> {
    match std::str::from_utf8(body) {
        Ok(text) if !text.contains('\0') => Some(text.to_owned()),
        Ok(_) => None,
        Err(error) if is_cut && error.valid_up_to() + 4 > body.len() => {
            decode_text(&body[..error.valid_up_to()], false)
        }
        // Text in an older encoding is mostly ASCII.
        Err(_) => {
            let is_unusual =
                |byte: u8| byte >= 0x80 || (byte < 0x20 && !byte.is_ascii_whitespace());
            let unusual = body.iter().filter(|&&byte| is_unusual(byte)).count();
            if unusual * 4 < body.len() && !body.contains(&0) {
                Some(String::from_utf8_lossy(body).into_owned())
            } else {
                None
            }
        }
    }
}
