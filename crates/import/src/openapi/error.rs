//! Errors of documents and of their operations.

use std::fmt;

use thiserror::Error;

/// Error of an OpenAPI document as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenApiError {
    /// The text is not JSON or YAML, or too large or too deep.
    #[error("line {line}, column {column}: {message}")]
    Syntax {
        /// The line, from 1; 0 if unknown.
        line: usize,
        /// The column, from 1; 0 if unknown.
        column: usize,
        /// The cause.
        message: String,
    },
    /// A key occurs twice.
    #[error("duplicate key {pointer:?}; remove one of them")]
    Repeated {
        /// JSON pointer to the key.
        pointer: String,
    },
    /// The document is not an OpenAPI document.
    #[error(
        "not an OpenAPI document: it is {found}; give a document with a version in `openapi` or \
         `swagger`"
    )]
    NotOpenApi {
        /// A description of the document.
        found: String,
    },
    /// The version is not supported.
    #[error("unsupported OpenAPI version {found}; give a document of version 2.0, 3.0, 3.1 or 3.2")]
    Version {
        /// The version.
        found: String,
    },
    /// The document has no operations.
    #[error("the document has no operations; define them under `paths`")]
    NoOperations,
}

/// An operation, or a path, that was left out because it is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedOperation {
    /// The method and path, such as `GET /pets`; only the path if all of it is left out.
    pub operation: String,
    /// JSON pointer to the cause.
    pub pointer: String,
    /// The cause.
    pub problem: OperationProblem,
}

/// The reason for which an operation was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationProblem {
    /// A reference to another document. It is not fetched.
    OtherDocument(String),
    /// A reference without a target.
    BrokenReference(String),
    /// A reference that leads back to itself.
    CircularReference(String),
    /// A value has the wrong JSON type.
    WrongKind {
        /// The actual type.
        found: &'static str,
        /// The expected type.
        expected: &'static str,
    },
    /// A parameter has no name.
    UnnamedParameter,
    /// The location of a parameter is missing or unknown.
    UnknownParameterLocation,
    /// A member of a path that is no operation and nothing else that a path may have.
    UnknownMember(String),
    /// The schema of the arguments exceeds the limits of a tool.
    TooLarge,
}

impl OperationProblem {
    /// Returns the cause.
    pub fn message(&self) -> String {
        match self {
            Self::OtherDocument(reference) => {
                format!("{reference:?} refers to another document, which is not fetched")
            }
            Self::BrokenReference(reference) => format!("{reference:?} has no target"),
            Self::CircularReference(reference) => format!("{reference:?} refers to itself"),
            Self::WrongKind { found, .. } => format!("it is {found}"),
            Self::UnnamedParameter => "the parameter has no `name`".to_owned(),
            Self::UnknownParameterLocation => {
                "the parameter's `in` is missing or unknown".to_owned()
            }
            Self::UnknownMember(name) => format!("a path has no member {name:?}"),
            Self::TooLarge => "the schema of the arguments is too large".to_owned(),
        }
    }

    /// Returns the remedy.
    pub fn remedy(&self) -> String {
        match self {
            Self::OtherDocument(_) => "bundle the documents into one".to_owned(),
            Self::BrokenReference(_) | Self::CircularReference(_) => {
                "correct the reference".to_owned()
            }
            Self::WrongKind { expected, .. } => format!("give {expected}"),
            Self::UnnamedParameter => "add `name`".to_owned(),
            Self::UnknownParameterLocation => {
                "set `in` to path, query, header or cookie".to_owned()
            }
            Self::UnknownMember(_) => {
                "write an HTTP method in lower case, or put another method under \
                 `additionalOperations`"
                    .to_owned()
            }
            Self::TooLarge => "split the operation, or shorten its schemas".to_owned(),
        }
    }
}

impl fmt::Display for OperationProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message(), self.remedy())
    }
}

/// The cause and the position of an error in an operation.
#[derive(Debug)]
pub(super) struct OperationError {
    pub(super) pointer: String,
    pub(super) problem: OperationProblem,
}

impl OperationError {
    pub(super) fn new(pointer: impl Into<String>, problem: OperationProblem) -> Self {
        Self {
            pointer: pointer.into(),
            problem,
        }
    }

    pub(super) fn into_skipped(self, operation: String) -> SkippedOperation {
        SkippedOperation {
            operation,
            pointer: self.pointer,
            problem: self.problem,
        }
    }
}
