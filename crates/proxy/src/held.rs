//! Streams of providers, in which text that may be a call is held back until the end.

use picktools_provider::possible_call;
use serde_json::{Value, json};

use crate::answers::{block, chat_call, item, move_calls, set_response};
use crate::api::ModelApi;
use crate::long_numbers::LongNumbers;
use crate::shown::{ReturnedCall, ShownTools};

/// The largest answer, or part of a stream, that is held back, in bytes. A larger one passes
/// unchanged.
const MAX_HELD_BYTES: usize = 8 << 20;

/// An answer on its way to the client.
pub(crate) struct TextCallReader {
    api: ModelApi,
    shown: ShownTools,
    state: ReaderState,
}

enum ReaderState {
    /// A complete answer, as far as it has arrived.
    Document(Vec<u8>),
    Stream(HeldStream),
    /// The rest of the answer passes unchanged.
    Passing,
}

/// A stream of events.
#[derive(Default)]
struct HeldStream {
    /// The bytes of the event that is still arriving.
    event: Vec<u8>,
    text: String,
    /// The size of the text that the client has.
    released: usize,
    held: Vec<HeldEvent>,
    held_bytes: usize,
    /// The largest index of a part of the answer.
    last_index: u64,
}

/// An event, as it arrived.
struct HeldEvent {
    raw: Vec<u8>,
    data: Value,
    long_numbers: LongNumbers,
}

/// The effect of an event on the text.
enum TextEffect {
    None,
    Text(String),
    /// The answer has calls of its own, or ran out of tokens.
    PassAll,
}

impl TextCallReader {
    /// Makes a reader for an answer with this content type; `None` for other content.
    pub(crate) fn new(api: ModelApi, shown: ShownTools, content_type: &str) -> Option<Self> {
        let state = if content_type.starts_with("text/event-stream") {
            ReaderState::Stream(HeldStream::default())
        } else if content_type.starts_with("application/json") {
            ReaderState::Document(Vec::new())
        } else {
            return None;
        };
        Some(Self { api, shown, state })
    }

    /// Takes bytes of the provider, and returns those for the client.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        match &mut self.state {
            ReaderState::Passing => bytes.to_vec(),
            ReaderState::Document(document) => {
                document.extend_from_slice(bytes);
                if document.len() <= MAX_HELD_BYTES {
                    return Vec::new();
                }
                let document = std::mem::take(document);
                self.state = ReaderState::Passing;
                document
            }
            ReaderState::Stream(stream) => {
                let mut released = Vec::new();
                for (index, byte) in bytes.iter().enumerate() {
                    stream.event.push(*byte);
                    let ends = stream.event.ends_with(b"\n\n") || stream.event.ends_with(b"\n\r\n");
                    let is_large = stream.event.len() > MAX_HELD_BYTES;
                    let passes = is_large || (ends && stream.take_event(self.api, &mut released));
                    if passes {
                        released.append(&mut stream.release_all());
                        released.extend_from_slice(&bytes[index + 1..]);
                        self.state = ReaderState::Passing;
                        break;
                    }
                }
                released
            }
        }
    }

    /// Returns the bytes at the end of the answer.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        match std::mem::replace(&mut self.state, ReaderState::Passing) {
            ReaderState::Passing => Vec::new(),
            ReaderState::Document(document) => {
                move_calls(self.api, &self.shown, &document).unwrap_or(document)
            }
            ReaderState::Stream(mut stream) => {
                let mut unused = Vec::new();
                if !stream.event.is_empty() && stream.take_event(self.api, &mut unused) {
                    unused.append(&mut stream.release_all());
                    return unused;
                }
                let calls = self.shown.calls_in(&stream.text);
                unused.append(&mut match calls {
                    Some((text, calls)) if !stream.held.is_empty() => {
                        stream.write(self.api, &text, &calls)
                    }
                    _ => stream.release_all(),
                });
                unused
            }
        }
    }

    /// Returns the bytes that are held back, for an answer that broke off.
    pub(crate) fn give_up(&mut self) -> Vec<u8> {
        match std::mem::replace(&mut self.state, ReaderState::Passing) {
            ReaderState::Passing => Vec::new(),
            ReaderState::Document(document) => document,
            ReaderState::Stream(mut stream) => stream.release_all(),
        }
    }
}

impl HeldStream {
    /// Takes the event that has arrived, and releases what is certainly no call. Returns `true` if
    /// the rest of the answer passes unchanged.
    fn take_event(&mut self, api: ModelApi, released: &mut Vec<u8>) -> bool {
        let raw = std::mem::take(&mut self.event);
        let (data, long_numbers) = event_data(&raw);
        self.held_bytes += raw.len();
        for name in ["index", "output_index"] {
            let index = data.get(name).and_then(Value::as_u64);
            self.last_index = self.last_index.max(index.unwrap_or(0));
        }
        let effect = text_effect(api, &data);
        self.held.push(HeldEvent {
            raw,
            data,
            long_numbers,
        });
        match effect {
            TextEffect::PassAll => return true,
            TextEffect::Text(text) => self.text.push_str(&text),
            TextEffect::None => {}
        }
        if possible_call(&self.text, self.released).is_none() || self.released == self.text.len() {
            self.released = self.text.len();
            released.append(&mut self.release_held());
        }
        self.held_bytes > MAX_HELD_BYTES
    }

    fn release_held(&mut self) -> Vec<u8> {
        self.held_bytes = 0;
        self.held.drain(..).flat_map(|event| event.raw).collect()
    }

    fn release_all(&mut self) -> Vec<u8> {
        let mut bytes = self.release_held();
        bytes.append(&mut self.event);
        bytes
    }

    /// Writes the held events with the rest of the text and the calls.
    fn write(&mut self, api: ModelApi, text: &str, calls: &[ReturnedCall]) -> Vec<u8> {
        let sent = self.text[..self.released].trim_start();
        let rest = text.strip_prefix(sent).unwrap_or_default();
        let complete = format!("{sent}{rest}");
        let mut writer = EventWriter {
            api,
            rest: Some(rest),
            text: &complete,
            calls: Some(calls),
            next_index: self.last_index + 1,
            long_numbers: LongNumbers::default(),
            bytes: Vec::new(),
        };
        for event in self.held.drain(..) {
            writer.write(event);
        }
        writer.write_calls(&Value::Null);
        writer.bytes
    }
}

/// Returns the JSON of an event and its long numbers; null if it has none.
fn event_data(raw: &[u8]) -> (Value, LongNumbers) {
    let mut data = String::new();
    for line in String::from_utf8_lossy(raw).lines() {
        if let Some(part) = line.strip_prefix("data:") {
            data.push_str(part.trim_start());
            data.push('\n');
        }
    }
    LongNumbers::parse(&data).unwrap_or_default()
}

fn text_effect(api: ModelApi, data: &Value) -> TextEffect {
    let kind = data["type"].as_str().unwrap_or_default();
    let (text, passes) = match api {
        ModelApi::Chat => {
            let choice = &data["choices"][0];
            let has_calls = choice["delta"]["tool_calls"]
                .as_array()
                .is_some_and(|calls| !calls.is_empty());
            let is_first = choice["index"].as_u64().unwrap_or(0) == 0;
            let passes = has_calls || choice["finish_reason"] == "length" || !is_first;
            (&choice["delta"]["content"], passes)
        }
        ModelApi::Responses => {
            let has_calls = data["item"]["type"] == "function_call";
            let text = match kind {
                "response.output_text.delta" => &data["delta"],
                _ => &Value::Null,
            };
            (text, has_calls || kind == "response.incomplete")
        }
        ModelApi::Messages | ModelApi::CountTokens => {
            let has_calls = data["content_block"]["type"] == "tool_use";
            let passes = has_calls || data["delta"]["stop_reason"] == "max_tokens";
            (&data["delta"]["text"], passes)
        }
    };
    match text.as_str() {
        _ if passes => TextEffect::PassAll,
        Some(text) => TextEffect::Text(text.to_owned()),
        None => TextEffect::None,
    }
}

/// Writer of held events with calls.
struct EventWriter<'a> {
    api: ModelApi,
    /// The text behind what the client has, until it is written.
    rest: Option<&'a str>,
    /// The text of the answer without the calls.
    text: &'a str,
    /// The calls, until they are written.
    calls: Option<&'a [ReturnedCall]>,
    next_index: u64,
    /// The long numbers of the event that is written.
    long_numbers: LongNumbers,
    bytes: Vec<u8>,
}

impl EventWriter<'_> {
    fn write(&mut self, event: HeldEvent) {
        let mut data = event.data;
        self.long_numbers = event.long_numbers;
        let has_changed = match self.api {
            ModelApi::Chat => self.change_chunk(&mut data),
            ModelApi::Responses => self.change_response_event(&mut data),
            _ => self.change_message_event(&mut data),
        };
        if has_changed {
            self.put(&data);
        } else {
            if event.raw.windows(6).any(|bytes| bytes == b"[DONE]") {
                self.write_calls(&Value::Null);
            }
            self.bytes.extend_from_slice(&event.raw);
        }
    }

    fn put(&mut self, data: &Value) {
        if let (false, Some(kind)) = (self.api == ModelApi::Chat, data["type"].as_str()) {
            self.bytes
                .extend_from_slice(format!("event: {kind}\n").as_bytes());
        }
        let data = self.long_numbers.write(data);
        self.bytes
            .extend_from_slice(format!("data: {data}\n\n").as_bytes());
    }

    fn change_chunk(&mut self, chunk: &mut Value) -> bool {
        let template = chunk.clone();
        let Some(choice) = chunk.pointer_mut("/choices/0") else {
            return false;
        };
        let has_text = choice["delta"]["content"].is_string();
        if has_text {
            choice["delta"]["content"] = self.rest.take().unwrap_or_default().into();
        }
        if choice["finish_reason"].is_null() {
            return has_text;
        }
        choice["finish_reason"] = "tool_calls".into();
        self.write_calls(&template);
        true
    }

    fn change_message_event(&mut self, event: &mut Value) -> bool {
        match event["type"].as_str() {
            Some("content_block_delta") if event["delta"]["text"].is_string() => {
                event["delta"]["text"] = self.rest.take().unwrap_or_default().into();
                true
            }
            Some("message_delta") => {
                self.write_calls(&Value::Null);
                if event["delta"].is_object() {
                    event["delta"]["stop_reason"] = "tool_use".into();
                }
                true
            }
            Some("message_stop") => {
                self.write_calls(&Value::Null);
                false
            }
            _ => false,
        }
    }

    fn change_response_event(&mut self, event: &mut Value) -> bool {
        match event["type"].as_str() {
            Some("response.output_text.delta") => {
                event["delta"] = self.rest.take().unwrap_or_default().into();
            }
            Some("response.output_text.done") => event["text"] = self.text.into(),
            Some("response.content_part.done") if event["part"].is_object() => {
                event["part"]["text"] = self.text.into();
            }
            Some("response.output_item.done") if event["item"]["type"] == "message" => {
                let mut response = json!({"output": [event["item"].take()]});
                set_response(&mut response, self.text, &[]);
                // An item without content stays, because its start was sent.
                let empty = json!({"type": "message", "content": []});
                let item = response["output"].as_array_mut().and_then(Vec::pop);
                event["item"] = item.unwrap_or(empty);
            }
            Some("response.completed") => {
                let calls = self.calls.unwrap_or_default();
                self.write_calls(&Value::Null);
                if let Some(response) = event.get_mut("response") {
                    set_response(response, self.text, calls);
                }
            }
            _ => return false,
        }
        true
    }

    /// Writes the events of the calls, unless they are written.
    fn write_calls(&mut self, template: &Value) {
        for (number, call) in self.calls.take().unwrap_or_default().iter().enumerate() {
            let index = self.next_index;
            self.next_index += 1;
            match self.api {
                ModelApi::Chat => {
                    let mut piece = chat_call(call);
                    piece["index"] = number.into();
                    let mut chunk = template.clone();
                    if chunk.is_null() {
                        chunk = json!({"object": "chat.completion.chunk"});
                    }
                    if let Some(members) = chunk.as_object_mut() {
                        members.remove("usage");
                    }
                    chunk["choices"] = json!([{"index": 0, "delta": {"tool_calls": [piece]},
                        "finish_reason": null}]);
                    self.put(&chunk);
                }
                ModelApi::Responses => {
                    let complete = item(call);
                    let mut started = complete.clone();
                    started["arguments"] = "".into();
                    started["status"] = "in_progress".into();
                    let (id, arguments) = (complete["id"].clone(), complete["arguments"].clone());
                    self.put(
                        &json!({"type": "response.output_item.added", "output_index": index,
                        "item": started}),
                    );
                    self.put(&json!({"type": "response.function_call_arguments.delta",
                        "output_index": index, "item_id": id, "delta": arguments}));
                    self.put(&json!({"type": "response.function_call_arguments.done",
                        "output_index": index, "item_id": id, "arguments": arguments}));
                    self.put(
                        &json!({"type": "response.output_item.done", "output_index": index,
                        "item": complete}),
                    );
                }
                ModelApi::Messages | ModelApi::CountTokens => {
                    let mut started = block(call);
                    started["input"] = json!({});
                    self.put(&json!({"type": "content_block_start", "index": index,
                        "content_block": started}));
                    self.put(&json!({"type": "content_block_delta", "index": index,
                        "delta": {"type": "input_json_delta",
                            "partial_json": call.arguments.to_string()}}));
                    self.put(&json!({"type": "content_block_stop", "index": index}));
                }
            }
        }
    }
}
