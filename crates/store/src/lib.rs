//! A catalog and its index in a store that several processes share.
//!
//! One process [publishes](publish) what it has indexed; others [open](SharedEngine) it and pick,
//! or take the [definitions](SharedCatalog) and index them with others. The store keeps a *row* for
//! each tool (its definition, its words, its vectors) and finds candidates by words and by meaning,
//! among the tools that the caller may see; what ranks, explains and decides is the code that does
//! so everywhere, over those candidates and with what is counted over all tools. So a pick of a
//! shared engine has the scores, the evidence and the exclusions that one of an
//! [`Engine`](picktools::Engine) has, and differs where the store did not find a tool that counts.
//!
//! A *snapshot* is one state of the catalog. It lies in a *generation*, a part of the keyspace of
//! its own: a small change makes another version in the same generation, in one transaction; a
//! large one makes a new generation beside, which takes the place of the old one in one step. Rows
//! are known by digests of what they hold, so that what a process has kept of one is never stale.
//!
//! What a store says is held to digests and checked as anything that comes from elsewhere. Whoever
//! can write to it can write tools: that is for its access control to decide (`docs/scale.md`).

mod definitions;
mod error;
mod first_stage;
mod head;
mod kept;
mod publish;
mod reading;
mod redis;
mod shared;
mod upkeep;

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use self::definitions::SharedCatalog;
pub use self::error::StoreError;
use self::first_stage::FirstStage;
pub use self::head::SnapshotStatus;
use self::head::{Current, Head};
pub use self::publish::{Publication, publish, publish_anew};
pub use self::redis::{RedisOptions, RedisStore};
pub use self::shared::{SharedEngine, SharedOptions, SharedState};
pub use self::upkeep::{Collected, StoreStatus, Verification, collect, status, verify};
use picktools::shard::{RowKey, SourceKey, TermCounts};

/// How long reading much of a store may take, for each answer.
const READ: Duration = Duration::from_secs(30);
/// How many rows are read at once where all are.
const ROWS_AT_ONCE: usize = 2_000;

/// The most tools that are ranked for a request of those that a store holds.
pub const MAX_CANDIDATES: usize = 500;

/// What lies under each of some keys; `None` where nothing does.
type Values = Vec<Option<Vec<u8>>>;

/// What a shared catalog lies in.
///
/// Calls end within the time that is given with them, whatever the store does.
pub(crate) trait Store: Send + Sync {
    /// Returns which snapshot is the current one; `None` where nothing was published.
    fn current(&self, within: Duration) -> Result<Option<Current>, StoreError>;

    /// Returns what a snapshot says of all its tools.
    fn head(&self, current: &Current, within: Duration) -> Result<Head, StoreError>;

    /// Returns how many hold each of these terms.
    fn term_counts(
        &self,
        head: &Head,
        terms: &[u64],
        within: Duration,
    ) -> Result<Vec<TermCounts>, StoreError>;

    /// Returns the rows of the tools that fit a request best among those that may be seen, and of
    /// all that have one of the names that it says; they may not be of the snapshot. `counts` tells
    /// how many tools or examples hold a term.
    fn candidates(
        &self,
        head: &Head,
        first: &FirstStage,
        counts: &dyn Fn(u64) -> u32,
        within: Duration,
    ) -> Result<BTreeSet<RowKey>, StoreError>;

    /// Returns the keys of all rows of a snapshot.
    fn keys(&self, head: &Head, within: Duration) -> Result<Vec<RowKey>, StoreError>;

    /// Returns which of these rows are of the snapshot.
    fn are_current(
        &self,
        head: &Head,
        rows: &[RowKey],
        within: Duration,
    ) -> Result<Vec<bool>, StoreError>;

    /// Returns which of the rows that were found are of the snapshot, and those that are unknown
    /// here as they lie there, each in the order of their keys.
    fn found_rows(
        &self,
        head: &Head,
        found: &[RowKey],
        unknown: &[RowKey],
        within: Duration,
    ) -> Result<(Vec<bool>, Values), StoreError>;

    /// Returns rows as they lie there, in the order of their keys.
    fn rows(&self, head: &Head, rows: &[RowKey], within: Duration) -> Result<Values, StoreError>;

    /// As [`rows`](Self::rows), of sources.
    fn sources(
        &self,
        head: &Head,
        rows: &[SourceKey],
        within: Duration,
    ) -> Result<Values, StoreError>;
}

/// Milliseconds since 1970.
fn milliseconds() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Whoever panicked while it was held left what it guards as it was.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
