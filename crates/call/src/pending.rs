//! Reasons for which a call waits for a person's approval.

use std::fmt;

use serde::Serialize;

use picktools::access::Access;
use picktools::catalog::{Effects, NoSchemaMode, Tool};

/// The reason for which a call waits for a person's approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PendingReason {
    /// The tool's [`Safety`](picktools::catalog::Safety) requires the approval of these people or
    /// roles.
    Approvals {
        /// The required approvers.
        by: Vec<String>,
    },
    /// The tool requires a confirmation of every call, or is marked unsafe.
    Confirmation,
    /// The tool has no schema, and its mode requires a person's approval.
    NoSchema,
    /// The tool has no schema and may only read, but no trusted annotation says that it only reads.
    NotKnownToRead,
    /// The caller's execution mode is `read-only`, and no trusted source marks the tool as
    /// read-only.
    ReadOnlyMode,
}

impl PendingReason {
    /// Returns the reason for which this caller's call of the tool must wait; `None` if it can run.
    pub(super) fn from_policy(
        tool: &Tool,
        access: &Access,
        no_schema_mode: Option<NoSchemaMode>,
    ) -> Option<Self> {
        let approvers = tool
            .safety
            .as_ref()
            .map_or(&[][..], |safety| &safety.required_approvals);
        if !approvers.is_empty() {
            return Some(Self::Approvals {
                by: approvers.to_vec(),
            });
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

impl fmt::Display for PendingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approvals { by } => {
                write!(
                    f,
                    "it must be approved by {}",
                    picktools::excerpt::list(by, ", ")
                )
            }
            Self::Confirmation => f.write_str("every call of the tool must be confirmed"),
            Self::NoSchema => f.write_str("it has no schema; a person must approve it"),
            Self::NotKnownToRead => f.write_str(
                "it has no schema and is not known to be read-only; a person must approve it",
            ),
            Self::ReadOnlyMode => f.write_str(
                "the execution mode is read-only and the tool is not known to be read-only; a \
                 person must approve it",
            ),
        }
    }
}
