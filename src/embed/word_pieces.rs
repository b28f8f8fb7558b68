//! Cutting a text into the pieces of a vocabulary, as both models of our own were trained: BERT's basic tokenizer,
//! then for each word the longest piece that fits, again and again (WordPiece).
//!
//! Scripts that put no blanks between words have pieces that stand anywhere in a run of their letters.

use std::borrow::Cow;
use std::ops::Range;

use foldhash::HashMap;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// Longer words are no words and have no pieces, in characters.
const MAX_WORD_CHARS: usize = 100;
/// Marks a piece that goes on a word.
const CONTINUATION: &str = "##";

/// A vocabulary of word pieces, numbered in their order.
#[derive(Default)]
pub(super) struct WordPieces {
    starts: HashMap<Cow<'static, str>, u32>,
    continuations: HashMap<Cow<'static, str>, u32>,
    /// The longest piece, in bytes.
    longest: usize,
}

impl WordPieces {
    /// Collects pieces that are numbered from `first`.
    pub(super) fn new(pieces: impl Iterator<Item = Cow<'static, str>>, first: usize) -> Self {
        let mut vocabulary = Self::default();
        let first = u32::try_from(first).unwrap_or(u32::MAX);
        for (number, piece) in (first..).zip(pieces) {
            vocabulary.longest = vocabulary.longest.max(piece.len());
            match piece.strip_prefix(CONTINUATION) {
                Some("") | None => vocabulary.starts.insert(piece, number),
                Some(_) => vocabulary.continuations.insert(without_mark(piece), number),
            };
        }
        vocabulary
    }

    /// Returns the number of distinct pieces.
    pub(super) fn len(&self) -> usize {
        self.starts.len() + self.continuations.len()
    }

    /// Returns the number of a piece that is a whole word or begins one, or stands for something else, such as `[CLS]`.
    pub(super) fn number(&self, piece: &str) -> Option<u32> {
        self.starts.get(piece).copied()
    }

    /// Returns the pieces of `text`; a character that no piece begins with is passed over.
    #[cfg(any(feature = "tuned", test))]
    pub(super) fn cut(&self, text: &str) -> Vec<u32> {
        let mut pieces = Vec::new();
        each_word(text, Ideographs::Apart, |word, _| self.each_piece(word, |piece| pieces.push(piece)));
        pieces
    }

    /// Calls `each` with the pieces of a word; a character that no piece begins with is passed over.
    pub(super) fn each_piece(&self, word: &str, mut each: impl FnMut(u32)) {
        if is_too_long(word) {
            return;
        }
        let mut at = 0;
        while at < word.len() {
            let known = if at == 0 { &self.starts } else { &self.continuations };
            match self.longest_of(known, word, at) {
                Some((end, piece)) => {
                    each(piece);
                    at = end;
                }
                None => at = word.ceil_char_boundary(at + 1),
            }
        }
    }

    /// Returns the pieces of a word where they are all of it. Of a run of letters without blanks, what no piece begins with is
    /// passed over, as long as there is a piece.
    pub(super) fn covering(&self, word: &str) -> Option<Vec<u32>> {
        let is_run = word.chars().next().is_some_and(is_without_blanks);
        if !is_run && is_too_long(word) {
            return None;
        }
        let (mut at, mut pieces) = (0, Vec::new());
        while at < word.len() {
            let known = if at == 0 || is_run { &self.starts } else { &self.continuations };
            match self.longest_of(known, word, at) {
                Some((end, piece)) => {
                    pieces.push(piece);
                    at = end;
                }
                None if is_run => at = word.ceil_char_boundary(at + 1),
                None => return None,
            }
        }
        (!pieces.is_empty()).then_some(pieces)
    }

    /// Returns the longest piece of some that stands at a place of a word, with where it ends.
    fn longest_of(&self, known: &HashMap<Cow<'static, str>, u32>, word: &str, at: usize) -> Option<(usize, u32)> {
        let longest = word.floor_char_boundary(at + self.longest);
        let mut ends = (at + 1..=longest).rev().filter(|&end| word.is_char_boundary(end));
        ends.find_map(|end| known.get(&word[at..end]).map(|&piece| (end, piece)))
    }

    #[cfg(test)]
    pub(super) fn names(&self) -> HashMap<u32, String> {
        let starts = self.starts.iter().map(|(piece, number)| (*number, piece.to_string()));
        starts.chain(self.continuations.iter().map(|(piece, number)| (*number, format!("##{piece}")))).collect()
    }
}

fn is_too_long(word: &str) -> bool {
    word.len() > MAX_WORD_CHARS && word.chars().count() > MAX_WORD_CHARS
}

/// What becomes of letters that stand without blanks between words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ideographs {
    /// Each Chinese character is a word, and the others are letters like all, as BERT has it.
    Apart,
    /// A run of them is a word.
    Together,
}

fn without_mark(piece: Cow<'static, str>) -> Cow<'static, str> {
    match piece {
        Cow::Borrowed(piece) => Cow::Borrowed(&piece[CONTINUATION.len()..]),
        Cow::Owned(piece) => Cow::Owned(piece[CONTINUATION.len()..].to_owned()),
    }
}

/// Cuts a text as BERT's basic tokenizer does: lower case, no accents, every punctuation mark a word of its own, and every
/// Chinese character unless told otherwise. `each` is called with each word, and with where it stands in the text, in bytes.
///
/// Characters are decomposed (NFD) one by one, each together with the marks that follow it, for only among marks
/// does the order change.
pub(super) fn each_word(text: &str, ideographs: Ideographs, mut each: impl FnMut(&str, &Range<usize>)) {
    let mut word = Word { ideographs, text: String::new(), place: 0..0, is_run: false };
    let mut cluster = String::new();
    let mut start = 0;
    while start < text.len() {
        let run = text[start..].bytes().take_while(u8::is_ascii_alphanumeric).count();
        if run > 0 {
            word.push_str(&text[start..start + run], start, &mut each);
            start += run;
            continue;
        }
        let mut letters = text[start..].char_indices().filter(|&(_, c)| !is_noise(c));
        let Some((at, c)) = letters.next() else { break };
        let mut place = start + at..start + at + c.len_utf8();
        if c.is_ascii() {
            word.take(c, &place, &mut each);
        } else {
            cluster.clear();
            cluster.push(c);
            for (at, mark) in letters.take_while(|&(_, mark)| canonical_combining_class(mark) != 0) {
                cluster.push(mark);
                place.end = start + at + mark.len_utf8();
            }
            cluster.nfd().for_each(|c| word.take(c, &place, &mut each));
        }
        start = place.end;
    }
    word.end(&mut each);
}

/// A word as far as it is read.
struct Word {
    ideographs: Ideographs,
    text: String,
    place: Range<usize>,
    /// It is a run of letters without blanks between words.
    is_run: bool,
}

impl Word {
    /// Reads a decomposed character, which comes from `place` in the text.
    fn take(&mut self, c: char, place: &Range<usize>, each: &mut impl FnMut(&str, &Range<usize>)) {
        if c.is_whitespace() {
            self.end(each);
        } else if is_punctuation(c) || self.ideographs == Ideographs::Apart && is_han(c) {
            self.end(each);
            self.push([c], place);
            self.end(each);
        } else if c.general_category() == GeneralCategory::NonspacingMark {
            self.push([], place);
        } else {
            self.go_on_as(self.ideographs == Ideographs::Together && is_without_blanks(c), each);
            self.push(c.to_lowercase(), place);
        }
    }

    /// Ends the word where letters of the other kind follow.
    fn go_on_as(&mut self, is_run: bool, each: &mut impl FnMut(&str, &Range<usize>)) {
        if self.is_run != is_run {
            self.end(each);
            self.is_run = is_run;
        }
    }

    /// Reads letters and digits of ASCII, which stand at `start`.
    fn push_str(&mut self, letters: &str, start: usize, each: &mut impl FnMut(&str, &Range<usize>)) {
        self.go_on_as(false, each);
        if self.text.is_empty() {
            self.place.start = start;
        }
        self.place.end = start + letters.len();
        let read = self.text.len();
        self.text.push_str(letters);
        self.text[read..].make_ascii_lowercase();
    }

    fn push(&mut self, letters: impl IntoIterator<Item = char>, place: &Range<usize>) {
        if self.text.is_empty() {
            self.place.start = place.start;
        }
        self.place.end = place.end;
        self.text.extend(letters);
    }

    fn end(&mut self, each: &mut impl FnMut(&str, &Range<usize>)) {
        if !self.text.is_empty() {
            each(&self.text, &self.place);
            self.text.clear();
        }
    }
}

/// Control and format characters, and the mark of text that could not be decoded.
fn is_noise(c: char) -> bool {
    !c.is_ascii_graphic()
        && !c.is_whitespace()
        && (c == '\u{fffd}' || c.general_category_group() == GeneralCategoryGroup::Other)
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || (!c.is_ascii() && c.general_category_group() == GeneralCategoryGroup::Punctuation)
}

fn is_han(c: char) -> bool {
    matches!(u32::from(c),
        0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x2A6DF | 0x2A700..=0x2B81F
        | 0x2B920..=0x2CEAF | 0x2F800..=0x2FA1F)
}

/// Letters of scripts that put no blanks between words (Thai, Lao, Burmese, Khmer, kana and Chinese characters), and
/// pictures, which stand side by side as well.
pub(super) fn is_without_blanks(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x2600..=0x27BF | 0x3040..=0x30FF | 0x1F000..=0x1FAFF)
        || is_han(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// BERT's basic tokenizer as its authors describe it: the whole text is decomposed first.
    fn naive_words(text: &str, ideographs: Ideographs) -> Vec<String> {
        let together = ideographs == Ideographs::Together;
        let mut words = vec![String::new()];
        for c in text.chars().filter(|&c| !is_noise(c)).nfd() {
            let alone = is_punctuation(c) || !together && is_han(c);
            if alone || c.is_whitespace() {
                words.extend([if alone { c.to_string() } else { String::new() }, String::new()]);
            } else if c.general_category() != GeneralCategory::NonspacingMark {
                let last = words.last().and_then(|word| word.chars().last());
                if together && last.is_some_and(|last| is_without_blanks(last) != is_without_blanks(c)) {
                    words.push(String::new());
                }
                words.last_mut().expect("there is one").extend(c.to_lowercase());
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    proptest! {
        #[test]
        fn words_are_those_of_the_definition_and_stand_where_they_are_said_to(
            text in "([a-zA-Z_.]{1,3}|[éÜ査查한각カ🍕] ?|\\PC|[\u{300}\u{302e}\u{1d165}\u{1d16d}\u{0}]){0,12}",
            ideographs in prop_oneof![Just(Ideographs::Apart), Just(Ideographs::Together)],
        ) {
            let mut words = Vec::new();
            let mut last = 0;
            each_word(&text, ideographs, |word, range| {
                assert!(range.start >= last, "{text:?}: {range:?} comes after {last}");
                assert!(naive_words(&text[range.clone()], ideographs).contains(&word.to_owned()), "{text:?}: {word} at {range:?}");
                last = range.start;
                words.push(word.to_owned());
            });
            prop_assert_eq!(words, naive_words(&text, ideographs));
        }
    }

    #[test]
    fn pieces_know_where_their_word_stands() {
        let vocabulary = WordPieces::new(PIECES.into_iter().map(Cow::Borrowed), 0);
        let text = "Read_Filesüb, UBER u\u{308}ber 查";
        let mut found = Vec::new();
        each_word(text, Ideographs::Apart, |word, range| {
            vocabulary.each_piece(word, |_| found.push(&text[range.clone()]));
        });
        assert_eq!(found, ["Read", "_", "Filesüb", "Filesüb", "Filesüb", "UBER", "u\u{308}ber", "查"]);
    }

    const PIECES: [&str; 17] = [
        "[UNK]", "[CLS]", "##", "#", "read", "file", "##s", "##file", "a", "b", "##b", "ab", ".", "_", "uber", "查",
        "[",
    ];

    fn cut(text: &str) -> Vec<String> {
        let vocabulary = WordPieces::new(PIECES.into_iter().map(Cow::Borrowed), 0);
        let names = vocabulary.names();
        vocabulary.cut(text).iter().map(|piece| names[piece].clone()).collect()
    }

    #[test]
    fn words_are_cut_into_the_longest_pieces() {
        for (text, pieces) in [
            ("read files", &["read", "file", "##s"][..]),
            ("READ_FILE.readfile", &["read", "_", "file", ".", "read", "##file"]),
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
    fn words_are_covered_or_not() {
        let pieces = ["read", "##er", "查询", "文件", "メール"];
        let vocabulary = WordPieces::new(pieces.into_iter().map(Cow::Borrowed), 10);
        assert_eq!(vocabulary.covering("reader"), Some(vec![10, 11]));
        assert_eq!(vocabulary.covering("readers"), None, "the last letter is in no piece");
        assert_eq!(vocabulary.covering("把文件查询"), Some(vec![13, 12]), "any piece stands anywhere in a run");
        assert_eq!(vocabulary.covering("你好"), None);
        assert_eq!(vocabulary.covering(&"文件".repeat(MAX_WORD_CHARS)).map(|found| found.len()), Some(MAX_WORD_CHARS));
        assert_eq!(vocabulary.covering(&"read".repeat(MAX_WORD_CHARS)), None);
    }

    #[test]
    fn what_has_no_piece_is_passed_over() {
        assert_eq!(cut("readxyzs🚀 a"), ["read", "##s", "a"]);
        assert!(cut("🚀read").is_empty(), "what follows is no beginning of a word");
        assert!(cut("").is_empty() && cut("🚀 ☃ жук").is_empty());
        assert!(cut(&"a".repeat(MAX_WORD_CHARS + 1)).is_empty(), "it is no word");
        assert_eq!(cut(&"b".repeat(MAX_WORD_CHARS)).len(), MAX_WORD_CHARS);
        assert!(WordPieces::default().cut("anything").is_empty());
    }

    #[test]
    fn a_text_cannot_name_a_special_piece() {
        assert!(!cut("[CLS] [UNK]").iter().any(|piece| piece == "[CLS]" || piece == "[UNK]"));
        #[cfg(feature = "tuned")]
        {
            let vocabulary = WordPieces::new(PIECES.into_iter().map(Cow::Borrowed), 0);
            assert_eq!((vocabulary.number("[CLS]"), vocabulary.number("[SEP]")), (Some(1), None));
        }
    }

    #[test]
    fn pieces_are_counted_once() {
        let vocabulary =
            WordPieces::new(["a", "##a", "a", ""].into_iter().map(|piece| Cow::Owned(piece.to_owned())), 0);
        assert_eq!(vocabulary.len(), 3);
        assert_eq!(vocabulary.cut("aa").len(), 2);
    }
}
