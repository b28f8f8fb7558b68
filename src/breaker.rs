//! A circuit breaker, which pauses requests to a component after repeated failures.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::sync::lock;

/// The number of consecutive failures after which the breaker opens.
pub const FAILURES: u32 = 3;
/// The time for which an open breaker refuses requests.
pub const PAUSE: Duration = Duration::from_secs(30);

/// A guard that admits requests to a component, and refuses them for [`PAUSE`] after [`FAILURES`]
/// consecutive failures.
pub struct Breaker {
    clock: Arc<dyn Fn() -> Instant + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of failures since the last success.
    failures: u32,
    last_failure: String,
    paused_until: Option<Instant>,
}

/// A refusal by an open breaker.
pub struct BreakerPause {
    /// The number of consecutive failures.
    pub failures: u32,
    /// The remaining pause in seconds, rounded up.
    pub seconds: u128,
    /// The last failure of the component.
    pub reason: String,
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new()
    }
}

impl Breaker {
    /// Makes a breaker that admits requests.
    pub fn new() -> Self {
        Self {
            clock: Arc::new(Instant::now),
            state: Mutex::default(),
        }
    }

    /// Replaces the clock, for tests.
    pub fn clock(mut self, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Locks the state. No code that can panic leaves the state half written.
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Admits a request, or returns the reason for the pause.
    pub fn admit(&self) -> Result<Attempt<'_>, BreakerPause> {
        let now = (self.clock)();
        let mut state = self.state();
        if let Some(until) = state.paused_until {
            let remaining = until.saturating_duration_since(now);
            if !remaining.is_zero() {
                let (failures, reason) = (state.failures, state.last_failure.clone());
                return Err(BreakerPause {
                    failures,
                    seconds: remaining.as_millis().div_ceil(1000),
                    reason,
                });
            }
            // This request is the trial: the breaker stays open for others until it ends.
            state.paused_until = Some(now + PAUSE);
        }
        Ok(Attempt {
            breaker: self,
            ended: false,
        })
    }
}

/// A running request. If it is dropped without [`Attempt::end`], it was too late or panicked, and
/// counts as a failure.
pub struct Attempt<'a> {
    breaker: &'a Breaker,
    ended: bool,
}

impl Attempt<'_> {
    /// Records the outcome of the attempt: `None` for a success, else the failure.
    pub fn end(mut self, failure: Option<String>) {
        self.ended = true;
        match failure {
            None => *self.breaker.state() = State::default(),
            Some(reason) => self.record_failure(reason),
        }
    }

    fn record_failure(&self, reason: String) {
        let now = (self.breaker.clock)();
        let mut state = self.breaker.state();
        state.failures = state.failures.saturating_add(1);
        state.last_failure = reason;
        if state.failures >= FAILURES {
            state.paused_until = Some(now + PAUSE);
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.record_failure("it gave no answer in time".to_owned());
        }
    }
}
