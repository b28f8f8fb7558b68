//! Recording of a call when it ends.

use std::sync::Arc;
use std::time::Instant;

use picktools_call::{HydratedCall, Repair};

use super::entry::{CANCELLED, CallEntry, JournalEvent, RewrittenArguments};
use super::sender::JournalSender;

/// A guard that records a call when it ends, even if the caller drops it early.
pub(crate) struct CallEntryGuard<'a> {
    sender: &'a JournalSender,
    call: Option<CallEntry>,
    started: Instant,
}

impl<'a> CallEntryGuard<'a> {
    pub(super) fn new(sender: &'a JournalSender, call: Option<CallEntry>) -> Self {
        Self {
            sender,
            call,
            started: Instant::now(),
        }
    }

    /// Notes the tool of a validated call, and its arguments if a repairer rewrote them.
    pub(crate) fn note_validated(&mut self, hydrated: &HydratedCall) {
        let Some(call) = &mut self.call else { return };
        call.tool = Some(Arc::clone(hydrated.tool()));
        for repair in hydrated.repaired() {
            if let Repair::Rewritten { by, .. } = repair {
                call.rewritten = Some(RewrittenArguments {
                    by: by.clone(),
                    arguments: hydrated.arguments().clone(),
                });
            }
        }
    }

    /// Records the outcome: `done`, `failed`, `asked`, or the code of a refusal.
    pub(crate) fn finish(mut self, outcome: &'static str) {
        self.record(outcome);
    }

    fn record(&mut self, outcome: &'static str) {
        if let Some(call) = self.call.take() {
            self.sender.send(JournalEvent::Call(
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
