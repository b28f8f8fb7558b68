//! The requests in progress, which a gateway completes before it shuts down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// The requests in progress. Clones share one counter.
#[derive(Debug, Clone, Default)]
pub struct ActiveRequests {
    count: Arc<watch::Sender<usize>>,
    is_closed: Arc<AtomicBool>,
}

/// A request under way, until it is dropped.
#[derive(Debug)]
pub struct ActiveRequest(ActiveRequests);

impl ActiveRequests {
    /// Counts a request. Returns `None` if the gateway is ending and accepts no more.
    pub fn begin(&self) -> Option<ActiveRequest> {
        // It is counted first, so that a request that is accepted is always waited for.
        self.count.send_modify(|count| *count += 1);
        let request = ActiveRequest(self.clone());
        (!self.is_closed()).then_some(request)
    }

    /// Accepts no more requests.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Returns `true` if the gateway is ending and accepts no more requests.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Waits until no request is under way.
    pub async fn finished(&self) {
        // The sender lives as long as `self`, so this does not fail.
        drop(self.count.subscribe().wait_for(|count| *count == 0).await);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.count.send_modify(|count| *count -= 1);
    }
}
