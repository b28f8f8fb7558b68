//! The calls in a streamed answer, put together from their pieces.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Provider;
use super::calls::{self, Arguments, Calls, MAX_ANSWER_ARGUMENT_BYTES, MAX_CALLS, ToolCall};
use super::wire::At;
use crate::ResponseError;

/// Puts the calls of a streamed answer together, one event after the other.
///
/// ```
/// use picktools_provider::Provider;
/// use picktools_provider::{CallStream, EventReader};
///
/// let text = concat!(
///     "data: {\"choices\": [{\"delta\": {\"tool_calls\": [{\"index\": 0, \"id\": \"c1\", \"function\": ",
///     "{\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\"\"}}]}}]}\n\n",
///     "data: {\"choices\": [{\"delta\": {\"tool_calls\": [{\"index\": 0, \"function\": {\"arguments\": \": 1}\"}}]}, ",
///     "\"finish_reason\": \"tool_calls\"}]}\n\ndata: [DONE]\n\n",
/// );
/// let (mut reader, mut stream) = (EventReader::new(), CallStream::new(Provider::OpenAiChat));
/// for event in reader.push(text.as_bytes())? {
///     stream.push(&event)?;
/// }
/// let calls = stream.finish()?;
/// assert_eq!(calls[0].name, "get_weather");
/// # Ok::<(), picktools_provider::ResponseError>(())
/// ```
#[derive(Debug)]
pub struct CallStream {
    provider: Provider,
    /// Calls that came whole.
    whole: Calls,
    /// Calls that come in pieces, by the place that the provider gives them.
    pieces: BTreeMap<u64, Pieces>,
    /// The bytes of arguments in the pieces.
    bytes: usize,
    /// The place that the last piece went to.
    last: Option<u64>,
    ended: bool,
}

/// A call as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pub(super) id: Option<String>,
    pub(super) name: String,
    text: String,
    /// Arguments that came at the start, and count where no text follows.
    pub(super) given: Option<Value>,
    pub(super) whole: bool,
}

impl CallStream {
    /// Starts with nothing.
    pub fn new(provider: Provider) -> Self {
        Self {
            provider,
            whole: Calls::default(),
            pieces: BTreeMap::new(),
            bytes: 0,
            last: None,
            ended: false,
        }
    }

    /// Takes the next event of the stream; events that tell of no call change nothing.
    ///
    /// # Errors
    ///
    /// [`ResponseError`] for an event that reports an error or is of another shape, and for calls
    /// beyond the limits.
    pub fn push(&mut self, event: &Value) -> Result<(), ResponseError> {
        self.provider
            .format()
            .push(&At::open(self.provider, event)?, self)
    }

    /// Returns the calls, in the order of their places.
    ///
    /// # Errors
    ///
    /// [`ResponseError::BrokenOff`] where the stream ended in the middle of a call.
    pub fn finish(self) -> Result<Vec<ToolCall>, ResponseError> {
        let mut calls = self.whole;
        for pieces in self.pieces.into_values() {
            if !(pieces.whole || self.ended) {
                return Err(ResponseError::BrokenOff { name: pieces.name });
            }
            let arguments = match pieces.given {
                Some(given) if pieces.text.is_empty() => Arguments::Json(given),
                _ => Arguments::Text(pieces.text),
            };
            calls.add(ToolCall {
                id: pieces.id,
                name: pieces.name,
                arguments,
            })?;
        }
        Ok(calls.finish())
    }

    /// Takes a call that came whole.
    pub(super) fn add(&mut self, call: ToolCall) -> Result<(), ResponseError> {
        self.whole.add(call)
    }

    /// Notes that the answer ended, and with it all calls that came in pieces.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Returns the place of a piece that does not say it: that of the last one, or the next where
    /// the id is another.
    pub(super) fn place_of(&self, id: Option<&str>) -> u64 {
        match (self.last, id) {
            (Some(last), None) => last,
            (Some(last), Some(id)) if self.pieces[&last].id.as_deref() == Some(id) => last,
            _ => self
                .pieces
                .keys()
                .next_back()
                .map_or(0, |last| last.saturating_add(1)),
        }
    }

    /// Returns the call at a place where one has begun.
    pub(super) fn known(&mut self, place: u64) -> Option<&mut Pieces> {
        self.pieces.get_mut(&place)
    }

    /// The call at a place, which may be any number: places are looked up, not counted to.
    pub(super) fn at(&mut self, place: u64) -> Result<&mut Pieces, ResponseError> {
        if self.pieces.len() >= MAX_CALLS && !self.pieces.contains_key(&place) {
            return Err(calls::too_many());
        }
        self.last = Some(place);
        Ok(self.pieces.entry(place).or_default())
    }

    pub(super) fn append(&mut self, place: u64, text: &str) -> Result<(), ResponseError> {
        self.count(text.len())?;
        self.at(place)?.text.push_str(text);
        Ok(())
    }

    pub(super) fn count(&mut self, bytes: usize) -> Result<(), ResponseError> {
        if bytes > MAX_ANSWER_ARGUMENT_BYTES - self.bytes {
            return Err(calls::too_long());
        }
        self.bytes += bytes;
        Ok(())
    }

    pub(super) fn replace(&mut self, place: u64, text: &str) -> Result<(), ResponseError> {
        let old = std::mem::take(&mut self.at(place)?.text);
        self.bytes -= old.len();
        self.append(place, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn assembled(provider: Provider, events: &[Value]) -> Result<Vec<ToolCall>, ResponseError> {
        let mut stream = CallStream::new(provider);
        for event in events {
            stream.push(event)?;
        }
        stream.finish()
    }

    fn call(id: Option<&str>, name: &str, arguments: Arguments) -> ToolCall {
        ToolCall {
            id: id.map(str::to_owned),
            name: name.into(),
            arguments,
        }
    }

    fn text(text: &str) -> Arguments {
        Arguments::Text(text.to_owned())
    }

    fn chat(pieces: Value, end: Value) -> Value {
        json!({"choices": [{"index": 0, "delta": {"tool_calls": pieces}, "finish_reason": end}]})
    }

    #[test]
    fn chat_pieces_are_put_together_by_index() {
        let events = [
            json!({"choices": [{"delta": {"role": "assistant", "content": ""}}]}),
            chat(
                json!([{"index": 1, "id": "b", "function": {"name": "second", "arguments": ""}}]),
                json!(null),
            ),
            chat(
                json!([{"index": 0, "id": "a", "function": {"name": "first", "arguments": "{\"x\""}}]),
                json!(null),
            ),
            chat(
                json!([{"index": 1, "function": {"arguments": "{}"}}]),
                json!(null),
            ),
            chat(
                json!([{"index": 0, "function": {"arguments": ": 1}"}}]),
                json!(null),
            ),
        ];
        let broken = assembled(Provider::OpenAiChat, &events).expect_err("it did not end");
        assert!(
            matches!(broken, ResponseError::BrokenOff { ref name } if name == "first"),
            "{broken}"
        );
        let mut events = events.to_vec();
        events.push(chat(json!([]), json!("tool_calls")));
        events.push(json!({"choices": [], "usage": {}}));
        let expected = vec![
            call(Some("a"), "first", text("{\"x\": 1}")),
            call(Some("b"), "second", text("{}")),
        ];
        assert_eq!(assembled(Provider::OpenAiChat, &events), Ok(expected));
    }

    #[test]
    fn chat_pieces_without_an_index_are_told_apart_by_id() {
        let piece = |id: &str, arguments: &str| {
            chat(
                json!([{"id": id, "function": {"name": "same", "arguments": arguments}}]),
                json!("tool_calls"),
            )
        };
        let calls = assembled(
            Provider::OpenAiChat,
            &[piece("a", "{"), piece("a", "}"), piece("b", "{}")],
        );
        let expected = vec![
            call(Some("a"), "same", text("{}")),
            call(Some("b"), "same", text("{}")),
        ];
        assert_eq!(calls, Ok(expected));
    }

    #[test]
    fn responses_and_anthropic_pieces_are_put_together() {
        let item = |arguments: &str| json!({"type": "function_call", "call_id": "c", "name": "go", "arguments": arguments});
        let mut events = vec![
            json!({"type": "response.created", "response": {"error": null}}),
            json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}}),
            json!({"type": "response.output_item.added", "output_index": 1, "item": item("")}),
            json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{\"a\":"}),
            json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "1}"}),
        ];
        let provider = Provider::OpenAiResponses;
        assert!(matches!(
            assembled(provider, &events),
            Err(ResponseError::BrokenOff { .. })
        ));
        events.push(json!({"type": "response.output_item.done", "output_index": 1, "item": item("{\"a\":1}")}));
        assert_eq!(
            assembled(provider, &events),
            Ok(vec![call(Some("c"), "go", text("{\"a\":1}"))])
        );

        let start = |index: u64, kind: &str| {
            json!({"type": "content_block_start", "index": index,
                "content_block": {"type": kind, "id": "t", "name": "go", "input": {}}})
        };
        let delta = |index: u64, text: &str| {
            json!({"type": "content_block_delta", "index": index,
                "delta": {"type": "input_json_delta", "partial_json": text}})
        };
        let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
        let mut events = vec![
            json!({"type": "ping"}),
            start(0, "server_tool_use"),
            delta(0, "{\"query\": 1}"),
            stop(0),
            start(1, "tool_use"),
            delta(1, ""),
            delta(1, "{\"a\": "),
            delta(1, "1}"),
        ];
        assert!(matches!(
            assembled(Provider::Anthropic, &events),
            Err(ResponseError::BrokenOff { .. })
        ));
        events.extend([stop(1), start(2, "tool_use"), stop(2)]);
        let expected = vec![
            call(Some("t"), "go", text("{\"a\": 1}")),
            call(Some("t"), "go", Arguments::Json(json!({}))),
        ];
        assert_eq!(assembled(Provider::Anthropic, &events), Ok(expected));
    }

    #[test]
    fn gemini_ollama_and_mcp_calls_come_whole() {
        let expected =
            |id: Option<&str>| Ok(vec![call(id, "go", Arguments::Json(json!({"a": 1})))]);
        let gemini = [
            json!({"candidates": [{"content": {"parts": [{"text": "Hm"}]}}]}),
            json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "go", "args": {"a": 1}}}]}}]}),
            json!({"usageMetadata": {}}),
        ];
        assert_eq!(assembled(Provider::Gemini, &gemini), expected(None));
        let function = json!({"function": {"name": "go", "arguments": {"a": 1}}});
        let ollama = [
            json!({"message": {"content": "", "tool_calls": [function]}, "done": false}),
            json!({"done": true}),
        ];
        assert_eq!(assembled(Provider::Ollama, &ollama), expected(None));
        let params = json!({"name": "go", "arguments": {"a": 1}});
        let mcp = [
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": params}),
        ];
        assert_eq!(assembled(Provider::Mcp, &mcp), expected(Some("x")));
    }

    #[test]
    fn hostile_streams_are_refused() {
        let end = json!("tool_calls");
        let far = chat(
            json!([{"index": u64::MAX, "function": {"name": "x", "arguments": "{}"}}]),
            end.clone(),
        );
        assert_eq!(
            assembled(Provider::OpenAiChat, &[far]).map(|calls| calls.len()),
            Ok(1)
        );
        let negative = chat(json!([{"index": -1}]), end.clone());
        let error = assembled(Provider::OpenAiChat, &[negative]).expect_err("no such place");
        assert!(
            error
                .to_string()
                .contains("/choices/0/delta/tool_calls/0/index is a number"),
            "{error}"
        );
        let many: Vec<Value> = (0..=MAX_CALLS)
            .map(|index| chat(json!([{"index": index}]), json!(null)))
            .collect();
        let error = assembled(Provider::OpenAiChat, &many).expect_err("they are too many");
        assert!(
            matches!(error, ResponseError::TooLarge { what: "calls", .. }),
            "{error}"
        );
        let piece = chat(
            json!([{"index": 0, "function": {"arguments": "x".repeat(1 << 20)}}]),
            end,
        );
        let error =
            assembled(Provider::OpenAiChat, &vec![piece; 5]).expect_err("they are too long");
        assert!(
            matches!(
                error,
                ResponseError::TooLarge {
                    what: "bytes of arguments",
                    ..
                }
            ),
            "{error}"
        );
        let failed = json!({"type": "response.failed", "response": {"error": {"message": "no"}}});
        let errors = [
            (Provider::OpenAiResponses, failed),
            (
                Provider::OpenAiResponses,
                json!({"type": "error", "message": "no"}),
            ),
            (
                Provider::Anthropic,
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "no"}}),
            ),
            (Provider::Ollama, json!({"error": "no"})),
        ];
        for (provider, event) in errors {
            let error = assembled(provider, &[event]).expect_err("it failed");
            assert!(
                matches!(error, ResponseError::Refused { ref message, .. } if message == "no"),
                "{error}"
            );
        }
    }
}
