//! One snapshot of one catalog: everything that is built once and only read afterwards.
//!
//! What depends on a tool alone lies in segments, which never change and know nothing of each other; what is counted or
//! compared over all tools belongs to the snapshot. So a snapshot answers to the bit as one of the same tools in other
//! segments does. Building makes one segment.

mod error;
mod forward;
mod keyword;
mod postings;
mod segment;
mod twins;
mod vectors;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use self::segment::{Segment, Segments};
pub use error::IndexError;
pub(crate) use keyword::{IndexedTerm, KeywordIndex};
pub(crate) use twins::Twins;
pub(crate) use vectors::{RequestVectors, Vectors, products};

use crate::access::PolicyTable;
use crate::catalog::Catalog;
use crate::embed::{CacheStatus, Embedder};
use crate::names::NameTable;

/// What a catalog is indexed with.
#[derive(Default)]
pub(crate) struct IndexConfig {
    pub(crate) embedders: Vec<Arc<dyn Embedder>>,
    pub(crate) cache_dir: Option<PathBuf>,
    pub(crate) progress: Progress,
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

/// A catalog with its indexes.
pub(crate) struct Index {
    pub(crate) catalog: Catalog,
    pub(crate) names: NameTable,
    pub(crate) policies: PolicyTable,
    pub(crate) twins: Twins,
    pub(crate) keyword: KeywordIndex,
    /// One a model; the last one is the model that was chosen.
    pub(crate) vectors: Vec<Vectors>,
    pub(crate) cache: Option<CacheStatus>,
}

impl Index {
    pub(crate) fn build(catalog: Catalog, config: IndexConfig) -> Result<Self, IndexError> {
        let (segment, cache) = Segment::build(catalog.tools(), &config)?;
        Self::of(catalog, Segments::new([Arc::new(segment)]), config.embedders, cache)
    }

    /// Puts segments together whose tools are those of `catalog`, in order.
    fn of(
        catalog: Catalog,
        segments: Segments,
        embedders: Vec<Arc<dyn Embedder>>,
        cache: Option<CacheStatus>,
    ) -> Result<Self, IndexError> {
        let vectors = embedders.into_iter().enumerate();
        let vectors = vectors.map(|(model, embedder)| Vectors::new(embedder, segments.clone(), model)).collect();
        let names = NameTable::new(&catalog);
        let policies = PolicyTable::new(&catalog);
        let twins = Twins::new(&segments);
        let keyword = KeywordIndex::new(segments)?;
        Ok(Self { catalog, names, policies, twins, keyword, vectors, cache })
    }

    /// As [`build`](Self::build), in segments that end at `cuts`; without a cache.
    #[cfg(test)]
    pub(crate) fn build_cut(catalog: Catalog, cuts: &[usize], config: IndexConfig) -> Result<Self, IndexError> {
        let segments = Segments::cut(catalog.tools(), cuts, &config)?;
        Self::of(catalog, segments, config.embedders, None)
    }

    pub(crate) fn stats(&self) -> IndexStats {
        IndexStats {
            tools: self.catalog.len(),
            sources: self.policies.sources(),
            terms: self.keyword.distinct_terms(),
            dimensions: self.vectors.last().map(|vectors| vectors.embedder().dimensions()),
            model: self.vectors.last().map(|vectors| vectors.embedder().identity().to_owned()),
            cache: self.cache.clone(),
            catalog: self.catalog.digest().to_owned(),
        }
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("stats", &self.stats()).finish_non_exhaustive()
    }
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
