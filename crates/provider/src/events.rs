//! Splitting of a byte stream into events.

use picktools::json::quote_long_numbers;
use serde_json::Value;

use crate::ResponseError;

/// The largest size of one event, in bytes.
pub const MAX_EVENT_BYTES: usize = 8 << 20;

/// The event that ends streams of OpenAI. It is the only one that is not a JSON object.
pub(super) const END_EVENT: &str = "[DONE]";

/// Parser for the events of a stream: server-sent events or JSON Lines.
///
/// The input may be split at any byte. Consecutive `data:` lines up to an empty line are one event.
/// A line that is not a field of server-sent events is an event of its own. The `[DONE]` at the end
/// of OpenAI streams is an event, too: the string `"[DONE]"`.
#[derive(Debug, Default)]
pub struct EventReader {
    /// The bytes of the current, unfinished line.
    line: Vec<u8>,
    data: Vec<u8>,
    count: usize,
}

impl EventReader {
    /// Makes a parser for a new stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and returns the events that they complete.
    ///
    /// # Errors
    ///
    /// [`ResponseError::NotJson`] and [`ResponseError::TooLarge`]. The call returns no events then,
    /// and the stream cannot be continued.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Value>, ResponseError> {
        let mut events = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + self.data.len() + part.len() > MAX_EVENT_BYTES {
                return Err(ResponseError::TooLarge {
                    what: "bytes in one event",
                    limit: MAX_EVENT_BYTES,
                });
            }
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.take_line(&line, &mut events)?;
            }
        }
        Ok(events)
    }

    /// Returns the events at the end of the stream, whose last line may lack its line break.
    ///
    /// # Errors
    ///
    /// Those of [`EventReader::push`].
    pub fn finish(mut self) -> Result<Vec<Value>, ResponseError> {
        let mut events = Vec::new();
        let line = std::mem::take(&mut self.line);
        self.take_line(&line, &mut events)?;
        self.take_data(&mut events)?;
        Ok(events)
    }

    fn take_line(&mut self, line: &[u8], events: &mut Vec<Value>) -> Result<(), ResponseError> {
        let line = line.trim_ascii();
        let field = |name: &str| line.strip_prefix(name.as_bytes());
        if line.is_empty() {
            self.take_data(events)
        } else if let Some(data) = field("data:") {
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(data.trim_ascii_start());
            Ok(())
        } else if ["event:", "id:", "retry:", ":"]
            .iter()
            .any(|name| field(name).is_some())
        {
            Ok(())
        } else {
            self.take_data(events)?;
            self.data.extend_from_slice(line);
            self.take_data(events)
        }
    }

    fn take_data(&mut self, events: &mut Vec<Value>) -> Result<(), ResponseError> {
        let data = std::mem::take(&mut self.data);
        if data.is_empty() {
            return Ok(());
        }
        if data == END_EVENT.as_bytes() {
            events.push(END_EVENT.into());
            return Ok(());
        }
        self.count += 1;
        let event = serde_json::from_slice(&quote_long_numbers(&data)).map_err(|error| {
            ResponseError::NotJson {
                event: self.count,
                reason: error.to_string(),
            }
        })?;
        events.push(event);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_events(text: &str, chunk_size: usize) -> Result<Vec<Value>, ResponseError> {
        let mut reader = EventReader::new();
        let mut events = Vec::new();
        for bytes in text.as_bytes().chunks(chunk_size) {
            events.extend(reader.push(bytes)?);
        }
        events.extend(reader.finish()?);
        Ok(events)
    }

    #[test]
    fn long_numbers_of_events_keep_their_digits() {
        let long = "1000000000000000000000000000001";
        assert_eq!(
            read_events(&format!("data: {{\"a\": {long}}}\n\n"), 1000),
            Ok(vec![json!({"a": long})])
        );
    }

    #[test]
    fn events_do_not_depend_on_the_chunk_size() {
        let streams = [
            "event: delta\r\ndata: {\"a\": \"é\"}\r\n\r\n: ping\n\ndata: {\"b\":\ndata: 2}\n\ndata: [DONE]\n\n",
            "{\"a\": \"é\"}\n{\"b\": 2}\n[DONE]",
        ];
        for stream in streams {
            for chunk_size in [1, 3, 1000] {
                assert_eq!(
                    read_events(stream, chunk_size),
                    Ok(vec![json!({"a": "é"}), json!({"b": 2}), json!("[DONE]")]),
                    "{stream} by {chunk_size}"
                );
            }
        }
    }

    #[test]
    fn push_malformed_or_endless_events_fails() {
        let error = read_events("data: {}\n\ndata: {oops\n\n", 10).expect_err("it is not JSON");
        assert!(
            matches!(error, ResponseError::NotJson { event: 2, .. }),
            "{error}"
        );
        let mut reader = EventReader::new();
        let piece = vec![b'x'; MAX_EVENT_BYTES / 2 + 1];
        reader.push(&piece).expect("it may still end");
        assert!(matches!(
            reader.push(&piece),
            Err(ResponseError::TooLarge { .. })
        ));
        assert!(
            matches!(
                read_events(&"[".repeat(100_000), 1000),
                Err(ResponseError::NotJson { .. })
            ),
            "deeply nested events fail too"
        );
    }
}
