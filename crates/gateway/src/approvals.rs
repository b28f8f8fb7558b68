//! The approvals of definitions and of calls.

use crate::pins::Pins;
use crate::queue::CallQueue;
use crate::remembered::SessionApprovals;

/// The approvals of a gateway.
pub struct Approvals {
    /// Approved tool definitions. If `None`, every definition is trusted.
    pub pins: Option<Pins>,
    /// The calls that are pending approval. If `None`, they are refused.
    pub queue: Option<CallQueue>,
    /// The approvals that hold for a session.
    pub(crate) sessions: SessionApprovals,
}

impl Approvals {
    /// Creates the approvals of a gateway without sessions.
    pub(crate) fn new(pins: Option<Pins>, queue: Option<CallQueue>) -> Self {
        Self {
            pins,
            queue,
            sessions: SessionApprovals::default(),
        }
    }
}
