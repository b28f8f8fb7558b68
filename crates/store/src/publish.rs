//! Publishing: what is written of a catalog so that others can pick from it.

use std::sync::Arc;
use std::time::Instant;

use foldhash::{HashSet, HashSetExt};
use rayon::prelude::*;
use serde::Serialize;

use super::head::{Current, FORMAT, Head};
use super::redis::TermChanges;
use super::{READ, ROWS_AT_ONCE, RedisStore, Store, StoreError, milliseconds};
use picktools::catalog::{ToolId, Whole};
use picktools::embed::Embedder;
use picktools::engine::Engine;
use picktools::shard::{ExampleIndex, Row, RowKey, SourceKey, SourceRow};

/// Where more than one tool of so many has changed, all is written anew beside.
const FEW: usize = 4;
/// How many terms lie together: so few that they lie densely.
const TERMS_A_BUCKET: usize = 64;

/// What became of a publication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Publication {
    /// The number of the snapshot.
    pub version: u64,
    /// The part of the keyspace that it lies in.
    pub generation: u64,
    /// Digest of the catalog.
    pub catalog: String,
    /// How many tools it holds.
    pub tools: usize,
    /// How many tools were written.
    pub written: usize,
    /// How many tools went.
    pub removed: usize,
    /// Whether all of it was written anew.
    pub anew: bool,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

/// Publishes the catalog of an engine with its index: only what has changed since the last
/// publication is written, and others see all of it at once or nothing. Skills, sequences and
/// examples of files are not published. `progress` is told how many tools were written, of how
/// many.
///
/// # Errors
///
/// [`StoreError`] when the store cannot be reached or is full, or somebody else publishes: nothing
/// has changed then for those who pick. What lies there damaged is written anew.
pub fn publish(
    engine: &Engine,
    store: &RedisStore,
    progress: &dyn Fn(usize, usize),
) -> Result<Publication, StoreError> {
    match publish_what_changed(engine, store, false, progress) {
        Err(error @ StoreError::Damaged { .. }) => {
            tracing::warn!(target: "picktools::store", %error, "all of it is written anew");
            publish_anew(engine, store, progress)
        }
        published => published,
    }
}

/// As [`publish`]; all of it is written, whatever lies there, and what is damaged there goes.
///
/// # Errors
///
/// As [`publish`].
pub fn publish_anew(
    engine: &Engine,
    store: &RedisStore,
    progress: &dyn Fn(usize, usize),
) -> Result<Publication, StoreError> {
    publish_what_changed(engine, store, true, progress)
}

/// Publishes, where `all` is not set, what has changed since the last publication.
fn publish_what_changed(
    engine: &Engine,
    store: &RedisStore,
    all: bool,
    progress: &dyn Fn(usize, usize),
) -> Result<Publication, StoreError> {
    let started = Instant::now();
    let index = engine.index();
    if let Some(reason) = index
        .left_out
        .as_ref()
        .or_else(|| engine.examples()?.left_out.as_ref())
    {
        return Err(StoreError::Catalog {
            reason: format!("a model is missing: {reason}"),
        });
    }
    if let Err(fault) = engine.catalog().read_all() {
        return Err(StoreError::Catalog {
            reason: fault.to_string(),
        });
    }
    let embedders: Vec<Arc<dyn Embedder>> = index
        .vectors
        .iter()
        .map(|vectors| Arc::clone(vectors.embedder()))
        .collect();
    let models: Vec<String> = embedders
        .iter()
        .map(|embedder| embedder.identity().to_owned())
        .collect();
    let publishing = store.begin()?;
    publishing.mend()?;
    let before = store.current(READ)?;
    // What is written anew takes the place of all that lies there, which goes afterwards.
    if !all {
        publishing.collect(before.as_ref())?;
    }
    // What was published in another form is replaced as a whole.
    let old = before
        .as_ref()
        .filter(|current| current.is_readable() && !all);
    let old = old.map(|current| store.head(current, READ)).transpose()?;
    // What lies there by other models is no use.
    let old = old.filter(|old| old.models.iter().map(|(name, _)| name).eq(&models));
    let known = || {
        old.as_ref()
            .map_or_else(|| Ok(Vec::new()), |old| store.keys(old, READ))
    };
    // What is read of a million tools takes as long here as there.
    let (known, (standings, whole, counts)) = rayon::join(known, || {
        (
            index.standings(&models),
            Whole::of(engine.catalog()),
            index.counts(engine.examples()),
        )
    });
    // A million keys are sorted sooner than hashed.
    let mut known = known?;
    known.par_sort_unstable();
    known.dedup();
    let mut placed: Vec<(RowKey, ToolId)> = standings
        .iter()
        .map(|(key, _)| *key)
        .zip(engine.catalog().ids())
        .collect();
    placed.par_sort_unstable();
    if !placed.is_sorted_by(|(one, _), (other, _)| one < other) {
        return Err(StoreError::Catalog {
            reason: "two of its tools are the same in all that they say".to_owned(),
        });
    }
    if let Some(old) = &old
        && store.indexed(old, READ)? < known.len() as u64
    {
        return Err(store.damaged("the index", "it has fewer documents than there are tools"));
    }
    let publication = |current: &Current, anew: bool, written: usize, removed: usize| Publication {
        version: current.version,
        generation: current.generation,
        catalog: current.catalog.clone(),
        tools: current.tools,
        written,
        removed,
        anew,
        took_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    };
    let (come, to_write): (Vec<RowKey>, Vec<ToolId>) = placed
        .iter()
        .filter(|(key, _)| known.binary_search(key).is_err())
        .copied()
        .unzip();
    let is_gone = |key: &&RowKey| placed.binary_search_by_key(*key, |(key, _)| *key).is_err();
    let gone: Vec<RowKey> = known.iter().filter(is_gone).copied().collect();
    if let Some(old) = &old
        && come.is_empty()
        && gone.is_empty()
        && old.current.catalog == engine.catalog().digest()
    {
        return Ok(publication(&old.current, false, 0, 0));
    }
    let old = old.filter(|_| (come.len() + gone.len()) * FEW <= standings.len());
    let version = publishing.next_number(before.as_ref())?;
    let current = |generation: u64| Current {
        format: FORMAT,
        generation,
        version,
        catalog: engine.catalog().digest().to_owned(),
        tools: standings.len(),
        published: milliseconds(),
    };
    let row = |tool: ToolId| {
        let (key, standing) = &standings[tool.index()];
        (
            *key,
            Row::of(index, engine.examples(), tool, standing.clone()),
        )
    };
    let Some(old) = old else {
        let terms: Vec<(u64, u32)> = index.term_counts().collect();
        let of_examples = engine
            .examples()
            .into_iter()
            .flat_map(ExampleIndex::term_counts)
            .collect();
        let buckets = (terms.len() / TERMS_A_BUCKET).next_power_of_two() as u64;
        let head = Head::new(current(version), &embedders, buckets, &whole, counts);
        let dimensions: Vec<usize> = embedders
            .iter()
            .map(|embedder| embedder.dimensions())
            .collect();
        publishing.begin_generation(version, &dimensions)?;
        let keys: Vec<RowKey> = standings.iter().map(|(key, _)| *key).collect();
        publishing.write_rows(&head, engine.catalog().ids().map(row), |done| {
            progress(done, keys.len())
        })?;
        let (sources, of_sources) = (index.source_rows(|_| true), index.source_term_counts());
        publishing.write_counts(&head, &keys, &sources, [terms, of_sources, of_examples])?;
        publishing.switch(before.as_ref(), &head)?;
        if all {
            publishing.remove_others(version)?;
        }
        return Ok(publication(&head.current, true, keys.len(), known.len()));
    };
    let head = Head::new(
        current(old.current.generation),
        &embedders,
        old.buckets,
        &whole,
        counts,
    );
    let mut changes = Changes {
        terms: TermChanges::default(),
        sources: HashSet::new(),
    };
    publishing.write_rows(
        &head,
        to_write
            .into_iter()
            .map(row)
            .inspect(|(_, row)| changes.note(row, 1)),
        |done| {
            progress(done, come.len());
        },
    )?;
    for gone in gone.chunks(ROWS_AT_ONCE) {
        for (key, bytes) in gone.iter().zip(store.rows(&old, gone, READ)?) {
            let bytes =
                bytes.ok_or_else(|| store.damaged(format!("the row {key}"), "it is not there"))?;
            let row = Row::of_bytes(&bytes, *key, &old.models)
                .map_err(|damaged| store.damaged(format!("the row {key}"), damaged))?;
            changes.note(&row, -1);
        }
    }
    let sources: Vec<SourceKey> = changes.sources.iter().copied().collect();
    let put = index.source_rows(|key| changes.sources.contains(key));
    for bytes in store.sources(&old, &sources, READ)?.into_iter().flatten() {
        let row = SourceRow::of_bytes(&bytes, &old.models)
            .map_err(|damaged| store.damaged("a source", damaged))?;
        changes.count(row.held(), -1);
    }
    put.iter().for_each(|(_, row)| changes.count(row.held(), 1));
    let left: Vec<SourceKey> = sources
        .into_iter()
        .filter(|key| put.iter().all(|(other, _)| other != key))
        .collect();
    publishing.change(
        &old.current,
        &head,
        (&come, &gone),
        (&put, &left),
        &changes.terms,
    )?;
    Ok(publication(&head.current, false, come.len(), gone.len()))
}

/// What a publication changes of what is counted.
struct Changes {
    terms: TermChanges,
    /// Sources whose tools have changed.
    sources: HashSet<SourceKey>,
}

impl Changes {
    /// Notes that a tool comes or goes.
    fn note(&mut self, row: &Row, by: i64) {
        for (term, ..) in row.terms() {
            self.terms.entry(term).or_default()[0] += by;
        }
        for term in row.example_terms().concat() {
            self.terms.entry(term).or_default()[2] += by;
        }
        match row.source {
            Some(source) => drop(self.sources.insert(source)),
            // It is a source of its own.
            None => self.count(row.terms().map(|(term, ..)| term), by),
        }
    }

    /// Counts that so many more sources hold terms.
    fn count(&mut self, terms: impl Iterator<Item = u64>, by: i64) {
        terms.for_each(|term| self.terms.entry(term).or_default()[1] += by);
    }
}
