//! One snapshot of one catalog: everything that is built once and only read afterwards.
//!
//! What depends on a tool alone lies in segments, which never change and know nothing of each
//! other; what is counted or compared over all tools belongs to the snapshot. So a snapshot answers
//! to the bit as one of the same tools in other segments does. Building makes one segment.

mod before;
mod copies;
mod error;
mod examples;
mod keyword;
mod lately;
mod occurrences;
mod optional;
mod own_words;
mod part;
mod postings;
mod row;
mod rows;
mod segment;
mod sketch;
mod sources;
mod terms;
mod twins;
mod vectors;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::Serialize;

use self::before::Before;
use self::copies::Copies;
use self::lately::Lately;
use self::optional::Coming;
use self::own_words::OwnWords;
pub(crate) use self::rows::Rows;
use self::segment::{Segment, Segments};
pub use error::IndexError;
pub(crate) use examples::ExampleConfig;
pub use examples::{CountedExamples, ExampleIndex, KnownExamples};
pub(crate) use keyword::{IndexedTerm, KeywordIndex};
pub(crate) use optional::{Optional, Source};
pub use part::{Counts, NumberedModel, PartOf, RequestTerms, TermCounts};
pub use row::{DamagedRow, Row, RowKey, SourceKey};
pub use sources::SourceRow;
pub(crate) use sources::{SourceScores, Sources};
pub(crate) use terms::TermKey;
pub(crate) use twins::Twins;
pub(crate) use vectors::{Cosines, RequestVectors, TellingWord, ToolWords, Vectors, products};

use crate::access::{Access, AccessError, Eligibility};
use crate::catalog::Catalog;
use crate::deadline::Deadline;
use crate::embed::{CacheStatus, Embedder, ModelKind};
use crate::names::{NameTable, log_registered};
use crate::ranking::ToolId;
use crate::saved::{SavedError, SavedModel, Writer};
use crate::sync::lock;

/// What a catalog is indexed with.
#[derive(Default)]
pub(crate) struct IndexConfig {
    pub(crate) embedders: Vec<Arc<dyn Embedder>>,
    /// One more model, where it can be had.
    pub(crate) optional: Option<Optional>,
    pub(crate) cache_dir: Option<PathBuf>,
    pub(crate) progress: Progress,
    /// An earlier snapshot, which knows what has not changed.
    pub(crate) before: Option<Arc<Index>>,
}

/// Told how far embedding a catalog has come: texts done, texts in all.
#[derive(Clone, Default)]
pub(crate) struct Progress(pub(crate) Option<Arc<dyn Fn(usize, usize) + Send + Sync>>);

impl Progress {
    fn report(&self, done: usize, total: usize) {
        if let Some(report) = &self.0 {
            report(done, total);
        }
    }
}

/// From so many tools on another thread pays.
const MANY: usize = 2_048;

/// Does one thing here, as models and logs may want it, and another on a thread beside where there
/// are many tools.
fn beside<A, B: Send>(
    tools: usize,
    here: impl FnOnce() -> A,
    there: impl FnOnce() -> B + Send,
) -> (A, B) {
    if tools < MANY {
        return (here(), there());
    }
    std::thread::scope(|scope| {
        let there = scope.spawn(there);
        let here = here();
        (
            here,
            there
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    })
}

/// A catalog with its indexes.
pub struct Index {
    pub(crate) catalog: Catalog,
    pub(crate) names: NameTable,
    pub(crate) twins: Twins,
    pub(crate) copies: Copies,
    pub(crate) keyword: KeywordIndex,
    own_words: Lately<OwnWords>,
    /// Whom the last request came from, and which tools it could be answered with.
    decided: Mutex<Option<(Access, Arc<Eligibility>)>>,
    /// What the tools of each source say together, where sources tell something.
    pub(crate) sources: Option<Sources>,
    /// One a model; the last one is the model that was chosen.
    pub vectors: Vec<Vectors>,
    /// Why the optional model is not among them.
    pub left_out: Option<String>,
    pub(crate) cache: Option<CacheStatus>,
}

impl Index {
    pub(crate) fn build(catalog: Catalog, mut config: IndexConfig) -> Result<Self, IndexError> {
        let coming = config
            .optional
            .take()
            .map(|optional| optional.start(&catalog, &config));
        let of_segment = || {
            let before = config
                .before
                .take()
                .map(|index| Before::new(index, &catalog));
            let (segment, cache) = Segment::of(&catalog, before.as_ref(), &config)?;
            let sources = Sources::of_catalog(&catalog, &[(0, &segment.postings)])?;
            Ok::<_, IndexError>((segment, cache, sources))
        };
        log_registered(&catalog);
        let (of_segment, names) =
            beside(catalog.len(), of_segment, || NameTable::unlogged(&catalog));
        let (mut segment, mut cache, sources) = of_segment?;
        let (mut embedders, mut left_out) = (config.embedders, None);
        match coming
            .map(|coming| coming.map_or_else(|reason| Ok(Err(reason)), Coming::wait))
            .transpose()?
        {
            Some(Ok((embedder, embedding))) => {
                // Two static models are of no use to each other.
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
        let index = Self::of(
            catalog,
            (names?, sources),
            Segments::new([Arc::new(segment)]),
            embedders,
            cache,
        )?;
        Ok(Self { left_out, ..index })
    }

    /// Indexes another catalog by the same models; what this snapshot knows of the tools that are
    /// the same is taken over.
    pub(crate) fn of_changed(self: &Arc<Self>, catalog: Catalog) -> Result<Self, IndexError> {
        let config = IndexConfig {
            before: Some(Arc::clone(self)),
            ..self.same_models(None)
        };
        Ok(Self {
            left_out: self.left_out.clone(),
            ..Self::build(catalog, config)?
        })
    }

    /// Returns what another catalog is indexed with to be ranked beside this one; `deadline` is
    /// that of the optional model, where there was one.
    pub(crate) fn same_models(&self, deadline: Option<Deadline>) -> IndexConfig {
        let mut embedders: Vec<_> = self
            .vectors
            .iter()
            .map(|vectors| Arc::clone(vectors.embedder()))
            .collect();
        let optional = deadline.and_then(|deadline| {
            let model = match &self.left_out {
                Some(reason) => Source::LeftOut(reason.clone()),
                None => {
                    Source::Open(embedders.pop_if(|embedder| embedder.kind() != ModelKind::Static)?)
                }
            };
            Some(Optional { model, deadline })
        });
        IndexConfig {
            embedders,
            optional,
            ..IndexConfig::default()
        }
    }

    /// Returns the words of a tool, as it has them.
    pub(crate) fn own_words(&self, tool: ToolId) -> Arc<OwnWords> {
        self.own_words.of(tool, OwnWords::default)
    }

    /// Decides on every tool; once for requests that come from the same caller one after the other.
    pub(crate) fn eligibility(&self, access: &Access) -> Result<Arc<Eligibility>, AccessError> {
        let decided = || lock(&self.decided);
        if let Some((_, eligibility)) = decided().as_ref().filter(|(known, _)| known == access) {
            return Ok(Arc::clone(eligibility));
        }
        let eligibility = Arc::new(access.decide(&self.catalog, &self.names)?);
        *decided() = Some((access.clone(), Arc::clone(&eligibility)));
        Ok(eligibility)
    }

    /// Goes without the optional model after all.
    pub(crate) fn leave_out(&mut self, reason: &str) {
        self.vectors
            .retain(|vectors| vectors.embedder().kind() == ModelKind::Static);
        self.left_out = Some(reason.to_owned());
    }

    /// Puts segments together whose tools are those of `catalog`, in order.
    fn of(
        catalog: Catalog,
        (names, sources): (NameTable, Option<Sources>),
        segments: Segments,
        embedders: Vec<Arc<dyn Embedder>>,
        cache: Option<CacheStatus>,
    ) -> Result<Self, IndexError> {
        let vectors = embedders.into_iter().enumerate();
        let vectors = vectors
            .map(|(model, embedder)| Vectors::new(embedder, segments.clone(), model))
            .collect();
        let (twins, copies) = (
            Twins::of_catalog(&catalog, &segments)?,
            Copies::of(&catalog)?,
        );
        let keyword = KeywordIndex::new(segments);
        let (own_words, decided) = Default::default();
        Ok(Self {
            catalog,
            names,
            twins,
            copies,
            keyword,
            own_words,
            decided,
            sources,
            vectors,
            left_out: None,
            cache,
        })
    }

    /// Saves all of it in a folder, in the place of what was saved there before.
    pub(crate) fn save(&self, folder: &Path, note: serde_json::Value) -> Result<(), SavedError> {
        let mut writer = Writer::begin(folder)?;
        self.catalog.save(&mut writer)?;
        self.names.save(&mut writer)?;
        self.keyword.segments().whole().save(&mut writer)?;
        self.twins.save(&mut writer)?;
        self.copies.save(&mut writer)?;
        if let Some(sources) = &self.sources {
            sources.save(&mut writer)?;
        }
        let model = |vectors: &Vectors| SavedModel {
            identity: vectors.embedder().identity().to_owned(),
            dimensions: vectors.embedder().dimensions(),
        };
        let models = self.vectors.iter().map(model).collect();
        writer.finish(self.catalog.digest(), self.catalog.len(), models, note)
    }

    /// As [`build`](Self::build), in segments that end at `cuts`; without a cache.
    #[cfg(test)]
    pub(crate) fn build_cut(
        catalog: Catalog,
        cuts: &[usize],
        config: IndexConfig,
    ) -> Result<Self, IndexError> {
        let segments = Segments::cut(catalog.tools(), cuts, &config)?;
        let of_all = (
            NameTable::of(&catalog)?,
            Sources::of_catalog(&catalog, &segments.postings())?,
        );
        Self::of(catalog, of_all, segments, config.embedders, None)
    }

    /// Returns how much memory each part takes, but for definitions and what is small.
    pub(crate) fn memory(&self) -> Vec<MemoryPart> {
        let segments = self.keyword.segments();
        let sum = |of: fn(&Segment) -> usize| segments.iter().map(|(_, segment)| of(segment)).sum();
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
                sum(|segment| size_of_val(&*segment.likenesses)),
            ),
            ("sources", self.sources.as_ref().map_or(0, Sources::memory)),
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

/// A part of an index, and how much memory it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MemoryPart {
    /// `catalog` (identities and digests, without definitions), `names`, `words`, `vectors`,
    /// `overview` (of the vectors of a large catalog, once it was asked), `likenesses` or
    /// `sources`.
    pub part: &'static str,
    /// Bytes.
    pub bytes: usize,
}

/// What an index holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IndexStats {
    /// Number of tools.
    pub tools: usize,
    /// Number of different sources.
    pub sources: usize,
    /// Number of different terms of the keyword index.
    pub terms: usize,
    /// Dimensions of the embeddings, where there are any.
    pub dimensions: Option<usize>,
    /// Identity of the embedding model, where there is one.
    pub model: Option<String>,
    /// State of the embedding cache, where one is used.
    pub cache: Option<CacheStatus>,
    /// Digest of the catalog.
    pub catalog: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Tool;

    #[test]
    fn what_was_decided_counts_for_the_same_caller_alone() {
        let risky = Tool {
            safe: Some(false),
            ..Tool::without_arguments("wipe", "Wipes a disk")
        };
        let catalog = Catalog::from_tools([Tool::without_arguments("list", "Lists disks"), risky])
            .expect("valid");
        let index = Index::build(catalog, IndexConfig::default()).expect("it can be indexed");
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
        let ask = |access: &Access| index.eligibility(access);
        let first = ask(&careful).expect("it can be decided");
        assert_eq!(first.flags(), [true, false]);
        assert!(Arc::ptr_eq(
            &first,
            &ask(&careful.clone()).expect("it is known")
        ));
        assert_eq!(ask(&unclear).expect_err("NaN"), AccessError::InvalidCost);
        assert_eq!(ask(&bold).expect("it can be decided").flags(), [true, true]);
        assert_eq!(
            ask(&careful).expect("it can be decided").flags(),
            [true, false]
        );
    }
}
