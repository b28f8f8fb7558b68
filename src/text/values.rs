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
//! a quotation mark looks ahead, by at most [`MAX_QUOTED_BYTES`].

mod extensions;
mod forms;
mod parameters;
#[cfg(test)]
mod tests;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use self::extensions::file_kind_from_extension;
use self::forms::{classify_word, find_date, find_quoted, path_extension_length};
pub(crate) use self::parameters::{AcceptedValue, accepted_values};

/// The longest quotation that is a value, in bytes.
const MAX_QUOTED_BYTES: usize = 300;

/// A kind of value that requests contain and parameters accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ValueKind {
    /// A file name or a path.
    Path,
    /// A web address.
    Url,
    /// An e-mail address.
    Email,
    /// A date or a time of day.
    Date,
    /// A number or an amount.
    Number,
    /// An identifier, such as a ticket's key or a digest.
    Id,
    /// Text in quotes.
    Text,
    /// An image file, by its extension. The following kinds are files, too.
    Image,
    /// An audio file.
    Audio,
    /// A video file.
    Video,
    /// A spreadsheet or a table.
    Spreadsheet,
    /// A text document.
    Document,
    /// A presentation.
    Presentation,
    /// An archive of files.
    Archive,
    /// Source code.
    Code,
}

impl ValueKind {
    /// All kinds, in the order of reasons.
    pub const ALL: [Self; 15] = [
        Self::Path,
        Self::Url,
        Self::Email,
        Self::Date,
        Self::Number,
        Self::Id,
        Self::Text,
        Self::Image,
        Self::Audio,
        Self::Video,
        Self::Spreadsheet,
        Self::Document,
        Self::Presentation,
        Self::Archive,
        Self::Code,
    ];

    /// Returns the name of a value of the kind in a sentence.
    pub fn label(self) -> &'static str {
        match self {
            Self::Path => "a path",
            Self::Url => "a URL",
            Self::Email => "an e-mail address",
            Self::Date => "a date",
            Self::Number => "a number",
            Self::Id => "an identifier",
            Self::Text => "a text",
            Self::Image => "an image",
            Self::Audio => "a sound file",
            Self::Video => "a video",
            Self::Spreadsheet => "a spreadsheet",
            Self::Document => "a document",
            Self::Presentation => "a presentation",
            Self::Archive => "an archive",
            Self::Code => "source code",
        }
    }

    /// Returns the index term of tools that accept such a value. It has a colon, which no word or
    /// pair of words has.
    pub(crate) fn term(self) -> &'static str {
        match self {
            Self::Path => "takes:path",
            Self::Url => "takes:url",
            Self::Email => "takes:email",
            Self::Date => "takes:date",
            Self::Number => "takes:number",
            Self::Id => "takes:id",
            Self::Text => "takes:text",
            Self::Image => "takes:image",
            Self::Audio => "takes:audio",
            Self::Video => "takes:video",
            Self::Spreadsheet => "takes:spreadsheet",
            Self::Document => "takes:document",
            Self::Presentation => "takes:presentation",
            Self::Archive => "takes:archive",
            Self::Code => "takes:code",
        }
    }

    /// Returns the weight (0 to 1) of a word within such a value. `docs/results.md` describes the
    /// weights that were tried.
    pub(crate) fn word_weight(self) -> f32 {
        match self {
            Self::Url | Self::Email => 0.0,
            Self::Id => 0.75,
            _ => 0.5,
        }
    }
}

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
