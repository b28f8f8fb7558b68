//! Calls that wait for a person, for a while.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{PendingCall, ValidCall};

/// The most calls that wait at once; each may hold the most arguments that are read.
const MAX_WAITING: usize = 1000;

/// Calls that only a person may let through; [`PendingCall::awaits`] says why.
///
/// The clock is the caller's, so that a call's time can be told and tested.
#[derive(Debug)]
pub struct ApprovalQueue {
    lifetime: Duration,
    waiting: BTreeMap<u64, (Instant, PendingCall)>,
    next: u64,
}

/// Why a call is not approved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalError {
    /// No such call waits: it was never there, was decided on, or has expired.
    #[error("no call waits under {ticket}; it was decided on, or has expired")]
    NotWaiting {
        /// What was asked for.
        ticket: u64,
    },
    /// Too many calls wait.
    #[error("{MAX_WAITING} calls wait for approval already; decide on some of them first")]
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

    /// Lets a call wait, and returns the ticket under which it does.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::Full`] when too many wait.
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

    /// Returns the calls that wait, longest first, with their tickets.
    pub fn waiting(&mut self, now: Instant) -> impl Iterator<Item = (u64, &PendingCall)> {
        self.expire(now);
        self.waiting
            .iter()
            .map(|(ticket, (_, call))| (*ticket, call))
    }

    /// Lets a call through.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::NotWaiting`] when the ticket is unknown, used or expired.
    pub fn approve(&mut self, ticket: u64, now: Instant) -> Result<ValidCall, ApprovalError> {
        self.remove(ticket, now).map(|pending| pending.call)
    }

    /// Refuses a call, and returns it.
    ///
    /// # Errors
    ///
    /// As [`ApprovalQueue::approve`].
    pub fn deny(&mut self, ticket: u64, now: Instant) -> Result<PendingCall, ApprovalError> {
        self.remove(ticket, now)
    }

    fn remove(&mut self, ticket: u64, now: Instant) -> Result<PendingCall, ApprovalError> {
        self.expire(now);
        self.waiting
            .remove(&ticket)
            .map(|(_, call)| call)
            .ok_or(ApprovalError::NotWaiting { ticket })
    }

    fn expire(&mut self, now: Instant) {
        self.waiting
            .retain(|_, (since, _)| now.saturating_duration_since(*since) < self.lifetime);
    }
}
