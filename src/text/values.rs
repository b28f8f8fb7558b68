//! Values: the parts of a request that are arguments of a tool rather than hints about the tool.
//!
//! "Rename notes.txt to notes-2024.txt" has nothing to do with notes, but it shows that the tool
//! accepts a path. So words within a value get a lower weight. The kind of the value becomes a
//! term of the request. A tool has the term if its parameters accept such a value, or if its
//! description mentions it.
//!
//! A value is recognised by its form alone; all other text is words. A file extension counts as a
//! normal word: `offer.docx` needs a tool for that kind of file.
//!
//! The text is read once, word by word. Only a possible date looks at the following words, and only
//! a quotation mark looks ahead, by at most `MAX_QUOTED_BYTES`.

mod extensions;
mod forms;
mod kind;
mod parameters;
#[cfg(test)]
mod tests;

use std::ops::Range;

use self::extensions::file_kind_from_extension;
use self::forms::{classify_word, find_date, find_quoted, path_extension_length};
pub use self::kind::ValueKind;
pub(crate) use self::parameters::{AcceptedValue, accepted_values};

/// A value in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestValue {
    pub(crate) kind: ValueKind,
    /// The byte range of the value in the text.
    pub(crate) range: Range<usize>,
    /// The byte range of the words with a lower weight: all of the value except for a file
    /// extension.
    pub(crate) inner: Range<usize>,
    /// The kind of file, by its extension.
    pub(crate) file_kind: Option<ValueKind>,
}

impl RequestValue {
    fn new(kind: ValueKind, range: Range<usize>) -> Self {
        Self {
            kind,
            inner: range.clone(),
            range,
            file_kind: None,
        }
    }
}

/// Returns the values of a text in order.
///
/// A quotation may contain other values. A quotation that is exactly another value is returned only
/// as that value.
pub(crate) fn values(text: &str) -> Vec<RequestValue> {
    let words = bare_words(text);
    let mut values = Vec::new();
    let mut next = 0;
    while next < words.len() {
        let (value, word_count) = match find_date(text, &words[next..]) {
            Some((range, word_count)) => {
                (Some(RequestValue::new(ValueKind::Date, range)), word_count)
            }
            None => (value_from_word(text, words[next].clone()), 1),
        };
        values.extend(value);
        next += word_count;
    }
    let text_length = text
        .trim()
        .trim_matches(|c: char| !c.is_alphanumeric())
        .len();
    for range in find_quoted(text) {
        // If the complete request is in quotation marks, it is not a value.
        let quoted = text[range.clone()].trim_matches(|c: char| !c.is_alphanumeric());
        let is_complete_text = quoted.len() >= text_length;
        let index = values.partition_point(|value| value.range.start < range.start);
        if !is_complete_text && values.get(index).is_none_or(|value| value.range != range) {
            values.insert(index, RequestValue::new(ValueKind::Text, range));
        }
    }
    values
}

/// Returns the value that a word is, if it is one.
fn value_from_word(text: &str, range: Range<usize>) -> Option<RequestValue> {
    let word = &text[range.clone()];
    if let Some(extension_length) = path_extension_length(word) {
        let inner = range.start..range.end - extension_length;
        let file_kind = file_kind_from_extension(&word[word.len() - extension_length..]);
        return Some(RequestValue {
            kind: ValueKind::Path,
            range,
            inner,
            file_kind,
        });
    }
    let (kind, within) = classify_word(word)?;
    Some(RequestValue::new(
        kind,
        range.start + within.start..range.start + within.end,
    ))
}

/// Returns the byte ranges of the words between white space, without surrounding punctuation.
fn bare_words(text: &str) -> Vec<Range<usize>> {
    let is_opening = |c: char| "([{<\"'“‘„«‹`「,;:!?".contains(c);
    let is_closing = |c: char| ")]}>\"'”’“»›`」,;:!?.…".contains(c);
    let words = text.split_whitespace().map(|word| {
        let bare = word
            .trim_start_matches(is_opening)
            .trim_end_matches(is_closing);
        // `bare` is a part of `text`.
        let start = bare.as_ptr().addr() - text.as_ptr().addr();
        start..start + bare.len()
    });
    words.filter(|range| !range.is_empty()).collect()
}
