//! The kinds of values.

use serde::{Deserialize, Serialize};

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
