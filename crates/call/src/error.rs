//! Errors of a model's call.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::UnknownProperty;
use picktools::access::IneligibleReason;
use picktools::excerpt;
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::schema::{ArgumentFault, location};

/// The reason for which a [`Repairer`](super::Repairer) returned no arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct RepairError {
    /// The cause.
    pub reason: String,
}

/// The reason for which a call cannot run. The message addresses the model.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize)]
#[serde(tag = "code", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallError {
    /// No tool has this name.
    #[error(
        "Unknown tool: {}{}",
        marked(name, MAX_NAME_CHARS),
        did_you_mean(suggestions)
    )]
    UnknownTool {
        /// The called name.
        name: String,
        /// The most similar names, best first.
        suggestions: Vec<String>,
    },
    /// Several tools have this name.
    #[error(
        "the tool name {:?} is ambiguous; call one of: {}",
        marked(name, MAX_NAME_CHARS),
        excerpt::list(candidates, ", ")
    )]
    AmbiguousTool {
        /// The called name.
        name: String,
        /// The ids of the tools with this name.
        candidates: Vec<String>,
    },
    /// The name equals a tool's name except for invisible characters.
    #[error(
        "the tool name {name:?} contains the invisible character {character}; \
         call the tool without it"
    )]
    HiddenCharacter {
        /// The called name, with the invisible characters marked.
        name: String,
        /// The first invisible character, such as `U+200B`.
        character: String,
    },
    /// The caller may not see or run the tool.
    #[error("{tool} cannot be called: {}", join_reasons(reasons))]
    Ineligible {
        /// The tool's id.
        tool: String,
        /// Every reason of the access policy.
        reasons: Arc<[IneligibleReason]>,
    },
    /// The arguments exceed the size limit.
    #[error(
        "the arguments of {tool} are too large: {bytes} bytes or more, and the limit is {most} \
         bytes; send smaller arguments"
    )]
    TooLarge {
        /// The tool's id.
        tool: String,
        /// The measured size, in bytes; measuring stops at the limit.
        bytes: usize,
        /// The size limit, in bytes.
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
        /// The cause, with line and column.
        reason: String,
        /// The error of the repairer, if a repair was tried.
        #[serde(skip_serializing_if = "Option::is_none")]
        failed_repair: Option<String>,
    },
    /// The arguments do not match the tool's schema.
    #[error(
        "the arguments of {tool} do not match its schema: {}{}{}{}",
        join_faults(faults),
        list_unknown(unknown),
        correct_call(example),
        repair_note(failed_repair)
    )]
    Invalid {
        /// The tool's id.
        tool: String,
        /// The first few mismatches.
        faults: Vec<ArgumentFault>,
        /// The properties that the schema does not list and that are probably misspelt.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        unknown: Vec<UnknownProperty>,
        /// Small arguments that match the schema, if some are known.
        #[serde(skip_serializing_if = "Option::is_none")]
        example: Option<Box<Value>>,
        /// The error of the repairer, if a repair was tried.
        #[serde(skip_serializing_if = "Option::is_none")]
        failed_repair: Option<String>,
    },
    /// The tool has no schema and may only read, but its annotations say that it writes.
    #[error(
        "{tool} cannot be called: it has no schema and may only read, but it is marked as \
         changing data"
    )]
    NotReadOnly {
        /// The tool's id.
        tool: String,
    },
    /// The tool of an earlier call is no longer in the catalog, or the model was not shown it.
    #[error("{tool} is no longer in the catalog; validate the call again with the current tools")]
    Removed {
        /// The tool's id.
        tool: String,
    },
    /// The definition is not the one for which an earlier call was validated.
    #[error(
        "the definition of {tool} has changed since the call was validated ({}); validate the \
         call again",
        members.join(", ")
    )]
    Changed {
        /// The tool's id.
        tool: String,
        /// The members of the definition that differ.
        members: Vec<&'static str>,
    },
    /// The arguments match the schema, but not the type into which the program deserialises them.
    #[error(
        "the arguments of {tool} do not match the type of the program: {}: {reason}",
        location(pointer)
    )]
    Typed {
        /// The tool's id.
        tool: String,
        /// JSON pointer to the value that differs; empty for the arguments as a whole.
        pointer: String,
        /// The error of the deserialiser.
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

    /// Adds the error of a failed repair.
    pub(super) fn with_failed_repair(mut self, by: &str, reason: &str) -> Self {
        if let Self::Malformed { failed_repair, .. } | Self::Invalid { failed_repair, .. } =
            &mut self
        {
            *failed_repair = Some(format!("{by}: {reason}"));
        }
        self
    }
}

fn join_reasons(reasons: &[IneligibleReason]) -> String {
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

fn join_faults(faults: &[ArgumentFault]) -> String {
    faults
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

fn list_unknown(unknown: &[UnknownProperty]) -> String {
    unknown
        .iter()
        .map(|property| format!("; {property}"))
        .collect()
}

fn correct_call(example: &Option<Box<Value>>) -> String {
    match example {
        Some(example) => format!("; example of correct arguments: {example}"),
        None => String::new(),
    }
}

fn repair_note(failed: &Option<String>) -> String {
    match failed {
        Some(reason) => format!(" (a repair failed: {reason})"),
        None => String::new(),
    }
}
