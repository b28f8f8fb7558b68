//! What can go wrong with a model's call.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use picktools::access::IneligibleReason;
use picktools::excerpt;
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::schema::ArgumentFault;

/// Why a [`Repairer`](super::Repairer) wrote no arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct RepairError {
    /// What went wrong.
    pub reason: String,
}

/// Why a call of a model cannot be run. The message is written for the model.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize)]
#[serde(tag = "code", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallError {
    /// No tool has the name.
    #[error(
        "Unknown tool: {}{}",
        marked(name, MAX_NAME_CHARS),
        did_you_mean(suggestions)
    )]
    UnknownTool {
        /// What was called.
        name: String,
        /// The nearest names that there are, best first.
        suggestions: Vec<String>,
    },
    /// Several tools have the name.
    #[error(
        "the tool name {:?} is ambiguous; call one of: {}",
        marked(name, MAX_NAME_CHARS),
        excerpt::list(candidates, ", ")
    )]
    AmbiguousTool {
        /// What was called.
        name: String,
        /// The ids of the tools that it may mean.
        candidates: Vec<String>,
    },
    /// The name is that of a tool only without characters that nobody sees.
    #[error(
        "the tool name {name:?} holds the invisible character {character}; call the tool by its name alone"
    )]
    HiddenCharacter {
        /// What was called, with the characters marked.
        name: String,
        /// The first of them, as `U+200B`.
        character: String,
    },
    /// The caller may not see and run the tool.
    #[error("{tool} cannot be called: it is {}", described(reasons))]
    Ineligible {
        /// The tool's id.
        tool: String,
        /// Every reason.
        reasons: Arc<[IneligibleReason]>,
    },
    /// The arguments are larger than is read.
    #[error(
        "the arguments of {tool} are {bytes} bytes or more, and at most {most} are read; send less at once"
    )]
    TooLarge {
        /// The tool's id.
        tool: String,
        /// How large they are, as far as they were measured.
        bytes: usize,
        /// How large they may be.
        most: usize,
    },
    /// The arguments are not a JSON object.
    #[error(
        "the arguments of {tool} cannot be read: {reason}; send one JSON object{}",
        repair_note(failed_repair)
    )]
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
    #[error(
        "{tool} has no schema and may only read, but is marked as one that changes things; it cannot be called"
    )]
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
    pub(super) fn malformed(tool: &str, reason: impl Into<String>) -> Self {
        Self::Malformed {
            tool: tool.to_owned(),
            reason: reason.into(),
            failed_repair: None,
        }
    }

    /// The same error, with what became of an attempt to repair the arguments.
    pub(super) fn with_failed_repair(mut self, by: &str, reason: &str) -> Self {
        if let Self::Malformed { failed_repair, .. } | Self::Invalid { failed_repair, .. } =
            &mut self
        {
            *failed_repair = Some(format!("{by}: {reason}"));
        }
        self
    }
}

fn described(reasons: &[IneligibleReason]) -> String {
    reasons
        .iter()
        .map(IneligibleReason::describe)
        .collect::<Vec<_>>()
        .join("; ")
}

fn did_you_mean(suggestions: &[String]) -> String {
    match suggestions {
        [] => String::new(),
        near => format!("; did you mean {}?", excerpt::list(near, " or ")),
    }
}

fn list(faults: &[ArgumentFault]) -> String {
    faults
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

fn correct_call(example: &Option<Box<Value>>) -> String {
    example.as_ref().map_or(String::new(), |example| {
        format!("; correct would be for example {example}")
    })
}

fn repair_note(failed: &Option<String>) -> String {
    failed.as_ref().map_or(String::new(), |reason| {
        format!(" (a repair failed: {reason})")
    })
}
