//! Text as the rules read it: sentences, without what is quoted as an example, and with disguised
//! letters read as letters.

use std::borrow::Cow;

pub(crate) use picktools::text::fold::{fold, is_mixed, words};

/// Fewer letters in a row, each a word of its own, are a list.
const LEAST_SPACED: usize = 8;

/// Returns `true` if a text sets letters apart (`i g n o r e`), which hides words from whoever
/// searches for them.
pub(crate) fn is_spaced_out(text: &str) -> bool {
    let mut run = 0;
    text.split([' ', '.', '-', '_']).any(|part| {
        let is_letter = part.len() == 1 && part.as_bytes()[0].is_ascii_lowercase();
        run = if is_letter { run + 1 } else { 0 };
        run >= LEAST_SPACED
    })
}

/// Digits in words read as the letters they stand for: `1gn0re` is a word too. `None` where there
/// is none.
pub(crate) fn without_digits_for_letters(folded: &str) -> Option<String> {
    let is_written_so = |word: &str| {
        word.len() > 3
            && word.bytes().filter(u8::is_ascii_alphabetic).count() > word.len() / 2
            && word.contains(|c: char| "013457".contains(c))
    };
    if !words(folded).any(is_written_so) {
        return None;
    }
    Some(folded.chars().map(letter_for).collect())
}

/// The letter that a digit or sign stands for in a disguise.
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

/// Cuts a text into sentences, none of them long: at full stops, question and exclamation marks,
/// semicolons and empty lines.
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    const MOST: usize = 600;
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|&(_, next)| next);
        let ends = match c {
            '.' | '!' | '?' | ';' => next.is_none_or(char::is_whitespace),
            '。' | '！' | '？' | '；' | '\u{2029}' => true,
            '\n' => next == Some('\n'),
            ' ' | ',' => at - start > MOST,
            _ => at - start > 2 * MOST,
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

/// A text without what it quotes as an example of something: `such as "…"`, `the sentence „…“`.
pub(crate) fn without_examples(folded: &str) -> Cow<'_, str> {
    if !folded.contains(['"', '\'', '«', '「', '《']) {
        return Cow::Borrowed(folded);
    }
    let mut kept = String::with_capacity(folded.len());
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
        // An apostrophe inside a word quotes nothing.
        let before = rest[..open].chars().next_back();
        let is_apostrophe = mark == '\'' && before.is_some_and(char::is_alphanumeric);
        kept.push_str(&rest[..open]);
        documents |= super::lexicon::speaks_of_examples(&rest[..open]);
        let end = inner.match_indices(close).map(|(at, _)| at).find(|&at| {
            let after = inner[at + close.len_utf8()..].chars().next();
            mark != '\'' || after.is_none_or(|c| !c.is_alphanumeric())
        });
        match end {
            Some(end) if !is_apostrophe => {
                let after = &inner[end + close.len_utf8()..];
                // A tag in quotation marks is spoken of, not used.
                let is_tag = end <= 40 && inner.trim_start().starts_with(['<', '[', '{']);
                if !documents && !is_tag {
                    kept.push_str(&rest[open..rest.len() - after.len()]);
                }
                rest = after;
            }
            _ => {
                kept.push(mark);
                rest = inner;
            }
        }
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_set_apart_and_digits_for_letters_are_read_as_words() {
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
    fn what_is_quoted_as_an_example_is_left_out_and_what_is_quoted_otherwise_is_not() {
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
