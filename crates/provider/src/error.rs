//! Errors of translation and of provider answers.

use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::names::AdvertisingError;

/// Error of translating tools for a provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TranslateError {
    /// The advertised names are invalid.
    #[error(transparent)]
    Advertising(#[from] AdvertisingError),
    /// The provider does not support deferred loading.
    #[error(
        "{provider} does not support deferred loading of tools; use anthropic or openai-responses"
    )]
    NoDeferredLoading {
        /// The provider's name.
        provider: &'static str,
    },
    /// The provider does not support tool references in search results.
    #[error("{provider} does not support tool references in search results; use anthropic")]
    NoToolReferences {
        /// The provider's name.
        provider: &'static str,
    },
}

/// Error of writing the results of a model's calls.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResultError {
    /// A call has no id.
    #[error(
        "the call of {} has no id, which {provider} requires for its result; keep the `id` of \
         each call",
        marked(name, MAX_NAME_CHARS)
    )]
    NoId {
        /// The provider's name.
        provider: &'static str,
        /// The called name.
        name: String,
    },
}

/// Error of an unknown provider name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown provider {name:?}; use one of {}", known.join(", "))]
#[non_exhaustive]
pub struct UnknownProvider {
    /// The unknown name.
    pub name: String,
    /// The names of all providers.
    pub known: Vec<&'static str>,
}

/// Error of reading a provider's answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResponseError {
    /// The provider returned an error.
    #[error("{provider} returned an error: {message}")]
    Refused {
        /// The provider's name.
        provider: &'static str,
        /// The message of the provider, shortened.
        message: String,
    },
    /// The answer has an unexpected shape.
    #[error("unexpected answer of {provider}: {pointer} is {found}, expected {expected}",
        pointer = if pointer.is_empty() { "the answer" } else { pointer })]
    Shape {
        /// The provider's name.
        provider: &'static str,
        /// JSON pointer into the answer, or into the event of a stream.
        pointer: String,
        /// The actual type or value.
        found: &'static str,
        /// The expected type or value.
        expected: &'static str,
    },
    /// An event of a stream is not JSON.
    #[error("event {event} of the stream is not JSON: {reason}")]
    NotJson {
        /// The number of the event, from 1.
        event: usize,
        /// The error of the parser.
        reason: String,
    },
    /// The answer exceeds a limit.
    #[error("the answer has more than {limit} {what}; request fewer calls or shorter arguments")]
    TooLarge {
        /// The counted unit.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The answer ended in the middle of a call, or may have.
    #[error("the answer ended inside the call of {name:?}; retry with a higher token limit")]
    Truncated {
        /// The name of the call, which may be incomplete.
        name: String,
    },
}
