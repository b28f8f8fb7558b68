//! What of a request says who asked and about what: names, numbers, quoted strings, addresses,
//! paths and ids. An example goes without them, because it is shown to others who ask alike, and
//! because the next request will have others.
//!
//! There is no list of names. A name is told by its capital where none is called for, so that one
//! that is written small stays, and so does one that begins a sentence, unless the catalog is known
//! and does not have the word. A word that the catalog's tools have ("GitHub", "S3") is no secret.

use std::collections::HashSet;

use crate::catalog::Catalog;
use crate::excerpt::one_line;
use crate::function_words::is_stop_word;
use crate::text::{texts, words};

/// What stands for what is left out: it holds no letter, so that no retriever reads it.
pub(super) const MASK: &str = "…";
/// The most characters of a request that are read.
const MAX_READ_CHARS: usize = 4_000;
/// A longer word of capitals alone is no abbreviation.
const MAX_ABBREVIATION_CHARS: usize = 5;

/// A longer word is no title or initial that a full stop abbreviates.
const MAX_TITLE_CHARS: usize = 3;

/// Pairs of quotation marks; those that are also apostrophes come last.
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

/// Words that are no secrets: those that the tools of a catalog have.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary(HashSet<String>);

impl Vocabulary {
    /// Collects the words of all tools.
    pub fn of(catalog: &Catalog) -> Self {
        let mut known = HashSet::new();
        for tool in catalog.tools() {
            for (_, text) in texts(tool) {
                // A word as it stands, and the parts of an identifier.
                let whole = text
                    .split(|c: char| !c.is_alphanumeric())
                    .filter(|word| !word.is_empty());
                known.extend(whole.map(str::to_lowercase));
                known.extend(words(text).map(|(start, end)| text[start..end].to_lowercase()));
            }
        }
        Self(known)
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(&word.to_lowercase())
    }
}

/// A request on one line, with `…` in the place of names, numbers, quoted strings, addresses, paths
/// and ids.
///
/// ```
/// use picktools::examples::{Vocabulary, mask};
///
/// let request = "Send \"Q3 is done\" to Bob Smith and jo@example.org, 12 copies.";
/// assert_eq!(mask(request, &Vocabulary::default()), "Send … to … and …, … copies.");
/// ```
pub fn mask(request: &str, vocabulary: &Vocabulary) -> String {
    let line = one_line(request, MAX_READ_CHARS);
    let unquoted = without_quoted(&line);
    let pieces = pieces(&unquoted);
    let hidden: Vec<bool> = (0..pieces.len())
        .map(|at| is_hidden(&pieces, at, vocabulary))
        .collect();
    let mut masked = String::with_capacity(unquoted.len());
    for (at, piece) in pieces.iter().enumerate() {
        let begins = piece.begins && !hidden[at] && !vocabulary.0.is_empty();
        let before_name = begins
            && is_capitalised(piece.text)
            && next_word(&pieces, at)
                .is_some_and(|next| hidden[next] && is_capitalised(pieces[next].text));
        let hide =
            hidden[at] || before_name && !vocabulary.has(piece.text) && !is_stop_word(piece.text);
        masked.push_str(if hide { MASK } else { piece.text });
    }
    joined(&masked)
}

/// The text with a mask in the place of each string between quotation marks.
fn without_quoted(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let before = kept.chars().next_back();
        let close = QUOTES
            .iter()
            .filter(|(open, _)| *open == c)
            .find_map(|&(open, close)| {
                // An apostrophe stands within a word.
                let opens = !before.is_some_and(char::is_alphanumeric);
                let inside = &rest[open.len_utf8()..];
                let mut ends = inside.match_indices(close).map(|(at, _)| at);
                let end = ends.find(|&end| {
                    !inside[end + close.len_utf8()..].starts_with(char::is_alphanumeric)
                })?;
                (opens && end > 0).then_some(open.len_utf8() + end + close.len_utf8())
            });
        match close {
            Some(end) => {
                kept.push_str(MASK);
                rest = &rest[end..];
            }
            None => {
                kept.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    kept
}

/// A piece of a request: a run of what words, addresses, paths and ids are made of, or what stands
/// between two.
struct Piece<'a> {
    text: &'a str,
    is_word: bool,
    /// Whether a sentence begins with it.
    begins: bool,
}

/// Cuts a text into pieces, which together are the text.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    let mut begins = true;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_inner(c)).unwrap_or(rest.len());
        // Punctuation at either end is not part of a word; a path begins with some.
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
            let ends = |last: &Piece<'_>| !(between.starts_with('.') && is_title(last));
            begins |= between.contains(ends_sentence) && pieces.last().is_none_or(ends);
            pieces.push(Piece {
                text: between,
                is_word: false,
                begins: false,
            });
        }
        if !word.is_empty() {
            pieces.push(Piece {
                text: word,
                is_word: true,
                begins,
            });
            begins = false;
        }
        rest = &rest[gap + word.len()..];
    }
    pieces
}

/// Whether a full stop behind it abbreviates, as in `Dr.` and `J.`.
fn is_title(
    Piece {
        text,
        is_word,
        begins,
    }: &Piece<'_>,
) -> bool {
    *is_word
        && !begins
        && text.starts_with(char::is_uppercase)
        && text.chars().count() <= MAX_TITLE_CHARS
}

fn ends_sentence(c: char) -> bool {
    matches!(
        c,
        '.' | '!' | '?' | ':' | ';' | '。' | '！' | '？' | '：' | '；'
    )
}

/// What words, addresses, paths and ids are made of. Scripts without spaces are read character by
/// character: only the digits among them are hidden.
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
    // Letters without case: beside scripts without spaces these are Arabic, Hebrew and Indic ones,
    // in which no capital tells a name either.
    c.is_alphabetic() && !c.is_numeric() && !c.is_lowercase() && !c.is_uppercase()
}

/// The place of the next word, where only a space is between.
fn next_word(pieces: &[Piece<'_>], at: usize) -> Option<usize> {
    (pieces.get(at + 1)?.text == " " && pieces.get(at + 2)?.is_word).then_some(at + 2)
}

fn is_capitalised(word: &str) -> bool {
    word.chars().next().is_some_and(char::is_uppercase)
        && word.chars().nth(1).is_some_and(char::is_alphabetic)
}

fn is_hidden(pieces: &[Piece<'_>], at: usize, vocabulary: &Vocabulary) -> bool {
    let Piece {
        text,
        is_word,
        begins,
    } = pieces[at];
    if !is_word {
        return false;
    }
    if is_address(text) || is_path(text) {
        return true;
    }
    if text.contains(char::is_numeric) {
        return !text.contains(char::is_alphabetic) || !vocabulary.has(text);
    }
    // `Bob's` and `I'm` by what stands before the apostrophe.
    let word = text.split(['\'', '’']).next().unwrap_or(text);
    let mut letters = word.chars();
    let Some(first) = letters.next().filter(|first| first.is_uppercase()) else {
        // `mcDonald` and `iPhone` are names as well, but identifiers look like them.
        return false;
    };
    let only_capitals = letters.clone().all(|c| !c.is_lowercase());
    match letters.clone().count() {
        // An initial, unless it is a word of English.
        0 => !begins && !matches!(first, 'I' | 'A' | 'O'),
        more if only_capitals => more >= MAX_ABBREVIATION_CHARS && !is_known(word, vocabulary),
        _ => !begins && !is_known(word, vocabulary),
    }
}

/// Whether the tools have the word, or each part of one with hyphens.
fn is_known(word: &str, vocabulary: &Vocabulary) -> bool {
    let mut parts = word
        .split(|c: char| !c.is_alphanumeric())
        .filter(|part| !part.is_empty())
        .peekable();
    parts.peek().is_some() && parts.all(|part| vocabulary.has(part) || is_stop_word(part))
}

/// Web and mail addresses, and hosts; a full stop within a word makes a host, a file or an
/// abbreviation.
fn is_address(word: &str) -> bool {
    let between = |mark: char| {
        let inner = |at: usize| {
            let (before, behind) = (&word[..at], &word[at + mark.len_utf8()..]);
            before.ends_with(char::is_alphanumeric) && behind.starts_with(char::is_alphanumeric)
        };
        word.match_indices(mark).any(|(at, _)| inner(at))
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

/// The text with one mask in the place of several that stand together.
fn joined(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for part in text.split_inclusive(MASK) {
        let between = part.strip_suffix(MASK).unwrap_or(part);
        let repeats = kept.ends_with(MASK) && part.ends_with(MASK) && between.trim().is_empty();
        if repeats {
            continue;
        }
        kept.push_str(part);
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalog::Tool;

    fn masked(text: &str) -> String {
        mask(text, &Vocabulary::default())
    }

    fn known() -> Vocabulary {
        let tool = Tool::without_arguments(
            "github_search",
            "Searches GitHub, uploads to S3, books flights",
        );
        Vocabulary::of(&Catalog::from_tools([tool]).expect("valid"))
    }

    #[test]
    fn what_says_who_asked_and_about_what_is_hidden() {
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
            assert_eq!(masked(request), expected, "{request}");
        }
    }

    #[test]
    fn words_of_the_tools_are_no_secrets() {
        let masked = |request: &str| mask(request, &known());
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
        fn no_digit_is_left(text in "(\\PC|[ .'\"…/@A-Z0-9]){0,60}") {
            let once = masked(&text);
            prop_assert!(!once.contains(char::is_numeric), "{}", once);
            prop_assert!(once.chars().filter(|c| c.is_alphanumeric()).count() <= text.chars().count());
        }
    }
}
