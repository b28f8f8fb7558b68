//! The example index: each example of a tool is a document with terms and a vector by each model.
//!
//! Examples are not part of the tools' documents. They change neither the length of a tool nor the
//! vector of its text.

use std::borrow::Cow;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use foldhash::{HashMap, HashMapExt};
use ndarray::ArrayView2;
use rayon::prelude::*;

use super::dot::dot;
use super::embedding::{EmbeddingBatch, EmbeddingOptions, Progress, embed_texts};
use super::error::IndexError;
use super::row::{Row, RowKey};
use super::rows::Rows;
use super::snapshot::Index;
use super::stats::ExampleTotals;
use super::terms::{TermKey, number};
use super::vectors::Vectors;
use crate::catalog::Tool;
use crate::deadline::{Deadline, DeadlineError};
use crate::embed::{ModelKind, TextRole};
use crate::examples::{
    ActiveExample, ExampleStats, Examples, Vocabulary, active_definition_examples, active_examples,
};
use crate::ranking::ToolId;
use crate::text::{Analyzer, TermKind};

/// BM25's term-frequency saturation, the same as for tools.
const K1: f32 = 1.6;
/// BM25's length normalisation.
const B: f32 = 0.7;
/// The weight of a word pair relative to a word.
const PAIR_WEIGHT: f32 = 0.25;
/// The weight of one example vector in its tool's centroid, relative to the tool's own vector.
const CENTROID_WEIGHT: f32 = 0.5;
/// The largest total number of examples that count fully in a centroid. Beyond it, the weight of
/// each example shrinks.
const CENTROID_FULL_EXAMPLES: f32 = 8.0;

/// Settings for indexing examples.
#[derive(Clone, Default)]
pub(crate) struct ExampleConfig {
    pub(crate) cache_dir: Option<PathBuf>,
    pub(crate) progress: Progress,
    /// The deadline for embedding examples by the optional model, if any.
    pub(crate) deadline: Option<Deadline>,
}

/// The examples that contain a term, ascending, each with the term's frequency.
type Postings = HashMap<TermKey, Vec<(u32, u32)>>;

/// Example data that is available before indexing.
#[derive(Default)]
pub struct KnownExamples<'k> {
    /// The vectors by each model and the row among them, by request text.
    vectors: HashMap<Cow<'k, str>, (&'k [Rows], usize)>,
    /// The totals over all tools; `None` if these are all tools.
    totals: Option<ExampleTotals>,
}

impl<'k> KnownExamples<'k> {
    /// Takes the vectors of the examples in tools' definitions. `totals` is needed if these are not
    /// all tools.
    pub(crate) fn from_rows(rows: &'k [(RowKey, Arc<Row>)], totals: Option<ExampleTotals>) -> Self {
        let mut vectors = HashMap::new();
        for (_, row) in rows {
            if row.examples.is_empty() {
                continue;
            }
            let requests = active_definition_examples(row.tool.outline());
            for (position, request) in requests.into_iter().enumerate() {
                vectors.insert(request.into(), (row.examples.as_slice(), position));
            }
        }
        Self { vectors, totals }
    }

    fn vector(&self, request: &str, model: usize) -> Option<(&'k Rows, usize)> {
        let (vectors, row) = self.vectors.get(request)?;
        Some((vectors.get(model)?, *row))
    }
}

/// The examples of the tools of one snapshot.
pub struct ExampleIndex {
    /// The examples that were supplied in addition to those in definitions, unchanged.
    supplied: Examples,
    /// All examples that count, grouped by tool in registration order.
    active: Vec<ActiveExample>,
    pub(crate) stats: ExampleStats,
    /// The end of each tool's examples, for tools with examples. They begin at the end of the
    /// previous tool's.
    tools: Vec<(ToolId, usize)>,
    /// BM25's denominator without the term frequency, by example.
    norms: Vec<f32>,
    postings: Postings,
    /// By model number: a matrix with one example per row, of unit length or zero if the model
    /// knows none of the words. Empty for missing models.
    vectors: Vec<Rows>,
    /// By model number: the length of the centroid of each tool with examples, in the order of
    /// `tools`.
    centroid_lengths: Vec<Vec<f32>>,
    /// The number of examples in definitions, and the total number of their words.
    definition_totals: (usize, u64),
    /// The totals over all tools; `None` if these are all tools.
    totals: Option<ExampleTotals>,
    /// The reason why vectors by the optional model are missing.
    pub left_out: Option<String>,
    vocabulary: Arc<OnceLock<Vocabulary>>,
}

impl ExampleIndex {
    /// Indexes the examples in the definitions of `index` and the examples in `supplied`. Vectors
    /// in `known` are reused.
    pub(crate) fn build(
        index: &Index,
        supplied: Examples,
        config: &ExampleConfig,
        known: &KnownExamples<'_>,
    ) -> Result<Self, IndexError> {
        let (active, stats) = active_examples(&index.catalog, &index.names, &supplied)?;
        let mut tools: Vec<(ToolId, usize)> = Vec::new();
        for (position, example) in active.iter().enumerate() {
            match tools.last_mut() {
                Some((tool, end)) if *tool == example.tool => *end = position + 1,
                _ => tools.push((example.tool, position + 1)),
            }
        }
        let analyzed = analyze(active.iter().map(|example| &*example.request));
        let (mut definition_examples, mut definition_words) = (0, 0);
        for (example, terms) in active.iter().zip(&analyzed) {
            if example.is_from_definition() {
                definition_examples += 1;
                definition_words += u64::from(terms.words);
            }
        }
        let (norms, postings) = postings(&analyzed, known.totals.as_ref());
        let mut examples = Self {
            supplied,
            stats,
            tools,
            norms,
            postings,
            vectors: Vec::new(),
            centroid_lengths: Vec::new(),
            definition_totals: (definition_examples, definition_words),
            totals: known.totals.clone(),
            left_out: None,
            vocabulary: Arc::default(),
            active,
        };
        for vectors in &index.vectors {
            match examples.embed(vectors, config, known)? {
                Ok(rows) => {
                    examples
                        .vectors
                        .resize_with(vectors.model(), || Rows::zeros(0, 1));
                    examples
                        .centroid_lengths
                        .resize_with(vectors.model(), Vec::new);
                    let lengths = examples.compute_centroid_lengths(vectors, &rows);
                    examples.centroid_lengths.push(lengths);
                    examples.vectors.push(rows);
                }
                Err(reason) => {
                    examples.left_out = Some(reason);
                    break;
                }
            }
        }
        Ok(examples)
    }

    /// Indexes only the examples in the tools' definitions.
    pub(crate) fn build_from_definitions(index: &Index) -> Result<Self, IndexError> {
        Self::build(
            index,
            Examples::default(),
            &ExampleConfig::default(),
            &KnownExamples::default(),
        )
    }

    /// Indexes the same examples for the tools of another snapshot.
    pub(crate) fn rebuild(&self, index: &Index) -> Result<Self, IndexError> {
        Self::build(
            index,
            self.supplied.clone(),
            &ExampleConfig::default(),
            &self.known_examples(),
        )
    }

    /// Adds requests that tools served and indexes all examples again.
    pub(crate) fn learn<'e>(
        &self,
        index: &Index,
        requests: impl IntoIterator<Item = (&'e str, &'e str)>,
    ) -> Result<Self, IndexError> {
        let mut supplied = self.supplied.clone();
        let vocabulary = match self.vocabulary.get() {
            Some(vocabulary) => vocabulary,
            None => {
                let words = Vocabulary::from_catalog(&index.catalog)?;
                self.vocabulary.get_or_init(|| words)
            }
        };
        for (tool, request) in requests {
            supplied.learn(tool, request, vocabulary);
        }
        let learned = Self::build(
            index,
            supplied,
            &ExampleConfig::default(),
            &self.known_examples(),
        )?;
        Ok(Self {
            vocabulary: Arc::clone(&self.vocabulary),
            ..learned
        })
    }

    /// Embeds all examples by one model. The inner error is the reason why vectors are not ready in
    /// time.
    fn embed(
        &self,
        vectors: &Vectors,
        config: &ExampleConfig,
        known: &KnownExamples<'_>,
    ) -> Result<Result<Rows, String>, IndexError> {
        let embedder = vectors.embedder();
        let mut all = Rows::zeros(self.active.len(), embedder.dimensions());
        let (mut texts, mut rows) = (Vec::new(), Vec::new());
        for (row, example) in self.active.iter().enumerate() {
            match known.vector(&example.request, vectors.model()) {
                Some((vectors, known_row)) => all.copy(row, vectors, known_row),
                None => {
                    rows.push(row);
                    texts.push(example.request.clone());
                }
            }
        }
        let is_static = embedder.kind() == ModelKind::Static;
        let optional_deadline = if is_static { None } else { config.deadline };
        let deadline = optional_deadline.unwrap_or(Deadline::at(None));
        let (model, cache_dir, progress) = (
            Arc::clone(embedder),
            config.cache_dir.clone(),
            config.progress.clone(),
        );
        let embed = move || {
            let texts = EmbeddingBatch {
                role: TextRole::Query,
                texts: &texts,
                what: "examples",
            };
            let options = EmbeddingOptions {
                cache_dir: cache_dir.as_deref(),
                progress: &progress,
                deadline,
            };
            embed_texts(texts, model.as_ref(), options)
        };
        let embedding = match optional_deadline.and_then(Deadline::instant) {
            None => embed(),
            Some(_) => match deadline.run(embed) {
                Ok(result) => result,
                Err(DeadlineError::Expired) => {
                    return Ok(Err(
                        "the deadline passed while the examples were embedded".to_owned()
                    ));
                }
                Err(DeadlineError::Lost(reason)) => return Ok(Err(reason)),
            },
        };
        match embedding {
            Ok(embedded) => {
                for (embedded_row, &row) in rows.iter().enumerate() {
                    all.copy(row, &embedded.rows, embedded_row);
                }
                Ok(Ok(all))
            }
            Err(IndexError::Embed(error)) if optional_deadline.is_some() && error.may_pass() => {
                Ok(Err(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the length of each tool's centroid by one model.
    fn compute_centroid_lengths(&self, vectors: &Vectors, rows: &Rows) -> Vec<f32> {
        let mut lengths = Vec::with_capacity(self.tools.len());
        for (tool, positions) in self.tools() {
            let weight = centroid_weight(positions.len());
            let mut centroid = vec![0.0; vectors.embedder().dimensions()];
            for position in positions {
                rows.add_to(position, &mut centroid);
            }
            for value in &mut centroid {
                *value *= weight;
            }
            vectors.rows().add_to(tool.index(), &mut centroid);
            lengths.push(dot(&centroid, &centroid).sqrt());
        }
        lengths
    }

    fn known_examples(&self) -> KnownExamples<'_> {
        let mut vectors = HashMap::new();
        for (position, example) in self.active.iter().enumerate() {
            let request = example.request.as_str().into();
            vectors.insert(request, (self.vectors.as_slice(), position));
        }
        KnownExamples {
            vectors,
            totals: None,
        }
    }

    /// Returns the vectors of the examples in one tool's definition by each model. These come first
    /// among the tool's examples.
    pub(crate) fn definition_vectors(&self, tool: ToolId) -> Vec<Rows> {
        let positions: Vec<usize> = self
            .positions(tool)
            .take_while(|&position| self.active[position].is_from_definition())
            .collect();
        let mut by_model = Vec::with_capacity(self.vectors.len());
        for rows in &self.vectors {
            by_model.extend(Rows::gather(positions.iter().map(|&row| (rows, row))));
        }
        by_model
    }

    /// Returns the number of examples in definitions and the total number of their words.
    pub(crate) fn definition_totals(&self) -> (usize, u64) {
        self.definition_totals
    }

    /// Returns every term of the examples in definitions with the number of these examples that
    /// contain it.
    pub fn term_counts(&self) -> impl Iterator<Item = (u64, u32)> {
        let is_from_definition =
            |position: u32| self.active[position as usize].is_from_definition();
        let count = move |postings: &[(u32, u32)]| {
            let examples = postings
                .iter()
                .filter(|(position, _)| is_from_definition(*position));
            number(examples.count())
        };
        let counts = self
            .postings
            .iter()
            .map(move |(term, postings)| (term.0, count(postings)));
        counts.filter(|(_, count)| *count > 0)
    }

    /// Returns `true` if no tool has an example.
    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Returns the number of examples.
    pub(crate) fn len(&self) -> usize {
        self.active.len()
    }

    /// Returns the tools that have examples, in order, each with the range of its examples.
    pub(crate) fn tools(&self) -> impl Iterator<Item = (ToolId, Range<usize>)> {
        let starts = std::iter::once(0).chain(self.tools.iter().map(|&(_, end)| end));
        self.tools
            .iter()
            .zip(starts)
            .map(|(&(tool, end), start)| (tool, start..end))
    }

    /// Returns the range of one tool's examples.
    pub(crate) fn positions(&self, tool: ToolId) -> Range<usize> {
        let Ok(index) = self.tools.binary_search_by_key(&tool, |&(id, _)| id) else {
            return 0..0;
        };
        let start = match index.checked_sub(1) {
            Some(previous) => self.tools[previous].1,
            None => 0,
        };
        start..self.tools[index].1
    }

    /// Returns the example at a position.
    pub(crate) fn example(&self, position: usize) -> &ActiveExample {
        &self.active[position]
    }

    /// Returns the position of every example that contains the term, with the term's BM25
    /// contribution to its score.
    ///
    /// The document frequency of a term is counted over tools and examples together. Among few
    /// examples alone, every word would be frequent.
    pub(crate) fn contributions(
        &self,
        index: &Index,
        term: TermKey,
        kind: TermKind,
    ) -> impl Iterator<Item = (usize, f32)> + use<'_> {
        let postings = self.postings.get(&term).map_or(&[][..], Vec::as_slice);
        let (tools_with_term, tools) = index.keyword.document_frequency(term);
        let (examples_with_term, examples) = match &self.totals {
            Some(totals) => {
                let frequency = totals.document_frequencies.get(&term);
                (frequency.map_or(0, |&count| count as usize), totals.number)
            }
            None => (postings.len(), self.len()),
        };
        let documents_with_term = tools_with_term + examples_with_term.max(postings.len());
        let idf = (1.0 + (tools + examples) as f32 / documents_with_term as f32).ln();
        let kind_weight = if kind == TermKind::Pair {
            PAIR_WEIGHT
        } else {
            1.0
        };
        let weight = kind_weight * idf * (K1 + 1.0);
        postings.iter().map(move |&(position, frequency)| {
            let (position, frequency) = (position as usize, frequency as f32);
            let contribution = weight * frequency / (frequency + self.norms[position]);
            (position, contribution)
        })
    }

    /// Returns the cosine similarity of every example to each row of `query`, which are unit
    /// vectors: by row, then by example. Returns `None` if that model has no vectors.
    pub(crate) fn cosines(
        &self,
        vectors: &Vectors,
        query: ArrayView2<'_, f32>,
    ) -> Option<Vec<Vec<f32>>> {
        Some(
            self.vectors
                .get(vectors.model())?
                .products(&Rows::from_vectors(query)),
        )
    }

    /// Returns the cosine similarity of a request to the centroid of each tool with examples, in
    /// their order. A centroid is the sum of the tool's vector and its weighted example vectors.
    ///
    /// `tool_cosines` has the request's cosines to all tools, and `cosines` those to all examples.
    pub(crate) fn centroid_similarities(
        &self,
        vectors: &Vectors,
        tool_cosines: &[f32],
        cosines: &[f32],
    ) -> Vec<f32> {
        let lengths = self
            .centroid_lengths
            .get(vectors.model())
            .map_or(&[][..], Vec::as_slice);
        let similarity = |((tool, positions), &length): ((ToolId, Range<usize>), &f32)| {
            let weight = centroid_weight(positions.len());
            let sum = cosines[positions].iter().sum::<f32>();
            let product = tool_cosines[tool.index()] + weight * sum;
            // If the vectors cancel out, only rounding errors remain.
            if length.is_normal() {
                (product / length).clamp(-1.0, 1.0)
            } else {
                0.0
            }
        };
        self.tools().zip(lengths).map(similarity).collect()
    }
}

impl std::fmt::Debug for ExampleIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExampleIndex")
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

/// Returns the weight of each example in its tool's centroid.
fn centroid_weight(examples: usize) -> f32 {
    CENTROID_WEIGHT * (CENTROID_FULL_EXAMPLES / examples as f32).min(1.0)
}

/// The terms of one example.
struct AnalyzedExample {
    words: u32,
    /// All occurrences of terms, sorted, with repetitions.
    terms: Vec<TermKey>,
}

fn analyze<'r>(requests: impl Iterator<Item = &'r str>) -> Vec<AnalyzedExample> {
    let analyze_one = |analyzer: &mut Analyzer, request: &str| {
        let (mut terms, mut words) = (Vec::new(), 0_u32);
        analyzer.terms(request, |term| {
            words += u32::from(term.kind == TermKind::Word);
            terms.push(TermKey::new(term.term));
        });
        terms.sort_unstable();
        AnalyzedExample { words, terms }
    };
    let requests: Vec<&str> = requests.collect();
    requests
        .par_iter()
        .map_init(Analyzer::new, |analyzer, request| {
            analyze_one(analyzer, request)
        })
        .collect()
}

/// Returns the distinct terms of each example in a definition that counts.
pub(crate) fn definition_terms(definition: &Tool) -> Vec<Vec<u64>> {
    let requests = active_definition_examples(definition);
    let mut distinct_terms = Vec::with_capacity(requests.len());
    for AnalyzedExample { mut terms, .. } in analyze(requests.iter().map(String::as_str)) {
        terms.dedup();
        distinct_terms.push(terms.into_iter().map(|term| term.0).collect());
    }
    distinct_terms
}

/// Returns BM25's norms and the postings of examples.
fn postings(analyzed: &[AnalyzedExample], totals: Option<&ExampleTotals>) -> (Vec<f32>, Postings) {
    let (examples, words) = match totals {
        Some(totals) => (totals.number, totals.words),
        None => {
            let words = analyzed.iter().map(|example| u64::from(example.words));
            (analyzed.len(), words.sum())
        }
    };
    let average = (words as f32 / examples.max(1) as f32).max(1.0);
    let norms = analyzed
        .iter()
        .map(|example| K1 * (1.0 - B + B * example.words as f32 / average))
        .collect();
    let mut postings = Postings::new();
    for (position, AnalyzedExample { terms, .. }) in (0..).zip(analyzed) {
        for same in terms.chunk_by(|a, b| a == b) {
            postings
                .entry(same[0])
                .or_default()
                .push((position, u32::try_from(same.len()).unwrap_or(u32::MAX)));
        }
    }
    (norms, postings)
}
