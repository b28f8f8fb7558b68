//! Recording of a call when it ends.

use std::time::Instant;

use super::Journal;
use super::entry::{CANCELLED, CallEntry, JournalEvent};

/// A guard that records a call when it ends, even if the caller drops it early.
pub(crate) struct CallEntryGuard<'a> {
    journal: &'a Journal,
    call: Option<CallEntry>,
    started: Instant,
}

impl<'a> CallEntryGuard<'a> {
    pub(super) fn new(journal: &'a Journal, call: Option<CallEntry>) -> Self {
        Self {
            journal,
            call,
            started: Instant::now(),
        }
    }

    /// Records the outcome: `done`, `failed`, `asked`, or the code of a refusal.
    pub(crate) fn finish(mut self, outcome: &'static str) {
        self.record(outcome);
    }

    fn record(&mut self, outcome: &'static str) {
        if let Some(call) = self.call.take() {
            self.journal.send_event(JournalEvent::Call(
                Box::new(call),
                outcome,
                self.started.elapsed(),
            ));
        }
    }
}

impl Drop for CallEntryGuard<'_> {
    fn drop(&mut self) {
        self.record(CANCELLED);
    }
}
