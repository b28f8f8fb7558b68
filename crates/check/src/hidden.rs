//! What a text hides: characters that nobody sees, markup that is not shown, white space, and
//! encodings.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use regex::Regex;
use unicode_script::{Script, UnicodeScript};

use super::Found;
use super::fold::{fold, is_mixed, is_spaced_out, words};
use super::lexicon::speaks_of_examples;
use super::rules::{DISGUISED_WORDS, HIDDEN_CHARACTERS, HIDDEN_MARKUP, PADDED_TEXT, Severity};
use super::texts::{Kind, Text};
use picktools::excerpt::is_invisible;

/// As many invisible characters in a row carry something.
const LEAST_RUN: usize = 3;
/// As much white space in a row pushes what follows out of sight.
const LEAST_BLANKS: usize = 60;
/// So do as many empty lines.
const LEAST_LINES: usize = 10;
/// Fewer words in a comment are a placeholder.
const LEAST_COMMENT_WORDS: usize = 3;
/// A shorter encoded text is a value.
const LEAST_ENCODED: usize = 32;

static COMMENT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?s)<!--(.*?)(?:-->|$)|(?m:^)\[(?://|comment)\]: ?#? ?[(\x22'](.*?)[)\x22'](?:\n|$)",
    )
    .expect("a test compiles it")
});

static HIDING_STYLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?i)<[a-z][^>]{0,200}(?:display: ?none|visibility: ?hidden|font-size: ?0|opacity: ?0|color: ?(?:white|#fff|transparent)|\bhidden\b|aria-hidden=.?true)[^>]{0,200}>|\\(?:phantom|hphantom)\{|\\color\{white\}"#,
    )
    .expect("a test compiles it")
});

static ENCODED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[A-Za-z0-9+/_-]{32,}={0,2}|(?:%[0-9A-Fa-f]{2}[A-Za-z0-9.+-]{0,8}){4,}|(?:&#x?[0-9A-Fa-f]{1,6};){4,}|(?:\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}){4,}|(?:[01]{8} ?){8,}")
        .expect("a test compiles it")
});

/// Looks for what a text hides.
pub(super) fn check(text: &Text<'_>, found: &mut Vec<Found>) {
    characters(text, found);
    if text.text.is_ascii() && text.text.len() < LEAST_RUN {
        return;
    }
    let disguised = words(text.text).find(|word| is_mixed(word));
    if let Some(word) = disguised.filter(|_| text.kind != Kind::Name) {
        found.push(Found {
            message: format!("the word {word:?} mixes Latin letters with others that look alike"),
            ..Found::new(&DISGUISED_WORDS, &text.pointer, text.text)
        });
    } else if !matches!(text.kind, Kind::Name | Kind::ParameterName) && is_spaced_out(text.text) {
        found.push(Found::new(&DISGUISED_WORDS, &text.pointer, text.text));
    }
    // Most texts have no markup, which is quickly seen.
    let markup = if text.text.contains(['<', '[', '\\']) {
        hidden_markup(text.text)
    } else {
        None
    };
    if let Some(markup) = markup {
        found.push(Found::new(&HIDDEN_MARKUP, &text.pointer, markup));
    }
    if let Some(after) = after_padding(text.text) {
        found.push(Found::new(&PADDED_TEXT, &text.pointer, after));
    }
}

/// A comment that says something, or a style that hides text.
fn hidden_markup(text: &str) -> Option<&str> {
    let comment = COMMENT.captures_iter(text).find(|comment| {
        let inner = comment
            .iter()
            .skip(1)
            .flatten()
            .next()
            .map_or("", |inner| inner.as_str());
        let start = comment.get_match().start();
        let before = &text[text.floor_char_boundary(start.saturating_sub(40))..start];
        let is_quoted =
            before.ends_with(['"', '\'', '`', '“', '«']) || speaks_of_examples(&fold(before));
        words(inner).count() >= LEAST_COMMENT_WORDS && !is_quoted
    });
    let comment = comment.map(|comment| comment.get_match().as_str());
    comment.or_else(|| HIDING_STYLE.find(text).map(|style| &text[style.start()..]))
}

/// The text behind white space that pushes it out of sight.
fn after_padding(text: &str) -> Option<&str> {
    let mut blanks = 0;
    let mut lines = 0;
    for (at, c) in text.char_indices() {
        if c.is_whitespace() || matches!(c, '\u{2800}' | '\u{3164}') {
            blanks += 1;
            lines += usize::from(c == '\n');
        } else {
            if at > blanks && (blanks >= LEAST_BLANKS || lines >= LEAST_LINES) {
                return Some(&text[at..]);
            }
            (blanks, lines) = (0, 0);
        }
    }
    None
}

/// Reports characters that nobody sees, unless their script needs them.
fn characters(text: &Text<'_>, found: &mut Vec<Found>) {
    if text.text.is_ascii() && !text.text.contains(|c: char| c.is_control()) {
        return;
    }
    let Some((worst, severity, at)) = hidden_character(text.text) else {
        return;
    };
    // The reader refuses names that hold such characters.
    if text.kind == Kind::Name || (text.kind == Kind::Label && text.pointer.starts_with("/aliases"))
    {
        return;
    }
    let tags: String = text
        .text
        .chars()
        .filter_map(|c| char::from_u32(u32::from(c).checked_sub(0xe0000)?))
        .filter(char::is_ascii)
        .collect();
    let carried = if tags.len() > 3 {
        format!(", which read {:?}", super::shown(&tags))
    } else {
        String::new()
    };
    found.push(Found {
        severity,
        message: format!("the text holds {worst} U+{:04X}{carried}", u32::from(at)),
        ..Found::new(&HIDDEN_CHARACTERS, &text.pointer, text.text)
    });
}

/// The worst of a text's hidden characters: what it is, how bad, and which.
fn hidden_character(text: &str) -> Option<(&'static str, Severity, char)> {
    let has_right_to_left = text.chars().any(|c| {
        matches!(
            c.script(),
            Script::Hebrew | Script::Arabic | Script::Syriac | Script::Thaana | Script::Nko
        )
    });
    let mut worst: Option<(&'static str, Severity, char)> = None;
    let mut before = None;
    let mut run = 0;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let kind = match c {
            '\n' | '\r' | '\t' => None,
            '\u{1b}' => Some(("the terminal control character", Severity::Error)),
            '\u{9b}' | '\u{8}' | '\u{0}' | '\u{7f}' => {
                Some(("the control character", Severity::Error))
            }
            '\u{e0000}'..='\u{e007f}' if before != Some('🏴') => {
                Some(("the tag character", Severity::Error))
            }
            '\u{e0000}'..='\u{e007f}' => None,
            '\u{202d}' | '\u{202e}' => Some(("the bidirectional override", Severity::Error)),
            '\u{202a}'..='\u{202c}' | '\u{2066}'..='\u{2069}' if !has_right_to_left => {
                Some(("the bidirectional control", Severity::Warning))
            }
            '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{200c}' | '\u{200d}'
                if before.is_some_and(|b: char| b.is_ascii_alphanumeric())
                    && chars.peek().is_some_and(char::is_ascii_alphanumeric) =>
            {
                Some(("between letters the invisible character", Severity::Warning))
            }
            _ => None,
        };
        let is_tag = ('\u{e0000}'..='\u{e007f}').contains(&c);
        // Variation selectors carry bytes where there are many of them.
        let is_selector = matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}');
        run = if (is_invisible(c) || is_selector) && !is_tag && c != '\u{ad}' {
            run + 1
        } else {
            0
        };
        let kind = if run >= LEAST_RUN {
            Some(("a run of invisible characters such as", Severity::Error))
        } else {
            kind
        };
        if let Some((name, severity)) = kind
            && worst.is_none_or(|(_, other, _)| other < severity)
        {
            worst = Some((name, severity, c));
        }
        // A flag of a region is a black flag and tags.
        if !(is_tag && before == Some('🏴')) {
            before = Some(c);
        }
    }
    worst
}

/// A text that stood encoded in another.
pub(super) struct Decoded {
    pub(super) encoding: &'static str,
    pub(super) text: String,
    /// Whether it has words.
    pub(super) is_prose: bool,
}

/// What a text holds in encoded form: base64, hexadecimal, percent signs, character references,
/// escapes, bits.
pub(super) fn decoded(text: &str) -> Vec<Decoded> {
    const MOST: usize = 8;
    let mut decoded = Vec::new();
    if text.len() < LEAST_ENCODED {
        return decoded;
    }
    for token in ENCODED.find_iter(text).take(MOST) {
        let token = &token.as_str()[..token.as_str().len().min(1 << 16)];
        let token = token.strip_prefix("0x").unwrap_or(token);
        let (encoding, bytes) = if token.starts_with('%') {
            ("a percent-encoded text", hex_digits(token, &["%"]))
        } else if token.starts_with("&#") {
            ("a text of character references", references(token))
        } else if token.starts_with('\\') {
            ("a text of escapes", hex_digits(token, &["\\u00", "\\x"]))
        } else if token.bytes().all(|byte| matches!(byte, b'0' | b'1' | b' ')) {
            let bits = token.split(' ').flat_map(|part| part.as_bytes().chunks(8));
            (
                "a text in bits",
                bits.filter_map(|bits| u8::from_str_radix(std::str::from_utf8(bits).ok()?, 2).ok())
                    .collect(),
            )
        } else if token.len() % 2 == 0 && token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let bytes = token.as_bytes().chunks(2);
            (
                "a hexadecimal text",
                bytes
                    .filter_map(|byte| u8::from_str_radix(std::str::from_utf8(byte).ok()?, 16).ok())
                    .collect(),
            )
        } else {
            ("a base64 text", base64_bytes(token))
        };
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        // JSON, as in tokens, is data.
        if text.is_empty()
            || text.starts_with('{')
            || text.contains(|c: char| c.is_control() && !c.is_whitespace())
        {
            continue;
        }
        let long = text
            .split_whitespace()
            .filter(|word| word.len() > 1 && word.chars().all(|c| !c.is_numeric()))
            .count();
        decoded.push(Decoded {
            encoding,
            is_prose: long >= 4,
            text,
        });
    }
    decoded
}

fn base64_bytes(token: &str) -> Vec<u8> {
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let alphabet = if token.contains(['-', '_']) {
        base64::alphabet::URL_SAFE
    } else {
        base64::alphabet::STANDARD
    };
    GeneralPurpose::new(&alphabet, config)
        .decode(token)
        .unwrap_or_default()
}

/// Bytes behind each of `prefixes`, and what stands between them as it is.
fn hex_digits(token: &str, prefixes: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = token;
    while !rest.is_empty() {
        let digits = prefixes
            .iter()
            .find_map(|prefix| rest.strip_prefix(prefix)?.get(..2));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                let prefix = prefixes
                    .iter()
                    .find(|prefix| rest.starts_with(**prefix))
                    .map_or(0, |prefix| prefix.len());
                rest = &rest[prefix + 2..];
            }
            None => {
                bytes.push(rest.as_bytes()[0]);
                rest = rest.get(1..).unwrap_or_default();
            }
        }
    }
    bytes
}

fn references(token: &str) -> Vec<u8> {
    let codes = token.split(';').filter_map(|reference| {
        let digits = reference.strip_prefix("&#")?;
        match digits.strip_prefix('x') {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => digits.parse().ok(),
        }
    });
    codes
        .filter_map(char::from_u32)
        .collect::<String>()
        .into_bytes()
}
