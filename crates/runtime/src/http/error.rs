//! The error of a request that is not sent, or that fails.

use crate::ErrorType;

/// An error from a request that is not sent, or that fails.
pub(super) struct HttpCallError {
    pub(super) kind: ErrorType,
    pub(super) message: String,
    pub(super) suggestion: Option<String>,
}

impl HttpCallError {
    pub(super) fn new(kind: ErrorType, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            suggestion: None,
        }
    }

    /// Makes the error for a definition that cannot be called.
    pub(super) fn definition(message: impl Into<String>) -> Self {
        Self::new(ErrorType::System, message)
    }

    pub(super) fn suggest(self, suggestion: impl Into<String>) -> Self {
        Self {
            suggestion: Some(suggestion.into()),
            ..self
        }
    }
}
