//! The requests under way, which a gateway finishes before it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// The requests that are under way. Clones count together.
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
        if self.is_closed.load(Ordering::Acquire) {
            return None;
        }
        self.count.send_modify(|count| *count += 1);
        Some(ActiveRequest(self.clone()))
    }

    /// Accepts no more requests.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
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
