//! What fails is left alone for a while.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::sync::lock;

/// After how many failures in a row something is left alone.
pub const FAILURES: u32 = 3;
/// For how long.
pub const PAUSE: Duration = Duration::from_secs(30);

/// Lets requests through to something that may fail, but not for a while once it has failed several
/// times in a row.
pub struct Breaker {
    clock: Arc<dyn Fn() -> Instant + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many failures there were since the last success.
    failures: u32,
    last: String,
    paused_until: Option<Instant>,
}

/// Why a request is not let through.
pub struct Paused {
    /// How often it failed in a row.
    pub failures: u32,
    /// How long it is left alone from now, in seconds.
    pub seconds: u128,
    /// Its last failure.
    pub reason: String,
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new()
    }
}

impl Breaker {
    /// Makes a breaker that lets requests through.
    pub fn new() -> Self {
        Self {
            clock: Arc::new(Instant::now),
            state: Mutex::default(),
        }
    }

    /// Tells the time by another clock.
    pub fn clock(mut self, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Whoever panicked has not left the state half written.
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Lets a request through, or says why not.
    pub fn admit(&self) -> Result<Attempt<'_>, Paused> {
        let now = (self.clock)();
        let mut state = self.state();
        if let Some(until) = state.paused_until {
            let left = until.saturating_duration_since(now);
            if !left.is_zero() {
                let (failures, reason) = (state.failures, state.last.clone());
                return Err(Paused {
                    failures,
                    seconds: left.as_millis().div_ceil(1000),
                    reason,
                });
            }
            // The others wait for what becomes of this one.
            state.paused_until = Some(now + PAUSE);
        }
        Ok(Attempt {
            breaker: self,
            ended: false,
        })
    }
}

/// A request under way. One that is dropped before its end came too late, or panicked.
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
            Some(reason) => self.failed(reason),
        }
    }

    fn failed(&self, reason: String) {
        let now = (self.breaker.clock)();
        let mut state = self.breaker.state();
        state.failures = state.failures.saturating_add(1);
        state.last = reason;
        if state.failures >= FAILURES {
            state.paused_until = Some(now + PAUSE);
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.failed("it gave no answer in time".to_owned());
        }
    }
}
