//! What was decided, entry by entry: written to the audit, where there is one, and told to whoever
//! watches.
//!
//! Entries go through a channel to a thread of their own, which makes records of them and writes
//! them: whoever decides something waits for that only where the thread is `WAITING` entries
//! behind. Where a record cannot be written it is kept and tried again, and until it is written
//! nothing is decided any longer: [`Journal::ready`] refuses, `Journal::fault` tells why.

mod entry;
mod noting;
#[cfg(test)]
mod tests;
mod thread;

use std::collections::HashSet;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use picktools::{PickOptions, Query, Selection};
use picktools_audit::AuditWriter;
use picktools_state::lock;
use tokio::sync::broadcast;

pub(crate) use self::entry::Called;
use self::entry::Noted;
#[expect(unused_imports, reason = "for whoever watches")]
pub(crate) use self::entry::What;
pub use self::entry::{Approval, Entry, Narrowing, Via, Waiting};
pub(crate) use self::noting::Noting;
use self::thread::{Message, Recorder};
use crate::refusal::{Code, Refusal};
use crate::snapshot::Snapshot;

/// How many entries whoever watches may be behind.
const BEHIND: usize = 256;
/// How many entries may wait for the thread.
const WAITING: usize = 1_024;
/// How long those that wait may take to be written at the end.
const END: Duration = Duration::from_secs(5);
/// How many decisions are remembered, so that none is noted twice.
const MAX_DECIDED: usize = 4_096;

/// The record of what was decided.
pub struct Journal {
    live: broadcast::Sender<Arc<Entry>>,
    /// Closed when it is dropped.
    tell: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<()>>,
    fault: Arc<Mutex<Option<String>>>,
    has_audit: bool,
    decided: Mutex<HashSet<String>>,
}

/// A pick, and for whom.
pub struct Selected<'a> {
    /// The name of the caller's key.
    pub key: &'a str,
    /// The caller's role.
    pub role: &'a str,
    /// The owner of its state, where that is another than the key.
    pub session: Option<&'a str>,
    /// The way on which the request came.
    pub via: Via,
    /// The request.
    pub query: &'a Query,
    /// The options with which was picked.
    pub options: &'a PickOptions,
    /// The tools that were picked.
    pub selection: &'a Selection,
    /// The time that it took.
    pub time: Duration,
}

impl Journal {
    /// One that writes to an audit, or only tells whoever watches.
    pub(crate) fn open(audit: Option<AuditWriter>) -> std::io::Result<Self> {
        let (live, fault) = (broadcast::Sender::new(BEHIND), Arc::new(Mutex::new(None)));
        let (tell, told) = sync_channel(WAITING);
        let has_audit = audit.is_some();
        let recorder = Recorder::new(audit, live.clone(), Arc::clone(&fault));
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || recorder.run(&told))?;
        let decided = Mutex::default();
        Ok(Self {
            live,
            tell: Some(tell),
            thread: Some(thread),
            fault,
            has_audit,
            decided,
        })
    }

    /// Returns a way to hear what is noted from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Entry>> {
        self.live.subscribe()
    }

    /// Why records cannot be written; `None` while they can, or need not be.
    pub(crate) fn fault(&self) -> Option<String> {
        lock(&self.fault).clone()
    }

    /// Refuses what could not be recorded.
    ///
    /// # Errors
    ///
    /// [`Refusal`] while records cannot be written.
    pub fn ready(&self) -> Result<(), Refusal> {
        let Some(fault) = self.fault() else {
            return Ok(());
        };
        tracing::error!(target: "picktools::audit", %fault, "refused, as it could not be recorded");
        let message = "what this gateway does is recorded, and cannot be at the moment; nothing is picked or run until it can: \
                       tell the user that its operator has to see to it";
        Err(Refusal::new(Code::NotAudited, message).retry_after(Duration::from_secs(5)))
    }

    /// Whether anybody wants to know.
    fn is_heard(&self) -> bool {
        self.has_audit || self.live.receiver_count() > 0
    }

    /// Notes a pick.
    pub fn selected(&self, selected: &Selected<'_>) {
        if self.is_heard() {
            self.note(Noted::Selected(Box::new(selected.into())));
        }
    }

    /// Notes a request to a model.
    pub fn narrowed(&self, narrowing: Narrowing) {
        if self.is_heard() {
            self.note(Noted::Narrowed(Box::new(narrowing)));
        }
    }

    /// Notes a call when it has ended, however it does. `called` tells of the call.
    pub(crate) fn calling(&self, called: impl FnOnce() -> Called) -> Noting<'_> {
        Noting::new(self, self.is_heard().then(called))
    }

    /// Notes what somebody decided of what waited. What one who decides notes as theirs (`by`) is
    /// not noted again when it is seen.
    pub fn approved(&self, approval: Approval) {
        let identity = approval.identity();
        {
            let mut decided = lock(&self.decided);
            if decided.len() >= MAX_DECIDED {
                decided.clear();
            }
            let is_noted = match (&approval.by, approval.is_of_call()) {
                // A call has an id of its own, and is decided once.
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
        if self.is_heard() {
            self.note(Noted::Approved(Box::new(approval)));
        }
    }

    /// Notes what holds from now on, where it is something else than before.
    pub(crate) fn changed(&self, snapshot: &Arc<Snapshot>) {
        self.note(Noted::Changed(Arc::clone(snapshot)));
    }

    fn note(&self, noted: Noted) {
        let at_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_millis());
        let message = Message::Note(u64::try_from(at_ms).unwrap_or(u64::MAX), noted);
        let Some(tell) = &self.tell else { return };
        let ended = match tell.try_send(message) {
            Ok(()) => false,
            Err(TrySendError::Full(message)) => tell.send(message).is_err(),
            Err(TrySendError::Disconnected(_)) => true,
        };
        if ended {
            lock(&self.fault).get_or_insert_with(|| "what writes the records has ended".to_owned());
        }
    }

    /// Waits until what was noted so far is on the disk, or cannot be brought there.
    pub(crate) fn flush(&self) {
        let (done, ended) = sync_channel(1);
        if let Some(tell) = &self.tell
            && tell.send(Message::Flush(done)).is_ok()
        {
            // Where it takes too long, nobody waits for ever.
            let _done = ended.recv_timeout(END);
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        drop(self.tell.take());
        // It ends when nobody can tell it anything any longer; what cannot be written is not waited
        // for.
        if let Some(thread) = self.thread.take().filter(|_| self.fault().is_none()) {
            drop(thread.join());
        }
    }
}
