//! The journal: every selection, call and decision becomes an entry in the audit log and for
//! watchers.
//!
//! Entries go through a channel to a separate thread, which creates and writes the records. A
//! caller waits only if the thread is `MAX_QUEUED` entries behind. An entry that cannot be written
//! is kept and tried again; until then [`Journal::ready`] refuses new work, and `Journal::fault`
//! returns the cause.

mod entry;
mod call_guard;
#[cfg(test)]
mod tests;
mod sender;
mod thread;

use std::collections::HashSet;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use picktools_audit::AuditWriter;
use picktools_state::lock;
use tokio::sync::broadcast;

pub(crate) use self::call_guard::CallEntryGuard;
pub(crate) use self::entry::CallEntry;
#[expect(unused_imports, reason = "for watchers")]
pub(crate) use self::entry::EntryContent;
use self::entry::JournalEvent;
pub use self::entry::{
    Approval, ApprovalSubject, JournalEntry, Narrowing, RequestRoute, SelectionEvent,
};
use self::sender::JournalSender;
use self::thread::JournalWriter;
use crate::refusal::{Code, Refusal};
use crate::snapshot::Snapshot;

/// The most entries that a watcher may be behind.
const MAX_BEHIND: usize = 256;
/// The most entries that wait for the thread.
const MAX_QUEUED: usize = 1_024;
/// The time for writing the remaining entries at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// The most decisions that are remembered to avoid duplicate entries.
const MAX_DECIDED: usize = 4_096;

/// The journal of selections, calls and decisions.
pub struct Journal {
    live: broadcast::Sender<Arc<JournalEntry>>,
    /// Closed on drop.
    sender: JournalSender,
    thread: Option<JoinHandle<()>>,
    fault: Arc<Mutex<Option<String>>>,
    has_audit: bool,
    decided: Mutex<HashSet<String>>,
}

impl Journal {
    /// Creates a journal that writes to an audit log, if there is one, and informs watchers.
    pub(crate) fn open(audit: Option<AuditWriter>) -> std::io::Result<Self> {
        let (live, fault) = (
            broadcast::Sender::new(MAX_BEHIND),
            Arc::new(Mutex::new(None)),
        );
        let (sender, messages) = sync_channel(MAX_QUEUED);
        let has_audit = audit.is_some();
        let writer = JournalWriter::new(audit, live.clone(), Arc::clone(&fault));
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.run(&messages))?;
        let decided = Mutex::default();
        Ok(Self {
            live,
            sender: JournalSender::new(sender, Arc::clone(&fault)),
            thread: Some(thread),
            fault,
            has_audit,
            decided,
        })
    }

    /// Returns a receiver of all later entries.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<JournalEntry>> {
        self.live.subscribe()
    }

    /// Returns the reason why entries cannot be written; `None` while they can.
    pub(crate) fn fault(&self) -> Option<String> {
        lock(&self.fault).clone()
    }

    /// Refuses work that could not be recorded.
    ///
    /// # Errors
    ///
    /// [`Refusal`] while entries cannot be written.
    pub fn ready(&self) -> Result<(), Refusal> {
        let Some(fault) = self.fault() else {
            return Ok(());
        };
        tracing::error!(
            target: "picktools::audit", %fault,
            "request refused, because the audit log cannot be written"
        );
        let message = "the audit log of this gateway cannot be written at the moment, so it picks \
                       and runs no tools; tell the user that the operator must repair it";
        Err(Refusal::new(Code::NotAudited, message).retry_after(Duration::from_secs(5)))
    }

    /// Returns `true` if there is an audit log or a watcher.
    fn has_readers(&self) -> bool {
        self.has_audit || self.live.receiver_count() > 0
    }

    /// Records a selection.
    pub fn record_selection(&self, selection: &SelectionEvent<'_>) {
        if self.has_readers() {
            self.sender
                .send(JournalEvent::Selection(Box::new(selection.into())));
        }
    }

    /// Records an API request to a model.
    pub fn record_narrowing(&self, narrowing: Narrowing) {
        if self.has_readers() {
            self.sender
                .send(JournalEvent::Narrowing(Box::new(narrowing)));
        }
    }

    /// Records a call when it ends, in any way. `called` describes the call.
    pub(crate) fn record_call(
        &self,
        describe_call: impl FnOnce() -> CallEntry,
    ) -> CallEntryGuard<'_> {
        CallEntryGuard::new(&self.sender, self.has_readers().then(describe_call))
    }

    /// Records a decision. A decision that its author recorded (`by`) is not recorded again when
    /// the shared state shows it.
    pub fn record_approval(&self, approval: Approval) {
        let identity = approval.identity();
        {
            let mut decided = lock(&self.decided);
            if decided.len() >= MAX_DECIDED {
                decided.clear();
            }
            let is_noted = match (&approval.by, approval.is_call()) {
                // A call has an id of its own and is decided once.
                (_, true) => !decided.insert(identity),
                (Some(_), false) => {
                    decided.insert(identity);
                    false
                }
                (None, false) => decided.remove(&identity),
            };
            if is_noted {
                return;
            }
        }
        if self.has_readers() {
            self.sender.send(JournalEvent::Approval(Box::new(approval)));
        }
    }

    /// Records the policy if it changed.
    pub(crate) fn record_policy(&self, snapshot: &Arc<Snapshot>) {
        self.sender
            .send(JournalEvent::PolicyChange(Arc::clone(snapshot)));
    }

    /// Waits until all entries so far are on disk, or cannot be written.
    pub(crate) fn flush(&self) {
        let (notify, receiver) = sync_channel(1);
        if self.sender.request_flush(notify) {
            // The wait is bounded.
            let _timeout = receiver.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.sender.close();
        // The thread ends after the last message. Entries that cannot be written are not waited
        // for.
        if let Some(thread) = self.thread.take().filter(|_| self.fault().is_none()) {
            drop(thread.join());
        }
    }
}
