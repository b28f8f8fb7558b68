//! From text to terms, the same for tools and requests.
//!
//! Tool names are identifiers (`read_file`, `getHTTPResponse`, `s3-put-object`) and requests are prose, so both
//! are cut into words: at everything that is no letter or digit, at a change of case, and between letters and
//! digits. Scripts written without spaces (Chinese, Japanese, Thai, …) and Hangul give overlapping pairs of
//! characters, which needs no dictionary. Words are lower-cased, stripped of Latin accents and stemmed with the
//! English Snowball stemmer; on other languages the stemmer does little, and does it alike on both sides. Where it takes
//! words of different meanings for one, such as `terminate` and `terminal`, they stay apart.

use std::iter::Peekable;
use std::sync::LazyLock;

use foldhash::{HashMap, HashMapExt};
use serde::Serialize;
use tantivy::tokenizer::{
    AsciiFoldingFilter, Language, LowerCaser, RemoveLongFilter, Stemmer, TextAnalyzer, Token, TokenStream, Tokenizer,
};

use crate::function_words::is_stop_word;

/// Words of more bytes than this are no words and are dropped.
const MAX_WORD_BYTES: usize = 64;

/// Words of one stem that have no meaning in common (`models/train/stems`): of each stem, words and what stands for them
/// in its place.
static SPLIT_STEMS: LazyLock<HashMap<&str, Vec<(&str, &str)>>> = LazyLock::new(|| {
    let mut stems: HashMap<&str, Vec<(&str, &str)>> = HashMap::new();
    for line in include_str!("split_stems.txt").lines().filter(|line| !line.starts_with('#')) {
        let (stem, words) = line.split_once(' ').unwrap_or((line, ""));
        let first = words.split(' ').next().unwrap_or(words);
        stems.entry(stem).or_default().extend(words.split(' ').map(|word| (word, first)));
    }
    stems
});

/// Returns the term of a word: its stem, unless it has nothing but that in common with others.
fn term<'a>(word: &str, stem: &'a str) -> &'a str {
    let mut split = SPLIT_STEMS.get(stem).into_iter().flatten();
    split.find(|(other, _)| word.eq_ignore_ascii_case(other)).map_or(stem, |&(_, term)| term)
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

/// Turns texts into terms.
pub(crate) struct Analyzer(TextAnalyzer);

impl Analyzer {
    pub(crate) fn new() -> Self {
        Self(
            TextAnalyzer::builder(WordTokenizer)
                .filter(RemoveLongFilter::limit(MAX_WORD_BYTES))
                .filter(LowerCaser)
                .filter(AsciiFoldingFilter)
                .filter(Stemmer::new(Language::English))
                .build(),
        )
    }

    /// Calls `each` with the terms of `text`. A pair follows its second word and does not reach over the end of a
    /// sentence.
    pub(crate) fn terms(&mut self, text: &str, mut each: impl FnMut(AnalyzedTerm<'_>)) {
        let mut pair = String::new();
        // The last word that is not a stop word: its stem opens `pair`, and this is where it stands.
        let mut last: Option<(usize, usize)> = None;
        self.0.token_stream(text).process(&mut |token| {
            let (start, end) = (token.offset_from, token.offset_to);
            if token.position_length > 1 {
                return each(AnalyzedTerm { term: &token.text, kind: TermKind::Identifier, start, end });
            }
            let term = term(&text[start..end], &token.text);
            each(AnalyzedTerm { term, kind: TermKind::Word, start, end });
            if is_stop_word(&text[start..end]) {
                return;
            }
            if let Some((first, gap)) = last
                && !text[gap.min(start)..start].contains(ends_sentence)
            {
                pair.push(' ');
                pair.push_str(term);
                each(AnalyzedTerm { term: &pair, kind: TermKind::Pair, start: first, end });
            }
            pair.clear();
            pair.push_str(term);
            last = Some((start, end));
        });
    }
}

fn ends_sentence(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | ';' | '\n' | '。' | '！' | '？')
}

/// Cuts identifiers into their words: `readFile_v2` becomes `read File v 2`.
pub(crate) fn split_identifier(text: &str) -> String {
    words(text).map(|(start, end)| &text[start..end]).collect::<Vec<_>>().join(" ")
}

/// The tokenizer in front of the filters: [`words`], and after the words of an identifier of two or three the
/// identifier as a whole, which spans as many positions.
#[derive(Clone)]
struct WordTokenizer;

struct WordStream<'a> {
    text: &'a str,
    words: Peekable<Words<'a>>,
    /// Range of the words so far that stand without a gap, and how many they are.
    run: (usize, usize, usize),
    token: Token,
}

impl Tokenizer for WordTokenizer {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        WordStream { text, words: words(text).peekable(), run: (0, 0, 0), token: Token::default() }
    }
}

impl WordStream<'_> {
    fn emit(&mut self, start: usize, end: usize, words: usize) -> bool {
        self.token.offset_from = start;
        self.token.offset_to = end;
        self.token.position_length = words;
        self.token.position = self.token.position.wrapping_add(1);
        self.token.text.clear();
        self.token.text.push_str(&self.text[start..end]);
        true
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        let (run_start, run_end, count) = self.run;
        let goes_on = self.words.peek().is_some_and(|&(start, _)| start <= run_end);
        if (2..=3).contains(&count) && !goes_on {
            self.run = (0, 0, 0);
            if !self.text[run_start..run_end].contains(is_unspaced) {
                return self.emit(run_start, run_end, count);
            }
        }
        let Some((start, end)) = self.words.next() else {
            return false;
        };
        self.run = if goes_on && count > 0 { (run_start, end, count + 1) } else { (start, end, 1) };
        self.emit(start, end, 1)
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
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
                    // The next pair starts at the second character, unless the run ends with this pair.
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
            if is_boundary(previous, current, letters.clone().next()) {
                break;
            }
            end += current.len_utf8();
            previous = current;
        }
        self.at = end;
        Some((start, end))
    }
}

/// Returns `true` if a word ends between `previous` and `current`.
fn is_boundary(previous: char, current: char, next: Option<char>) -> bool {
    !current.is_alphanumeric()
        || is_unspaced(current)
        || previous.is_numeric() != current.is_numeric()
        || (previous.is_lowercase() && current.is_uppercase())
        // `HTTPResponse`: the last capital before a lowercase letter starts a word.
        || (previous.is_uppercase() && current.is_uppercase() && next.is_some_and(char::is_lowercase))
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

    fn split(text: &str) -> Vec<&str> {
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
            assert_eq!(split(text), expected, "{text}");
        }
    }

    #[test]
    fn terms_are_folded_stemmed_and_paired() {
        let mut terms = Vec::new();
        Analyzer::new().terms("Réservations of listFiles. Ran", |term| terms.push((term.term.to_owned(), term.kind)));
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
        for (one, other) in [("terminate", "Terminal"), ("customers", "custom"), ("content", "contention")] {
            assert_ne!(term(one), term(other), "{one} {other}");
        }
        for (one, other) in [("terminates", "termination"), ("TERMINALS", "terminal"), ("customer", "Customers")] {
            assert_eq!(term(one), term(other), "{one} {other}");
        }
        assert_eq!(term("terminals running"), "terminal run terminal run", "a pair has the terms of its words");
        let mut stemmer = TextAnalyzer::builder(WordTokenizer).filter(Stemmer::new(Language::English)).build();
        for (stem, words) in SPLIT_STEMS.iter() {
            for (word, first) in words {
                stemmer.token_stream(word).process(&mut |token| assert_eq!(&token.text, stem, "{word}"));
                assert_ne!(first, stem, "{word} is not told apart");
            }
        }
    }

    proptest! {
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
