//! The semantic index: one unit vector a tool, all of which are searched.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use ndarray::{Array1, Array2, ArrayView2, Axis};
use pulp::{Arch, NullaryFnOnce};

use super::before::Before;
use super::lately::Lately;
use super::rows::{MAX_DIMENSIONS, Rows};
use super::segment::Segments;
use super::sketch::{self, Sketch};
use super::sources::Sources;
use super::{IndexError, Progress};
use crate::catalog::{Catalog, Tool};
use crate::deadline::Deadline;
use crate::embed::{CacheStatus, EmbedError, Embedder, ModelKind, Role, VectorCache};
use crate::query::Query;
use crate::ranking::{Scored, ToolId, ToolSet};
use crate::saved::SavedModel;
use crate::text::{EmbeddingText, Field};

/// How many texts are embedded before they are written to the cache: what an interruption can lose.
const TEXTS_PER_WRITE: usize = 1024;
/// The same under a deadline, which interrupts.
const TEXTS_PER_HURRIED_WRITE: usize = 32;

/// So many vectors are looked at before similarities are worked out.
const MANY: usize = 8_192;
/// How many tools are taken at least for those that may be near.
const NEAR: usize = 256;
/// One more for so many tools.
const TOOLS_PER_NEAR: usize = 256;
/// How many rows are put beside each other to be multiplied.
const TOGETHER: usize = 64;

/// A request as a model sees it. Each has one vector a row, that of the whole text and then, where
/// it has several, those of its sentences; `None` where the model knows nothing of the text, so
/// that no tool is nearer than another.
#[derive(Debug, Default)]
pub struct RequestVectors {
    pub request: Option<Array2<f32>>,
    /// The request together with what was said before, where it does not stand alone.
    pub conversation: Option<Array2<f32>>,
    /// What the model says of the request, whatever the tools; see [`Embedder::scope`].
    pub(crate) scope: Option<f32>,
}

/// The vectors of one model in every segment of a snapshot, with the model that made them.
pub struct Vectors {
    embedder: Arc<dyn Embedder>,
    segments: Segments,
    /// Which of each segment's matrices is this model's.
    model: usize,
    /// From so many tools on there is an overview.
    many: usize,
    /// Made when it is asked for.
    overview: OnceLock<Overview>,
    /// Some 8 KiB a tool with vectors of 256 dimensions.
    words: Lately<ToolWords>,
}

/// The cosine similarities of tools to some vectors of a request: by vector, then by tool.
#[derive(Debug, Clone)]
pub(crate) struct Cosines {
    pub(crate) scored: Scored,
    pub(crate) tools: Vec<Vec<f32>>,
    /// Those of the means of sources, by vector and then by source, where they are known without
    /// those of all tools.
    pub(crate) sources: Option<Vec<Vec<f32>>>,
}

impl Cosines {
    /// Returns those to one of the vectors.
    pub(crate) fn of(&self, vector: usize) -> Self {
        let one = |all: &Vec<Vec<f32>>| vec![all[vector].clone()];
        Self {
            scored: self.scored.clone(),
            tools: one(&self.tools),
            sources: self.sources.as_ref().map(one),
        }
    }

    /// Keeps those to the first vectors.
    pub(crate) fn truncate(&mut self, vectors: usize) {
        self.tools.truncate(vectors);
        self.sources
            .iter_mut()
            .for_each(|sources| sources.truncate(vectors));
    }
}

/// What is looked at first of the vectors of a large catalog.
struct Overview {
    sketch: Sketch,
    /// The means of sources, one a row, where these tell something.
    means: Option<Array2<f32>>,
}

/// The words of a tool that may be a reason, with their vectors by a model.
#[derive(Debug, Default)]
pub(crate) struct ToolWords {
    pub(crate) words: Vec<TellingWord>,
    /// One word a row.
    pub(crate) vectors: Rows,
}

/// A word of a tool.
#[derive(Debug)]
pub(crate) struct TellingWord {
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
            many: MANY,
            overview: OnceLock::new(),
            words: Lately::default(),
        }
    }

    /// Returns the words of a tool: as they were cut before, where it was asked for lately.
    pub(crate) fn words(&self, tool: ToolId, cut: impl FnOnce() -> ToolWords) -> Arc<ToolWords> {
        self.words.of(tool, cut)
    }

    /// Embeds a request, and the conversation that it is a part of, at once. A sentence that the
    /// model knows nothing of has a vector of zeros.
    pub(crate) fn embed_query(
        embedder: &dyn Embedder,
        query: &Query,
        deadline: Deadline,
    ) -> Result<RequestVectors, EmbedError> {
        let with_sentences = |whole, sentences: Vec<_>| {
            let several = sentences.len() > 1;
            std::iter::once(whole).chain(sentences.into_iter().filter(move |_| several))
        };
        let mut texts: Vec<&str> = with_sentences(query.wanted(), query.sentences()).collect();
        let own = texts.len();
        if !query.conversation().is_empty() {
            texts.extend(with_sentences(
                query.conversation(),
                query.conversation_sentences(),
            ));
        }
        let matrix = Self::embed_queries(embedder, &texts, deadline)?;
        let known = |rows: ArrayView2<'_, f32>| {
            rows.rows()
                .into_iter()
                .next()?
                .iter()
                .any(|&value| value != 0.0)
                .then(|| rows.to_owned())
        };
        let (request, conversation) = matrix.view().split_at(Axis(0), own);
        // The conversation speaks for a request of punctuation.
        let says_something = query.conversation().is_empty() || !query.is_blank();
        let [request, conversation] = [
            known(request).filter(|_| says_something),
            known(conversation),
        ];
        // A request that goes on with what tools serve is served. An embedder is foreign code.
        let asked = [query.wanted(), query.conversation()].into_iter();
        let asked = asked.filter(|text| !text.is_empty() && embedder.kind() == ModelKind::Static);
        let told = asked.filter_map(|text| embedder.scope(text).filter(|told| told.is_finite()));
        let scope = told.reduce(f32::max);
        Ok(RequestVectors {
            request,
            conversation,
            scope,
        })
    }

    /// Embeds texts as requests of their own, one vector a row; of zeros where the model knows
    /// nothing of the text.
    pub(crate) fn embed_queries(
        embedder: &dyn Embedder,
        texts: &[&str],
        deadline: Deadline,
    ) -> Result<Array2<f32>, EmbedError> {
        let vectors = embedder.embed_until(Role::Query, texts, &|_| {}, deadline.instant())?;
        check_shape(embedder, &vectors, texts.len())?;
        let shape = (texts.len(), embedder.dimensions());
        Array2::from_shape_vec(shape, vectors.concat()).map_err(|error| EmbedError::Inference {
            model: embedder.identity().to_owned(),
            reason: error.to_string(),
        })
    }

    /// Returns the cosine similarity of every tool to each row of `query`, unit vectors.
    pub(crate) fn cosines(&self, query: ArrayView2<'_, f32>) -> Cosines {
        let mut tools = vec![vec![0.0; self.segments.tools()]; query.nrows()];
        let query = Rows::of(query);
        for (first, segment) in self.segments.iter() {
            segment.vectors[self.model].products_into(&query, &mut tools, first);
        }
        Cosines {
            scored: Scored::All(self.segments.tools()),
            tools,
            sources: None,
        }
    }

    /// Returns `true` if the catalog is so large that it is worth a look at all vectors before
    /// similarities are worked out.
    pub(crate) fn are_many(&self) -> bool {
        self.segments.tools() >= self.many && self.embedder.dimensions() <= sketch::MAX_DIMENSIONS
    }

    /// Returns the cosine similarities to each row of `query` of those tools that may be nearest to
    /// any of them, among all tools and among those that are admitted, of the tools of the nearest
    /// sources, and of `also`; and those of all sources.
    pub(crate) fn near(
        &self,
        query: ArrayView2<'_, f32>,
        admitted: &[bool],
        also: ToolSet,
        sources: Option<&Sources>,
    ) -> Cosines {
        let Overview { sketch, means } = self.overview.get_or_init(|| self.look_over(sources));
        let mut near = also;
        let wanted = NEAR + near.tools() / TOOLS_PER_NEAR;
        // To a row of zeros no tool is nearer than another.
        let rows = query
            .rows()
            .into_iter()
            .filter(|row| row.iter().any(|&value| value != 0.0));
        for estimates in sketch.estimates(rows) {
            near.add_best(&estimates, f32::NEG_INFINITY, admitted, wanted);
        }
        let query = Rows::of(query);
        let to_sources = |means: &Array2<f32>| -> Vec<Vec<f32>> {
            // As it would be of the similarities of all tools: to the request as these are held
            // against it.
            let mut kept = Array2::zeros((0, means.ncols()));
            (0..query.len()).for_each(|row| {
                kept.push_row(query.row(row).view())
                    .expect("they have as many dimensions")
            });
            products(means.view(), kept.view())
                .columns()
                .into_iter()
                .map(|row| row.to_vec())
                .collect()
        };
        let of_sources = means.as_ref().map(to_sources);
        if let (Some(sources), Some(scores)) = (sources, &of_sources) {
            sources.add_best(scores, &mut near);
        }
        let near: Vec<ToolId> = near.iter().collect();
        let mut tools = vec![Vec::with_capacity(near.len()); query.len()];
        for together in near.chunks(TOGETHER) {
            let rows = Rows::gathered(together.iter().map(|&tool| self.place_of(tool)))
                .unwrap_or_default();
            tools
                .iter_mut()
                .zip(rows.products(&query))
                .for_each(|(all, products)| all.extend(products));
        }
        Cosines {
            scored: Scored::Some(near.into()),
            tools,
            sources: of_sources,
        }
    }

    fn look_over(&self, sources: Option<&Sources>) -> Overview {
        let rows = self
            .segments
            .iter()
            .map(|(_, segment)| &segment.vectors[self.model]);
        let dimensions = self.embedder.dimensions();
        let add = |tool, sum: &mut [f32]| {
            let (rows, place) = self.place_of(tool);
            rows.add_to(place, sum);
        };
        let means = sources.and_then(|sources| sources.mean_vectors(dimensions, add));
        Overview {
            sketch: Sketch::of(rows, dimensions),
            means,
        }
    }

    /// Takes the tools for many, however few they are.
    #[cfg(test)]
    pub(crate) fn take_for_many(&mut self) {
        self.many = 0;
    }

    /// Returns how many bytes are kept for a look at all vectors.
    pub(super) fn overview_memory(&self) -> usize {
        let of = |Overview { sketch, means }: &Overview| {
            sketch.memory()
                + means
                    .as_ref()
                    .map_or(0, |means| means.len() * size_of::<f32>())
        };
        self.overview.get().map_or(0, of)
    }

    /// Returns the unit vector of one tool.
    pub(crate) fn of(&self, tool: ToolId) -> Array1<f32> {
        let (segment, place) = self.segments.find(tool);
        segment.vectors[self.model].row(place)
    }

    /// Returns where the vector of one tool is kept.
    pub(super) fn place_of(&self, tool: ToolId) -> (&Rows, usize) {
        let (segment, place) = self.segments.find(tool);
        (&segment.vectors[self.model], place)
    }

    /// Returns the sum of the vectors of some tools.
    pub(super) fn sum(&self, tools: &[ToolId]) -> Vec<f32> {
        let mut sum = vec![0.0; self.embedder.dimensions()];
        for &tool in tools {
            let (kept, place) = self.place_of(tool);
            kept.add_to(place, &mut sum);
        }
        sum
    }

    /// Returns the vector of one tool as it is kept.
    pub(super) fn rows_of(&self, tool: ToolId) -> Rows {
        let (kept, place) = self.place_of(tool);
        let mut rows = Rows::zeros(1, self.embedder.dimensions());
        rows.copy(0, kept, place);
        rows
    }

    pub fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.embedder
    }

    /// Returns the number of the model.
    pub(crate) fn model(&self) -> usize {
        self.model
    }
}

/// The vectors of tools, or of other texts, by one model.
pub(super) struct Embedding {
    /// One text a row.
    pub(super) rows: Rows,
    /// State of the cache, where one is used.
    pub(super) cache: Option<CacheStatus>,
}

/// Returns the vectors of a catalog's tools: those of the index that it was opened from, where that
/// has the model's; else what is known from before, and of the others as [`embed_tools`].
pub(super) fn catalog_vectors(
    catalog: &Catalog,
    before: Option<&Before>,
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
    let Some((before, mut rows)) = before.and_then(|before| Some((before, before.rows(embedder)?)))
    else {
        return embed_tools(catalog.tools(), embedder, cache_dir, progress, deadline);
    };
    let Embedding {
        rows: embedded,
        cache,
    } = embed_tools(
        &before.unknown(catalog),
        embedder,
        cache_dir,
        progress,
        deadline,
    )?;
    before.complete(&mut rows, &embedded);
    Ok(Embedding { rows, cache })
}

/// The section of a saved index that holds the vectors of a model.
pub(super) fn section(model: usize) -> String {
    format!("vectors.{model}")
}

/// Embeds tools; texts that the cache in `cache_dir` holds are not embedded again, where the model
/// is worth one. What is embedded before the deadline is kept there.
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
    let texts = Texts {
        role: Role::Document,
        texts: &texts,
        what: "tools",
    };
    embed_texts(texts, embedder, cache_dir, progress, deadline)
}

/// Texts to embed.
pub(super) struct Texts<'a> {
    pub(super) role: Role,
    pub(super) texts: &'a [String],
    /// What they are of, for messages.
    pub(super) what: &'static str,
}

/// As [`embed_tools`], for any texts.
pub(super) fn embed_texts(
    Texts { role, texts, what }: Texts<'_>,
    embedder: &dyn Embedder,
    cache_dir: Option<&Path>,
    progress: &Progress,
    deadline: Deadline,
) -> Result<Embedding, IndexError> {
    let folder = cache_dir.filter(|_| embedder.worth_caching());
    let mut cache =
        folder.map(|root| VectorCache::open(root, embedder.identity(), embedder.dimensions()));
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
    let in_a_hurry = deadline.instant().is_some();
    for rows in missing.chunks(if in_a_hurry {
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

/// Returns the dot product of every row of `a`, one a row, with every row of `b`, of vectors that
/// are not kept.
///
/// A product of matrices would first copy `a`, which for a few rows of `b` takes longer than the
/// products. Sums are formed in one order on every processor, so that they are the same to the bit.
pub(crate) fn products(a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>) -> Array2<f32> {
    let mut products = Array2::zeros((a.nrows(), b.nrows()));
    let dimensions = a.ncols();
    let (a, b) = (a.as_standard_layout(), b.as_standard_layout());
    if let (Some(a), Some(b), Some(out)) = (a.as_slice(), b.as_slice(), products.as_slice_mut()) {
        Arch::new().dispatch(Products {
            a,
            b,
            dimensions: dimensions.max(1),
            out,
        });
    }
    products
}

/// The loops of [`products`]: compiled once for each set of vector instructions, of which the
/// processor's is taken.
struct Products<'a> {
    a: &'a [f32],
    b: &'a [f32],
    dimensions: usize,
    out: &'a mut [f32],
}

impl NullaryFnOnce for Products<'_> {
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

/// How many sums are formed side by side, as many as the widest vector instructions hold.
const LANES: usize = 16;

/// The dot product of two vectors.
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

/// An embedder is foreign code: what it returns is checked before it is used.
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
        "it gave a vector that holds a value that is no number".to_owned()
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

    /// The dot product by its definition, and the sum of what is summed, without signs: both in
    /// double precision.
    fn naive(a: ArrayView1<'_, f32>, b: ArrayView1<'_, f32>) -> (f64, f64) {
        let (mut sum, mut magnitude) = (0.0, 0.0);
        for at in 0..a.len() {
            let product = f64::from(a[at]) * f64::from(b[at]);
            sum += product;
            magnitude += product.abs();
        }
        (sum, magnitude)
    }

    /// Values of every magnitude whose products and their sums are finite.
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

    /// Two matrices with rows of one length: `rows.0` and `rows.1` rows of `dimensions` values.
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

    /// Compares the kernel's products with the definition's, within the bound of a float sum's
    /// rounding (Higham, Accuracy and Stability of Numerical Algorithms, 3.1), and that of products
    /// too small to be told from zero.
    fn check(a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>) -> Result<(), TestCaseError> {
        let found = products(a, b);
        prop_assert_eq!(found.dim(), (a.nrows(), b.nrows()));
        let terms = a.ncols() as f64 + 2.0;
        for ((row, column), &product) in found.indexed_iter() {
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
        fn a_product_does_not_depend_on_the_other_rows((a, b) in matrices()) {
            let all = products(a.view(), b.view());
            for ((row, column), product) in all.indexed_iter() {
                let (a, b) = (a.row(row).insert_axis(Axis(0)), b.row(column).insert_axis(Axis(0)));
                prop_assert_eq!(products(a, b)[[0, 0]].to_bits(), product.to_bits());
            }
        }
    }
}
