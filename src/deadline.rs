//! Deadlines: points in time after which the caller no longer waits for an answer.

mod error;
mod pool;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::time::timeout_at;

pub(crate) use self::error::DeadlineError;
use self::pool::{Pool, StartedJob};

/// The most jobs with a deadline that run at once in the process.
///
/// Such jobs mostly wait: with a language model that takes one second, 128 threads serve 128 picks
/// a second. A thread with a late job costs the part of its stack that it has touched, so all of
/// them together cost a few megabytes.
const MAX_THREADS: usize = 128;
/// The time after which an idle thread ends. It is longer than the pause between two picks of a
/// busy process.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

static POOL: Pool = Pool::new(MAX_THREADS, IDLE_TIMEOUT);

/// The time until which the caller waits for an answer; `None` means no limit.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Option<Instant>);

/// A job that is done or still running.
pub(crate) enum PendingJob<T> {
    Done(Result<T, DeadlineError>),
    Started(StartedJob<T>),
}

/// Starts `work` on a thread of the pool, or fails at once if no thread is free.
///
/// Dropping the returned job means that nothing waits for it any longer; the work itself goes on.
pub fn spawn(work: impl FnOnce() + Send + 'static) -> Result<StartedJob<()>, String> {
    POOL.start(Instant::now(), work)
        .map_err(|error| match error {
            DeadlineError::Expired => "no thread is free".to_owned(),
            DeadlineError::Lost(reason) => reason,
        })
}

impl<T> PendingJob<T> {
    /// Waits for the job until its deadline.
    pub(crate) fn wait(self) -> Result<T, DeadlineError> {
        match self {
            Self::Done(answer) => answer,
            Self::Started(started) => started.wait(),
        }
    }
}

impl Deadline {
    /// Makes a deadline from a timeout that starts now. A timeout beyond the range of `Instant`
    /// means no limit.
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
    /// Late work keeps its thread until it returns, and its answer is dropped. If late work
    /// occupies all threads, no further work is started.
    pub(crate) fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DeadlineError> {
        let Some(instant) = self.0 else {
            // The thread is joined, so it never outlives the call and needs no pool.
            let thread = thread::Builder::new().name("picktools-worker".to_owned());
            let thread = thread.spawn(work).map_err(DeadlineError::no_thread)?;
            return thread.join().map_err(|_| DeadlineError::panicked());
        };
        POOL.start(instant, work)?.wait()
    }

    /// Starts `work` on another thread, so that the caller can wait for it later. Without a
    /// deadline the work runs at once on the caller's thread.
    pub(crate) fn start<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> PendingJob<T> {
        match self.0 {
            None => PendingJob::Done(Ok(work())),
            Some(instant) => match POOL.start(instant, work) {
                Ok(started) => PendingJob::Started(started),
                Err(error) => PendingJob::Done(Err(error)),
            },
        }
    }

    /// Waits for a future until the deadline, on another thread with a runtime of its own.
    ///
    /// Both synchronous and asynchronous callers can use it. When the deadline passes, the future is
    /// dropped. A future that blocks its thread is not waited for after the deadline, and neither are
    /// its tasks in the runtime's blocking pool.
    pub(crate) fn run_async<T: Send + 'static>(
        self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, DeadlineError> {
        let work = move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| {
                DeadlineError::Lost(format!("no runtime could be started: {error}"))
            })?;
            let answer = || {
                runtime.block_on(async {
                    match self.0 {
                        Some(instant) => timeout_at(instant.into(), future)
                            .await
                            .map_err(|_| DeadlineError::Expired),
                        None => Ok(future.await),
                    }
                })
            };
            let answer =
                catch_unwind(AssertUnwindSafe(answer)).map_err(|_| DeadlineError::panicked());
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
    fn work_in_time_answers_and_late_or_lost_work_fails() {
        let soon = Deadline::after(Some(Duration::from_millis(50)));
        assert_eq!(soon.run(|| 7), Ok(7));
        assert_eq!(
            soon.run(|| thread::sleep(Duration::from_secs(2))),
            Err(DeadlineError::Expired)
        );
        assert_eq!(
            soon.start(|| thread::sleep(Duration::from_secs(2))).wait(),
            Err(DeadlineError::Expired)
        );
        assert_eq!(Deadline::after(None).start(|| 7).wait(), Ok(7));
        assert!(matches!(
            Deadline::after(None).run(|| panic!("on purpose")),
            Err::<(), _>(DeadlineError::Lost(_))
        ));
        assert!(!Deadline::after(Some(Duration::MAX)).has_passed());
    }

    #[test]
    fn future_is_dropped_when_the_deadline_passes() {
        let soon = Deadline::after(Some(Duration::from_millis(50)));
        assert_eq!(soon.run_async(async { 7 }), Ok(7));
        let (sender, dropped) = mpsc::channel::<()>();
        let endless = async move {
            let _sender = sender;
            std::future::pending::<()>().await;
        };
        assert_eq!(soon.run_async(endless), Err(DeadlineError::Expired));
        assert_eq!(
            dropped.recv_timeout(Duration::from_secs(2)),
            Err(RecvTimeoutError::Disconnected)
        );
        assert!(matches!(
            Deadline::after(None).run_async(async { panic!("on purpose") }),
            Err::<(), _>(DeadlineError::Lost(_))
        ));
    }
}
