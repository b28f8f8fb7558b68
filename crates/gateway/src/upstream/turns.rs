//! The turns of owners that share fewer slots.

use std::time::{Duration, Instant};

/// The time that an owner keeps a slot while others wait, as a multiple of the time that the server
/// took to start, with its limits.
const STARTS_PER_TURN: u32 = 4;
const MIN_TURN: Duration = Duration::from_millis(250);
const MAX_TURN: Duration = Duration::from_secs(4);
/// The part of a turn after which the turn ends if the slot is not used.
const UNUSED_PART: u32 = 8;
/// A start that takes longer than this multiple of the usual time does not delay other starts.
const USUAL_STARTS: u32 = 2;

/// The turn of the owner of a slot.
#[derive(Clone, Copy)]
struct SlotTurn {
    end: Instant,
    /// The length of the turn.
    length: Duration,
    /// The time that the server took to start.
    start_time: Duration,
}

/// The use of a slot.
pub(super) struct SlotState {
    uses: usize,
    last_use: Instant,
    /// The time at which the server began to start.
    starting_since: Instant,
    /// `None` until the server has started.
    turn: Option<SlotTurn>,
}

/// The state of a slot for owners that have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Availability {
    /// Its server is starting.
    Starting,
    /// It is in use, or in its turn.
    Taken,
    /// Its turn is over and it is unused at the moment.
    TurnOver,
    /// It has been unused for a part of a turn, or its server did not start.
    Unused,
}

impl SlotState {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            uses: 0,
            last_use: now,
            starting_since: now,
            turn: None,
        }
    }

    /// Begins the turn of the owner, whose server took this time to start.
    pub(super) fn begin_turn(&mut self, start_time: Duration, now: Instant) {
        let length = turn_length(start_time);
        self.turn = Some(SlotTurn {
            end: now + length,
            length,
            start_time,
        });
    }

    pub(super) fn begin_call(&mut self, now: Instant) {
        if self.turn.is_none() && self.uses == 0 {
            self.starting_since = now;
        }
        self.uses += 1;
    }

    pub(super) fn end_call(&mut self, now: Instant) {
        self.uses -= 1;
        self.last_use = now;
    }

    /// Returns the time at which the last call ended.
    pub(super) fn last_use(&self) -> Instant {
        self.last_use
    }

    /// Returns the time that the server took to start, if it has started.
    pub(super) fn start_time(&self) -> Option<Duration> {
        Some(self.turn?.start_time)
    }

    fn is_starting(&self) -> bool {
        self.turn.is_none() && self.uses > 0
    }

    /// Returns `true` if its server is starting, and not for much longer than starts usually take.
    pub(super) fn starts_as_usual(&self, usual_time: Duration, now: Instant) -> bool {
        let limit = usual_time.saturating_mul(USUAL_STARTS).max(MIN_TURN);
        self.is_starting() && now < self.starting_since + limit
    }

    pub(super) fn availability(&self, now: Instant) -> Availability {
        match self.turn {
            None if self.is_starting() => Availability::Starting,
            None => Availability::Unused,
            Some(_) if self.uses > 0 => Availability::Taken,
            Some(turn) if self.unused_end(turn, now) <= now => Availability::Unused,
            Some(turn) if turn.end <= now => Availability::TurnOver,
            Some(_) => Availability::Taken,
        }
    }

    /// Returns the time at which its availability may change without a call or a start.
    pub(super) fn next_change(&self, now: Instant) -> Option<Instant> {
        let turn = self.turn?;
        let unused_end = self.unused_end(turn, now);
        match turn.end > now {
            true => Some(unused_end.min(turn.end)),
            false => Some(unused_end),
        }
    }

    /// Returns the time at which it will have been unused for long enough if no call begins.
    fn unused_end(&self, turn: SlotTurn, now: Instant) -> Instant {
        let unused_since = if self.uses == 0 { self.last_use } else { now };
        unused_since + turn.length / UNUSED_PART
    }
}

fn turn_length(start_time: Duration) -> Duration {
    let length = start_time.saturating_mul(STARTS_PER_TURN);
    length.clamp(MIN_TURN, MAX_TURN)
}

/// Returns the number of servers that may start at the same time if slots in use are given to other
/// owners: as many as give each waiting call a slot within one turn, but no more than start on
/// average if all slots change hands after each turn.
pub(super) fn max_starting(waiting: usize, slots: usize, start_time: Duration) -> usize {
    let start = start_time.as_millis();
    let turn = turn_length(start_time).as_millis();
    let needed = (waiting as u128 * start).div_ceil(turn);
    let average = (slots as u128 * start).div_ceil(start + turn);
    usize::try_from(needed.min(average)).unwrap_or(slots).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn milliseconds(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn turn_lasts_four_starts_and_ends_early_without_calls() {
        let begin = Instant::now();
        let mut state = SlotState::new(begin);
        assert_eq!(state.availability(begin), Availability::Unused);
        state.begin_call(begin);
        assert_eq!(state.availability(begin), Availability::Starting);
        assert_eq!(state.next_change(begin), None);
        state.begin_turn(milliseconds(500), begin);
        assert_eq!(state.availability(begin), Availability::Taken);
        state.end_call(begin);
        let at = |count| begin + milliseconds(count);
        assert_eq!(state.next_change(begin), Some(at(250)));
        assert_eq!(state.availability(at(249)), Availability::Taken);
        assert_eq!(state.availability(at(250)), Availability::Unused);
        state.begin_call(at(250));
        assert_eq!(state.next_change(at(1_900)), Some(at(2_000)));
        assert_eq!(state.availability(at(2_100)), Availability::Taken);
        state.end_call(at(2_100));
        assert_eq!(state.availability(at(2_100)), Availability::TurnOver);
        assert_eq!(state.next_change(at(2_100)), Some(at(2_350)));
    }

    #[test]
    fn slot_whose_server_did_not_start_is_unused() {
        let now = Instant::now();
        let mut state = SlotState::new(now);
        state.begin_call(now);
        state.end_call(now);
        assert_eq!(state.availability(now), Availability::Unused);
    }

    #[test]
    fn start_that_takes_too_long_is_not_counted() {
        let begin = Instant::now();
        let mut state = SlotState::new(begin);
        state.begin_call(begin);
        let usual = milliseconds(500);
        assert!(state.starts_as_usual(usual, begin + milliseconds(999)));
        assert!(!state.starts_as_usual(usual, begin + milliseconds(1_000)));
        assert_eq!(
            state.availability(begin + milliseconds(9_000)),
            Availability::Starting
        );
    }

    #[test]
    fn starting_servers_follow_the_number_of_waiting_calls() {
        let starting = |waiting, start| max_starting(waiting, 32, milliseconds(start));
        assert_eq!(starting(1, 0), 1);
        assert_eq!(starting(1_000, 0), 1);
        // A turn of 2 s.
        assert_eq!(
            [1, 4, 5, 8, 96].map(|count| starting(count, 500)),
            [1, 1, 2, 2, 7]
        );
        // A turn of 4 s.
        assert_eq!([1, 8, 96].map(|count| starting(count, 10_000)), [3, 20, 23]);
        assert_eq!(max_starting(5, 1, milliseconds(500)), 1);
    }
}
