//! An engine that picks from the catalog of a store.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use ndarray::Array2;
use rayon::prelude::*;
use serde::Serialize;

use super::first_stage::{FirstStage, name_tag};
use super::head::{CurrentSnapshot, SnapshotHead};
use super::reading::{gather, parse_rows, read_definition, sort_rows};
use super::row_cache::RowCache;
use super::{READ_TIMEOUT, ROWS_AT_ONCE, RedisStore, SnapshotStatus, Store, StoreError, lock};
use picktools::Mode;
use picktools::deadline::Deadline;
use picktools::embed::{Embedder, ModelKind, StaticEmbedder};
use picktools::engine::{Embeddings, Engine};
use picktools::names::is_glob;
use picktools::options::{PickError, PickOptions};
use picktools::query::Query;
use picktools::selection::{Degraded, Selection, SnapshotReport, Stage, StageReport, StageStatus};
use picktools::shard::{
    GlobalStats, Index, IndexError, NumberedModel, RequestTerms, Row, RowKey, SnapshotContext,
    SourceKey, SourceRow, TermCounts,
};
use picktools::tokens::TokenCounter;

/// The interval of checks for a new snapshot.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);
/// The largest depth of tools that are required by candidates.
const MAX_REQUIREMENT_DEPTH: usize = 16;
/// The time for which a failed store is not used.
const PAUSE: Duration = Duration::from_secs(1);

/// The options of a shared engine.
#[derive(Clone)]
pub struct SharedOptions {
    /// The model that is used with the static one, if the catalog was published with it.
    pub model: Option<Arc<dyn Embedder>>,
    /// The number of recent candidates that are cached, about 4 KiB each.
    ///
    /// Picks use them while the store cannot be reached.
    pub max_cached_tools: usize,
    /// The largest number of tools of a snapshot that is loaded completely.
    ///
    /// Picks then run locally, and the store is only needed for changes.
    pub max_local_tools: usize,
    /// The counter of tokens for token budgets, as in
    /// [`EngineBuilder::token_counter`](picktools::EngineBuilder::token_counter).
    pub token_counter: Option<Arc<dyn TokenCounter>>,
}

impl Default for SharedOptions {
    fn default() -> Self {
        Self {
            model: None,
            max_cached_tools: 50_000,
            max_local_tools: 50_000,
            token_counter: None,
        }
    }
}

impl std::fmt::Debug for SharedOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let model = self.model.as_ref().map(|model| model.identity());
        f.debug_struct("SharedOptions")
            .field("model", &model)
            .field("max_cached_tools", &self.max_cached_tools)
            .field("max_local_tools", &self.max_local_tools)
            .finish_non_exhaustive()
    }
}

/// The state of a shared engine and its store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SharedEngineState {
    /// The snapshot that picks use.
    pub snapshot: SnapshotStatus,
    /// The number of tools that are cached locally.
    #[serde(rename = "kept")]
    pub cached: usize,
    /// `true` if the complete snapshot is cached locally.
    #[serde(rename = "whole")]
    pub is_complete: bool,
    /// The fault of the store, or `None` if it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// The number of failures of the store since this engine was opened.
    pub failures: u64,
}

/// An engine that picks from the catalog of a store.
///
/// A thread checks for new publications five times a second. Clones are cheap.
#[derive(Clone)]
pub struct SharedEngine(Arc<SharedEngineInner>);

struct SharedEngineInner {
    store: RedisStore,
    parts: EngineParts,
    /// The largest number of tools of a snapshot that is loaded completely.
    max_local_tools: usize,
    cache: RowCache,
    snapshot: Mutex<Arc<LoadedSnapshot>>,
    outage: Mutex<StoreOutage>,
    /// Set to `true` to end the thread that follows publications.
    stop: Arc<(Mutex<bool>, Condvar)>,
}

/// The components of the engines that are built from rows.
struct EngineParts {
    embedders: Vec<Arc<dyn Embedder>>,
    /// The identity of the model in the options, if there is one.
    required_model: Option<String>,
    token_counter: Option<Arc<dyn TokenCounter>>,
}

impl EngineParts {
    /// Returns the models whose vectors a snapshot has, with their numbers in the snapshot.
    ///
    /// Vectors of other published models are not used. The model of the options must be among the
    /// published ones.
    fn models_of_snapshot(&self, head: &SnapshotHead) -> Result<Vec<NumberedModel>, StoreError> {
        let mut common: Vec<NumberedModel> = Vec::new();
        for (number, (name, dimensions)) in head.models.iter().enumerate() {
            let embedder = self.embedders.iter().find(|embedder| {
                embedder.identity() == name && embedder.dimensions() == *dimensions
            });
            if let Some(embedder) = embedder {
                common.push((number, Arc::clone(embedder)));
            }
        }
        let is_missing = |model: &String| {
            common
                .iter()
                .all(|(_, embedder)| embedder.identity() != model)
        };
        if self.required_model.as_ref().is_some_and(is_missing)
            || common.is_empty() && !head.models.is_empty()
        {
            let names = self.embedders.iter().map(|embedder| embedder.identity());
            return Err(StoreError::Models {
                published: list_models(head.models.iter().map(|(name, _)| name.as_str())),
                here: list_models(names),
            });
        }
        Ok(common)
    }
}

/// Lists the names of models in a message.
fn list_models<'m>(names: impl Iterator<Item = &'m str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        "no model".to_owned()
    } else {
        format!("the models {}", names.join(", "))
    }
}

/// A snapshot with the data that is loaded locally.
struct LoadedSnapshot {
    head: SnapshotHead,
    context: Arc<SnapshotContext>,
    /// The engine of the complete snapshot, if it is loaded completely.
    complete: Option<Engine>,
    token_counter: Option<Arc<dyn TokenCounter>>,
    /// The engine of the cached rows, built when the store failed.
    fallback: Mutex<Option<FallbackEngine>>,
}

/// An engine of the cached rows.
struct FallbackEngine {
    rows: usize,
    engine: Engine,
}

/// The failures of the store.
#[derive(Default)]
struct StoreOutage {
    /// The current fault, or `None` if the store answers.
    reason: Option<String>,
    /// The time until which the store is not used.
    until: Option<Instant>,
    failures: u64,
    /// `true` if a pick could not use the store.
    affects_picks: bool,
}

/// The purpose of an access to the store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StoreUse {
    Pick,
    Follow,
}

impl std::fmt::Debug for SharedEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedEngine")
            .field("store", &self.0.store)
            .field("state", &self.state())
            .finish()
    }
}

impl Drop for SharedEngineInner {
    fn drop(&mut self) {
        *lock(&self.stop.0) = true;
        self.stop.1.notify_all();
    }
}

impl SharedEngine {
    /// Opens the catalog of the latest publication.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be reached, is empty, or has a catalog that was published
    /// with other models.
    pub fn open(store: RedisStore, options: SharedOptions) -> Result<Self, StoreError> {
        let SharedOptions {
            model,
            max_cached_tools,
            max_local_tools,
            token_counter,
        } = options;
        let required_model = model.as_ref().map(|model| model.identity().to_owned());
        let mut parts = EngineParts {
            embedders: Vec::new(),
            required_model,
            token_counter,
        };
        if model
            .as_ref()
            .is_none_or(|model| model.kind() != ModelKind::Static)
        {
            parts
                .embedders
                .push(StaticEmbedder::shared().map_err(IndexError::from)?);
        }
        parts.embedders.extend(model);
        let current = store
            .current(store.timeout())?
            .ok_or_else(|| store.empty())?;
        let cache = RowCache::new(max_cached_tools.max(super::MAX_CANDIDATES));
        let snapshot = LoadedSnapshot::load(&store, &current, &parts, &cache, max_local_tools)?;
        let inner = Arc::new(SharedEngineInner {
            store,
            parts,
            max_local_tools,
            cache,
            snapshot: Mutex::new(Arc::new(snapshot)),
            outage: Mutex::default(),
            stop: Arc::default(),
        });
        let weak = Arc::downgrade(&inner);
        let stop = Arc::clone(&inner.stop);
        let thread = std::thread::Builder::new().name("picktools-store".to_owned());
        if let Err(error) = thread.spawn(move || follow(&weak, &stop)) {
            return Err(StoreError::Catalog {
                reason: format!("cannot start the thread that follows it: {error}"),
            });
        }
        Ok(Self(inner))
    }

    /// Returns the state of the engine and its store.
    pub fn state(&self) -> SharedEngineState {
        let snapshot = self.0.snapshot();
        let outage = lock(&self.0.outage);
        let is_complete = snapshot.complete.is_some();
        SharedEngineState {
            snapshot: SnapshotStatus::from(&snapshot.head.current),
            cached: if is_complete {
                snapshot.head.current.tools
            } else {
                self.0.cache.len()
            },
            is_complete,
            fault: outage.reason.clone(),
            failures: outage.failures,
        }
    }

    /// Picks the tools that `query` needs, like [`Engine::pick`].
    ///
    /// While the store cannot be used, picks from the cached tools and reports it in
    /// [`Selection::degraded`].
    ///
    /// # Errors
    ///
    /// Like [`Engine::pick`]. [`PickError::Worker`] with the fault of the store, if the cache is
    /// empty too.
    pub fn pick(&self, query: &Query, options: &PickOptions) -> Result<Selection, PickError> {
        let mut snapshot = self.0.snapshot();
        if let Some(engine) = &snapshot.complete {
            return self.pick_locally(engine, &snapshot, query, options);
        }
        options.check()?;
        refuse_patterns(options)?;
        let deadline = Deadline::after(options.timeout);
        let mut embeddings = Embeddings::default();
        let pick = |engine: &Engine, embeddings: &mut _| {
            let timeout = deadline
                .instant()
                .map(|end| end.saturating_duration_since(Instant::now()));
            let options = PickOptions {
                timeout,
                ..options.clone()
            };
            let selection = engine.pick_embedded(query, &options, embeddings)?;
            Ok((selection, engine.catalog().len()))
        };
        let from_store = self.0.check_available().and_then(|()| {
            let find = |snapshot: &LoadedSnapshot, embeddings: &mut _| {
                self.0
                    .candidates(snapshot, query, options, deadline, embeddings)
            };
            let mut engine = find(&snapshot, &mut embeddings);
            if let Err(StoreError::Damaged { .. }) = &engine
                && let Some(successor) = self.0.successor(&snapshot, self.0.within(deadline))
            {
                engine = find(&successor, &mut embeddings);
                snapshot = successor;
            }
            let picked = match engine.map(|engine| pick(&engine, &mut embeddings)) {
                // The outline of this definition was intact, but not the complete definition.
                Ok(Err(PickError::Saved { reason })) => Err(self.0.drop_damaged_rows(reason)),
                picked => picked,
            };
            picked.inspect_err(|error| self.0.record_failure(error, StoreUse::Pick))
        });
        let ((mut selection, candidates), failure) = match from_store {
            Ok(picked) => (picked?, None),
            Err(error) => match snapshot.fallback_engine(&self.0.cache)? {
                Some(engine) => (pick(&engine, &mut embeddings)?, Some(error)),
                None => {
                    return Err(PickError::Worker {
                        reason: error.to_string(),
                    });
                }
            },
        };
        selection.snapshot = Some(snapshot.report(Some(candidates)));
        let status = match &failure {
            None => StageStatus::Ran,
            Some(error) => StageStatus::Failed {
                reason: error.to_string(),
            },
        };
        selection
            .stages
            .insert(0, StageReport::new(Stage::Store, status));
        if let Some(error) = failure {
            let reason = format!(
                "{error}; picked from {candidates} cached tools of {}",
                snapshot.head.current.tools
            );
            selection
                .degraded
                .insert(0, Degraded::new(Stage::Store, reason));
        }
        Ok(selection)
    }

    /// Picks from a snapshot that is loaded completely.
    fn pick_locally(
        &self,
        engine: &Engine,
        snapshot: &LoadedSnapshot,
        query: &Query,
        options: &PickOptions,
    ) -> Result<Selection, PickError> {
        let fault = lock(&self.0.outage).reason.clone();
        let mut selection = engine.pick(query, options)?;
        selection.snapshot = Some(snapshot.report(None));
        if let Some(reason) = fault {
            let version = snapshot.head.current.version;
            let reason = format!("{reason}; picked from the cached snapshot {version}");
            selection
                .degraded
                .insert(0, Degraded::new(Stage::Store, reason));
        }
        Ok(selection)
    }
}

/// Refuses patterns, because only complete names can be looked up in the store.
fn refuse_patterns(options: &PickOptions) -> Result<(), PickError> {
    let refuse = |option, name: &str| {
        Err(PickError::InvalidOption {
            option,
            value: format!("{name:?}"),
            remedy: "write complete names: a pattern needs the complete catalog, and this \
                     snapshot is searched in the store",
        })
    };
    for (option, names) in options.floors() {
        if let Some(pattern) = names.iter().find(|name| is_glob(name)) {
            return refuse(option, pattern);
        }
    }
    for (field, name) in options.access.named_tools() {
        if is_glob(name) {
            return refuse(field, name);
        }
    }
    Ok(())
}

impl SharedEngineInner {
    fn snapshot(&self) -> Arc<LoadedSnapshot> {
        Arc::clone(&lock(&self.snapshot))
    }

    /// Returns an error for a while after a failure, so that not every request waits for the store.
    fn check_available(&self) -> Result<(), StoreError> {
        let outage = lock(&self.outage);
        match (&outage.reason, outage.until) {
            (Some(reason), Some(until)) if Instant::now() < until => Err(StoreError::Unavailable {
                address: self.store.address().to_owned(),
                reason: format!("paused after a failure: {reason}"),
            }),
            _ => Ok(()),
        }
    }

    fn record_failure(&self, error: &StoreError, purpose: StoreUse) {
        let mut outage = lock(&self.outage);
        if outage.reason.is_none() {
            tracing::warn!(
                target: "picktools::store", %error,
                "the store cannot be used; picking from the cache"
            );
        }
        outage.reason = Some(error.to_string());
        outage.until = Some(Instant::now() + PAUSE);
        outage.failures += 1;
        outage.affects_picks |= purpose == StoreUse::Pick;
    }

    fn record_success(&self, purpose: StoreUse) {
        let mut outage = lock(&self.outage);
        // An outage that affected a pick ends with a successful pick.
        if outage.affects_picks && purpose == StoreUse::Follow {
            return;
        }
        outage.affects_picks = false;
        if outage.reason.take().is_some() {
            tracing::info!(target: "picktools::store", "the store answers again");
        }
        outage.until = None;
    }

    /// Removes the rows with damaged definitions from the cache, and returns the error.
    fn drop_damaged_rows(&self, reason: String) -> StoreError {
        let damaged = self
            .cache
            .all()
            .into_iter()
            .filter(|(_, row)| row.tool.is_damaged());
        self.cache.drop_rows(damaged.map(|(key, _)| key));
        self.store.damaged("a row", reason)
    }

    /// Returns the timeout for the store.
    fn within(&self, deadline: Deadline) -> Duration {
        match deadline.instant() {
            // Half of the remaining time is reserved for ranking.
            Some(end) => self
                .store
                .timeout()
                .min(end.saturating_duration_since(Instant::now()) / 2),
            None => self.store.timeout(),
        }
    }

    /// Waits for the snapshot that replaces one whose generation was removed.
    ///
    /// Returns `None` if the store has no other snapshot, or if it is not loaded in time.
    fn successor(
        &self,
        snapshot: &Arc<LoadedSnapshot>,
        within: Duration,
    ) -> Option<Arc<LoadedSnapshot>> {
        let end = Instant::now() + within;
        if self.store.current(within).ok()?? == snapshot.head.current {
            return None;
        }
        while Instant::now() < end {
            let latest = self.snapshot();
            if !Arc::ptr_eq(&latest, snapshot) {
                return Some(latest);
            }
            std::thread::sleep(FOLLOW_INTERVAL / 20);
        }
        None
    }

    /// Returns an engine of the candidates for a request.
    fn candidates(
        &self,
        snapshot: &LoadedSnapshot,
        query: &Query,
        options: &PickOptions,
        deadline: Deadline,
        embeddings: &mut Embeddings,
    ) -> Result<Engine, StoreError> {
        let head = &snapshot.head;
        let within = || self.within(deadline);
        let default_mode = if snapshot.context.embedders.is_empty() {
            Mode::Keyword
        } else {
            Mode::Hybrid
        };
        let mode = options.mode.unwrap_or(default_mode);
        let mut embedded = Vec::new();
        if mode.uses_semantic() && !query.is_blank() {
            embedded = embed_request(snapshot, query, deadline, embeddings);
        }
        let stats = &snapshot.context.catalog_stats;
        let first = FirstStage::new(query, options, mode, &embedded, stats);
        let counts = self.term_counts(head, first.terms(), within())?;
        let count = |term: u64| {
            counts
                .get(&term)
                .map_or(0, |counts| counts.tools.saturating_add(counts.examples))
        };
        let candidates = self.store.candidates(head, &first, &count, within())?;
        let mut rows = self.rows(head, candidates, within())?;
        // Required tools are added by name, with the tools that they require. The originals of
        // duplicates are added by key.
        let mut searched_names = first.names.clone();
        for _ in 0..MAX_REQUIREMENT_DEPTH {
            let mut required: BTreeSet<u64> = BTreeSet::new();
            let mut more: BTreeSet<RowKey> = BTreeSet::new();
            for row in rows.values() {
                let names = row.tool.outline().requires.iter();
                required.extend(names.map(|name| name_tag(name)));
                more.extend(row.originals.iter().copied());
            }
            required.retain(|name| !searched_names.contains(name));
            if !required.is_empty() {
                searched_names.extend(&required);
                let search = FirstStage {
                    texts: Vec::new(),
                    vectors: Vec::new(),
                    names: required,
                    filter: Default::default(),
                };
                more.extend(self.store.candidates(head, &search, &count, within())?);
            }
            more.retain(|key| !rows.contains_key(key));
            if more.is_empty() {
                break;
            }
            rows.extend(self.rows(head, more, within())?);
        }
        let rows = sort_rows(rows);
        let source_keys: BTreeSet<SourceKey> =
            rows.iter().filter_map(|(_, row)| row.source).collect();
        let sources = self.sources(head, &source_keys, within())?;
        let mut request_terms = RequestTerms::default();
        for (&term, &counts) in &counts {
            request_terms.insert(term, counts);
        }
        self.record_success(StoreUse::Pick);
        let examples = snapshot.context.example_totals(&request_terms);
        let stats = GlobalStats::Given {
            terms: request_terms,
            sources: &sources,
        };
        let index = Index::from_records(&snapshot.context, &rows, stats)?;
        let token_counter = self.parts.token_counter.clone();
        Ok(Engine::from_rows(
            index,
            &rows,
            Some(examples),
            token_counter,
        )?)
    }

    /// Returns the counts of terms, from the cache and the store.
    fn term_counts(
        &self,
        head: &SnapshotHead,
        terms: BTreeSet<u64>,
        within: Duration,
    ) -> Result<HashMap<u64, TermCounts>, StoreError> {
        let published = head.current.published;
        let mut counts = self.cache.terms(published, terms.iter().copied());
        let unknown: Vec<u64> = terms
            .into_iter()
            .filter(|term| !counts.contains_key(term))
            .collect();
        let new_counts = self.store.term_counts(head, &unknown, within)?;
        let new_counts: Vec<(u64, TermCounts)> = unknown.into_iter().zip(new_counts).collect();
        counts.extend(new_counts.iter().copied());
        self.cache.insert_terms(published, new_counts.into_iter());
        Ok(counts)
    }

    /// Returns the rows that belong to the snapshot.
    fn rows(
        &self,
        head: &SnapshotHead,
        keys: BTreeSet<RowKey>,
        within: Duration,
    ) -> Result<HashMap<RowKey, Arc<Row>>, StoreError> {
        let keys: Vec<RowKey> = keys.into_iter().collect();
        let mut rows = self.cache.rows(keys.iter().copied());
        let unknown: Vec<RowKey> = keys
            .iter()
            .copied()
            .filter(|key| !rows.contains_key(key))
            .collect();
        let (are_current, values) = self.store.found_rows(head, &keys, &unknown, within)?;
        let current: BTreeSet<RowKey> = keys
            .iter()
            .zip(are_current)
            .filter(|(_, is_current)| *is_current)
            .map(|(key, _)| *key)
            .collect();
        if current.is_empty() && !keys.is_empty() && !self.store.has_tools(head, within)? {
            return Err(self
                .store
                .damaged("the snapshot", "the list of its tools is missing"));
        }
        let (new_keys, values): (Vec<RowKey>, Vec<_>) = unknown
            .into_iter()
            .zip(values)
            .filter(|(key, _)| current.contains(key))
            .unzip();
        let new_rows = parse_rows(&self.store, head, &new_keys, values)?;
        self.cache.insert(new_rows.iter().cloned());
        rows.retain(|key, _| current.contains(key));
        rows.extend(new_rows);
        // A missing row is an error, unless it was removed from the snapshot meanwhile.
        let missing: Vec<RowKey> = new_keys
            .into_iter()
            .filter(|key| !rows.contains_key(key))
            .collect();
        let are_current = self.store.are_current(head, &missing, within)?;
        for (key, is_current) in missing.iter().zip(are_current) {
            if is_current {
                return Err(self
                    .store
                    .damaged(format!("the row {key}"), "it is missing"));
            }
        }
        Ok(rows)
    }

    /// Returns the rows of sources, from the cache and the store.
    fn sources(
        &self,
        head: &SnapshotHead,
        keys: &BTreeSet<SourceKey>,
        within: Duration,
    ) -> Result<HashMap<SourceKey, Arc<SourceRow>>, StoreError> {
        let published = head.current.published;
        let mut sources = self.cache.sources(published, keys.iter().copied());
        let unknown: Vec<SourceKey> = keys
            .iter()
            .copied()
            .filter(|key| !sources.contains_key(key))
            .collect();
        let mut new_rows = Vec::with_capacity(unknown.len());
        for (key, bytes) in unknown
            .iter()
            .zip(self.store.sources(head, &unknown, within)?)
        {
            // The source was removed meanwhile.
            let Some(bytes) = bytes else { continue };
            let row = SourceRow::from_bytes(&bytes, &head.models)
                .map_err(|damaged| self.store.damaged(format!("the source {key}"), damaged))?;
            new_rows.push((*key, Arc::new(row)));
        }
        self.cache
            .insert_sources(published, new_rows.iter().cloned());
        sources.extend(new_rows);
        Ok(sources)
    }

    /// Loads the current snapshot of the store, if it is not loaded.
    fn update(&self) -> Result<(), StoreError> {
        let current = self
            .store
            .current(self.store.timeout())?
            .ok_or_else(|| self.store.empty())?;
        let loaded = self.snapshot();
        if current == loaded.head.current {
            return Ok(());
        }
        if current.version < loaded.head.current.version {
            tracing::warn!(
                target: "picktools::store",
                from = loaded.head.current.version, to = current.version,
                "the store has returned to an older snapshot"
            );
        }
        let snapshot = LoadedSnapshot::load(
            &self.store,
            &current,
            &self.parts,
            &self.cache,
            self.max_local_tools,
        )?;
        // Rows that the snapshot no longer has must not be used as a fallback.
        let keys: Vec<RowKey> = self.cache.all().into_iter().map(|(key, _)| key).collect();
        for keys in keys.chunks(ROWS_AT_ONCE) {
            let timeout = self.store.timeout();
            let are_current = self.store.are_current(&snapshot.head, keys, timeout)?;
            let removed = keys
                .iter()
                .zip(are_current)
                .filter(|(_, is_current)| !*is_current)
                .map(|(key, _)| *key);
            self.cache.drop_rows(removed);
        }
        *lock(&self.snapshot) = Arc::new(snapshot);
        Ok(())
    }
}

/// Embeds the request with the models of a snapshot. Vectors of failed models are missing.
fn embed_request(
    snapshot: &LoadedSnapshot,
    query: &Query,
    deadline: Deadline,
    embeddings: &mut Embeddings,
) -> Vec<(usize, Array2<f32>)> {
    let embedders = &snapshot.context.embedders;
    let mut embedded = Vec::new();
    for (model, embedder) in embedders {
        if embedders.len() > 1 && !embedder.reads(query.search_text()) {
            continue;
        }
        if let Ok(vectors) = embeddings.get_or_embed(embedder, query, deadline) {
            let texts = [&vectors.request, &vectors.conversation];
            embedded.extend(
                texts
                    .into_iter()
                    .flatten()
                    .map(|rows| (*model, rows.clone())),
            );
        }
    }
    embedded
}

/// Follows the publications until the engine is dropped.
fn follow(engine: &Weak<SharedEngineInner>, stop: &(Mutex<bool>, Condvar)) {
    loop {
        let stopped = stop
            .1
            .wait_timeout_while(lock(&stop.0), FOLLOW_INTERVAL, |stopped| !*stopped);
        if *stopped.unwrap_or_else(PoisonError::into_inner).0 {
            return;
        }
        let Some(engine) = engine.upgrade() else {
            return;
        };
        match engine.update() {
            Ok(()) => engine.record_success(StoreUse::Follow),
            Err(error) => engine.record_failure(&error, StoreUse::Follow),
        }
    }
}

impl LoadedSnapshot {
    /// Loads a snapshot, completely if it has at most `max_local_tools` tools.
    fn load(
        store: &RedisStore,
        current: &CurrentSnapshot,
        parts: &EngineParts,
        cache: &RowCache,
        max_local_tools: usize,
    ) -> Result<Self, StoreError> {
        let head = store.head(current, READ_TIMEOUT)?;
        let embedders = parts.models_of_snapshot(&head)?;
        let stats = head
            .catalog_stats()
            .map_err(|reason| store.damaged("the snapshot", reason))?;
        let dimensions: Vec<usize> = head
            .models
            .iter()
            .map(|(_, dimensions)| *dimensions)
            .collect();
        let context = SnapshotContext::new(stats, head.counts.clone(), &dimensions, embedders);
        let context = context.map_err(|damaged| store.damaged("the snapshot", damaged))?;
        let context = Arc::new(context);
        let complete = if head.counts.tools <= max_local_tools {
            Some(load_engine(store, &head, &context, cache, parts)?)
        } else {
            None
        };
        let token_counter = parts.token_counter.clone();
        Ok(Self {
            head,
            context,
            complete,
            token_counter,
            fallback: Mutex::default(),
        })
    }

    fn report(&self, candidates: Option<usize>) -> SnapshotReport {
        let CurrentSnapshot { version, tools, .. } = self.head.current;
        SnapshotReport::new(version, tools, candidates)
    }

    /// Returns an engine of the cached tools, or `None` if the cache is empty.
    fn fallback_engine(&self, cache: &RowCache) -> Result<Option<Engine>, PickError> {
        let mut fallback = lock(&self.fallback);
        if let Some(fallback) = &*fallback
            && fallback.rows >= cache.len()
        {
            return Ok(Some(fallback.engine.clone()));
        }
        let (rows, damaged): (Vec<_>, Vec<_>) = cache
            .all()
            .into_par_iter()
            .partition(|(_, row)| row.definition().is_ok());
        cache.drop_rows(damaged.into_iter().map(|(key, _)| key));
        let rows = sort_rows(rows);
        if rows.is_empty() {
            return Ok(None);
        }
        let index = Index::from_records(&self.context, &rows, GlobalStats::Counted)?;
        let engine = Engine::from_rows(index, &rows, None, self.token_counter.clone())?;
        *fallback = Some(FallbackEngine {
            rows: rows.len(),
            engine: engine.clone(),
        });
        Ok(Some(engine))
    }
}

/// Loads all rows of a snapshot, and returns an engine of them.
fn load_engine(
    store: &RedisStore,
    head: &SnapshotHead,
    context: &SnapshotContext,
    cache: &RowCache,
    parts: &EngineParts,
) -> Result<Engine, StoreError> {
    let rows = gather(
        store,
        head,
        cache,
        store.keys(head, READ_TIMEOUT)?,
        READ_TIMEOUT,
    )?;
    if rows.len() != head.counts.tools {
        let reason = format!(
            "it has {} tools, but only {} rows",
            head.counts.tools,
            rows.len()
        );
        return Err(store.damaged("the snapshot", reason));
    }
    let rows = sort_rows(rows);
    rows.par_iter()
        .try_for_each(|(key, row)| read_definition(store, key, row).map(drop))?;
    let index = Index::from_records(context, &rows, GlobalStats::Counted)?;
    let token_counter = parts.token_counter.clone();
    Ok(Engine::from_rows(index, &rows, None, token_counter)?)
}
