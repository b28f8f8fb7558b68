//! A point in time after which an answer comes too late.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::time::timeout_at;

/// When an answer must be there; without one there is all the time in the world.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Missed {
    /// The deadline passed.
    Expired,
    /// The worker died, or could not be started.
    Lost(String),
}

impl Missed {
    pub(crate) fn panicked() -> Self {
        Self::Lost("it panicked".to_owned())
    }
}

impl Deadline {
    /// A timeout too long to be a point in time is none.
    pub(crate) fn after(timeout: Option<Duration>) -> Self {
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    pub(crate) fn instant(self) -> Option<Instant> {
        self.0
    }

    pub(crate) fn has_passed(self) -> bool {
        self.0.is_some_and(|instant| Instant::now() >= instant)
    }

    /// Runs `work` on a thread of its own and waits for it until the deadline.
    ///
    /// Work that comes too late is not waited for: its thread ends by itself, and its answer is dropped.
    pub(crate) fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Missed> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let answer = move || {
            // Nobody listens any more once the deadline has passed.
            let _too_late = sender.send(work());
        };
        thread::Builder::new()
            .name("picktools-worker".to_owned())
            .spawn(answer)
            .map_err(|error| Missed::Lost(format!("no thread could be started: {error}")))?;
        match self.0 {
            None => receiver.recv().map_err(|_| Missed::panicked()),
            Some(instant) => match receiver.recv_timeout(instant.saturating_duration_since(Instant::now())) {
                Ok(answer) => Ok(answer),
                Err(RecvTimeoutError::Timeout) => Err(Missed::Expired),
                Err(RecvTimeoutError::Disconnected) => Err(Missed::panicked()),
            },
        }
    }

    /// Waits for a future until the deadline, on a thread of its own with a small runtime, so that the caller may be
    /// synchronous or not; when the deadline passes, the future is dropped.
    ///
    /// A future that blocks its thread is not waited for either, nor is what it left to the runtime's blocking pool.
    pub(crate) fn run_async<T: Send + 'static>(
        self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Missed> {
        let work = move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| Missed::Lost(format!("no runtime could be started: {error}")))?;
            let answer = || {
                runtime.block_on(async {
                    match self.0 {
                        Some(instant) => timeout_at(instant.into(), future).await.map_err(|_| Missed::Expired),
                        None => Ok(future.await),
                    }
                })
            };
            let answer = catch_unwind(AssertUnwindSafe(answer)).map_err(|_| Missed::panicked());
            runtime.shutdown_background();
            answer?
        };
        self.run(work)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_in_time_count_and_late_or_lost_ones_do_not() {
        let soon = Deadline::after(Some(Duration::from_millis(50)));
        assert_eq!(soon.run(|| 7), Ok(7));
        assert_eq!(soon.run(|| thread::sleep(Duration::from_secs(2))), Err(Missed::Expired));
        assert!(matches!(Deadline::after(None).run(|| panic!("on purpose")), Err::<(), _>(Missed::Lost(_))));
        assert!(!Deadline::after(Some(Duration::MAX)).has_passed());
    }

    #[test]
    fn a_future_is_waited_for_as_long_and_dropped_then() {
        let soon = Deadline::after(Some(Duration::from_millis(50)));
        assert_eq!(soon.run_async(async { 7 }), Ok(7));
        let (held, dropped) = mpsc::channel::<()>();
        let hangs = async move {
            let _held = held;
            std::future::pending::<()>().await;
        };
        assert_eq!(soon.run_async(hangs), Err(Missed::Expired));
        assert_eq!(dropped.recv_timeout(Duration::from_secs(2)), Err(RecvTimeoutError::Disconnected));
        assert!(matches!(
            Deadline::after(None).run_async(async { panic!("on purpose") }),
            Err::<(), _>(Missed::Lost(_))
        ));
    }
}
