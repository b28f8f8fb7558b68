//! The columns of an index: the records of all tools, transposed for scoring and for a file.

use std::sync::Arc;

use rayon::prelude::*;

use super::embedding::{Embedding, EmbeddingOptions, embed_tools};
use super::error::IndexError;
use super::postings::Postings;
use super::previous::{PreviousColumns, SnapshotColumns};
use super::record::{DefinitionFingerprint, ToolRecord, stored_fingerprint};
use super::rows::Rows;
use super::stats::NumberedModel;
use super::vectors::Vectors;
use super::vocabulary::Vocabulary;
use crate::catalog::{Catalog, Tool};
use crate::embed::{CacheStatus, Embedder};
use crate::saved::{SavedError, SavedFile, SavedModel, Writer};
use crate::text::Analyzer;

/// The number of tools per run: small enough to occupy all cores, large enough to keep the number
/// of runs low. The records of a run take a few megabytes.
const TOOLS_PER_RUN: usize = 1024;
/// The fewest tools of a run that are worth a task of their own.
const MIN_TOOLS_PER_TASK: usize = 32;

/// The section of a saved index that holds definition fingerprints. Zeros mark a missing
/// fingerprint.
const FINGERPRINTS: &str = "likenesses";

/// The records of all tools, by what they hold.
pub(super) struct Columns {
    pub(super) postings: Postings,
    /// One fingerprint per tool; `None` for a short description.
    pub(super) fingerprints: Vec<Option<DefinitionFingerprint>>,
    /// One entry per model.
    pub(super) vectors: Vec<Vectors>,
    /// The words of all tools; empty for records, which have no words.
    pub(super) vocabulary: Vocabulary,
}

impl Columns {
    /// Makes the columns of a catalog. Returns them with the cache state of the last model, if it
    /// has a cache.
    ///
    /// The columns of the index that the catalog was opened from are read. Those of unchanged tools
    /// are copied from an earlier snapshot. All other tools are analysed and embedded.
    pub(super) fn build(
        catalog: &Catalog,
        previous: Option<&PreviousColumns<'_>>,
        embedders: &[Arc<dyn Embedder>],
        options: EmbeddingOptions<'_>,
    ) -> Result<(Self, Option<CacheStatus>), IndexError> {
        let mut columns = match (catalog.saved(), previous) {
            (Some(file), _) => Self {
                postings: Postings::open(file)?,
                fingerprints: open_fingerprints(file)?,
                vectors: Vec::new(),
                vocabulary: Vocabulary::open(file)?,
            },
            (None, Some(previous)) => {
                let new = Self::analyze(&previous.new_tools(catalog)?);
                Self {
                    postings: previous.merge_postings(&new.postings),
                    fingerprints: previous.merge_fingerprints(&new.fingerprints),
                    vectors: Vec::new(),
                    vocabulary: previous.merge_vocabulary(&new.vocabulary)?,
                }
            }
            (None, None) => Self::analyze(catalog.tools()?),
        };
        let mut cache = None;
        for (model, embedder) in embedders.iter().enumerate() {
            let embedding = catalog_vectors(catalog, previous, embedder.as_ref(), options)?;
            let vectors = Vectors::new(Arc::clone(embedder), embedding.rows, model);
            columns.vectors.push(vectors);
            cache = embedding.cache;
        }
        Ok((columns, cache))
    }

    /// Transposes records, with their vectors by `models`.
    pub(super) fn from_records(records: &[&ToolRecord], models: &[NumberedModel]) -> Self {
        let runs = records.chunks(TOOLS_PER_RUN);
        let columns = if runs.len() <= 1 {
            Self::transpose(records)
        } else {
            let runs = records.par_chunks(TOOLS_PER_RUN);
            Self::concatenate(runs.map(Self::transpose).collect())
        };
        let mut vectors = Vec::with_capacity(models.len());
        for (model, embedder) in models {
            let rows = records.iter().map(|record| (&record.vectors()[*model], 0));
            let rows = Rows::gather(rows).unwrap_or_default();
            vectors.push(Vectors::new(Arc::clone(embedder), rows, *model));
        }
        Self { vectors, ..columns }
    }

    /// Analyses tools, and transposes their records.
    fn analyze(tools: &[Arc<Tool>]) -> Self {
        if tools.len() <= TOOLS_PER_RUN {
            let share = tools.len().div_ceil(rayon::current_num_threads());
            return Self::analyze_run(tools, share.max(MIN_TOOLS_PER_TASK));
        }
        // There are enough runs for all cores.
        let runs = tools.par_chunks(TOOLS_PER_RUN);
        let columns = runs.map(|tools| Self::analyze_run(tools, TOOLS_PER_RUN));
        Self::concatenate(columns.collect())
    }

    /// Analyses one run of tools, in tasks of this number of tools.
    fn analyze_run(tools: &[Arc<Tool>], tools_per_task: usize) -> Self {
        let tasks = tools.par_chunks(tools_per_task);
        let (records, vocabularies): (Vec<_>, Vec<_>) = tasks.map(analyze_tools).unzip();
        let records: Vec<&ToolRecord> = records.iter().flatten().collect();
        Self {
            vocabulary: Vocabulary::sum(&vocabularies),
            ..Self::transpose(&records)
        }
    }

    /// Transposes the records of one run, without vectors.
    fn transpose(records: &[&ToolRecord]) -> Self {
        Self {
            postings: Postings::from_tools(records.iter().map(|record| record.terms())),
            fingerprints: records.iter().map(|record| record.fingerprint()).collect(),
            vectors: Vec::new(),
            vocabulary: Vocabulary::default(),
        }
    }

    fn concatenate(runs: Vec<Self>) -> Self {
        let postings: Vec<&Postings> = runs.iter().map(|run| &run.postings).collect();
        let vocabularies = runs.iter().map(|run| &run.vocabulary);
        Self {
            postings: Postings::concatenate(&postings),
            vocabulary: Vocabulary::sum(vocabularies),
            fingerprints: runs.into_iter().flat_map(|run| run.fingerprints).collect(),
            vectors: Vec::new(),
        }
    }

    /// Analyses tools in runs that end at `cuts`, given in any order.
    #[cfg(test)]
    pub(super) fn analyze_cut(tools: &[Arc<Tool>], cuts: &[usize]) -> Self {
        let mut ends: Vec<usize> = cuts.iter().map(|&cut| cut.min(tools.len())).collect();
        ends.extend([0, tools.len()]);
        ends.sort_unstable();
        let runs = ends.windows(2);
        Self::concatenate(
            runs.map(|run| Self::analyze(&tools[run[0]..run[1]]))
                .collect(),
        )
    }
}

/// Analyses tools, and counts their words.
fn analyze_tools(tools: &[Arc<Tool>]) -> (Vec<ToolRecord>, Vocabulary) {
    let mut analyzer = Analyzer::new();
    let mut records = Vec::with_capacity(tools.len());
    for tool in tools {
        analyzer.begin_document();
        records.push(ToolRecord::analyze(tool, &mut analyzer));
    }
    (records, Vocabulary::new(analyzer.take_counts()))
}

/// Returns the vectors of a catalog's tools. The index that the catalog was opened from is used if
/// it has the model. Otherwise vectors of the earlier snapshot are reused, and the other tools are
/// embedded.
pub(super) fn catalog_vectors(
    catalog: &Catalog,
    previous: Option<&PreviousColumns<'_>>,
    embedder: &dyn Embedder,
    options: EmbeddingOptions<'_>,
) -> Result<Embedding, IndexError> {
    if let Some(file) = catalog.saved() {
        let model = SavedModel {
            identity: embedder.identity().to_owned(),
            dimensions: embedder.dimensions(),
        };
        if let Some(number) = file.header.models.iter().position(|saved| *saved == model) {
            let rows = Rows::open(&vectors_section(number), file, embedder.dimensions())?;
            return Ok(Embedding { rows, cache: None });
        }
    }
    if let Some(previous) = previous
        && let Some(known) = previous.vectors(embedder)
    {
        let new = embed_tools(&previous.new_tools(catalog)?, embedder, options)?;
        return Ok(Embedding {
            rows: previous.merge_rows(known, &new.rows),
            cache: new.cache,
        });
    }
    embed_tools(catalog.tools()?, embedder, options)
}

impl SnapshotColumns<'_> {
    /// Saves the columns. The header of the file has the model of each matrix.
    pub(super) fn save(self, writer: &mut Writer) -> Result<(), SavedError> {
        self.postings.save(writer)?;
        self.vocabulary.save(writer)?;
        for (model, vectors) in self.vectors.iter().enumerate() {
            vectors.rows().save(&vectors_section(model), writer)?;
        }
        let mut fingerprints = Vec::with_capacity(self.fingerprints.len());
        for fingerprint in self.fingerprints {
            fingerprints.push(fingerprint.unwrap_or_default());
        }
        writer.numbers(FINGERPRINTS, &fingerprints)
    }
}

/// Returns the section of a saved index that holds the vectors of a model.
fn vectors_section(model: usize) -> String {
    format!("vectors.{model}")
}

fn open_fingerprints(file: &SavedFile) -> Result<Vec<Option<DefinitionFingerprint>>, SavedError> {
    let fingerprints: Vec<DefinitionFingerprint> = file.numbers(FINGERPRINTS)?;
    file.ensure(fingerprints.len() == file.header.tools, FINGERPRINTS)?;
    Ok(fingerprints.into_iter().map(stored_fingerprint).collect())
}
