//! Rows that a process keeps of a store: those that were asked for last.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};

use foldhash::{HashMap, HashMapExt};
use lru::LruCache;

use super::lock;
use picktools::shard::{Row, RowKey, SourceKey, SourceRow, TermCounts};

/// How many counts of terms are kept.
const MOST_TERMS: usize = 100_000;
/// How many sources are kept.
const MOST_SOURCES: usize = 20_000;

/// What is kept of a store. A row is known by a digest of what it holds, and is never stale; what
/// is known of sources and terms is that of one snapshot.
pub(super) struct Kept {
    rows: Mutex<LruCache<RowKey, Arc<Row>>>,
    of_snapshot: Mutex<OfSnapshot>,
}

#[derive(Default)]
struct OfSnapshot {
    /// When it was published: numbers begin anew in a store that was emptied.
    published: u64,
    sources: HashMap<SourceKey, Arc<SourceRow>>,
    terms: HashMap<u64, TermCounts>,
}

impl Kept {
    /// Keeps so many rows.
    pub(super) fn new(rows: usize) -> Self {
        let rows = LruCache::new(NonZeroUsize::new(rows).unwrap_or(NonZeroUsize::MIN));
        Self {
            rows: Mutex::new(rows),
            of_snapshot: Mutex::default(),
        }
    }

    /// Returns those of the rows that are kept.
    pub(super) fn rows(&self, keys: impl Iterator<Item = RowKey>) -> HashMap<RowKey, Arc<Row>> {
        let mut rows = lock(&self.rows);
        keys.filter_map(|key| Some((key, Arc::clone(rows.get(&key)?))))
            .collect()
    }

    /// Keeps rows.
    pub(super) fn keep(&self, new: impl Iterator<Item = (RowKey, Arc<Row>)>) {
        let mut rows = lock(&self.rows);
        new.for_each(|(key, row)| drop(rows.put(key, row)));
    }

    /// Keeps rows no more.
    pub(super) fn drop_rows(&self, keys: impl Iterator<Item = RowKey>) {
        let mut rows = lock(&self.rows);
        keys.for_each(|key| drop(rows.pop(&key)));
    }

    /// Returns how many rows are kept.
    pub(super) fn len(&self) -> usize {
        lock(&self.rows).len()
    }

    /// Returns all rows that are kept.
    pub(super) fn all(&self) -> Vec<(RowKey, Arc<Row>)> {
        lock(&self.rows)
            .iter()
            .map(|(key, row)| (*key, Arc::clone(row)))
            .collect()
    }

    /// Returns those of the sources that are kept of a snapshot.
    pub(super) fn sources(
        &self,
        published: u64,
        keys: impl Iterator<Item = SourceKey>,
    ) -> HashMap<SourceKey, Arc<SourceRow>> {
        let kept = self.current(published);
        keys.filter_map(|key| Some((key, Arc::clone(kept.sources.get(&key)?))))
            .collect()
    }

    /// Keeps sources of a snapshot.
    pub(super) fn keep_sources(
        &self,
        published: u64,
        sources: impl Iterator<Item = (SourceKey, Arc<SourceRow>)>,
    ) {
        let mut kept = self.current(published);
        // What is asked for often is soon known again.
        if kept.sources.len() > MOST_SOURCES {
            kept.sources.clear();
        }
        kept.sources.extend(sources);
    }

    /// Returns how many hold those of the terms of which that is kept of a snapshot.
    pub(super) fn terms(
        &self,
        published: u64,
        terms: impl Iterator<Item = u64>,
    ) -> HashMap<u64, TermCounts> {
        let kept = self.current(published);
        terms
            .filter_map(|term| Some((term, *kept.terms.get(&term)?)))
            .collect()
    }

    /// Keeps how many hold terms.
    pub(super) fn keep_terms(
        &self,
        published: u64,
        terms: impl Iterator<Item = (u64, TermCounts)>,
    ) {
        let mut kept = self.current(published);
        if kept.terms.len() > MOST_TERMS {
            kept.terms.clear();
        }
        kept.terms.extend(terms);
    }

    /// What is kept of a snapshot; of another, nothing.
    fn current(&self, published: u64) -> MutexGuard<'_, OfSnapshot> {
        let mut kept = lock(&self.of_snapshot);
        if kept.published != published {
            *kept = OfSnapshot {
                published,
                sources: HashMap::new(),
                terms: HashMap::new(),
            };
        }
        kept
    }
}
