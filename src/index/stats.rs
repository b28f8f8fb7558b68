//! Statistics over all tools of a snapshot, on which scores depend.
//!
//! An index counts them over its records. The records of a shard are a part of a snapshot, so the
//! statistics are given to it: the number of tools, their average length and the document
//! frequencies of the request's terms. The scores of a shard therefore equal those of the complete
//! snapshot.

use std::sync::Arc;

use foldhash::HashMap;
use serde::{Deserialize, Serialize};

use super::row::SourceKey;
use super::source_row::{SourceRow, is_sum};
use super::terms::TermKey;
use crate::catalog::CatalogStats;
use crate::embed::Embedder;
use crate::saved::DamagedBytes;

/// The statistics for an index.
pub enum GlobalStats<'s> {
    /// Counted over the records of the index.
    Counted,
    /// Given for a request, because the records are a part of a snapshot.
    Given {
        /// The document frequencies of the request's terms.
        terms: RequestTerms,
        /// A row for each shared source of the records.
        sources: &'s HashMap<SourceKey, Arc<SourceRow>>,
    },
}

/// Document frequencies: for each term of a request, the number of documents that contain it. The
/// documents are tools, sources or examples.
pub(crate) type DocumentFrequencies = HashMap<TermKey, u32>;

/// Totals over all sources of a catalog.
#[derive(Debug)]
pub(crate) struct SourceTotals {
    pub(crate) sources: usize,
    /// The average length of a source.
    pub(crate) average: f32,
    /// The mean of the tools' vectors, by each model.
    pub(super) mean: Vec<Vec<f32>>,
}

/// Totals over the examples in the definitions of all tools of a snapshot.
#[derive(Debug, Clone, Default)]
pub struct ExampleTotals {
    /// The number of examples.
    pub(super) number: usize,
    /// The total number of their words.
    pub(super) words: u64,
    /// The number of examples that contain each term of a request.
    pub(super) document_frequencies: DocumentFrequencies,
}

/// Statistics over all tools of a snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotCounts {
    /// Number of tools.
    pub tools: usize,
    /// The total length of all tools, in units of the field weights.
    pub(crate) length: u64,
    /// The number of sources and their average length; `None` if source scoring is off.
    pub(crate) sources: Option<(usize, f32)>,
    /// The number of examples in definitions, and the total number of their words.
    pub(super) examples: (usize, u64),
    /// The mean vector of a sample of tools, by each model.
    pub(super) mean: Vec<Vec<f32>>,
}

/// A model with its number in the snapshot.
pub type NumberedModel = (usize, Arc<dyn Embedder>);

/// The data of a complete snapshot that its shards need.
pub struct SnapshotContext {
    /// Policies and sizes of the complete catalog.
    pub catalog_stats: Arc<CatalogStats>,
    pub(super) counts: SnapshotCounts,
    pub(super) source_totals: Option<Arc<SourceTotals>>,
    /// The available models, each with its number in the snapshot.
    pub embedders: Vec<NumberedModel>,
}

/// The document frequencies of a term: among tools, sources and examples in definitions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TermCounts {
    /// Number of tools that contain the term.
    pub tools: u32,
    /// Number of sources that contain the term.
    pub sources: u32,
    /// Number of examples that contain the term.
    pub examples: u32,
}

/// The document frequencies of each term of a request.
#[derive(Debug, Clone, Default)]
pub struct RequestTerms {
    pub(super) tools: DocumentFrequencies,
    pub(super) sources: DocumentFrequencies,
    examples: DocumentFrequencies,
}

impl RequestTerms {
    /// Sets the document frequencies of a term.
    pub fn insert(&mut self, term: u64, counts: TermCounts) {
        let term = TermKey(term);
        self.tools.insert(term, counts.tools);
        self.sources.insert(term, counts.sources);
        self.examples.insert(term, counts.examples);
    }
}

impl SnapshotContext {
    /// Takes the statistics of a snapshot, the dimensions of its vectors by each model and the
    /// available models.
    ///
    /// # Errors
    ///
    /// [`DamagedBytes`] if the statistics belong to other models or contain an invalid number.
    pub fn new(
        catalog_stats: CatalogStats,
        counts: SnapshotCounts,
        dimensions: &[usize],
        embedders: Vec<NumberedModel>,
    ) -> Result<Self, DamagedBytes> {
        let is_mean =
            |(mean, &dimensions): (&Vec<f32>, &usize)| mean.len() == dimensions && is_sum(mean, 1);
        let has_means = counts.mean.len() == dimensions.len()
            && counts.mean.iter().zip(dimensions).all(is_mean);
        let source_totals = match counts.sources {
            Some((_, average)) if !(average.is_finite() && average >= 0.0) => {
                return Err(DamagedBytes::new("sources with an invalid average length"));
            }
            Some(_) if !has_means => {
                return Err(DamagedBytes::new("a model without the mean of its vectors"));
            }
            Some((sources, average)) => Some(Arc::new(SourceTotals {
                sources,
                average,
                mean: counts.mean.clone(),
            })),
            None => None,
        };
        Ok(Self {
            catalog_stats: Arc::new(catalog_stats),
            counts,
            source_totals,
            embedders,
        })
    }

    /// Returns the totals over the examples in all definitions, for requests with these terms.
    pub fn example_totals(&self, terms: &RequestTerms) -> ExampleTotals {
        let (number, words) = self.counts.examples;
        ExampleTotals {
            number,
            words,
            document_frequencies: terms.examples.clone(),
        }
    }
}
