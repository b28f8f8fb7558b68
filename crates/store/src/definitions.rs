//! The definitions of a shared catalog, for whoever indexes them.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use rayon::prelude::*;

use super::head::Current;
use super::reading::{definition, read_rows};
use super::{READ, ROWS_AT_ONCE, RedisStore, SnapshotStatus, Store, StoreError};
use picktools::catalog::{Catalog, PartTool};
use picktools::shard::RowKey;

/// A catalog that lies in a store, whole and without its index; a gateway puts the tools of its
/// servers beside it. Where another is published, only definitions that are new are read.
#[derive(Debug)]
pub struct SharedCatalog {
    store: RedisStore,
    current: Current,
    definitions: HashMap<RowKey, Definition>,
    catalog: Catalog,
}

#[derive(Debug, Clone)]
struct Definition {
    /// By this and its key the tools are in order.
    place: u32,
    tool: PartTool,
}

impl SharedCatalog {
    /// Opens the catalog that was published last.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the store cannot be reached, holds nothing, or holds something damaged.
    pub fn open(store: RedisStore) -> Result<Self, StoreError> {
        let current = store
            .current(store.timeout())?
            .ok_or_else(|| store.empty())?;
        let (definitions, catalog) = read(&store, &current, &HashMap::new())?;
        Ok(Self {
            store,
            current,
            definitions,
            catalog,
        })
    }

    /// Takes over what was published since; returns `true` if something was.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); what there was stays.
    pub fn follow(&mut self) -> Result<bool, StoreError> {
        let current = self
            .store
            .current(self.store.timeout())?
            .ok_or_else(|| self.store.empty())?;
        if current == self.current {
            return Ok(false);
        }
        (self.definitions, self.catalog) = read(&self.store, &current, &self.definitions)?;
        self.current = current;
        Ok(true)
    }

    /// Returns the catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns what is known of the snapshot that it is of.
    pub fn snapshot(&self) -> SnapshotStatus {
        SnapshotStatus::from(&self.current)
    }
}

/// Reads the definitions of a snapshot, but for those that are known.
fn read(
    store: &RedisStore,
    current: &Current,
    known: &HashMap<RowKey, Definition>,
) -> Result<(HashMap<RowKey, Definition>, Catalog), StoreError> {
    let head = store.head(current, READ)?;
    let whole = Arc::new(
        head.whole()
            .map_err(|reason| store.damaged("the snapshot", reason))?,
    );
    let keys: HashSet<RowKey> = store.keys(&head, READ)?.into_iter().collect();
    let mut definitions: HashMap<RowKey, Definition> = HashMap::with_capacity(keys.len());
    definitions.extend(
        keys.iter()
            .filter_map(|key| Some((*key, known.get(key)?.clone()))),
    );
    let unknown: Vec<RowKey> = keys
        .into_iter()
        .filter(|key| !definitions.contains_key(key))
        .collect();
    for unknown in unknown.chunks(ROWS_AT_ONCE) {
        let read = read_rows(store, &head, unknown, READ)?
            .into_par_iter()
            .map(|(key, row)| {
                let whole = Arc::clone(definition(store, &key, &row)?);
                let tool = PartTool {
                    tool: Arc::new(whole.into()),
                    ..row.part_tool()
                };
                Ok((
                    key,
                    Definition {
                        place: row.place,
                        tool,
                    },
                ))
            });
        definitions.extend(read.collect::<Result<Vec<_>, StoreError>>()?);
    }
    if definitions.len() != current.tools {
        let reason = format!(
            "it has {} tools, and {} of them lie there",
            current.tools,
            definitions.len()
        );
        return Err(store.damaged("the snapshot", reason));
    }
    let mut ordered: Vec<(&RowKey, &Definition)> = definitions.iter().collect();
    ordered.sort_unstable_by_key(|(key, definition)| (definition.place, **key));
    let catalog = Catalog::part(
        &whole,
        ordered
            .into_iter()
            .map(|(_, definition)| definition.tool.clone())
            .collect(),
    );
    Ok((definitions, catalog))
}
