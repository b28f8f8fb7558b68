//! The examples of a catalog's tools, each a document of its own: its words, and its vector by each
//! model.
//!
//! They are no part of the tools' documents: a tool with fifty examples is no longer than one with
//! none, and its text means what it meant.

use std::borrow::Cow;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use foldhash::{HashMap, HashMapExt};
use ndarray::ArrayView2;
use rayon::prelude::*;

use super::row::{Row, RowKey};
use super::rows::Rows;
use super::sources::Holding;
use super::terms::TermKey;
use super::vectors::{Texts, dot, embed_texts};
use super::{Index, IndexError, Progress, Vectors};
use crate::catalog::Tool;
use crate::deadline::{Deadline, Missed};
use crate::embed::{ModelKind, Role};
use crate::examples::{Counting, ExampleStats, Examples, Vocabulary, counting, counting_of};
use crate::ranking::ToolId;
use crate::text::{Analyzer, TermKind};

/// BM25's term-frequency saturation, as of tools.
const K1: f32 = 1.6;
/// BM25's length normalisation.
const B: f32 = 0.7;
/// What a pair of words counts beside a word.
const PAIR_WEIGHT: f32 = 0.25;
/// What the vector of an example counts in its tool's centre, beside that of the tool's own text.
const CENTRE_WEIGHT: f32 = 0.5;
/// So many examples at most are counted in a centre: of more, each counts less.
const CENTRE_MOST: f32 = 8.0;

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

/// What is known of examples before they are indexed.
#[derive(Default)]
pub struct KnownExamples<'k> {
    /// By what is asked, the vectors by each model and the place among them.
    vectors: HashMap<Cow<'k, str>, (&'k [Rows], usize)>,
    /// What is counted over those of all tools, where there are some of the tools here.
    of_whole: Option<CountedExamples>,
}

/// What is counted over the examples of the definitions of all tools of a snapshot.
#[derive(Debug, Clone, Default)]
pub struct CountedExamples {
    /// How many there are.
    pub(super) number: usize,
    /// How many words they have together.
    pub(super) words: u64,
    /// How many hold each term of a request.
    pub(super) holding: Holding,
}

impl<'k> KnownExamples<'k> {
    /// Takes those of tools' definitions; `of_whole` where these are not all tools.
    pub(crate) fn of_rows(
        rows: &'k [(RowKey, Arc<Row>)],
        of_whole: Option<CountedExamples>,
    ) -> Self {
        let known = rows
            .iter()
            .filter(|(_, row)| !row.examples.is_empty())
            .flat_map(|(_, row)| {
                let requests = counting_of(row.tool.outline()).into_iter().enumerate();
                requests.map(|(place, request)| (request.into(), (row.examples.as_slice(), place)))
            });
        Self {
            vectors: known.collect(),
            of_whole,
        }
    }

    fn vector(&self, request: &str, model: usize) -> Option<(&'k Rows, usize)> {
        let (vectors, place) = self.vectors.get(request)?;
        Some((vectors.get(model)?, *place))
    }
}

/// The examples of the tools of one snapshot.
pub struct ExampleIndex {
    /// Those that are not the catalog's own, as they were given.
    given: Examples,
    counting: Vec<Counting>,
    pub(crate) stats: ExampleStats,
    /// Where each tool's examples end, for those that have some; they begin where those of the one
    /// before end.
    tools: Vec<(ToolId, usize)>,
    /// BM25's denominator without the term frequency, by example.
    norms: Vec<f32>,
    postings: Postings,
    /// By the number of the model: one example a row, of unit length, or of zeros where the model
    /// knows nothing of it. Empty for models that there are not.
    vectors: Vec<Rows>,
    /// By the number of the model: the length of the centre of each tool that has some, in the
    /// order of `tools`.
    centres: Vec<Vec<f32>>,
    /// How many are of definitions, and how many words these have together.
    defined: (usize, u64),
    /// What is counted over all tools, where there are some of them here.
    of_whole: Option<CountedExamples>,
    /// Why the optional model has no vectors of them.
    pub left_out: Option<String>,
    vocabulary: Arc<OnceLock<Vocabulary>>,
}

impl ExampleIndex {
    /// Indexes the examples of the tools of `index` and those that are `given`; what is `known` is
    /// not embedded again.
    pub(crate) fn build(
        index: &Index,
        given: Examples,
        config: &ExampleConfig,
        known: &KnownExamples<'_>,
    ) -> Result<Self, IndexError> {
        let (counting, stats) = counting(&index.catalog, &index.names, &given);
        let mut tools: Vec<(ToolId, usize)> = Vec::new();
        for (place, example) in counting.iter().enumerate() {
            match tools.last_mut() {
                Some((tool, end)) if *tool == example.tool => *end = place + 1,
                _ => tools.push((example.tool, place + 1)),
            }
        }
        let analysed = analyse(counting.iter().map(|example| &*example.request));
        let words = analysed.iter().map(|example| u64::from(example.words));
        let of_definitions = counting
            .iter()
            .zip(words)
            .filter(|(example, _)| example.is_of_definition());
        let defined = of_definitions.fold((0, 0), |(number, sum), (_, words)| {
            (number + 1, sum + words)
        });
        let (norms, postings) = postings(&analysed, known.of_whole.as_ref());
        let mut examples = Self {
            given,
            stats,
            tools,
            norms,
            postings,
            vectors: Vec::new(),
            centres: Vec::new(),
            defined,
            of_whole: known.of_whole.clone(),
            left_out: None,
            vocabulary: Arc::default(),
            counting,
        };
        for vectors in &index.vectors {
            match examples.embed(vectors, config, known)? {
                Ok(rows) => {
                    examples
                        .vectors
                        .resize_with(vectors.model(), || Rows::zeros(0, 1));
                    examples.centres.resize_with(vectors.model(), Vec::new);
                    examples
                        .centres
                        .push(examples.centre_lengths(vectors, &rows));
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

    /// Indexes the examples of the tools' definitions alone.
    pub(crate) fn of_definitions(index: &Index) -> Result<Self, IndexError> {
        Self::build(
            index,
            Examples::default(),
            &ExampleConfig::default(),
            &KnownExamples::default(),
        )
    }

    /// Indexes the same examples for the tools of another snapshot.
    pub(crate) fn of_changed(&self, index: &Index) -> Result<Self, IndexError> {
        Self::build(
            index,
            self.given.clone(),
            &ExampleConfig::default(),
            &self.known(),
        )
    }

    /// Indexes what tools have served since, besides.
    pub(crate) fn learn<'e>(
        &self,
        index: &Index,
        served: impl IntoIterator<Item = (&'e str, &'e str)>,
    ) -> Result<Self, IndexError> {
        let mut given = self.given.clone();
        let vocabulary = self
            .vocabulary
            .get_or_init(|| Vocabulary::of(&index.catalog));
        for (tool, request) in served {
            given.learn(tool, request, vocabulary);
        }
        let learned = Self::build(index, given, &ExampleConfig::default(), &self.known())?;
        Ok(Self {
            vocabulary: Arc::clone(&self.vocabulary),
            ..learned
        })
    }

    /// The vectors of all examples by one model; or why there are none in time.
    fn embed(
        &self,
        vectors: &Vectors,
        config: &ExampleConfig,
        known: &KnownExamples<'_>,
    ) -> Result<Result<Rows, String>, IndexError> {
        let embedder = vectors.embedder();
        let mut all = Rows::zeros(self.counting.len(), embedder.dimensions());
        let (mut texts, mut rows) = (Vec::new(), Vec::new());
        for (row, example) in self.counting.iter().enumerate() {
            match known.vector(&example.request, vectors.model()) {
                Some((vectors, place)) => all.copy(row, vectors, place),
                None => {
                    rows.push(row);
                    texts.push(example.request.clone());
                }
            }
        }
        let hurried = config
            .deadline
            .filter(|_| embedder.kind() != ModelKind::Static);
        let deadline = hurried.unwrap_or(Deadline::at(None));
        let (model, cache_dir, progress) = (
            Arc::clone(embedder),
            config.cache_dir.clone(),
            config.progress.clone(),
        );
        let embed = move || {
            let texts = Texts {
                role: Role::Query,
                texts: &texts,
                what: "examples",
            };
            embed_texts(
                texts,
                model.as_ref(),
                cache_dir.as_deref(),
                &progress,
                deadline,
            )
        };
        let made = match hurried.and_then(Deadline::instant) {
            None => embed(),
            Some(_) => match deadline.run(embed) {
                Ok(made) => made,
                Err(Missed::Expired) => {
                    return Ok(Err(
                        "the deadline passed while the examples were embedded".to_owned()
                    ));
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
            Err(IndexError::Embed(error)) if hurried.is_some() && error.may_pass() => {
                Ok(Err(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    /// The lengths of the tools' centres by one model.
    fn centre_lengths(&self, vectors: &Vectors, rows: &Rows) -> Vec<f32> {
        let length = |(tool, places): (ToolId, Range<usize>)| {
            let (weight, mut centre) = (
                centre_weight(places.len()),
                vec![0.0; vectors.embedder().dimensions()],
            );
            places.for_each(|place| rows.add_to(place, &mut centre));
            centre.iter_mut().for_each(|value| *value *= weight);
            let (kept, place) = vectors.place_of(tool);
            kept.add_to(place, &mut centre);
            dot(&centre, &centre).sqrt()
        };
        self.tools().map(length).collect()
    }

    fn known(&self) -> KnownExamples<'_> {
        let known = self.counting.iter().enumerate();
        let vectors = self.vectors.as_slice();
        let known =
            known.map(|(place, example)| (example.request.as_str().into(), (vectors, place)));
        KnownExamples {
            vectors: known.collect(),
            of_whole: None,
        }
    }

    /// Returns the vectors of the examples of one tool's definition by each model, which come first
    /// among its examples.
    pub(crate) fn of_definition(&self, tool: ToolId) -> Vec<Rows> {
        let places = self.of(tool);
        let defined = places.take_while(|&place| self.counting[place].is_of_definition());
        let places: Vec<usize> = defined.collect();
        let gathered = |rows: &Rows| Rows::gathered(places.iter().map(|&place| (rows, place)));
        self.vectors.iter().filter_map(gathered).collect()
    }

    /// Returns how many examples of definitions there are, and how many words they have together.
    pub(crate) fn defined(&self) -> (usize, u64) {
        self.defined
    }

    /// Returns every term that examples of definitions hold, with how many do.
    pub fn term_counts(&self) -> impl Iterator<Item = (u64, u32)> {
        let is_defined = |place: u32| self.counting[place as usize].is_of_definition();
        let count =
            move |held: &[(u32, u32)]| held.iter().filter(|(place, _)| is_defined(*place)).count();
        let counts = self
            .postings
            .iter()
            .map(move |(term, held)| (term.0, super::terms::number(count(held))));
        counts.filter(|(_, count)| *count > 0)
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
    pub(crate) fn tools(&self) -> impl Iterator<Item = (ToolId, Range<usize>)> {
        let starts = std::iter::once(0).chain(self.tools.iter().map(|&(_, end)| end));
        self.tools
            .iter()
            .zip(starts)
            .map(|(&(tool, end), start)| (tool, start..end))
    }

    /// Returns the places of one tool's examples.
    pub(crate) fn of(&self, tool: ToolId) -> Range<usize> {
        let Ok(found) = self.tools.binary_search_by_key(&tool, |&(tool, _)| tool) else {
            return 0..0;
        };
        found
            .checked_sub(1)
            .map_or(0, |before| self.tools[before].1)..self.tools[found].1
    }

    /// Returns the example at a place.
    pub(crate) fn example(&self, place: usize) -> &Counting {
        &self.counting[place]
    }

    /// Returns the place of every example that has the term, with the term's BM25 contribution to
    /// its score.
    ///
    /// How rare a term is, is counted over tools and examples together: of few examples each word
    /// is a frequent one.
    pub(crate) fn contributions(
        &self,
        index: &Index,
        term: TermKey,
        kind: TermKind,
    ) -> impl Iterator<Item = (usize, f32)> + use<'_> {
        let held = self.postings.get(&term).map_or(&[][..], Vec::as_slice);
        let (holding, tools) = index.keyword.holding(term);
        let (number, of_examples) = match &self.of_whole {
            Some(whole) => (
                whole.number,
                whole
                    .holding
                    .get(&term)
                    .map_or(0, |&holding| holding as usize),
            ),
            None => (self.len(), held.len()),
        };
        let idf =
            (1.0 + (tools + number) as f32 / (holding + of_examples.max(held.len())) as f32).ln();
        let weight = if kind == TermKind::Pair {
            PAIR_WEIGHT
        } else {
            1.0
        } * idf
            * (K1 + 1.0);
        held.iter().map(move |&(place, frequency)| {
            let (place, frequency) = (place as usize, frequency as f32);
            (place, weight * frequency / (frequency + self.norms[place]))
        })
    }

    /// Returns the cosine similarity of every example to each row of `query`, unit vectors: by row,
    /// then by example; `None` where there are no vectors by that model.
    pub(crate) fn cosines(
        &self,
        vectors: &Vectors,
        query: ArrayView2<'_, f32>,
    ) -> Option<Vec<Vec<f32>>> {
        Some(
            self.vectors
                .get(vectors.model())?
                .products(&Rows::of(query)),
        )
    }

    /// Returns the cosine similarity of a request to the centre of each tool that has examples, in
    /// their order: the sum of the tool's vector and of those of its examples by their weight.
    /// `own` has the request's cosines to all tools, and `cosines` those to all examples.
    pub(crate) fn centres(&self, vectors: &Vectors, own: &[f32], cosines: &[f32]) -> Vec<f32> {
        let lengths = self
            .centres
            .get(vectors.model())
            .map_or(&[][..], Vec::as_slice);
        let similar = |((tool, places), &length): ((ToolId, Range<usize>), &f32)| {
            let weight = centre_weight(places.len());
            let product = own[tool.index()] + weight * cosines[places].iter().sum::<f32>();
            // Of vectors that cancel each other out nothing but rounding is left.
            if length.is_normal() {
                (product / length).clamp(-1.0, 1.0)
            } else {
                0.0
            }
        };
        self.tools().zip(lengths).map(similar).collect()
    }
}

impl std::fmt::Debug for ExampleIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExampleIndex")
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

/// What each of so many examples counts in its tool's centre.
fn centre_weight(examples: usize) -> f32 {
    CENTRE_WEIGHT * (CENTRE_MOST / examples as f32).min(1.0)
}

/// The words of an example.
struct Analysed {
    words: u32,
    /// What it holds, in order, as often as it does.
    terms: Vec<TermKey>,
}

fn analyse<'r>(requests: impl Iterator<Item = &'r str>) -> Vec<Analysed> {
    let analyse = |analyzer: &mut Analyzer, request: &str| {
        let (mut terms, mut words) = (Vec::new(), 0_u32);
        analyzer.terms(request, |term| {
            words += u32::from(term.kind == TermKind::Word);
            terms.push(TermKey::of(term.term));
        });
        terms.sort_unstable();
        Analysed { words, terms }
    };
    let requests: Vec<&str> = requests.collect();
    requests
        .par_iter()
        .map_init(Analyzer::new, |analyzer, request| {
            analyse(analyzer, request)
        })
        .collect()
}

/// Returns the terms of each example of a definition that counts.
pub(crate) fn terms_of_definition(definition: &Tool) -> Vec<Vec<u64>> {
    let requests = counting_of(definition);
    let analysed = analyse(requests.iter().map(String::as_str)).into_iter();
    let distinct = |Analysed { mut terms, .. }: Analysed| {
        terms.dedup();
        terms.into_iter().map(|term| term.0).collect()
    };
    analysed.map(distinct).collect()
}

/// BM25's norms and the postings of examples.
fn postings(analysed: &[Analysed], of_whole: Option<&CountedExamples>) -> (Vec<f32>, Postings) {
    let (number, words) = match of_whole {
        Some(whole) => (whole.number, whole.words),
        None => (
            analysed.len(),
            analysed
                .iter()
                .map(|example| u64::from(example.words))
                .sum(),
        ),
    };
    let average = (words as f32 / number.max(1) as f32).max(1.0);
    let norms = analysed
        .iter()
        .map(|example| K1 * (1.0 - B + B * example.words as f32 / average))
        .collect();
    let mut postings = Postings::new();
    for (place, Analysed { terms, .. }) in (0..).zip(analysed) {
        for same in terms.chunk_by(|a, b| a == b) {
            postings
                .entry(same[0])
                .or_default()
                .push((place, u32::try_from(same.len()).unwrap_or(u32::MAX)));
        }
    }
    (norms, postings)
}
