//! A few threads for work that has a deadline.
//!
//! Work that comes too late cannot be stopped: it keeps its thread until it returns. So there are
//! only so many threads, and once all of them are held by work that nobody waits for any longer,
//! new work is refused with that reason. Threads are made when they are needed, kept for further
//! work, and end when there has been none for a while.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::Missed;
use crate::sync::lock;

/// How long a thread looks for further work before it sleeps.
const AWAKE: Duration = Duration::from_micros(50);

/// Threads, and the work that they are given.
pub(super) struct Pool {
    most_threads: usize,
    /// How long a thread stays without work.
    idle_for: Duration,
    state: Mutex<State>,
    /// How much work is in the queue, for threads that look before they sleep.
    queued: AtomicUsize,
    /// There is work in the queue.
    given: Condvar,
    /// Work has ended, or its caller has given up on it.
    changed: Condvar,
}

struct State {
    threads: usize,
    /// Work that has a thread, or is about to get one: whether its caller has given up on it, by
    /// its number.
    running: BTreeMap<u64, bool>,
    /// The part of it that no thread has taken up yet.
    queue: VecDeque<Work>,
    next_number: u64,
}

type Work = Box<dyn FnOnce() + Send>;

/// Work that has a thread. Who lets go of it waits for it no longer.
pub struct Started<T> {
    pool: &'static Pool,
    number: u64,
    deadline: Instant,
    receiver: Receiver<thread::Result<T>>,
}

impl<T> Started<T> {
    /// Waits for the work until the deadline.
    pub(crate) fn wait(self) -> Result<T, Missed> {
        match self
            .receiver
            .recv_timeout(self.deadline.saturating_duration_since(Instant::now()))
        {
            Ok(answer) => answer.map_err(|_| Missed::panicked()),
            Err(_) => Err(Missed::Expired),
        }
    }
}

impl<T> Drop for Started<T> {
    fn drop(&mut self) {
        self.pool.give_up(self.number);
    }
}

impl Pool {
    pub(super) const fn new(most_threads: usize, idle_for: Duration) -> Self {
        let state = State {
            threads: 0,
            running: BTreeMap::new(),
            queue: VecDeque::new(),
            next_number: 0,
        };
        let (given, changed) = (Condvar::new(), Condvar::new());
        Self {
            most_threads,
            idle_for,
            state: Mutex::new(state),
            queued: AtomicUsize::new(0),
            given,
            changed,
        }
    }

    /// Starts `work` on a thread of the pool, for which it waits no longer than until the deadline.
    pub(super) fn start<T: Send + 'static>(
        &'static self,
        deadline: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Started<T>, Missed> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let number = self.queue(deadline, move |number| {
            Box::new(move || {
                let answer = catch_unwind(AssertUnwindSafe(work));
                self.ended(number);
                // Nobody listens any more once the deadline has passed.
                let _too_late = sender.send(answer);
            })
        })?;
        Ok(Started {
            pool: self,
            number,
            deadline,
            receiver,
        })
    }

    /// Runs `work` on a thread of the pool and waits for it until the deadline, and for a thread no
    /// longer than that.
    #[cfg(test)]
    fn run<T: Send + 'static>(
        &'static self,
        deadline: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Missed> {
        self.start(deadline, work)?.wait()
    }

    /// Gives a thread to the work that `work` makes of its number, once there is one.
    fn queue(
        &'static self,
        deadline: Instant,
        work: impl FnOnce(u64) -> Work,
    ) -> Result<u64, Missed> {
        let mut state = self.lock();
        while state.running.len() >= self.most_threads {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.running.values().all(|&late| late) {
                let count = state.running.len();
                return Err(Missed::Lost(format!(
                    "{count} earlier requests are still being answered"
                )));
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let number = state.next_number;
        if state.threads == state.running.len() {
            let thread = thread::Builder::new().name("picktools-worker".to_owned());
            thread.spawn(|| self.serve()).map_err(Missed::no_thread)?;
            state.threads += 1;
        }
        state.next_number += 1;
        state.running.insert(number, false);
        state.queue.push_back(work(number));
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.given.notify_one();
        Ok(number)
    }

    /// What a thread does: one piece of work after another, until there has been none for a while.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.queue.pop_front() {
                self.queued.fetch_sub(1, Ordering::Relaxed);
                drop(state);
                // A panic of the work itself is its answer; this one is of an answer that nobody
                // took.
                let _panic = catch_unwind(AssertUnwindSafe(work));
                state = self.lock();
                continue;
            }
            // Work often follows work at once, and a thread that is awake takes it up sooner.
            drop(state);
            let begun = Instant::now();
            while begun.elapsed() < AWAKE && self.queued.load(Ordering::Relaxed) == 0 {
                std::hint::spin_loop();
            }
            state = self.lock();
            if !state.queue.is_empty() {
                continue;
            }
            let (after, waited) = self
                .given
                .wait_timeout(state, self.idle_for)
                .unwrap_or_else(PoisonError::into_inner);
            state = after;
            if waited.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }

    fn ended(&self, number: u64) {
        self.lock().running.remove(&number);
        self.changed.notify_one();
    }

    /// Notes that nobody waits any longer for what may still be running.
    fn give_up(&self, number: u64) {
        if let Some(late) = self.lock().running.get_mut(&number) {
            *late = true;
            // The last thread may have become late, which all who wait for one have to know.
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
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

    fn pool(most_threads: usize, idle_for: Duration) -> &'static Pool {
        Box::leak(Box::new(Pool::new(most_threads, idle_for)))
    }

    fn here() -> ThreadId {
        thread::current().id()
    }

    /// Fills the pool with work that its callers have given up on, and that returns when the sender
    /// is dropped.
    fn filled(pool: &'static Pool) -> Sender<()> {
        let (held, hold) = mpsc::channel::<()>();
        let hold: Arc<Mutex<Receiver<()>>> = Arc::new(Mutex::new(hold));
        for _ in 0..pool.most_threads {
            let hold = Arc::clone(&hold);
            let waits = move || hold.lock().expect("nobody panicked").recv();
            assert_eq!(pool.run(Instant::now() + SOON, waits), Err(Missed::Expired));
        }
        held
    }

    fn wait_until(mut done: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < FAR, "it never came to that");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_thousand_late_jobs_make_no_more_threads_than_the_bound() {
        const CALLERS: usize = 20;
        let pool = pool(8, FAR);
        let (held, hold) = mpsc::channel::<()>();
        let (hold, threads) = (
            Arc::new(Mutex::new(hold)),
            Arc::new(Mutex::new(HashSet::new())),
        );
        let late = || {
            for _ in 0..1_000 / CALLERS {
                let (hold, threads) = (Arc::clone(&hold), Arc::clone(&threads));
                let answer = pool.run(Instant::now() + SOON, move || {
                    threads.lock().expect("nobody panicked").insert(here());
                    hold.lock().expect("nobody panicked").recv()
                });
                assert!(answer.is_err(), "nothing was sent");
            }
        };
        thread::scope(|scope| (0..CALLERS).for_each(|_| drop(scope.spawn(late))));
        assert_eq!(pool.lock().threads, 8);
        // All of them begin work in the end, and no other thread does.
        wait_until(|| threads.lock().expect("nobody panicked").len() == 8);
        drop(held);
    }

    #[test]
    fn what_finds_all_threads_held_by_late_work_is_refused_at_once() {
        let pool = pool(3, FAR);
        let held = filled(pool);
        let begun = Instant::now();
        let refused = Missed::Lost("3 earlier requests are still being answered".to_owned());
        assert_eq!(pool.run(begun + FAR, || 7), Err(refused));
        assert!(begun.elapsed() < FAR / 2, "it was waited for");
        drop(held);
        wait_until(|| pool.run(Instant::now() + FAR, || 7) == Ok(7));
    }

    #[test]
    fn what_finds_all_threads_held_by_timely_work_waits_for_one() {
        let pool = pool(1, FAR);
        let (begin, begun) = mpsc::channel();
        thread::scope(|scope| {
            let first = scope.spawn(move || {
                pool.run(Instant::now() + FAR, move || {
                    begin.send(()).expect("the test waits");
                    thread::sleep(4 * SOON);
                })
            });
            begun.recv().expect("it begins");
            let impatient = pool.run(Instant::now() + SOON, || 7);
            assert_eq!(
                impatient,
                Err(Missed::Lost(
                    "1 earlier requests are still being answered".to_owned()
                ))
            );
            assert_eq!(pool.run(Instant::now() + FAR, || 7), Ok(7));
            assert_eq!(first.join().expect("it does not panic"), Ok(()));
        });
    }

    #[test]
    fn a_thread_is_used_again_even_after_a_panic() {
        let pool = pool(8, FAR);
        let first = pool.run(Instant::now() + FAR, here);
        assert!(first.is_ok());
        for _ in 0..20 {
            let lost: Result<(), Missed> = pool.run(Instant::now() + FAR, || panic!("on purpose"));
            assert_eq!(lost, Err(Missed::panicked()));
            assert_eq!(pool.run(Instant::now() + FAR, here), first);
        }
    }

    #[test]
    fn a_thread_without_work_ends() {
        let pool = pool(8, SOON);
        assert_eq!(pool.run(Instant::now() + FAR, || 7), Ok(7));
        wait_until(|| pool.lock().threads == 0);
        assert_eq!(pool.run(Instant::now() + FAR, || 7), Ok(7));
    }
}
