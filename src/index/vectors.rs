//! The semantic index: one unit vector per tool, with exhaustive search.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use ndarray::{Array1, Array2, ArrayView2, Axis};
use pulp::{Arch, NullaryFnOnce};

use super::previous::PreviousIndex;
use super::recent::RecentCache;
use super::rows::{MAX_DIMENSIONS, Rows};
use super::segment::Segments;
use super::sketch::{self, Sketch};
use super::sources::SourceIndex;
use super::{IndexError, Progress};
use crate::catalog::{Catalog, Tool};
use crate::deadline::Deadline;
use crate::embed::{CacheStatus, EmbedError, Embedder, ModelKind, TextRole, VectorCache};
use crate::query::Query;
use crate::ranking::{ScoredTools, ToolId, ToolSet};
use crate::saved::SavedModel;
use crate::text::{EmbeddingText, Field};

/// The number of texts per write to the cache. An interruption loses at most as many.
const TEXTS_PER_WRITE: usize = 1024;
/// The number of texts per write under a deadline, which interrupts more often.
const TEXTS_PER_HURRIED_WRITE: usize = 32;

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

/// The vectors of one model in every segment of a snapshot, with the model.
pub struct Vectors {
    embedder: Arc<dyn Embedder>,
    segments: Segments,
    /// The number of the model, which selects its matrix in each segment.
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
    pub(super) fn new(embedder: Arc<dyn Embedder>, segments: Segments, model: usize) -> Self {
        Self {
            embedder,
            segments,
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
        let mut tools = vec![vec![0.0; self.segments.tools()]; query.nrows()];
        let query = Rows::from_vectors(query);
        for (first, segment) in self.segments.iter() {
            segment.vectors[self.model].products_into(&query, &mut tools, first);
        }
        Cosines {
            scored: ScoredTools::All(self.segments.tools()),
            tools,
            sources: None,
        }
    }

    /// Returns `true` if the catalog is large enough for a first pass over sketches.
    pub(crate) fn needs_overview(&self) -> bool {
        self.segments.tools() >= self.overview_min_tools
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
        for estimates in sketch.estimates(rows) {
            near.add_best(&estimates, f32::NEG_INFINITY, admitted, count);
        }
        let query = Rows::from_vectors(query);
        let source_cosines = |means: &Array2<f32>| -> Vec<Vec<f32>> {
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
        };
        let cosines_of_sources = means.as_ref().map(source_cosines);
        if let (Some(sources), Some(scores)) = (sources, &cosines_of_sources) {
            sources.add_best(scores, &mut near);
        }
        let near: Vec<ToolId> = near.iter().collect();
        let mut tools = vec![Vec::with_capacity(near.len()); query.len()];
        for batch in near.chunks(ROWS_PER_BATCH) {
            let rows =
                Rows::gather(batch.iter().map(|&tool| self.locate(tool))).unwrap_or_default();
            tools
                .iter_mut()
                .zip(rows.products(&query))
                .for_each(|(all, products)| all.extend(products));
        }
        Cosines {
            scored: ScoredTools::Some(near.into()),
            tools,
            sources: cosines_of_sources,
        }
    }

    fn build_overview(&self, sources: Option<&SourceIndex>) -> VectorOverview {
        let rows = self
            .segments
            .iter()
            .map(|(_, segment)| &segment.vectors[self.model]);
        let dimensions = self.embedder.dimensions();
        let add = |tool, sum: &mut [f32]| {
            let (rows, row) = self.locate(tool);
            rows.add_to(row, sum);
        };
        let mut means = None;
        if let Some(sources) = sources {
            means = sources.mean_vectors(dimensions, add);
        }
        VectorOverview {
            sketch: Sketch::build(rows, dimensions),
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
        let (rows, row) = self.locate(tool);
        rows.row(row)
    }

    /// Returns the matrix and the row of one tool's vector.
    pub(super) fn locate(&self, tool: ToolId) -> (&Rows, usize) {
        let (segment, position) = self.segments.find(tool);
        (&segment.vectors[self.model], position)
    }

    /// Returns the sum of the vectors of some tools.
    pub(super) fn sum(&self, tools: &[ToolId]) -> Vec<f32> {
        let mut sum = vec![0.0; self.embedder.dimensions()];
        for &tool in tools {
            let (rows, row) = self.locate(tool);
            rows.add_to(row, &mut sum);
        }
        sum
    }

    /// Returns a copy of one tool's quantised vector.
    pub(super) fn copy_row(&self, tool: ToolId) -> Rows {
        let (rows, row) = self.locate(tool);
        let mut copy = Rows::zeros(1, self.embedder.dimensions());
        copy.copy(0, rows, row);
        copy
    }

    pub fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.embedder
    }

    /// Returns the number of the model.
    pub(crate) fn model(&self) -> usize {
        self.model
    }
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

/// The vectors of tools or other texts by one model.
pub(super) struct Embedding {
    /// One text per row.
    pub(super) rows: Rows,
    /// State of the cache; `None` without a cache.
    pub(super) cache: Option<CacheStatus>,
}

/// Returns the vectors of a catalog's tools. The index that the catalog was opened from is used if
/// it has the model. Otherwise vectors of the earlier snapshot are reused, and the other tools are
/// embedded.
pub(super) fn catalog_vectors(
    catalog: &Catalog,
    previous: Option<&PreviousIndex>,
    embedder: &dyn Embedder,
    cache_dir: Option<&Path>,
    progress: &Progress,
    deadline: Deadline,
) -> Result<Embedding, IndexError> {
    if let Some(file) = catalog.saved() {
        let model = SavedModel {
            identity: embedder.identity().to_owned(),
            dimensions: embedder.dimensions(),
        };
        if let Some(number) = file.header.models.iter().position(|saved| *saved == model) {
            let rows = Rows::open(&section(number), file, embedder.dimensions())?;
            return Ok(Embedding { rows, cache: None });
        }
    }
    let Some((previous, mut rows)) =
        previous.and_then(|previous| Some((previous, previous.rows(embedder)?)))
    else {
        return embed_tools(catalog.tools(), embedder, cache_dir, progress, deadline);
    };
    let Embedding {
        rows: embedded,
        cache,
    } = embed_tools(
        &previous.new_tools(catalog),
        embedder,
        cache_dir,
        progress,
        deadline,
    )?;
    previous.fill_new_rows(&mut rows, &embedded);
    Ok(Embedding { rows, cache })
}

/// Returns the section of a saved index that holds the vectors of a model.
pub(super) fn section(model: usize) -> String {
    format!("vectors.{model}")
}

/// Embeds tools. Texts in the cache in `cache_dir` are not embedded again, if the model is worth
/// caching. New vectors are written to the cache, also before a deadline interrupts.
pub(super) fn embed_tools(
    tools: &[Arc<Tool>],
    embedder: &dyn Embedder,
    cache_dir: Option<&Path>,
    progress: &Progress,
    deadline: Deadline,
) -> Result<Embedding, IndexError> {
    let texts: Vec<String> = tools
        .iter()
        .map(|tool| EmbeddingText::new(tool).text)
        .collect();
    let texts = EmbeddingBatch {
        role: TextRole::Document,
        texts: &texts,
        what: "tools",
    };
    embed_texts(texts, embedder, cache_dir, progress, deadline)
}

/// A batch of texts to embed.
pub(super) struct EmbeddingBatch<'a> {
    pub(super) role: TextRole,
    pub(super) texts: &'a [String],
    /// The kind of the texts, for messages.
    pub(super) what: &'static str,
}

/// Works like [`embed_tools`], for any texts.
pub(super) fn embed_texts(
    EmbeddingBatch { role, texts, what }: EmbeddingBatch<'_>,
    embedder: &dyn Embedder,
    cache_dir: Option<&Path>,
    progress: &Progress,
    deadline: Deadline,
) -> Result<Embedding, IndexError> {
    let mut cache = open_cache(cache_dir, embedder);
    let mut embedded = Rows::zeros(texts.len(), embedder.dimensions());
    let mut missing = Vec::new();
    for (row, text) in texts.iter().enumerate() {
        match cache.as_ref().and_then(|cache| cache.get(role, text)) {
            Some(vector) => embedded.set(row, vector),
            None => missing.push(row),
        }
    }
    let mut done = texts.len() - missing.len();
    if !missing.is_empty() {
        progress.report(done, texts.len());
    }
    let has_deadline = deadline.instant().is_some();
    for rows in missing.chunks(if has_deadline {
        TEXTS_PER_HURRIED_WRITE
    } else {
        TEXTS_PER_WRITE
    }) {
        let batch: Vec<&str> = rows.iter().map(|&row| texts[row].as_str()).collect();
        let step = |new: usize| progress.report(done + new, texts.len());
        let vectors = embedder.embed_until(role, &batch, &step, deadline.instant())?;
        check_shape(embedder, &vectors, batch.len())?;
        for (&row, vector) in rows.iter().zip(&vectors) {
            embedded.set(row, vector);
        }
        if let Some(cache) = &mut cache {
            let model = || embedder.identity().to_owned();
            cache
                .insert_all(role, batch.iter().zip(vectors))
                .map_err(|error| EmbedError::Inference {
                    model: model(),
                    reason: error.to_string(),
                })?;
        }
        done += rows.len();
        if deadline.has_passed() && done < texts.len() {
            let reason = format!(
                "it had embedded {done} of {} {what} when the deadline passed",
                texts.len()
            );
            return Err(EmbedError::Late { reason }.into());
        }
    }
    Ok(Embedding {
        rows: embedded,
        cache: cache.map(|cache| cache.status()),
    })
}

/// Opens the cache of a model; `None` without a folder, or if the model is not worth caching.
fn open_cache(cache_dir: Option<&Path>, embedder: &dyn Embedder) -> Option<VectorCache> {
    let root = cache_dir?;
    if !embedder.worth_caching() {
        return None;
    }
    let (identity, dimensions) = (embedder.identity(), embedder.dimensions());
    Some(VectorCache::open(root, identity, dimensions))
}

/// Returns the dot product of every row of `a` with every row of `b`, for vectors that are not
/// quantised.
///
/// A general matrix product would copy `a` first, which takes longer than the products if `b` has
/// few rows. The order of addition is the same on every processor, so results are bit-identical.
pub(crate) fn products(a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>) -> Array2<f32> {
    let mut products = Array2::zeros((a.nrows(), b.nrows()));
    let dimensions = a.ncols();
    let (a, b) = (a.as_standard_layout(), b.as_standard_layout());
    if let (Some(a), Some(b), Some(out)) = (a.as_slice(), b.as_slice(), products.as_slice_mut()) {
        Arch::new().dispatch(ProductLoop {
            a,
            b,
            dimensions: dimensions.max(1),
            out,
        });
    }
    products
}

/// The loops of [`products`]. They are compiled for each set of vector instructions, and the
/// processor selects the version.
struct ProductLoop<'a> {
    a: &'a [f32],
    b: &'a [f32],
    dimensions: usize,
    out: &'a mut [f32],
}

impl NullaryFnOnce for ProductLoop<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            a,
            b,
            dimensions,
            out,
        } = self;
        let pairs = a
            .chunks_exact(dimensions)
            .flat_map(|a| b.chunks_exact(dimensions).map(move |b| (a, b)));
        for (out, (a, b)) in out.iter_mut().zip(pairs) {
            *out = dot(a, b);
        }
    }
}

/// The number of parallel sums, as many as the widest vector instructions hold.
const LANES: usize = 16;

/// Returns the dot product of two vectors.
#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let mut sum = 0.0;
    for (a, b) in a_rest.iter().zip(b_rest) {
        sum += a * b;
    }
    sums.iter().fold(sum, |sum, lane| sum + lane)
}

/// Validates the output of an embedder, which is foreign code.
fn check_shape(
    embedder: &dyn Embedder,
    vectors: &[Vec<f32>],
    texts: usize,
) -> Result<(), EmbedError> {
    let dimensions = embedder.dimensions();
    let reason = if dimensions > MAX_DIMENSIONS {
        format!("its vectors have {dimensions} dimensions, of which {MAX_DIMENSIONS} can be kept")
    } else if vectors.len() != texts {
        format!("it gave {} vectors for {texts} texts", vectors.len())
    } else if let Some(vector) = vectors.iter().find(|vector| vector.len() != dimensions) {
        format!(
            "it gave a vector of {} dimensions instead of {dimensions}",
            vector.len()
        )
    } else if vectors.iter().flatten().any(|value| !value.is_finite()) {
        "it gave a vector with a value that is not finite".to_owned()
    } else {
        return Ok(());
    };
    Err(EmbedError::Inference {
        model: embedder.identity().to_owned(),
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{ArrayView1, s};
    use proptest::prelude::*;

    /// Returns the dot product by its definition and the sum of the absolute products, both in
    /// double precision.
    fn naive(a: ArrayView1<'_, f32>, b: ArrayView1<'_, f32>) -> (f64, f64) {
        let (mut sum, mut magnitude) = (0.0, 0.0);
        for index in 0..a.len() {
            let product = f64::from(a[index]) * f64::from(b[index]);
            sum += product;
            magnitude += product.abs();
        }
        (sum, magnitude)
    }

    /// Generates values of every magnitude whose sums of products are finite.
    fn value() -> impl Strategy<Value = f32> {
        let extremes = [
            0.0,
            -0.0,
            f32::MIN_POSITIVE,
            -1e-45,
            1e-20,
            f32::EPSILON,
            1e18,
            -1e18,
        ];
        prop_oneof![4 => -1.0_f32..1.0, 1 => prop::sample::select(extremes.to_vec())]
    }

    /// Generates two matrices with rows of equal length.
    fn matrices() -> impl Strategy<Value = (Array2<f32>, Array2<f32>)> {
        let edges = prop::sample::select(vec![0, 1, LANES - 1, LANES, LANES + 1, 3 * LANES, 256]);
        (0..6_usize, 0..4_usize, prop_oneof![0..80_usize, edges]).prop_flat_map(
            |(a, b, dimensions)| {
                let matrix = move |rows: usize| {
                    let values = prop::collection::vec(value(), rows * dimensions);
                    values.prop_map(move |values| {
                        Array2::from_shape_vec((rows, dimensions), values).expect("it fits")
                    })
                };
                (matrix(a), matrix(b))
            },
        )
    }

    /// Compares the products with the definition. The bound is the rounding error of a float sum
    /// (Higham, Accuracy and Stability of Numerical Algorithms, 3.1) plus the underflow of tiny
    /// products.
    fn check(a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>) -> Result<(), TestCaseError> {
        let actual = products(a, b);
        prop_assert_eq!(actual.dim(), (a.nrows(), b.nrows()));
        let terms = a.ncols() as f64 + 2.0;
        for ((row, column), &product) in actual.indexed_iter() {
            let (exact, magnitude) = naive(a.row(row), b.row(column));
            let bound = terms * (magnitude * f64::from(f32::EPSILON) + 1e-45);
            prop_assert!(
                (f64::from(product) - exact).abs() <= bound,
                "{} is not {} ± {}",
                product,
                exact,
                bound
            );
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn products_equal_the_definition((a, b) in matrices()) {
            check(a.view(), b.view())?;
        }

        #[test]
        fn products_of_strided_views_equal_the_definition((a, b) in matrices()) {
            check(a.slice(s![..;2, ..]), b.slice(s![..;-1, ..]))?;
            check(a.slice(s![.., ..;2]), b.slice(s![.., ..;2]))?;
        }

        #[test]
        fn product_does_not_depend_on_other_rows((a, b) in matrices()) {
            let all = products(a.view(), b.view());
            for ((row, column), product) in all.indexed_iter() {
                let (a, b) = (a.row(row).insert_axis(Axis(0)), b.row(column).insert_axis(Axis(0)));
                prop_assert_eq!(products(a, b)[[0, 0]].to_bits(), product.to_bits());
            }
        }
    }
}
