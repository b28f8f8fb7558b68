//! What can go wrong with a catalog.

use std::cmp::Ordering;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::reader::DocumentError;
use crate::excerpt::{MAX_LISTED, MAX_NAME_CHARS, marked};

/// The most characters that are shown of a fault's message.
const MAX_MESSAGE_CHARS: usize = 400;

/// An error from reading or validating a catalog; its text shows the first faults.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// The file or folder cannot be read.
    #[error("cannot read the catalog {}", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The file of the operator's aliases cannot be read.
    #[error("cannot read the aliases {}", path.display())]
    ReadAliases {
        /// What was to be read.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// Aliases of the operator are no names, or mean no tool of the catalog.
    #[error("{}", FaultList("the operator's aliases", faults))]
    Aliases {
        /// Every fault found, in the order of the file.
        faults: Vec<CatalogFault>,
    },
    /// The folder holds no catalog file.
    #[error("the folder {} holds no *.json, *.jsonl, *.yaml or *.yml file; name a file, or a folder that has one", path.display())]
    NoCatalogInFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The bytes are not UTF-8.
    #[error(
        "{origin}: line {line} is not valid UTF-8 (byte {column} of the line); save the file as UTF-8"
    )]
    NotUtf8 {
        /// Where the bytes come from.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// Byte in the line, from 1.
        column: usize,
    },
    /// The text is not JSON.
    #[error("{origin}: line {line}, column {column}: {message}")]
    Syntax {
        /// Where the text comes from.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What the parser expected.
        message: String,
    },
    /// A member stands twice beside the tools, so that nobody knows which was meant.
    #[error("{origin}: the member {pointer:?} stands twice; remove one of them")]
    Repeated {
        /// Where the text comes from.
        origin: String,
        /// JSON pointer to the member.
        pointer: String,
    },
    /// A document of a format with a reader of its own cannot be read.
    #[error("cannot read the {format} {origin}")]
    Document {
        /// The file or other origin of the document.
        origin: String,
        /// The format, such as `OpenAPI document`.
        format: &'static str,
        /// The reader's error.
        source: DocumentError,
    },
    /// Policy stands beside the tools, where it counts for none of them.
    #[error(
        "{origin}: the member {pointer:?} stands beside the list of tools, where it counts for nothing; put it into each \
         tool, or remove it"
    )]
    PolicyBeside {
        /// Where the text comes from.
        origin: String,
        /// JSON pointer to the member.
        pointer: String,
    },
    /// The JSON is of no known catalog format.
    #[error(
        "{origin}: no catalog format recognised ({found}); expected tool definitions as a JSON array, JSON Lines, \
         an object with `tools`, MCP tools/list results, tools of OpenAI, Anthropic, Gemini or Ollama, or an OpenAPI document"
    )]
    UnknownFormat {
        /// Where the text comes from.
        origin: String,
        /// What was found instead.
        found: String,
    },
    /// One or more entries are not valid.
    #[error("{}", FaultList(origin, faults))]
    Invalid {
        /// Where the entries come from.
        origin: String,
        /// Every fault found, in the order of the entries.
        faults: Vec<CatalogFault>,
    },
}

/// Where something stands that has a fault.
///
/// Positions stand in the order of the files, and of what is in them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Position {
    /// Not in the catalog's entries.
    Skills,
    /// One skill, by its path.
    Skill(String),
    /// One of the operator's aliases.
    OperatorAlias(String),
    /// A line of JSON Lines, from 1.
    Line(usize),
    /// An entry of an array, from 1.
    Entry(usize),
    /// A tool, from 1, of a line or entry that holds several: a page of `tools/list`, or Gemini's
    /// declarations.
    Part(Box<Self>, usize),
    /// An operation of an OpenAPI document, such as `GET /pets`.
    Operation(String),
    /// A place as a saved index notes it.
    Noted(String),
    /// Somewhere in one of several files.
    File {
        /// Which file it is, from 1.
        number: usize,
        /// Where it comes from.
        origin: Arc<str>,
        /// Where in it.
        position: Box<Self>,
    },
}

impl Position {
    /// What it is ordered by: the number of the file, the kind of place with its text or number,
    /// and the part.
    fn key(&self) -> (usize, u8, &str, usize, usize) {
        match self {
            Self::Skills => (0, 0, "", 0, 0),
            Self::Skill(path) => (0, 1, path, 0, 0),
            Self::OperatorAlias(alias) => (0, 2, alias, 0, 0),
            Self::Line(number) => (0, 3, "", *number, 0),
            Self::Entry(number) => (0, 4, "", *number, 0),
            Self::Operation(operation) => (0, 5, operation, 0, 0),
            Self::Noted(place) => (0, 6, place, 0, 0),
            Self::Part(whole, part) => {
                let (file, kind, text, number, _) = whole.key();
                (file, kind, text, number, *part)
            }
            Self::File {
                number: file,
                position,
                ..
            } => {
                let (_, kind, text, number, part) = position.key();
                (*file, kind, text, number, part)
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
            Self::Operation(place) | Self::Noted(place) => {
                f.write_str(&marked(place, MAX_NAME_CHARS))
            }
            Self::Part(whole, part) => write!(f, "{whole}, tool {part}"),
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
        String::deserialize(deserializer).map(Self::Noted)
    }
}

/// What kind of fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FaultKind {
    /// The entry is not a valid tool definition.
    InvalidEntry,
    /// A name, id, source or alias is empty, too long, of another type, or holds hidden characters.
    InvalidName,
    /// A schema is invalid, too large, or refers to something outside itself.
    InvalidSchema,
    /// Two tools have one identity.
    DuplicateTool,
    /// A name looks like another.
    ConfusableName,
    /// An alias is claimed twice, is a tool's name, or is given to another tool by the operator.
    AliasConflict,
    /// An alias of an untrusted source does not count.
    UntrustedAlias,
    /// The examples of an untrusted source do not count.
    UntrustedExamples,
    /// An alias of the operator means no tool, or several.
    OperatorAlias,
    /// A tool that the provider defines itself is left out.
    ProviderTool,
    /// An operation of an OpenAPI document, or a tool of an MCP server, is left out, because it
    /// makes no valid tool.
    LeftOut,
}

/// One fault of one catalog entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CatalogFault {
    /// Where the entry stands; as JSON the text `line 3` or `entry 4`.
    pub position: Position,
    /// What kind of fault it is.
    pub kind: FaultKind,
    /// The entry's name, where it has one.
    pub name: Option<String>,
    /// JSON pointer into the entry; empty for the whole entry.
    pub pointer: String,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
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

struct FaultList<'a>(&'a str, &'a Vec<CatalogFault>);

impl fmt::Display for FaultList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.1.len() == 1 { "fault" } else { "faults" };
        write!(f, "{}: {} {plural}", self.0, self.1.len())?;
        self.1
            .iter()
            .take(MAX_LISTED)
            .try_for_each(|fault| write!(f, "\n  {fault}"))?;
        match self.1.len().saturating_sub(MAX_LISTED) {
            0 => Ok(()),
            more => write!(f, "\n  … and {more} more"),
        }
    }
}
