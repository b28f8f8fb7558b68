//! Who is asked before a tool runs that must not run unasked.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::lock;
use picktools_call::{ApprovalError, ApprovalQueue, PendingCall, ValidCall};

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// It is run.
    Allow,
    /// It is not, for this reason, which the model is told.
    Deny(String),
    /// It waits in [`ToolManager::approvals`](super::ToolManager::approvals) until somebody
    /// decides.
    Ask,
}

/// The answer of a [`Confirm`].
pub type DecisionFuture<'a> = Pin<Box<dyn Future<Output = Decision> + Send + 'a>>;

/// Decides on calls that must not be run unasked. Without one they are not run at all.
pub trait Confirm: Send + Sync {
    /// Decides on a call; [`PendingCall::awaits`] says why it is asked.
    fn decide<'a>(&'a self, call: &'a PendingCall) -> DecisionFuture<'a>;
}

/// A function that decides at once is a [`Confirm`].
impl<F: Fn(&PendingCall) -> Decision + Send + Sync> Confirm for F {
    fn decide<'a>(&'a self, call: &'a PendingCall) -> DecisionFuture<'a> {
        Box::pin(std::future::ready(self(call)))
    }
}

/// Calls that wait for somebody to decide on them.
#[derive(Debug)]
pub struct Approvals {
    lifetime: Duration,
    queue: Mutex<ApprovalQueue>,
    /// Who waits for the decision, by ticket.
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

    /// Returns the calls that wait, longest first, with their tickets.
    pub fn waiting(&self) -> Vec<(u64, PendingCall)> {
        lock(&self.queue)
            .waiting(Instant::now())
            .map(|(ticket, call)| (ticket, call.clone()))
            .collect()
    }

    /// Waits until a call arrives that waits.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Lets a call run.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::NotWaiting`] when the ticket is unknown, used or expired.
    pub fn approve(&self, ticket: u64) -> Result<(), ApprovalError> {
        let call = lock(&self.queue).approve(ticket, Instant::now())?;
        self.decide(ticket, Ok(call))
    }

    /// Refuses a call; the model is told the reason.
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
        let waits = lock(&self.deciding).remove(&ticket);
        // Who has given up on the call waits no longer.
        let sent = waits.is_some_and(|waits| waits.send(decision).is_ok());
        if sent {
            Ok(())
        } else {
            Err(ApprovalError::NotWaiting { ticket })
        }
    }

    /// Lets a call wait, and returns it once somebody lets it run, else why it may not.
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
        let _waits = Waits {
            approvals: self,
            ticket,
        };
        self.arrived.notify_one();
        match timeout(self.lifetime, decision).await {
            Ok(Ok(decision)) => decision,
            Ok(Err(_)) | Err(_) => Err(format!("nobody approved it within {:?}", self.lifetime)),
        }
    }
}

/// A call that waits for as long as this lives.
struct Waits<'a> {
    approvals: &'a Approvals,
    ticket: u64,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        lock(&self.approvals.deciding).remove(&self.ticket);
        // It is not there any more where it was decided on.
        let _decided = lock(&self.approvals.queue).deny(self.ticket, Instant::now());
    }
}
