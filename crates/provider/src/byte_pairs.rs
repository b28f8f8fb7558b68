//! Byte pair encoding: how many tokens a text is for models of OpenAI.
//!
//! A text is first split into words, blanks and marks by a regular expression, then each part into
//! tokens: of the bytes as they stand, the two neighbours that make the token of least rank are
//! merged, again and again, until none make one. Counting needs no token's text, only which two
//! tokens make which (`crates/models/tokens/README.md`), and that is a twenty-fifth of what a
//! search for whole tokens wants. What is still to be merged stands in a heap, so that even a text
//! that is one word of a million letters is counted at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foldhash::{HashMap, HashMapExt};
use regex::Regex;

/// How many tokens are one byte each; they are the first.
const BYTES: usize = 256;
/// The length of a token's number in a file.
const NUMBER: usize = 3;
/// Of a pair that makes no token, and the place before the first and behind the last.
const NONE: u32 = u32::MAX;

/// A vocabulary of tokens and the way to find them in a text.
pub(super) struct BytePairs {
    /// The token of each byte.
    bytes: [u32; BYTES],
    /// The tokens that two tokens make, which are numbered by their rank.
    merged: HashMap<(u32, u32), u32>,
    /// Finds what a text begins with, but for blanks before a word.
    part: Regex,
}

impl BytePairs {
    /// Reads the file of a vocabulary, which is part of the program; `parts` are the alternatives
    /// of the expression that splits a text, but for blanks before a word.
    pub(super) fn new(file: &[u8], parts: &[&str]) -> Self {
        let (letters, pairs) = file.split_at(BYTES);
        let mut bytes = [NONE; BYTES];
        for (token, &byte) in (0..).zip(letters) {
            bytes[usize::from(byte)] = token;
        }
        let (pairs, _) = pairs.as_chunks::<{ 2 * NUMBER }>();
        let mut merged = HashMap::with_capacity(pairs.len());
        for (token, &[a, b, c, d, e, f]) in (256..).zip(pairs) {
            merged.insert(
                (
                    u32::from_le_bytes([a, b, c, 0]),
                    u32::from_le_bytes([d, e, f, 0]),
                ),
                token,
            );
        }
        let part = Regex::new(&format!(r"\A(?:{})", parts.join("|"))).expect("it is an expression");
        Self {
            bytes,
            merged,
            part,
        }
    }

    /// Counts the tokens of a text.
    ///
    /// # Complexity
    ///
    /// O(n log n) in the length of the text, whatever the text.
    pub(super) fn count(&self, text: &str) -> usize {
        let (mut tokens, mut rest, mut merging) = (0, text, Merging::default());
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(self.part(rest));
            tokens += merging.count(self, part.as_bytes());
            rest = behind;
        }
        tokens
    }

    /// Returns how long the part is that a text begins with. Of blanks before a word, the last
    /// belongs to the word.
    fn part(&self, text: &str) -> usize {
        if let Some(part) = self.part.find(text) {
            return part.end();
        }
        let blanks = text.len() - text.trim_start().len();
        let last = text.floor_char_boundary(blanks.saturating_sub(1));
        if last > 0 {
            last
        } else {
            text.ceil_char_boundary(1)
        }
    }

    fn merged(&self, left: u32, right: u32) -> u32 {
        self.merged.get(&(left, right)).copied().unwrap_or(NONE)
    }
}

/// A token of a part, as far as it is merged.
struct Piece {
    token: u32,
    /// What it makes with the next one.
    merged: u32,
    /// The places of its neighbours.
    before: u32,
    next: u32,
}

/// The tokens of one part; kept from one part to the next for its memory.
#[derive(Default)]
struct Merging {
    pieces: Vec<Piece>,
    /// What could be merged, by rank and then by place: the token that it makes, and where. Where
    /// the piece there makes something else by now, it is no more.
    open: BinaryHeap<Reverse<(u32, u32)>>,
}

impl Merging {
    /// Counts the tokens of a part of less than 4 GiB; of a longer one, the tokens of the
    /// beginning, and each byte of the rest.
    fn count(&mut self, pairs: &BytePairs, part: &[u8]) -> usize {
        let last = u32::try_from(part.len()).unwrap_or(NONE).saturating_sub(1);
        self.pieces.clear();
        self.pieces
            .extend((0..=last).zip(part).map(|(place, &byte)| {
                let next = if place == last { NONE } else { place + 1 };
                Piece {
                    token: pairs.bytes[usize::from(byte)],
                    merged: NONE,
                    before: place.wrapping_sub(1),
                    next,
                }
            }));
        for place in 0..last {
            self.look(pairs, place);
        }
        let mut left = part.len();
        while let Some(Reverse((token, place))) = self.open.pop() {
            if self.pieces[place as usize].merged == token {
                self.merge(pairs, token, place);
                left -= 1;
            }
        }
        left
    }

    /// Makes one token of the piece at a place and the next.
    fn merge(&mut self, pairs: &BytePairs, token: u32, place: u32) {
        let Piece { before, next, .. } = self.pieces[place as usize];
        let gone = &mut self.pieces[next as usize];
        gone.merged = NONE;
        let behind = gone.next;
        if let Some(behind) = self.pieces.get_mut(behind as usize) {
            behind.before = place;
        }
        let piece = &mut self.pieces[place as usize];
        (piece.token, piece.next) = (token, behind);
        self.look(pairs, place);
        if before != NONE {
            self.look(pairs, before);
        }
    }

    /// Looks up what the piece at a place makes with the next one.
    fn look(&mut self, pairs: &BytePairs, place: u32) {
        let Piece { token, next, .. } = self.pieces[place as usize];
        let merged = self
            .pieces
            .get(next as usize)
            .map_or(NONE, |next| pairs.merged(token, next.token));
        self.pieces[place as usize].merged = merged;
        if merged != NONE {
            self.open.push(Reverse((merged, place)));
        }
    }
}
