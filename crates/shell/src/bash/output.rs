//! The output of a command: decoded to text and shortened to its beginning and end.

use std::collections::VecDeque;

/// A decoder of UTF-8 that arrives in pieces. Invalid bytes become U+FFFD.
#[derive(Debug, Default)]
pub(super) struct OutputDecoder {
    /// The first bytes of a character whose other bytes have not arrived.
    incomplete: Vec<u8>,
}

impl OutputDecoder {
    /// Decodes the next bytes, except for an incomplete last character.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> String {
        let joined = match self.incomplete.is_empty() {
            true => None,
            false => Some([std::mem::take(&mut self.incomplete).as_slice(), bytes].concat()),
        };
        let mut rest = joined.as_deref().unwrap_or(bytes);
        let mut text = String::with_capacity(rest.len());
        loop {
            let error = match str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    return text;
                }
                Err(error) => error,
            };
            let (valid, invalid) = rest.split_at(error.valid_up_to());
            text.push_str(str::from_utf8(valid).unwrap_or_default());
            let Some(bytes) = error.error_len() else {
                self.incomplete = invalid.to_vec();
                return text;
            };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = &invalid[bytes..];
        }
    }

    /// Ends the text, with U+FFFD for an incomplete last character.
    pub(super) fn end(&mut self) -> &'static str {
        match std::mem::take(&mut self.incomplete).is_empty() {
            true => "",
            false => "\u{fffd}",
        }
    }
}

/// The beginning and the end of a text of any length.
#[derive(Debug)]
pub(super) struct OutputExcerpt {
    head: String,
    /// UTF-8 whose first character may be cut.
    tail: VecDeque<u8>,
    max_head_bytes: usize,
    max_tail_bytes: usize,
    /// The length of the complete text.
    total_bytes: u64,
}

impl OutputExcerpt {
    pub(super) fn new(max_bytes: usize) -> Self {
        let max_head_bytes = max_bytes / 2;
        Self {
            head: String::new(),
            tail: VecDeque::new(),
            max_head_bytes,
            max_tail_bytes: max_bytes - max_head_bytes,
            total_bytes: 0,
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        self.total_bytes += text.len() as u64;
        let mut text = text;
        if self.tail.is_empty() {
            let (head, rest) =
                text.split_at(text.floor_char_boundary(self.max_head_bytes - self.head.len()));
            self.head.push_str(head);
            text = rest;
        }
        let last = &text.as_bytes()[text.len().saturating_sub(self.max_tail_bytes)..];
        let excess = (self.tail.len() + last.len()).saturating_sub(self.max_tail_bytes);
        self.tail.drain(..excess);
        self.tail.extend(last);
    }

    /// Returns the excerpt. A line in the middle says how many bytes are left out.
    pub(super) fn into_text(self) -> String {
        let (mut text, tail) = (self.head, Vec::from(self.tail));
        // The bytes before the first complete character belong to a character that was cut.
        let cut = tail
            .iter()
            .take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000)
            .count();
        let tail = String::from_utf8_lossy(&tail[cut..]);
        let left_out = self.total_bytes - (text.len() + tail.len()) as u64;
        if left_out > 0 {
            text.push_str(&format!(
                "\n[{left_out} bytes of output are left out here]\n"
            ));
        }
        text.push_str(&tail);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes bytes that arrive in these pieces.
    fn decode(pieces: &[&[u8]]) -> String {
        let mut decoder = OutputDecoder::default();
        let mut text: String = pieces.iter().map(|piece| decoder.feed(piece)).collect();
        text.push_str(decoder.end());
        text
    }

    #[test]
    fn bytes_cut_anywhere_decode_to_complete_characters() {
        let text = "aé€😀\u{fffd}z".as_bytes();
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(
                    decode(&pieces).as_bytes(),
                    text,
                    "cut at {first} and {second}"
                );
            }
        }
    }

    #[test]
    fn invalid_utf_8_is_replaced_like_in_the_standard_library() {
        for bytes in [
            &b"\xff"[..],
            b"a\xc3",
            b"\xf0\x9f\x98",
            b"\xe2\x82a",
            b"\xc0\x80\xed\xa0\x80",
            b"\0\x80\x80z",
        ] {
            assert_eq!(decode(&[bytes]), String::from_utf8_lossy(bytes));
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(decode(&single), String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn long_output_keeps_its_beginning_and_end_and_counts_the_rest() {
        let mut excerpt = OutputExcerpt::new(8);
        excerpt.push("abcdefgh");
        assert_eq!(excerpt.into_text(), "abcdefgh");

        let mut excerpt = OutputExcerpt::new(8);
        for letter in 'a'..='z' {
            excerpt.push(&letter.to_string());
        }
        assert_eq!(
            excerpt.into_text(),
            "abcd\n[18 bytes of output are left out here]\nwxyz"
        );

        let mut excerpt = OutputExcerpt::new(8);
        excerpt.push(&"é".repeat(50));
        excerpt.push("x");
        assert_eq!(
            excerpt.into_text(),
            "éé\n[94 bytes of output are left out here]\néx"
        );
    }

    #[test]
    fn memory_of_an_excerpt_is_bounded() {
        let mut excerpt = OutputExcerpt::new(1000);
        (0..10_000).for_each(|_| excerpt.push("0123456789"));
        assert!(excerpt.tail.capacity() + excerpt.head.capacity() < 4000);
    }
}
