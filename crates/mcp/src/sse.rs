//! Event streams of servers: paced reconnections, bounded ids, and messages that can be read.
//!
//! A server decides when its stream ends and how soon the client may come back. So the time between
//! two connections is at least a second, and doubles as long as the streams bring no message.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use picktools::excerpt::marked;
use rmcp::model::{JsonRpcVersion2_0, RequestId, ServerJsonRpcMessage};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use sse_stream::{Error as SseError, Sse};
use tokio::time::{Instant, sleep_until};

use super::reading::readable;

/// The shortest and the longest pause before a stream is opened again.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// A stream that lasts this long is healthy, even if it brings no message.
const HEALTHY_TIME: Duration = Duration::from_secs(30);
/// The longest id of an event, in bytes. The id goes into a header of the next request.
const MAX_EVENT_ID_BYTES: usize = 4 << 10;
/// The most ended streams that are remembered.
const MAX_ENDED: usize = 64;
/// The longest shown reason, in characters.
const MAX_REASON_CHARS: usize = 200;

/// The ended streams of a server, which pace the next connections.
#[derive(Debug, Clone, Default)]
pub(super) struct Reconnections(Arc<Mutex<VecDeque<EndedStream>>>);

#[derive(Debug)]
struct EndedStream {
    /// The id of the last event, with which the stream is continued.
    last_event: Option<String>,
    ended_at: Instant,
    /// The number of streams in a row that brought no message.
    silent_streams: u32,
}

/// The use of one stream. When dropped, it records the end of the stream.
#[derive(Debug)]
pub(super) struct StreamUse {
    reconnections: Reconnections,
    last_event: Option<String>,
    started: Instant,
    silent_streams: u32,
    kind: StreamKind,
}

/// The way in which a stream began.
#[derive(Debug, Clone)]
pub(super) enum StreamKind {
    /// As the answer to a request. It is continued only if it has event ids.
    Answer(Option<RequestId>),
    /// By a request for events.
    Events,
}

impl Reconnections {
    /// Waits until a stream may be opened, which continues the one that ended with an event.
    pub(super) async fn open(&self, last_event: Option<&str>) -> StreamUse {
        let previous = {
            let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let position = ended
                .iter()
                .rposition(|stream| stream.last_event.as_deref() == last_event);
            position.and_then(|position| ended.remove(position))
        };
        let mut stream = self.begin(StreamKind::Events);
        stream.last_event = last_event.map(str::to_owned);
        if let Some(previous) = previous {
            stream.silent_streams = previous.silent_streams;
            sleep_until(previous.ended_at + pause(previous.silent_streams)).await;
            stream.started = Instant::now();
        }
        stream
    }

    /// Begins the use of a stream.
    pub(super) fn begin(&self, kind: StreamKind) -> StreamUse {
        StreamUse {
            reconnections: self.clone(),
            last_event: None,
            started: Instant::now(),
            silent_streams: 0,
            kind,
        }
    }
}

/// Returns the pause after streams that brought no message.
fn pause(silent_streams: u32) -> Duration {
    let doublings = silent_streams.saturating_sub(1).min(10);
    (MIN_PAUSE * (1 << doublings)).min(MAX_PAUSE)
}

impl StreamUse {
    /// Returns the events of the stream after their check.
    pub(super) fn checked(
        mut self,
        events: BoxStream<'static, Result<Sse, SseError>>,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        // The stream counts as silent until it brings a message.
        self.silent_streams += 1;
        let checked = events.map(move |event| event.map(|event| self.check(event)));
        checked.boxed()
    }

    fn check(&mut self, mut event: Sse) -> Sse {
        if let Some(id) = event.id.take_if(|id| id.len() > MAX_EVENT_ID_BYTES) {
            tracing::warn!(
                target: "picktools::mcp", bytes = id.len(),
                "dropped an event id of more than {MAX_EVENT_ID_BYTES} bytes"
            );
        }
        if event.id.is_some() {
            self.last_event.clone_from(&event.id);
        }
        let shortest = u64::try_from(MIN_PAUSE.as_millis()).unwrap_or(u64::MAX);
        event.retry = event.retry.map(|retry| retry.max(shortest));
        let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
        let has_data = event
            .data
            .as_ref()
            .is_some_and(|data| !data.trim().is_empty());
        if is_message && has_data {
            self.silent_streams = 0;
            let request = match &self.kind {
                StreamKind::Answer(request) => request.as_ref(),
                StreamKind::Events => None,
            };
            event.data = event.data.map(|data| readable_message(data, request));
        }
        event
    }
}

impl Drop for StreamUse {
    fn drop(&mut self) {
        let is_answer = matches!(self.kind, StreamKind::Answer(_));
        if is_answer && self.last_event.is_none() {
            return;
        }
        if self.started.elapsed() >= HEALTHY_TIME {
            self.silent_streams = 0;
        }
        let mut ended = self
            .reconnections
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if ended.len() >= MAX_ENDED {
            ended.pop_front();
        }
        ended.push_back(EndedStream {
            last_event: self.last_event.take(),
            ended_at: Instant::now(),
            silent_streams: self.silent_streams,
        });
    }
}

/// Repairs the message of an event. If that does not suffice, the request that waits for it gets an
/// error, and the stream goes on.
fn readable_message(data: String, request: Option<&RequestId>) -> String {
    let readable = readable(data.as_bytes());
    let Some(error) = message_error(&readable) else {
        return match readable {
            Cow::Borrowed(_) => data,
            Cow::Owned(bytes) => String::from_utf8(bytes).unwrap_or(data),
        };
    };
    let value: Value = serde_json::from_slice(&readable).unwrap_or_default();
    // Some servers send a word to keep the connection open.
    let is_like_message = data.trim_start().starts_with(['{', '[']);
    let own_id = value.get("id").filter(|id| !id.is_null()).cloned();
    let id = own_id.or_else(|| request.map(|id| json!(id)));
    match id {
        Some(id) if is_like_message && value.get("method").is_none() => {
            let reason = match value {
                Value::Null => error.to_string(),
                _ => "it is not a message of JSON-RPC 2.0".to_owned(),
            };
            let reason = format!(
                "its answer cannot be read: {}",
                marked(&reason, MAX_REASON_CHARS)
            );
            let error = json!({"code": -32700, "message": reason});
            json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
        }
        _ => {
            tracing::warn!(target: "picktools::mcp", %error, "ignored an event that cannot be read");
            data
        }
    }
}

/// An answer with a result. `rmcp` reads any result, but tries each type of result in turn, which
/// takes long.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResultAnswer {
    #[serde(rename = "jsonrpc")]
    _version: JsonRpcVersion2_0,
    #[serde(rename = "id")]
    _id: RequestId,
    #[serde(rename = "result")]
    _result: IgnoredAny,
}

/// Returns the error of a message that `rmcp` cannot read.
fn message_error(message: &[u8]) -> Option<serde_json::Error> {
    if serde_json::from_slice::<ResultAnswer>(message).is_ok() {
        return None;
    }
    serde_json::from_slice::<ServerJsonRpcMessage>(message).err()
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn event(id: &str, data: &str) -> Sse {
        Sse {
            event: None,
            data: Some(data.to_owned()),
            id: (!id.is_empty()).then(|| id.to_owned()),
            retry: Some(0),
        }
    }

    #[test]
    fn quick_check_of_answers_agrees_with_protocol_library() {
        let results = [
            "null",
            "7",
            "-1.5e300",
            "\"text\"",
            "[]",
            "[{}]",
            "{}",
            r#"{"content":"no list"}"#,
            r#"{"content":[{"type":"x"}]}"#,
            r#"{"task":{"taskId":7}}"#,
        ];
        for result in results {
            for id in [
                "1",
                "-1",
                "\"a\"",
                "1.5",
                "null",
                "[1]",
                "18446744073709551616",
            ] {
                for others in [
                    "",
                    ",\"method\":\"x\"",
                    ",\"error\":{}",
                    ",\"id\":2",
                    ",\"x\":1",
                ] {
                    for version in ["2.0", "1.0"] {
                        let message = format!(
                            "{{\"jsonrpc\":\"{version}\",\"id\":{id},\"result\":{result}{others}}}"
                        );
                        let read = serde_json::from_str::<ServerJsonRpcMessage>(&message);
                        let error = message_error(message.as_bytes());
                        assert_eq!(error.is_some(), read.is_err(), "{message}");
                    }
                }
            }
        }
    }

    /// Reads a stream of events to its end.
    async fn read(stream: StreamUse, events: Vec<Sse>) -> Vec<Sse> {
        let events = stream::iter(events.into_iter().map(Ok)).boxed();
        let events: Vec<Result<Sse, SseError>> = stream.checked(events).collect().await;
        events.into_iter().filter_map(Result::ok).collect()
    }

    #[tokio::test]
    async fn stream_is_opened_once_a_second_and_rarer_while_it_is_silent() {
        let reconnections = Reconnections::default();
        let mut pauses = Vec::new();
        for events in [
            vec![],
            vec![],
            vec![event("", "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}")],
            vec![],
        ] {
            let started = Instant::now();
            let stream = reconnections.open(None).await;
            pauses.push(started.elapsed().as_secs_f64().round());
            read(stream, events).await;
        }
        assert_eq!(pauses, [0.0, 1.0, 2.0, 1.0]);
        assert_eq!(pause(60), MAX_PAUSE);
    }

    #[tokio::test]
    async fn event_ids_are_bounded_and_pace_their_own_stream() {
        let reconnections = Reconnections::default();
        let stream = reconnections.begin(StreamKind::Answer(None));
        let events = vec![event("first", ""), event(&"x".repeat(5_000), "")];
        let events = read(stream, events).await;
        assert_eq!(events[0].id.as_deref(), Some("first"));
        assert_eq!(events[1].id, None);
        assert!(events.iter().all(|event| event.retry == Some(1_000)));
        let started = Instant::now();
        drop(reconnections.open(Some("another")).await);
        assert!(started.elapsed() < Duration::from_millis(500));
        drop(reconnections.open(Some("first")).await);
        assert!(started.elapsed() > Duration::from_millis(900));
    }

    #[tokio::test]
    async fn unreadable_event_answers_its_request_with_the_reason() {
        let id = RequestId::Number(7);
        for (data, expected) in [
            ("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":NaN}", "null"),
            ("{\"jsonrpc\":\"2.0\",\"id\":7,\"resu", "cannot be read"),
            ("{\"id\":7,\"result\":{}}", "not a message of JSON-RPC"),
            ("[1, 2]", "not a message of JSON-RPC"),
            ("{'jsonrpc': '2.0'}", "cannot be read"),
        ] {
            let stream = Reconnections::default().begin(StreamKind::Answer(Some(id.clone())));
            let events = read(stream, vec![event("", data)]).await;
            let shown = events[0].data.clone().unwrap_or_default();
            assert!(shown.contains(expected), "{data}: {shown}");
            let value: Value = serde_json::from_str(&shown).expect("valid JSON");
            assert_eq!(value["id"], 7, "{data}: {shown}");
        }
        for data in ["still here", "{\"method\":5}"] {
            let stream = Reconnections::default().begin(StreamKind::Answer(Some(id.clone())));
            let events = read(stream, vec![event("", data)]).await;
            assert_eq!(events[0].data.as_deref(), Some(data));
        }
    }
}
