//! The examples of a catalog's tools, each a document of its own: its words, and its vector by each model.
//!
//! They are no part of the tools' documents: a tool with fifty examples is no longer than one with none, and its text means what
//! it meant.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use foldhash::{HashMap, HashMapExt};
use ndarray::Array2;
use rayon::prelude::*;

use super::rows::Rows;
use super::terms::TermKey;
use super::vectors::{Texts, embed_texts};
use super::{Index, IndexError, Progress, Vectors};
use crate::deadline::{Deadline, Missed};
use crate::embed::{Embedder, ModelKind, Role};
use crate::examples::{Counting, ExampleStats, Examples, Vocabulary, counting};
use crate::ranking::ToolId;
use crate::text::{Analyzer, TermKind};

/// BM25's term-frequency saturation, as of tools.
const K1: f32 = 1.6;
/// BM25's length normalisation.
const B: f32 = 0.7;
/// What a pair of words counts beside a word.
const PAIR_WEIGHT: f32 = 0.25;

/// What examples are indexed with, beside what the tools are.
#[derive(Clone, Default)]
pub(crate) struct ExampleConfig {
    pub(crate) cache_dir: Option<PathBuf>,
    pub(crate) progress: Progress,
    /// When the optional model must have embedded them, where there is one.
    pub(crate) deadline: Option<Deadline>,
}

/// The examples that hold a term, ascending, and how often each does.
type Postings = HashMap<TermKey, Vec<(u32, u32)>>;

/// The examples of the tools of one snapshot.
pub(crate) struct ExampleIndex {
    /// Those that are not the catalog's own, as they were given.
    given: Examples,
    counting: Vec<Counting>,
    pub(crate) stats: ExampleStats,
    /// Where each tool's examples end, for those that have some; they begin where those of the one before end.
    tools: Vec<(ToolId, usize)>,
    /// BM25's denominator without the term frequency, by example.
    norms: Vec<f32>,
    postings: Postings,
    /// By the number of the model: one example a row, of unit length, or of zeros where the model knows nothing of it.
    vectors: Vec<Rows>,
    /// Why the optional model has no vectors of them.
    pub(crate) left_out: Option<String>,
    vocabulary: Arc<OnceLock<Vocabulary>>,
}

impl ExampleIndex {
    /// Indexes the examples of the tools of `index` and those that are `given`; what `known` has is not embedded again.
    pub(crate) fn build(
        index: &Index,
        given: Examples,
        config: &ExampleConfig,
        known: Option<&Self>,
    ) -> Result<Self, IndexError> {
        let (counting, stats) = counting(&index.catalog, &index.names, &given);
        let mut tools: Vec<(ToolId, usize)> = Vec::new();
        for (place, example) in counting.iter().enumerate() {
            match tools.last_mut() {
                Some((tool, end)) if *tool == example.tool => *end = place + 1,
                _ => tools.push((example.tool, place + 1)),
            }
        }
        let (norms, postings) = postings(&counting);
        let mut examples = Self {
            given,
            counting,
            stats,
            tools,
            norms,
            postings,
            vectors: Vec::new(),
            left_out: None,
            vocabulary: Arc::default(),
        };
        for (number, vectors) in index.vectors.iter().enumerate() {
            let known = known.and_then(|known| Some((known, known.vectors.get(number)?)));
            match examples.embed(vectors.embedder(), config, known)? {
                Ok(rows) => examples.vectors.push(rows),
                Err(reason) => {
                    examples.left_out = Some(reason);
                    break;
                }
            }
        }
        Ok(examples)
    }

    /// Indexes the same examples for the tools of another snapshot.
    pub(crate) fn of_changed(&self, index: &Index) -> Result<Self, IndexError> {
        Self::build(index, self.given.clone(), &ExampleConfig::default(), Some(self))
    }

    /// Indexes what tools have served since, besides.
    pub(crate) fn learn<'e>(
        &self,
        index: &Index,
        served: impl IntoIterator<Item = (&'e str, &'e str)>,
    ) -> Result<Self, IndexError> {
        let mut given = self.given.clone();
        let vocabulary = self.vocabulary.get_or_init(|| Vocabulary::of(&index.catalog));
        for (tool, request) in served {
            given.learn(tool, request, vocabulary);
        }
        let learned = Self::build(index, given, &ExampleConfig::default(), Some(self))?;
        Ok(Self { vocabulary: Arc::clone(&self.vocabulary), ..learned })
    }

    /// The vectors of all examples by one model; or why there are none in time.
    fn embed(
        &self,
        embedder: &Arc<dyn Embedder>,
        config: &ExampleConfig,
        known: Option<(&Self, &Rows)>,
    ) -> Result<Result<Rows, String>, IndexError> {
        let mut all = Rows::zeros(self.counting.len(), embedder.dimensions());
        let mut places: HashMap<&str, usize> = HashMap::new();
        if let Some((known, _)) = known {
            places.extend(known.counting.iter().enumerate().map(|(place, example)| (&*example.request, place)));
        }
        let (mut texts, mut rows) = (Vec::new(), Vec::new());
        for (row, example) in self.counting.iter().enumerate() {
            match known.and_then(|(_, vectors)| Some((vectors, *places.get(&*example.request)?))) {
                Some((vectors, place)) => all.copy(row, vectors, place),
                None => {
                    rows.push(row);
                    texts.push(example.request.clone());
                }
            }
        }
        let hurried = config.deadline.filter(|_| embedder.kind() != ModelKind::Static);
        let deadline = hurried.unwrap_or(Deadline::at(None));
        let (model, cache_dir, progress) = (Arc::clone(embedder), config.cache_dir.clone(), config.progress.clone());
        let embed = move || {
            let texts = Texts { role: Role::Query, texts: &texts, what: "examples" };
            embed_texts(texts, model.as_ref(), cache_dir.as_deref(), &progress, deadline)
        };
        let made = match hurried.and_then(Deadline::instant) {
            None => embed(),
            Some(_) => match deadline.run(embed) {
                Ok(made) => made,
                Err(Missed::Expired) => {
                    return Ok(Err("the deadline passed while the examples were embedded".to_owned()));
                }
                Err(Missed::Lost(reason)) => return Ok(Err(reason)),
            },
        };
        match made {
            Ok(made) => {
                for (place, &row) in rows.iter().enumerate() {
                    all.copy(row, &made.rows, place);
                }
                Ok(Ok(all))
            }
            Err(IndexError::Embed(error)) if hurried.is_some() && error.may_pass() => Ok(Err(error.to_string())),
            Err(error) => Err(error),
        }
    }

    /// Returns `true` if no tool has an example.
    pub(crate) fn is_empty(&self) -> bool {
        self.counting.is_empty()
    }

    /// Returns how many examples there are.
    pub(crate) fn len(&self) -> usize {
        self.counting.len()
    }

    /// Returns the tools that have examples, in order, each with the places of these.
    pub(crate) fn tools(&self) -> impl Iterator<Item = (ToolId, std::ops::Range<usize>)> {
        let starts = std::iter::once(0).chain(self.tools.iter().map(|&(_, end)| end));
        self.tools.iter().zip(starts).map(|(&(tool, end), start)| (tool, start..end))
    }

    /// Returns the places of one tool's examples.
    pub(crate) fn of(&self, tool: ToolId) -> std::ops::Range<usize> {
        let Ok(found) = self.tools.binary_search_by_key(&tool, |&(tool, _)| tool) else { return 0..0 };
        found.checked_sub(1).map_or(0, |before| self.tools[before].1)..self.tools[found].1
    }

    /// Returns the example at a place.
    pub(crate) fn example(&self, place: usize) -> &Counting {
        &self.counting[place]
    }

    /// Returns the place of every example that has the term, with the term's BM25 contribution to its score.
    ///
    /// How rare a term is, is counted over tools and examples together: of few examples each word is a frequent one.
    pub(crate) fn contributions(
        &self,
        index: &Index,
        term: &str,
        kind: TermKind,
    ) -> impl Iterator<Item = (usize, f32)> + use<'_> {
        let held = self.postings.get(&TermKey::of(term)).map_or(&[][..], Vec::as_slice);
        let (holding, tools) = index.keyword.holding(term);
        let idf = (1.0 + (tools + self.len()) as f32 / (holding + held.len()) as f32).ln();
        let weight = if kind == TermKind::Pair { PAIR_WEIGHT } else { 1.0 } * idf * (K1 + 1.0);
        held.iter().map(move |&(place, frequency)| {
            let (place, frequency) = (place as usize, frequency as f32);
            (place, weight * frequency / (frequency + self.norms[place]))
        })
    }

    /// Returns the cosine similarity of every example to each row of `query`, unit vectors: by row, then by example; `None`
    /// where there are no vectors by that model.
    pub(crate) fn cosines(&self, vectors: &Vectors, query: &Array2<f32>) -> Option<Vec<Vec<f32>>> {
        Some(self.vectors.get(vectors.model())?.products(&Rows::of(query.view())))
    }
}

impl std::fmt::Debug for ExampleIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExampleIndex").field("stats", &self.stats).finish_non_exhaustive()
    }
}

/// BM25's norms and the postings of examples.
fn postings(counting: &[Counting]) -> (Vec<f32>, Postings) {
    let analyse = |analyzer: &mut Analyzer, example: &Counting| {
        let (mut terms, mut length) = (Vec::new(), 0_u32);
        analyzer.terms(&example.request, |term| {
            length += u32::from(term.kind == TermKind::Word);
            terms.push(TermKey::of(term.term));
        });
        terms.sort_unstable();
        (terms, length)
    };
    let analysed: Vec<(Vec<TermKey>, u32)> = counting.par_iter().map_init(Analyzer::new, analyse).collect();
    let total: u64 = analysed.iter().map(|&(_, length)| u64::from(length)).sum();
    let average = (total as f32 / analysed.len().max(1) as f32).max(1.0);
    let norms = analysed.iter().map(|&(_, length)| K1 * (1.0 - B + B * length as f32 / average)).collect();
    let mut postings = Postings::new();
    for (place, (terms, _)) in (0..).zip(analysed) {
        for same in terms.chunk_by(|a, b| a == b) {
            postings.entry(same[0]).or_default().push((place, u32::try_from(same.len()).unwrap_or(u32::MAX)));
        }
    }
    (norms, postings)
}
