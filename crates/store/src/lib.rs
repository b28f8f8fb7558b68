//! A catalog and its index in a store that several processes share.
//!
//! One process [publishes](publish) an indexed catalog. Others [open](SharedEngine) it and pick
//! from it, or read its [definitions](SharedCatalog) and index them with other tools.
//!
//! The store holds a *row* for each tool: its definition, words and vectors. It finds candidates by
//! words and vectors, among the tools that the caller may see. The engine ranks these candidates
//! with the statistics of all tools. So a pick has the scores, evidence and excluded tools of a
//! local [`Engine`](picktools::Engine). It differs only if the store does not find a relevant tool.
//!
//! A *snapshot* is one state of the catalog. It lives in a *generation*, a separate part of the
//! keyspace. A small change adds a version to the same generation, in one transaction. A large
//! change writes a new generation, which then replaces the old one in one step. Rows are identified
//! by the digests of their content, so a cached row is never stale.
//!
//! All data from the store is untrusted: it is validated against digests and limits. A client that
//! may write to the store may also write tools, so restrict access to it
//! (`docs/operations/scale.md`).

mod definitions;
mod error;
mod first_stage;
mod head;
mod publish;
mod reading;
mod redis;
mod row_cache;
mod shared;
mod upkeep;

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use self::definitions::SharedCatalog;
pub use self::error::StoreError;
use self::first_stage::FirstStage;
pub use self::head::SnapshotStatus;
use self::head::{CurrentSnapshot, SnapshotHead};
pub use self::publish::{Publication, publish, publish_anew};
pub use self::redis::{RedisOptions, RedisStore};
pub use self::shared::{SharedEngine, SharedEngineState, SharedOptions};
pub use self::upkeep::{GarbageReport, StoreStatus, Verification, collect, status, verify};
use picktools::shard::{RowKey, SourceKey, TermCounts};

/// The timeout of commands that read much data.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// The number of rows per batch if all rows are read.
const ROWS_AT_ONCE: usize = 2_000;

/// The largest number of candidates that the store returns for a request.
pub const MAX_CANDIDATES: usize = 500;

/// The values of several keys; `None` for a missing key.
type Values = Vec<Option<Vec<u8>>>;

/// A store of a shared catalog.
///
/// Each call ends within its timeout, even if the store does not answer.
pub(crate) trait Store: Send + Sync {
    /// Returns the current snapshot, or `None` if nothing was published.
    fn current(&self, within: Duration) -> Result<Option<CurrentSnapshot>, StoreError>;

    /// Returns the head of a snapshot: the data about all its tools.
    fn head(&self, current: &CurrentSnapshot, within: Duration)
    -> Result<SnapshotHead, StoreError>;

    /// Returns the number of tools, sources and examples that contain each of these terms.
    fn term_counts(
        &self,
        head: &SnapshotHead,
        terms: &[u64],
        within: Duration,
    ) -> Result<Vec<TermCounts>, StoreError>;

    /// Returns the rows of the best candidates among the eligible tools, and of all tools with one
    /// of the request's names.
    ///
    /// Some rows may not belong to the snapshot. `counts` returns the number of tools and examples
    /// that contain a term.
    fn candidates(
        &self,
        head: &SnapshotHead,
        first: &FirstStage,
        counts: &dyn Fn(u64) -> u32,
        within: Duration,
    ) -> Result<BTreeSet<RowKey>, StoreError>;

    /// Returns the keys of all rows of a snapshot.
    fn keys(&self, head: &SnapshotHead, within: Duration) -> Result<Vec<RowKey>, StoreError>;

    /// Returns `true` for each of these rows that belongs to the snapshot.
    fn are_current(
        &self,
        head: &SnapshotHead,
        rows: &[RowKey],
        within: Duration,
    ) -> Result<Vec<bool>, StoreError>;

    /// Returns `true` for each found row that belongs to the snapshot, and the bytes of the unknown
    /// rows.
    fn found_rows(
        &self,
        head: &SnapshotHead,
        found: &[RowKey],
        unknown: &[RowKey],
        within: Duration,
    ) -> Result<(Vec<bool>, Values), StoreError>;

    /// Returns the bytes of rows, in the order of the keys.
    fn rows(
        &self,
        head: &SnapshotHead,
        rows: &[RowKey],
        within: Duration,
    ) -> Result<Values, StoreError>;

    /// Returns the bytes of source rows, in the order of the keys.
    fn sources(
        &self,
        head: &SnapshotHead,
        rows: &[SourceKey],
        within: Duration,
    ) -> Result<Values, StoreError>;
}

/// Returns the current time in milliseconds since 1970.
fn milliseconds() -> u64 {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// Locks a mutex, even if a thread panicked while it held the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
