//! The channel to the thread that writes entries.

use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use picktools_state::lock;

use super::entry::JournalEvent;
use super::thread::JournalMessage;

/// The sender of events.
pub(super) struct JournalSender {
    /// `None` once the journal ends.
    sender: Option<SyncSender<JournalMessage>>,
    fault: Arc<Mutex<Option<String>>>,
}

impl JournalSender {
    /// Creates the sender. `fault` receives the reason why events cannot be sent.
    pub(super) fn new(
        sender: SyncSender<JournalMessage>,
        fault: Arc<Mutex<Option<String>>>,
    ) -> Self {
        Self {
            sender: Some(sender),
            fault,
        }
    }

    /// Sends an event with the current time. It waits only if the thread is far behind.
    pub(super) fn send(&self, event: JournalEvent) {
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

    /// Asks the thread to notify `done` once all earlier events are written. Returns `false` if it
    /// has ended.
    pub(super) fn request_flush(&self, done: SyncSender<()>) -> bool {
        let Some(sender) = &self.sender else {
            return false;
        };
        sender.send(JournalMessage::Flush(done)).is_ok()
    }

    /// Closes the channel. The thread ends after the last message.
    pub(super) fn close(&mut self) {
        self.sender = None;
    }
}
