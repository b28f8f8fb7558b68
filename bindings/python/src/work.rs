//! Long work while the interpreter's lock is released.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// The interval of checks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(20);

/// The thread pool, with the process that created it. The threads of a parent do not survive a
/// fork.
static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// Returns the thread pool of this process.
pub(crate) fn pool() -> PyResult<Arc<ThreadPool>> {
    let mut current = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    match &*current {
        Some((pid, pool)) if *pid == process::id() => Ok(Arc::clone(pool)),
        _ => {
            let pool = ThreadPoolBuilder::new().build();
            let pool = Arc::new(pool.map_err(|error| {
                PyRuntimeError::new_err(format!("cannot start threads: {error}"))
            })?);
            // The parent's pool is leaked in the child, because its threads do not exist there.
            std::mem::forget(current.replace((process::id(), Arc::clone(&pool))));
            Ok(pool)
        }
    }
}

/// Runs long work on other threads, and checks for signals meanwhile.
///
/// An interrupt sets `cancelled`, so that the work ends soon. Then its exception is returned.
pub(crate) fn run_long<T: Send>(
    py: Python<'_>,
    cancelled: &AtomicBool,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let pool = pool()?;
    let (send, receive) = mpsc::channel();
    let (result, interrupt) = py.detach(move || {
        thread::scope(|scope| {
            let worker = scope.spawn(move || {
                let result = pool.install(work);
                let _no_receiver = send.send(());
                result
            });
            let mut interrupt = None;
            while let Err(mpsc::RecvTimeoutError::Timeout) = receive.recv_timeout(SIGNAL_INTERVAL) {
                if interrupt.is_none()
                    && let Err(error) = Python::attach(|py| py.check_signals())
                {
                    cancelled.store(true, Ordering::Relaxed);
                    interrupt = Some(error);
                }
            }
            (worker.join(), interrupt)
        })
    });
    match (interrupt, result) {
        (Some(interrupt), _) => Err(interrupt),
        (None, Ok(result)) => Ok(result),
        (None, Err(_)) => Err(PyRuntimeError::new_err(
            "internal error: the work panicked; please report this",
        )),
    }
}
