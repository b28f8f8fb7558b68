//! The vocabulary: the words of all tools as people read them.
//!
//! The postings have only hashes of stems. The vocabulary has the words themselves, so that a
//! misspelt or inflected word of a request finds its neighbours among them. It also has the
//! abbreviations that tools define, such as `pr pull request`.
//!
//! Each word has a count: the tools that contain it, added up over its spellings. So the words of
//! removed tools can be taken away, and an updated index equals a new one.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::catalog::Tool;
use crate::saved::{SavedError, SavedFile, Writer};
use crate::text::abbreviations::definitions;
use crate::text::{Analyzer, WordCounts, fold_word, texts};

/// The sections of a saved index that hold the vocabulary.
const TEXT: &str = "vocabulary.text";
const ENDS: &str = "vocabulary.ends";
const COUNTS: &str = "vocabulary.counts";

/// The words of all tools, each with a count, in the order of their letters without accents.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vocabulary {
    text: String,
    /// The end of each word in `text`.
    ends: Vec<u32>,
    counts: Vec<u32>,
    /// Computed on first use, because many requests have only known words.
    shapes: OnceLock<WordShapes>,
}

/// Facts about all words that exclude most of them before their letters are compared.
#[derive(Debug, Clone)]
struct WordShapes {
    /// The letters of each word.
    letters: Vec<LetterSet>,
    /// The number of each word's letters; the largest number for abbreviations with their meanings.
    lengths: Vec<u8>,
    /// The positions of abbreviations with their meanings.
    definitions: Vec<u32>,
}

impl WordShapes {
    fn new(vocabulary: &Vocabulary) -> Self {
        let mut shapes = Self {
            letters: Vec::with_capacity(vocabulary.len()),
            lengths: Vec::with_capacity(vocabulary.len()),
            definitions: Vec::new(),
        };
        for (position, number) in (0..vocabulary.len()).zip(0..) {
            let word = vocabulary.word(position);
            let folded = fold_word(word);
            let mut length = u8::try_from(folded.chars().count()).unwrap_or(u8::MAX);
            if word.contains(' ') {
                length = u8::MAX;
                shapes.definitions.push(number);
            }
            shapes.letters.push(LetterSet::new(&folded));
            shapes.lengths.push(length);
        }
        shapes
    }
}

/// A word of the vocabulary that resembles a misspelt word.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SimilarWord<'v> {
    pub(crate) word: &'v str,
    /// The number of edits between the words.
    pub(crate) edits: usize,
    pub(crate) count: u32,
}

impl Vocabulary {
    pub(super) fn new(counts: WordCounts) -> Self {
        let mut entries: Vec<(Option<String>, Box<str>, u32)> = Vec::with_capacity(counts.len());
        for (word, count) in counts {
            let folded = match fold_word(&word) {
                Cow::Borrowed(_) => None,
                Cow::Owned(folded) => Some(folded),
            };
            entries.push((folded, word, count));
        }
        entries.sort_unstable_by(|(folded, a, _), (other_folded, b, _)| {
            let (folded, other_folded) = (folded.as_deref(), other_folded.as_deref());
            let order = folded.unwrap_or(a).cmp(other_folded.unwrap_or(b));
            order.then_with(|| a.cmp(b))
        });
        let mut vocabulary = Self::default();
        for (_, word, count) in &entries {
            vocabulary.push(word, i64::from(*count));
        }
        vocabulary
    }

    /// Counts the words of tools.
    pub(super) fn from_tools(tools: &[Arc<Tool>]) -> Self {
        let mut analyzer = Analyzer::new();
        for tool in tools {
            analyzer.begin_document();
            for (_, text) in texts(tool) {
                definitions(text, |definition| analyzer.count_definition(definition));
                analyzer.terms(text, |_| {});
            }
        }
        Self::new(analyzer.take_counts())
    }

    /// Adds up the counts of vocabularies.
    pub(super) fn sum<'v>(vocabularies: impl IntoIterator<Item = &'v Self>) -> Self {
        let mut vocabularies: Vec<Cow<'v, Self>> =
            vocabularies.into_iter().map(Cow::Borrowed).collect();
        while vocabularies.len() > 1 {
            let mut merged = Vec::with_capacity(vocabularies.len().div_ceil(2));
            for pair in vocabularies.chunks(2) {
                merged.push(match pair {
                    [first, second] => Cow::Owned(first.merge(second, 1)),
                    _ => pair[0].clone(),
                });
            }
            vocabularies = merged;
        }
        vocabularies.pop().unwrap_or_default().into_owned()
    }

    /// Subtracts the counts of another vocabulary, and drops words without a count.
    pub(super) fn without(&self, other: &Self) -> Self {
        self.merge(other, -1)
    }

    fn merge(&self, other: &Self, sign: i64) -> Self {
        let mut merged = Self::default();
        let (mut position, mut other_position) = (0, 0);
        while position < self.len() || other_position < other.len() {
            let order = if position == self.len() {
                Ordering::Greater
            } else if other_position == other.len() {
                Ordering::Less
            } else {
                in_order(self.word(position), other.word(other_position))
            };
            let mut count = 0;
            let word = if order.is_le() {
                self.word(position)
            } else {
                other.word(other_position)
            };
            if order.is_le() {
                count += i64::from(self.counts[position]);
                position += 1;
            }
            if order.is_ge() {
                count += sign * i64::from(other.counts[other_position]);
                other_position += 1;
            }
            merged.push(word, count);
        }
        merged
    }

    /// Adds the next word, if it has a count and the text has space for it.
    fn push(&mut self, word: &str, count: i64) {
        let end = u32::try_from(self.text.len() + word.len());
        if let (Ok(end), 1..) = (end, count) {
            self.text.push_str(word);
            self.ends.push(end);
            self.counts.push(u32::try_from(count).unwrap_or(u32::MAX));
        }
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn word(&self, position: usize) -> &str {
        let start = position
            .checked_sub(1)
            .map_or(0, |previous| self.ends[previous]);
        &self.text[start as usize..self.ends[position] as usize]
    }

    /// Returns the memory use in bytes.
    pub(super) fn memory(&self) -> usize {
        let shapes = self.shapes.get().map_or(0, |shapes| {
            size_of_val(&*shapes.letters) + size_of_val(&*shapes.lengths)
        });
        self.text.len() + size_of_val(&*self.ends) + size_of_val(&*self.counts) + shapes
    }

    pub(super) fn save(&self, writer: &mut Writer) -> Result<(), SavedError> {
        writer.bytes(TEXT, self.text.as_bytes())?;
        writer.numbers(ENDS, &self.ends)?;
        writer.numbers(COUNTS, &self.counts)
    }

    pub(super) fn open(file: &SavedFile) -> Result<Self, SavedError> {
        let vocabulary = Self {
            text: file.text(TEXT)?,
            ends: file.numbers(ENDS)?,
            counts: file.numbers(COUNTS)?,
            shapes: OnceLock::new(),
        };
        let text_end = vocabulary.ends.last().copied().unwrap_or_default() as usize;
        let is_valid = vocabulary.counts.len() == vocabulary.len()
            && vocabulary.ends.is_sorted()
            && text_end == vocabulary.text.len()
            && vocabulary
                .ends
                .iter()
                .all(|&end| vocabulary.text.is_char_boundary(end as usize));
        file.ensure(is_valid, TEXT)?;
        Ok(vocabulary)
    }

    /// Returns the range of the words that begin with these letters, without accents.
    fn starting_with(&self, prefix: &str) -> Range<usize> {
        let start = self.first(|word| word < prefix);
        let end = self.first(|word| word < prefix || word.starts_with(prefix));
        start..end
    }

    /// Returns the position of the first word that is not before others, by its letters without
    /// accents.
    fn first(&self, is_before: impl Fn(&str) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if is_before(&fold_word(self.word(middle))) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the words that begin with these letters, without accents. Abbreviations with their
    /// meanings are not words.
    pub(crate) fn words_starting_with(&self, prefix: &str) -> impl Iterator<Item = (&str, u32)> {
        self.starting_with(prefix)
            .map(|position| (self.word(position), self.counts[position]))
            .filter(|(word, _)| !word.contains(' '))
    }

    /// Returns the meanings that tools define for an abbreviation in lower case.
    pub(crate) fn meanings(&self, abbreviation: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("{abbreviation} ");
        // The meanings of an abbreviation follow each other.
        let definitions = &self.shapes().definitions;
        let first = definitions.partition_point(|&definition| {
            fold_word(self.word(definition as usize)).as_ref() < prefix.as_str()
        });
        let words = definitions[first..].iter();
        words.map_while(move |&definition| self.word(definition as usize).strip_prefix(&prefix))
    }

    /// Returns the words that are at most `max_edits` edits from a word in lower case. An edit
    /// adds, drops or replaces a letter, or swaps two neighbours.
    ///
    /// A typo seldom hits the first letter. So only words are compared whose first letter is one of
    /// the first two of the word.
    pub(crate) fn similar(&self, word: &str, max_edits: usize) -> Vec<SimilarWord<'_>> {
        let WordShapes {
            letters, lengths, ..
        } = self.shapes();
        let (word_letters, word_length) = (LetterSet::new(word), word.chars().count());
        let mut similar = Vec::new();
        let mut first_letters: Vec<char> = word.chars().take(2).collect();
        first_letters.dedup();
        for first_letter in first_letters {
            let mut buffer = [0; 4];
            for position in self.starting_with(first_letter.encode_utf8(&mut buffer)) {
                if usize::from(lengths[position]).abs_diff(word_length) > max_edits
                    || !word_letters.may_differ_by(letters[position], max_edits)
                {
                    continue;
                }
                let other = self.word(position);
                let edits = strsim::osa_distance(word, &fold_word(other));
                if (1..=max_edits).contains(&edits) {
                    similar.push(SimilarWord {
                        word: other,
                        edits,
                        count: self.counts[position],
                    });
                }
            }
        }
        similar
    }

    fn shapes(&self) -> &WordShapes {
        self.shapes.get_or_init(|| WordShapes::new(self))
    }
}

/// Compares two words by their letters without accents, and then by their letters.
fn in_order(a: &str, b: &str) -> Ordering {
    fold_word(a).cmp(&fold_word(b)).then_with(|| a.cmp(b))
}

/// The set of a word's letters, in which some letters are not distinguished.
#[derive(Debug, Clone, Copy)]
struct LetterSet(u32);

impl LetterSet {
    fn new(word: &str) -> Self {
        Self(
            word.bytes()
                .filter(u8::is_ascii)
                .fold(0, |set, byte| set | 1 << (byte & 31)),
        )
    }

    /// Returns `false` if the words differ by more than this number of edits.
    fn may_differ_by(self, other: Self, edits: usize) -> bool {
        let missing = |a: Self, b: Self| (a.0 & !b.0).count_ones() as usize;
        missing(self, other) <= edits && missing(other, self) <= edits
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl PartialEq for Vocabulary {
        fn eq(&self, other: &Self) -> bool {
            (&self.text, &self.ends, &self.counts) == (&other.text, &other.ends, &other.counts)
        }
    }

    fn vocabulary(words: &[(&str, u32)]) -> Vocabulary {
        Vocabulary::new(
            words
                .iter()
                .map(|&(word, count)| (word.into(), count))
                .collect(),
        )
    }

    #[test]
    fn similar_words_differ_by_few_edits() {
        let words = [
            "email",
            "mail",
            "send",
            "sent",
            "schedule",
            "müll",
            "send mail",
        ];
        let vocabulary = vocabulary(&words.map(|word| (word, 1)));
        let similar = |word, edits| {
            let found = vocabulary.similar(word, edits).into_iter();
            found.map(|similar| similar.word).collect::<Vec<_>>()
        };
        assert_eq!(similar("emial", 1), ["email"]);
        assert_eq!(similar("sned", 1), ["send"]);
        assert_eq!(similar("senf", 1), ["send", "sent"]);
        assert_eq!(similar("shcedlue", 2), ["schedule"]);
        assert_eq!(similar("mul", 1), ["müll"]);
        assert!(similar("send", 1) == ["sent"] && similar("xyz", 1).is_empty());
    }

    #[test]
    fn abbreviations_are_found_by_their_letters() {
        let vocabulary = vocabulary(&[
            ("pr pull request", 2),
            ("pr public relations", 1),
            ("pray", 1),
        ]);
        let meanings: Vec<&str> = vocabulary.meanings("pr").collect();
        assert_eq!(meanings, ["public relations", "pull request"]);
        let words: Vec<&str> = vocabulary
            .words_starting_with("pr")
            .map(|(word, _)| word)
            .collect();
        assert_eq!(words, ["pray"]);
    }

    fn counts() -> impl Strategy<Value = Vec<(String, u32)>> {
        let words = prop::collection::btree_map("[abä]{1,3}", 1..4_u32, 0..12);
        words.prop_map(|words| words.into_iter().collect())
    }

    fn from_entries(entries: &[(String, u32)]) -> Vocabulary {
        Vocabulary::new(
            entries
                .iter()
                .map(|(word, count)| (word.as_str().into(), *count))
                .collect(),
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]
        #[test]
        fn removed_words_leave_the_other_vocabulary(first in counts(), second in counts()) {
            let (first, second) = (from_entries(&first), from_entries(&second));
            let sum = Vocabulary::sum([&first, &second]);
            prop_assert_eq!(&sum, &Vocabulary::sum([&second, &first]));
            prop_assert_eq!(&sum.without(&second), &first);
            prop_assert_eq!(sum.without(&first), second);
        }

        #[test]
        fn similar_words_equal_those_of_a_complete_search(
            entries in counts(), word in "[abä]{1,4}", edits in 1..3_usize,
        ) {
            let vocabulary = from_entries(&entries);
            let word = &*fold_word(&word);
            let mut found: Vec<&str> =
                vocabulary.similar(word, edits).iter().map(|similar| similar.word).collect();
            found.sort_unstable();
            let mut expected: Vec<&str> = Vec::new();
            for (other, _) in &entries {
                let folded = fold_word(other);
                let starts_alike = word.chars().take(2).any(|first| folded.starts_with(first));
                if starts_alike && (1..=edits).contains(&strsim::osa_distance(word, &folded)) {
                    expected.push(other);
                }
            }
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
