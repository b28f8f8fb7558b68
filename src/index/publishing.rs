//! The data of an index that a store publishes: rows, and statistics over all tools.

use std::sync::Arc;

use rayon::prelude::*;

use super::examples::{ExampleIndex, definition_terms};
use super::record::ToolRecord;
use super::row::{Row, RowKey, SourceKey, ToolRelations};
use super::rows::Rows;
use super::snapshot::Index;
use super::source_row::SourceRow;
use super::sources::SourceIndex;
use super::stats::SnapshotCounts;
use super::terms::{TermKey, number};
use crate::catalog::Tool;
use crate::names::ResolvedVia;
use crate::ranking::ToolId;
use crate::saved::SavedError;
use crate::text::Analyzer;

/// The largest sample for the mean vector of all tools. It is large enough for a good estimate.
const MAX_SAMPLE: usize = 1_024;

impl Row {
    /// Collects the data of a tool from an index.
    pub fn collect(
        index: &Index,
        examples: Option<&ExampleIndex>,
        tool: ToolId,
        definition: &Arc<Tool>,
        relations: ToolRelations,
    ) -> Self {
        let mut vectors = Vec::with_capacity(index.vectors.len());
        for model_vectors in &index.vectors {
            let row = std::iter::once((model_vectors.rows(), tool.index()));
            vectors.extend(Rows::gather(row));
        }
        let record = Analyzer::lend(|analyzer| ToolRecord::analyze(definition, analyzer));
        let ToolRelations {
            has_bare_name,
            source,
            originals,
        } = relations;
        Self {
            digest: index.catalog.digests()[tool.index()],
            tool: Arc::new(Arc::clone(definition).into()),
            position: tool.0,
            has_bare_name,
            source,
            originals,
            record: record.with_vectors(vectors),
            examples: examples
                .map(|examples| examples.definition_vectors(tool))
                .unwrap_or_default(),
        }
    }

    /// Returns the distinct terms of each example in the definition that counts.
    pub fn example_terms(&self) -> Vec<Vec<u64>> {
        definition_terms(self.tool.outline())
    }
}

impl Index {
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
            length: self.keyword.postings().total_length(),
            sources: self.sources.as_ref().map(SourceIndex::totals),
            examples: examples
                .map(ExampleIndex::definition_totals)
                .unwrap_or_default(),
            mean: means,
        }
    }

    /// Returns every term with the number of tools that contain it.
    pub fn term_counts(&self) -> impl Iterator<Item = (u64, u32)> {
        let terms = self.keyword.postings().terms();
        let frequencies = terms.ranges().map(|postings| number(postings.len()));
        terms.keys().iter().map(|term| term.0).zip(frequencies)
    }

    /// Returns the row key of each source by source number; `None` for a single-tool source.
    fn source_keys(&self) -> Result<Vec<Option<SourceKey>>, SavedError> {
        let Some(sources) = &self.sources else {
            return Ok(Vec::new());
        };
        let mut keys = vec![None; sources.len()];
        for id in self.catalog.ids() {
            let (source, tools) = sources.find(id);
            let key = &mut keys[source as usize];
            if tools > 1 && key.is_none() {
                let tool = self.catalog.outline(id)?;
                if let Some(source) = &tool.source {
                    *key = Some(SourceKey::new(source, tool.untrusted));
                }
            }
        }
        Ok(keys)
    }

    /// Returns the row key and the relations of each tool to the other tools.
    ///
    /// # Errors
    ///
    /// [`SavedError`] if the definition of a tool cannot be read.
    pub fn tool_relations(
        &self,
        models: &[String],
    ) -> Result<Vec<(RowKey, ToolRelations)>, SavedError> {
        let (digests, sources) = (self.catalog.digests(), self.source_keys()?);
        let outlines = self.catalog.outlines()?;
        let relations_without_clones = |id: ToolId| {
            let tool = outlines[id.index()];
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
        Ok(tool_relations)
    }

    /// Returns the shared sources that `is_wanted` accepts, with their rows.
    ///
    /// # Errors
    ///
    /// [`SavedError`] if the definition of a tool cannot be read.
    pub fn source_rows(
        &self,
        is_wanted: impl Fn(&SourceKey) -> bool,
    ) -> Result<Vec<(SourceKey, SourceRow)>, SavedError> {
        let Some(sources) = &self.sources else {
            return Ok(Vec::new());
        };
        /// The collected data of one source row.
        struct SourceRowBuilder {
            key: SourceKey,
            terms: Vec<TermKey>,
            counts: Vec<u16>,
            tools: Vec<ToolId>,
        }
        let mut builders: Vec<Option<SourceRowBuilder>> = Vec::with_capacity(sources.len());
        for key in self.source_keys()? {
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
        Ok(rows)
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::catalog::{Catalog, CatalogStats};
    use crate::embed::{Embedder, StaticEmbedder};
    use crate::index::{
        GlobalStats, IndexConfig, NumberedModel, RequestTerms, SnapshotContext, TermCounts,
    };
    use crate::text::TermKind;

    const WORDS: [&str; 6] = ["read", "file", "mail", "room", "map", "report"];

    /// A catalog of 40 tools of five sources. The last four equal the first ones.
    fn catalog() -> Catalog {
        let tools = (0..40).map(|number| {
            let words = [1, 2, 3, 5, 7].map(|step| WORDS[number * step % WORDS.len()]);
            let name = format!("{}_{}", words[0], number % 36);
            let mut tool = Tool::without_arguments(name, words.join(" "));
            tool.source = Some(format!("source_{}", number % 5));
            tool.id = tool.qualified_name();
            tool
        });
        Catalog::from_tools(tools).expect("the ids differ")
    }

    /// Returns the serialised and restored rows of an index, with its statistics.
    fn published(index: &Index) -> (SnapshotContext, Vec<(RowKey, Arc<Row>)>) {
        let embedders: Vec<NumberedModel> = index
            .vectors
            .iter()
            .map(|vectors| (vectors.model(), Arc::clone(vectors.embedder())))
            .collect();
        let models: Vec<(String, usize)> = embedders
            .iter()
            .map(|(_, model)| (model.identity().to_owned(), model.dimensions()))
            .collect();
        let names: Vec<String> = models.iter().map(|(name, _)| name.clone()).collect();
        let mut rows = Vec::new();
        let relations = index.tool_relations(&names).expect("in memory");
        for (id, (key, relations)) in index.catalog.ids().zip(relations) {
            let tool = index.catalog.tool(id).expect("in memory");
            let bytes = Row::collect(index, None, id, tool, relations).to_bytes();
            let row = Row::from_bytes(&bytes, key, &models).expect("intact");
            rows.push((key, Arc::new(row)));
        }
        let dimensions: Vec<usize> = models.iter().map(|(_, dimensions)| *dimensions).collect();
        let stats = CatalogStats::from_catalog(&index.catalog).expect("in memory");
        let context = SnapshotContext::new(stats, index.counts(None), &dimensions, embedders);
        (context.expect("valid"), rows)
    }

    /// Returns the bits of the BM25 contributions of each word to each tool.
    fn contributions(index: &Index) -> Vec<Vec<(usize, u32)>> {
        let contributions = |word: &&str| {
            let term = index.keyword.look_up(TermKey::new(word), TermKind::Word);
            let term = term.expect("a tool contains it");
            let contributions = index.keyword.contributions(&term);
            contributions
                .map(|(tool, value)| (tool, value.to_bits()))
                .collect()
        };
        WORDS.iter().map(contributions).collect()
    }

    #[test]
    fn index_of_rows_equals_the_built_index() {
        let embedders: Vec<Arc<dyn Embedder>> = vec![StaticEmbedder::shared().expect("built in")];
        let config = IndexConfig {
            embedders,
            ..IndexConfig::default()
        };
        let built = Index::build(catalog(), config).expect("indexed");
        assert_eq!(built.duplicates.len(), 8);
        let (context, rows) = published(&built);
        let mut terms = RequestTerms::default();
        let sources: BTreeMap<u64, u32> = built.source_term_counts().into_iter().collect();
        for (term, tools) in built.term_counts() {
            let counts = TermCounts {
                tools,
                sources: sources[&term],
                examples: 0,
            };
            terms.insert(term, counts);
        }
        let source_rows = built.source_rows(|_| true).expect("in memory").into_iter();
        let source_rows = source_rows.map(|(key, row)| (key, Arc::new(row))).collect();
        let given = || GlobalStats::Given {
            terms: terms.clone(),
            sources: &source_rows,
        };
        for stats in [GlobalStats::Counted, given()] {
            let index = Index::from_records(&context, &rows, stats).expect("indexed");
            assert_eq!(contributions(&index), contributions(&built));
            assert_eq!(
                index.vectors[0].rows().parts(),
                built.vectors[0].rows().parts()
            );
            assert_eq!(index.duplicates.len(), built.duplicates.len());
            let keywords = |index: &Index| {
                let words = WORDS.map(|word| (TermKey::new(word), TermKind::Word, 1.0));
                let sources = index.sources.as_ref().expect("source scoring is on");
                let scores: Vec<f32> = sources.keyword(words.into_iter()).by_tool().collect();
                scores
            };
            assert_eq!(keywords(&index), keywords(&built));
        }
        // The scores of a part are those of the complete index.
        let part = Index::from_records(&context, &rows[..7], given()).expect("indexed");
        let expected = contributions(&built).into_iter().map(|tools| {
            let in_part = tools.into_iter().filter(|(tool, _)| *tool < 7);
            in_part.collect::<Vec<_>>()
        });
        assert_eq!(contributions(&part), expected.collect::<Vec<_>>());
    }
}
