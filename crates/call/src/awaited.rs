//! Why a call waits for a person.

use std::fmt;

use serde::Serialize;

use picktools::access::Access;
use picktools::catalog::{Effects, NoSchemaMode, Tool};

/// Why a call waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Awaited {
    /// The tool's [`Safety`](picktools::catalog::Safety) asks for the approval of these.
    Approvals {
        /// Who must approve.
        by: Vec<String>,
    },
    /// The tool asks for a confirmation of each call, or is marked unsafe.
    Confirmation,
    /// The tool has no schema, and its mode asks for a person's approval.
    NoSchema,
    /// The tool has no schema and may only run where it changes nothing, which no trusted hint
    /// says.
    NotKnownToRead,
    /// The caller's execution mode is `read-only`, and no trusted source says that the tool only
    /// reads.
    ReadOnlyMode,
}

impl Awaited {
    /// Why a call of this tool by this caller waits; `None` where it need not.
    pub(super) fn of(
        tool: &Tool,
        access: &Access,
        no_schema_mode: Option<NoSchemaMode>,
    ) -> Option<Self> {
        let by = tool
            .safety
            .as_ref()
            .map_or(&[][..], |safety| &safety.required_approvals);
        if !by.is_empty() {
            return Some(Self::Approvals { by: by.to_vec() });
        }
        match no_schema_mode {
            Some(NoSchemaMode::HumanApproval) => Some(Self::NoSchema),
            Some(NoSchemaMode::ReadOnly) if tool.effects() != Effects::OnlyReads => {
                Some(Self::NotKnownToRead)
            }
            _ if access.must_be_approved(tool) => Some(Self::ReadOnlyMode),
            _ => None,
        }
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approvals { by } => write!(f, "it must be approved by {}", picktools::excerpt::list(by, ", ")),
            Self::Confirmation => f.write_str("each call of it must be confirmed"),
            Self::NoSchema => f.write_str("no schema; a person must approve it"),
            Self::NotKnownToRead => f.write_str("no schema, and not known to change nothing; a person must approve it"),
            Self::ReadOnlyMode => f.write_str(
                "the execution mode is read-only, and it is not known to change nothing; a person must approve it",
            ),
        }
    }
}
