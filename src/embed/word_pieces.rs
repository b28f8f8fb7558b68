//! Cutting a text into the pieces of a vocabulary, as both models of our own were trained: BERT's basic tokenizer,
//! then for each word the longest piece that fits, again and again (WordPiece).

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
    pub(super) fn new(pieces: impl Iterator<Item = Cow<'static, str>>) -> Self {
        let mut vocabulary = Self::default();
        for (number, piece) in (0..).zip(pieces) {
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

    /// Returns the number of a piece that begins a word, or stands for something else, such as `[CLS]`.
    #[cfg(feature = "tuned")]
    pub(super) fn number(&self, piece: &str) -> Option<u32> {
        self.starts.get(piece).copied()
    }

    /// Returns the pieces of `text`; a character that no piece begins with is passed over.
    #[cfg(any(feature = "tuned", test))]
    pub(super) fn cut(&self, text: &str) -> Vec<u32> {
        let mut pieces = Vec::new();
        self.each_piece(text, |piece, _| pieces.push(piece));
        pieces
    }

    /// Calls `each` with the pieces of `text`, and with where the word stands, in bytes, that a piece is a part of.
    pub(super) fn each_piece(&self, text: &str, mut each: impl FnMut(u32, &Range<usize>)) {
        each_word(text, |word, range| {
            if word.len() > MAX_WORD_CHARS && word.chars().count() > MAX_WORD_CHARS {
                return;
            }
            let mut at = 0;
            while at < word.len() {
                let known = if at == 0 { &self.starts } else { &self.continuations };
                let longest = word.floor_char_boundary(at + self.longest);
                let ends = (at + 1..=longest).rev().filter(|&end| word.is_char_boundary(end));
                let found = ends.filter_map(|end| known.get(&word[at..end]).map(|&piece| (end, piece))).next();
                match found {
                    Some((end, piece)) => {
                        each(piece, range);
                        at = end;
                    }
                    None => at = word.ceil_char_boundary(at + 1),
                }
            }
        });
    }

    #[cfg(test)]
    pub(super) fn names(&self) -> HashMap<u32, String> {
        let starts = self.starts.iter().map(|(piece, number)| (*number, piece.to_string()));
        starts.chain(self.continuations.iter().map(|(piece, number)| (*number, format!("##{piece}")))).collect()
    }
}

fn without_mark(piece: Cow<'static, str>) -> Cow<'static, str> {
    match piece {
        Cow::Borrowed(piece) => Cow::Borrowed(&piece[CONTINUATION.len()..]),
        Cow::Owned(piece) => Cow::Owned(piece[CONTINUATION.len()..].to_owned()),
    }
}

/// Cuts a text as BERT's basic tokenizer does: lower case, no accents, every punctuation mark and Chinese character
/// a word of its own. `each` is called with each word, and with where it stands in the text, in bytes.
///
/// Characters are decomposed (NFD) one by one, each together with the marks that follow it, for only among marks
/// does the order change.
fn each_word(text: &str, mut each: impl FnMut(&str, &Range<usize>)) {
    let mut word = Word::default();
    let mut cluster = String::new();
    let mut start = 0;
    while start < text.len() {
        let run = text[start..].bytes().take_while(u8::is_ascii_alphanumeric).count();
        if run > 0 {
            word.push_str(&text[start..start + run], start);
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
#[derive(Default)]
struct Word {
    text: String,
    place: Range<usize>,
}

impl Word {
    /// Reads a decomposed character, which comes from `place` in the text.
    fn take(&mut self, c: char, place: &Range<usize>, each: &mut impl FnMut(&str, &Range<usize>)) {
        if c.is_whitespace() {
            self.end(each);
        } else if is_punctuation(c) || is_han(c) {
            self.end(each);
            self.push([c], place);
            self.end(each);
        } else {
            let letters = (c.general_category() != GeneralCategory::NonspacingMark).then(|| c.to_lowercase());
            self.push(letters.into_iter().flatten(), place);
        }
    }

    /// Reads letters and digits of ASCII, which stand at `start`.
    fn push_str(&mut self, letters: &str, start: usize) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// BERT's basic tokenizer as its authors describe it: the whole text is decomposed first.
    fn naive_words(text: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        for c in text.chars().filter(|&c| !is_noise(c)).nfd() {
            let alone = is_punctuation(c) || is_han(c);
            if alone || c.is_whitespace() {
                words.extend([if alone { c.to_string() } else { String::new() }, String::new()]);
            } else if c.general_category() != GeneralCategory::NonspacingMark {
                words.last_mut().expect("there is one").extend(c.to_lowercase());
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    proptest! {
        #[test]
        fn words_are_those_of_the_definition_and_stand_where_they_are_said_to(
            text in "([a-zA-Z_.]{1,3}|[éÜ査查한각] ?|\\PC|[\u{300}\u{302e}\u{1d165}\u{1d16d}\u{0}]){0,12}",
        ) {
            let mut words = Vec::new();
            let mut last = 0;
            each_word(&text, |word, range| {
                assert!(range.start >= last, "{text:?}: {range:?} comes after {last}");
                assert!(naive_words(&text[range.clone()]).contains(&word.to_owned()), "{text:?}: {word} at {range:?}");
                last = range.start;
                words.push(word.to_owned());
            });
            prop_assert_eq!(words, naive_words(&text));
        }
    }

    #[test]
    fn pieces_know_where_their_word_stands() {
        let vocabulary = WordPieces::new(PIECES.into_iter().map(Cow::Borrowed));
        let text = "Read_Filesüb, UBER u\u{308}ber 查";
        let mut found = Vec::new();
        vocabulary.each_piece(text, |_, range| found.push(&text[range.clone()]));
        assert_eq!(found, ["Read", "_", "Filesüb", "Filesüb", "Filesüb", "UBER", "u\u{308}ber", "查"]);
    }

    const PIECES: [&str; 17] = [
        "[UNK]", "[CLS]", "##", "#", "read", "file", "##s", "##file", "a", "b", "##b", "ab", ".", "_", "uber", "查",
        "[",
    ];

    fn cut(text: &str) -> Vec<String> {
        let vocabulary = WordPieces::new(PIECES.into_iter().map(Cow::Borrowed));
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
            let vocabulary = WordPieces::new(PIECES.into_iter().map(Cow::Borrowed));
            assert_eq!((vocabulary.number("[CLS]"), vocabulary.number("[SEP]")), (Some(1), None));
        }
    }

    #[test]
    fn pieces_are_counted_once() {
        let vocabulary = WordPieces::new(["a", "##a", "a", ""].into_iter().map(|piece| Cow::Owned(piece.to_owned())));
        assert_eq!(vocabulary.len(), 3);
        assert_eq!(vocabulary.cut("aa").len(), 2);
    }
}
