//! The semantic index: one unit vector per tool, with exhaustive search.

use std::sync::{Arc, OnceLock};

use ndarray::{Array1, Array2, ArrayView2, Axis};

use super::dot::products;
use super::embedding::check_shape;
use super::recent::RecentCache;
use super::rows::Rows;
use super::sketch::{self, Sketch};
use super::sources::SourceIndex;
use crate::deadline::Deadline;
use crate::embed::{EmbedError, Embedder, ModelKind, TextRole};
use crate::query::Query;
use crate::ranking::{ScoredTools, ToolId, ToolSet};
use crate::text::Field;

/// The smallest catalog, in tools, with a first pass over sketches.
const OVERVIEW_MIN_TOOLS: usize = 8_192;
/// The smallest number of tools that a first pass selects.
const MIN_NEAR: usize = 256;
/// The number of tools of the catalog for each further selected tool.
const TOOLS_PER_NEAR: usize = 256;
/// The number of rows that are collected for one multiplication.
const ROWS_PER_BATCH: usize = 64;

/// The vectors of a request by one model. The first row is the complete text. Its sentences follow
/// if there are several. A field is `None` if the model knows no word of the text, so that it
/// cannot rank tools.
#[derive(Debug, Default)]
pub struct RequestVectors {
    pub request: Option<Array2<f32>>,
    /// The request together with earlier turns, if it has a context.
    pub conversation: Option<Array2<f32>>,
    /// The model's estimate from the request alone; see [`Embedder::scope`].
    pub(crate) scope: Option<f32>,
}

/// The vectors of all tools by one model, with the model.
pub struct Vectors {
    embedder: Arc<dyn Embedder>,
    /// One unit vector per tool.
    rows: Rows,
    /// The number of the model among those of the snapshot.
    model: usize,
    /// The smallest number of tools that need an overview.
    overview_min_tools: usize,
    /// Built on first use.
    overview: OnceLock<VectorOverview>,
    /// Takes about 8 KiB per tool with vectors of 256 dimensions.
    words: RecentCache<ToolWords>,
}

/// The cosine similarities of tools to the vectors of a request: by vector, then by tool.
#[derive(Debug, Clone)]
pub(crate) struct Cosines {
    pub(crate) scored: ScoredTools,
    pub(crate) tools: Vec<Vec<f32>>,
    /// The cosines of the mean vectors of sources, by vector and then by source. `None` if they
    /// follow from the cosines of all tools.
    pub(crate) sources: Option<Vec<Vec<f32>>>,
}

impl Cosines {
    /// Returns the cosines to one of the vectors.
    pub(crate) fn for_vector(&self, vector: usize) -> Self {
        let one = |all: &Vec<Vec<f32>>| vec![all[vector].clone()];
        Self {
            scored: self.scored.clone(),
            tools: one(&self.tools),
            sources: self.sources.as_ref().map(one),
        }
    }

    /// Keeps the cosines to the first vectors.
    pub(crate) fn truncate(&mut self, vectors: usize) {
        self.tools.truncate(vectors);
        if let Some(sources) = &mut self.sources {
            sources.truncate(vectors);
        }
    }
}

/// Data for the first pass over the vectors of a large catalog.
struct VectorOverview {
    sketch: Sketch,
    /// The mean vectors of sources, one per row; `None` if source scoring is off.
    means: Option<Array2<f32>>,
}

/// The words of a tool that may appear in a reason, with their vectors by a model.
#[derive(Debug, Default)]
pub(crate) struct ToolWords {
    pub(crate) words: Vec<ReasonWord>,
    /// One word per row.
    pub(crate) vectors: Rows,
}

/// A word of a tool that may appear in a reason.
#[derive(Debug)]
pub(crate) struct ReasonWord {
    pub(crate) text: String,
    pub(crate) field: Field,
    /// The length of its vector.
    pub(crate) length: f32,
}

impl Vectors {
    pub(super) fn new(embedder: Arc<dyn Embedder>, rows: Rows, model: usize) -> Self {
        Self {
            embedder,
            rows,
            model,
            overview_min_tools: OVERVIEW_MIN_TOOLS,
            overview: OnceLock::new(),
            words: RecentCache::default(),
        }
    }

    /// Returns the words of a tool from the cache, or calls `cut` and caches the result.
    pub(crate) fn words(&self, tool: ToolId, cut: impl FnOnce() -> ToolWords) -> Arc<ToolWords> {
        self.words.get_or_compute(tool, cut)
    }

    /// Embeds a request and its conversation in one call. A sentence without known words has a
    /// vector of zeros.
    pub(crate) fn embed_query(
        embedder: &dyn Embedder,
        query: &Query,
        deadline: Deadline,
    ) -> Result<RequestVectors, EmbedError> {
        let mut texts = text_with_sentences(query.search_text(), query.sentences());
        let request_texts = texts.len();
        if !query.conversation().is_empty() {
            let sentences = query.conversation_sentences();
            texts.extend(text_with_sentences(query.conversation(), sentences));
        }
        let matrix = Self::embed_queries(embedder, &texts, deadline)?;
        let (request_rows, conversation_rows) = matrix.view().split_at(Axis(0), request_texts);
        let mut request = None;
        // A request of punctuation alone is replaced by the conversation.
        if query.conversation().is_empty() || !query.is_blank() {
            request = copy_known_rows(request_rows);
        }
        let conversation = copy_known_rows(conversation_rows);
        // The conversation counts as well: a follow-up to something that tools serve is served. An
        // embedder is foreign code, so its value is checked.
        let mut scope: Option<f32> = None;
        if embedder.kind() == ModelKind::Static {
            for text in [query.search_text(), query.conversation()] {
                if !text.is_empty()
                    && let Some(estimate) = embedder.scope(text)
                    && estimate.is_finite()
                {
                    scope = Some(scope.map_or(estimate, |largest| largest.max(estimate)));
                }
            }
        }
        Ok(RequestVectors {
            request,
            conversation,
            scope,
        })
    }

    /// Embeds texts as separate requests, one vector per row. A text without known words has a
    /// vector of zeros.
    pub(crate) fn embed_queries(
        embedder: &dyn Embedder,
        texts: &[&str],
        deadline: Deadline,
    ) -> Result<Array2<f32>, EmbedError> {
        let vectors = embedder.embed_until(TextRole::Query, texts, &|_| {}, deadline.instant())?;
        check_shape(embedder, &vectors, texts.len())?;
        let shape = (texts.len(), embedder.dimensions());
        Array2::from_shape_vec(shape, vectors.concat()).map_err(|error| EmbedError::Inference {
            model: embedder.identity().to_owned(),
            reason: error.to_string(),
        })
    }

    /// Returns the cosine similarity of every tool to each row of `query`, which are unit vectors.
    pub(crate) fn cosines(&self, query: ArrayView2<'_, f32>) -> Cosines {
        Cosines {
            scored: ScoredTools::All(self.rows.len()),
            tools: self.rows.products(&Rows::from_vectors(query)),
            sources: None,
        }
    }

    /// Returns `true` if the catalog is large enough for a first pass over sketches.
    pub(crate) fn needs_overview(&self) -> bool {
        self.rows.len() >= self.overview_min_tools
            && self.embedder.dimensions() <= sketch::MAX_DIMENSIONS
    }

    /// Returns the cosine similarities of the nearest tools to each row of `query`.
    ///
    /// The candidates are the nearest tools to any row among all tools and among the admitted ones,
    /// the tools of the nearest sources, and `candidates`. The result includes the cosines of all
    /// sources.
    pub(crate) fn nearest(
        &self,
        query: ArrayView2<'_, f32>,
        admitted: &[bool],
        candidates: ToolSet,
        sources: Option<&SourceIndex>,
    ) -> Cosines {
        let VectorOverview { sketch, means } =
            self.overview.get_or_init(|| self.build_overview(sources));
        let mut near = candidates;
        let count = MIN_NEAR + near.tools() / TOOLS_PER_NEAR;
        // A row of zeros cannot rank tools.
        let rows = query
            .rows()
            .into_iter()
            .filter(|row| row.iter().any(|&value| value != 0.0));
        let estimates = sketch.estimates(rows);
        let lists = estimates.iter().map(|row| (&**row, f32::NEG_INFINITY));
        near.add_best(lists, admitted, count);
        let query = Rows::from_vectors(query);
        let source_cosines = means.as_ref().map(|means| cosines_of_means(means, &query));
        if let (Some(sources), Some(scores)) = (sources, &source_cosines) {
            sources.add_best(scores, &mut near);
        }
        self.compare(near.iter().collect(), &query, source_cosines)
    }

    /// Returns the cosine similarities of some tools, ascending, to each row of `query`, as
    /// [`nearest`](Self::nearest) does.
    pub(crate) fn cosines_to(
        &self,
        query: ArrayView2<'_, f32>,
        tools: Vec<ToolId>,
        sources: Option<&SourceIndex>,
    ) -> Cosines {
        let VectorOverview { means, .. } =
            self.overview.get_or_init(|| self.build_overview(sources));
        let query = Rows::from_vectors(query);
        let source_cosines = means.as_ref().map(|means| cosines_of_means(means, &query));
        self.compare(tools, &query, source_cosines)
    }

    fn compare(&self, near: Vec<ToolId>, query: &Rows, sources: Option<Vec<Vec<f32>>>) -> Cosines {
        let mut tools = Vec::with_capacity(query.len());
        tools.resize_with(query.len(), || Vec::with_capacity(near.len()));
        for batch in near.chunks(ROWS_PER_BATCH) {
            let batch = batch.iter().map(|tool| (&self.rows, tool.index()));
            let rows = Rows::gather(batch).unwrap_or_default();
            tools
                .iter_mut()
                .zip(rows.products(query))
                .for_each(|(all, products)| all.extend(products));
        }
        Cosines {
            scored: ScoredTools::Some(near.into()),
            tools,
            sources,
        }
    }

    fn build_overview(&self, sources: Option<&SourceIndex>) -> VectorOverview {
        let dimensions = self.embedder.dimensions();
        let mut means = None;
        if let Some(sources) = sources {
            means = sources.mean_vectors(dimensions, &self.rows);
        }
        VectorOverview {
            sketch: Sketch::build(&self.rows, dimensions),
            means,
        }
    }

    /// Treats the catalog as large.
    #[cfg(test)]
    pub(crate) fn force_overview(&mut self) {
        self.overview_min_tools = 0;
    }

    /// Returns the memory use of the overview in bytes.
    pub(super) fn overview_memory(&self) -> usize {
        let Some(VectorOverview { sketch, means }) = self.overview.get() else {
            return 0;
        };
        let values = means.as_ref().map_or(0, Array2::len);
        sketch.memory() + values * size_of::<f32>()
    }

    /// Returns the unit vector of one tool.
    pub(crate) fn vector(&self, tool: ToolId) -> Array1<f32> {
        self.rows.row(tool.index())
    }

    /// Returns the vectors of all tools.
    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Returns the sum of the vectors of some tools.
    pub(super) fn sum(&self, tools: &[ToolId]) -> Vec<f32> {
        let mut sum = vec![0.0; self.embedder.dimensions()];
        for &tool in tools {
            self.rows.add_to(tool.index(), &mut sum);
        }
        sum
    }

    pub fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.embedder
    }

    /// Returns the number of the model.
    pub(crate) fn model(&self) -> usize {
        self.model
    }
}

/// Returns the cosines of the mean vectors of sources, by row of the request and then by source.
fn cosines_of_means(means: &Array2<f32>, query: &Rows) -> Vec<Vec<f32>> {
    // Tools are compared with the quantised request, and sources must be as well.
    let mut quantized = Array2::zeros((0, means.ncols()));
    (0..query.len()).for_each(|row| {
        quantized
            .push_row(query.row(row).view())
            .expect("equal dimensions");
    });
    products(means.view(), quantized.view())
        .columns()
        .into_iter()
        .map(|row| row.to_vec())
        .collect()
}

/// Returns a text, followed by its sentences if there are several.
fn text_with_sentences<'t>(text: &'t str, sentences: Vec<&'t str>) -> Vec<&'t str> {
    let mut texts = Vec::with_capacity(1 + sentences.len());
    texts.push(text);
    if sentences.len() > 1 {
        texts.extend(sentences);
    }
    texts
}

/// Copies the vectors of a text and its sentences; `None` if the model knows no word of the text.
fn copy_known_rows(rows: ArrayView2<'_, f32>) -> Option<Array2<f32>> {
    let text = rows.rows().into_iter().next()?;
    let is_known = text.iter().any(|&value| value != 0.0);
    if !is_known {
        return None;
    }
    Some(rows.to_owned())
}
