//! YAML, within bounds that no document of an interface meets and that a hostile one does.

use serde_saphyr::Error;

use super::error::OpenApiError;
use picktools::json::Json;

/// The most values of a document; the largest published one, of 47 MB as JSON, has 3 million.
const MAX_VALUES: usize = 10_000_000;
/// The most bytes of its texts.
const MAX_TEXT_BYTES: usize = 256 << 20;
/// The most levels of nesting.
const MAX_DEPTH: usize = 120;
/// The most values that aliases may repeat.
const MAX_REPEATED_VALUES: usize = 200_000;

pub(super) fn read(text: &str) -> Result<Json, OpenApiError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 2 * MAX_VALUES,
            max_aliases: 100_000,
            max_anchors: 10_000,
            max_recorded_anchor_events: MAX_VALUES,
            max_recorded_anchor_bytes: MAX_TEXT_BYTES,
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_documents: 1,
            max_nodes: MAX_VALUES,
            max_total_scalar_bytes: MAX_TEXT_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_REPEATED_VALUES,
            max_replay_stack_depth: 16,
            max_alias_expansions_per_anchor: 10_000,
        },
        // As version 1.2 of YAML has it: `on` and `yes` are texts.
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = |number: u64| usize::try_from(number).unwrap_or_default();
        let location = error.location();
        OpenApiError::Syntax {
            line: location
                .as_ref()
                .map_or(0, |location| place(location.line())),
            column: location
                .as_ref()
                .map_or(0, |location| place(location.column())),
            message: message(&error).to_owned(),
        }
    })
}

fn message(error: &Error) -> &'static str {
    match error {
        Error::DuplicateMappingKey { .. } => "a key stands twice; remove one of them",
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            "the document is too large or too deep, or its aliases multiply it; write out what they stand for"
        }
        // The fault is within what an alias stands for.
        Error::AliasError { error, .. } => message(error),
        // The reader's scanner has a limit of its own, and says so in words alone.
        other if other.to_string().starts_with("recursion limit exceeded") => {
            "nested deeper than 120 levels; flatten what stands here"
        }
        _ => "it cannot be read as YAML; mend what stands here",
    }
}
