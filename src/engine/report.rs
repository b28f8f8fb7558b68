//! What became of the stages of a pick.

use std::time::Instant;

use crate::selection::{Degraded, Stage, StageReport, StageStatus, Timings};

/// Which stages ran, were skipped or failed, and how long they took.
pub(super) struct Report {
    /// When the last stage ended.
    last: Instant,
    pub(super) stages: Vec<StageReport>,
    pub(super) degraded: Vec<Degraded>,
    pub(super) timings: Timings,
}

impl Report {
    /// Starts the clock.
    pub(super) fn new() -> Self {
        Self {
            last: Instant::now(),
            stages: Vec::new(),
            degraded: Vec::new(),
            timings: Timings::default(),
        }
    }

    pub(super) fn ran(&mut self, stage: Stage) {
        self.time(stage);
        self.stages.push(StageReport {
            stage,
            status: StageStatus::Ran,
        });
    }

    pub(super) fn skipped(&mut self, stage: Stage, reason: impl Into<String>) {
        self.stages.push(StageReport {
            stage,
            status: StageStatus::Skipped {
                reason: reason.into(),
            },
        });
    }

    pub(super) fn failed(&mut self, stage: Stage, reason: impl Into<String>) {
        let reason = reason.into();
        self.time(stage);
        self.degraded(stage, reason.clone());
        self.stages.push(StageReport {
            stage,
            status: StageStatus::Failed { reason },
        });
    }

    /// Notes what a stage that ran could not do.
    pub(super) fn degraded(&mut self, stage: Stage, reason: String) {
        self.degraded.push(Degraded { stage, reason });
    }

    /// Notes a stage that did not run because it has failed recently.
    pub(super) fn left_out(&mut self, stage: Stage, reason: String) {
        self.degraded(stage, reason.clone());
        self.skipped(stage, reason);
    }

    /// Returns `true` if a stage has failed, was left out, or could not do all it should.
    pub(super) fn is_degraded(&self) -> bool {
        !self.degraded.is_empty()
    }

    fn time(&mut self, stage: Stage) {
        let now = Instant::now();
        self.timings.0.push((stage, now - self.last));
        self.last = now;
    }
}
