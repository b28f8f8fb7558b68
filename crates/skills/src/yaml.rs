//! The YAML parser with its limits, and the faults of its errors.

use serde::de::DeserializeOwned;

use crate::SkillFault;
use crate::located::line_number;

/// The largest front matter, in bytes.
pub(super) const MAX_FRONT_MATTER_BYTES: usize = 64 * 1024;

pub(super) fn parse_yaml<T: DeserializeOwned>(yaml: &str) -> Result<T, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options(yaml, options())
}

/// Returns `true` if a text exceeds the limits of the parser.
pub(super) fn is_attack(error: &serde_saphyr::Error) -> bool {
    use serde_saphyr::Error;
    let mut original = error;
    while let Error::AliasError { error, .. } = original {
        original = error;
    }
    matches!(
        original,
        Error::Budget { .. }
            | Error::AliasReplayCounterOverflow { .. }
            | Error::AliasReplayLimitExceeded { .. }
            | Error::AliasExpansionLimitExceeded { .. }
            | Error::AliasReplayStackDepthExceeded { .. }
    )
}

/// Returns the fault of a value that is not a text, or not a list of tools.
pub(super) fn wrong_type(line: Option<usize>) -> SkillFault {
    SkillFault {
        line,
        message: "the value has the wrong type".to_owned(),
        remedy: "name and description are texts, allowed-tools is a list of tools or a text; \
                 put a text that looks like a list or a mapping in quotation marks"
            .to_owned(),
    }
}

pub(super) fn syntax_fault(error: &serde_saphyr::Error) -> SkillFault {
    use serde_saphyr::Error;
    let mut line = None;
    if let Some(location) = error.location() {
        line = line_number(location.line());
    }
    let (message, remedy) = match error {
        Error::DuplicateMappingKey { .. } => ("duplicate key", "keep one of them"),
        error if is_attack(error) => (
            "the front matter is too large or too deep, or its aliases multiply it",
            "write short plain lines",
        ),
        Error::SerdeInvalidType { .. }
        | Error::Unexpected { .. }
        | Error::NullIntoString { .. } => return wrong_type(line),
        _ => (
            "the front matter cannot be read as YAML",
            "write `key: value` lines, and quote a value that contains `: ` or `#`",
        ),
    };
    SkillFault {
        line,
        message: message.to_owned(),
        remedy: remedy.to_owned(),
    }
}

/// Returns the limits of the YAML parser: front matter is small and flat, and anything else may be
/// an attack.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 20_000,
            max_aliases: 100,
            max_anchors: 100,
            max_recorded_anchor_events: 20_000,
            max_recorded_anchor_bytes: 1024 * 1024,
            max_depth: 16,
            flow_nesting_limit: 16,
            max_documents: 1,
            max_nodes: 10_000,
            max_total_scalar_bytes: MAX_FRONT_MATTER_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 1_000,
            max_replay_stack_depth: 4,
            max_alias_expansions_per_anchor: 100,
        },
        with_snippet: false,
    }
}
