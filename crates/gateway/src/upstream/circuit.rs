//! The circuit breaker of an upstream.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The circuit breaker opens after this many failures within this time, for a first and a longest
/// pause.
const MAX_FAILURES: usize = 5;
const FAILURE_WINDOW: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const MAX_PAUSE: Duration = Duration::from_secs(600);

/// The circuit breaker of an upstream.
#[derive(Default)]
pub(super) struct UpstreamCircuit {
    failures: VecDeque<Instant>,
    open_until: Option<Instant>,
    /// The number of times it opened since the last answer.
    times_opened: u32,
    /// The time until which that of another gateway is open.
    remote_open_until: Option<Instant>,
    /// `true` if other gateways must learn that it opened or closed.
    has_change: bool,
}

/// A change of a circuit breaker, for other gateways.
pub(crate) enum CircuitChange {
    /// It opened for this time.
    Opened(Duration),
    /// It closed.
    Closed,
}

impl UpstreamCircuit {
    /// Returns the time for which no connection is opened, or `None` if one may be opened.
    pub(super) fn remaining(&self) -> Option<Duration> {
        remaining_time(self.open_until.max(self.remote_open_until))
    }

    /// Records a failure. Returns `true` if the circuit breaker opens.
    pub(super) fn record_failure(&mut self, now: Instant) -> bool {
        self.failures.push_back(now);
        let is_old = |first: &Instant| now.duration_since(*first) > FAILURE_WINDOW;
        while self.failures.front().is_some_and(is_old) {
            self.failures.pop_front();
        }
        let was_open = self.open_until.take_if(|until| *until <= now).is_some();
        let opens = was_open || self.failures.len() >= MAX_FAILURES;
        if opens {
            let time = FIRST_PAUSE
                .saturating_mul(1 << self.times_opened.min(5))
                .min(MAX_PAUSE);
            self.open_until = Some(now + time);
            self.has_change = true;
            self.times_opened += 1;
            self.failures.clear();
        }
        opens
    }

    /// Records an answer, which closes the circuit breaker. Returns `true` if it was open.
    pub(super) fn record_answer(&mut self) -> bool {
        let was_open = self.times_opened > 0;
        if was_open || !self.failures.is_empty() {
            self.has_change |= was_open;
            (self.failures, self.open_until, self.times_opened) = (VecDeque::new(), None, 0);
        }
        was_open
    }

    /// Returns the change that other gateways must learn, once.
    pub(super) fn take_change(&mut self) -> Option<CircuitChange> {
        if !std::mem::take(&mut self.has_change) {
            return None;
        }
        match remaining_time(self.open_until) {
            Some(remaining) => Some(CircuitChange::Opened(remaining)),
            None => Some(CircuitChange::Closed),
        }
    }

    /// Keeps a change that could not be published.
    pub(super) fn restore_change(&mut self) {
        self.has_change = true;
    }

    /// Opens the circuit breaker for as long as that of another gateway is open, up to a limit.
    pub(super) fn open_remote(&mut self, time: Option<Duration>) {
        self.remote_open_until = time.map(|time| Instant::now() + time.min(MAX_PAUSE));
    }
}

/// Returns the time until an instant, or `None` once the instant has passed.
fn remaining_time(until: Option<Instant>) -> Option<Duration> {
    let remaining = until?.saturating_duration_since(Instant::now());
    (!remaining.is_zero()).then_some(remaining)
}
