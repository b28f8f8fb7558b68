//! The progress report of a pick.

use std::time::Instant;

use crate::selection::{Degraded, Stage, StageReport, StageStatus, Timings};

/// A record of the stages that ran, were skipped or failed, with their durations.
pub(super) struct Report {
    /// The end of the last stage.
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

    /// Records that a stage ran with a worse result.
    pub(super) fn degraded(&mut self, stage: Stage, reason: String) {
        self.degraded.push(Degraded { stage, reason });
    }

    /// Records a stage that was skipped because of recent failures.
    pub(super) fn skipped_after_failures(&mut self, stage: Stage, reason: String) {
        self.degraded(stage, reason.clone());
        self.skipped(stage, reason);
    }

    /// Returns `true` if a stage failed, was skipped after failures, or ran with a worse result.
    pub(super) fn is_degraded(&self) -> bool {
        !self.degraded.is_empty()
    }

    fn time(&mut self, stage: Stage) {
        let now = Instant::now();
        self.timings.0.push((stage, now - self.last));
        self.last = now;
    }
}
