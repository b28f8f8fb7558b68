//! Why a tool may not be seen.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::catalog::ThreatLevel;

/// Why a tool may not be seen.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "code", rename_all = "snake_case")]
#[non_exhaustive]
pub enum IneligibleReason {
    /// The tool is marked unsafe, and unsafe tools were not allowed.
    Unsafe,
    /// The tool's threat level is higher than is allowed.
    ThreatLevel {
        /// The tool's; high for one that is marked unsafe and names none.
        level: ThreatLevel,
        /// The highest allowed.
        most: ThreatLevel,
    },
    /// None of the caller's roles may see the tool.
    Role {
        /// The roles that may.
        allowed: BTreeSet<String>,
    },
    /// The tool does not fit the execution mode.
    ExecutionMode {
        /// The modes that it fits.
        modes: BTreeSet<String>,
    },
    /// The tool is marked unsafe or not read-only, and the execution mode is `read-only`.
    NotReadOnly,
    /// The tool lacks a capability that was asked for.
    Capability {
        /// What it lacks.
        missing: BTreeSet<String>,
    },
    /// A call costs more than is left.
    Cost {
        /// Cost of a call.
        cost: f64,
        /// What is left.
        left: f64,
    },
    /// The tool's quota is used up.
    Quota,
    /// The tool's source is denied, or is not among those allowed.
    Source {
        /// The tool's source.
        source: Option<String>,
    },
    /// The caller excluded the tool by name.
    Excluded,
    /// The tool is held back until the operator approves it.
    Quarantine,
}

impl IneligibleReason {
    /// Returns the reason's stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unsafe => "unsafe",
            Self::ThreatLevel { .. } => "threat_level",
            Self::Role { .. } => "role",
            Self::ExecutionMode { .. } => "execution_mode",
            Self::NotReadOnly => "not_read_only",
            Self::Capability { .. } => "capability",
            Self::Cost { .. } => "cost",
            Self::Quota => "quota",
            Self::Source { .. } => "source",
            Self::Excluded => "excluded",
            Self::Quarantine => "quarantine",
        }
    }

    /// Returns the reason as a sentence's end: "the tool is …".
    pub fn describe(&self) -> String {
        let list = |items: &BTreeSet<String>| {
            items
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", ")
        };
        match self {
            Self::Unsafe => "marked unsafe, and unsafe tools are not allowed".to_owned(),
            Self::ThreatLevel { level, most } => {
                format!(
                    "of the threat level {}, and none above {} is allowed",
                    level.name(),
                    most.name()
                )
            }
            Self::Role { allowed } => format!("only for the roles {}", list(allowed)),
            Self::ExecutionMode { modes } => {
                format!("only for the execution modes {}", list(modes))
            }
            Self::NotReadOnly => {
                "marked as one that changes things, and the execution mode is read-only".to_owned()
            }
            Self::Capability { missing } => format!("without the capabilities {}", list(missing)),
            Self::Cost { cost, left } => {
                format!("too costly: a call costs {cost}, and {left} is left")
            }
            Self::Quota => "out of quota".to_owned(),
            Self::Source { source } => {
                format!(
                    "from a source that is not allowed: {}",
                    source.as_deref().unwrap_or("none")
                )
            }
            Self::Excluded => "excluded by the caller".to_owned(),
            Self::Quarantine => "in quarantine until the operator approves it".to_owned(),
        }
    }
}
