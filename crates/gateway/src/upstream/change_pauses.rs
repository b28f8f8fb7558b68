//! The pause before a server that reports a change is listed again.
//!
//! A server may report changes without end, and each list costs the time of all clients. Its lists
//! are therefore read less often, the more of them were read lately.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The shortest pause. Changes within this time are read together.
const MIN_PAUSE: Duration = Duration::from_millis(300);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// The number of lists that are read after the shortest pause, within a time.
const QUICK_LISTS: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);

/// The changes of a server's list that were read lately.
#[derive(Default)]
pub(super) struct ChangePauses {
    recent: VecDeque<Instant>,
}

impl ChangePauses {
    /// Counts a change, and returns the pause before the list is read.
    pub(super) fn next(&mut self, now: Instant) -> Duration {
        let is_old = |time: &Instant| now.duration_since(*time) >= WINDOW;
        while self.recent.front().is_some_and(is_old) {
            self.recent.pop_front();
        }
        let slow_lists = self.recent.len().saturating_sub(QUICK_LISTS - 1);
        self.recent.push_back(now);
        let mut pause = MIN_PAUSE;
        for _ in 0..slow_lists {
            pause = (pause * 2).min(MAX_PAUSE);
        }
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_changes_a_minute_are_read_at_once() {
        let mut pauses = ChangePauses::default();
        let mut now = Instant::now();
        for _ in 0..50 {
            assert_eq!(pauses.next(now), MIN_PAUSE);
            now += WINDOW / 4;
        }
    }

    #[test]
    fn changes_without_end_are_read_ever_more_slowly() {
        let mut pauses = ChangePauses::default();
        let start = Instant::now();
        let mut now = start;
        let mut lists = 0;
        while now < start + WINDOW * 10 {
            let pause = pauses.next(now);
            assert!((MIN_PAUSE..=MAX_PAUSE).contains(&pause), "{pause:?}");
            now += pause;
            lists += 1;
        }
        assert!((60..150).contains(&lists), "{lists} lists in ten minutes");
        assert_eq!(pauses.next(now + WINDOW), MIN_PAUSE);
    }
}
