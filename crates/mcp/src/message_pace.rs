//! The pace at which messages of a server are read that answer no request.
//!
//! A server may send notifications and requests without end, and each costs processor time of the
//! gateway. After a long burst, a connection is therefore read with pauses, and the server waits.

use std::time::{Duration, Instant};

/// The number of messages that are read without a pause.
const BURST: u32 = 20_000;
/// The time of each message. It is the reciprocal of the rate after the burst.
const MESSAGE_TIME: Duration = Duration::from_millis(1);
/// The length of a pause.
const PAUSE: Duration = Duration::from_millis(100);

/// The pace of a connection.
pub(super) struct MessagePace {
    /// The time at which the messages so far would have been read at the rate.
    paid_until: Instant,
    /// The end of the current pause.
    paused_until: Option<Instant>,
    /// The number of requests that have no answer yet.
    unanswered: u32,
}

impl MessagePace {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            paid_until: now,
            paused_until: None,
            unanswered: 0,
        }
    }

    /// Expects an answer to a request.
    pub(super) fn expect_answer(&mut self) {
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// Counts an answer. Only one that no request can have is counted as a message.
    pub(super) fn count_answer(&mut self, now: Instant) {
        match self.unanswered.checked_sub(1) {
            Some(unanswered) => self.unanswered = unanswered,
            None => self.count_message(now),
        }
    }

    /// Counts a message that is not an answer.
    pub(super) fn count_message(&mut self, now: Instant) {
        self.paid_until = self.paid_until.max(now) + MESSAGE_TIME;
        if self.paid_until - now > MESSAGE_TIME * BURST {
            self.paused_until = Some(now + PAUSE);
        }
    }

    /// Waits for the end of the pause. May be cancelled.
    pub(super) async fn wait(&mut self) {
        if let Some(end) = self.paused_until {
            tokio::time::sleep_until(end.into()).await;
            self.paused_until = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_after_a_burst_are_read_at_the_rate() {
        let mut now = Instant::now();
        let start = now;
        let mut pace = MessagePace::new(now);
        let mut messages = 0;
        while now < start + Duration::from_secs(60) {
            pace.count_message(now);
            messages += 1;
            now = pace.paused_until.take().unwrap_or(now);
        }
        assert!((79_000..82_000).contains(&messages), "{messages}");
    }

    #[test]
    fn answers_are_read_without_pauses() {
        let now = Instant::now();
        let mut pace = MessagePace::new(now);
        for _ in 0..BURST * 2 {
            pace.expect_answer();
            pace.count_answer(now);
        }
        assert_eq!(pace.paused_until, None);
        for _ in 0..=BURST {
            pace.count_answer(now);
        }
        assert!(pace.paused_until.is_some(), "nobody asked for these");
    }
}
