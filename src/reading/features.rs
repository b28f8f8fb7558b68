//! The features of a text: hashes of its words, pairs of words and pieces of words.
//!
//! `models/train/reader/features.py` has the same rules. They need no vocabulary, so typing errors
//! and all languages have features, too.

use std::borrow::Cow;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// The number of values of a hash, as a power of two.
pub(super) const HASH_BITS: u32 = 16;
/// The largest number of words that are read.
const MAX_WORDS: usize = 64;
/// The numbers of words up to which lengths differ.
const EXACT_LENGTHS: usize = 12;

/// A word of a text, in lower case.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// The letters and digits.
    pub(super) text: String,
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

impl Word {
    /// Returns the text with each decimal digit replaced by `0`, so that all numbers of a length
    /// are alike.
    fn without_digits(&self) -> Cow<'_, str> {
        if !self.text.contains(is_digit) {
            return Cow::Borrowed(&self.text);
        }
        let hide = |c: char| if is_digit(c) { '0' } else { c };
        Cow::Owned(self.text.chars().map(hide).collect())
    }
}

/// Splits a text into its first words.
pub(super) fn words(text: &str) -> Vec<Word> {
    let mut splitter = WordSplitter::default();
    splitter.words.reserve(text.len().min(4 * MAX_WORDS) / 4);
    for c in text.chars() {
        if splitter.words.len() >= MAX_WORDS {
            break;
        }
        if c.is_ascii() {
            splitter.add(c.to_ascii_lowercase());
        } else {
            c.to_lowercase().for_each(|c| splitter.add(c));
        }
    }
    splitter.end_word();
    splitter.words.truncate(MAX_WORDS);
    splitter.words
}

/// Splits a text that is added character by character, in lower case.
#[derive(Default)]
struct WordSplitter {
    words: Vec<Word>,
    /// The letters and digits since the last word.
    plain: String,
}

impl WordSplitter {
    fn add(&mut self, c: char) {
        if is_ideograph(c) {
            self.end_word();
            self.push(c.to_string(), WordKind::Ideograph);
        } else if c.is_alphanumeric() || is_mark(c) {
            self.plain.push(c);
        } else if matches!(c, '\'' | '’') && !self.plain.is_empty() {
            self.plain.push('\'');
        } else {
            self.end_word();
            if !c.is_whitespace() {
                self.push(c.to_string(), WordKind::Symbol);
            }
        }
    }

    fn end_word(&mut self) {
        if !self.plain.is_empty() {
            // The buffer keeps its memory.
            let text = self.plain.clone();
            self.plain.clear();
            self.push(text, WordKind::Plain);
        }
    }

    fn push(&mut self, text: String, kind: WordKind) {
        self.words.push(Word { text, kind });
    }
}

/// Returns the number of words that are not symbols.
pub(super) fn length(words: &[Word]) -> usize {
    let counts = |word: &&Word| word.kind != WordKind::Symbol;
    words.iter().filter(counts).count()
}

/// Returns the features of a text, each once.
pub(super) fn features(words: &[Word]) -> Vec<u32> {
    let texts: Vec<Cow<'_, str>> = words.iter().map(Word::without_digits).collect();
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
    features.add(hash(&["l", &length_class(length(words)).to_string()]));
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
        let texts =
            |text| -> Vec<String> { words(text).into_iter().map(|word| word.text).collect() };
        assert_eq!(
            texts("Don’t STOP, lamp_2!"),
            ["don't", "stop", ",", "lamp", "_", "2", "!"]
        );
        assert_eq!(texts("把灯 on 한국어"), ["把", "灯", "on", "한국어"]);
        assert!(texts(" \n").is_empty());
        assert_eq!(words(&"a ".repeat(500)).len(), MAX_WORDS);
    }

    #[test]
    fn numbers_of_a_length_have_the_same_features() {
        let of = |text| features(&words(text));
        assert_eq!(of("order 4711"), of("order 9082"));
        assert_ne!(of("order 4711"), of("order 47"));
    }
}
