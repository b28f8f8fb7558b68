//! Requests to the MCP endpoint: content types, and bodies that cannot be read.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use picktools_gateway::client_messages;
use serde_json::Value;
use sse_stream::SseStream;
use tokio::time::timeout;

use crate::body_time::{BODY_TIMEOUT, describe_slow_body};
use crate::first_message::wait_for_first_message;

/// The largest body of a request, in bytes.
const MAX_BODY_BYTES: usize = 4 << 20;
/// The content types that the protocol's library requires.
const ACCEPTED: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: &str = "text/event-stream";

/// The content types that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accepts {
    /// Both content types of the protocol, or others.
    AsNamed,
    /// Any content type.
    Anything,
    /// JSON alone: the answer is not an event stream.
    OnlyJson,
}

impl Accepts {
    fn from_headers(headers: &HeaderMap) -> Self {
        let Some(accept) = headers.get(header::ACCEPT) else {
            return Self::Anything;
        };
        let Ok(accept) = accept.to_str() else {
            return Self::AsNamed;
        };
        let accept = accept.to_ascii_lowercase();
        if accept.contains("*/*") || accept.contains("application/*") {
            Self::Anything
        } else if accept.contains("application/json") && !accept.contains(EVENT_STREAM) {
            Self::OnlyJson
        } else {
            Self::AsNamed
        }
    }
}

/// Mends the body of a message, and answers one that cannot be read. A client that accepts JSON
/// alone gets its answer without an event stream.
pub(crate) async fn prepare(request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let accepts = Accepts::from_headers(&parts.headers);
    if accepts != Accepts::AsNamed {
        parts.headers.insert(header::ACCEPT, ACCEPTED);
    }
    let bytes = match read_body(body, BODY_TIMEOUT).await {
        Ok(bytes) => bytes,
        Err(refusal) => return refusal,
    };
    let mended = match client_messages::parse_message(&bytes) {
        Ok((_, text)) => {
            let is_same = text.as_bytes() == &*bytes;
            (!is_same).then(|| text.into_owned())
        }
        Err(error) => {
            let error =
                error.unwrap_or_else(|| invalid_request("the notification or answer is invalid"));
            // The method was understood, so the message is answered like another request.
            let is_handled = error["error"]["code"] == client_messages::INVALID_PARAMS;
            let status = match is_handled {
                true => StatusCode::OK,
                false => StatusCode::BAD_REQUEST,
            };
            return answer(status, &error);
        }
    };
    let body = mended.map_or(bytes, Bytes::from);
    parts
        .headers
        .insert(header::CONTENT_LENGTH, body.len().into());
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    let content_type = response.headers().get(header::CONTENT_TYPE);
    let is_stream =
        content_type.is_some_and(|value| value.as_bytes().starts_with(EVENT_STREAM.as_bytes()));
    match (is_stream, accepts) {
        (true, Accepts::OnlyJson) => without_stream(response).await,
        (true, _) => wait_for_first_message(response).await,
        (false, _) => response,
    }
}

/// Reads a body, or returns the answer to one that is too long, incomplete or late.
async fn read_body(body: Body, time: Duration) -> Result<Bytes, Response> {
    match timeout(time, to_bytes(body, MAX_BODY_BYTES)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => {
            let reason = format!("the body is longer than {MAX_BODY_BYTES} bytes, or incomplete");
            Err(answer(
                StatusCode::PAYLOAD_TOO_LARGE,
                &invalid_request(&reason),
            ))
        }
        Err(_) => Err(answer(
            StatusCode::REQUEST_TIMEOUT,
            &invalid_request(&describe_slow_body()),
        )),
    }
}

fn invalid_request(reason: &str) -> Value {
    client_messages::answer(Value::Null, client_messages::INVALID_REQUEST, reason)
}

fn answer(status: StatusCode, message: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, JSON)], message.to_string()).into_response()
}

/// Returns the answer at the end of an event stream as JSON. The messages before it are left out.
async fn without_stream(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let mut events = SseStream::from_bytes_stream(body.into_data_stream());
    while let Some(Ok(event)) = events.next().await {
        let Some(data) = event.data else { continue };
        let Ok(message) = serde_json::from_str::<Value>(&data) else {
            continue;
        };
        if message.get("result").is_some() || message.get("error").is_some() {
            parts.headers.insert(header::CONTENT_TYPE, JSON);
            return Response::from_parts(parts, Body::from(data));
        }
    }
    let reason = "the answer ended early; send the request again";
    let message = client_messages::answer(Value::Null, client_messages::INTERNAL_ERROR, reason);
    answer(StatusCode::INTERNAL_SERVER_ERROR, &message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn body_that_never_ends_is_refused_in_time() {
        let first = futures_util::stream::iter([Ok::<_, std::io::Error>("{")]);
        let body = Body::from_stream(first.chain(futures_util::stream::pending()));
        let time = Duration::from_millis(50);
        let read = timeout(Duration::from_secs(20), read_body(body, time)).await;
        let refusal = read.expect("an answer").expect_err("it is not complete");
        assert_eq!(refusal.status(), StatusCode::REQUEST_TIMEOUT);
    }

    #[test]
    fn accepted_types_are_recognised() {
        for (accept, expected) in [
            (None, Accepts::Anything),
            (Some("*/*"), Accepts::Anything),
            (Some("application/*;q=0.5"), Accepts::Anything),
            (Some("application/json"), Accepts::OnlyJson),
            (Some("Application/JSON; charset=utf-8"), Accepts::OnlyJson),
            (
                Some("text/event-stream, application/json"),
                Accepts::AsNamed,
            ),
            (Some("text/html"), Accepts::AsNamed),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            }
            assert_eq!(Accepts::from_headers(&headers), expected, "{accept:?}");
        }
    }
}
