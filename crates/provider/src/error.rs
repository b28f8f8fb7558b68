//! What can go wrong between tools and their definitions, and between an answer and its calls.

use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::names::AdvertisingError;

/// An error from translating tools for a provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TranslateError {
    /// The names to show cannot be made.
    #[error(transparent)]
    Advertising(#[from] AdvertisingError),
    /// The provider cannot load definitions later.
    #[error("{provider} has no deferred loading of tools; anthropic and openai-responses have")]
    NoDeferredLoading {
        /// The provider's name.
        provider: &'static str,
    },
    /// The provider has no references to tools in the results of a search.
    #[error(
        "{provider} has no references to deferred tools; only anthropic takes them in the result of a search"
    )]
    NoToolReferences {
        /// The provider's name.
        provider: &'static str,
    },
}

/// An error from writing the results of a model's calls.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResultError {
    /// A call has no id.
    #[error(
        "{provider} takes the result of a call by its id, and the call of {} has none; keep the `id` of each call",
        marked(name, MAX_NAME_CHARS)
    )]
    NoId {
        /// The provider's name.
        provider: &'static str,
        /// The name that was called.
        name: String,
    },
}

/// No provider has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no provider is called {name:?}; name one of {}", known.join(", "))]
#[non_exhaustive]
pub struct UnknownProvider {
    /// What was asked for.
    pub name: String,
    /// The names that there are.
    pub known: Vec<&'static str>,
}

/// An error from reading the tool calls of a provider's answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResponseError {
    /// The provider answered with an error.
    #[error("{provider} answered with an error: {message}")]
    Refused {
        /// The provider's name.
        provider: &'static str,
        /// What it said, shortened.
        message: String,
    },
    /// The answer is of another shape.
    #[error("the answer is not one of {provider}: {pointer} is {found}, expected {expected}",
        pointer = if pointer.is_empty() { "the whole" } else { pointer })]
    Shape {
        /// The provider's name.
        provider: &'static str,
        /// JSON pointer into the answer, or into the event of a stream.
        pointer: String,
        /// What stands there.
        found: &'static str,
        /// What belongs there.
        expected: &'static str,
    },
    /// The text of a stream is not JSON.
    #[error("the event {event} of the stream is not JSON: {reason}")]
    NotJson {
        /// Which event, from 1.
        event: usize,
        /// What the parser said.
        reason: String,
    },
    /// The answer is larger than any honest one.
    #[error("the answer has more than {limit} {what}; ask for fewer calls, or shorter arguments")]
    TooLarge {
        /// What is counted.
        what: &'static str,
        /// The most of it.
        limit: usize,
    },
    /// The answer broke off in the middle of a call, or may have.
    #[error(
        "the answer ended before the call of {name:?} was whole; send the request again, with room for more tokens"
    )]
    BrokenOff {
        /// The name as far as it is known.
        name: String,
    },
}
