//! A point in time after which an answer comes too late.

mod pool;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::time::timeout_at;

use self::pool::{Pool, Started};

/// How many pieces of work with a deadline run at once, in the whole process. Such work mostly
/// waits: for a language model that takes a second, these are 128 picks a second. A thread that is
/// held by late work costs the part of its stack that it has touched, so all of them cost a few
/// megabytes.
const MOST_THREADS: usize = 128;
/// Longer than the pause between two picks of a busy process.
const IDLE_FOR: Duration = Duration::from_secs(10);

static POOL: Pool = Pool::new(MOST_THREADS, IDLE_FOR);

/// When an answer must be there; without one there is all the time in the world.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Option<Instant>);

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Missed {
    /// The deadline passed.
    Expired,
    /// The work panicked, or there was no thread for it.
    Lost(String),
}

/// Work that was started.
pub(crate) enum Pending<T> {
    Done(Result<T, Missed>),
    Started(Started<T>),
}

/// Starts `work` on a thread of the pool, at once or not at all; who lets go of what is returned
/// does not wait for it any longer.
pub fn thread(work: impl FnOnce() + Send + 'static) -> Result<Started<()>, String> {
    POOL.start(Instant::now(), work)
        .map_err(|missed| match missed {
            Missed::Expired => "there is no thread for it".to_owned(),
            Missed::Lost(reason) => reason,
        })
}

impl<T> Pending<T> {
    /// Waits for the work until its deadline.
    pub(crate) fn wait(self) -> Result<T, Missed> {
        match self {
            Self::Done(answer) => answer,
            Self::Started(started) => started.wait(),
        }
    }
}

impl Missed {
    pub(crate) fn panicked() -> Self {
        Self::Lost("it panicked".to_owned())
    }

    #[expect(clippy::needless_pass_by_value, reason = "errors are mapped by it")]
    fn no_thread(error: io::Error) -> Self {
        Self::Lost(format!("no thread could be started: {error}"))
    }
}

impl Deadline {
    /// A timeout too long to be a point in time is none.
    pub fn after(timeout: Option<Duration>) -> Self {
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    pub(crate) fn at(instant: Option<Instant>) -> Self {
        Self(instant)
    }

    /// Returns the point in time, if there is a deadline.
    pub fn instant(self) -> Option<Instant> {
        self.0
    }

    pub(crate) fn has_passed(self) -> bool {
        self.0.is_some_and(|instant| Instant::now() >= instant)
    }

    /// Runs `work` on another thread and waits for it until the deadline.
    ///
    /// Work that comes too late is not waited for: it keeps its thread until it returns, and its
    /// answer is dropped. Where too much of it still runs, no more is begun.
    pub(crate) fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Missed> {
        let Some(instant) = self.0 else {
            // This work is waited for, whatever it takes, so that its thread does not outlive the
            // call.
            let thread = thread::Builder::new().name("picktools-worker".to_owned());
            let thread = thread.spawn(work).map_err(Missed::no_thread)?;
            return thread.join().map_err(|_| Missed::panicked());
        };
        POOL.start(instant, work)?.wait()
    }

    /// Starts `work` on another thread, to be waited for later. Without a deadline it is done here
    /// and now.
    pub(crate) fn start<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Pending<T> {
        match self.0 {
            None => Pending::Done(Ok(work())),
            Some(instant) => match POOL.start(instant, work) {
                Ok(started) => Pending::Started(started),
                Err(missed) => Pending::Done(Err(missed)),
            },
        }
    }

    /// Waits for a future until the deadline, on another thread with a small runtime, so that the
    /// caller may be synchronous or not; when the deadline passes, the future is dropped.
    ///
    /// A future that blocks its thread is not waited for either, nor is what it left to the
    /// runtime's blocking pool.
    pub(crate) fn run_async<T: Send + 'static>(
        self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Missed> {
        let work = move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime
                .map_err(|error| Missed::Lost(format!("no runtime could be started: {error}")))?;
            let answer = || {
                runtime.block_on(async {
                    match self.0 {
                        Some(instant) => timeout_at(instant.into(), future)
                            .await
                            .map_err(|_| Missed::Expired),
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
    use std::sync::mpsc::{self, RecvTimeoutError};

    use super::*;

    #[test]
    fn answers_in_time_count_and_late_or_lost_ones_do_not() {
        let soon = Deadline::after(Some(Duration::from_millis(50)));
        assert_eq!(soon.run(|| 7), Ok(7));
        assert_eq!(
            soon.run(|| thread::sleep(Duration::from_secs(2))),
            Err(Missed::Expired)
        );
        assert_eq!(
            soon.start(|| thread::sleep(Duration::from_secs(2))).wait(),
            Err(Missed::Expired)
        );
        assert_eq!(Deadline::after(None).start(|| 7).wait(), Ok(7));
        assert!(matches!(
            Deadline::after(None).run(|| panic!("on purpose")),
            Err::<(), _>(Missed::Lost(_))
        ));
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
        assert_eq!(
            dropped.recv_timeout(Duration::from_secs(2)),
            Err(RecvTimeoutError::Disconnected)
        );
        assert!(matches!(
            Deadline::after(None).run_async(async { panic!("on purpose") }),
            Err::<(), _>(Missed::Lost(_))
        ));
    }
}
