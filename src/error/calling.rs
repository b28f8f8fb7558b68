//! Errors between a pick and a call: names, translation, answers, arguments.

use std::fmt;

use serde::Serialize;

/// An error from choosing the names that a model is shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdvertisingError {
    /// The map of names has a key that is no tool.
    #[error("the name map has {name:?}, which is none of the tools; write a tool's id, source/name or name")]
    UnknownTool {
        /// The key.
        name: String,
    },
    /// The map of names has a key that is several tools.
    #[error("the name map has {name:?}, which is ambiguous; write one of: {}", candidates.join(", "))]
    AmbiguousTool {
        /// The key.
        name: String,
        /// The ids of the tools that it may mean.
        candidates: Vec<String>,
    },
    /// The map of names has two keys for one tool.
    #[error("the name map names the tool {tool} twice; keep one of its names")]
    NamedTwice {
        /// The tool's id.
        tool: String,
    },
    /// Two tools would be shown under one name.
    #[error("the tools {} would both be shown as {name:?}; give each a name of its own", tools.join(" and "))]
    SharedName {
        /// The name.
        name: String,
        /// The ids of the tools.
        tools: Vec<String>,
    },
    /// A tool has more aliases than can each have a definition.
    #[error(
        "the tool {tool} has {count} aliases, of which {limit} can have definitions of their own; tell them in the \
         descriptions instead (described)"
    )]
    TooManyAliases {
        /// The tool's id.
        tool: String,
        /// How many it has.
        count: usize,
        /// The most that can be expanded.
        limit: usize,
    },
    /// The map of names shows a tool under nothing.
    #[error("the name map shows the tool {tool} under an empty name; give it one, or leave it out of the map")]
    EmptyName {
        /// The tool's id.
        tool: String,
    },
}

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
    #[error("{provider} has no references to deferred tools; only anthropic takes them in the result of a search")]
    NoToolReferences {
        /// The provider's name.
        provider: &'static str,
    },
}

/// No provider has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no provider is called {name:?}; name one of {}", known.join(", "))]
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
    #[error("the answer is none of {provider}: {pointer} is {found}, expected {expected}",
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
    /// The text of a stream is no JSON.
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
    /// The stream broke off in the middle of a call.
    #[error("the stream ended before the call of {name:?} was whole; send the request again")]
    BrokenOff {
        /// The name as far as it is known.
        name: String,
    },
}

/// One thing in a call's arguments that does not fit the tool's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ArgumentFault {
    /// JSON pointer into the arguments; empty for all of them.
    pub pointer: String,
    /// The schema's keyword that is not met, such as `type` or `required`.
    pub keyword: String,
    /// What the schema expects there.
    pub expected: String,
    /// What stands there, as JSON, shortened.
    pub received: String,
}

impl fmt::Display for ArgumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "the arguments" } else { &self.pointer };
        write!(f, "{place}: expected {}, received {}", self.expected, self.received)
    }
}
