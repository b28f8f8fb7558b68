//! Reading rows from a store.

use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use rayon::prelude::*;

use super::head::Head;
use super::kept::Kept;
use super::{ROWS_AT_ONCE, RedisStore, Store, StoreError, Values};
use picktools::catalog::Tool;
use picktools::shard::{Row, RowKey};

/// Returns rows, those that are kept and the others as they are read. One that has gone meanwhile
/// is not among them.
pub(super) fn gather(
    store: &RedisStore,
    head: &Head,
    kept: &Kept,
    keys: Vec<RowKey>,
    within: Duration,
) -> Result<HashMap<RowKey, Arc<Row>>, StoreError> {
    let mut rows = kept.rows(keys.iter().copied());
    let unknown: Vec<RowKey> = keys
        .into_iter()
        .filter(|key| !rows.contains_key(key))
        .collect();
    for unknown in unknown.chunks(ROWS_AT_ONCE) {
        let read = read_rows(store, head, unknown, within)?;
        kept.keep(read.iter().cloned());
        rows.extend(read);
    }
    Ok(rows)
}

pub(super) fn read_rows(
    store: &RedisStore,
    head: &Head,
    keys: &[RowKey],
    within: Duration,
) -> Result<Vec<(RowKey, Arc<Row>)>, StoreError> {
    of_bytes(store, head, keys, store.rows(head, keys, within)?)
}

/// Reads all of the definition of a row.
pub(super) fn definition<'r>(
    store: &RedisStore,
    key: &RowKey,
    row: &'r Row,
) -> Result<&'r Arc<Tool>, StoreError> {
    row.whole()
        .map_err(|damaged| store.damaged(format!("the row {key}"), damaged))
}

/// Reads rows as they lie there, of their definitions the outlines. One that has gone meanwhile is
/// not among them.
pub(super) fn of_bytes(
    store: &RedisStore,
    head: &Head,
    keys: &[RowKey],
    lie_there: Values,
) -> Result<Vec<(RowKey, Arc<Row>)>, StoreError> {
    let rows = keys.par_iter().zip(lie_there).filter_map(|(key, bytes)| {
        let row = Row::of_bytes(&bytes?, *key, &head.models);
        Some(
            row.map(|row| (*key, Arc::new(row)))
                .map_err(|damaged| store.damaged(format!("the row {key}"), damaged)),
        )
    });
    rows.collect()
}

/// Puts rows in the order of their snapshot.
pub(super) fn in_order(
    rows: impl IntoIterator<Item = (RowKey, Arc<Row>)>,
) -> Vec<(RowKey, Arc<Row>)> {
    let mut rows: Vec<(RowKey, Arc<Row>)> = rows.into_iter().collect();
    rows.sort_unstable_by_key(|(key, row)| (row.place, *key));
    rows
}
