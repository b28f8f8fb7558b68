//! Why a document, or an operation in it, cannot be read.

use std::fmt;

use thiserror::Error;

/// Why a document cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenApiError {
    /// The text is not JSON or YAML, or too large or too deep.
    #[error("line {line}, column {column}: {message}")]
    Syntax {
        /// Line, from 1; 0 where it is not known.
        line: usize,
        /// Column, from 1; 0 where it is not known.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// A member stands twice.
    #[error("{pointer}: the member stands twice; remove one of them")]
    Repeated {
        /// JSON pointer to it.
        pointer: String,
    },
    /// It is something else.
    #[error(
        "it is {found}, not an OpenAPI document, which says its version in `openapi` or `swagger`"
    )]
    NotOpenApi {
        /// What it is instead.
        found: String,
    },
    /// The version is not known.
    #[error("OpenAPI {found} cannot be read; give a document of version 2.0, 3.0 or 3.1")]
    Version {
        /// The version.
        found: String,
    },
    /// `paths` holds nothing.
    #[error("the document holds no operations; they stand under `paths`")]
    NoOperations,
}

/// An operation, or a whole path, that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// Its method and path, such as `GET /pets`; the path alone where that is left out whole.
    pub operation: String,
    /// JSON pointer into the document.
    pub pointer: String,
    /// Why.
    pub refusal: Refusal,
}

/// Why an operation cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A reference to another document, which is never fetched.
    OtherDocument(String),
    /// A reference that leads nowhere.
    BrokenReference(String),
    /// A reference that leads to itself.
    CircularReference(String),
    /// Something is of another kind than it must be.
    WrongKind {
        /// What it is.
        found: &'static str,
        /// What it must be.
        wanted: &'static str,
    },
    /// A parameter has no name.
    NamelessParameter,
    /// A parameter goes nowhere that is known.
    PlacelessParameter,
    /// The schema of its arguments is larger or deeper than a tool's may be.
    TooLarge,
}

impl Refusal {
    /// What is wrong.
    pub fn message(&self) -> String {
        match self {
            Self::OtherDocument(reference) => {
                format!("{reference:?} refers to another document, which is not fetched")
            }
            Self::BrokenReference(reference) => format!("{reference:?} leads nowhere"),
            Self::CircularReference(reference) => format!("{reference:?} leads to itself"),
            Self::WrongKind { found, .. } => format!("it is {found}"),
            Self::NamelessParameter => "the parameter has no `name`".to_owned(),
            Self::PlacelessParameter => "`in` says nothing that is known".to_owned(),
            Self::TooLarge => "the schema of its arguments is too large".to_owned(),
        }
    }

    /// How to mend it.
    pub fn remedy(&self) -> String {
        match self {
            Self::OtherDocument(_) => "bundle the documents into one".to_owned(),
            Self::BrokenReference(_) | Self::CircularReference(_) => {
                "mend the reference".to_owned()
            }
            Self::WrongKind { wanted, .. } => format!("give {wanted}"),
            Self::NamelessParameter => "name it".to_owned(),
            Self::PlacelessParameter => {
                "say where the parameter goes: path, query, header or cookie".to_owned()
            }
            Self::TooLarge => "split the operation, or shorten its schemas".to_owned(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message(), self.remedy())
    }
}

/// What is wrong, and where.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) pointer: String,
    pub(super) refusal: Refusal,
}

impl Fault {
    pub(super) fn new(pointer: impl Into<String>, refusal: Refusal) -> Self {
        Self {
            pointer: pointer.into(),
            refusal,
        }
    }

    pub(super) fn of(self, operation: String) -> LeftOut {
        LeftOut {
            operation,
            pointer: self.pointer,
            refusal: self.refusal,
        }
    }
}
