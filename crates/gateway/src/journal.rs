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
mod thread;

use std::collections::HashSet;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use picktools::{Engine, PickOptions, Query, Selection};
use picktools_audit::AuditWriter;
use picktools_state::lock;
use tokio::sync::broadcast;

pub(crate) use self::call_guard::CallEntryGuard;
pub(crate) use self::entry::CallEntry;
#[expect(unused_imports, reason = "for watchers")]
pub(crate) use self::entry::EntryContent;
use self::entry::JournalEvent;
pub use self::entry::{Approval, ApprovalSubject, JournalEntry, Narrowing, RequestRoute};
use self::thread::{JournalMessage, JournalWriter};
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
    sender: Option<SyncSender<JournalMessage>>,
    thread: Option<JoinHandle<()>>,
    fault: Arc<Mutex<Option<String>>>,
    has_audit: bool,
    decided: Mutex<HashSet<String>>,
}

/// A selection with its caller.
pub struct SelectionEvent<'a> {
    /// The name of the caller's key.
    pub key: &'a str,
    /// The caller's role.
    pub role: &'a str,
    /// The engine that made the selection.
    pub engine: &'a Engine,
    /// The owner of its state, if that is not the key.
    pub session: Option<&'a str>,
    /// The route of the request.
    pub via: RequestRoute,
    /// The request.
    pub query: &'a Query,
    /// The pick options.
    pub options: &'a PickOptions,
    /// The selection.
    pub selection: &'a Selection,
    /// The duration.
    pub time: Duration,
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
            sender: Some(sender),
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
            self.send_event(JournalEvent::Selection(Box::new(selection.into())));
        }
    }

    /// Records an API request to a model.
    pub fn record_narrowing(&self, narrowing: Narrowing) {
        if self.has_readers() {
            self.send_event(JournalEvent::Narrowing(Box::new(narrowing)));
        }
    }

    /// Records a call when it ends, in any way. `called` describes the call.
    pub(crate) fn record_call(
        &self,
        describe_call: impl FnOnce() -> CallEntry,
    ) -> CallEntryGuard<'_> {
        CallEntryGuard::new(self, self.has_readers().then(describe_call))
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
            self.send_event(JournalEvent::Approval(Box::new(approval)));
        }
    }

    /// Records the policy if it changed.
    pub(crate) fn record_policy(&self, snapshot: &Arc<Snapshot>) {
        self.send_event(JournalEvent::PolicyChange(Arc::clone(snapshot)));
    }

    fn send_event(&self, event: JournalEvent) {
        let at_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_millis());
        let message = JournalMessage::Note(u64::try_from(at_ms).unwrap_or(u64::MAX), event);
        let Some(sender) = &self.sender else { return };
        let has_ended = match sender.try_send(message) {
            Ok(()) => false,
            Err(TrySendError::Full(message)) => sender.send(message).is_err(),
            Err(TrySendError::Disconnected(_)) => true,
        };
        if has_ended {
            lock(&self.fault).get_or_insert_with(|| "the journal thread has stopped".to_owned());
        }
    }

    /// Waits until all entries so far are on disk, or cannot be written.
    pub(crate) fn flush(&self) {
        let (notify, receiver) = sync_channel(1);
        if let Some(sender) = &self.sender
            && sender.send(JournalMessage::Flush(notify)).is_ok()
        {
            // The wait is bounded.
            let _timeout = receiver.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        drop(self.sender.take());
        // The thread ends after the last message. Entries that cannot be written are not waited
        // for.
        if let Some(thread) = self.thread.take().filter(|_| self.fault().is_none()) {
            drop(thread.join());
        }
    }
}
