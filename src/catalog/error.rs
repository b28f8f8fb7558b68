//! Errors and faults of catalogs.

use std::cmp::Ordering;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::reader::DocumentError;
use crate::excerpt::{MAX_LISTED, MAX_NAME_CHARS, marked};
use crate::saved::SavedError;

/// The length of a fault's message, in characters; longer messages are shortened.
const MAX_MESSAGE_CHARS: usize = 400;

/// An error from reading or validating a catalog; its text shows the first faults.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// The file or folder cannot be read.
    #[error("cannot read the catalog {}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file of the operator's aliases cannot be read.
    #[error("cannot read the aliases {}", path.display())]
    ReadAliases {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// An operator alias is not a valid name, or refers to no tool of the catalog.
    #[error("{}", FaultList("the operator's aliases", faults))]
    Aliases {
        /// Every fault, in the order of the file.
        faults: Vec<CatalogFault>,
    },
    /// The folder holds no catalog file.
    #[error(
        "the folder {} has no *.json, *.jsonl, *.yaml or *.yml file; \
         name a file, or a folder that has one",
        path.display()
    )]
    NoCatalogInFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A definition of the saved index that the catalog was opened from cannot be read.
    #[error(transparent)]
    Saved(#[from] SavedError),
    /// The bytes are not UTF-8.
    #[error(
        "{origin}: line {line} is not valid UTF-8 (byte {column} of the line); \
         save the file as UTF-8"
    )]
    NotUtf8 {
        /// The origin of the bytes.
        origin: String,
        /// The line number, from 1.
        line: usize,
        /// The byte in the line, from 1.
        column: usize,
    },
    /// The text is not JSON.
    #[error("{origin}: line {line}, column {column}: {message}")]
    Syntax {
        /// The origin of the text.
        origin: String,
        /// The line number, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The parser's message.
        message: String,
    },
    /// A duplicate key outside the tools.
    #[error("{origin}: duplicate key {pointer:?}; remove one of them")]
    DuplicateKey {
        /// The origin of the text.
        origin: String,
        /// The JSON pointer to the member.
        pointer: String,
    },
    /// A document with a [`DocumentReader`](super::DocumentReader) cannot be read.
    #[error("cannot read the {format} {origin}")]
    Document {
        /// The file or other origin of the document.
        origin: String,
        /// The format, such as `OpenAPI document`.
        format: &'static str,
        /// The reader's error.
        source: DocumentError,
    },
    /// A policy field outside the tools, which would have no effect.
    #[error(
        "{origin}: the policy field {pointer:?} outside the list of tools has no effect; \
         move it into each tool, or remove it"
    )]
    PolicyOutsideTools {
        /// The origin of the text.
        origin: String,
        /// The JSON pointer to the member.
        pointer: String,
    },
    /// The JSON has no known catalog format.
    #[error(
        "{origin}: no catalog format recognised ({found}); expected tool definitions as a JSON \
         array, JSON Lines, an object with `tools`, MCP tools/list results, tools of OpenAI, \
         Anthropic, Gemini or Ollama, or an OpenAPI document"
    )]
    UnknownFormat {
        /// The origin of the text.
        origin: String,
        /// The content that was found instead.
        found: String,
    },
    /// One or more entries are invalid.
    #[error("{}", FaultList(origin, faults))]
    Invalid {
        /// The origin of the entries.
        origin: String,
        /// Every fault, in the order of the entries.
        faults: Vec<CatalogFault>,
    },
}

/// The position of a fault.
///
/// Positions are ordered by file, and by the position in the file.
///
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Position {
    /// The skills in general.
    Skills,
    /// A skill, by its path.
    Skill(String),
    /// An alias of the operator.
    OperatorAlias(String),
    /// A line of JSON Lines, from 1.
    Line(usize),
    /// An entry of an array, from 1.
    Entry(usize),
    /// A tool, from 1, of a line or entry with several tools: a page of `tools/list`, or Gemini's
    /// declarations.
    Part(Box<Self>, usize),
    /// An operation of an OpenAPI document, such as `GET /pets`.
    Operation(String),
    /// The text of a position, as a saved index stores it.
    Text(String),
    /// A position in one of several files.
    File {
        /// The number of the file, from 1.
        number: usize,
        /// The origin of the file.
        origin: Arc<str>,
        /// The position in the file.
        position: Box<Self>,
    },
}

impl Position {
    /// Returns the sort key: the number of the file, the kind of position with its text or number,
    /// and the tool in the entry.
    fn key(&self) -> (usize, u8, &str, usize, usize) {
        match self {
            Self::Skills => (0, 0, "", 0, 0),
            Self::Skill(path) => (0, 1, path, 0, 0),
            Self::OperatorAlias(alias) => (0, 2, alias, 0, 0),
            Self::Line(number) => (0, 3, "", *number, 0),
            Self::Entry(number) => (0, 4, "", *number, 0),
            Self::Operation(operation) => (0, 5, operation, 0, 0),
            Self::Text(text) => (0, 6, text, 0, 0),
            Self::Part(entry, tool) => {
                let (file, kind, text, number, _) = entry.key();
                (file, kind, text, number, *tool)
            }
            Self::File {
                number: file,
                position,
                ..
            } => {
                let (_, kind, text, number, tool) = position.key();
                (*file, kind, text, number, tool)
            }
        }
    }
}

impl Ord for Position {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skills => f.write_str("skills"),
            Self::Skill(path) => write!(f, "skill {path}"),
            Self::OperatorAlias(alias) => {
                write!(f, "operator alias {:?}", marked(alias, MAX_NAME_CHARS))
            }
            Self::Line(line) => write!(f, "line {line}"),
            Self::Entry(entry) => write!(f, "entry {entry}"),
            Self::Operation(text) | Self::Text(text) => f.write_str(&marked(text, MAX_NAME_CHARS)),
            Self::Part(entry, tool) => write!(f, "{entry}, tool {tool}"),
            Self::File {
                origin, position, ..
            } => write!(f, "{origin}: {position}"),
        }
    }
}

impl Serialize for Position {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::Text)
    }
}

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FaultKind {
    /// The entry is not a valid tool definition.
    InvalidEntry,
    /// A name, id, source or alias is empty, too long, of another type, or has hidden characters.
    InvalidName,
    /// A schema is invalid or too large, or refers to something outside itself.
    InvalidSchema,
    /// Two tools have the same id.
    DuplicateTool,
    /// A name is confusable with another name.
    ConfusableName,
    /// Two tools claim an alias, the alias is a tool's name, or the operator gives it to another
    /// tool.
    AliasConflict,
    /// An alias of an untrusted source is ignored.
    UntrustedAlias,
    /// The examples of an untrusted source are ignored.
    UntrustedExamples,
    /// An alias of the operator refers to no tool, or to several.
    OperatorAlias,
    /// A tool that the provider defines itself is left out.
    ProviderTool,
    /// An operation of an OpenAPI document, a tool of an MCP server, or an entry of a file is left
    /// out, because it is not a valid tool.
    LeftOut,
    /// A keyword of a schema is not checked as it is written; the tool stays.
    UncheckedKeyword,
}

impl FaultKind {
    /// Returns `true` if the kind does not make an entry unusable.
    pub(crate) fn is_notice(self) -> bool {
        matches!(
            self,
            Self::ProviderTool | Self::LeftOut | Self::UncheckedKeyword
        )
    }
}

/// A fault of a catalog entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CatalogFault {
    /// The position of the entry; in JSON the text `line 3` or `entry 4`.
    pub position: Position,
    /// The kind of the fault.
    pub kind: FaultKind,
    /// The entry's name, if it has one.
    pub name: Option<String>,
    /// The JSON pointer into the entry; empty for the entry itself.
    pub pointer: String,
    /// The description of the fault.
    pub message: String,
    /// The action that fixes it.
    pub remedy: String,
}

impl fmt::Display for CatalogFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.position)?;
        if let Some(name) = &self.name {
            write!(f, " ({:?})", marked(name, MAX_NAME_CHARS))?;
        }
        if !self.pointer.is_empty() {
            write!(f, " at {}", marked(&self.pointer, MAX_MESSAGE_CHARS))?;
        }
        let [message, remedy] =
            [&self.message, &self.remedy].map(|text| marked(text, MAX_MESSAGE_CHARS));
        write!(f, ": {message}; {remedy}")
    }
}

/// An origin with its faults, of which the text lists the first ones.
struct FaultList<'a>(&'a str, &'a Vec<CatalogFault>);

impl fmt::Display for FaultList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(origin, faults) = self;
        let noun = if faults.len() == 1 { "fault" } else { "faults" };
        write!(f, "{origin}: {} {noun}", faults.len())?;
        for fault in faults.iter().take(MAX_LISTED) {
            write!(f, "\n  {fault}")?;
        }
        match faults.len().saturating_sub(MAX_LISTED) {
            0 => Ok(()),
            more => write!(f, "\n  … and {more} more"),
        }
    }
}
