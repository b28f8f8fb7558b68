//! Reports of changes in a shared store.
//!
//! Each change of state adds an entry to a short stream beside it. One thread of each process waits
//! for the next entry, so that idle gateways need not ask for each state again and again. While
//! there is a fault, the thread reports at short intervals, and the requests of the readers find out
//! if it has ended.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::fault::Faults;
use super::link::{ChangeConnection, ConnectionPool};

/// The interval of reports while the store cannot be waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The longest wait of one request. A store that hangs is noticed after it.
const WAIT: Duration = Duration::from_secs(2);
/// The interval of reports without an entry. A store may be emptied or replaced by an older copy,
/// and earlier versions of this program add no entries.
const BACKUP_INTERVAL: Duration = Duration::from_secs(10);

/// Reports of changes in a store. Each clone receives all reports.
#[derive(Clone)]
pub struct StoreChanges(watch::Receiver<()>);

impl StoreChanges {
    /// Starts the thread that waits for entries of a stream, as long as the store is in use.
    pub(super) fn begin(link: &Arc<ConnectionPool>, faults: &Arc<Faults>, key: String) -> Self {
        let (sender, reports) = watch::channel(());
        let store = WatchedStore {
            link: Arc::downgrade(link),
            faults: Arc::downgrade(faults),
            key,
        };
        let thread = std::thread::Builder::new()
            .name("store changes".to_owned())
            .spawn(move || store.report_changes(&sender));
        if let Err(error) = thread {
            tracing::error!(
                target: "picktools::store", %error,
                "cannot start the thread that waits for changes of the store"
            );
        }
        Self(reports)
    }

    /// Waits until the store may have changed since the last call of this method.
    pub(crate) async fn changed(&mut self) {
        // Without the thread, the readers ask at short intervals.
        if self.0.changed().await.is_err() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// A store whose changes are reported. It does not keep the store in use.
struct WatchedStore {
    link: Weak<ConnectionPool>,
    faults: Weak<Faults>,
    /// The full name of the stream of changes.
    key: String,
}

impl WatchedStore {
    /// Reports changes until the store is no longer used.
    fn report_changes(&self, sender: &watch::Sender<()>) {
        let mut connection: Option<ChangeConnection> = None;
        let (mut has_changed, mut last_report) = (true, Instant::now());
        loop {
            let (Some(link), Some(faults)) = (self.link.upgrade(), self.faults.upgrade()) else {
                return;
            };
            // Changes before this point are reported below, later ones have an entry.
            if connection.is_none() {
                connection = link.connect_for_changes(&self.key).ok();
            }
            // Only the next request of a reader finds out that a fault is over.
            let has_faults = !faults.current().is_empty();
            drop((link, faults));
            if has_changed || has_faults || last_report.elapsed() >= BACKUP_INTERVAL {
                sender.send_replace(());
                last_report = Instant::now();
            }
            let wait = match has_faults {
                true => POLL_INTERVAL,
                false => WAIT,
            };
            let answer = connection
                .as_mut()
                .and_then(|opened| opened.wait(wait).ok());
            has_changed = answer.unwrap_or_else(|| {
                connection = None;
                std::thread::sleep(POLL_INTERVAL);
                true
            });
        }
    }
}
