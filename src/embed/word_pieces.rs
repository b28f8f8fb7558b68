//! Splitting of a text into the pieces of a vocabulary, as in the training of both models: BERT's
//! basic tokenizer, then for each word the longest piece that fits, repeatedly (WordPiece).
//!
//! In scripts without blanks between words, a piece may occur anywhere in a run of letters.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;

use foldhash::fast::FixedState;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// The length of the longest word with pieces, in characters.
const MAX_WORD_CHARS: usize = 100;
/// The mark of a piece that continues a word.
const CONTINUATION: &str = "##";

/// A vocabulary of word pieces, numbered in order.
///
/// A short-lived process reads its vocabularies for one request, so reading must be fast. The
/// pieces stay in the text that lists them, and a hash table finds them.
#[derive(Default)]
pub struct WordPieces {
    /// The pieces, separated by line feeds.
    text: Cow<'static, str>,
    /// The start offset of each piece, and one more offset after the last piece.
    starts: Vec<u32>,
    /// The number of the first piece.
    first: u32,
    /// A hash table with a power of two of slots, of which at least half are [`FREE`]. A slot has
    /// the lower half of a piece's hash and the index of the piece. A piece is in the first free
    /// slot from the slot of its hash on.
    slots: Vec<(u32, u32)>,
    distinct: usize,
    /// The length of the longest piece, in bytes.
    longest: usize,
}

/// The position of a piece in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PiecePosition {
    /// A complete word, the start of a word, or a special piece such as `[CLS]`.
    Start,
    /// The continuation of a word, which has a mark.
    Continuation,
}

/// A slot without a piece.
const FREE: (u32, u32) = (0, u32::MAX);

impl WordPieces {
    /// Reads pieces that are separated by line feeds, and numbers them from `first`; an empty text
    /// has none. Of equal pieces the last counts. Returns `None` for a text of 4 GiB or more.
    pub fn new(text: Cow<'static, str>, first: usize) -> Option<Self> {
        let end = u32::try_from(text.len()).ok()?.checked_add(1)?;
        let mut starts = Vec::with_capacity(text.len() / 8);
        if !text.is_empty() {
            starts.push(0);
            starts.extend(
                (1..)
                    .zip(text.bytes())
                    .filter_map(|(next, byte)| (byte == b'\n').then_some(next)),
            );
        }
        starts.push(end);
        let pieces = starts.len() - 1;
        let slots = vec![FREE; (2 * pieces).next_power_of_two()];
        let first = u32::try_from(first).ok()?;
        let mut vocabulary = Self {
            text,
            starts,
            first,
            slots,
            distinct: 0,
            longest: 0,
        };
        for index in 0..u32::try_from(pieces).ok()? {
            let (piece, position) = vocabulary.piece(index);
            let hash = hash(piece, position);
            let (length, (slot, earlier)) = (piece.len(), vocabulary.slot(piece, position, hash));
            vocabulary.longest = vocabulary.longest.max(length);
            vocabulary.distinct += usize::from(earlier.is_none());
            vocabulary.slots[slot] = (lower_half(hash), index);
        }
        Some(vocabulary)
    }

    /// Returns the piece at an index, without its mark.
    fn piece(&self, index: u32) -> (&str, PiecePosition) {
        let [start, end] = [0, 1].map(|offset| self.starts[index as usize + offset] as usize);
        let piece = &self.text[start..end - 1];
        match piece.strip_prefix(CONTINUATION) {
            Some("") | None => (piece, PiecePosition::Start),
            Some(piece) => (piece, PiecePosition::Continuation),
        }
    }

    /// Returns the slot of a piece and its index; for a missing piece, the slot that it would have.
    fn slot(&self, piece: &str, position: PiecePosition, hash: u64) -> (usize, Option<u32>) {
        let mask = self.slots.len() - 1;
        let mut slot = (hash >> 32) as u32 as usize & mask;
        loop {
            match self.slots[slot] {
                FREE => return (slot, None),
                (half, index)
                    if half == lower_half(hash) && self.piece(index) == (piece, position) =>
                {
                    return (slot, Some(index));
                }
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn find(&self, piece: &str, position: PiecePosition) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        self.slot(piece, position, hash(piece, position))
            .1
            .map(|index| self.first + index)
    }

    /// Returns the pieces in order, with their marks.
    #[cfg(test)]
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.text.split('\n')
    }

    /// Returns the number of distinct pieces.
    pub(super) fn len(&self) -> usize {
        self.distinct
    }

    /// Returns the number of a piece that is a complete word, the start of a word, or a special
    /// piece such as `[CLS]`.
    pub fn number(&self, piece: &str) -> Option<u32> {
        self.find(piece, PiecePosition::Start)
    }

    /// Returns the pieces of `text`; a character without a piece is skipped.
    pub fn cut(&self, text: &str) -> Vec<u32> {
        let mut pieces = Vec::new();
        each_word(text, Ideographs::Apart, |word, _| {
            self.each_piece(word, |piece| pieces.push(piece));
        });
        pieces
    }

    /// Calls `each` with the pieces of a word; a character without a piece is skipped.
    pub(super) fn each_piece(&self, word: &str, mut each: impl FnMut(u32)) {
        if is_too_long(word) {
            return;
        }
        let mut offset = 0;
        while offset < word.len() {
            let position = if offset == 0 {
                PiecePosition::Start
            } else {
                PiecePosition::Continuation
            };
            match self.longest_piece(position, word, offset) {
                Some((end, piece)) => {
                    each(piece);
                    offset = end;
                }
                None => offset = word.ceil_char_boundary(offset + 1),
            }
        }
    }

    /// Returns the pieces of a word if they cover it completely. In a run of letters without
    /// blanks, characters without a piece are skipped, as long as there is one piece.
    pub(super) fn covering(&self, word: &str) -> Option<Vec<u32>> {
        let is_run = word.chars().next().is_some_and(is_without_blanks);
        if !is_run && is_too_long(word) {
            return None;
        }
        let (mut offset, mut pieces) = (0, Vec::new());
        while offset < word.len() {
            let position = if offset == 0 || is_run {
                PiecePosition::Start
            } else {
                PiecePosition::Continuation
            };
            match self.longest_piece(position, word, offset) {
                Some((end, piece)) => {
                    pieces.push(piece);
                    offset = end;
                }
                None if is_run => offset = word.ceil_char_boundary(offset + 1),
                None => return None,
            }
        }
        (!pieces.is_empty()).then_some(pieces)
    }

    /// Returns the longest piece at an offset of a word, with the offset of its end.
    fn longest_piece(
        &self,
        position: PiecePosition,
        word: &str,
        start: usize,
    ) -> Option<(usize, u32)> {
        let longest = word.floor_char_boundary(start + self.longest);
        let mut ends = (start + 1..=longest)
            .rev()
            .filter(|&end| word.is_char_boundary(end));
        ends.find_map(|end| {
            let piece = self.find(&word[start..end], position)?;
            Some((end, piece))
        })
    }
}

/// Returns the hash of a piece. A fixed seed is safe, because the vocabulary was chosen before any
/// request.
fn hash(piece: &str, position: PiecePosition) -> u64 {
    let mut hasher =
        FixedState::with_seed(u64::from(position == PiecePosition::Continuation)).build_hasher();
    hasher.write(piece.as_bytes());
    hasher.finish()
}

fn lower_half(hash: u64) -> u32 {
    (hash & 0xffff_ffff) as u32
}

fn is_too_long(word: &str) -> bool {
    word.len() > MAX_WORD_CHARS && word.chars().count() > MAX_WORD_CHARS
}

/// The treatment of letters without blanks between words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ideographs {
    /// Each Chinese character is a word, and other letters are not special, as in BERT.
    Apart,
    /// A run of such letters is a word.
    Together,
}

/// Splits a text like BERT's basic tokenizer: lower case, no accents, and every punctuation mark as
/// a word. Chinese characters depend on `ideographs`. Calls `each` with each word and its range in
/// the text, in bytes.
///
/// Characters are decomposed (NFD) one by one, each together with the marks that follow it, because
/// decomposition reorders only marks.
pub(super) fn each_word(
    text: &str,
    ideographs: Ideographs,
    mut each: impl FnMut(&str, &Range<usize>),
) {
    let mut word = Word {
        ideographs,
        text: String::with_capacity(32),
        range: 0..0,
        is_run: false,
    };
    let mut cluster = String::new();
    let mut start = 0;
    while start < text.len() {
        let run = text[start..]
            .bytes()
            .take_while(u8::is_ascii_alphanumeric)
            .count();
        if run > 0 {
            word.push_str(&text[start..start + run], start, &mut each);
            start += run;
            continue;
        }
        let mut letters = text[start..].char_indices().filter(|&(_, c)| !is_noise(c));
        let Some((offset, c)) = letters.next() else {
            break;
        };
        let mut range = start + offset..start + offset + c.len_utf8();
        if c.is_ascii() {
            word.add_character(c, &range, &mut each);
        } else {
            cluster.clear();
            cluster.push(c);
            let marks = letters.take_while(|&(_, mark)| canonical_combining_class(mark) != 0);
            for (offset, mark) in marks {
                cluster.push(mark);
                range.end = start + offset + mark.len_utf8();
            }
            cluster
                .nfd()
                .for_each(|c| word.add_character(c, &range, &mut each));
        }
        start = range.end;
    }
    word.end(&mut each);
}

/// A word that is being read.
struct Word {
    ideographs: Ideographs,
    text: String,
    range: Range<usize>,
    /// `true` for a run of letters without blanks between words.
    is_run: bool,
}

impl Word {
    /// Adds a decomposed character, whose range in the text is `range`.
    fn add_character(
        &mut self,
        c: char,
        range: &Range<usize>,
        each: &mut impl FnMut(&str, &Range<usize>),
    ) {
        if c.is_whitespace() {
            self.end(each);
        } else if is_punctuation(c) || self.ideographs == Ideographs::Apart && is_han(c) {
            self.end(each);
            self.push([c], range);
            self.end(each);
        } else if c.general_category() == GeneralCategory::NonspacingMark {
            self.push([], range);
        } else {
            let is_run = self.ideographs == Ideographs::Together && is_without_blanks(c);
            self.set_run(is_run, each);
            self.push(c.to_lowercase(), range);
        }
    }

    /// Ends the word if letters of the other kind follow.
    fn set_run(&mut self, is_run: bool, each: &mut impl FnMut(&str, &Range<usize>)) {
        if self.is_run != is_run {
            self.end(each);
            self.is_run = is_run;
        }
    }

    /// Adds ASCII letters and digits, which start at `start`.
    fn push_str(
        &mut self,
        letters: &str,
        start: usize,
        each: &mut impl FnMut(&str, &Range<usize>),
    ) {
        self.set_run(false, each);
        if self.text.is_empty() {
            self.range.start = start;
        }
        self.range.end = start + letters.len();
        let previous = self.text.len();
        self.text.push_str(letters);
        self.text[previous..].make_ascii_lowercase();
    }

    fn push(&mut self, letters: impl IntoIterator<Item = char>, range: &Range<usize>) {
        if self.text.is_empty() {
            self.range.start = range.start;
        }
        self.range.end = range.end;
        self.text.extend(letters);
    }

    fn end(&mut self, each: &mut impl FnMut(&str, &Range<usize>)) {
        if !self.text.is_empty() {
            each(&self.text, &self.range);
            self.text.clear();
        }
    }
}

/// Returns `true` for control and format characters, and for the replacement character.
fn is_noise(c: char) -> bool {
    !c.is_ascii_graphic()
        && !c.is_whitespace()
        && (c == '\u{fffd}' || c.general_category_group() == GeneralCategoryGroup::Other)
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation()
        || (!c.is_ascii() && c.general_category_group() == GeneralCategoryGroup::Punctuation)
}

fn is_han(c: char) -> bool {
    matches!(u32::from(c),
        0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x2A6DF | 0x2A700..=0x2B81F
        | 0x2B920..=0x2CEAF | 0x2F800..=0x2FA1F)
}

/// Returns `true` for letters of scripts without blanks between words: Thai, Lao, Burmese, Khmer,
/// kana and Chinese characters. Pictographs count too, because they follow each other directly.
pub(super) fn is_without_blanks(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x2600..=0x27BF | 0x3040..=0x30FF
        | 0x1F000..=0x1FAFF)
        || is_han(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// BERT's basic tokenizer by its published description: the complete text is decomposed first.
    fn naive_words(text: &str, ideographs: Ideographs) -> Vec<String> {
        let together = ideographs == Ideographs::Together;
        let mut words = vec![String::new()];
        for c in text.chars().filter(|&c| !is_noise(c)).nfd() {
            let is_single = is_punctuation(c) || !together && is_han(c);
            if is_single || c.is_whitespace() {
                let single = if is_single {
                    c.to_string()
                } else {
                    String::new()
                };
                words.extend([single, String::new()]);
            } else if c.general_category() != GeneralCategory::NonspacingMark {
                let last = words.last().and_then(|word| word.chars().last());
                if together
                    && last.is_some_and(|last| is_without_blanks(last) != is_without_blanks(c))
                {
                    words.push(String::new());
                }
                words
                    .last_mut()
                    .expect("the list is never empty")
                    .extend(c.to_lowercase());
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    proptest! {
        #[test]
        fn words_and_ranges_match_the_naive_tokenizer(
            text in concat!(
                "([a-zA-Z_.]{1,3}|[éÜ査查한각カ🍕] ?|\\PC|",
                "[\u{300}\u{302e}\u{1d165}\u{1d16d}\u{0}]){0,12}"
            ),
            ideographs in prop_oneof![Just(Ideographs::Apart), Just(Ideographs::Together)],
        ) {
            let mut words = Vec::new();
            let mut last = 0;
            each_word(&text, ideographs, |word, range| {
                assert!(range.start >= last, "{text:?}: {range:?} comes after {last}");
                let naive = naive_words(&text[range.clone()], ideographs);
                assert!(naive.contains(&word.to_owned()), "{text:?}: {word} at {range:?}");
                last = range.start;
                words.push(word.to_owned());
            });
            prop_assert_eq!(words, naive_words(&text, ideographs));
        }
    }

    #[test]
    fn pieces_have_the_range_of_their_word() {
        let vocabulary = vocabulary(&PIECES, 0);
        let text = "Read_Filesüb, UBER u\u{308}ber 查";
        let mut piece_words = Vec::new();
        each_word(text, Ideographs::Apart, |word, range| {
            vocabulary.each_piece(word, |_| piece_words.push(&text[range.clone()]));
        });
        assert_eq!(
            piece_words,
            [
                "Read",
                "_",
                "Filesüb",
                "Filesüb",
                "Filesüb",
                "UBER",
                "u\u{308}ber",
                "查"
            ]
        );
    }

    const PIECES: [&str; 17] = [
        "[UNK]", "[CLS]", "##", "#", "read", "file", "##s", "##file", "a", "b", "##b", "ab", ".",
        "_", "uber", "查", "[",
    ];

    fn vocabulary(pieces: &[&str], first: usize) -> WordPieces {
        WordPieces::new(Cow::Owned(pieces.join("\n")), first).expect("the text is short")
    }

    fn cut(text: &str) -> Vec<String> {
        vocabulary(&PIECES, 0)
            .cut(text)
            .iter()
            .map(|&piece| PIECES[piece as usize].to_owned())
            .collect()
    }

    #[test]
    fn words_are_split_into_the_longest_pieces() {
        for (text, pieces) in [
            ("read files", &["read", "file", "##s"][..]),
            (
                "READ_FILE.readfile",
                &["read", "_", "file", ".", "read", "##file"],
            ),
            ("abb", &["ab", "##b"]),
            ("##", &["#", "#"]),
            ("Über übér", &["uber", "uber"]),
            ("查a查", &["查", "a", "查"]),
            ("a\u{0}\u{200b}b\u{fffd}b", &["ab", "##b"]),
            (" \t\na\u{a0}b ", &["a", "b"]),
        ] {
            assert_eq!(cut(text), pieces, "{text}");
        }
    }

    #[test]
    fn covering_needs_pieces_for_a_complete_word() {
        let pieces = ["read", "##er", "查询", "文件", "メール"];
        let vocabulary = vocabulary(&pieces, 10);
        assert_eq!(vocabulary.covering("reader"), Some(vec![10, 11]));
        assert_eq!(
            vocabulary.covering("readers"),
            None,
            "the last letter is in no piece"
        );
        assert_eq!(
            vocabulary.covering("把文件查询"),
            Some(vec![13, 12]),
            "a piece may occur anywhere in a run"
        );
        assert_eq!(vocabulary.covering("你好"), None);
        assert_eq!(
            vocabulary
                .covering(&"文件".repeat(MAX_WORD_CHARS))
                .map(|pieces| pieces.len()),
            Some(MAX_WORD_CHARS)
        );
        assert_eq!(vocabulary.covering(&"read".repeat(MAX_WORD_CHARS)), None);
    }

    #[test]
    fn characters_without_a_piece_are_skipped() {
        assert_eq!(cut("readxyzs🚀 a"), ["read", "##s", "a"]);
        assert!(
            cut("🚀read").is_empty(),
            "the rest is not the start of a word"
        );
        assert!(cut("").is_empty() && cut("🚀 ☃ жук").is_empty());
        assert!(
            cut(&"a".repeat(MAX_WORD_CHARS + 1)).is_empty(),
            "the word is too long"
        );
        assert_eq!(cut(&"b".repeat(MAX_WORD_CHARS)).len(), MAX_WORD_CHARS);
        assert!(WordPieces::default().cut("anything").is_empty());
    }

    #[test]
    fn special_pieces_cannot_occur_in_a_text() {
        assert!(
            !cut("[CLS] [UNK]")
                .iter()
                .any(|piece| piece == "[CLS]" || piece == "[UNK]")
        );
        let vocabulary = vocabulary(&PIECES, 0);
        assert_eq!(
            (vocabulary.number("[CLS]"), vocabulary.number("[SEP]")),
            (Some(1), None)
        );
    }

    #[test]
    fn equal_pieces_count_once() {
        let vocabulary = vocabulary(&["a", "##a", "a", ""], 0);
        assert_eq!(vocabulary.len(), 3);
        assert_eq!(vocabulary.cut("aa").len(), 2);
    }
}
