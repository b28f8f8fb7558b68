//! A bounded thread pool for jobs with a deadline.
//!
//! A late job cannot be stopped: it keeps its thread until it returns. So the number of threads is
//! bounded. If late jobs without a waiting caller occupy all threads, new work is refused with that
//! reason. Threads are created on demand, reused, and end after an idle timeout.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::error::DeadlineError;
use crate::sync::lock;

/// The time for which a thread polls for further work before it sleeps.
const SPIN_TIME: Duration = Duration::from_micros(50);

/// A pool of threads with a queue of work.
pub(super) struct Pool {
    max_threads: usize,
    /// The time after which an idle thread ends.
    idle_timeout: Duration,
    state: Mutex<PoolState>,
    /// The length of the queue, for threads that poll before they sleep.
    queued: AtomicUsize,
    /// Signals that the queue has work.
    work_queued: Condvar,
    /// Signals that a job has ended, or that its caller has given up on it.
    job_ended: Condvar,
}

struct PoolState {
    threads: usize,
    /// Jobs that run or are queued, by number: `true` if the caller has given up on the job.
    running: BTreeMap<u64, bool>,
    /// The work of the jobs that no thread has taken yet.
    queue: VecDeque<Work>,
    next_number: u64,
}

type Work = Box<dyn FnOnce() + Send>;

/// A job that runs or is queued. Dropping it means that its caller has given up on it.
pub struct StartedJob<T> {
    pool: &'static Pool,
    number: u64,
    deadline: Instant,
    receiver: Receiver<thread::Result<T>>,
}

impl<T> StartedJob<T> {
    /// Waits for the job until the deadline.
    pub(crate) fn wait(self) -> Result<T, DeadlineError> {
        match self
            .receiver
            .recv_timeout(self.deadline.saturating_duration_since(Instant::now()))
        {
            Ok(answer) => answer.map_err(|_| DeadlineError::panicked()),
            Err(_) => Err(DeadlineError::Expired),
        }
    }
}

impl<T> Drop for StartedJob<T> {
    fn drop(&mut self) {
        self.pool.give_up(self.number);
    }
}

impl Pool {
    pub(super) const fn new(max_threads: usize, idle_timeout: Duration) -> Self {
        let state = PoolState {
            threads: 0,
            running: BTreeMap::new(),
            queue: VecDeque::new(),
            next_number: 0,
        };
        let (work_queued, job_ended) = (Condvar::new(), Condvar::new());
        Self {
            max_threads,
            idle_timeout,
            state: Mutex::new(state),
            queued: AtomicUsize::new(0),
            work_queued,
            job_ended,
        }
    }

    /// Starts `work` on a thread of the pool. Waits for a free thread until the deadline.
    pub(super) fn start<T: Send + 'static>(
        &'static self,
        deadline: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<StartedJob<T>, DeadlineError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let number = self.queue(deadline, move |number| {
            Box::new(move || {
                let answer = catch_unwind(AssertUnwindSafe(work));
                self.finish(number);
                // Fails if the caller has given up on the job.
                let _unreceived = sender.send(answer);
            })
        })?;
        Ok(StartedJob {
            pool: self,
            number,
            deadline,
            receiver,
        })
    }

    /// Runs `work` on a thread of the pool. Waits for a thread and for the work until the deadline.
    #[cfg(test)]
    fn run<T: Send + 'static>(
        &'static self,
        deadline: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DeadlineError> {
        self.start(deadline, work)?.wait()
    }

    /// Queues the work that `work` returns for its job number, once a thread is free.
    fn queue(
        &'static self,
        deadline: Instant,
        work: impl FnOnce(u64) -> Work,
    ) -> Result<u64, DeadlineError> {
        let mut state = self.lock();
        while state.running.len() >= self.max_threads {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() || state.running.values().all(|&late| late) {
                let count = state.running.len();
                return Err(DeadlineError::Lost(format!(
                    "{count} earlier requests are still being answered"
                )));
            }
            state = self
                .job_ended
                .wait_timeout(state, remaining)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let number = state.next_number;
        if state.threads == state.running.len() {
            let thread = thread::Builder::new().name("picktools-worker".to_owned());
            thread
                .spawn(|| self.serve())
                .map_err(DeadlineError::no_thread)?;
            state.threads += 1;
        }
        state.next_number += 1;
        state.running.insert(number, false);
        state.queue.push_back(work(number));
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.work_queued.notify_one();
        Ok(number)
    }

    /// Runs queued work on the current thread, until no work has arrived for the idle timeout.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.queue.pop_front() {
                self.queued.fetch_sub(1, Ordering::Relaxed);
                drop(state);
                // A panic of the work itself is sent as its answer. Only dropping an unreceived
                // answer can panic here.
                let _panic = catch_unwind(AssertUnwindSafe(work));
                state = self.lock();
                continue;
            }
            // New work often arrives at once, and a thread that polls takes it sooner than one that
            // must wake up.
            drop(state);
            let idle_since = Instant::now();
            while idle_since.elapsed() < SPIN_TIME && self.queued.load(Ordering::Relaxed) == 0 {
                std::hint::spin_loop();
            }
            state = self.lock();
            if !state.queue.is_empty() {
                continue;
            }
            let (woken_state, wait) = self
                .work_queued
                .wait_timeout(state, self.idle_timeout)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken_state;
            if wait.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }

    fn finish(&self, number: u64) {
        self.lock().running.remove(&number);
        self.job_ended.notify_one();
    }

    /// Marks a job, if it still runs, as one that no caller waits for.
    fn give_up(&self, number: u64) {
        if let Some(late) = self.lock().running.get_mut(&number) {
            *late = true;
            // If all jobs are late now, every caller that waits for a thread must fail.
            self.job_ended.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;
    use std::sync::mpsc::Sender;
    use std::thread::ThreadId;

    use super::*;

    const SOON: Duration = Duration::from_millis(5);
    const FAR: Duration = Duration::from_secs(30);

    fn pool(max_threads: usize, idle_timeout: Duration) -> &'static Pool {
        Box::leak(Box::new(Pool::new(max_threads, idle_timeout)))
    }

    fn thread_id() -> ThreadId {
        thread::current().id()
    }

    /// Fills the pool with jobs that their callers have given up on. The jobs return when the
    /// sender is dropped.
    fn fill_with_late_jobs(pool: &'static Pool) -> Sender<()> {
        let (release, receiver) = mpsc::channel::<()>();
        let receiver: Arc<Mutex<Receiver<()>>> = Arc::new(Mutex::new(receiver));
        for _ in 0..pool.max_threads {
            let receiver = Arc::clone(&receiver);
            let work = move || receiver.lock().expect("no job panicked").recv();
            let answer = pool.run(Instant::now() + SOON, work);
            assert_eq!(answer, Err(DeadlineError::Expired));
        }
        release
    }

    fn wait_until(mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < FAR, "the condition never held");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn thousand_late_jobs_use_at_most_the_maximum_of_threads() {
        const CALLERS: usize = 20;
        let pool = pool(8, FAR);
        let (release, receiver) = mpsc::channel::<()>();
        let (receiver, threads) = (
            Arc::new(Mutex::new(receiver)),
            Arc::new(Mutex::new(HashSet::new())),
        );
        let start_late_jobs = || {
            for _ in 0..1_000 / CALLERS {
                let (receiver, threads) = (Arc::clone(&receiver), Arc::clone(&threads));
                let answer = pool.run(Instant::now() + SOON, move || {
                    threads.lock().expect("no job panicked").insert(thread_id());
                    receiver.lock().expect("no job panicked").recv()
                });
                assert!(answer.is_err(), "nothing was sent");
            }
        };
        thread::scope(|scope| (0..CALLERS).for_each(|_| drop(scope.spawn(start_late_jobs))));
        assert_eq!(pool.lock().threads, 8);
        // Each of these threads gets work in the end, and no other thread does.
        wait_until(|| threads.lock().expect("no job panicked").len() == 8);
        drop(release);
    }

    #[test]
    fn work_is_refused_at_once_if_late_jobs_hold_all_threads() {
        let pool = pool(3, FAR);
        let release = fill_with_late_jobs(pool);
        let start = Instant::now();
        let refusal = DeadlineError::Lost("3 earlier requests are still being answered".to_owned());
        assert_eq!(pool.run(start + FAR, || 7), Err(refusal));
        assert!(start.elapsed() < FAR / 2, "the call waited");
        drop(release);
        wait_until(|| pool.run(Instant::now() + FAR, || 7) == Ok(7));
    }

    #[test]
    fn work_waits_for_a_thread_if_jobs_in_time_hold_all() {
        let pool = pool(1, FAR);
        let (sender, started) = mpsc::channel();
        thread::scope(|scope| {
            let first = scope.spawn(move || {
                pool.run(Instant::now() + FAR, move || {
                    sender.send(()).expect("the test waits");
                    thread::sleep(4 * SOON);
                })
            });
            started.recv().expect("the job starts");
            let impatient = pool.run(Instant::now() + SOON, || 7);
            assert_eq!(
                impatient,
                Err(DeadlineError::Lost(
                    "1 earlier requests are still being answered".to_owned()
                ))
            );
            assert_eq!(pool.run(Instant::now() + FAR, || 7), Ok(7));
            assert_eq!(first.join().expect("the job does not panic"), Ok(()));
        });
    }

    #[test]
    fn thread_is_reused_even_after_a_panic() {
        let pool = pool(8, FAR);
        let first = pool.run(Instant::now() + FAR, thread_id);
        assert!(first.is_ok());
        for _ in 0..20 {
            let lost: Result<(), DeadlineError> =
                pool.run(Instant::now() + FAR, || panic!("on purpose"));
            assert_eq!(lost, Err(DeadlineError::panicked()));
            assert_eq!(pool.run(Instant::now() + FAR, thread_id), first);
        }
    }

    #[test]
    fn idle_thread_ends() {
        let pool = pool(8, SOON);
        assert_eq!(pool.run(Instant::now() + FAR, || 7), Ok(7));
        wait_until(|| pool.lock().threads == 0);
        assert_eq!(pool.run(Instant::now() + FAR, || 7), Ok(7));
    }
}
