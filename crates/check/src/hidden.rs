//! Checks for hidden text: invisible characters, markup that is not displayed, white space and
//! encodings.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use regex::Regex;
use unicode_script::{Script, UnicodeScript};

use super::finding::{ToolFinding, shorten};
use super::fold::{fold, is_mixed, is_spaced_out, words};
use super::lexicon::speaks_of_examples;
use super::rules::{DISGUISED_WORDS, HIDDEN_CHARACTERS, HIDDEN_MARKUP, PADDED_TEXT, Severity};
use super::texts::{TextKind, ToolText};
use picktools::excerpt::is_invisible;

/// The smallest number of invisible characters in a row that carry data.
const MIN_RUN: usize = 3;
/// The smallest number of white-space characters in a row that push the rest out of sight.
const MIN_BLANKS: usize = 60;
/// The smallest number of empty lines in a row that push the rest out of sight.
const MIN_LINES: usize = 10;
/// The smallest number of words in a reported comment; fewer are a placeholder.
const MIN_COMMENT_WORDS: usize = 3;
/// The smallest length of an encoded text, in bytes; a shorter one is a value.
const MIN_ENCODED: usize = 32;

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

/// Checks a text for hidden content.
pub(super) fn check(text: &ToolText<'_>, findings: &mut Vec<ToolFinding>) {
    check_characters(text, findings);
    if text.text.is_ascii() && text.text.len() < MIN_RUN {
        return;
    }
    let mixed_word = words(text.text).find(|word| is_mixed(word));
    match mixed_word {
        Some(word) if text.kind != TextKind::Name => findings.push(ToolFinding {
            message: format!("the word {word:?} mixes Latin letters with others that look alike"),
            ..ToolFinding::new(&DISGUISED_WORDS, &text.pointer, text.text)
        }),
        _ if !matches!(text.kind, TextKind::Name | TextKind::ParameterName)
            && is_spaced_out(text.text) =>
        {
            findings.push(ToolFinding::new(&DISGUISED_WORDS, &text.pointer, text.text));
        }
        _ => {}
    }
    // Most texts have no markup, which this search finds out quickly.
    if text.text.contains(['<', '[', '\\'])
        && let Some(markup) = hidden_markup(text.text)
    {
        findings.push(ToolFinding::new(&HIDDEN_MARKUP, &text.pointer, markup));
    }
    if let Some(after) = after_padding(text.text) {
        findings.push(ToolFinding::new(&PADDED_TEXT, &text.pointer, after));
    }
}

/// Finds a comment with several words, or a style that hides text.
fn hidden_markup(text: &str) -> Option<&str> {
    for comment in COMMENT.captures_iter(text) {
        let inner = match comment.iter().skip(1).flatten().next() {
            Some(inner) => inner.as_str(),
            None => "",
        };
        let start = comment.get_match().start();
        let preceding = &text[text.floor_char_boundary(start.saturating_sub(40))..start];
        let is_quoted =
            preceding.ends_with(['"', '\'', '`', '“', '«']) || speaks_of_examples(&fold(preceding));
        if words(inner).count() >= MIN_COMMENT_WORDS && !is_quoted {
            return Some(comment.get_match().as_str());
        }
    }
    let style = HIDING_STYLE.find(text)?;
    Some(&text[style.start()..])
}

/// Finds the text after white space that pushes it out of sight.
fn after_padding(text: &str) -> Option<&str> {
    let mut blanks = 0;
    let mut lines = 0;
    for (at, c) in text.char_indices() {
        if c.is_whitespace() || matches!(c, '\u{2800}' | '\u{3164}') {
            blanks += 1;
            lines += usize::from(c == '\n');
        } else {
            if at > blanks && (blanks >= MIN_BLANKS || lines >= MIN_LINES) {
                return Some(&text[at..]);
            }
            (blanks, lines) = (0, 0);
        }
    }
    None
}

/// Reports invisible characters, unless their script needs them.
fn check_characters(text: &ToolText<'_>, findings: &mut Vec<ToolFinding>) {
    if text.text.is_ascii() && !text.text.contains(|c: char| c.is_control()) {
        return;
    }
    let Some(HiddenCharacter {
        description,
        severity,
        character,
    }) = worst_hidden_character(text.text)
    else {
        return;
    };
    // The catalog reader rejects names with such characters.
    if text.kind == TextKind::Name
        || (text.kind == TextKind::Label && text.pointer.starts_with("/aliases"))
    {
        return;
    }
    let tags = decode_tags(text.text);
    let carried = if tags.len() > 3 {
        format!(", which spell {:?}", shorten(&tags))
    } else {
        String::new()
    };
    let code = u32::from(character);
    findings.push(ToolFinding {
        severity,
        message: format!("the text contains {description} U+{code:04X}{carried}"),
        ..ToolFinding::new(&HIDDEN_CHARACTERS, &text.pointer, text.text)
    });
}

/// Decodes the tag characters of a text, which are invisible copies of ASCII.
fn decode_tags(text: &str) -> String {
    let mut decoded = String::new();
    for c in text.chars() {
        let Some(code) = u32::from(c).checked_sub(0xe0000) else {
            continue;
        };
        if let Some(c) = char::from_u32(code)
            && c.is_ascii()
        {
            decoded.push(c);
        }
    }
    decoded
}

/// An invisible character of a text.
struct HiddenCharacter {
    /// The kind of the character, with its article.
    description: &'static str,
    severity: Severity,
    character: char,
}

/// Finds the hidden character with the highest severity.
fn worst_hidden_character(text: &str) -> Option<HiddenCharacter> {
    let has_right_to_left = text.chars().any(|c| {
        matches!(
            c.script(),
            Script::Hebrew | Script::Arabic | Script::Syriac | Script::Thaana | Script::Nko
        )
    });
    let mut worst: Option<HiddenCharacter> = None;
    let mut previous = None;
    let mut run = 0;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let kind = match c {
            '\n' | '\r' | '\t' => None,
            '\u{1b}' => Some(("the terminal control character", Severity::Error)),
            '\u{9b}' | '\u{8}' | '\u{0}' | '\u{7f}' => {
                Some(("the control character", Severity::Error))
            }
            '\u{e0000}'..='\u{e007f}' if previous != Some('🏴') => {
                Some(("the tag character", Severity::Error))
            }
            '\u{e0000}'..='\u{e007f}' => None,
            '\u{202d}' | '\u{202e}' => Some(("the bidirectional override", Severity::Error)),
            '\u{202a}'..='\u{202c}' | '\u{2066}'..='\u{2069}' if !has_right_to_left => {
                Some(("the bidirectional control", Severity::Warning))
            }
            '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{200c}' | '\u{200d}'
                if previous.is_some_and(|b: char| b.is_ascii_alphanumeric())
                    && chars.peek().is_some_and(char::is_ascii_alphanumeric) =>
            {
                Some((
                    "between letters, the invisible character",
                    Severity::Warning,
                ))
            }
            _ => None,
        };
        let is_tag = ('\u{e0000}'..='\u{e007f}').contains(&c);
        // Many variation selectors in a row carry data.
        let is_selector = matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}');
        run = if (is_invisible(c) || is_selector) && !is_tag && c != '\u{ad}' {
            run + 1
        } else {
            0
        };
        let kind = if run >= MIN_RUN {
            Some(("a run of invisible characters such as", Severity::Error))
        } else {
            kind
        };
        if let Some((description, severity)) = kind
            && worst.as_ref().is_none_or(|worst| worst.severity < severity)
        {
            worst = Some(HiddenCharacter {
                description,
                severity,
                character: c,
            });
        }
        // The flag of a region is a black flag followed by tags.
        if !(is_tag && previous == Some('🏴')) {
            previous = Some(c);
        }
    }
    worst
}

/// A text that was encoded inside another text.
pub(super) struct DecodedText {
    pub(super) encoding: &'static str,
    pub(super) text: String,
    /// `true` if it has several words.
    pub(super) is_prose: bool,
}

/// Decodes the encoded parts of a text: base64, hexadecimal, percent signs, character references,
/// escapes, bits.
pub(super) fn decoded(text: &str) -> Vec<DecodedText> {
    const MAX_TOKENS: usize = 8;
    const MAX_TOKEN_BYTES: usize = 1 << 16;
    let mut decoded = Vec::new();
    if text.len() < MIN_ENCODED {
        return decoded;
    }
    for token in ENCODED.find_iter(text).take(MAX_TOKENS) {
        let token = &token.as_str()[..token.as_str().len().min(MAX_TOKEN_BYTES)];
        let (encoding, bytes) = decode_token(token.strip_prefix("0x").unwrap_or(token));
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        let has_controls = text.contains(|c: char| c.is_control() && !c.is_whitespace());
        // JSON, as in access tokens, is data.
        if text.is_empty() || text.starts_with('{') || has_controls {
            continue;
        }
        let mut word_count = 0;
        for word in text.split_whitespace() {
            let is_word = word.len() > 1 && !word.contains(char::is_numeric);
            word_count += usize::from(is_word);
        }
        decoded.push(DecodedText {
            encoding,
            is_prose: word_count >= 4,
            text,
        });
    }
    decoded
}

/// Returns the name of a token's encoding and its decoded bytes.
fn decode_token(token: &str) -> (&'static str, Vec<u8>) {
    if token.starts_with('%') {
        return ("a percent-encoded text", hex_digits(token, &["%"]));
    }
    if token.starts_with("&#") {
        return ("a text of character references", references(token));
    }
    if token.starts_with('\\') {
        return ("a text of escapes", hex_digits(token, &["\\u00", "\\x"]));
    }
    if token.bytes().all(|byte| matches!(byte, b'0' | b'1' | b' ')) {
        let octets = token.split(' ').flat_map(|part| part.as_bytes().chunks(8));
        return ("a text in bits", parse_chunks(octets, 2));
    }
    if token.len().is_multiple_of(2) && token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return (
            "a hexadecimal text",
            parse_chunks(token.as_bytes().chunks(2), 16),
        );
    }
    ("a base64 text", base64_bytes(token))
}

/// Parses each chunk as a number, and skips invalid ones.
fn parse_chunks<'a>(chunks: impl Iterator<Item = &'a [u8]>, radix: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in chunks {
        if let Ok(digits) = std::str::from_utf8(chunk)
            && let Ok(byte) = u8::from_str_radix(digits, radix)
        {
            bytes.push(byte);
        }
    }
    bytes
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

/// Decodes the two hexadecimal digits after each prefix, and copies all other bytes.
fn hex_digits(token: &str, prefixes: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = token;
    while !rest.is_empty() {
        if let Some((byte, length)) = escaped_byte(rest, prefixes) {
            bytes.push(byte);
            rest = &rest[length..];
        } else {
            bytes.push(rest.as_bytes()[0]);
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    bytes
}

/// Decodes an escaped byte at the start of a text, and returns it with the length of the escape.
fn escaped_byte(text: &str, prefixes: &[&str]) -> Option<(u8, usize)> {
    for prefix in prefixes {
        if let Some(digits) = text.strip_prefix(prefix)
            && let Some(digits) = digits.get(..2)
        {
            let byte = u8::from_str_radix(digits, 16).ok()?;
            return Some((byte, prefix.len() + 2));
        }
    }
    None
}

fn references(token: &str) -> Vec<u8> {
    let mut text = String::new();
    for reference in token.split(';') {
        let Some(digits) = reference.strip_prefix("&#") else {
            continue;
        };
        let code = match digits.strip_prefix('x') {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => digits.parse().ok(),
        };
        text.extend(code.and_then(char::from_u32));
    }
    text.into_bytes()
}
