//! Analysis of text into terms, the same for tools and requests.
//!
//! Tool names are identifiers (`read_file`, `getHTTPResponse`, `s3-put-object`) and requests are
//! prose, so both are split into words: at everything that is not a letter or digit, at a change of
//! case, and between letters and digits. Scripts without spaces (Chinese, Japanese, Thai, …) and
//! Hangul give overlapping pairs of characters, which needs no dictionary.
//!
//! Words are lower-cased, stripped of Latin accents and stemmed with the English Snowball stemmer.
//! Words of other languages change little, and alike in tools and requests. If the stemmer gives
//! words of different meanings the same stem, such as `terminate` and `terminal`, they get
//! different terms.

use std::borrow::Cow;
use std::cell::Cell;
use std::iter::Peekable;
use std::str::Chars;
use std::sync::LazyLock;

use foldhash::{HashMap, HashMapExt};
use frostem::{Algorithm, Stemmer};
use serde::Serialize;
use unicode_normalization::char::{decompose_compatible, is_combining_mark};

use crate::function_words::{is_stop_word, lower_case};

/// The length in bytes from which words are dropped.
const MAX_WORD_BYTES: usize = 64;
/// The most words that an analyzer caches before it clears the cache. They take a few megabytes.
const MAX_CACHED: usize = 1 << 15;
/// The fewest letters of a word that the vocabulary has.
const MIN_VOCABULARY_LETTERS: usize = 4;

/// Words with the same stem but different meanings (`models/train/stems`): for each stem, such
/// words and the terms that replace the stem.
static SPLIT_STEMS: LazyLock<HashMap<&str, Vec<(&str, &str)>>> = LazyLock::new(|| {
    let mut stems: HashMap<&str, Vec<(&str, &str)>> = HashMap::new();
    for line in include_str!("split_stems.txt").lines() {
        if line.starts_with('#') {
            continue;
        }
        let (stem, words) = line.split_once(' ').unwrap_or((line, ""));
        let term = words.split(' ').next().unwrap_or(words);
        let pairs = stems.entry(stem).or_default();
        for word in words.split(' ') {
            pairs.push((word, term));
        }
    }
    stems
});

/// Returns the term that replaces the stem of a word, if the word differs in meaning from other
/// words with the stem.
fn split_term(word: &str, stem: &str) -> Option<&'static str> {
    let mut pairs = SPLIT_STEMS.get(stem)?.iter();
    let (_, term) = pairs.find(|(other, _)| word.eq_ignore_ascii_case(other))?;
    Some(term)
}

/// The kind of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TermKind {
    /// One word.
    Word,
    /// An identifier of two or three words as one term, so that `github` finds `GitHub`.
    Identifier,
    /// Two consecutive words, ignoring stop words.
    Pair,
    /// A kind of value that the request contains and a parameter accepts.
    Value,
}

/// One term of a text.
pub(crate) struct AnalyzedTerm<'a> {
    /// The text in the index: a stem, or the two stems of a pair with a space between them.
    pub(crate) term: &'a str,
    pub(crate) kind: TermKind,
    /// The start of the term in the text, in bytes.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// An analyzer that splits texts into terms.
///
/// It caches the analysis of words, so using one analyzer for many texts is faster than using one
/// for each.
pub(crate) struct Analyzer {
    stemmer: Stemmer,
    cache: Vec<AnalyzedWord>,
    /// The index of each word in the cache.
    indexes: HashMap<Box<str>, usize>,
    /// The number of documents that began so far. Words of texts before them are not counted.
    documents: u32,
    /// The counts of words that the cache has no more, and of defined abbreviations.
    counts: WordCounts,
}

/// Words in lower case, each with the number of documents that contain one spelling of it, added up
/// over its spellings. An abbreviation that a text defines is one entry with its meaning.
pub(crate) type WordCounts = HashMap<Box<str>, u32>;

/// The most cached words that the analyzer of a thread keeps between uses. They take half a
/// megabyte.
const MAX_CACHED_BETWEEN_USES: usize = 1 << 12;

thread_local! {
    /// The analyzer of this thread, while it is not in use.
    static THREAD_ANALYZER: Cell<Option<Analyzer>> = const { Cell::new(None) };
}

/// The analysis of a word or identifier.
pub(crate) struct AnalyzedWord {
    stem: Box<str>,
    /// The term that replaces the stem.
    split_term: Option<&'static str>,
    is_stop_word: bool,
    /// The number of the last document that contains the word; 0 for an identifier.
    last_document: u32,
    /// The number of documents that contain the word.
    documents: u32,
}

impl Analyzer {
    pub(crate) fn new() -> Self {
        Self {
            stemmer: Stemmer::new(Algorithm::English),
            cache: Vec::new(),
            indexes: HashMap::new(),
            documents: 0,
            counts: HashMap::new(),
        }
    }

    /// Begins a document. The words of the texts that follow are counted as words of the document.
    pub(crate) fn begin_document(&mut self) {
        self.documents += 1;
    }

    /// Counts an abbreviation with its meaning, which a text of the document defines.
    pub(crate) fn count_definition(&mut self, definition: &str) {
        if self.documents > 0 {
            *self.counts.entry(definition.into()).or_default() += 1;
        }
    }

    /// Returns the counts of the documents, and begins anew.
    pub(crate) fn take_counts(&mut self) -> WordCounts {
        self.clear_cache();
        self.documents = 0;
        std::mem::take(&mut self.counts)
    }

    /// Clears the cache and adds up the counts of its words.
    fn clear_cache(&mut self) {
        for (word, index) in self.indexes.drain() {
            let documents = self.cache[index].documents;
            if documents > 0 && is_vocabulary_word(&word) {
                let word = lower_case(&word);
                match self.counts.get_mut(&*word) {
                    Some(count) => *count += documents,
                    None => drop(self.counts.insert(word.into(), documents)),
                }
            }
        }
        self.cache.clear();
    }

    /// Calls `analyze` with the analyzer of this thread. Requests repeat words, and so do the tools
    /// that serve them, so its cache often has them.
    pub(crate) fn lend<T>(analyze: impl FnOnce(&mut Self) -> T) -> T {
        let mut analyzer = THREAD_ANALYZER.take().unwrap_or_else(Self::new);
        let result = analyze(&mut analyzer);
        if analyzer.cache.len() > MAX_CACHED_BETWEEN_USES {
            (analyzer.cache, analyzer.indexes) = (Vec::new(), HashMap::new());
        }
        THREAD_ANALYZER.set(Some(analyzer));
        result
    }

    /// Calls `each` with the terms of `text`. A pair follows its second word. No pair crosses the
    /// end of a sentence.
    pub(crate) fn terms(&mut self, text: &str, mut each: impl FnMut(AnalyzedTerm<'_>)) {
        let mut pair = String::with_capacity(64);
        // The range of the last word that is not a stop word. Its stem is the start of `pair`.
        let mut last: Option<(usize, usize)> = None;
        for TermSpan {
            start,
            end,
            is_identifier,
        } in TermSpans::new(text)
        {
            if end - start >= MAX_WORD_BYTES {
                continue;
            }
            let documents = self.documents;
            let word = self.look_up(&text[start..end]);
            if is_identifier {
                each(AnalyzedTerm {
                    term: &word.stem,
                    kind: TermKind::Identifier,
                    start,
                    end,
                });
                continue;
            }
            if word.last_document != documents {
                word.last_document = documents;
                word.documents += 1;
            }
            let term = word.split_term.unwrap_or(&word.stem);
            each(AnalyzedTerm {
                term,
                kind: TermKind::Word,
                start,
                end,
            });
            if word.is_stop_word {
                continue;
            }
            if let Some((last_start, last_end)) = last
                && !text[last_end.min(start)..start].contains(ends_sentence)
            {
                pair.push(' ');
                pair.push_str(term);
                each(AnalyzedTerm {
                    term: &pair,
                    kind: TermKind::Pair,
                    start: last_start,
                    end,
                });
            }
            pair.clear();
            pair.push_str(term);
            last = Some((start, end));
        }
    }

    /// Returns the term of a single word.
    pub(crate) fn term(&mut self, word: &str) -> &str {
        let word = self.look_up(word);
        word.split_term.unwrap_or(&word.stem)
    }

    fn look_up(&mut self, word: &str) -> &mut AnalyzedWord {
        let index = self
            .indexes
            .get(word)
            .copied()
            .unwrap_or_else(|| self.analyze_word(word));
        &mut self.cache[index]
    }

    /// Analyses a word, adds it to the cache, and returns its index there.
    fn analyze_word(&mut self, word: &str) -> usize {
        if self.cache.len() >= MAX_CACHED {
            self.clear_cache();
        }
        let stem: Box<str> = self.stemmer.stem(&fold_word(word)).into();
        let split_term = split_term(word, &stem);
        self.indexes.insert(word.into(), self.cache.len());
        self.cache.push(AnalyzedWord {
            stem,
            split_term,
            is_stop_word: is_stop_word(word),
            last_document: 0,
            documents: 0,
        });
        self.cache.len() - 1
    }
}

/// Returns `true` if the vocabulary has the word.
fn is_vocabulary_word(word: &str) -> bool {
    word.chars().count() >= MIN_VOCABULARY_LETTERS
        && word.chars().all(char::is_alphabetic)
        && !word.contains(is_unspaced)
}

/// Returns a word in lower case, and without the accents of Latin letters.
pub(crate) fn fold_word(word: &str) -> Cow<'_, str> {
    if word.is_ascii() && !word.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Borrowed(word);
    }
    let mut folded = String::with_capacity(word.len());
    for c in word.chars().flat_map(char::to_lowercase) {
        if c.is_ascii() {
            folded.push(c);
        } else {
            push_folded(c, &mut folded);
        }
    }
    Cow::Owned(folded)
}

/// Appends a lower-case letter as ASCII, if it is a Latin letter with marks, a compatibility form
/// or a ligature; otherwise unchanged.
fn push_folded(c: char, folded: &mut String) {
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
    folded.push_str(ascii);
    if ascii.is_empty() {
        let start = folded.len();
        let mut is_latin = true;
        decompose_compatible(c, |part| {
            is_latin &= part.is_ascii_alphanumeric() || is_combining_mark(part);
            folded.extend(part.is_ascii().then(|| part.to_ascii_lowercase()));
        });
        if !is_latin || folded.len() == start {
            folded.truncate(start);
            folded.push(c);
        }
    }
}

fn ends_sentence(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | ';' | '\n' | '。' | '！' | '？')
}

/// Splits identifiers into their words: `readFile_v2` becomes `read File v 2`.
pub(crate) fn split_identifier(text: &str) -> String {
    let mut identifier_words = Vec::new();
    for (start, end) in words(text) {
        identifier_words.push(&text[start..end]);
    }
    identifier_words.join(" ")
}

/// The range of a word or identifier in a text.
struct TermSpan {
    start: usize,
    end: usize,
    is_identifier: bool,
}

/// An iterator over the [`words`] of a text. After the words of an identifier of two or three words
/// it returns the identifier.
struct TermSpans<'a> {
    text: &'a str,
    words: Peekable<WordRanges<'a>>,
    /// The start, end and number of the latest words without a gap between them.
    run: (usize, usize, usize),
}

impl<'a> TermSpans<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            words: words(text).peekable(),
            run: (0, 0, 0),
        }
    }
}

impl Iterator for TermSpans<'_> {
    type Item = TermSpan;

    fn next(&mut self) -> Option<TermSpan> {
        let (run_start, run_end, count) = self.run;
        let continues = self
            .words
            .peek()
            .is_some_and(|&(start, _)| start <= run_end);
        if (2..=3).contains(&count) && !continues {
            self.run = (0, 0, 0);
            if !self.text[run_start..run_end].contains(is_unspaced) {
                return Some(TermSpan {
                    start: run_start,
                    end: run_end,
                    is_identifier: true,
                });
            }
        }
        let (start, end) = self.words.next()?;
        self.run = if continues && count > 0 {
            (run_start, end, count + 1)
        } else {
            (start, end, 1)
        };
        Some(TermSpan {
            start,
            end,
            is_identifier: false,
        })
    }
}

/// Returns the byte ranges of the words of `text`.
pub(crate) fn words(text: &str) -> WordRanges<'_> {
    WordRanges { text, position: 0 }
}

/// An iterator over the byte ranges of the words of a text.
pub(crate) struct WordRanges<'a> {
    text: &'a str,
    position: usize,
}

impl Iterator for WordRanges<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        let rest = &self.text[self.position..];
        let start = self.position + rest.find(char::is_alphanumeric)?;
        let mut letters = self.text[start..].chars();
        let first = letters.next()?;
        let after_first = start + first.len_utf8();
        if is_unspaced(first) {
            return Some(match letters.next() {
                Some(second) if is_unspaced(second) => {
                    let after_second = after_first + second.len_utf8();
                    // The next pair starts at the second character, unless the run ends with this
                    // pair.
                    let continues = letters.next().is_some_and(is_unspaced);
                    self.position = if continues { after_first } else { after_second };
                    (start, after_second)
                }
                _ => {
                    self.position = after_first;
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
        self.position = end;
        Some((start, end))
    }
}

/// Returns `true` if a word ends between `previous` and `current`. `rest` is the text after
/// `current`.
fn is_boundary(previous: char, current: char, mut rest: Chars<'_>) -> bool {
    // A fast path for most letters.
    if previous.is_ascii_lowercase() && current.is_ascii_lowercase() {
        return false;
    }
    !current.is_alphanumeric()
        || is_unspaced(current)
        || previous.is_numeric() != current.is_numeric()
        || (previous.is_lowercase() && current.is_uppercase())
        // `HTTPResponse`: the last capital before a lowercase letter starts a word.
        || (previous.is_uppercase()
            && current.is_uppercase()
            && rest.next().is_some_and(char::is_lowercase))
}

/// Returns `true` for letters of scripts without spaces between words, and for Hangul, whose words
/// have particles attached.
pub(crate) fn is_unspaced(c: char) -> bool {
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
        Analyzer::new().terms("Réservations of listFiles. Ran", |term| {
            terms.push((term.term.to_owned(), term.kind));
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
    fn words_with_equal_stem_and_different_meaning_are_distinct() {
        let term = |word: &str| {
            let mut terms = Vec::new();
            Analyzer::new().terms(word, |term| terms.push(term.term.to_owned()));
            terms.join(" ")
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
                assert_ne!(first, stem, "{word} is not distinguished");
            }
        }
    }

    #[test]
    fn letters_are_lower_case_and_without_accents() {
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
            assert_eq!(fold_word(word), expected, "{word}");
        }
    }

    proptest! {
        #[test]
        fn cached_words_give_the_same_terms(
            texts in prop::collection::vec("(the |read|Files|s3|é|[.]| ){0,8}", 1..5),
        ) {
            let terms = |analyzer: &mut Analyzer, text: &str| {
                let mut terms = Vec::new();
                analyzer.terms(text, |AnalyzedTerm { term, kind, start, end }| {
                    terms.push((term.to_owned(), kind, start, end));
                });
                terms
            };
            let mut reused = Analyzer::new();
            for text in &texts {
                prop_assert_eq!(terms(&mut reused, text), terms(&mut Analyzer::new(), text));
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
