//! Bodies of requests: bounded in bytes, time and depth, in JSON, and read to the last member.

use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::problem::Problem;

/// The most bytes of a body.
const MAX_BYTES: usize = 8 << 20;
/// The most bytes that are read at all.
const MAX_THROWN: usize = 4 * MAX_BYTES;
/// How long a client may take to send one.
const SENDING: Duration = Duration::from_secs(30);
/// The most characters of what is told of an error.
const MAX_TOLD: usize = 500;

/// A body that was read.
pub(super) struct Body<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (head, body) = request.into_parts();
        check(&head.headers)?;
        let bytes = match timeout(SENDING, received(body)).await {
            Ok(bytes) => bytes?,
            Err(_) => {
                let message = "the request took longer than 30 s to arrive";
                return Err(Problem::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "too_slow",
                    message,
                ));
            }
        };
        read(&bytes).map(Self)
    }
}

/// Parameters of an address that were read.
pub(super) struct Parameters<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let read = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        let read = read.map_err(|error| {
            Problem::invalid(picktools::excerpt::marked(&error.body_text(), MAX_TOLD))
        })?;
        Ok(Self(read.0))
    }
}

fn check(headers: &HeaderMap) -> Result<(), Problem> {
    let unsupported = |message| {
        Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            message,
        ))
    };
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is_json = kind.eq_ignore_ascii_case("application/json")
        || kind.to_ascii_lowercase().ends_with("+json");
    if !is_json {
        return unsupported("send Content-Type: application/json");
    }
    if headers
        .get(header::CONTENT_ENCODING)
        .is_some_and(|coding| coding != "identity")
    {
        return unsupported("send the body as it is, without Content-Encoding");
    }
    Ok(())
}

/// Reads a body. One that is too large is read on for a while and thrown away, as a client that
/// still sends does not hear why it is refused.
async fn received(mut body: axum::body::Body) -> Result<Vec<u8>, Problem> {
    let (mut bytes, mut size) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            Problem::new(StatusCode::BAD_REQUEST, "broken_off", "the body broke off")
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        size += data.len();
        if size <= MAX_BYTES {
            bytes.extend_from_slice(&data);
        } else if size > MAX_THROWN {
            break;
        }
    }
    if size > MAX_BYTES {
        let message = format!("the body has more than {MAX_BYTES} bytes");
        return Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            message,
        ));
    }
    Ok(bytes)
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if bytes
        .trim_ascii_start()
        .first()
        .is_some_and(|first| *first == b'[')
    {
        // A list would be read as the members of an object in their order.
        return Err(Problem::invalid("the body is a list; send an object"));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let is_data = |error: &serde_json::Error| error.classify() == serde_json::error::Category::Data;
    let malformed = |error: &serde_json::Error| {
        let (status, code) = match is_data(error) {
            true => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_request"),
            false => (StatusCode::BAD_REQUEST, "malformed_json"),
        };
        Problem::new(
            status,
            code,
            picktools::excerpt::marked(&error.to_string(), MAX_TOLD),
        )
    };
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let place = error.path().to_string();
        let problem = malformed(error.inner());
        // What is no JSON has a line and a column, and no members.
        if place == "." || !is_data(error.inner()) {
            problem
        } else {
            problem.at(picktools::excerpt::marked(&place, MAX_TOLD))
        }
    })?;
    reader.end().map_err(|error| malformed(&error))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        #[expect(dead_code, reason = "read for its place alone")]
        options: Inner,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[expect(dead_code, reason = "read for its place alone")]
        most: u8,
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_place() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for (body, status, place) in [
            ("", 400, None),
            ("{", 400, None),
            (deep.as_str(), 422, None),
            ("{\"options\": {\"most\": 1}} {}", 400, None),
            (
                "{\"options\": {\"most\": 1}, \"options\": {\"most\": 1}}",
                422,
                None,
            ),
            (
                "{\"options\": {\"most\": \"many\"}}",
                422,
                Some("options.most"),
            ),
            ("{\"options\": {\"most\": 300}}", 422, Some("options.most")),
            ("{\"options\": {\"least\": 1}}", 422, Some("options.least")),
            ("\u{feff}{}", 400, None),
        ] {
            let problem = read::<Asked>(body.as_bytes()).expect_err("it cannot be read");
            let told = serde_json::to_value(&problem).expect("JSON");
            let shown = &body[..body.len().min(60)];
            assert_eq!(told["status"], status, "{shown}: {told}");
            assert_eq!(
                told.get("place").and_then(|place| place.as_str()),
                place,
                "{shown}: {told}"
            );
        }
        read::<Asked>(&[0xff, 0xfe]).expect_err("it is not UTF-8");
        let nested = format!(
            "{{\"options\": {}{}}}",
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        read::<serde_json::Value>(nested.as_bytes())
            .expect_err("it is too deep, and no stack overflows");
    }
}
