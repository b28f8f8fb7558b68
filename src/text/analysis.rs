//! From text to terms, the same for tools and requests.
//!
//! Tool names are identifiers (`read_file`, `getHTTPResponse`, `s3-put-object`) and requests are
//! prose, so both are cut into words: at everything that is no letter or digit, at a change of
//! case, and between letters and digits. Scripts written without spaces (Chinese, Japanese, Thai,
//! …) and Hangul give overlapping pairs of characters, which needs no dictionary. Words are
//! lower-cased, stripped of Latin accents and stemmed with the English Snowball stemmer; on other
//! languages the stemmer does little, and does it alike on both sides. Where it takes words of
//! different meanings for one, such as `terminate` and `terminal`, they stay apart.

use std::cell::Cell;
use std::iter::Peekable;
use std::str::Chars;
use std::sync::LazyLock;

use foldhash::{HashMap, HashMapExt};
use frostem::{Algorithm, Stemmer};
use serde::Serialize;
use unicode_normalization::char::{decompose_compatible, is_combining_mark};

use crate::function_words::is_stop_word;

/// Words of so many bytes or more are no words and are dropped.
const MAX_WORD_BYTES: usize = 64;
/// How many words an analyzer knows the stems of before it starts afresh; they take a few
/// megabytes.
const MOST_KNOWN: usize = 1 << 15;

/// Words of one stem that have no meaning in common (`models/train/stems`): of each stem, words and
/// what stands for them in its place.
static SPLIT_STEMS: LazyLock<HashMap<&str, Vec<(&str, &str)>>> = LazyLock::new(|| {
    let mut stems: HashMap<&str, Vec<(&str, &str)>> = HashMap::new();
    for line in include_str!("split_stems.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let (stem, words) = line.split_once(' ').unwrap_or((line, ""));
        let first = words.split(' ').next().unwrap_or(words);
        stems
            .entry(stem)
            .or_default()
            .extend(words.split(' ').map(|word| (word, first)));
    }
    stems
});

/// Returns what stands for a word in place of its stem, where it has nothing but that in common
/// with others.
fn split(word: &str, stem: &str) -> Option<&'static str> {
    let mut split = SPLIT_STEMS.get(stem).into_iter().flatten();
    split
        .find(|(other, _)| word.eq_ignore_ascii_case(other))
        .map(|&(_, term)| term)
}

/// What a term stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TermKind {
    /// One word.
    Word,
    /// An identifier of two or three words as a whole, so that `github` finds `GitHub`.
    Identifier,
    /// Two words that follow each other, stop words aside.
    Pair,
    /// A kind of value that the request has and a parameter takes.
    Value,
}

/// One term of a text.
pub(crate) struct AnalyzedTerm<'a> {
    /// What the index holds: a stem, or the two stems of a pair with a space between.
    pub(crate) term: &'a str,
    pub(crate) kind: TermKind,
    /// Where it stands in the text, in bytes.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Turns texts into terms. It remembers the stems of words, so that one for many texts is quicker
/// than one for each.
pub(crate) struct Analyzer {
    stemmer: Stemmer,
    known: Vec<Known>,
    /// Where each word stands among the known ones.
    places: HashMap<Box<str>, usize>,
}

/// How many words the analyzer of a thread knows from one text to the next; they take half a
/// megabyte.
const MOST_KEPT: usize = 1 << 12;

thread_local! {
    /// The analyzer of this thread, while nobody uses it.
    static KEPT: Cell<Option<Analyzer>> = const { Cell::new(None) };
}

/// What becomes of a word or identifier.
pub(crate) struct Known {
    stem: Box<str>,
    /// What stands for the word in place of its stem.
    split: Option<&'static str>,
    is_stop_word: bool,
}

impl Analyzer {
    pub(crate) fn new() -> Self {
        Self {
            stemmer: Stemmer::new(Algorithm::English),
            known: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Lends the analyzer of this thread, for a few texts: requests repeat words, and so do the
    /// tools that answer them.
    pub(crate) fn lend<T>(use_it: impl FnOnce(&mut Self) -> T) -> T {
        let mut analyzer = KEPT.take().unwrap_or_else(Self::new);
        let given = use_it(&mut analyzer);
        if analyzer.known.len() > MOST_KEPT {
            (analyzer.known, analyzer.places) = (Vec::new(), HashMap::new());
        }
        KEPT.set(Some(analyzer));
        given
    }

    /// Calls `each` with the terms of `text`. A pair follows its second word and does not reach
    /// over the end of a sentence.
    pub(crate) fn terms(&mut self, text: &str, mut each: impl FnMut(AnalyzedTerm<'_>)) {
        let mut pair = String::with_capacity(64);
        // The last word that is not a stop word: its stem opens `pair`, and this is where it
        // stands.
        let mut last: Option<(usize, usize)> = None;
        for Piece {
            start,
            end,
            is_identifier,
        } in Pieces::new(text)
        {
            if end - start >= MAX_WORD_BYTES {
                continue;
            }
            let known = self.known(&text[start..end]);
            if is_identifier {
                each(AnalyzedTerm {
                    term: &known.stem,
                    kind: TermKind::Identifier,
                    start,
                    end,
                });
                continue;
            }
            let term = known.split.unwrap_or(&known.stem);
            each(AnalyzedTerm {
                term,
                kind: TermKind::Word,
                start,
                end,
            });
            if known.is_stop_word {
                continue;
            }
            if let Some((first, gap)) = last
                && !text[gap.min(start)..start].contains(ends_sentence)
            {
                pair.push(' ');
                pair.push_str(term);
                each(AnalyzedTerm {
                    term: &pair,
                    kind: TermKind::Pair,
                    start: first,
                    end,
                });
            }
            pair.clear();
            pair.push_str(term);
            last = Some((start, end));
        }
    }

    fn known(&mut self, word: &str) -> &Known {
        let place = self
            .places
            .get(word)
            .copied()
            .unwrap_or_else(|| self.learn(word));
        &self.known[place]
    }

    /// Finds out what becomes of a word, and returns its place.
    fn learn(&mut self, word: &str) -> usize {
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
            self.places.clear();
        }
        let stem: Box<str> = self.stemmer.stem(&plain(word)).into();
        let split = split(word, &stem);
        self.places.insert(word.into(), self.known.len());
        self.known.push(Known {
            stem,
            split,
            is_stop_word: is_stop_word(word),
        });
        self.known.len() - 1
    }
}

/// Returns a word in small letters, those of the Latin alphabet without accents.
fn plain(word: &str) -> String {
    let mut plain = String::with_capacity(word.len());
    for c in word.chars().flat_map(char::to_lowercase) {
        if c.is_ascii() {
            plain.push(c);
        } else {
            push_plain(c, &mut plain);
        }
    }
    plain
}

/// Adds a letter in small ASCII letters, if it is one of these with marks or in another form, or
/// stands for some of them; else as it is.
fn push_plain(c: char, plain: &mut String) {
    let ascii = match c {
        'æ' => "ae",
        'œ' => "oe",
        'ß' => "ss",
        'þ' => "th",
        'ə' => "a",
        'ɓ' => "b",
        'đ' | 'ð' | 'ɗ' => "d",
        'ǝ' | 'ɛ' => "e",
        'ǥ' => "g",
        'ħ' => "h",
        'ı' => "i",
        'ƙ' => "k",
        'ł' | 'ŀ' => "l",
        'ŋ' | 'ŉ' => "n",
        'ø' | 'ɔ' => "o",
        'ŧ' => "t",
        'ƴ' => "y",
        'ƶ' => "z",
        _ => "",
    };
    plain.push_str(ascii);
    if ascii.is_empty() {
        let start = plain.len();
        let mut is_plain = true;
        decompose_compatible(c, |part| {
            is_plain &= part.is_ascii_alphanumeric() || is_combining_mark(part);
            plain.extend(part.is_ascii().then(|| part.to_ascii_lowercase()));
        });
        if !is_plain || plain.len() == start {
            plain.truncate(start);
            plain.push(c);
        }
    }
}

fn ends_sentence(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | ';' | '\n' | '。' | '！' | '？')
}

/// Cuts identifiers into their words: `readFile_v2` becomes `read File v 2`.
pub(crate) fn split_identifier(text: &str) -> String {
    words(text)
        .map(|(start, end)| &text[start..end])
        .collect::<Vec<_>>()
        .join(" ")
}

/// A part of a text that is a term.
struct Piece {
    start: usize,
    end: usize,
    is_identifier: bool,
}

/// The [`words`] of a text, and after the words of an identifier of two or three the identifier as
/// a whole.
struct Pieces<'a> {
    text: &'a str,
    words: Peekable<Words<'a>>,
    /// Range of the words so far that stand without a gap, and how many they are.
    run: (usize, usize, usize),
}

impl<'a> Pieces<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            words: words(text).peekable(),
            run: (0, 0, 0),
        }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let (run_start, run_end, count) = self.run;
        let goes_on = self
            .words
            .peek()
            .is_some_and(|&(start, _)| start <= run_end);
        if (2..=3).contains(&count) && !goes_on {
            self.run = (0, 0, 0);
            if !self.text[run_start..run_end].contains(is_unspaced) {
                return Some(Piece {
                    start: run_start,
                    end: run_end,
                    is_identifier: true,
                });
            }
        }
        let (start, end) = self.words.next()?;
        self.run = if goes_on && count > 0 {
            (run_start, end, count + 1)
        } else {
            (start, end, 1)
        };
        Some(Piece {
            start,
            end,
            is_identifier: false,
        })
    }
}

/// Returns the byte ranges of the words of `text`.
pub(crate) fn words(text: &str) -> Words<'_> {
    Words { text, at: 0 }
}

pub(crate) struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Words<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        let rest = &self.text[self.at..];
        let start = self.at + rest.find(char::is_alphanumeric)?;
        let mut letters = self.text[start..].chars();
        let first = letters.next()?;
        let after_first = start + first.len_utf8();
        if is_unspaced(first) {
            return Some(match letters.next() {
                Some(second) if is_unspaced(second) => {
                    let after_second = after_first + second.len_utf8();
                    // The next pair starts at the second character, unless the run ends with this
                    // pair.
                    let goes_on = letters.next().is_some_and(is_unspaced);
                    self.at = if goes_on { after_first } else { after_second };
                    (start, after_second)
                }
                _ => {
                    self.at = after_first;
                    (start, after_first)
                }
            });
        }
        let mut end = after_first;
        let mut previous = first;
        while let Some(current) = letters.next() {
            if is_boundary(previous, current, letters.clone()) {
                break;
            }
            end += current.len_utf8();
            previous = current;
        }
        self.at = end;
        Some((start, end))
    }
}

/// Returns `true` if a word ends between `previous` and `current`, which `behind` follows.
fn is_boundary(previous: char, current: char, mut behind: Chars<'_>) -> bool {
    // Most letters are told at a glance.
    if previous.is_ascii_lowercase() && current.is_ascii_lowercase() {
        return false;
    }
    !current.is_alphanumeric()
        || is_unspaced(current)
        || previous.is_numeric() != current.is_numeric()
        || (previous.is_lowercase() && current.is_uppercase())
        // `HTTPResponse`: the last capital before a lowercase letter starts a word.
        || (previous.is_uppercase() && current.is_uppercase() && behind.next().is_some_and(char::is_lowercase))
}

/// Scripts whose words are not set apart by spaces, and Hangul, whose words carry particles.
fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF        // Thai, Lao
        | 0x1000..=0x109F      // Myanmar
        | 0x1100..=0x11FF      // Hangul letters
        | 0x1780..=0x17FF      // Khmer
        | 0x3040..=0x30FF      // Hiragana, Katakana
        | 0x3400..=0x4DBF      // Han, extension A
        | 0x4E00..=0x9FFF      // Han
        | 0xAC00..=0xD7AF      // Hangul syllables
        | 0xF900..=0xFAFF      // Han, compatibility
        | 0x20000..=0x3FFFF    // Han, further extensions
    ) && c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(text: &str) -> Vec<&str> {
        words(text).map(|(start, end)| &text[start..end]).collect()
    }

    #[test]
    fn identifiers_split_at_case_digits_and_punctuation() {
        for (text, expected) in [
            ("read_file", vec!["read", "file"]),
            ("terminalRun", vec!["terminal", "Run"]),
            ("getHTTPResponse", vec!["get", "HTTP", "Response"]),
            ("s3-put.object", vec!["s", "3", "put", "object"]),
            ("OAuth2Token", vec!["O", "Auth", "2", "Token"]),
            ("Überweisung ausführen!", vec!["Überweisung", "ausführen"]),
            ("查询订单abc", vec!["查询", "询订", "订单", "abc"]),
            ("猫 and 犬", vec!["猫", "and", "犬"]),
            ("날씨를", vec!["날씨", "씨를"]),
            ("🚀 …", vec![]),
        ] {
            assert_eq!(cut(text), expected, "{text}");
        }
    }

    #[test]
    fn terms_are_folded_stemmed_and_paired() {
        let mut terms = Vec::new();
        Analyzer::new().terms("Réservations of listFiles. Ran", |term| {
            terms.push((term.term.to_owned(), term.kind))
        });
        let expected = [
            ("reserv", TermKind::Word),
            ("of", TermKind::Word),
            ("list", TermKind::Word),
            ("reserv list", TermKind::Pair),
            ("file", TermKind::Word),
            ("list file", TermKind::Pair),
            ("listfil", TermKind::Identifier),
            ("ran", TermKind::Word),
        ];
        assert_eq!(terms, expected.map(|(term, kind)| (term.to_owned(), kind)));
    }

    #[test]
    fn words_that_only_share_a_stem_are_different_terms() {
        let term = |word: &str| {
            let mut found = Vec::new();
            Analyzer::new().terms(word, |term| found.push(term.term.to_owned()));
            found.join(" ")
        };
        for (one, other) in [
            ("terminate", "Terminal"),
            ("customers", "custom"),
            ("content", "contention"),
        ] {
            assert_ne!(term(one), term(other), "{one} {other}");
        }
        for (one, other) in [
            ("terminates", "termination"),
            ("TERMINALS", "terminal"),
            ("customer", "Customers"),
        ] {
            assert_eq!(term(one), term(other), "{one} {other}");
        }
        assert_eq!(
            term("terminals running"),
            "terminal run terminal run",
            "a pair has the terms of its words"
        );
        let stemmer = Stemmer::new(Algorithm::English);
        for (stem, words) in SPLIT_STEMS.iter() {
            for (word, first) in words {
                assert_eq!(stemmer.stem(word), *stem, "{word}");
                assert_ne!(first, stem, "{word} is not told apart");
            }
        }
    }

    #[test]
    fn letters_are_small_and_plain() {
        for (word, expected) in [
            ("Größe", "grosse"),
            ("ŁÓDŹ", "lodz"),
            ("Ærø", "aero"),
            ("Þingvellir", "thingvellir"),
            ("ﬁle", "file"),
            ("ＡＢ１２", "ab12"),
            ("x²", "x2"),
            ("Việt", "viet"),
            ("e\u{301}te\u{301}", "e\u{301}te\u{301}"),
            ("Привет", "привет"),
            ("が한ώ", "が한ώ"),
            ("½", "½"),
        ] {
            assert_eq!(plain(word), expected, "{word}");
        }
    }

    proptest! {
        #[test]
        fn an_analyzer_that_knows_words_says_what_a_new_one_says(texts in prop::collection::vec("(the |read|Files|s3|é|[.]| ){0,8}", 1..5)) {
            let terms = |analyzer: &mut Analyzer, text: &str| {
                let mut terms = Vec::new();
                analyzer.terms(text, |AnalyzedTerm { term, kind, start, end }| {
                    terms.push((term.to_owned(), kind, start, end));
                });
                terms
            };
            let mut known = Analyzer::new();
            for text in &texts {
                prop_assert_eq!(terms(&mut known, text), terms(&mut Analyzer::new(), text));
            }
        }

        #[test]
        fn words_are_ordered_ranges_of_letters_and_digits(text in "\\PC{0,40}") {
            let mut last = 0;
            for (start, end) in words(&text) {
                prop_assert!(start >= last && end > start);
                prop_assert!(text[start..end].chars().all(char::is_alphanumeric));
                last = start;
            }
        }
    }
}
