//! The features of a text: hashes of its words, pairs of words and pieces of words.
//!
//! `models/train/reader/features.py` has the same rules. They need no vocabulary, so typing errors
//! and all languages have features, too.

use std::borrow::Cow;
use std::ops::Range;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// The number of values of a hash, as a power of two.
pub(super) const HASH_BITS: u32 = 16;
/// The largest number of words that are read.
const MAX_WORDS: usize = 64;
/// The numbers of words up to which lengths differ.
const EXACT_LENGTHS: usize = 12;

/// The first words of a text, in lower case.
pub(super) struct Words {
    /// The letters, digits and symbols of all words, one after the other.
    text: String,
    places: Vec<WordPlace>,
}

/// The place of a word in the text of [`Words`].
struct WordPlace {
    range: Range<usize>,
    kind: WordKind,
}

/// A word of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word<'w> {
    /// The letters and digits, or the symbol.
    pub(super) text: &'w str,
    pub(super) kind: WordKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordKind {
    /// Letters and digits between other characters.
    Plain,
    /// One character of a script without spaces.
    Ideograph,
    /// A character that is neither a letter, a digit nor white space.
    Symbol,
}

impl Words {
    /// Splits a text into its first words.
    pub(super) fn new(text: &str) -> Self {
        let mut words = Self {
            text: String::with_capacity(text.len().min(8 * MAX_WORDS)),
            places: Vec::with_capacity(text.len().min(4 * MAX_WORDS) / 4),
        };
        for c in text.chars() {
            if words.places.len() >= MAX_WORDS {
                break;
            }
            if c.is_ascii() {
                words.add(c.to_ascii_lowercase());
            } else {
                c.to_lowercase().for_each(|c| words.add(c));
            }
        }
        words.end_word();
        words.places.truncate(MAX_WORDS);
        words
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Word<'_>> {
        self.places.iter().map(|WordPlace { range, kind }| Word {
            text: &self.text[range.clone()],
            kind: *kind,
        })
    }

    /// Returns the number of words that are not symbols.
    pub(super) fn length(&self) -> usize {
        let counts = |word: &Word<'_>| word.kind != WordKind::Symbol;
        self.iter().filter(counts).count()
    }

    /// Adds a character of the text, in lower case.
    fn add(&mut self, c: char) {
        // Most characters; the conditions below treat them in the same way, but more slowly.
        if c.is_ascii_alphanumeric() {
            self.text.push(c);
        } else if is_ideograph(c) {
            self.end_word();
            self.push(c, WordKind::Ideograph);
        } else if c.is_alphanumeric() || is_mark(c) {
            self.text.push(c);
        } else if matches!(c, '\'' | '’') && self.word_start() < self.text.len() {
            self.text.push('\'');
        } else {
            self.end_word();
            if !c.is_whitespace() {
                self.push(c, WordKind::Symbol);
            }
        }
    }

    /// Returns the start of the letters and digits since the last word.
    fn word_start(&self) -> usize {
        self.places.last().map_or(0, |last| last.range.end)
    }

    fn end_word(&mut self) {
        let range = self.word_start()..self.text.len();
        if !range.is_empty() {
            let kind = WordKind::Plain;
            self.places.push(WordPlace { range, kind });
        }
    }

    fn push(&mut self, c: char, kind: WordKind) {
        let start = self.text.len();
        self.text.push(c);
        let range = start..self.text.len();
        self.places.push(WordPlace { range, kind });
    }
}

/// Returns a text with each decimal digit replaced by `0`, so that all numbers of a length are
/// alike.
fn without_digits(text: &str) -> Cow<'_, str> {
    if !text.contains(is_digit) {
        return Cow::Borrowed(text);
    }
    let hide = |c: char| if is_digit(c) { '0' } else { c };
    Cow::Owned(text.chars().map(hide).collect())
}

/// Returns the features of a text, each once.
pub(super) fn features(words: &Words) -> Vec<u32> {
    let texts: Vec<Cow<'_, str>> = words.iter().map(|word| without_digits(word.text)).collect();
    let mut features = FeatureSet::with_capacity(16 * texts.len() + 4);
    let mut marked = String::new();
    for (position, (word, text)) in words.iter().zip(&texts).enumerate() {
        features.add(hash(&["w", text]));
        if let Some(next) = texts.get(position + 1) {
            features.add(hash(&["b", text, " ", next]));
        }
        if word.kind == WordKind::Plain && text.chars().nth(2).is_some() {
            marked.clear();
            marked.extend(["<", text, ">"]);
            add_pieces(&marked, &mut features);
        }
    }
    if let (Some(first), Some(last)) = (texts.first(), texts.last()) {
        features.add(hash(&["^", first]));
        features.add(hash(&["$", last]));
        if let Some(second) = texts.get(1) {
            features.add(hash(&["^^", first, " ", second]));
        }
    }
    features.add(hash(&["l", &length_class(words.length()).to_string()]));
    features.list
}

/// A set of features, in the order in which they were added.
struct FeatureSet {
    list: Vec<u32>,
    /// One bit per feature.
    seen: [u64; (1 << HASH_BITS) / 64],
}

impl FeatureSet {
    fn with_capacity(capacity: usize) -> Self {
        Self {
            list: Vec::with_capacity(capacity),
            seen: [0; (1 << HASH_BITS) / 64],
        }
    }

    fn add(&mut self, feature: u32) {
        let (word, bit) = (feature as usize / 64, 1 << (feature % 64));
        if self.seen[word] & bit == 0 {
            self.seen[word] |= bit;
            self.list.push(feature);
        }
    }
}

/// Adds the pieces of three and four characters of a word that is marked by angle brackets.
fn add_pieces(marked: &str, features: &mut FeatureSet) {
    if marked.is_ascii() {
        let before = extend(FIRST_HASH, b"n");
        let bytes = marked.as_bytes();
        for (start, piece) in bytes.windows(3).enumerate() {
            let of_three = extend(before, piece);
            features.add(fold(of_three));
            if let Some(fourth) = bytes.get(start + 3) {
                features.add(fold(extend(of_three, std::slice::from_ref(fourth))));
            }
        }
        return;
    }
    let mut starts: Vec<usize> = marked.char_indices().map(|(start, _)| start).collect();
    starts.push(marked.len());
    for size in [3, 4] {
        for window in starts.windows(size + 1) {
            features.add(hash(&["n", &marked[window[0]..window[size]]]));
        }
    }
}

/// Returns the class of a number of words: exact up to 12, then in steps of eight.
fn length_class(words: usize) -> usize {
    if words <= EXACT_LENGTHS {
        return words;
    }
    EXACT_LENGTHS + ((words - EXACT_LENGTHS) / 8).min(4)
}

/// The hash of no bytes (FNV-1a).
const FIRST_HASH: u32 = 0x811c_9dc5;

/// Returns the hash of joined texts: FNV-1a, folded to [`HASH_BITS`] bits.
pub(super) fn hash(parts: &[&str]) -> u32 {
    let mut hash = FIRST_HASH;
    for part in parts {
        hash = extend(hash, part.as_bytes());
    }
    fold(hash)
}

fn extend(mut hash: u32, bytes: &[u8]) -> u32 {
    for &byte in bytes {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    hash
}

fn fold(hash: u32) -> u32 {
    (hash ^ (hash >> 15)) & ((1 << HASH_BITS) - 1)
}

fn is_digit(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_digit();
    }
    c.general_category() == GeneralCategory::DecimalNumber
}

fn is_mark(c: char) -> bool {
    !c.is_ascii()
        && matches!(
            c.general_category(),
            GeneralCategory::NonspacingMark | GeneralCategory::SpacingMark
        )
}

/// Returns `true` for characters of Chinese and Japanese, which have no spaces between words.
pub(crate) fn is_ideograph(c: char) -> bool {
    matches!(
        c,
        '\u{3040}'..='\u{30ff}'
            | '\u{3400}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{2ffff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_split_into_words_in_lower_case() {
        let texts = |text| -> Vec<String> {
            let words = Words::new(text);
            words.iter().map(|word| word.text.to_owned()).collect()
        };
        assert_eq!(
            texts("Don’t STOP, lamp_2!"),
            ["don't", "stop", ",", "lamp", "_", "2", "!"]
        );
        assert_eq!(texts("把灯 on 한국어"), ["把", "灯", "on", "한국어"]);
        assert!(texts(" \n").is_empty());
        assert_eq!(texts(&"a ".repeat(500)).len(), MAX_WORDS);
    }

    #[test]
    fn numbers_of_a_length_have_the_same_features() {
        let of = |text| features(&Words::new(text));
        assert_eq!(of("order 4711"), of("order 9082"));
        assert_ne!(of("order 4711"), of("order 47"));
    }
}
