//! Masking of requests: names, numbers, quoted strings, addresses, paths and ids are replaced by a
//! mark. An example is shown to other users, so it must not identify anyone. The next request will
//! have other values anyway.
//!
//! There is no list of names. A name is recognised by a capital letter that grammar does not
//! require. So lower-case names stay. A name at the start of a sentence stays too, unless a
//! vocabulary is given and lacks the word. A word of the catalog's tools ("GitHub", "S3") is not
//! private.

use std::collections::HashSet;

use crate::catalog::Catalog;
use crate::excerpt::one_line;
use crate::function_words::is_stop_word;
use crate::saved::SavedError;
use crate::text::{texts, words};

/// The mark in place of hidden text. It has no letter, so no retriever reads it.
pub(super) const MASK: &str = "…";
/// The length of the part of a request that is read, in characters.
const MAX_READ_CHARS: usize = 4_000;
/// The length of an abbreviation in capitals, in characters.
const MAX_ABBREVIATION_CHARS: usize = 5;

/// The length of a title or initial before a full stop, such as `Dr.`, in characters.
const MAX_TITLE_CHARS: usize = 3;

/// Pairs of quotation marks; the marks that are also apostrophes come last.
const QUOTES: [(char, char); 9] = [
    ('"', '"'),
    ('“', '”'),
    ('„', '“'),
    ('«', '»'),
    ('「', '」'),
    ('『', '』'),
    ('`', '`'),
    ('‘', '’'),
    ('\'', '\''),
];

/// Words that are not private: the words of a catalog's tools.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary(HashSet<String>);

impl Vocabulary {
    /// Collects the words of all tools.
    ///
    /// # Errors
    ///
    /// [`SavedError`] if the definition of a tool cannot be read.
    pub fn from_catalog(catalog: &Catalog) -> Result<Self, SavedError> {
        let mut vocabulary = HashSet::new();
        for tool in catalog.tools()? {
            for (_, text) in texts(tool) {
                // Complete words, and the parts of identifiers.
                let complete_words = text
                    .split(|c: char| !c.is_alphanumeric())
                    .filter(|word| !word.is_empty());
                vocabulary.extend(complete_words.map(str::to_lowercase));
                let parts = words(text).map(|(start, end)| text[start..end].to_lowercase());
                vocabulary.extend(parts);
            }
        }
        Ok(Self(vocabulary))
    }

    fn contains(&self, word: &str) -> bool {
        self.0.contains(&word.to_lowercase())
    }
}

/// Returns a request on one line, with `…` in place of names, numbers, quoted strings, addresses,
/// paths and ids.
///
/// ```
/// use picktools::examples::{Vocabulary, mask};
///
/// let request = "Send \"Q3 is done\" to Bob Smith and jo@example.org, 12 copies.";
/// assert_eq!(mask(request, &Vocabulary::default()), "Send … to … and …, … copies.");
/// ```
pub fn mask(request: &str, vocabulary: &Vocabulary) -> String {
    let line = one_line(request, MAX_READ_CHARS);
    let unquoted = mask_quoted(&line);
    let spans = split_spans(&unquoted);
    let hidden: Vec<bool> = (0..spans.len())
        .map(|index| is_hidden(&spans, index, vocabulary))
        .collect();
    let mut masked = String::with_capacity(unquoted.len());
    for (index, span) in spans.iter().enumerate() {
        let is_candidate = span.starts_sentence && !hidden[index] && !vocabulary.0.is_empty();
        let precedes_name = is_candidate
            && is_capitalised(span.text)
            && next_word(&spans, index)
                .is_some_and(|next| hidden[next] && is_capitalised(spans[next].text));
        let is_first_name =
            precedes_name && !vocabulary.contains(span.text) && !is_stop_word(span.text);
        let hide = hidden[index] || is_first_name;
        masked.push_str(if hide { MASK } else { span.text });
    }
    merge_masks(&masked)
}

/// Replaces each string between quotation marks by a mask.
fn mask_quoted(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let previous = masked.chars().next_back();
        match quoted_length(rest, c, previous) {
            Some(length) => {
                masked.push_str(MASK);
                rest = &rest[length..];
            }
            None => {
                masked.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    masked
}

/// Returns the length in bytes of the quoted string at the start of `text`, if there is one.
fn quoted_length(text: &str, first: char, previous: Option<char>) -> Option<usize> {
    // A mark inside a word is an apostrophe.
    if previous.is_some_and(char::is_alphanumeric) {
        return None;
    }
    for &(open, close) in QUOTES.iter().filter(|(open, _)| *open == first) {
        let inside = &text[open.len_utf8()..];
        let mut ends = inside.match_indices(close).map(|(index, _)| index);
        let end =
            ends.find(|&end| !inside[end + close.len_utf8()..].starts_with(char::is_alphanumeric));
        if let Some(end) = end.filter(|&end| end > 0) {
            return Some(open.len_utf8() + end + close.len_utf8());
        }
    }
    None
}

/// A span of a request: a word, address, path or id, or the text between two of them.
struct Span<'a> {
    text: &'a str,
    is_word: bool,
    /// `true` for the first word of a sentence.
    starts_sentence: bool,
}

/// Splits a text into spans, which together are the text.
fn split_spans(text: &str) -> Vec<Span<'_>> {
    let mut spans: Vec<Span<'_>> = Vec::new();
    let mut starts_sentence = true;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_inner(c)).unwrap_or(rest.len());
        // Punctuation at either end is not part of a word; a path may begin with punctuation.
        let run = &rest[..end];
        let word = run.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '/');
        let start = word
            .find(|c: char| c.is_alphanumeric() || matches!(c, '/' | '~' | '\\' | '@' | '.'))
            .unwrap_or(word.len());
        let (gap, word) = match &word[start..] {
            "" => (
                run.len().max(rest.chars().next().map_or(1, char::len_utf8)),
                "",
            ),
            word => (start, word),
        };
        if gap > 0 {
            let between = &rest[..gap];
            let is_abbreviation = |last: &Span<'_>| between.starts_with('.') && is_title(last);
            starts_sentence |=
                between.contains(ends_sentence) && !spans.last().is_some_and(is_abbreviation);
            spans.push(Span {
                text: between,
                is_word: false,
                starts_sentence: false,
            });
        }
        if !word.is_empty() {
            spans.push(Span {
                text: word,
                is_word: true,
                starts_sentence,
            });
            starts_sentence = false;
        }
        rest = &rest[gap + word.len()..];
    }
    spans
}

/// Returns `true` if a full stop after the span marks an abbreviation, as in `Dr.` and `J.`.
fn is_title(span: &Span<'_>) -> bool {
    span.is_word
        && !span.starts_sentence
        && span.text.starts_with(char::is_uppercase)
        && span.text.chars().count() <= MAX_TITLE_CHARS
}

fn ends_sentence(c: char) -> bool {
    matches!(
        c,
        '.' | '!' | '?' | ':' | ';' | '。' | '！' | '？' | '：' | '；'
    )
}

/// Returns `true` for the characters of words, addresses, paths and ids. Scripts without spaces are
/// read character by character: only their digits are hidden.
fn is_inner(c: char) -> bool {
    c.is_alphanumeric() && !is_unspaced(c)
        || matches!(
            c,
            '_' | '-'
                | '.'
                | ':'
                | '/'
                | '\\'
                | '@'
                | '#'
                | '+'
                | '~'
                | '\''
                | '’'
                | '&'
                | '='
                | '%'
                | '?'
        )
}

fn is_unspaced(c: char) -> bool {
    // Letters without case. Apart from scripts without spaces these are Arabic, Hebrew and Indic
    // ones, whose names have no capitals either.
    c.is_alphabetic() && !c.is_numeric() && !c.is_lowercase() && !c.is_uppercase()
}

/// Returns the index of the next word, if only a space is between.
fn next_word(spans: &[Span<'_>], index: usize) -> Option<usize> {
    (spans.get(index + 1)?.text == " " && spans.get(index + 2)?.is_word).then_some(index + 2)
}

fn is_capitalised(word: &str) -> bool {
    word.chars().next().is_some_and(char::is_uppercase)
        && word.chars().nth(1).is_some_and(char::is_alphabetic)
}

fn is_hidden(spans: &[Span<'_>], index: usize, vocabulary: &Vocabulary) -> bool {
    let Span {
        text,
        is_word,
        starts_sentence,
    } = spans[index];
    if !is_word {
        return false;
    }
    if is_address(text) || is_path(text) {
        return true;
    }
    if text.contains(char::is_numeric) {
        return !text.contains(char::is_alphabetic) || !vocabulary.contains(text);
    }
    // Words such as `Bob's` and `I'm` are judged by the part before the apostrophe.
    let word = text.split(['\'', '’']).next().unwrap_or(text);
    let mut letters = word.chars();
    let Some(first) = letters.next().filter(|first| first.is_uppercase()) else {
        // `mcDonald` and `iPhone` are names too, but identifiers look like them.
        return false;
    };
    let only_capitals = letters.clone().all(|c| !c.is_lowercase());
    match letters.clone().count() {
        // An initial, unless it is an English word.
        0 => !starts_sentence && !matches!(first, 'I' | 'A' | 'O'),
        count if only_capitals => count >= MAX_ABBREVIATION_CHARS && !is_known(word, vocabulary),
        _ => !starts_sentence && !is_known(word, vocabulary),
    }
}

/// Returns `true` if the vocabulary has the word, or each part of a word with hyphens.
fn is_known(word: &str, vocabulary: &Vocabulary) -> bool {
    let mut parts = word
        .split(|c: char| !c.is_alphanumeric())
        .filter(|part| !part.is_empty())
        .peekable();
    parts.peek().is_some() && parts.all(|part| vocabulary.contains(part) || is_stop_word(part))
}

/// Returns `true` for web and mail addresses and hosts. A full stop inside a word makes it a host,
/// a file or an abbreviation.
fn is_address(word: &str) -> bool {
    let between = |mark: char| {
        let is_inner = |index: usize| {
            let (left, right) = (&word[..index], &word[index + mark.len_utf8()..]);
            left.ends_with(char::is_alphanumeric) && right.starts_with(char::is_alphanumeric)
        };
        word.match_indices(mark).any(|(index, _)| is_inner(index))
    };
    word.contains("://") || word.starts_with('@') || between('@') || between('.')
}

fn is_path(word: &str) -> bool {
    let slashes = word.matches('/').count();
    word.contains('\\')
        || word.starts_with(['/', '~'])
        || word.starts_with("./")
        || word.starts_with("../")
        || slashes > 1
}

/// Replaces adjacent masks by one mask.
fn merge_masks(text: &str) -> String {
    let mut merged = String::with_capacity(text.len());
    for part in text.split_inclusive(MASK) {
        let between = part.strip_suffix(MASK).unwrap_or(part);
        let repeats = merged.ends_with(MASK) && part.ends_with(MASK) && between.trim().is_empty();
        if !repeats {
            merged.push_str(part);
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalog::Tool;

    fn mask_without_vocabulary(text: &str) -> String {
        mask(text, &Vocabulary::default())
    }

    fn vocabulary() -> Vocabulary {
        let tool = Tool::without_arguments(
            "github_search",
            "Searches GitHub, uploads to S3, books flights",
        );
        Vocabulary::from_catalog(&Catalog::from_tools([tool]).expect("valid")).expect("in memory")
    }

    #[test]
    fn private_values_are_masked() {
        for (request, expected) in [
            ("book me a flight to Oslo", "book me a flight to …"),
            (
                "Mail Bob's report to Ann-Kathrin von Berg!",
                "Mail … report to … von …!",
            ),
            (
                "Email alice@example.org and https://example.org/a?b=c.",
                "Email … and ….",
            ),
            (
                "convert 12.5 EUR to USD on 2024-01-31",
                "convert … EUR to USD on …",
            ),
            (
                "order INV-0042-x is late, id 7f3a9c",
                "order … is late, id …",
            ),
            (
                "read /etc/passwd, ~/notes and C:\\temp\\x.txt",
                "read …, … and …",
            ),
            ("open report.pdf and/or src/main.rs", "open … and/or …"),
            (
                "say 'hello there' or “good bye”, and «merci»",
                "say … or …, and …",
            ),
            (
                "it's Bob's, isn't it? Ask Dr. J. Doe",
                "it's …, isn't it? Ask …. …. …",
            ),
            ("I think I'm late. What now?", "I think I'm late. What now?"),
            (
                "What is the PDF for NASA and GITHUBBER?",
                "What is the PDF for NASA and …?",
            ),
            ("帮我订2张去北京的票", "帮我订…张去北京的票"),
            ("  two\n lines\u{200b} ", "two lines"),
            ("call +47 22 33 44 55 now", "call +… now"),
            ("", ""),
            ("'' \" “ '", "'…"),
        ] {
            assert_eq!(mask_without_vocabulary(request), expected, "{request}");
        }
    }

    #[test]
    fn words_of_the_tools_are_not_masked() {
        let masked = |request: &str| mask(request, &vocabulary());
        assert_eq!(
            masked("put it on S3 and GitHub for Bob"),
            "put it on S3 and GitHub for …"
        );
        assert_eq!(
            masked("Searches of GitHub since 2020"),
            "Searches of GitHub since …"
        );
        assert_eq!(
            masked("Alice Smith wants flights. Will Bob go?"),
            "… wants flights. Will … go?"
        );
    }

    proptest! {
        #[test]
        fn masked_text_has_no_digits(text in "(\\PC|[ .'\"…/@A-Z0-9]){0,60}") {
            let masked = mask_without_vocabulary(&text);
            prop_assert!(!masked.contains(char::is_numeric), "{}", masked);
            let letters = masked.chars().filter(|c| c.is_alphanumeric()).count();
            prop_assert!(letters <= text.chars().count());
        }
    }
}
