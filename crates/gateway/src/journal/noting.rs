//! A call that is noted when it ends.

use std::time::Instant;

use super::Journal;
use super::entry::{CANCELLED, Called, Noted};

/// Notes a call when it ends: also where nobody waits for it any longer, and it is let go of.
pub(crate) struct Noting<'a> {
    journal: &'a Journal,
    called: Option<Called>,
    started: Instant,
}

impl<'a> Noting<'a> {
    pub(super) fn new(journal: &'a Journal, called: Option<Called>) -> Self {
        Self {
            journal,
            called,
            started: Instant::now(),
        }
    }

    /// Notes how it ended: `done`, `failed`, `asked`, or the code of a refusal.
    pub(crate) fn ended(mut self, outcome: &'static str) {
        self.note(outcome);
    }

    fn note(&mut self, outcome: &'static str) {
        if let Some(called) = self.called.take() {
            self.journal.note(Noted::Called(
                Box::new(called),
                outcome,
                self.started.elapsed(),
            ));
        }
    }
}

impl Drop for Noting<'_> {
    fn drop(&mut self) {
        self.note(CANCELLED);
    }
}
