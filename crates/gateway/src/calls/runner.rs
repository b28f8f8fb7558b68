//! The context in which calls run, and the outcome of a call.

use std::sync::Arc;

use picktools::Tool;
use rmcp::RoleServer;
use rmcp::model::{CallToolResponse, LoggingLevel};
use rmcp::service::RequestContext;

use crate::hub::Hub;
use crate::refusal::Refusal;
use crate::snapshot::Snapshot;
use crate::upstream::Owner;

/// The client that makes a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The role of the client.
    pub role: Arc<str>,
    /// The name of its key in the settings.
    pub key: Arc<str>,
    /// The owner of its state.
    pub owner: Owner,
}

/// The context in which calls run.
pub struct CallRunner<'a> {
    /// The gateway that runs the calls.
    pub gateway: &'a Hub,
    /// The client that makes the calls.
    pub caller: &'a Caller,
    /// The least level of log lines that the client receives.
    pub level: Option<LoggingLevel>,
    /// The client's request, or `None` if the call does not come from an MCP client.
    pub context: Option<&'a RequestContext<RoleServer>>,
}

/// A call that ran, or that waits for an answer of the client.
pub struct CallOutcome {
    /// The answer.
    pub response: CallToolResponse,
    /// `true` if the answer was cut, and the rest can be read.
    pub(crate) is_cut: bool,
    pub(crate) tool: Arc<Tool>,
    /// The snapshot with which the call ran.
    pub(crate) snapshot: Arc<Snapshot>,
}

/// The reason why a call ends before its tool has answered.
pub(super) enum CallStop {
    /// The call is not carried out.
    Refused(Refusal),
    /// The client must answer a question, and send the call again.
    Waiting(Box<CallOutcome>),
}

impl From<Refusal> for CallStop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl CallStop {
    /// Returns the outcome of a call whose client has to answer a question first.
    pub(super) fn waiting(
        response: CallToolResponse,
        tool: &Arc<Tool>,
        snapshot: &Arc<Snapshot>,
    ) -> Self {
        Self::Waiting(Box::new(CallOutcome {
            response,
            is_cut: false,
            tool: Arc::clone(tool),
            snapshot: Arc::clone(snapshot),
        }))
    }

    /// Returns the outcome for the client.
    pub(super) fn into_outcome(self) -> Result<CallOutcome, Refusal> {
        match self {
            Self::Refused(refusal) => Err(refusal),
            Self::Waiting(outcome) => Ok(*outcome),
        }
    }
}
