//! Queue of calls that wait for a person's approval for a limited time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Confirmation, PendingCall, ValidCall};

/// The largest number of calls that wait at once. Each call may hold the largest arguments that are
/// read.
const MAX_WAITING: usize = 1000;

/// Calls that need a person's approval; [`PendingCall::awaits`] gives the reason.
///
/// The caller passes the current time, so that expiry can be tested.
#[derive(Debug)]
pub struct ApprovalQueue {
    lifetime: Duration,
    waiting: BTreeMap<u64, (Instant, PendingCall)>,
    next: u64,
}

/// Error of an approval decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalError {
    /// No pending call has this ticket: the ticket is unknown, decided already, or expired.
    #[error("no pending call has ticket {ticket}; it was decided already or has expired")]
    NotWaiting {
        /// The requested ticket.
        ticket: u64,
    },
    /// Too many calls are pending.
    #[error("too many pending calls: {MAX_WAITING} wait for approval; decide some of them first")]
    Full,
}

impl ApprovalQueue {
    /// Makes an empty queue whose calls expire after `lifetime`.
    pub fn new(lifetime: Duration) -> Self {
        Self {
            lifetime,
            waiting: BTreeMap::new(),
            next: 1,
        }
    }

    /// Adds a call to the queue and returns its ticket.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::Full`] if too many calls are pending.
    pub fn push(&mut self, call: PendingCall, now: Instant) -> Result<u64, ApprovalError> {
        self.expire(now);
        if self.waiting.len() >= MAX_WAITING {
            return Err(ApprovalError::Full);
        }
        let ticket = self.next;
        self.next += 1;
        self.waiting.insert(ticket, (now, call));
        Ok(ticket)
    }

    /// Returns the pending calls with their tickets, oldest first.
    pub fn waiting(&mut self, now: Instant) -> impl Iterator<Item = (u64, &PendingCall)> {
        self.expire(now);
        self.waiting
            .iter()
            .map(|(ticket, (_, call))| (*ticket, call))
    }

    /// Approves a call and returns it.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::NotWaiting`] if the ticket is unknown, used or expired.
    pub fn approve(&mut self, ticket: u64, now: Instant) -> Result<ValidCall, ApprovalError> {
        let pending = self.remove(ticket, now)?;
        let confirmation = Confirmation::from_approval(&pending);
        Ok(pending.into_valid(confirmation))
    }

    /// Denies a call and returns it.
    ///
    /// # Errors
    ///
    /// Those of [`ApprovalQueue::approve`].
    pub fn deny(&mut self, ticket: u64, now: Instant) -> Result<PendingCall, ApprovalError> {
        self.remove(ticket, now)
    }

    fn remove(&mut self, ticket: u64, now: Instant) -> Result<PendingCall, ApprovalError> {
        self.expire(now);
        match self.waiting.remove(&ticket) {
            Some((_, call)) => Ok(call),
            None => Err(ApprovalError::NotWaiting { ticket }),
        }
    }

    fn expire(&mut self, now: Instant) {
        self.waiting
            .retain(|_, (since, _)| now.saturating_duration_since(*since) < self.lifetime);
    }
}
