//! What a command writes: bytes into text, of which the beginning and the end are kept.

use std::collections::VecDeque;

/// Makes text of bytes that arrive in pieces. What is not UTF-8 becomes U+FFFD.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The beginning of a character whose other bytes have not arrived.
    begun: Vec<u8>,
}

impl Decoder {
    pub(super) fn feed(&mut self, bytes: &[u8]) -> String {
        let joined = match self.begun.is_empty() {
            true => None,
            false => Some([std::mem::take(&mut self.begun).as_slice(), bytes].concat()),
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
                self.begun = invalid.to_vec();
                return text;
            };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = &invalid[bytes..];
        }
    }

    /// Ends the text; a character that was only begun is told as U+FFFD.
    pub(super) fn end(&mut self) -> &'static str {
        match std::mem::take(&mut self.begun).is_empty() {
            true => "",
            false => "\u{fffd}",
        }
    }
}

/// The beginning and the end of a text that may be longer than what is kept of it.
#[derive(Debug)]
pub(super) struct Kept {
    head: String,
    /// UTF-8, whose first character may be cut.
    tail: VecDeque<u8>,
    most_head: usize,
    most_tail: usize,
    bytes: u64,
}

impl Kept {
    pub(super) fn new(most: usize) -> Self {
        let most_head = most / 2;
        Self {
            head: String::new(),
            tail: VecDeque::new(),
            most_head,
            most_tail: most - most_head,
            bytes: 0,
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        let mut text = text;
        if self.tail.is_empty() {
            let (head, rest) =
                text.split_at(text.floor_char_boundary(self.most_head - self.head.len()));
            self.head.push_str(head);
            text = rest;
        }
        let last = &text.as_bytes()[text.len().saturating_sub(self.most_tail)..];
        let over = (self.tail.len() + last.len()).saturating_sub(self.most_tail);
        self.tail.drain(..over);
        self.tail.extend(last);
    }

    /// Returns what was kept; where something was left out, a line says how much.
    pub(super) fn into_text(self) -> String {
        let (mut text, tail) = (self.head, Vec::from(self.tail));
        // What stands before the first whole character is the rest of one that was cut.
        let cut = tail
            .iter()
            .take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000)
            .count();
        let tail = String::from_utf8_lossy(&tail[cut..]);
        let left_out = self.bytes - (text.len() + tail.len()) as u64;
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

    /// The text of bytes that arrive in these pieces.
    fn decoded(pieces: &[&[u8]]) -> String {
        let mut decoder = Decoder::default();
        let mut text: String = pieces.iter().map(|piece| decoder.feed(piece)).collect();
        text.push_str(decoder.end());
        text
    }

    #[test]
    fn characters_are_whole_wherever_the_bytes_are_cut() {
        let text = "aé€😀\u{fffd}z".as_bytes();
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(
                    decoded(&pieces).as_bytes(),
                    text,
                    "cut at {first} and {second}"
                );
            }
        }
    }

    #[test]
    fn what_is_not_utf_8_is_replaced_as_the_standard_library_does() {
        for bytes in [
            &b"\xff"[..],
            b"a\xc3",
            b"\xf0\x9f\x98",
            b"\xe2\x82a",
            b"\xc0\x80\xed\xa0\x80",
            b"\0\x80\x80z",
        ] {
            assert_eq!(decoded(&[bytes]), String::from_utf8_lossy(bytes));
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(decoded(&single), String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn beginning_and_end_are_kept_and_what_is_left_out_is_counted() {
        let mut kept = Kept::new(8);
        kept.push("abcdefgh");
        assert_eq!(kept.into_text(), "abcdefgh");

        let mut kept = Kept::new(8);
        for letter in 'a'..='z' {
            kept.push(&letter.to_string());
        }
        assert_eq!(
            kept.into_text(),
            "abcd\n[18 bytes of output are left out here]\nwxyz"
        );

        let mut kept = Kept::new(8);
        kept.push(&"é".repeat(50));
        kept.push("x");
        assert_eq!(
            kept.into_text(),
            "éé\n[94 bytes of output are left out here]\néx"
        );
    }

    #[test]
    fn memory_stays_bounded() {
        let mut kept = Kept::new(1000);
        (0..10_000).for_each(|_| kept.push("0123456789"));
        assert!(kept.tail.capacity() + kept.head.capacity() < 4000);
    }
}
