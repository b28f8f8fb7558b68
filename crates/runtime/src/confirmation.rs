//! Confirmation of calls by a person or a policy before they run.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::lock;
use picktools_call::{
    ApprovalError, ApprovalQueue, CallDecider, DeciderFuture, PendingCall, ValidCall,
};

/// A decision on a call that needs a confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfirmationDecision {
    /// The call runs.
    Allow,
    /// The call does not run. The model receives the reason.
    Deny(String),
    /// The call waits in [`ToolManager::approvals`](super::ToolManager::approvals) for a decision.
    Ask,
}

/// The future of [`Confirm::decide`].
pub type DecisionFuture<'a> = Pin<Box<dyn Future<Output = ConfirmationDecision> + Send + 'a>>;

/// Decides on calls that need a confirmation. Without a decider such calls do not run.
pub trait Confirm: Send + Sync {
    /// Decides on a call; [`PendingCall::awaits`] says why it needs a confirmation.
    fn decide<'a>(&'a self, call: &'a PendingCall) -> DecisionFuture<'a>;
}

/// A function that decides at once is a [`Confirm`].
impl<F: Fn(&PendingCall) -> ConfirmationDecision + Send + Sync> Confirm for F {
    fn decide<'a>(&'a self, call: &'a PendingCall) -> DecisionFuture<'a> {
        Box::pin(std::future::ready(self(call)))
    }
}

/// The hook of a manager as the decider on its calls.
pub(super) struct ConfirmHook<'a>(pub(super) &'a dyn Confirm);

/// The answer of a hook that does not allow a call.
pub(super) enum NotAllowed {
    Denied(String),
    /// The call has to wait for a decision.
    Waits,
}

impl CallDecider for ConfirmHook<'_> {
    type Refusal = NotAllowed;

    fn decide<'a>(&'a self, call: &'a PendingCall) -> DeciderFuture<'a, NotAllowed> {
        Box::pin(async move {
            match self.0.decide(call).await {
                ConfirmationDecision::Allow => Ok("confirm hook"),
                ConfirmationDecision::Deny(reason) => Err(NotAllowed::Denied(reason)),
                ConfirmationDecision::Ask => Err(NotAllowed::Waits),
            }
        })
    }
}

/// The calls that wait for a decision.
#[derive(Debug)]
pub struct Approvals {
    lifetime: Duration,
    queue: Mutex<ApprovalQueue>,
    /// The channels that deliver the decisions to the waiting calls, by ticket.
    deciding: Mutex<HashMap<u64, oneshot::Sender<Result<ValidCall, String>>>>,
    arrived: Notify,
}

impl Approvals {
    pub(super) fn new(lifetime: Duration) -> Self {
        let queue = Mutex::new(ApprovalQueue::new(lifetime));
        Self {
            lifetime,
            queue,
            deciding: Mutex::default(),
            arrived: Notify::new(),
        }
    }

    /// Returns the waiting calls with their tickets, oldest first.
    pub fn waiting(&self) -> Vec<(u64, PendingCall)> {
        let mut queue = lock(&self.queue);
        let mut calls = Vec::new();
        for (ticket, call) in queue.waiting(Instant::now()) {
            calls.push((ticket, call.clone()));
        }
        calls
    }

    /// Waits until a call starts to wait for a decision.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Approves a call, which then runs.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::NotWaiting`] if the ticket is unknown, used or expired.
    pub fn approve(&self, ticket: u64) -> Result<(), ApprovalError> {
        let call = lock(&self.queue).approve(ticket, Instant::now())?;
        self.decide(ticket, Ok(call))
    }

    /// Denies a call. The model receives the reason.
    ///
    /// # Errors
    ///
    /// As [`Approvals::approve`].
    pub fn deny(&self, ticket: u64, reason: impl Into<String>) -> Result<(), ApprovalError> {
        lock(&self.queue).deny(ticket, Instant::now())?;
        self.decide(ticket, Err(reason.into()))
    }

    fn decide(
        &self,
        ticket: u64,
        decision: Result<ValidCall, String>,
    ) -> Result<(), ApprovalError> {
        let sender = lock(&self.deciding).remove(&ticket);
        // The receiver is gone if the call was cancelled.
        let is_delivered = sender.is_some_and(|sender| sender.send(decision).is_ok());
        if is_delivered {
            Ok(())
        } else {
            Err(ApprovalError::NotWaiting { ticket })
        }
    }

    /// Waits for the decision on a call. Returns the call if it is approved, else the reason.
    pub(super) async fn ask(&self, call: PendingCall) -> Result<ValidCall, String> {
        let (sender, decision) = oneshot::channel();
        let ticket = {
            let mut queue = lock(&self.queue);
            let ticket = queue
                .push(call, Instant::now())
                .map_err(|error| error.to_string())?;
            lock(&self.deciding).insert(ticket, sender);
            ticket
        };
        let _guard = PendingCallGuard {
            approvals: self,
            ticket,
        };
        self.arrived.notify_one();
        match timeout(self.lifetime, decision).await {
            Ok(Ok(decision)) => decision,
            Ok(Err(_)) | Err(_) => Err(format!(
                "the call was not approved within {:?}",
                self.lifetime
            )),
        }
    }
}

/// A guard that removes a waiting call when it is dropped.
struct PendingCallGuard<'a> {
    approvals: &'a Approvals,
    ticket: u64,
}

impl Drop for PendingCallGuard<'_> {
    fn drop(&mut self) {
        lock(&self.approvals.deciding).remove(&self.ticket);
        // The queue no longer has the call if there was a decision.
        let _decided = lock(&self.approvals.queue).deny(self.ticket, Instant::now());
    }
}
