//! The publication of an engine's catalog and index.

use std::sync::Arc;
use std::time::Instant;

use foldhash::HashSet;
use rayon::prelude::*;
use serde::Serialize;

use super::head::{CurrentSnapshot, FORMAT, SnapshotHead};
use super::redis::{GenerationChanges, Publisher, TermChanges};
use super::{READ_TIMEOUT, ROWS_AT_ONCE, RedisStore, Store, StoreError, milliseconds};
use picktools::catalog::{CatalogStats, Tool, ToolId};
use picktools::embed::Embedder;
use picktools::engine::Engine;
use picktools::saved::SavedError;
use picktools::shard::{
    ExampleIndex, Row, RowKey, SnapshotCounts, SourceKey, SourceRow, ToolRelations,
};

/// The share of changed tools, as its reciprocal, above which a new generation is written.
const MIN_TOOLS_PER_CHANGE: usize = 4;
/// The number of terms per bucket. Small hashes are stored compactly.
const TERMS_PER_BUCKET: usize = 64;

/// The result of a publication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Publication {
    /// The version of the snapshot.
    pub version: u64,
    /// The part of the keyspace that contains the snapshot.
    pub generation: u64,
    /// The digest of the catalog.
    pub catalog: String,
    /// The number of tools of the catalog.
    pub tools: usize,
    /// The number of tools that were written.
    pub written: usize,
    /// The number of tools that were removed.
    pub removed: usize,
    /// `true` if a new generation was written.
    pub anew: bool,
    /// The duration, in milliseconds.
    pub took_ms: u64,
}

/// Publishes the catalog of an engine with its index.
///
/// Only changes since the last publication are written. Readers see the complete publication or
/// nothing of it. Skills, sequences and example files are not published. `progress` receives the
/// number of tools written and the number of tools to write. Damaged data is replaced by a complete
/// publication.
///
/// # Errors
///
/// [`StoreError`] if the store cannot be reached or is full, or if another publisher is active.
/// Readers then keep the previous snapshot.
pub fn publish(
    engine: &Engine,
    store: &RedisStore,
    progress: &dyn Fn(usize, usize),
) -> Result<Publication, StoreError> {
    match publish_as(engine, store, PublishMode::Changes, progress) {
        Err(error @ StoreError::Damaged { .. }) => {
            tracing::warn!(
                target: "picktools::store", %error,
                "damaged data; publishing everything again"
            );
            publish_anew(engine, store, progress)
        }
        result => result,
    }
}

/// Publishes the complete catalog in a new generation, and removes all other data.
///
/// # Errors
///
/// Like [`publish`].
pub fn publish_anew(
    engine: &Engine,
    store: &RedisStore,
    progress: &dyn Fn(usize, usize),
) -> Result<Publication, StoreError> {
    publish_as(engine, store, PublishMode::Everything, progress)
}

/// The extent of a publication.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PublishMode {
    Changes,
    Everything,
}

/// The data of an engine that is published.
struct PublicationSource<'e> {
    engine: &'e Engine,
    tools: &'e [Arc<Tool>],
    embedders: Vec<Arc<dyn Embedder>>,
    /// The key and the relations of each tool, in the order of the catalog.
    tool_relations: Vec<(RowKey, ToolRelations)>,
    stats: CatalogStats,
    counts: SnapshotCounts,
}

/// The rows that a publication adds and removes.
struct RowChanges {
    added: Vec<RowKey>,
    added_tools: Vec<ToolId>,
    removed: Vec<RowKey>,
}

fn publish_as(
    engine: &Engine,
    store: &RedisStore,
    mode: PublishMode,
    progress: &dyn Fn(usize, usize),
) -> Result<Publication, StoreError> {
    let started = Instant::now();
    let models = check_engine(engine)?;
    let publisher = store.begin()?;
    publisher.repair()?;
    let previous = store.current(READ_TIMEOUT)?;
    // A complete publication replaces all data, and removes the rest afterwards.
    if mode == PublishMode::Changes {
        publisher.collect(previous.as_ref())?;
    }
    // A snapshot in another format or with other models is replaced completely.
    let old = previous
        .as_ref()
        .filter(|current| current.is_readable() && mode == PublishMode::Changes);
    let old = old
        .map(|current| store.head(current, READ_TIMEOUT))
        .transpose()?;
    let old = old.filter(|old| old.models.iter().map(|(name, _)| name).eq(&models.names));
    let read_known_keys = || {
        old.as_ref()
            .map_or_else(|| Ok(Vec::new()), |old| store.keys(old, READ_TIMEOUT))
    };
    // Reading the keys of a million tools takes as long as computing the new ones.
    let (known_keys, catalog) =
        rayon::join(read_known_keys, || PublicationSource::new(engine, models));
    // Sorting a million keys is faster than hashing them.
    let (mut known_keys, catalog) = (known_keys?, catalog?);
    known_keys.par_sort_unstable();
    known_keys.dedup();
    if let Some(old) = &old
        && store.count_documents(old, READ_TIMEOUT)? < known_keys.len() as u64
    {
        return Err(store.damaged("the index", "it has fewer documents than tools"));
    }
    let changes = catalog.changes(&known_keys)?;
    let publication =
        |current: &CurrentSnapshot, anew: bool, written: usize, removed: usize| Publication {
            version: current.version,
            generation: current.generation,
            catalog: current.catalog.clone(),
            tools: current.tools,
            written,
            removed,
            anew,
            took_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
    let (added, removed) = (changes.added.len(), changes.removed.len());
    if let Some(old) = &old
        && added + removed == 0
        && old.current.catalog == engine.catalog().digest()
    {
        return Ok(publication(&old.current, false, 0, 0));
    }
    let tools = catalog.tool_relations.len();
    let old = old.filter(|_| (added + removed) * MIN_TOOLS_PER_CHANGE <= tools);
    let version = publisher.next_number(previous.as_ref())?;
    if let Some(old) = old {
        let current = catalog.current(old.current.generation, version);
        let head = write_changes(&publisher, &catalog, &old, current, changes, progress)?;
        return Ok(publication(&head.current, false, added, removed));
    }
    let current = catalog.current(version, version);
    let head = write_generation(&publisher, &catalog, previous.as_ref(), current, progress)?;
    if mode == PublishMode::Everything {
        publisher.remove_other_generations(version)?;
    }
    Ok(publication(&head.current, true, tools, known_keys.len()))
}

/// The models of an engine.
struct EngineModels {
    embedders: Vec<Arc<dyn Embedder>>,
    names: Vec<String>,
}

/// Returns the error for a definition that cannot be read.
fn unreadable(error: SavedError) -> StoreError {
    StoreError::Catalog {
        reason: error.to_string(),
    }
}

/// Returns the models of an engine, or an error if its catalog cannot be published.
fn check_engine(engine: &Engine) -> Result<EngineModels, StoreError> {
    let index = engine.index();
    let missing_model = index
        .left_out
        .as_ref()
        .or_else(|| engine.examples()?.left_out.as_ref());
    if let Some(reason) = missing_model {
        return Err(StoreError::Catalog {
            reason: format!("a model is missing: {reason}"),
        });
    }
    engine.catalog().tools().map_err(unreadable)?;
    let embedders: Vec<Arc<dyn Embedder>> = index
        .vectors
        .iter()
        .map(|vectors| Arc::clone(vectors.embedder()))
        .collect();
    let names = embedders
        .iter()
        .map(|embedder| embedder.identity().to_owned())
        .collect();
    Ok(EngineModels { embedders, names })
}

impl<'e> PublicationSource<'e> {
    fn new(engine: &'e Engine, models: EngineModels) -> Result<Self, StoreError> {
        let index = engine.index();
        let tools = engine.catalog().tools().map_err(unreadable)?;
        let tool_relations = index.tool_relations(&models.names);
        let stats = CatalogStats::from_catalog(engine.catalog());
        Ok(Self {
            engine,
            tools,
            tool_relations: tool_relations.map_err(unreadable)?,
            stats: stats.map_err(unreadable)?,
            counts: index.counts(engine.examples()),
            embedders: models.embedders,
        })
    }

    /// Compares the rows with the sorted keys of the previous snapshot.
    fn changes(&self, known_keys: &[RowKey]) -> Result<RowChanges, StoreError> {
        let mut rows: Vec<(RowKey, ToolId)> = self
            .tool_relations
            .iter()
            .map(|(key, _)| *key)
            .zip(self.engine.catalog().ids())
            .collect();
        rows.par_sort_unstable();
        if !rows.is_sorted_by(|(one, _), (other, _)| one < other) {
            return Err(StoreError::Catalog {
                reason: "two of its tools are identical".to_owned(),
            });
        }
        let is_added = |(key, _): &&(RowKey, ToolId)| known_keys.binary_search(key).is_err();
        let (added, added_tools) = rows.iter().filter(is_added).copied().unzip();
        let is_removed = |key: &&RowKey| rows.binary_search_by_key(*key, |(key, _)| *key).is_err();
        let removed = known_keys.iter().filter(is_removed).copied().collect();
        Ok(RowChanges {
            added,
            added_tools,
            removed,
        })
    }

    fn current(&self, generation: u64, version: u64) -> CurrentSnapshot {
        CurrentSnapshot {
            format: FORMAT,
            generation,
            version,
            catalog: self.engine.catalog().digest().to_owned(),
            tools: self.tool_relations.len(),
            published: milliseconds(),
        }
    }

    fn head(&self, current: CurrentSnapshot, buckets: u64) -> SnapshotHead {
        let counts = self.counts.clone();
        SnapshotHead::new(current, &self.embedders, buckets, &self.stats, counts)
    }

    fn row(&self, tool: ToolId) -> (RowKey, Row) {
        let (key, relations) = &self.tool_relations[tool.index()];
        let (index, examples) = (self.engine.index(), self.engine.examples());
        let definition = &self.tools[tool.index()];
        let row = Row::collect(index, examples, tool, definition, relations.clone());
        (*key, row)
    }
}

/// Writes the complete catalog in a new generation.
fn write_generation(
    publisher: &Publisher<'_>,
    catalog: &PublicationSource<'_>,
    previous: Option<&CurrentSnapshot>,
    current: CurrentSnapshot,
    progress: &dyn Fn(usize, usize),
) -> Result<SnapshotHead, StoreError> {
    let engine = catalog.engine;
    let index = engine.index();
    let terms: Vec<(u64, u32)> = index.term_counts().collect();
    let example_terms = engine
        .examples()
        .into_iter()
        .flat_map(ExampleIndex::term_counts)
        .collect();
    let buckets = (terms.len() / TERMS_PER_BUCKET).next_power_of_two() as u64;
    let head = catalog.head(current, buckets);
    let dimensions: Vec<usize> = catalog
        .embedders
        .iter()
        .map(|embedder| embedder.dimensions())
        .collect();
    publisher.begin_generation(head.current.generation, &dimensions)?;
    let keys: Vec<RowKey> = catalog.tool_relations.iter().map(|(key, _)| *key).collect();
    let rows = engine.catalog().ids().map(|tool| catalog.row(tool));
    publisher.write_rows(&head, rows, |written| progress(written, keys.len()))?;
    let sources = index.source_rows(|_| true).map_err(unreadable)?;
    let source_terms = index.source_term_counts();
    publisher.write_counts(&head, &keys, &sources, [terms, source_terms, example_terms])?;
    publisher.switch(previous, &head)?;
    Ok(head)
}

/// Writes the changes to the generation of the previous snapshot.
fn write_changes(
    publisher: &Publisher<'_>,
    catalog: &PublicationSource<'_>,
    old: &SnapshotHead,
    current: CurrentSnapshot,
    rows: RowChanges,
    progress: &dyn Fn(usize, usize),
) -> Result<SnapshotHead, StoreError> {
    let store = publisher.store();
    let head = catalog.head(current, old.buckets);
    let mut counts = CountChanges::default();
    let added = rows.added_tools.into_iter().map(|tool| catalog.row(tool));
    let added = added.inspect(|(_, row)| counts.add_row(row, 1));
    publisher.write_rows(&head, added, |written| progress(written, rows.added.len()))?;
    for keys in rows.removed.chunks(ROWS_AT_ONCE) {
        for (key, bytes) in keys.iter().zip(store.rows(old, keys, READ_TIMEOUT)?) {
            let damaged =
                |reason: &dyn std::fmt::Display| store.damaged(format!("the row {key}"), reason);
            let bytes = bytes.ok_or_else(|| damaged(&"it is missing"))?;
            let row =
                Row::from_bytes(&bytes, *key, &old.models).map_err(|error| damaged(&error))?;
            counts.add_row(&row, -1);
        }
    }
    let sources: Vec<SourceKey> = counts.sources.iter().copied().collect();
    let changed_sources = catalog
        .engine
        .index()
        .source_rows(|key| counts.sources.contains(key))
        .map_err(unreadable)?;
    for bytes in store
        .sources(old, &sources, READ_TIMEOUT)?
        .into_iter()
        .flatten()
    {
        let row = SourceRow::from_bytes(&bytes, &old.models)
            .map_err(|damaged| store.damaged("a source", damaged))?;
        counts.add_source_terms(row.term_hashes(), -1);
    }
    for (_, row) in &changed_sources {
        counts.add_source_terms(row.term_hashes(), 1);
    }
    let removed_sources: Vec<SourceKey> = sources
        .into_iter()
        .filter(|key| changed_sources.iter().all(|(other, _)| other != key))
        .collect();
    let changes = GenerationChanges {
        added: &rows.added,
        removed: &rows.removed,
        changed_sources: &changed_sources,
        removed_sources: &removed_sources,
        terms: &counts.terms,
    };
    publisher.change(&old.current, &head, &changes)?;
    Ok(head)
}

/// The changes of counts by a publication.
#[derive(Default)]
struct CountChanges {
    terms: TermChanges,
    /// The sources whose tools have changed.
    sources: HashSet<SourceKey>,
}

impl CountChanges {
    /// Counts an added (`1`) or removed (`-1`) row.
    fn add_row(&mut self, row: &Row, by: i64) {
        for (term, ..) in row.terms() {
            self.terms.entry(term).or_default()[0] += by;
        }
        for term in row.example_terms().concat() {
            self.terms.entry(term).or_default()[2] += by;
        }
        match row.source {
            Some(source) => drop(self.sources.insert(source)),
            // A tool without a source counts as a source.
            None => self.add_source_terms(row.terms().map(|(term, ..)| term), by),
        }
    }

    /// Adds `by` to the number of sources that contain each of the terms.
    fn add_source_terms(&mut self, terms: impl Iterator<Item = u64>, by: i64) {
        for term in terms {
            self.terms.entry(term).or_default()[1] += by;
        }
    }
}
