//! The index of one snapshot of a catalog.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::Serialize;

use super::clones::UntrustedClones;
use super::columns::Columns;
use super::duplicates::DuplicateGroups;
use super::embedding::{EmbeddingOptions, Progress};
use super::error::IndexError;
use super::keyword::{KeywordIndex, KeywordTotals};
use super::optional::{OptionalModel, OptionalModelState};
use super::original_words::OriginalWords;
use super::previous::{PreviousColumns, SnapshotColumns};
use super::recent::RecentCache;
use super::record::{DefinitionFingerprint, ToolRecord};
use super::row::{Row, RowKey};
use super::sources::SourceIndex;
use super::stats::{GlobalStats, SnapshotContext};
use super::tags::TagIndex;
use super::vectors::Vectors;
use super::vocabulary::Vocabulary;
use crate::access::{Access, AccessError, Eligibility};
use crate::catalog::Catalog;
use crate::deadline::Deadline;
use crate::embed::{CacheStatus, Embedder, ModelKind};
use crate::names::{NameTable, log_registered};
use crate::ranking::ToolId;
use crate::saved::{SavedError, SavedModel, Writer};

/// Settings and models for indexing a catalog.
#[derive(Default)]
pub(crate) struct IndexConfig {
    pub(crate) embedders: Vec<Arc<dyn Embedder>>,
    /// An additional model that may be unavailable.
    pub(crate) optional: Option<OptionalModel>,
    pub(crate) cache_dir: Option<PathBuf>,
    pub(crate) progress: Progress,
    /// `true` if the tags have no vectors of their own, as those of skills.
    pub(crate) without_tags: bool,
}

/// The smallest catalog, in tools, for which a second thread saves time.
const TWO_THREADS_MIN_TOOLS: usize = 2_048;

/// Runs `main_task` on this thread and `other_task` on a second thread if the catalog has many
/// tools. `main_task` stays on this thread because models and logs may need it.
fn run_both<A, B: Send>(
    tools: usize,
    main_task: impl FnOnce() -> A,
    other_task: impl FnOnce() -> B + Send,
) -> (A, B) {
    if tools < TWO_THREADS_MIN_TOOLS {
        return (main_task(), other_task());
    }
    std::thread::scope(|scope| {
        let other_thread = scope.spawn(other_task);
        let main_result = main_task();
        let other_result = other_thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (main_result, other_result)
    })
}

/// The parts of an index that depend on several tools.
struct Statistics {
    /// `None` if they are counted.
    keyword: Option<KeywordTotals>,
    /// `None` if source scoring is off.
    sources: Option<SourceIndex>,
    duplicates: DuplicateGroups,
    clones: UntrustedClones,
}

/// A catalog with its indexes.
pub struct Index {
    pub(crate) catalog: Catalog,
    pub(crate) names: NameTable,
    pub(crate) duplicates: DuplicateGroups,
    pub(crate) clones: UntrustedClones,
    pub(crate) keyword: KeywordIndex,
    /// The words of the tools; empty for a part of a catalog in a store.
    pub(crate) vocabulary: Vocabulary,
    /// One fingerprint per tool; `None` for a short description.
    fingerprints: Vec<Option<DefinitionFingerprint>>,
    original_words: RecentCache<OriginalWords>,
    /// The decision of the default access policy.
    default_eligibility: OnceLock<Arc<Eligibility>>,
    /// The source index; `None` if source scoring is off.
    pub(crate) sources: Option<SourceIndex>,
    /// One entry per model; the last one is the selected model.
    pub vectors: Vec<Vectors>,
    /// The vectors of tags; `None` without any.
    pub(crate) tags: Option<TagIndex>,
    /// The reason why the optional model is missing from `vectors`.
    pub left_out: Option<String>,
    pub(crate) cache: Option<CacheStatus>,
}

impl Index {
    /// Indexes a catalog.
    pub(crate) fn build(catalog: Catalog, config: IndexConfig) -> Result<Self, IndexError> {
        Self::build_reusing(catalog, config, None)
    }

    /// Indexes another catalog with the same models and reuses the data of unchanged tools.
    pub(crate) fn rebuild(&self, catalog: Catalog) -> Result<Self, IndexError> {
        let config = self.same_models(None);
        Ok(Self {
            left_out: self.left_out.clone(),
            ..Self::build_reusing(catalog, config, Some(self))?
        })
    }

    /// Indexes a catalog, and copies the columns of the tools that are in an earlier snapshot.
    fn build_reusing(
        catalog: Catalog,
        config: IndexConfig,
        earlier: Option<&Self>,
    ) -> Result<Self, IndexError> {
        let IndexConfig {
            embedders,
            optional,
            cache_dir,
            progress,
            without_tags,
        } = config;
        let pending_model =
            optional.map(|model| model.start(&catalog, cache_dir.clone(), progress.clone()));
        let build_columns = || {
            let previous = earlier
                .map(|index| PreviousColumns::new((index.columns(), &index.catalog), &catalog));
            let options = EmbeddingOptions {
                cache_dir: cache_dir.as_deref(),
                progress: &progress,
                deadline: Deadline::at(None),
            };
            let (columns, cache) =
                Columns::build(&catalog, previous.as_ref(), &embedders, options)?;
            let sources = SourceIndex::load_or_build(&catalog, &columns.postings)?;
            Ok::<_, IndexError>((columns, cache, sources))
        };
        log_registered(&catalog);
        let (built, names) = run_both(catalog.len(), build_columns, || {
            NameTable::unlogged(&catalog)
        });
        let (mut columns, mut cache, sources) = built?;
        let mut left_out = None;
        let optional_model = match pending_model {
            Some(Ok(pending)) => Some(pending.wait()?),
            Some(Err(reason)) => Some(Err(reason)),
            None => None,
        };
        match optional_model {
            Some(Ok((embedder, embedding))) => {
                // Two static models would add nothing to each other.
                if embedder.kind() == ModelKind::Static {
                    columns.vectors.clear();
                }
                let model = columns.vectors.len();
                let vectors = Vectors::new(embedder, embedding.rows, model);
                columns.vectors.push(vectors);
                cache = embedding.cache;
            }
            Some(Err(reason)) => left_out = Some(reason),
            None => {}
        }
        let duplicates = DuplicateGroups::load_or_build(&catalog, &columns.fingerprints)?;
        let clones = UntrustedClones::load_or_build(&catalog)?;
        let statistics = Statistics {
            keyword: None,
            sources,
            duplicates,
            clones,
        };
        let mut index = Self {
            left_out,
            cache,
            ..Self::assemble(catalog, names?, columns, statistics)
        };
        if !without_tags {
            index.embed_tags()?;
        }
        Ok(index)
    }

    /// Indexes the rows of tools of a snapshot, in its order. If statistics are given, the scores
    /// equal those of the complete snapshot.
    pub fn from_records(
        context: &SnapshotContext,
        rows: &[(RowKey, Arc<Row>)],
        stats: GlobalStats<'_>,
    ) -> Result<Self, IndexError> {
        let shard_tools = rows.iter().map(|(_, row)| row.shard_tool()).collect();
        let catalog = Catalog::shard(&context.catalog_stats, shard_tools);
        let records: Vec<&ToolRecord> = rows.iter().map(|(_, row)| &row.record).collect();
        let columns = Columns::from_records(&records, &context.embedders);
        let (keyword, sources) = match stats {
            GlobalStats::Counted => (None, SourceIndex::new(&catalog, &columns.postings)?),
            GlobalStats::Given { terms, sources } => {
                let totals = KeywordTotals {
                    tools: context.counts.tools,
                    length: context.counts.length,
                    frequencies: terms.tools,
                };
                let sources = context
                    .source_totals
                    .as_ref()
                    .map(|totals| SourceIndex::from_rows(rows, sources, totals, terms.sources));
                (Some(totals), sources)
            }
        };
        let statistics = Statistics {
            keyword,
            sources,
            duplicates: DuplicateGroups::new(&catalog, &columns.fingerprints)?,
            clones: UntrustedClones::from_rows(rows),
        };
        let names = NameTable::unlogged(&catalog)?;
        let mut index = Self::assemble(catalog, names, columns, statistics);
        index.embed_tags()?;
        Ok(index)
    }

    fn assemble(
        catalog: Catalog,
        names: NameTable,
        columns: Columns,
        statistics: Statistics,
    ) -> Self {
        Self {
            catalog,
            names,
            duplicates: statistics.duplicates,
            clones: statistics.clones,
            keyword: KeywordIndex::new(columns.postings, statistics.keyword),
            vocabulary: columns.vocabulary,
            fingerprints: columns.fingerprints,
            original_words: RecentCache::default(),
            default_eligibility: OnceLock::new(),
            sources: statistics.sources,
            vectors: columns.vectors,
            tags: None,
            left_out: None,
            cache: None,
        }
    }

    /// Embeds the tags of the tools.
    fn embed_tags(&mut self) -> Result<(), IndexError> {
        let postings = self.keyword.postings();
        self.tags = TagIndex::build(&self.catalog, postings, &self.vectors)?;
        Ok(())
    }

    /// Returns the columns of this snapshot.
    fn columns(&self) -> SnapshotColumns<'_> {
        SnapshotColumns {
            digests: self.catalog.digests(),
            postings: self.keyword.postings(),
            vocabulary: &self.vocabulary,
            fingerprints: &self.fingerprints,
            vectors: &self.vectors,
        }
    }

    /// Returns a configuration with the same models, for a catalog that is ranked together with
    /// this one. `deadline` limits the optional model, if there is one.
    pub(crate) fn same_models(&self, deadline: Option<Deadline>) -> IndexConfig {
        let mut embedders = Vec::with_capacity(self.vectors.len());
        for vectors in &self.vectors {
            embedders.push(Arc::clone(vectors.embedder()));
        }
        let mut optional = None;
        if let Some(deadline) = deadline {
            let is_optional =
                |embedder: &mut Arc<dyn Embedder>| embedder.kind() != ModelKind::Static;
            if let Some(reason) = &self.left_out {
                let model = OptionalModelState::LeftOut(reason.clone());
                optional = Some(OptionalModel { model, deadline });
            } else if let Some(embedder) = embedders.pop_if(is_optional) {
                let model = OptionalModelState::Open(embedder);
                optional = Some(OptionalModel { model, deadline });
            }
        }
        IndexConfig {
            embedders,
            optional,
            ..IndexConfig::default()
        }
    }

    /// Returns the words of a tool in their original spelling.
    pub(crate) fn original_words(&self, tool: ToolId) -> Arc<OriginalWords> {
        self.original_words
            .get_or_compute(tool, OriginalWords::default)
    }

    /// Decides on the eligibility of every tool. The decision of the default policy is kept.
    pub(crate) fn eligibility(&self, access: &Access) -> Result<Arc<Eligibility>, AccessError> {
        let is_default = *access == Access::default();
        if let Some(eligibility) = self.default_eligibility.get().filter(|_| is_default) {
            return Ok(Arc::clone(eligibility));
        }
        let eligibility = Arc::new(access.decide(&self.catalog, &self.names)?);
        if is_default {
            return Ok(Arc::clone(
                self.default_eligibility.get_or_init(|| eligibility),
            ));
        }
        Ok(eligibility)
    }

    /// Removes the optional model and records the reason.
    pub(crate) fn leave_out(&mut self, reason: &str) {
        self.vectors
            .retain(|vectors| vectors.embedder().kind() == ModelKind::Static);
        self.left_out = Some(reason.to_owned());
    }

    /// Saves the index to a folder and replaces an earlier index there.
    pub(crate) fn save(&self, folder: &Path, note: serde_json::Value) -> Result<(), SavedError> {
        let mut writer = Writer::begin(folder)?;
        self.catalog.save(&mut writer)?;
        self.names.save(&mut writer)?;
        self.columns().save(&mut writer)?;
        self.duplicates.save(&mut writer)?;
        self.clones.save(&mut writer)?;
        if let Some(sources) = &self.sources {
            sources.save(&mut writer)?;
        }
        let mut models = Vec::with_capacity(self.vectors.len());
        for vectors in &self.vectors {
            models.push(SavedModel {
                identity: vectors.embedder().identity().to_owned(),
                dimensions: vectors.embedder().dimensions(),
            });
        }
        writer.finish(self.catalog.digest(), self.catalog.len(), models, note)
    }

    /// Works like [`build`](Self::build), with runs that end at `cuts` and without a cache.
    #[cfg(test)]
    pub(crate) fn build_cut(
        catalog: Catalog,
        cuts: &[usize],
        config: IndexConfig,
    ) -> Result<Self, IndexError> {
        let mut index = Self::build(catalog, config)?;
        let columns = Columns::analyze_cut(index.catalog.tools()?, cuts);
        index.sources = SourceIndex::new(&index.catalog, &columns.postings)?;
        index.duplicates = DuplicateGroups::new(&index.catalog, &columns.fingerprints)?;
        index.keyword = KeywordIndex::new(columns.postings, None);
        index.vocabulary = columns.vocabulary;
        Ok(index)
    }

    /// Returns the memory use of each part. Definitions and small structures are not counted.
    pub(crate) fn memory(&self) -> Vec<MemoryPart> {
        let parts = [
            ("catalog", self.catalog.memory()),
            ("names", self.names.memory()),
            (
                "words",
                self.keyword.postings().memory() + self.vocabulary.memory(),
            ),
            (
                "vectors",
                self.vectors
                    .iter()
                    .map(|vectors| vectors.rows().memory())
                    .sum(),
            ),
            (
                "overview",
                self.vectors.iter().map(Vectors::overview_memory).sum(),
            ),
            ("tags", self.tags.as_ref().map_or(0, TagIndex::memory)),
            ("likenesses", size_of_val(&*self.fingerprints)),
            (
                "sources",
                self.sources.as_ref().map_or(0, SourceIndex::memory),
            ),
        ];
        parts
            .into_iter()
            .map(|(part, bytes)| MemoryPart { part, bytes })
            .collect()
    }

    pub(crate) fn stats(&self) -> IndexStats {
        IndexStats {
            tools: self.catalog.len(),
            sources: self.catalog.sources().count(),
            terms: self.keyword.distinct_terms(),
            dimensions: self
                .vectors
                .last()
                .map(|vectors| vectors.embedder().dimensions()),
            model: self
                .vectors
                .last()
                .map(|vectors| vectors.embedder().identity().to_owned()),
            cache: self.cache.clone(),
            catalog: self.catalog.digest().to_owned(),
        }
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// The memory use of one part of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MemoryPart {
    /// `catalog` (identities and digests, without definitions), `names`, `words`, `vectors`,
    /// `overview` (of the vectors of a large catalog, once a request needed it), `tags` (their
    /// vectors), `likenesses` (definition fingerprints) or `sources`.
    pub part: &'static str,
    /// Bytes.
    pub bytes: usize,
}

/// The statistics of an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IndexStats {
    /// Number of tools.
    pub tools: usize,
    /// Number of different sources.
    pub sources: usize,
    /// Number of different terms of the keyword index.
    pub terms: usize,
    /// Dimensions of the embeddings; `None` without a model.
    pub dimensions: Option<usize>,
    /// Identity of the embedding model; `None` without a model.
    pub model: Option<String>,
    /// State of the embedding cache; `None` without a cache.
    pub cache: Option<CacheStatus>,
    /// Digest of the catalog.
    pub catalog: String,
}
