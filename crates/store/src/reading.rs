//! Functions that read rows from a store.

use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use rayon::prelude::*;

use super::head::SnapshotHead;
use super::row_cache::RowCache;
use super::{ROWS_AT_ONCE, RedisStore, Store, StoreError, Values};
use picktools::catalog::Tool;
use picktools::shard::{Row, RowKey};

/// Returns rows from the cache and the store. A row that was removed meanwhile is missing.
pub(super) fn gather(
    store: &RedisStore,
    head: &SnapshotHead,
    cache: &RowCache,
    keys: Vec<RowKey>,
    within: Duration,
) -> Result<HashMap<RowKey, Arc<Row>>, StoreError> {
    let mut rows = cache.rows(keys.iter().copied());
    let unknown: Vec<RowKey> = keys
        .into_iter()
        .filter(|key| !rows.contains_key(key))
        .collect();
    for unknown in unknown.chunks(ROWS_AT_ONCE) {
        let new_rows = read_rows(store, head, unknown, within)?;
        cache.insert(new_rows.iter().cloned());
        rows.extend(new_rows);
    }
    Ok(rows)
}

/// Reads rows from the store. A row that was removed meanwhile is missing.
pub(super) fn read_rows(
    store: &RedisStore,
    head: &SnapshotHead,
    keys: &[RowKey],
    within: Duration,
) -> Result<Vec<(RowKey, Arc<Row>)>, StoreError> {
    parse_rows(store, head, keys, store.rows(head, keys, within)?)
}

/// Parses the complete definition of a row.
pub(super) fn read_definition<'r>(
    store: &RedisStore,
    key: &RowKey,
    row: &'r Row,
) -> Result<&'r Arc<Tool>, StoreError> {
    row.definition()
        .map_err(|damaged| store.damaged(format!("the row {key}"), damaged))
}

/// Parses the bytes of rows, with only the outlines of their definitions.
///
/// A row that was removed meanwhile is missing.
pub(super) fn parse_rows(
    store: &RedisStore,
    head: &SnapshotHead,
    keys: &[RowKey],
    values: Values,
) -> Result<Vec<(RowKey, Arc<Row>)>, StoreError> {
    let rows = keys.par_iter().zip(values).filter_map(|(key, bytes)| {
        let row = Row::from_bytes(&bytes?, *key, &head.models);
        Some(
            row.map(|row| (*key, Arc::new(row)))
                .map_err(|damaged| store.damaged(format!("the row {key}"), damaged)),
        )
    });
    rows.collect()
}

/// Sorts rows in the order of the snapshot.
pub(super) fn sort_rows(
    rows: impl IntoIterator<Item = (RowKey, Arc<Row>)>,
) -> Vec<(RowKey, Arc<Row>)> {
    let mut rows: Vec<(RowKey, Arc<Row>)> = rows.into_iter().collect();
    rows.sort_unstable_by_key(|(key, row)| (row.position, *key));
    rows
}
