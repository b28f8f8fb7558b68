//! Sentences of a text.

use std::ops::Range;

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// The most parts that [`Query::sentences`](super::Query::sentences) returns.
pub(crate) const MAX_SENTENCES: usize = 16;

pub(super) fn is_blank(text: &str) -> bool {
    use GeneralCategoryGroup::{Other, Punctuation, Separator};
    text.chars()
        .all(|c| matches!(c.general_category_group(), Separator | Punctuation | Other))
}

pub(super) fn sentence_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((position, letter)) = letters.next() {
        let next = letters.peek().map(|&(_, next)| next);
        if ends_sentence(letter, next) || next.is_none() {
            let end = position + letter.len_utf8();
            if text[start..end].contains(char::is_alphanumeric) {
                ranges.push(start..end);
            }
            start = end;
        }
    }
    ranges
}

/// Merges neighbours of equal number, so that there are at most [`MAX_SENTENCES`] texts.
pub(super) fn merge_neighbours<'t>(text: &'t str, ranges: &[Range<usize>]) -> Vec<&'t str> {
    let group_size = ranges.len().div_ceil(MAX_SENTENCES).max(1);
    ranges
        .chunks(group_size)
        .map(|group| &text[group[0].start..group[group.len() - 1].end])
        .collect()
}

/// Returns `true` if a sentence or line ends at `letter`. A full stop inside a word, as in `3.5` or
/// `main.rs`, does not end a sentence.
fn ends_sentence(letter: char, next: Option<char>) -> bool {
    match letter {
        '\n' | '。' | '！' | '？' => true,
        '.' | '!' | '?' | ';' => next.is_none_or(char::is_whitespace),
        _ => false,
    }
}
