//! Cutting a text into the pieces of a vocabulary, as both models of our own were trained: BERT's
//! basic tokenizer, then for each word the longest piece that fits, again and again (WordPiece).
//!
//! Scripts that put no blanks between words have pieces that stand anywhere in a run of their
//! letters.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;

use foldhash::fast::FixedState;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// Longer words are no words and have no pieces, in characters.
const MAX_WORD_CHARS: usize = 100;
/// Marks a piece that goes on a word.
const CONTINUATION: &str = "##";

/// A vocabulary of word pieces, numbered in their order.
///
/// A program that is asked once reads its vocabularies once, so reading is what must be quick: the
/// pieces stay in the text that lists them, and a table of their hashes finds them there.
#[derive(Default)]
pub struct WordPieces {
    /// The pieces, separated by line feeds.
    text: Cow<'static, str>,
    /// Where each begins, and where one more would.
    starts: Vec<u32>,
    /// The number of the first.
    first: u32,
    /// A hash table of a power of two of slots, at least half of them [`FREE`]: the lower half of a
    /// piece's hash, and its place among the pieces. A piece stands in the first free slot from
    /// that of its hash on.
    slots: Vec<(u32, u32)>,
    distinct: usize,
    /// The longest piece, in bytes.
    longest: usize,
}

/// Where in a word a piece stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// It is a whole word or begins one, or stands for something else, such as `[CLS]`.
    First,
    /// It goes on a word, which its mark says.
    Later,
}

/// A slot without a piece.
const FREE: (u32, u32) = (0, u32::MAX);

impl WordPieces {
    /// Reads pieces that are separated by line feeds and numbered from `first`; an empty text has
    /// none. Of equal ones the last counts. `None` where they are 4 GiB or more.
    pub fn new(text: Cow<'static, str>, first: usize) -> Option<Self> {
        let behind = u32::try_from(text.len()).ok()?.checked_add(1)?;
        let mut starts = Vec::with_capacity(text.len() / 8);
        if !text.is_empty() {
            starts.push(0);
            starts.extend(
                (1..)
                    .zip(text.bytes())
                    .filter_map(|(next, byte)| (byte == b'\n').then_some(next)),
            );
        }
        starts.push(behind);
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
        for place in 0..u32::try_from(pieces).ok()? {
            let (piece, stands) = vocabulary.piece(place);
            let hash = hash(piece, stands);
            let (length, (slot, known)) = (piece.len(), vocabulary.slot(piece, stands, hash));
            vocabulary.longest = vocabulary.longest.max(length);
            vocabulary.distinct += usize::from(known.is_none());
            vocabulary.slots[slot] = (lower(hash), place);
        }
        Some(vocabulary)
    }

    /// Returns the piece at a place among all, without its mark.
    fn piece(&self, place: u32) -> (&str, Stands) {
        let [start, end] = [0, 1].map(|one| self.starts[place as usize + one] as usize);
        let piece = &self.text[start..end - 1];
        match piece.strip_prefix(CONTINUATION) {
            Some("") | None => (piece, Stands::First),
            Some(piece) => (piece, Stands::Later),
        }
    }

    /// Returns the slot of a piece, and its place among all; where it is none, the slot that it
    /// would have.
    fn slot(&self, piece: &str, stands: Stands, hash: u64) -> (usize, Option<u32>) {
        let mask = self.slots.len() - 1;
        let mut slot = (hash >> 32) as u32 as usize & mask;
        loop {
            match self.slots[slot] {
                FREE => return (slot, None),
                (lower_half, place)
                    if lower_half == lower(hash) && self.piece(place) == (piece, stands) =>
                {
                    return (slot, Some(place));
                }
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn find(&self, piece: &str, stands: Stands) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        self.slot(piece, stands, hash(piece, stands))
            .1
            .map(|place| self.first + place)
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

    /// Returns the number of a piece that is a whole word or begins one, or stands for something
    /// else, such as `[CLS]`.
    pub fn number(&self, piece: &str) -> Option<u32> {
        self.find(piece, Stands::First)
    }

    /// Returns the pieces of `text`; a character that no piece begins with is passed over.
    pub fn cut(&self, text: &str) -> Vec<u32> {
        let mut pieces = Vec::new();
        each_word(text, Ideographs::Apart, |word, _| {
            self.each_piece(word, |piece| pieces.push(piece))
        });
        pieces
    }

    /// Calls `each` with the pieces of a word; a character that no piece begins with is passed
    /// over.
    pub(super) fn each_piece(&self, word: &str, mut each: impl FnMut(u32)) {
        if is_too_long(word) {
            return;
        }
        let mut at = 0;
        while at < word.len() {
            let stands = if at == 0 {
                Stands::First
            } else {
                Stands::Later
            };
            match self.longest_of(stands, word, at) {
                Some((end, piece)) => {
                    each(piece);
                    at = end;
                }
                None => at = word.ceil_char_boundary(at + 1),
            }
        }
    }

    /// Returns the pieces of a word where they are all of it. Of a run of letters without blanks,
    /// what no piece begins with is passed over, as long as there is a piece.
    pub(super) fn covering(&self, word: &str) -> Option<Vec<u32>> {
        let is_run = word.chars().next().is_some_and(is_without_blanks);
        if !is_run && is_too_long(word) {
            return None;
        }
        let (mut at, mut pieces) = (0, Vec::new());
        while at < word.len() {
            let stands = if at == 0 || is_run {
                Stands::First
            } else {
                Stands::Later
            };
            match self.longest_of(stands, word, at) {
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

    /// Returns the longest piece that stands at a place of a word, with where it ends.
    fn longest_of(&self, stands: Stands, word: &str, at: usize) -> Option<(usize, u32)> {
        let longest = word.floor_char_boundary(at + self.longest);
        let mut ends = (at + 1..=longest)
            .rev()
            .filter(|&end| word.is_char_boundary(end));
        ends.find_map(|end| self.find(&word[at..end], stands).map(|piece| (end, piece)))
    }
}

/// The same in every process: what is looked up was chosen before anything was asked.
fn hash(piece: &str, stands: Stands) -> u64 {
    let mut hasher = FixedState::with_seed(u64::from(stands == Stands::Later)).build_hasher();
    hasher.write(piece.as_bytes());
    hasher.finish()
}

fn lower(hash: u64) -> u32 {
    (hash & 0xffff_ffff) as u32
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

/// Cuts a text as BERT's basic tokenizer does: lower case, no accents, every punctuation mark a
/// word of its own, and every Chinese character unless told otherwise. `each` is called with each
/// word, and with where it stands in the text, in bytes.
///
/// Characters are decomposed (NFD) one by one, each together with the marks that follow it, for
/// only among marks does the order change.
pub(super) fn each_word(
    text: &str,
    ideographs: Ideographs,
    mut each: impl FnMut(&str, &Range<usize>),
) {
    let mut word = Word {
        ideographs,
        text: String::with_capacity(32),
        place: 0..0,
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
        let Some((at, c)) = letters.next() else { break };
        let mut place = start + at..start + at + c.len_utf8();
        if c.is_ascii() {
            word.take(c, &place, &mut each);
        } else {
            cluster.clear();
            cluster.push(c);
            for (at, mark) in letters.take_while(|&(_, mark)| canonical_combining_class(mark) != 0)
            {
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
            self.go_on_as(
                self.ideographs == Ideographs::Together && is_without_blanks(c),
                each,
            );
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
    fn push_str(
        &mut self,
        letters: &str,
        start: usize,
        each: &mut impl FnMut(&str, &Range<usize>),
    ) {
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
    c.is_ascii_punctuation()
        || (!c.is_ascii() && c.general_category_group() == GeneralCategoryGroup::Punctuation)
}

fn is_han(c: char) -> bool {
    matches!(u32::from(c),
        0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x2A6DF | 0x2A700..=0x2B81F
        | 0x2B920..=0x2CEAF | 0x2F800..=0x2FA1F)
}

/// Letters of scripts that put no blanks between words (Thai, Lao, Burmese, Khmer, kana and Chinese
/// characters), and pictures, which stand side by side as well.
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
                words.extend([
                    if alone { c.to_string() } else { String::new() },
                    String::new(),
                ]);
            } else if c.general_category() != GeneralCategory::NonspacingMark {
                let last = words.last().and_then(|word| word.chars().last());
                if together
                    && last.is_some_and(|last| is_without_blanks(last) != is_without_blanks(c))
                {
                    words.push(String::new());
                }
                words
                    .last_mut()
                    .expect("there is one")
                    .extend(c.to_lowercase());
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
        let vocabulary = vocabulary(&PIECES, 0);
        let text = "Read_Filesüb, UBER u\u{308}ber 查";
        let mut found = Vec::new();
        each_word(text, Ideographs::Apart, |word, range| {
            vocabulary.each_piece(word, |_| found.push(&text[range.clone()]));
        });
        assert_eq!(
            found,
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
        WordPieces::new(Cow::Owned(pieces.join("\n")), first).expect("they are few")
    }

    fn cut(text: &str) -> Vec<String> {
        vocabulary(&PIECES, 0)
            .cut(text)
            .iter()
            .map(|&piece| PIECES[piece as usize].to_owned())
            .collect()
    }

    #[test]
    fn words_are_cut_into_the_longest_pieces() {
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
    fn words_are_covered_or_not() {
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
            "any piece stands anywhere in a run"
        );
        assert_eq!(vocabulary.covering("你好"), None);
        assert_eq!(
            vocabulary
                .covering(&"文件".repeat(MAX_WORD_CHARS))
                .map(|found| found.len()),
            Some(MAX_WORD_CHARS)
        );
        assert_eq!(vocabulary.covering(&"read".repeat(MAX_WORD_CHARS)), None);
    }

    #[test]
    fn what_has_no_piece_is_passed_over() {
        assert_eq!(cut("readxyzs🚀 a"), ["read", "##s", "a"]);
        assert!(
            cut("🚀read").is_empty(),
            "what follows is no beginning of a word"
        );
        assert!(cut("").is_empty() && cut("🚀 ☃ жук").is_empty());
        assert!(
            cut(&"a".repeat(MAX_WORD_CHARS + 1)).is_empty(),
            "it is no word"
        );
        assert_eq!(cut(&"b".repeat(MAX_WORD_CHARS)).len(), MAX_WORD_CHARS);
        assert!(WordPieces::default().cut("anything").is_empty());
    }

    #[test]
    fn a_text_cannot_name_a_special_piece() {
        assert!(
            !cut("[CLS] [UNK]")
                .iter()
                .any(|piece| piece == "[CLS]" || piece == "[UNK]")
        );
        {
            let vocabulary = vocabulary(&PIECES, 0);
            assert_eq!(
                (vocabulary.number("[CLS]"), vocabulary.number("[SEP]")),
                (Some(1), None)
            );
        }
    }

    #[test]
    fn pieces_are_counted_once() {
        let vocabulary = vocabulary(&["a", "##a", "a", ""], 0);
        assert_eq!(vocabulary.len(), 3);
        assert_eq!(vocabulary.cut("aa").len(), 2);
    }
}
