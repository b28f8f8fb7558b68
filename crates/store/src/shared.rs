//! Picking from a catalog that lies in a store.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use rayon::prelude::*;
use serde::Serialize;

use super::first_stage::{FirstStage, name_tag};
use super::head::{Current, Head};
use super::kept::Kept;
use super::reading::{definition, gather, in_order, of_bytes};
use super::{READ, ROWS_AT_ONCE, RedisStore, SnapshotStatus, Store, StoreError, lock};
use picktools::Mode;
use picktools::deadline::Deadline;
use picktools::embed::{Embedder, ModelKind, StaticEmbedder};
use picktools::engine::{Embeddings, Engine};
use picktools::options::{PickError, PickOptions};
use picktools::query::Query;
use picktools::selection::{Degraded, Selection, SnapshotReport, Stage, StageReport, StageStatus};
use picktools::shard::{
    Index, IndexError, NumberedModel, PartOf, RequestTerms, Row, RowKey, SourceKey, SourceRow,
    TermCounts,
};
use picktools::tokens::TokenCounter;

/// How often is looked whether another snapshot was published.
const LOOK: Duration = Duration::from_millis(200);
/// How far it is from a tool to what it requires, and what that requires.
const MOST_STEPS: usize = 16;
/// How long a store that failed is not asked for.
const PAUSE: Duration = Duration::from_secs(1);

/// How a shared catalog is picked from.
#[derive(Clone)]
pub struct SharedOptions {
    /// The model beside the static one, where the catalog was published with one.
    pub model: Option<Arc<dyn Embedder>>,
    /// How many tools are kept here that were candidates last, some 4 KiB each: what picks rest on
    /// while the store cannot be reached.
    pub keep: usize,
    /// A snapshot of at most so many tools is kept here whole and picked from here: the store is
    /// then needed for changes alone.
    pub whole: usize,
    /// Counts definitions for token budgets, as
    /// [`EngineBuilder::token_counter`](picktools::EngineBuilder::token_counter) does.
    pub token_counter: Option<Arc<dyn TokenCounter>>,
}

impl Default for SharedOptions {
    fn default() -> Self {
        Self {
            model: None,
            keep: 50_000,
            whole: 50_000,
            token_counter: None,
        }
    }
}

impl std::fmt::Debug for SharedOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let model = self.model.as_ref().map(|model| model.identity());
        f.debug_struct("SharedOptions")
            .field("model", &model)
            .field("keep", &self.keep)
            .field("whole", &self.whole)
            .finish_non_exhaustive()
    }
}

/// How it stands with a store, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SharedState {
    /// The snapshot that picks rest on.
    pub snapshot: SnapshotStatus,
    /// How many of its tools are kept here.
    pub kept: usize,
    /// Whether the snapshot is kept here whole.
    pub whole: bool,
    /// What is wrong with the store; absent where it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// How often it could not be used since this engine was opened.
    pub failures: u64,
}

/// A catalog in a store, to be picked from. It follows what is published: a thread looks five times
/// a second. Cloning is cheap.
#[derive(Clone)]
pub struct SharedEngine(Arc<Shared>);

struct Shared {
    store: RedisStore,
    parts: EngineParts,
    /// The most tools of a snapshot that is kept whole.
    whole: usize,
    kept: Kept,
    snapshot: Mutex<Arc<Snapshot>>,
    fault: Mutex<Fault>,
    stop: Arc<(Mutex<bool>, Condvar)>,
}

/// The parts that engines over a snapshot are built with.
struct EngineParts {
    here: Vec<Arc<dyn Embedder>>,
    /// The one that was asked for, beside or in place of the static one.
    asked: Option<String>,
    token_counter: Option<Arc<dyn TokenCounter>>,
}

impl EngineParts {
    /// Returns those that a snapshot has vectors by, each with its number there. Of others that
    /// were published the vectors are not used; one that is asked for must be among them.
    fn of(&self, head: &Head) -> Result<Vec<NumberedModel>, StoreError> {
        let find = |(number, (name, dimensions)): (usize, &(String, usize))| {
            let is_it = |embedder: &&Arc<dyn Embedder>| {
                embedder.identity() == name && embedder.dimensions() == *dimensions
            };
            Some((number, Arc::clone(self.here.iter().find(is_it)?)))
        };
        let found: Vec<NumberedModel> = head.models.iter().enumerate().filter_map(find).collect();
        let is_among = |asked: &String| {
            found
                .iter()
                .any(|(_, embedder)| embedder.identity() == asked)
        };
        if self.asked.as_ref().is_some_and(|asked| !is_among(asked))
            || found.is_empty() && !head.models.is_empty()
        {
            return Err(StoreError::Models {
                published: models(head.models.iter().map(|(name, _)| name.as_str())),
                here: models(self.here.iter().map(|embedder| embedder.identity())),
            });
        }
        Ok(found)
    }
}

fn models<'m>(names: impl Iterator<Item = &'m str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        "no model".to_owned()
    } else {
        format!("the models {}", names.join(", "))
    }
}

/// A snapshot, as far as it is known here.
struct Snapshot {
    head: Head,
    of: Arc<PartOf>,
    /// All of it, where it is kept whole.
    whole: Option<Engine>,
    token_counter: Option<Arc<dyn TokenCounter>>,
    /// What was kept when the store was last needed and failed: the number of rows, and an engine
    /// of them.
    standing_in: Mutex<Option<(usize, Engine)>>,
}

/// What is wrong with the store.
#[derive(Default)]
struct Fault {
    reason: Option<String>,
    /// Until when it is not asked.
    until: Option<Instant>,
    failures: u64,
    /// Whether a pick could not be served.
    of_picks: bool,
}

/// What the store is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    ForAPick,
    ToFollow,
}

impl std::fmt::Debug for SharedEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedEngine")
            .field("store", &self.0.store)
            .field("state", &self.state())
            .finish()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        *lock(&self.stop.0) = true;
        self.stop.1.notify_all();
    }
}

impl SharedEngine {
    /// Opens the catalog that was published last.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the store cannot be reached, holds nothing, or holds a catalog that was
    /// published with other models.
    pub fn open(store: RedisStore, options: SharedOptions) -> Result<Self, StoreError> {
        let SharedOptions {
            model,
            keep,
            whole,
            token_counter,
        } = options;
        let asked = model.as_ref().map(|model| model.identity().to_owned());
        let mut parts = EngineParts {
            here: Vec::new(),
            asked,
            token_counter,
        };
        if model
            .as_ref()
            .is_none_or(|model| model.kind() != ModelKind::Static)
        {
            parts
                .here
                .push(StaticEmbedder::shared().map_err(IndexError::from)?);
        }
        parts.here.extend(model);
        let current = store
            .current(store.timeout())?
            .ok_or_else(|| store.empty())?;
        let kept = Kept::new(keep.max(super::MAX_CANDIDATES));
        let snapshot = Snapshot::load(&store, &current, &parts, &kept, whole)?;
        let snapshot = Mutex::new(Arc::new(snapshot));
        let (fault, stop) = (Mutex::default(), Arc::default());
        let shared = Arc::new(Shared {
            store,
            parts,
            whole,
            kept,
            snapshot,
            fault,
            stop,
        });
        let follower = Arc::downgrade(&shared);
        let stop = Arc::clone(&shared.stop);
        let following = std::thread::Builder::new().name("picktools-store".to_owned());
        let begun = following.spawn(move || follow(&follower, &stop));
        if let Err(error) = begun {
            return Err(StoreError::Catalog {
                reason: format!("no thread can be started to follow it: {error}"),
            });
        }
        Ok(Self(shared))
    }

    /// Tells how it stands with the store.
    pub fn state(&self) -> SharedState {
        let snapshot = self.0.snapshot();
        let fault = lock(&self.0.fault);
        let whole = snapshot.whole.is_some();
        SharedState {
            snapshot: SnapshotStatus::from(&snapshot.head.current),
            kept: if whole {
                snapshot.head.current.tools
            } else {
                self.0.kept.len()
            },
            whole,
            fault: fault.reason.clone(),
            failures: fault.failures,
        }
    }

    /// Picks the tools that `query` needs, as [`Engine::pick`] does. While the store cannot be
    /// used, from what is kept here, which stands in [`Selection::degraded`].
    ///
    /// # Errors
    ///
    /// As [`Engine::pick`]; where nothing is kept either, [`PickError::Worker`] tells what is wrong
    /// with the store.
    pub fn pick(&self, query: &Query, options: &PickOptions) -> Result<Selection, PickError> {
        let mut snapshot = self.0.snapshot();
        if let Some(whole) = &snapshot.whole {
            let fault = lock(&self.0.fault).reason.clone();
            let mut selection = whole.pick(query, options)?;
            selection.snapshot = Some(snapshot.report(None));
            if let Some(reason) = fault {
                let reason = format!(
                    "{reason}; picked from snapshot {} as it is kept here",
                    snapshot.head.current.version
                );
                selection
                    .degraded
                    .insert(0, Degraded::new(Stage::Store, reason));
            }
            return Ok(selection);
        }
        options.check()?;
        let deadline = Deadline::after(options.timeout);
        let mut embeddings = Embeddings::default();
        let ask = |of: &Snapshot, embeddings: &mut _| {
            self.0.candidates(of, query, options, deadline, embeddings)
        };
        let pick = |engine: &Engine, embeddings: &mut _| {
            let timeout = deadline
                .instant()
                .map(|end| end.saturating_duration_since(Instant::now()));
            let selection = engine.pick_embedded(
                query,
                &PickOptions {
                    timeout,
                    ..options.clone()
                },
                embeddings,
            )?;
            Ok((selection, engine.catalog().len()))
        };
        let asked = self.0.ready().and_then(|()| {
            let mut asked = ask(&snapshot, &mut embeddings);
            if let Err(StoreError::Damaged { .. }) = &asked
                && let Some(successor) = self.0.successor(&snapshot, self.0.within(deadline))
            {
                asked = ask(&successor, &mut embeddings);
                snapshot = successor;
            }
            let picked = match asked.map(|engine| pick(&engine, &mut embeddings)) {
                // A definition whose outline could be read.
                Ok(Err(PickError::Saved { reason })) => Err(self.0.damaged_late(reason)),
                picked => picked,
            };
            picked.inspect_err(|error| self.0.failed(error, Asked::ForAPick))
        });
        let ((mut selection, candidates), failed) = match asked {
            Ok(picked) => (picked?, None),
            Err(error) => match snapshot.stand_in(&self.0.kept)? {
                Some(engine) => (pick(&engine, &mut embeddings)?, Some(error)),
                None => {
                    return Err(PickError::Worker {
                        reason: error.to_string(),
                    });
                }
            },
        };
        selection.snapshot = Some(snapshot.report(Some(candidates)));
        let status = match &failed {
            None => StageStatus::Ran,
            Some(error) => StageStatus::Failed {
                reason: error.to_string(),
            },
        };
        selection
            .stages
            .insert(0, StageReport::new(Stage::Store, status));
        if let Some(error) = failed {
            let reason = format!(
                "{error}; picked from the {candidates} tools of {} that are kept here",
                snapshot.head.current.tools
            );
            selection
                .degraded
                .insert(0, Degraded::new(Stage::Store, reason));
        }
        Ok(selection)
    }
}

impl Shared {
    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.snapshot))
    }

    /// Whether the store may be asked: not for a while after it failed, so that not every request
    /// waits for it.
    fn ready(&self) -> Result<(), StoreError> {
        let fault = lock(&self.fault);
        match (&fault.reason, fault.until) {
            (Some(reason), Some(until)) if Instant::now() < until => Err(StoreError::Unavailable {
                address: self.store.address().to_owned(),
                reason: format!("not asked again yet: {reason}"),
            }),
            _ => Ok(()),
        }
    }

    fn failed(&self, error: &StoreError, asked: Asked) {
        let mut fault = lock(&self.fault);
        if fault.reason.is_none() {
            tracing::warn!(target: "picktools::store", %error, "the store cannot be used; picks rest on what is kept here");
        }
        fault.reason = Some(error.to_string());
        fault.until = Some(Instant::now() + PAUSE);
        fault.failures += 1;
        fault.of_picks |= asked == Asked::ForAPick;
    }

    fn works(&self, asked: Asked) {
        let mut fault = lock(&self.fault);
        // What a pick could not get is there again when a pick gets it.
        if fault.of_picks && asked == Asked::ToFollow {
            return;
        }
        fault.of_picks = false;
        if fault.reason.take().is_some() {
            tracing::info!(target: "picktools::store", "the store answers again");
        }
        fault.until = None;
    }

    /// Keeps no row that turned out to be damaged when all of its definition was needed.
    fn damaged_late(&self, reason: String) -> StoreError {
        let damaged = self
            .kept
            .all()
            .into_iter()
            .filter(|(_, row)| row.tool.is_damaged());
        self.kept.drop_rows(damaged.map(|(key, _)| key));
        self.store.damaged("a row", reason)
    }

    /// How long the store may take to answer.
    fn within(&self, deadline: Deadline) -> Duration {
        match deadline.instant() {
            // Half of what is left is for ranking.
            Some(end) => self
                .store
                .timeout()
                .min(end.saturating_duration_since(Instant::now()) / 2),
            None => self.store.timeout(),
        }
    }

    /// Waits for the snapshot that has taken the place of one whose generation was removed; `None`
    /// where none has, or not in time.
    fn successor(&self, of: &Arc<Snapshot>, within: Duration) -> Option<Arc<Snapshot>> {
        let end = Instant::now() + within;
        if self.store.current(within).ok()?? == of.head.current {
            return None;
        }
        while Instant::now() < end {
            let now = self.snapshot();
            if !Arc::ptr_eq(&now, of) {
                return Some(now);
            }
            std::thread::sleep(LOOK / 20);
        }
        None
    }

    /// Asks the store for candidates and makes an engine of them.
    fn candidates(
        &self,
        snapshot: &Snapshot,
        query: &Query,
        options: &PickOptions,
        deadline: Deadline,
        embeddings: &mut Embeddings,
    ) -> Result<Engine, StoreError> {
        let (store, head) = (&self.store, &snapshot.head);
        let within = || self.within(deadline);
        let mode = if snapshot.of.embedders.is_empty() {
            Mode::Keyword
        } else {
            Mode::Hybrid
        };
        let mode = options.mode.unwrap_or(mode);
        let mut embedded = Vec::new();
        if mode.uses_semantic() && !query.is_blank() {
            let embedders = &snapshot.of.embedders;
            let reads =
                |embedder: &dyn Embedder| embedders.len() == 1 || embedder.reads(query.wanted());
            for (model, embedder) in embedders
                .iter()
                .filter(|(_, embedder)| reads(embedder.as_ref()))
            {
                if let Ok(vectors) = embeddings.of(embedder, query, deadline) {
                    let rows = [&vectors.request, &vectors.conversation]
                        .into_iter()
                        .flatten();
                    embedded.extend(rows.map(|rows| (*model, rows.clone())));
                }
            }
        }
        let first = FirstStage::new(query, options, mode, &embedded, &snapshot.of.whole);
        let published = head.current.published;
        let terms = first.terms();
        let mut counts = self.kept.terms(published, terms.iter().copied());
        let unknown: Vec<u64> = terms
            .iter()
            .copied()
            .filter(|term| !counts.contains_key(term))
            .collect();
        let told = store.term_counts(head, &unknown, within())?;
        let told: Vec<(u64, TermCounts)> = unknown.into_iter().zip(told).collect();
        counts.extend(told.iter().copied());
        self.kept.keep_terms(published, told.into_iter());
        let holding = |term: u64| {
            counts
                .get(&term)
                .map_or(0, |counts| counts.tools.saturating_add(counts.examples))
        };
        let found = store.candidates(head, &first, &holding, within())?;
        let mut rows = self.rows(head, found, within())?;
        // What tools require comes along by name, and what that requires; and what copies copy by
        // key.
        let mut named = first.names.clone();
        for _ in 0..MOST_STEPS {
            let required = rows
                .values()
                .flat_map(|row| &row.tool.outline().requires)
                .map(|name| name_tag(name));
            let required: BTreeSet<u64> = required.filter(|name| !named.contains(name)).collect();
            let originals = rows.values().flat_map(|row| &row.copies).copied();
            let mut more: BTreeSet<RowKey> = originals.collect();
            if !required.is_empty() {
                named.extend(&required);
                let asked = FirstStage {
                    texts: Vec::new(),
                    vectors: Vec::new(),
                    names: required,
                    filter: Default::default(),
                };
                more.extend(store.candidates(head, &asked, &holding, within())?);
            }
            more.retain(|key| !rows.contains_key(key));
            if more.is_empty() {
                break;
            }
            rows.extend(self.rows(head, more, within())?);
        }
        let ordered = in_order(rows);
        let keys: BTreeSet<SourceKey> = ordered.iter().filter_map(|(_, row)| row.source).collect();
        let sources = self.sources(head, &keys, within())?;
        let mut request_terms = RequestTerms::default();
        counts
            .iter()
            .for_each(|(&term, &counts)| request_terms.insert(term, counts));
        self.works(Asked::ForAPick);
        let examples = snapshot.of.counted_examples(&request_terms);
        let index = Index::part(&snapshot.of, &ordered, &sources, request_terms)?;
        Ok(Engine::of_rows(
            index,
            &ordered,
            Some(examples),
            self.parts.token_counter.clone(),
        )?)
    }

    /// Returns those of the rows that are of the snapshot.
    fn rows(
        &self,
        head: &Head,
        keys: BTreeSet<RowKey>,
        within: Duration,
    ) -> Result<HashMap<RowKey, Arc<Row>>, StoreError> {
        let found: Vec<RowKey> = keys.into_iter().collect();
        let mut rows = self.kept.rows(found.iter().copied());
        let unknown: Vec<RowKey> = found
            .iter()
            .copied()
            .filter(|key| !rows.contains_key(key))
            .collect();
        let (are_current, lie_there) = self.store.found_rows(head, &found, &unknown, within)?;
        let current: BTreeSet<RowKey> = found
            .iter()
            .zip(are_current)
            .filter(|(_, is)| *is)
            .map(|(key, _)| *key)
            .collect();
        if current.is_empty() && !found.is_empty() && !self.store.has_tools(head, within)? {
            return Err(self
                .store
                .damaged("the snapshot", "it does not tell which tools it has"));
        }
        let (wanted, lie_there): (Vec<RowKey>, Vec<_>) = unknown
            .into_iter()
            .zip(lie_there)
            .filter(|(key, _)| current.contains(key))
            .unzip();
        let read = of_bytes(&self.store, head, &wanted, lie_there)?;
        self.kept.keep(read.iter().cloned());
        rows.retain(|key, _| current.contains(key));
        rows.extend(read);
        // One that went meanwhile is not of the snapshot any more.
        let missing: Vec<RowKey> = wanted
            .into_iter()
            .filter(|key| !rows.contains_key(key))
            .collect();
        let are_current = self.store.are_current(head, &missing, within)?;
        match missing.iter().zip(are_current).find(|(_, is)| *is) {
            Some((key, _)) => Err(self
                .store
                .damaged(format!("the row {key}"), "it is not there")),
            None => Ok(rows),
        }
    }

    fn sources(
        &self,
        head: &Head,
        keys: &BTreeSet<SourceKey>,
        within: Duration,
    ) -> Result<HashMap<SourceKey, Arc<SourceRow>>, StoreError> {
        let published = head.current.published;
        let mut sources = self.kept.sources(published, keys.iter().copied());
        let unknown: Vec<SourceKey> = keys
            .iter()
            .copied()
            .filter(|key| !sources.contains_key(key))
            .collect();
        let mut read = Vec::with_capacity(unknown.len());
        for (key, bytes) in unknown
            .iter()
            .zip(self.store.sources(head, &unknown, within)?)
        {
            // One that has gone meanwhile says nothing.
            let Some(bytes) = bytes else { continue };
            let row = SourceRow::of_bytes(&bytes, &head.models)
                .map_err(|damaged| self.store.damaged(format!("the source {key}"), damaged))?;
            read.push((*key, Arc::new(row)));
        }
        self.kept.keep_sources(published, read.iter().cloned());
        sources.extend(read);
        Ok(sources)
    }

    /// Looks whether another snapshot was published, and goes on with that.
    fn look(&self) -> Result<(), StoreError> {
        let current = self
            .store
            .current(self.store.timeout())?
            .ok_or_else(|| self.store.empty())?;
        let before = self.snapshot();
        if current != before.head.current {
            if current.version < before.head.current.version {
                tracing::warn!(
                    target: "picktools::store",
                    from = before.head.current.version, to = current.version,
                    "the store has gone back to an older snapshot"
                );
            }
            let snapshot =
                Snapshot::load(&self.store, &current, &self.parts, &self.kept, self.whole)?;
            // What is gone shall not stand in for anything.
            let rows: Vec<RowKey> = self.kept.all().into_iter().map(|(key, _)| key).collect();
            for rows in rows.chunks(ROWS_AT_ONCE) {
                let are = self
                    .store
                    .are_current(&snapshot.head, rows, self.store.timeout())?;
                self.kept.drop_rows(
                    rows.iter()
                        .zip(are)
                        .filter(|(_, is)| !*is)
                        .map(|(key, _)| *key),
                );
            }
            *lock(&self.snapshot) = Arc::new(snapshot);
        }
        Ok(())
    }
}

/// Looks for other snapshots for as long as the engine is there.
fn follow(shared: &Weak<Shared>, stop: &(Mutex<bool>, Condvar)) {
    loop {
        let stopped = stop
            .1
            .wait_timeout_while(lock(&stop.0), LOOK, |stopped| !*stopped);
        if *stopped.unwrap_or_else(PoisonError::into_inner).0 {
            return;
        }
        let Some(shared) = shared.upgrade() else {
            return;
        };
        match shared.look() {
            Ok(()) => shared.works(Asked::ToFollow),
            Err(error) => shared.failed(&error, Asked::ToFollow),
        }
    }
}

impl Snapshot {
    fn load(
        store: &RedisStore,
        current: &Current,
        parts: &EngineParts,
        kept: &Kept,
        most: usize,
    ) -> Result<Self, StoreError> {
        let head = store.head(current, READ)?;
        let embedders = parts.of(&head)?;
        let whole = head
            .whole()
            .map_err(|reason| store.damaged("the snapshot", reason))?;
        let dimensions: Vec<usize> = head
            .models
            .iter()
            .map(|(_, dimensions)| *dimensions)
            .collect();
        let of = PartOf::new(whole, head.counts.clone(), &dimensions, embedders);
        let of = Arc::new(of.map_err(|damaged| store.damaged("the snapshot", damaged))?);
        let whole = if head.counts.tools <= most {
            Some(Self::whole(store, &head, &of, kept, parts)?)
        } else {
            None
        };
        let token_counter = parts.token_counter.clone();
        Ok(Self {
            head,
            of,
            whole,
            token_counter,
            standing_in: Mutex::default(),
        })
    }

    /// Reads all of a snapshot.
    fn whole(
        store: &RedisStore,
        head: &Head,
        of: &PartOf,
        kept: &Kept,
        parts: &EngineParts,
    ) -> Result<Engine, StoreError> {
        let rows = gather(store, head, kept, store.keys(head, READ)?, READ)?;
        if rows.len() != head.counts.tools {
            let reason = format!(
                "it has {} tools, and {} of them lie there",
                head.counts.tools,
                rows.len()
            );
            return Err(store.damaged("the snapshot", reason));
        }
        let rows = in_order(rows);
        rows.par_iter()
            .try_for_each(|(key, row)| definition(store, key, row).map(drop))?;
        Ok(Engine::of_rows(
            Index::whole(of, &rows)?,
            &rows,
            None,
            parts.token_counter.clone(),
        )?)
    }

    fn report(&self, candidates: Option<usize>) -> SnapshotReport {
        let Current { version, tools, .. } = self.head.current;
        SnapshotReport::new(version, tools, candidates)
    }

    /// Returns an engine of the tools that are kept here; `None` where there are none.
    fn stand_in(&self, kept: &Kept) -> Result<Option<Engine>, PickError> {
        let mut standing_in = lock(&self.standing_in);
        if standing_in
            .as_ref()
            .is_none_or(|(rows, _)| *rows < kept.len())
        {
            let (rows, damaged): (Vec<_>, Vec<_>) = kept
                .all()
                .into_par_iter()
                .partition(|(_, row)| row.whole().is_ok());
            kept.drop_rows(damaged.into_iter().map(|(key, _)| key));
            let rows = in_order(rows);
            if rows.is_empty() {
                return Ok(None);
            }
            let engine = Engine::of_rows(
                Index::whole(&self.of, &rows)?,
                &rows,
                None,
                self.token_counter.clone(),
            )?;
            *standing_in = Some((rows.len(), engine));
        }
        Ok(standing_in.as_ref().map(|(_, engine)| engine.clone()))
    }
}
