//! The index of one snapshot of a catalog. It is built once and only read afterwards.
//!
//! Segments hold the data that depends on a single tool. They never change and do not depend on
//! each other. The snapshot holds the data that is counted or compared over all tools. A snapshot
//! therefore gives bit-identical results however its tools are divided into segments. A build makes
//! one segment.

mod clones;
mod duplicates;
mod error;
mod examples;
mod keyword;
mod occurrences;
mod optional;
mod original_words;
mod part;
mod postings;
mod previous;
mod recent;
mod row;
mod rows;
mod segment;
mod sketch;
mod sources;
mod terms;
mod vectors;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::Serialize;

use self::clones::UntrustedClones;
use self::original_words::OriginalWords;
use self::previous::PreviousIndex;
use self::recent::RecentCache;
pub(crate) use self::rows::Rows;
use self::segment::{Segment, Segments};
pub(crate) use duplicates::DuplicateGroups;
pub use error::IndexError;
pub(crate) use examples::ExampleConfig;
pub use examples::{ExampleIndex, ExampleTotals, KnownExamples};
pub(crate) use keyword::{IndexedTerm, KeywordIndex};
pub(crate) use optional::{OptionalModel, OptionalModelState};
pub use part::{NumberedModel, RequestTerms, SnapshotContext, SnapshotCounts, TermCounts};
pub use row::{DamagedRow, Row, RowKey, SourceKey, ToolRelations};
pub use sources::SourceRow;
pub(crate) use sources::{SourceIndex, SourceScores};
pub(crate) use terms::TermKey;
pub(crate) use vectors::{Cosines, ReasonWord, RequestVectors, ToolWords, Vectors, products};

use crate::access::{Access, AccessError, Eligibility};
use crate::catalog::Catalog;
use crate::deadline::Deadline;
use crate::embed::{CacheStatus, Embedder, ModelKind};
use crate::names::{NameTable, log_registered};
use crate::ranking::ToolId;
use crate::saved::{SavedError, SavedModel, Writer};
use crate::sync::lock;

/// Settings and models for indexing a catalog.
#[derive(Default)]
pub(crate) struct IndexConfig {
    pub(crate) embedders: Vec<Arc<dyn Embedder>>,
    /// An additional model that may be unavailable.
    pub(crate) optional: Option<OptionalModel>,
    pub(crate) cache_dir: Option<PathBuf>,
    pub(crate) progress: Progress,
    /// An earlier snapshot. Its data of unchanged tools is reused.
    pub(crate) previous: Option<Arc<Index>>,
}

/// A callback that reports embedding progress: texts done, texts in total.
#[derive(Clone, Default)]
pub(crate) struct Progress(pub(crate) Option<Arc<dyn Fn(usize, usize) + Send + Sync>>);

impl Progress {
    fn report(&self, done: usize, total: usize) {
        if let Some(report) = &self.0 {
            report(done, total);
        }
    }
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

/// The parts of a snapshot that depend on all tools.
struct SnapshotTables {
    names: NameTable,
    /// `None` if source scoring is off.
    sources: Option<SourceIndex>,
}

/// A catalog with its indexes.
pub struct Index {
    pub(crate) catalog: Catalog,
    pub(crate) names: NameTable,
    pub(crate) duplicates: DuplicateGroups,
    pub(crate) clones: UntrustedClones,
    pub(crate) keyword: KeywordIndex,
    original_words: RecentCache<OriginalWords>,
    /// The access policy of the last request with its decision, as a cache of one entry.
    last_eligibility: Mutex<Option<(Access, Arc<Eligibility>)>>,
    /// The source index; `None` if source scoring is off.
    pub(crate) sources: Option<SourceIndex>,
    /// One entry per model; the last one is the selected model.
    pub vectors: Vec<Vectors>,
    /// The reason why the optional model is missing from `vectors`.
    pub left_out: Option<String>,
    pub(crate) cache: Option<CacheStatus>,
}

impl Index {
    pub(crate) fn build(catalog: Catalog, mut config: IndexConfig) -> Result<Self, IndexError> {
        let mut pending_model = None;
        if let Some(optional) = config.optional.take() {
            pending_model = Some(optional.start(&catalog, &config));
        }
        let build_segment = || {
            let mut previous = None;
            if let Some(index) = config.previous.take() {
                previous = Some(PreviousIndex::new(index, &catalog));
            }
            let (segment, cache) = Segment::build_catalog(&catalog, previous.as_ref(), &config)?;
            let sources = SourceIndex::load_or_build(&catalog, &[(0, &segment.postings)])?;
            Ok::<_, IndexError>((segment, cache, sources))
        };
        log_registered(&catalog);
        let (built, names) = run_both(catalog.len(), build_segment, || {
            NameTable::open_unlogged(&catalog)
        });
        let (mut segment, mut cache, sources) = built?;
        let (mut embedders, mut left_out) = (config.embedders, None);
        let optional_model = match pending_model {
            Some(Ok(pending)) => Some(pending.wait()?),
            Some(Err(reason)) => Some(Err(reason)),
            None => None,
        };
        match optional_model {
            Some(Ok((embedder, embedding))) => {
                // Two static models would add nothing to each other.
                if embedder.kind() == ModelKind::Static {
                    embedders.clear();
                    segment.vectors.clear();
                }
                embedders.push(embedder);
                segment.vectors.push(embedding.rows);
                cache = embedding.cache;
            }
            Some(Err(reason)) => left_out = Some(reason),
            None => {}
        }
        let index = Self::assemble(
            catalog,
            SnapshotTables {
                names: names?,
                sources,
            },
            Segments::new([Arc::new(segment)]),
            embedders,
            cache,
        )?;
        Ok(Self { left_out, ..index })
    }

    /// Indexes another catalog with the same models and reuses the data of unchanged tools.
    pub(crate) fn rebuild(self: &Arc<Self>, catalog: Catalog) -> Result<Self, IndexError> {
        let config = IndexConfig {
            previous: Some(Arc::clone(self)),
            ..self.same_models(None)
        };
        Ok(Self {
            left_out: self.left_out.clone(),
            ..Self::build(catalog, config)?
        })
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

    /// Decides on the eligibility of every tool. Consecutive requests with equal access share one
    /// decision.
    pub(crate) fn eligibility(&self, access: &Access) -> Result<Arc<Eligibility>, AccessError> {
        if let Some((last_access, eligibility)) = lock(&self.last_eligibility).as_ref()
            && last_access == access
        {
            return Ok(Arc::clone(eligibility));
        }
        let eligibility = Arc::new(access.decide(&self.catalog, &self.names)?);
        *lock(&self.last_eligibility) = Some((access.clone(), Arc::clone(&eligibility)));
        Ok(eligibility)
    }

    /// Removes the optional model and records the reason.
    pub(crate) fn leave_out(&mut self, reason: &str) {
        self.vectors
            .retain(|vectors| vectors.embedder().kind() == ModelKind::Static);
        self.left_out = Some(reason.to_owned());
    }

    /// Assembles an index from segments that together hold the tools of `catalog`, in order.
    fn assemble(
        catalog: Catalog,
        tables: SnapshotTables,
        segments: Segments,
        embedders: Vec<Arc<dyn Embedder>>,
        cache: Option<CacheStatus>,
    ) -> Result<Self, IndexError> {
        let mut vectors = Vec::with_capacity(embedders.len());
        for (model, embedder) in embedders.into_iter().enumerate() {
            vectors.push(Vectors::new(embedder, segments.clone(), model));
        }
        let duplicates = DuplicateGroups::load_or_build(&catalog, &segments)?;
        let clones = UntrustedClones::load_or_build(&catalog)?;
        Ok(Self {
            catalog,
            names: tables.names,
            duplicates,
            clones,
            keyword: KeywordIndex::new(segments),
            original_words: RecentCache::default(),
            last_eligibility: Mutex::default(),
            sources: tables.sources,
            vectors,
            left_out: None,
            cache,
        })
    }

    /// Saves the index to a folder and replaces an earlier index there.
    pub(crate) fn save(&self, folder: &Path, note: serde_json::Value) -> Result<(), SavedError> {
        let mut writer = Writer::begin(folder)?;
        self.catalog.save(&mut writer)?;
        self.names.save(&mut writer)?;
        self.keyword.segments().single().save(&mut writer)?;
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

    /// Works like [`build`](Self::build), with segments that end at `cuts` and without a cache.
    #[cfg(test)]
    pub(crate) fn build_cut(
        catalog: Catalog,
        cuts: &[usize],
        config: IndexConfig,
    ) -> Result<Self, IndexError> {
        let segments = Segments::cut(catalog.tools(), cuts, &config)?;
        let tables = SnapshotTables {
            names: NameTable::open(&catalog)?,
            sources: SourceIndex::load_or_build(&catalog, &segments.postings())?,
        };
        Self::assemble(catalog, tables, segments, config.embedders, None)
    }

    /// Returns the memory use of each part. Definitions and small structures are not counted.
    pub(crate) fn memory(&self) -> Vec<MemoryPart> {
        let segments = self.keyword.segments();
        let sum =
            |bytes: fn(&Segment) -> usize| segments.iter().map(|(_, segment)| bytes(segment)).sum();
        let parts = [
            ("catalog", self.catalog.memory()),
            ("names", self.names.memory()),
            ("words", sum(|segment| segment.postings.memory())),
            (
                "vectors",
                sum(|segment| segment.vectors.iter().map(Rows::memory).sum()),
            ),
            (
                "overview",
                self.vectors.iter().map(Vectors::overview_memory).sum(),
            ),
            (
                "likenesses",
                sum(|segment| size_of_val(&*segment.fingerprints)),
            ),
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
    /// `overview` (of the vectors of a large catalog, once a request needed it), `likenesses`
    /// (definition fingerprints) or `sources`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Tool;

    #[test]
    fn cached_eligibility_applies_to_equal_access_only() {
        let risky = Tool {
            safe: Some(false),
            ..Tool::without_arguments("wipe", "Wipes a disk")
        };
        let catalog = Catalog::from_tools([Tool::without_arguments("list", "Lists disks"), risky])
            .expect("valid");
        let index = Index::build(catalog, IndexConfig::default()).expect("indexed");
        let (careful, bold) = (
            Access::default(),
            Access {
                allow_unsafe: true,
                ..Access::default()
            },
        );
        let unclear = Access {
            max_cost: Some(f64::NAN),
            ..Access::default()
        };
        let decide = |access: &Access| index.eligibility(access);
        let first = decide(&careful).expect("valid access");
        assert_eq!(first.flags(), [true, false]);
        assert!(Arc::ptr_eq(
            &first,
            &decide(&careful.clone()).expect("valid access")
        ));
        assert_eq!(decide(&unclear).expect_err("NaN"), AccessError::InvalidCost);
        assert_eq!(decide(&bold).expect("valid access").flags(), [true, true]);
        assert_eq!(
            decide(&careful).expect("valid access").flags(),
            [true, false]
        );
    }
}
