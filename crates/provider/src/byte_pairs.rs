//! Byte pair encoding: token counts of texts for OpenAI models.
//!
//! A regular expression splits a text into words, white space and punctuation. Each part starts as
//! a sequence of byte tokens. The two neighbours whose merged token has the lowest rank are merged,
//! until no neighbours can be merged.
//!
//! Counting needs only the table of merges (`crates/models/tokens/README.md`), not the text of the
//! tokens. The table is 25 times smaller than the data for a search of complete tokens. Possible
//! merges are kept in a heap, so that a word of a million letters does not take quadratic time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::BuildHasher as _;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use regex::Regex;

/// The number of single-byte tokens, which are the first tokens.
const BYTES: usize = 256;
/// The number of bytes of a token's number in a vocabulary file.
const NUMBER: usize = 3;
/// Marks a pair that makes no token, and the missing neighbours of the first and the last piece.
const NONE: u32 = u32::MAX;

/// A vocabulary with its merge table and its splitting rules.
pub(super) struct BytePairs {
    /// The token of each byte.
    bytes: [u32; BYTES],
    /// The mergeable pairs, by the rank of the token that they make.
    pairs: &'static [Pair],
    /// The ranks by pair. The pairs stay in the file, so that an entry takes five bytes.
    ranks: HashTable<u32>,
    /// The expression for the next part of a text, except for white space before a word.
    part: Regex,
}

impl BytePairs {
    /// Parses a vocabulary file, which is embedded in the program.
    ///
    /// `parts` are the alternatives of the splitting expression, except for white space before a
    /// word.
    pub(super) fn new(file: &'static [u8], parts: &[&str]) -> Self {
        let (letters, pairs) = file.split_at(BYTES);
        let mut bytes = [NONE; BYTES];
        for (token, &byte) in (0..).zip(letters) {
            bytes[usize::from(byte)] = token;
        }
        let (pairs, _) = pairs.as_chunks();
        let mut ranks = HashTable::with_capacity(pairs.len());
        let hash_at = |rank: &u32| hash(&pairs[*rank as usize]);
        for (rank, pair) in (0..).zip(pairs) {
            ranks.insert_unique(hash(pair), rank, hash_at);
        }
        let part = Regex::new(&format!(r"\A(?:{})", parts.join("|"))).expect("it is an expression");
        Self {
            bytes,
            pairs,
            ranks,
            part,
        }
    }

    /// Counts the tokens of a text.
    ///
    /// # Complexity
    ///
    /// O(n log n) in the length of the text, for any text.
    pub(super) fn count(&self, text: &str) -> usize {
        let (mut tokens, mut rest, mut merges) = (0, text, MergeQueue::default());
        while !rest.is_empty() {
            let (part, remainder) = rest.split_at(self.part(rest));
            tokens += merges.count(self, part.as_bytes());
            rest = remainder;
        }
        tokens
    }

    /// Returns the length of the first part of a text. The last blank before a word belongs to the
    /// word.
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

    /// Returns the token of a pair, or `NONE`. The tokens of pairs follow those of bytes.
    fn merged(&self, left: u32, right: u32) -> u32 {
        let ([a, b, c, _], [d, e, f, _]) = (left.to_le_bytes(), right.to_le_bytes());
        let pair = [a, b, c, d, e, f];
        let is_pair = |rank: &u32| self.pairs[*rank as usize] == pair;
        match self.ranks.find(hash(&pair), is_pair) {
            Some(rank) => 256 + rank,
            None => NONE,
        }
    }
}

/// The numbers of two tokens, as in a vocabulary file.
type Pair = [u8; 2 * NUMBER];

fn hash(pair: &Pair) -> u64 {
    let [a, b, c, d, e, f] = *pair;
    FixedState::default().hash_one(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
}

/// A token of a part, after the merges so far.
struct Piece {
    token: u32,
    /// The token that it makes with the next piece, or `NONE`.
    merged: u32,
    /// The indexes of the neighbours.
    before: u32,
    next: u32,
}

/// The merge state of one part; reused for the next part to save allocations.
#[derive(Default)]
struct MergeQueue {
    pieces: Vec<Piece>,
    /// The possible merges by rank and then by index: the merged token and the index of its first
    /// piece.
    ///
    /// An entry is stale if the piece makes another token by now.
    open: BinaryHeap<Reverse<(u32, u32)>>,
}

impl MergeQueue {
    /// Counts the tokens of a part.
    ///
    /// Beyond 4 GiB, every byte counts as one token.
    fn count(&mut self, pairs: &BytePairs, part: &[u8]) -> usize {
        let last = u32::try_from(part.len()).unwrap_or(NONE).saturating_sub(1);
        self.pieces.clear();
        self.pieces
            .extend((0..=last).zip(part).map(|(index, &byte)| {
                let next = if index == last { NONE } else { index + 1 };
                Piece {
                    token: pairs.bytes[usize::from(byte)],
                    merged: NONE,
                    before: index.wrapping_sub(1),
                    next,
                }
            }));
        for index in 0..last {
            self.look_up(pairs, index);
        }
        let mut remaining = part.len();
        while let Some(Reverse((token, index))) = self.open.pop() {
            if self.pieces[index as usize].merged == token {
                self.merge(pairs, token, index);
                remaining -= 1;
            }
        }
        remaining
    }

    /// Merges the piece at an index with the next one.
    fn merge(&mut self, pairs: &BytePairs, token: u32, index: u32) {
        let Piece { before, next, .. } = self.pieces[index as usize];
        let removed = &mut self.pieces[next as usize];
        removed.merged = NONE;
        let following = removed.next;
        if let Some(following) = self.pieces.get_mut(following as usize) {
            following.before = index;
        }
        let piece = &mut self.pieces[index as usize];
        (piece.token, piece.next) = (token, following);
        self.look_up(pairs, index);
        if before != NONE {
            self.look_up(pairs, before);
        }
    }

    /// Looks up the token that the piece at an index makes with the next one.
    fn look_up(&mut self, pairs: &BytePairs, index: u32) {
        let Piece { token, next, .. } = self.pieces[index as usize];
        let merged = self
            .pieces
            .get(next as usize)
            .map_or(NONE, |next| pairs.merged(token, next.token));
        self.pieces[index as usize].merged = merged;
        if merged != NONE {
            self.open.push(Reverse((merged, index)));
        }
    }
}
