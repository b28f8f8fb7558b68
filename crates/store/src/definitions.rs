//! The definitions of a shared catalog, for a process that indexes them itself.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use rayon::prelude::*;

use super::head::CurrentSnapshot;
use super::reading::{read_definition, read_rows};
use super::{READ_TIMEOUT, ROWS_AT_ONCE, RedisStore, SnapshotStatus, Store, StoreError};
use picktools::catalog::{Catalog, ShardTool};
use picktools::shard::RowKey;

/// The complete catalog of a store, without its index.
///
/// A gateway adds the tools of its servers to it. After another publication, only new definitions
/// are read.
#[derive(Debug)]
pub struct SharedCatalog {
    store: RedisStore,
    current: CurrentSnapshot,
    definitions: HashMap<RowKey, SharedDefinition>,
    catalog: Catalog,
}

#[derive(Debug, Clone)]
struct SharedDefinition {
    /// The position of the tool in the catalog; the key orders tools with equal positions.
    position: u32,
    tool: ShardTool,
}

impl SharedCatalog {
    /// Opens the catalog of the latest publication.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be reached, is empty, or contains damaged data.
    pub fn open(store: RedisStore) -> Result<Self, StoreError> {
        let current = store
            .current(store.timeout())?
            .ok_or_else(|| store.empty())?;
        let (definitions, catalog) = read_catalog(&store, &current, &HashMap::new())?;
        Ok(Self {
            store,
            current,
            definitions,
            catalog,
        })
    }

    /// Updates to the latest publication. Returns `true` if there was a new one.
    ///
    /// # Errors
    ///
    /// Like [`open`](Self::open). After an error the catalog is unchanged.
    pub fn follow(&mut self) -> Result<bool, StoreError> {
        let current = self
            .store
            .current(self.store.timeout())?
            .ok_or_else(|| self.store.empty())?;
        if current == self.current {
            return Ok(false);
        }
        (self.definitions, self.catalog) = read_catalog(&self.store, &current, &self.definitions)?;
        self.current = current;
        Ok(true)
    }

    /// Returns the catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns the status of the snapshot of this catalog.
    pub fn snapshot(&self) -> SnapshotStatus {
        SnapshotStatus::from(&self.current)
    }
}

/// Reads the definitions of a snapshot, except those that are known.
fn read_catalog(
    store: &RedisStore,
    current: &CurrentSnapshot,
    known: &HashMap<RowKey, SharedDefinition>,
) -> Result<(HashMap<RowKey, SharedDefinition>, Catalog), StoreError> {
    let head = store.head(current, READ_TIMEOUT)?;
    let stats = Arc::new(
        head.catalog_stats()
            .map_err(|reason| store.damaged("the snapshot", reason))?,
    );
    let keys: HashSet<RowKey> = store.keys(&head, READ_TIMEOUT)?.into_iter().collect();
    let mut definitions: HashMap<RowKey, SharedDefinition> = HashMap::with_capacity(keys.len());
    definitions.extend(
        keys.iter()
            .filter_map(|key| Some((*key, known.get(key)?.clone()))),
    );
    let unknown: Vec<RowKey> = keys
        .into_iter()
        .filter(|key| !definitions.contains_key(key))
        .collect();
    for unknown in unknown.chunks(ROWS_AT_ONCE) {
        let new_definitions = read_rows(store, &head, unknown, READ_TIMEOUT)?
            .into_par_iter()
            .map(|(key, row)| {
                let definition = Arc::clone(read_definition(store, &key, &row)?);
                let tool = ShardTool {
                    tool: Arc::new(definition.into()),
                    ..row.shard_tool()
                };
                Ok((
                    key,
                    SharedDefinition {
                        position: row.position,
                        tool,
                    },
                ))
            });
        definitions.extend(new_definitions.collect::<Result<Vec<_>, StoreError>>()?);
    }
    if definitions.len() != current.tools {
        let reason = format!(
            "it has {} tools, but only {} rows",
            current.tools,
            definitions.len()
        );
        return Err(store.damaged("the snapshot", reason));
    }
    let mut ordered: Vec<(&RowKey, &SharedDefinition)> = definitions.iter().collect();
    ordered.sort_unstable_by_key(|(key, definition)| (definition.position, **key));
    let catalog = Catalog::shard(
        &stats,
        ordered
            .into_iter()
            .map(|(_, definition)| definition.tool.clone())
            .collect(),
    );
    Ok((definitions, catalog))
}
