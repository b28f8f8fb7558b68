//! The queue of picks. A pick takes processor time and nothing else, so more of them at once than
//! there are cores would only take more memory.

use std::sync::LazyLock;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::refusal::{Code, Refusal};

/// The most picks that wait.
const MAX_WAITING: usize = 1_024;
/// The longest time that a pick waits.
const MAX_WAIT: Duration = Duration::from_secs(5);

static RUNNING: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(available_parallelism().map_or(1, usize::from)));
static WAITING: Semaphore = Semaphore::const_new(MAX_WAITING);

/// Runs one or more picks on another thread, as soon as a core is free. All gateways of a process
/// share the queue.
///
/// # Errors
///
/// [`Refusal`] with [`Code::Busy`] if too many picks wait, if this one has waited too long, or if
/// `work` panics.
pub async fn run_pick<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let busy = || {
        let message = "too many requests wait for the processor; try again later";
        Refusal::new(Code::Busy, message).retry_after(Duration::from_secs(1))
    };
    let ticket = WAITING.try_acquire().map_err(|_| busy())?;
    let Ok(Ok(core)) = timeout(MAX_WAIT, RUNNING.acquire()).await else {
        return Err(busy());
    };
    drop(ticket);
    let span = tracing::Span::current();
    let result = spawn_blocking(move || {
        // Work that nothing waits for any more still has its core.
        let _core = core;
        span.in_scope(work)
    });
    result.await.map_err(|error| {
        tracing::error!(target: "picktools::gateway", %error, "a pick failed");
        Refusal::new(Code::Busy, "the pick failed; see the log of the gateway")
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::sleep;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn as_many_picks_run_at_once_as_there_are_cores_and_the_rest_wait() {
        let cores = available_parallelism().map_or(1, usize::from);
        let running = Arc::new(AtomicUsize::new(0));
        let picks = (0..8 * cores).map(|_| {
            let running = Arc::clone(&running);
            run_pick(move || {
                let others = running.fetch_add(1, Ordering::SeqCst);
                sleep(Duration::from_millis(10));
                running.fetch_sub(1, Ordering::SeqCst);
                others
            })
        });
        for others in futures_util::future::join_all(picks).await {
            assert!(others.is_ok_and(|others| others < cores));
        }
        let failed = run_pick::<()>(|| panic!("on purpose")).await;
        assert!(failed.is_err_and(|refusal| refusal.message.contains("see the log")));
        let waiting =
            (0..MAX_WAITING + cores + 1).map(|_| run_pick(|| sleep(Duration::from_millis(1))));
        let results = futures_util::future::join_all(waiting).await;
        let refused = results.iter().filter(|result| result.is_err()).count();
        assert!(refused >= 1, "{refused} refused");
    }
}
