//! Work without Python's lock.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// How long a signal may wait.
const LOOKS: Duration = Duration::from_millis(20);

/// The threads of this process: those of its parent do not survive a fork.
static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

pub(crate) fn pool() -> PyResult<Arc<ThreadPool>> {
    let mut made = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    match &*made {
        Some((pid, pool)) if *pid == process::id() => Ok(Arc::clone(pool)),
        _ => {
            let pool = ThreadPoolBuilder::new().build();
            let pool = Arc::new(
                pool.map_err(|error| PyRuntimeError::new_err(format!("no threads: {error}")))?,
            );
            // The parent's pool is not dropped in the child: nobody is left there who could end it.
            std::mem::forget(made.replace((process::id(), Arc::clone(&pool))));
            Ok(pool)
        }
    }
}

/// Runs long work on other threads, and meanwhile looks for signals: an interrupt raises
/// `cancelled`, on which the work should end soon, and is raised itself once it has.
pub(crate) fn long<T: Send>(
    py: Python<'_>,
    cancelled: &AtomicBool,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let pool = pool()?;
    let (send, receive) = mpsc::channel();
    let (done, interrupt) = py.detach(move || {
        thread::scope(|scope| {
            let working = scope.spawn(move || {
                let done = pool.install(work);
                let _gone = send.send(());
                done
            });
            let mut interrupt = None;
            while let Err(mpsc::RecvTimeoutError::Timeout) = receive.recv_timeout(LOOKS) {
                if interrupt.is_none()
                    && let Err(error) = Python::attach(|py| py.check_signals())
                {
                    cancelled.store(true, Ordering::Relaxed);
                    interrupt = Some(error);
                }
            }
            (working.join(), interrupt)
        })
    });
    match (interrupt, done) {
        (Some(interrupt), _) => Err(interrupt),
        (None, Ok(done)) => Ok(done),
        (None, Err(_)) => Err(PyRuntimeError::new_err(
            "the work panicked; please report this",
        )),
    }
}
