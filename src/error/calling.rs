//! Errors between a pick and a call: names, translation, answers, arguments.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

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

/// Why a call of a model cannot be run. The message is written for the model.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize)]
#[serde(tag = "code", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallError {
    /// No tool has the name.
    #[error("Unknown tool: {name}{}", did_you_mean(suggestions))]
    UnknownTool {
        /// What was called.
        name: String,
        /// The nearest names that there are, best first.
        suggestions: Vec<String>,
    },
    /// Several tools have the name.
    #[error("the tool name {name:?} is ambiguous; call one of: {}", candidates.join(", "))]
    AmbiguousTool {
        /// What was called.
        name: String,
        /// The ids of the tools that it may mean.
        candidates: Vec<String>,
    },
    /// The arguments are larger than is read.
    #[error("the arguments of {tool} are {bytes} bytes or more, and at most {most} are read; send less at once")]
    TooLarge {
        /// The tool's id.
        tool: String,
        /// How large they are, as far as they were measured.
        bytes: usize,
        /// How large they may be.
        most: usize,
    },
    /// The arguments are no JSON object.
    #[error("the arguments of {tool} cannot be read: {reason}; send one JSON object{}", repair_note(failed_repair))]
    Malformed {
        /// The tool's id.
        tool: String,
        /// What is wrong, with line and column.
        reason: String,
        /// Why they could not be repaired, where that was tried.
        #[serde(skip_serializing_if = "Option::is_none")]
        failed_repair: Option<String>,
    },
    /// The arguments do not fit the tool's schema.
    #[error(
        "the arguments of {tool} do not fit: {}{}{}",
        list(faults),
        correct_call(example),
        repair_note(failed_repair)
    )]
    Invalid {
        /// The tool's id.
        tool: String,
        /// What does not fit, the first few of it.
        faults: Vec<ArgumentFault>,
        /// Small arguments that would fit, where some are known.
        #[serde(skip_serializing_if = "Option::is_none")]
        example: Option<Box<Value>>,
        /// Why they could not be repaired, where that was tried.
        #[serde(skip_serializing_if = "Option::is_none")]
        failed_repair: Option<String>,
    },
    /// A tool that may be called without a schema only to read says of itself that it writes.
    #[error("{tool} has no schema and may only read, but is marked as one that changes things; it cannot be called")]
    NotReadOnly {
        /// The tool's id.
        tool: String,
    },
    /// The arguments fit the schema, but not the type that the program reads them as.
    #[error("the arguments of {tool} are not what the program expects: {reason}")]
    Typed {
        /// The tool's id.
        tool: String,
        /// What does not fit.
        reason: String,
    },
}

impl CallError {
    pub(crate) fn malformed(tool: &str, reason: impl Into<String>) -> Self {
        Self::Malformed { tool: tool.to_owned(), reason: reason.into(), failed_repair: None }
    }

    /// The same error, with what became of an attempt to repair the arguments.
    pub(crate) fn with_failed_repair(mut self, by: &str, reason: &str) -> Self {
        if let Self::Malformed { failed_repair, .. } | Self::Invalid { failed_repair, .. } = &mut self {
            *failed_repair = Some(format!("{by}: {reason}"));
        }
        self
    }
}

fn did_you_mean(suggestions: &[String]) -> String {
    match suggestions {
        [] => String::new(),
        near => format!("; did you mean {}?", near.join(" or ")),
    }
}

fn list(faults: &[ArgumentFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn correct_call(example: &Option<Box<Value>>) -> String {
    example.as_ref().map_or(String::new(), |example| format!("; correct would be for example {example}"))
}

fn repair_note(failed: &Option<String>) -> String {
    failed.as_ref().map_or(String::new(), |reason| format!(" (a repair failed: {reason})"))
}
