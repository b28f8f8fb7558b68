//! JSON bodies of requests, limited in size, time and depth. Unknown members are errors.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use picktools::json::quote_long_numbers;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::body_time::{BODY_TIMEOUT, describe_slow_body};
use crate::problem::Problem;

/// The largest size of a body, in bytes.
const MAX_BYTES: usize = 8 << 20;
/// The number of bytes after which the server stops reading a body that is too large.
const MAX_DISCARDED: usize = 4 * MAX_BYTES;
/// The largest length of an error message, in characters.
const MAX_MESSAGE_CHARS: usize = 500;

/// An extractor that deserializes a JSON body.
pub(super) struct Body<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (head, body) = request.into_parts();
        check_headers(&head.headers)?;
        let bytes = match timeout(BODY_TIMEOUT, read_bytes(body)).await {
            Ok(bytes) => bytes?,
            Err(_) => {
                let message = describe_slow_body();
                return Err(Problem::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "too_slow",
                    message,
                ));
            }
        };
        parse(&bytes).map(Self)
    }
}

/// An extractor that deserializes the query parameters of an address.
pub(super) struct Parameters<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::<T>::try_from_uri(&parts.uri).map_err(|error| {
            Problem::invalid(picktools::excerpt::marked(
                &error.body_text(),
                MAX_MESSAGE_CHARS,
            ))
        })?;
        Ok(Self(query.0))
    }
}

/// Refuses bodies that are not JSON, or compressed.
fn check_headers(headers: &HeaderMap) -> Result<(), Problem> {
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
        return unsupported("send the body uncompressed, without Content-Encoding");
    }
    Ok(())
}

/// Reads a body.
///
/// The excess of a body that is too large is read up to [`MAX_DISCARDED`] bytes and discarded: many
/// clients read the response only after they have sent everything.
async fn read_bytes(mut body: axum::body::Body) -> Result<Vec<u8>, Problem> {
    let (mut bytes, mut size) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            Problem::new(
                StatusCode::BAD_REQUEST,
                "broken_off",
                "the body ended early",
            )
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        size += data.len();
        if size <= MAX_BYTES {
            bytes.extend_from_slice(&data);
        } else if size > MAX_DISCARDED {
            break;
        }
    }
    if size > MAX_BYTES {
        let message = format!("the body is over {MAX_BYTES} bytes");
        return Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            message,
        ));
    }
    Ok(bytes)
}

/// Parses a body.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if bytes
        .trim_ascii_start()
        .first()
        .is_some_and(|first| *first == b'[')
    {
        // serde would read a list as the members of an object, in order.
        return Err(Problem::invalid("the body is an array; send an object"));
    }
    let bytes = quote_long_numbers(bytes);
    let mut reader = serde_json::Deserializer::from_slice(&bytes);
    let is_data = |error: &serde_json::Error| error.classify() == serde_json::error::Category::Data;
    let malformed = |error: &serde_json::Error| {
        let (status, code) = match is_data(error) {
            true => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_request"),
            false => (StatusCode::BAD_REQUEST, "malformed_json"),
        };
        Problem::new(
            status,
            code,
            picktools::excerpt::marked(&error.to_string(), MAX_MESSAGE_CHARS),
        )
    };
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let member = error.path().to_string();
        let problem = malformed(error.inner());
        // An error of the JSON syntax has a line and a column instead of a path.
        if member == "." || !is_data(error.inner()) {
            problem
        } else {
            problem.at(picktools::excerpt::marked(&member, MAX_MESSAGE_CHARS))
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
    struct TestRequest {
        #[expect(dead_code, reason = "read for its place alone")]
        options: TestOptions,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct TestOptions {
        #[expect(dead_code, reason = "read for its place alone")]
        most: u8,
    }

    #[test]
    fn invalid_body_is_reported_with_the_path_of_the_member() {
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
            let problem = parse::<TestRequest>(body.as_bytes()).expect_err("the body is invalid");
            let problem = serde_json::to_value(&problem).expect("JSON");
            let excerpt = &body[..body.len().min(60)];
            assert_eq!(problem["status"], status, "{excerpt}: {problem}");
            assert_eq!(
                problem.get("place").and_then(|place| place.as_str()),
                place,
                "{excerpt}: {problem}"
            );
        }
        parse::<TestRequest>(&[0xff, 0xfe]).expect_err("it is not UTF-8");
        let nested = format!(
            "{{\"options\": {}{}}}",
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        parse::<serde_json::Value>(nested.as_bytes()).expect_err("the nesting is too deep");
    }

    #[test]
    fn long_numbers_of_bodies_keep_their_digits() {
        let body = b"{\"a\": 1000000000000000000000000000001}";
        let value = parse::<serde_json::Value>(body).expect("it is JSON");
        assert_eq!(value["a"], "1000000000000000000000000000001");
    }
}
