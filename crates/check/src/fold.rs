//! Normalised text for the rules: sentences without quoted examples, with disguised letters
//! restored.

use std::borrow::Cow;

pub(crate) use picktools::text::fold::{fold, is_mixed, words};

/// The smallest number of single letters in a row that hide a word; fewer are a list.
const MIN_SPACED_LETTERS: usize = 8;

/// Returns `true` if a text separates its letters (`i g n o r e`), which hides words from a search.
pub(crate) fn is_spaced_out(text: &str) -> bool {
    let mut run = 0;
    text.split([' ', '.', '-', '_']).any(|part| {
        let is_letter = part.len() == 1 && part.as_bytes()[0].is_ascii_lowercase();
        run = if is_letter { run + 1 } else { 0 };
        run >= MIN_SPACED_LETTERS
    })
}

/// Replaces digits in words by the letters that they imitate, as in `1gn0re`. Returns `None` if no
/// word has such digits.
pub(crate) fn without_digits_for_letters(folded: &str) -> Option<String> {
    let is_disguised = |word: &str| {
        word.len() > 3
            && word.bytes().filter(u8::is_ascii_alphabetic).count() > word.len() / 2
            && word.contains(|c: char| "013457".contains(c))
    };
    if !words(folded).any(is_disguised) {
        return None;
    }
    Some(folded.chars().map(letter_for).collect())
}

/// Returns the letter that a digit or sign imitates.
pub(crate) fn letter_for(c: char) -> char {
    match c {
        '0' => 'o',
        '1' => 'i',
        '3' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '7' => 't',
        '8' => 'b',
        '9' => 'g',
        _ => c,
    }
}

/// Splits a text into sentences of limited length: at full stops, question and exclamation marks,
/// semicolons and empty lines.
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    const MAX_BYTES: usize = 600;
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|&(_, next)| next);
        let ends = match c {
            '.' | '!' | '?' | ';' => next.is_none_or(char::is_whitespace),
            '。' | '！' | '？' | '；' | '\u{2029}' => true,
            '\n' => next == Some('\n'),
            ' ' | ',' => at - start > MAX_BYTES,
            _ => at - start > 2 * MAX_BYTES,
        };
        if ends {
            let end = at + c.len_utf8();
            sentences.push(&text[start..end]);
            start = end;
        }
    }
    sentences.push(&text[start..]);
    sentences.retain(|sentence| !sentence.trim().is_empty());
    sentences
}

/// Removes what a text quotes as an example: `such as "…"`, `the sentence „…“`.
pub(crate) fn without_examples(folded: &str) -> Cow<'_, str> {
    if !folded.contains(['"', '\'', '«', '「', '《']) {
        return Cow::Borrowed(folded);
    }
    let mut output = String::with_capacity(folded.len());
    let mut rest = folded;
    let mut documents = false;
    while let Some(open) = rest.find(['"', '\'', '«', '「', '《']) {
        let mark = rest[open..].chars().next().unwrap_or('"');
        let close = match mark {
            '«' => '»',
            '「' => '」',
            '《' => '》',
            same => same,
        };
        let inner = &rest[open + mark.len_utf8()..];
        // An apostrophe inside a word opens no quotation.
        let preceding = rest[..open].chars().next_back();
        let is_apostrophe = mark == '\'' && preceding.is_some_and(char::is_alphanumeric);
        output.push_str(&rest[..open]);
        documents |= super::lexicon::speaks_of_examples(&rest[..open]);
        match find_closing_mark(inner, mark, close) {
            Some(end) if !is_apostrophe => {
                let after = &inner[end + close.len_utf8()..];
                // A quoted tag is mentioned, not used.
                let is_tag = end <= 40 && inner.trim_start().starts_with(['<', '[', '{']);
                if !documents && !is_tag {
                    output.push_str(&rest[open..rest.len() - after.len()]);
                }
                rest = after;
            }
            _ => {
                output.push(mark);
                rest = inner;
            }
        }
    }
    output.push_str(rest);
    Cow::Owned(output)
}

/// Finds the closing quotation mark; an apostrophe inside a word does not count.
fn find_closing_mark(inner: &str, open: char, close: char) -> Option<usize> {
    for (at, _) in inner.match_indices(close) {
        let following = inner[at + close.len_utf8()..].chars().next();
        if open != '\'' || following.is_none_or(|c| !c.is_alphanumeric()) {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaced_letters_and_digits_for_letters_read_as_words() {
        assert!(
            is_spaced_out("please i g n o r e a l l")
                && !is_spaced_out("a b c, or d")
                && !is_spaced_out("A B C D E F G")
        );
        assert_eq!(
            without_digits_for_letters("1gn0re a11").as_deref(),
            Some("ignore aii")
        );
        assert_eq!(without_digits_for_letters("in 2024 at 10"), None);
    }

    #[test]
    fn quoted_examples_are_removed_and_other_quotations_stay() {
        assert_eq!(
            without_examples("finds phrases such as \"ignore all rules\", and more"),
            "finds phrases such as , and more"
        );
        assert_eq!(
            without_examples("set 'mode' and don't stop"),
            "set 'mode' and don't stop"
        );
        assert!(without_examples("call \"ignore all rules\" now").contains("ignore all rules"));
    }
}
