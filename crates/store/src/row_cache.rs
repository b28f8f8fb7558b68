//! A cache of the rows, sources and term counts of a store.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};

use foldhash::{HashMap, HashMapExt};
use lru::LruCache;

use super::lock;
use picktools::shard::{Row, RowKey, SourceKey, SourceRow, TermCounts};

/// The number of cached terms above which the term cache is cleared.
const MAX_TERMS: usize = 100_000;
/// The number of cached sources above which the source cache is cleared.
const MAX_SOURCES: usize = 20_000;

/// A cache of the data of a store.
///
/// A row is identified by the digest of its content, so it is never stale. Sources and term counts
/// belong to one snapshot.
pub(super) struct RowCache {
    rows: Mutex<LruCache<RowKey, Arc<Row>>>,
    snapshot: Mutex<SnapshotCache>,
}

/// The cached sources and term counts of a snapshot.
#[derive(Default)]
struct SnapshotCache {
    /// The time of the publication. It identifies the snapshot, because versions start again at 1
    /// in a store that was emptied.
    published: u64,
    sources: HashMap<SourceKey, Arc<SourceRow>>,
    terms: HashMap<u64, TermCounts>,
}

impl RowCache {
    /// Creates a cache for this number of rows.
    pub(super) fn new(rows: usize) -> Self {
        let rows = LruCache::new(NonZeroUsize::new(rows).unwrap_or(NonZeroUsize::MIN));
        Self {
            rows: Mutex::new(rows),
            snapshot: Mutex::default(),
        }
    }

    /// Returns the cached rows among these keys.
    pub(super) fn rows(&self, keys: impl Iterator<Item = RowKey>) -> HashMap<RowKey, Arc<Row>> {
        let mut rows = lock(&self.rows);
        keys.filter_map(|key| Some((key, Arc::clone(rows.get(&key)?))))
            .collect()
    }

    /// Adds rows.
    pub(super) fn insert(&self, new: impl Iterator<Item = (RowKey, Arc<Row>)>) {
        let mut rows = lock(&self.rows);
        new.for_each(|(key, row)| drop(rows.put(key, row)));
    }

    /// Removes rows.
    pub(super) fn drop_rows(&self, keys: impl Iterator<Item = RowKey>) {
        let mut rows = lock(&self.rows);
        keys.for_each(|key| drop(rows.pop(&key)));
    }

    /// Returns the number of cached rows.
    pub(super) fn len(&self) -> usize {
        lock(&self.rows).len()
    }

    /// Returns all cached rows.
    pub(super) fn all(&self) -> Vec<(RowKey, Arc<Row>)> {
        lock(&self.rows)
            .iter()
            .map(|(key, row)| (*key, Arc::clone(row)))
            .collect()
    }

    /// Returns the cached sources of a snapshot among these keys.
    pub(super) fn sources(
        &self,
        published: u64,
        keys: impl Iterator<Item = SourceKey>,
    ) -> HashMap<SourceKey, Arc<SourceRow>> {
        let cache = self.snapshot_cache(published);
        keys.filter_map(|key| Some((key, Arc::clone(cache.sources.get(&key)?))))
            .collect()
    }

    /// Adds sources of a snapshot.
    pub(super) fn insert_sources(
        &self,
        published: u64,
        sources: impl Iterator<Item = (SourceKey, Arc<SourceRow>)>,
    ) {
        let mut cache = self.snapshot_cache(published);
        // Frequent sources are soon in the cache again.
        if cache.sources.len() > MAX_SOURCES {
            cache.sources.clear();
        }
        cache.sources.extend(sources);
    }

    /// Returns the cached counts of a snapshot among these terms.
    pub(super) fn terms(
        &self,
        published: u64,
        terms: impl Iterator<Item = u64>,
    ) -> HashMap<u64, TermCounts> {
        let cache = self.snapshot_cache(published);
        terms
            .filter_map(|term| Some((term, *cache.terms.get(&term)?)))
            .collect()
    }

    /// Adds counts of terms.
    pub(super) fn insert_terms(
        &self,
        published: u64,
        terms: impl Iterator<Item = (u64, TermCounts)>,
    ) {
        let mut cache = self.snapshot_cache(published);
        if cache.terms.len() > MAX_TERMS {
            cache.terms.clear();
        }
        cache.terms.extend(terms);
    }

    /// Returns the cache of a snapshot. The cache of another snapshot is cleared.
    fn snapshot_cache(&self, published: u64) -> MutexGuard<'_, SnapshotCache> {
        let mut cache = lock(&self.snapshot);
        if cache.published != published {
            *cache = SnapshotCache {
                published,
                sources: HashMap::new(),
                terms: HashMap::new(),
            };
        }
        cache
    }
}
