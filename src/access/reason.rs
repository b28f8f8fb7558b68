//! Reasons why a tool is ineligible.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::catalog::ThreatLevel;

/// A reason why a tool is ineligible.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "code", rename_all = "snake_case")]
#[non_exhaustive]
pub enum IneligibleReason {
    /// The tool is marked unsafe, and unsafe tools are not allowed.
    Unsafe,
    /// The tool's threat level is above the limit.
    ThreatLevel {
        /// The tool's threat level; high for a tool that is marked unsafe and has no threat level.
        level: ThreatLevel,
        /// The highest threat level allowed.
        most: ThreatLevel,
    },
    /// None of the caller's roles may see the tool.
    Role {
        /// The roles that may see the tool.
        allowed: BTreeSet<String>,
    },
    /// The tool does not fit the execution mode.
    ExecutionMode {
        /// The modes that it fits.
        modes: BTreeSet<String>,
    },
    /// The tool is marked unsafe or not read-only, and the execution mode is `read-only`.
    NotReadOnly,
    /// The tool lacks a required capability.
    Capability {
        /// The missing capabilities.
        missing: BTreeSet<String>,
    },
    /// A call costs more than the limit.
    Cost {
        /// The cost of a call.
        cost: f64,
        /// The highest cost allowed.
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
    /// The tool is in quarantine until the operator approves it.
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

    /// Returns the reason as a clause, such as `requires role admin`.
    pub fn describe(&self) -> String {
        let list = |items: &BTreeSet<String>, separator: &str| {
            items
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(separator)
        };
        match self {
            Self::Unsafe => "unsafe tools are not allowed".to_owned(),
            Self::ThreatLevel { level, most } => {
                format!(
                    "threat level {}: the highest allowed level is {}",
                    level.name(),
                    most.name()
                )
            }
            Self::Role { allowed } => format!("requires role {}", list(allowed, " or ")),
            Self::ExecutionMode { modes } => {
                format!("requires execution mode {}", list(modes, " or "))
            }
            Self::NotReadOnly => "not read-only: the execution mode is read-only".to_owned(),
            Self::Capability { missing } => format!("lacks capability {}", list(missing, " and ")),
            Self::Cost { cost, left } => {
                format!("too costly: a call costs {cost}, {left} is left")
            }
            Self::Quota => "quota used up".to_owned(),
            Self::Source { source } => {
                format!(
                    "source not allowed: {}",
                    source.as_deref().unwrap_or("none")
                )
            }
            Self::Excluded => "excluded by the caller".to_owned(),
            Self::Quarantine => "in quarantine until the operator approves it".to_owned(),
        }
    }
}
