//! Values: the parts of a request that are given to a tool and do not tell which.
//!
//! "Rename notes.txt to notes-2024.txt" has nothing to do with notes: what it tells is that the
//! tool takes a path. So the words within a value count less, and what kind of value it is, is a
//! term that tools have whose parameters take such a thing, or that speak of it. A value is told by
//! its form alone; what looks like none is words. The ending of a file's name is a word like
//! others: `offer.docx` wants a tool for that kind of file.
//!
//! Text is read once, a word after the other; only what may be a date looks at the words behind it,
//! and only quotes look ahead, [`MAX_QUOTED_BYTES`] at most.

mod endings;
mod forms;
mod parameters;
#[cfg(test)]
mod tests;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use self::endings::of_file;
use self::forms::{date, path, quoted, single};
pub(crate) use self::parameters::{Taken, taken};

/// Longer quotations are no values.
const MAX_QUOTED_BYTES: usize = 300;

/// A kind of value that requests have and parameters take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ValueKind {
    /// The name of a file, or a path.
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
    /// A picture, by the ending of a file's name; so are those that follow.
    Image,
    /// A recording of sound.
    Audio,
    /// A recording of pictures.
    Video,
    /// A table, or a book of tables.
    Spreadsheet,
    /// Written text.
    Document,
    /// Slides.
    Presentation,
    /// Files in one file.
    Archive,
    /// Source code.
    Code,
}

impl ValueKind {
    /// Every kind, in the order in which reasons name them.
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

    /// Returns the words that a sentence uses for a value of the kind.
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

    /// Returns the term of tools that take such a value. No word or pair of words has a colon.
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

    /// Returns what a word within such a value counts beside one outside. `docs/results.md` has
    /// what else was tried.
    pub(crate) fn word_weight(self) -> f32 {
        match self {
            Self::Url | Self::Email => 0.0,
            Self::Id => 0.75,
            _ => 0.5,
        }
    }
}

/// A value of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) kind: ValueKind,
    /// Where it stands, in bytes.
    pub(crate) range: Range<usize>,
    /// Where the words that count less stand: all of it, but for the ending of a file's name.
    pub(crate) inner: Range<usize>,
    /// What else it is by the ending of its name.
    pub(crate) of_file: Option<ValueKind>,
}

impl Value {
    fn new(kind: ValueKind, range: Range<usize>) -> Self {
        Self {
            kind,
            inner: range.clone(),
            range,
            of_file: None,
        }
    }
}

/// Returns the values of a text in order. A quotation may hold others; where it is one, it is that
/// alone.
pub(crate) fn values(text: &str) -> Vec<Value> {
    let words = bare_words(text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let (value, read) = match date(text, &words[at..]) {
            Some((range, read)) => (Some(Value::new(ValueKind::Date, range)), read),
            None => (value(text, words[at].clone()), 1),
        };
        found.extend(value);
        at += read;
    }
    let all = text
        .trim()
        .trim_matches(|c: char| !c.is_alphanumeric())
        .len();
    for range in quoted(text) {
        // What is quoted as a whole is no part of what is asked, but the request.
        let is_all = text[range.clone()]
            .trim_matches(|c: char| !c.is_alphanumeric())
            .len()
            >= all;
        let place = found.partition_point(|value| value.range.start < range.start);
        if !is_all && found.get(place).is_none_or(|value| value.range != range) {
            found.insert(place, Value::new(ValueKind::Text, range));
        }
    }
    found
}

/// Tells what a word is, if it is a value.
fn value(text: &str, word: Range<usize>) -> Option<Value> {
    let own = &text[word.clone()];
    if let Some(ending) = path(own) {
        let inner = word.start..word.end - ending;
        let of_file = of_file(&own[own.len() - ending..]);
        return Some(Value {
            kind: ValueKind::Path,
            range: word,
            inner,
            of_file,
        });
    }
    let (kind, within) = single(own)?;
    Some(Value::new(
        kind,
        word.start + within.start..word.start + within.end,
    ))
}

/// Returns where the words between white space stand, without the punctuation around them.
fn bare_words(text: &str) -> Vec<Range<usize>> {
    let opens = |c: char| "([{<\"'“‘„«‹`「,;:!?".contains(c);
    let closes = |c: char| ")]}>\"'”’“»›`」,;:!?.…".contains(c);
    let words = text.split_whitespace().map(|word| {
        let bare = word.trim_start_matches(opens).trim_end_matches(closes);
        // Both lie in one piece of memory.
        let start = bare.as_ptr().addr() - text.as_ptr().addr();
        start..start + bare.len()
    });
    words.filter(|range| !range.is_empty()).collect()
}
