//! What each part of a request wants: the parts are asked as requests of their own, by the quick
//! retrievers.
//!
//! By the whole request alone, the part with the strongest words would take all places: beside it,
//! the tool that another part wants looks like no candidate at all.

use ndarray::{Array2, ArrayView2, Axis, concatenate, s};

use super::ranked::Ranked;
use super::report::Report;
use super::request::Request;
use super::signals::{Embeddings, guarded};
use crate::deadline::Deadline;
use crate::function_words::says_something;
use crate::fuse::{Fused, Fusion, Retriever, Signals};
use crate::index::{Cosines, Vectors};
use crate::options::Choice;
use crate::ranking::{Scored, ToolId};
use crate::retrieve::{self, FoundTerm, ReadTexts, Signal, Similar};
use crate::select::static_vectors;
use crate::selection::Stage;

/// A part's best tool stands for it where it is more likely right than wrong.
const GOOD: f32 = 0.5;

/// One part of a request, and what the quick retrievers say of it.
pub(super) struct Part<'q> {
    pub(super) text: &'q str,
    pub(super) terms: Vec<FoundTerm<'q>>,
    pub(super) fused: Fused,
}

impl Part<'_> {
    /// Returns the part's best tool if that is good.
    pub(super) fn good(&self, min_score: f32) -> Option<ToolId> {
        self.fused
            .best()
            .filter(|&best| self.fused.score_of(best) >= GOOD.max(min_score))
    }
}

/// The parts that a request is asked for beside the whole.
pub(super) struct AskedParts<'q> {
    texts: Vec<&'q str>,
    /// The parts as they were read into terms, for whoever reads the same sentences.
    pub(super) read: ReadTexts<'q>,
    by_words: Vec<Option<(Vec<FoundTerm<'q>>, Signal)>>,
    by_meaning: Option<Meaning>,
}

/// The parts as the static model sees them.
struct Meaning {
    /// One part a row; of zeros where the model knows nothing of it.
    vectors: Array2<f32>,
    /// The rows of the whole request, that of its text and those of its sentences, that are a
    /// part's too.
    known: Vec<Option<usize>>,
    /// How near tools are to each, where that was asked.
    cosines: Vec<Cosines>,
}

impl<'q> AskedParts<'q> {
    /// Returns the parts of the request, where there are several and the picks are to cover them.
    pub(super) fn new(
        request: &Request<'q>,
        embeddings: &mut Embeddings,
        report: &mut Report,
    ) -> Option<Self> {
        let (index, options) = (request.index, request.options);
        if options.choice != Choice::Set
            || options.max_candidates < 2
            || options.fusion != Fusion::Weighted
        {
            return None;
        }
        let mut texts = request.query.clauses();
        if texts.len() > 1 {
            texts.retain(|text| says_something(text));
        }
        if texts.len() < 2 {
            return None;
        }
        let vectors = static_vectors(index).filter(|_| request.mode.uses_semantic());
        let by_meaning = match vectors
            .map(|vectors| Meaning::new(vectors, &texts, request, embeddings))
            .transpose()
        {
            Ok(by_meaning) => by_meaning,
            Err(reason) => {
                report.degraded(
                    Stage::Select,
                    format!("{reason}; the parts of the request are not told apart"),
                );
                return None;
            }
        };
        let mut read = ReadTexts::default();
        let by_words = texts.iter().map(|&text| {
            let asked = || retrieve::keyword(index, read.terms(&[text]), 1, request.examples);
            request.mode.uses_keyword().then(asked)
        });
        let by_words = by_words.collect();
        Some(Self {
            texts,
            read,
            by_words,
            by_meaning,
        })
    }

    /// Returns what words say of the parts.
    pub(super) fn by_words(&self) -> impl Iterator<Item = &Signal> {
        self.by_words.iter().flatten().map(|(_, signal)| signal)
    }

    /// Keeps what is said of some tools.
    pub(super) fn restrict(&mut self, scored: &Scored) {
        self.by_words
            .iter_mut()
            .flatten()
            .for_each(|(_, signal)| signal.restrict(scored));
    }

    /// Looks for the vectors of the whole request and of the parts at once, and returns how near
    /// tools are to the former.
    pub(super) fn look(
        &mut self,
        whole: &Array2<f32>,
        near: impl Fn(ArrayView2<'_, f32>) -> Cosines,
    ) -> Cosines {
        let Some(Meaning {
            vectors,
            known,
            cosines,
        }) = &mut self.by_meaning
        else {
            return near(whole.view());
        };
        let new: Vec<usize> = (0..vectors.nrows())
            .filter(|&part| known[part].is_none())
            .collect();
        let all = concatenate![Axis(0), whole.view(), vectors.select(Axis(0), &new)];
        let mut found = near(all.view());
        let row = |part: usize| match new.iter().position(|&new| new == part) {
            Some(place) => whole.nrows() + place,
            None => known[part].unwrap_or_default(),
        };
        *cosines = (0..vectors.nrows())
            .map(|part| found.of(row(part)))
            .collect();
        found.truncate(whole.nrows());
        found
    }
}

impl Meaning {
    /// Embeds the parts, but for those that are embedded as sentences of the whole request.
    fn new(
        vectors: &Vectors,
        texts: &[&str],
        request: &Request<'_>,
        embeddings: &mut Embeddings,
    ) -> Result<Self, String> {
        let (embedder, deadline) = (vectors.embedder(), request.deadline);
        let embedded = embeddings
            .of(embedder, request.query, deadline)
            .as_ref()
            .map_err(String::clone)?;
        // Its first row is of all of the text, and the others of its sentences, where there are
        // several.
        let whole = embedded.request.as_ref().filter(|whole| whole.nrows() > 1);
        let sentences: Vec<&str> = request
            .query
            .sentences()
            .into_iter()
            .map(str::trim)
            .collect();
        let row = |text: &&str| {
            whole
                .and(sentences.iter().position(|sentence| sentence == text))
                .map(|place| 1 + place)
        };
        let known: Vec<Option<usize>> = texts.iter().map(row).collect();
        let new: Vec<&str> = texts
            .iter()
            .zip(&known)
            .filter(|(_, row)| row.is_none())
            .map(|(text, _)| *text)
            .collect();
        let new = if new.is_empty() {
            Array2::default((0, 0))
        } else {
            embed(vectors, &new, deadline)?
        };
        let mut new = new.rows().into_iter();
        let rows = known.iter().filter_map(|row| match (row, whole) {
            (Some(row), Some(whole)) => Some(whole.row(*row)),
            _ => new.next(),
        });
        let rows: Vec<_> = rows.collect();
        let vectors = ndarray::stack(Axis(0), &rows).map_err(|error| error.to_string())?;
        Ok(Self {
            vectors,
            known,
            cosines: Vec::new(),
        })
    }
}

/// Says what each part of the request wants, where it was asked.
pub(super) fn parts<'q>(
    request: &Request<'q>,
    asked: Option<AskedParts<'q>>,
    ranked: &Ranked<'_>,
) -> Vec<Part<'q>> {
    let (
        Ranked::Fused { .. },
        Some(AskedParts {
            texts,
            by_words,
            by_meaning,
            ..
        }),
    ) = (ranked, asked)
    else {
        return Vec::new();
    };
    let index = request.index;
    let mut by_meaning = static_vectors(index)
        .zip(by_meaning)
        .map(|(vectors, meaning)| {
            let of_examples = request
                .examples
                .and_then(|examples| examples.cosines(vectors, meaning.vectors.view()));
            (vectors, meaning, of_examples)
        });
    let parts =
        texts
            .into_iter()
            .zip(by_words)
            .enumerate()
            .map(|(place, (text, by_words))| {
                let mut signals = Signals::new();
                let mut terms = Vec::new();
                if let Some((found, signal)) = by_words {
                    signals.push((Retriever::Keyword, signal));
                    terms = found;
                }
                if let Some((
                    vectors,
                    Meaning {
                        vectors: embedded,
                        cosines,
                        ..
                    },
                    of_examples,
                )) = &mut by_meaning
                {
                    let own = embedded.slice(s![place..=place, ..]);
                    let cosines = cosines
                        .get(place)
                        .cloned()
                        .unwrap_or_else(|| vectors.cosines(own));
                    let similar = request.examples.zip(of_examples.as_mut()).map(
                        |(examples, of_examples)| {
                            let of_examples = vec![std::mem::take(&mut of_examples[place])];
                            (
                                examples,
                                Similar::new(examples, vectors, &cosines.tools, of_examples),
                            )
                        },
                    );
                    let mut signal = Signal::cosines(cosines, index, vectors, own);
                    if let Some((examples, similar)) = similar {
                        signal = signal.with_similar(examples, similar);
                    }
                    signals.push((Retriever::Static, signal));
                }
                Part {
                    text,
                    terms,
                    fused: Fused::new(signals, Fusion::Weighted, request.rankable()),
                }
            });
    parts.collect()
}

/// The vectors of parts, one a row; of zeros where the model knows nothing of the part.
fn embed(vectors: &Vectors, texts: &[&str], deadline: Deadline) -> Result<Array2<f32>, String> {
    let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
    guarded(vectors.embedder(), deadline, move |embedder| {
        Vectors::embed_queries(
            embedder,
            &texts.iter().map(String::as_str).collect::<Vec<_>>(),
            deadline,
        )
    })
}
