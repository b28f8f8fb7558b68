//! From the bytes of a stream to its events.

use serde_json::Value;

use crate::ResponseError;

/// The most bytes of one event.
pub const MAX_EVENT_BYTES: usize = 8 << 20;

/// Splits the text of a stream into its events: server-sent events, or JSON Lines.
///
/// Bytes may be pushed as they come, cut anywhere. `data:` lines up to an empty line are one event;
/// a line that is no field of an event stream is one by itself. The `[DONE]` that ends OpenAI's
/// streams is not an event.
#[derive(Debug, Default)]
pub struct EventReader {
    /// The bytes of a line that has not ended.
    line: Vec<u8>,
    data: Vec<u8>,
    events: usize,
}

impl EventReader {
    /// Makes a reader at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and returns the events that are whole with them.
    ///
    /// # Errors
    ///
    /// [`ResponseError::NotJson`] and [`ResponseError::TooLarge`]. What was whole before the fault
    /// is lost with it, and the stream cannot be read on.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Value>, ResponseError> {
        let mut found = Vec::new();
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
                self.take_line(&line, &mut found)?;
            }
        }
        Ok(found)
    }

    /// Returns the event that stands at the end without a line break.
    ///
    /// # Errors
    ///
    /// As [`EventReader::push`].
    pub fn finish(mut self) -> Result<Vec<Value>, ResponseError> {
        let mut found = Vec::new();
        let line = std::mem::take(&mut self.line);
        self.take_line(&line, &mut found)?;
        self.take_data(&mut found)?;
        Ok(found)
    }

    fn take_line(&mut self, line: &[u8], found: &mut Vec<Value>) -> Result<(), ResponseError> {
        let line = line.trim_ascii();
        let field = |name: &str| line.strip_prefix(name.as_bytes());
        if line.is_empty() {
            self.take_data(found)
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
            self.take_data(found)?;
            self.data.extend_from_slice(line);
            self.take_data(found)
        }
    }

    fn take_data(&mut self, found: &mut Vec<Value>) -> Result<(), ResponseError> {
        let data = std::mem::take(&mut self.data);
        if data.is_empty() || data == b"[DONE]" {
            return Ok(());
        }
        self.events += 1;
        let event = serde_json::from_slice(&data).map_err(|error| ResponseError::NotJson {
            event: self.events,
            reason: error.to_string(),
        })?;
        found.push(event);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str, piece: usize) -> Result<Vec<Value>, ResponseError> {
        let mut reader = EventReader::new();
        let mut found = Vec::new();
        for bytes in text.as_bytes().chunks(piece) {
            found.extend(reader.push(bytes)?);
        }
        found.extend(reader.finish()?);
        Ok(found)
    }

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        let streams = [
            "event: delta\r\ndata: {\"a\": \"é\"}\r\n\r\n: ping\n\ndata: {\"b\":\ndata: 2}\n\ndata: [DONE]\n\n",
            "{\"a\": \"é\"}\n{\"b\": 2}",
        ];
        for stream in streams {
            for piece in [1, 3, 1000] {
                assert_eq!(
                    read(stream, piece),
                    Ok(vec![json!({"a": "é"}), json!({"b": 2})]),
                    "{stream} by {piece}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_json_is_told_with_its_place_and_what_is_endless_ends() {
        let error = read("data: {}\n\ndata: {oops\n\n", 10).expect_err("it is not JSON");
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
                read(&"[".repeat(100_000), 1000),
                Err(ResponseError::NotJson { .. })
            ),
            "and deep ones too"
        );
    }
}
