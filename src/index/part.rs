//! A shard index: an index over some tools of a snapshot that scores them as the complete index
//! does.
//!
//! The [`Row`] of a tool holds the data that depends on this tool alone. Statistics over all tools
//! come with the shard: the number of tools, their average length and the document frequencies of
//! the request's terms. The scores of a shard therefore equal those of the complete snapshot.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use foldhash::{HashMap, HashMapExt};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::clones::UntrustedClones;
use super::duplicates::DuplicateGroups;
use super::recent::RecentCache;
use super::row::{self, DamagedRow, Row, RowKey, SourceKey, ToolRelations};
use super::segment::Segments;
use super::sources::{DocumentFrequencies, SourceIndex, SourceRow, SourceTotals};
use super::terms::{TermKey, number};
use super::vectors::Vectors;
use super::{ExampleIndex, ExampleTotals, Index, IndexError};
use crate::catalog::{Catalog, CatalogStats};
use crate::embed::Embedder;
use crate::index::KeywordIndex;
use crate::names::{NameTable, ResolvedVia};
use crate::ranking::ToolId;

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
    examples: (usize, u64),
    /// The mean vector of a sample of tools, by each model.
    mean: Vec<Vec<f32>>,
}

/// The largest sample for the mean vector of all tools. It is large enough for a good estimate.
const MAX_SAMPLE: usize = 1_024;

/// A model with its number in the snapshot.
pub type NumberedModel = (usize, Arc<dyn Embedder>);

/// The data of a complete snapshot that its shards need.
pub struct SnapshotContext {
    /// Policies and sizes of the complete catalog.
    pub catalog_stats: Arc<CatalogStats>,
    counts: SnapshotCounts,
    source_totals: Option<Arc<SourceTotals>>,
    /// The available models, each with its number in the snapshot.
    pub embedders: Vec<NumberedModel>,
    /// The number of models with vectors in the snapshot.
    models: usize,
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
    tools: DocumentFrequencies,
    sources: DocumentFrequencies,
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
    /// [`DamagedRow`] if the statistics belong to other models or contain an invalid number.
    pub fn new(
        catalog_stats: CatalogStats,
        counts: SnapshotCounts,
        dimensions: &[usize],
        embedders: Vec<NumberedModel>,
    ) -> Result<Self, DamagedRow> {
        let is_mean = |(mean, &dimensions): (&Vec<f32>, &usize)| {
            mean.len() == dimensions && row::is_sum(mean, 1)
        };
        let has_means = counts.mean.len() == dimensions.len()
            && counts.mean.iter().zip(dimensions).all(is_mean);
        let source_totals = match counts.sources {
            Some((_, average)) if !(average.is_finite() && average >= 0.0) => {
                return Err(row::damaged_row("sources with an invalid average length"));
            }
            Some(_) if !has_means => {
                return Err(row::damaged_row("a model without the mean of its vectors"));
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
            models: dimensions.len(),
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

    /// Makes a catalog of these tools with the policies of the complete catalog.
    fn catalog(&self, rows: &[(RowKey, Arc<Row>)]) -> Catalog {
        Catalog::shard(
            &self.catalog_stats,
            rows.iter().map(|(_, row)| row.shard_tool()).collect(),
        )
    }

    /// Returns the vectors of segments by each available model.
    fn vectors(&self, segments: &Segments) -> Vec<Vectors> {
        let vectors = |(model, embedder): &NumberedModel| {
            Vectors::new(Arc::clone(embedder), segments.clone(), *model)
        };
        self.embedders.iter().map(vectors).collect()
    }
}

/// Makes the source index of a shard. A tool whose source has no row is a single-tool source.
fn shard_sources(
    rows: &[(RowKey, Arc<Row>)],
    sources: &HashMap<SourceKey, Arc<SourceRow>>,
    totals: &Arc<SourceTotals>,
    document_frequencies: DocumentFrequencies,
) -> SourceIndex {
    let mut source_numbers = Vec::with_capacity(rows.len());
    let mut source_rows = Vec::new();
    let mut numbers_by_key = HashMap::new();
    for (_, row) in rows {
        let source_number = if let Some(key) = row.source
            && let Some(source_row) = sources.get(&key)
        {
            *numbers_by_key.entry(key).or_insert_with(|| {
                source_rows.push(Arc::clone(source_row));
                source_rows.len() - 1
            })
        } else {
            source_rows.push(Arc::new(row.single_tool_source()));
            source_rows.len() - 1
        };
        source_numbers.push(number(source_number));
    }
    SourceIndex::from_rows(source_numbers, source_rows, totals, document_frequencies)
}

impl Index {
    /// Indexes some tools of a snapshot, in its order, for a request with the given terms.
    /// `sources` contains a row for each shared source of these tools.
    pub fn from_shard(
        context: &SnapshotContext,
        rows: &[(RowKey, Arc<Row>)],
        sources: &HashMap<SourceKey, Arc<SourceRow>>,
        terms: RequestTerms,
    ) -> Result<Self, IndexError> {
        let mut source_index = None;
        if let Some(totals) = &context.source_totals {
            source_index = Some(shard_sources(rows, sources, totals, terms.sources));
        }
        let SnapshotCounts { tools, length, .. } = context.counts;
        let keyword =
            KeywordIndex::from_shard(Segments::from_rows(rows), tools, length, terms.tools);
        Self::assemble_rows(context, rows, context.catalog(rows), source_index, keyword)
    }

    /// Indexes the available tools of a snapshot, even if some are missing. Statistics are counted
    /// over the available tools.
    pub fn from_rows(
        context: &SnapshotContext,
        rows: &[(RowKey, Arc<Row>)],
    ) -> Result<Self, IndexError> {
        let catalog = context.catalog(rows);
        let segments = Segments::from_rows(rows).merge(context.models);
        let sources = SourceIndex::new(&catalog, &segments.postings());
        Self::assemble_rows(context, rows, catalog, sources, KeywordIndex::new(segments))
    }

    /// Assembles an index from rows.
    fn assemble_rows(
        context: &SnapshotContext,
        rows: &[(RowKey, Arc<Row>)],
        catalog: Catalog,
        sources: Option<SourceIndex>,
        keyword: KeywordIndex,
    ) -> Result<Self, IndexError> {
        let mut ids: HashMap<RowKey, ToolId> = HashMap::with_capacity(rows.len());
        for (position, (key, _)) in (0..).zip(rows) {
            ids.insert(*key, ToolId(position));
        }
        let mut clones = BTreeMap::new();
        for (key, row) in rows {
            if row.originals.is_empty() {
                continue;
            }
            let mut originals = Vec::new();
            for original in &row.originals {
                originals.extend(ids.get(original));
            }
            clones.insert(ids[key], originals);
        }
        Ok(Self {
            names: NameTable::open_unlogged(&catalog)?,
            duplicates: DuplicateGroups::new(&catalog, keyword.segments()),
            clones: UntrustedClones::from_known(clones),
            vectors: context.vectors(keyword.segments()),
            keyword,
            original_words: RecentCache::default(),
            last_eligibility: Mutex::default(),
            sources,
            catalog,
            left_out: None,
            cache: None,
        })
    }

    /// Returns the statistics over all tools.
    pub fn counts(&self, examples: Option<&ExampleIndex>) -> SnapshotCounts {
        let step = self.catalog.len().div_ceil(MAX_SAMPLE).max(1);
        let sample: Vec<ToolId> = self.catalog.ids().step_by(step).collect();
        let mut means = Vec::with_capacity(self.vectors.len());
        for vectors in &self.vectors {
            let mut mean = vectors.sum(&sample);
            for value in &mut mean {
                *value /= sample.len().max(1) as f32;
            }
            means.push(mean);
        }
        SnapshotCounts {
            tools: self.catalog.len(),
            length: self.keyword.segments().length(),
            sources: self.sources.as_ref().map(SourceIndex::totals),
            examples: examples
                .map(ExampleIndex::definition_totals)
                .unwrap_or_default(),
            mean: means,
        }
    }

    /// Returns every term with the number of tools that contain it.
    pub fn term_counts(&self) -> impl Iterator<Item = (u64, u32)> {
        let terms = self.keyword.segments().single().postings.terms();
        let frequencies = terms.ranges().map(|postings| number(postings.len()));
        terms.keys().iter().map(|term| term.0).zip(frequencies)
    }

    /// Returns the row key of each source by source number; `None` for a single-tool source.
    fn source_keys(&self) -> Vec<Option<SourceKey>> {
        let Some(sources) = &self.sources else {
            return Vec::new();
        };
        let mut keys = vec![None; sources.len()];
        for id in self.catalog.ids() {
            let (source, tools) = sources.find(id);
            let key = &mut keys[source as usize];
            if tools > 1 && key.is_none() {
                let tool = self.catalog.tool(id);
                if let Some(source) = &tool.source {
                    *key = Some(SourceKey::new(source, tool.untrusted));
                }
            }
        }
        keys
    }

    /// Returns the row key and the relations of each tool to the other tools.
    pub fn tool_relations(&self, models: &[String]) -> Vec<(RowKey, ToolRelations)> {
        let (digests, sources) = (self.catalog.digests(), self.source_keys());
        let relations_without_clones = |id: ToolId| {
            let tool = self.catalog.tool(id);
            let source = match &self.sources {
                Some(index) => sources[index.find(id).0 as usize],
                None => None,
            };
            let owns_name = || {
                let mut owners = self.names.owners(&tool.name).iter();
                owners.any(|owner| owner.tool == id && owner.via == ResolvedVia::Name)
            };
            ToolRelations {
                has_bare_name: !tool.untrusted || owns_name(),
                source,
                originals: Vec::new(),
            }
        };
        let keyed_relations = |id: ToolId| {
            let relations = relations_without_clones(id);
            (relations.key(&digests[id.index()], models), relations)
        };
        let ids = (0..self.catalog.len())
            .into_par_iter()
            .map(ToolId::from_index);
        let mut tool_relations: Vec<(RowKey, ToolRelations)> = ids.map(keyed_relations).collect();
        // Clones are untrusted. Their originals are trusted and are not clones, so their keys are
        // final.
        for (clone, originals) in self.clones.all() {
            let mut original_keys = Vec::with_capacity(originals.len());
            for original in originals {
                original_keys.push(tool_relations[original.index()].0);
            }
            let (key, relations) = &mut tool_relations[clone.index()];
            relations.originals = original_keys;
            *key = relations.key(&digests[clone.index()], models);
        }
        tool_relations
    }

    /// Returns the shared sources that `is_wanted` accepts, with their rows.
    pub fn source_rows(
        &self,
        is_wanted: impl Fn(&SourceKey) -> bool,
    ) -> Vec<(SourceKey, SourceRow)> {
        let Some(sources) = &self.sources else {
            return Vec::new();
        };
        /// The collected data of one source row.
        struct SourceRowBuilder {
            key: SourceKey,
            terms: Vec<TermKey>,
            counts: Vec<u16>,
            tools: Vec<ToolId>,
        }
        let mut builders: Vec<Option<SourceRowBuilder>> = Vec::with_capacity(sources.len());
        for key in self.source_keys() {
            let mut builder = None;
            if let Some(key) = key
                && is_wanted(&key)
            {
                builder = Some(SourceRowBuilder {
                    key,
                    terms: Vec::new(),
                    counts: Vec::new(),
                    tools: Vec::new(),
                });
            }
            builders.push(builder);
        }
        for id in self.catalog.ids() {
            if let Some(builder) = &mut builders[sources.find(id).0 as usize] {
                builder.tools.push(id);
            }
        }
        sources.each_term(|term, containing, counts| {
            for (&source, &count) in containing.iter().zip(counts) {
                if let Some(builder) = &mut builders[source as usize] {
                    builder.terms.push(term);
                    builder.counts.push(count);
                }
            }
        });
        let mut rows = Vec::new();
        for builder in builders.into_iter().flatten() {
            let mut sums = Vec::with_capacity(self.vectors.len());
            for vectors in &self.vectors {
                sums.push(vectors.sum(&builder.tools));
            }
            let row = SourceRow::new(builder.terms, builder.counts, sums, builder.tools.len());
            rows.push((builder.key, row));
        }
        rows
    }

    /// Returns every term of the sources with the number of sources that contain it. A single-tool
    /// source counts as one.
    pub fn source_term_counts(&self) -> Vec<(u64, u32)> {
        let mut counts = Vec::new();
        if let Some(sources) = &self.sources {
            sources.each_term(|term, containing, _| {
                counts.push((term.0, number(containing.len())));
            });
        }
        counts
    }
}
