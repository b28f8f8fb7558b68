//! From an answer to a result.

use reqwest::header::{CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use serde_json::Value;

use crate::redaction;
use crate::{ErrorType, ToolResult};
use picktools::excerpt::{MAX_NAME_CHARS, marked};

/// The most characters of the body that an error tells.
const MAX_TOLD_CHARS: usize = 1_000;

/// Reads an answer, of whose body so many bytes.
pub(super) async fn read(
    mut response: Response,
    most: usize,
    secrets: &[String],
) -> Result<ToolResult, reqwest::Error> {
    let status = response.status();
    let header = |name: HeaderName| {
        let value = response.headers().get(name)?.to_str().ok()?;
        Some(redaction::without(
            &marked(value, MAX_NAME_CHARS * 5),
            secrets,
        ))
    };
    let (content_type, location, retry_after) =
        (header(CONTENT_TYPE), header(LOCATION), header(RETRY_AFTER));
    let announced = response.content_length();
    let mut body = Vec::new();
    let mut is_cut = false;
    while let Some(chunk) = response.chunk().await? {
        let room = most - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            is_cut = true;
            break;
        }
    }
    // The rest of it is not waited for.
    drop(response);
    let mut result = if status.is_success() {
        ToolResult::success()
    } else {
        let text = redaction::without(&text(&body, is_cut).unwrap_or_default(), secrets);
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
    // What failed says why in its error.
    if !succeeded {
        return Ok(result);
    }
    if !body.is_empty() {
        result = result.field(
            "body",
            value(&body, is_cut, content_type.as_deref(), announced, secrets),
        );
    }
    Ok(if is_cut {
        result.field(
            "truncated",
            format!("only the first {most} bytes were read"),
        )
    } else {
        result
    })
}

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
    let told = match (status.is_redirection(), location) {
        (true, Some(location)) => {
            format!("it answers from elsewhere, and is not followed there: {location}")
        }
        _ => marked(text.trim(), MAX_TOLD_CHARS).into_owned(),
    };
    let reason = status.canonical_reason().unwrap_or_default();
    let colon = if told.is_empty() { "" } else { ": " };
    let code = status.as_u16();
    let failure = ToolResult::failure(
        kind,
        format!(
            "status {}{colon}{told}",
            format!("{code} {reason}").trim_end()
        ),
    );
    match retry_after {
        Some(after) => failure.suggest(format!("Try again after {after} (seconds, or that time).")),
        None => failure,
    }
}

fn value(
    body: &[u8],
    is_cut: bool,
    content_type: Option<&str>,
    announced: Option<u64>,
    secrets: &[String],
) -> Value {
    let Some(text) = text(body, is_cut) else {
        let kind = content_type.unwrap_or("unknown type");
        let size = match announced.filter(|_| is_cut) {
            Some(announced) => format!("{announced} bytes"),
            None if is_cut => format!("more than {} bytes", body.len()),
            None => format!("{} bytes", body.len()),
        };
        return format!("[binary data: {size} of {kind}]").into();
    };
    let text = redaction::without(&text, secrets);
    let essence = content_type
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let is_json = essence.is_empty() || essence.ends_with("/json") || essence.ends_with("+json");
    match is_json.then(|| serde_json::from_str(&text)) {
        Some(Ok(value)) => value,
        _ => text.into(),
    }
}

/// The body as text; `None` where it is none. Where it was cut, its last character may be half of
/// one.
fn text(body: &[u8], is_cut: bool) -> Option<String> {
    match std::str::from_utf8(body) {
        Ok(text) if !text.contains('\0') => Some(text.to_owned()),
        Ok(_) => None,
        Err(error) if is_cut && error.valid_up_to() + 4 > body.len() => {
            text(&body[..error.valid_up_to()], false)
        }
        // Older encodings have the letters of ASCII, and few others among them.
        Err(_) => {
            let strange = body
                .iter()
                .filter(|&&byte| byte >= 0x80 || (byte < 0x20 && !byte.is_ascii_whitespace()))
                .count();
            (strange * 4 < body.len() && !body.contains(&0))
                .then(|| String::from_utf8_lossy(body).into_owned())
        }
    }
}
