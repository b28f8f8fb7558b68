//! Bodies of the type `multipart/form-data`.
//!
//! Source: RFC 7578.

use picktools::catalog::http::ValueEncoding;
use serde_json::Value;

use super::error::HttpCallError;
use super::styles::HttpArgument;

/// A part of a body.
struct Part {
    /// Its name, with quotation marks and line breaks encoded.
    name: String,
    /// The media type; `None` for text.
    media_type: Option<&'static str>,
    is_file: bool,
    content: Vec<u8>,
}

/// Returns the content type with its boundary, and the body.
pub(super) fn build(fields: &[HttpArgument<'_>]) -> Result<(String, Vec<u8>), HttpCallError> {
    let mut parts = Vec::new();
    for field in fields {
        match field.value {
            Value::Null => {}
            Value::Array(items) => {
                for item in items {
                    parts.push(part(field, item)?);
                }
            }
            value => parts.push(part(field, value)?),
        }
    }
    let boundary = boundary(&parts);
    let mut body = Vec::new();
    for part in &parts {
        body.extend_from_slice(format!("--{boundary}\r\n{}\r\n", part.headers()).as_bytes());
        body.extend_from_slice(&part.content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok((format!("multipart/form-data; boundary={boundary}"), body))
}

fn part(field: &HttpArgument<'_>, value: &Value) -> Result<Part, HttpCallError> {
    let is_file = field.definition.encoding == Some(ValueEncoding::Base64);
    let (media_type, content) = match value {
        Value::String(text) if is_file => (Some("application/octet-stream"), field.bytes(text)?),
        Value::String(text) => (None, text.as_bytes().to_vec()),
        Value::Array(_) | Value::Object(_) => {
            (Some("application/json"), value.to_string().into_bytes())
        }
        other => (None, other.to_string().into_bytes()),
    };
    Ok(Part {
        name: encoded_name(field.name()),
        media_type,
        is_file,
        content,
    })
}

fn encoded_name(name: &str) -> String {
    name.replace('"', "%22")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

impl Part {
    fn headers(&self) -> String {
        let Self { name, .. } = self;
        let mut headers = format!("Content-Disposition: form-data; name=\"{name}\"");
        if self.is_file {
            headers.push_str(&format!("; filename=\"{name}\""));
        }
        headers.push_str("\r\n");
        if let Some(media_type) = self.media_type {
            headers.push_str(&format!("Content-Type: {media_type}\r\n"));
        }
        headers
    }
}

/// Returns a boundary that no part contains.
fn boundary(parts: &[Part]) -> String {
    let mut number = 0_u64;
    loop {
        let boundary = format!("picktools-boundary-{number}");
        let contains = |part: &Part| {
            let mut windows = part.content.windows(boundary.len());
            windows.any(|window| window == boundary.as_bytes())
        };
        if !parts.iter().any(contains) {
            return boundary;
        }
        number += 1;
    }
}
