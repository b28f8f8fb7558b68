//! What each part of a request wants: the parts are asked as requests of their own, by the quick retrievers.
//!
//! By the whole request alone, the part with the strongest words would take all places: beside it, the tool that another part
//! wants looks like no candidate at all.

use ndarray::{Array2, Axis, s};

use super::ranked::Ranked;
use super::report::Report;
use super::request::Request;
use super::signals::guarded;
use crate::function_words::says_something;
use crate::fuse::{Fused, Fusion, Retriever, Signals};
use crate::index::Vectors;
use crate::options::Choice;
use crate::ranking::ToolId;
use crate::retrieve::{self, FoundTerm, Signal, Similar, query_terms};
use crate::select::static_vectors;
use crate::selection::Stage;

/// A part's best tool stands for it where it is more likely right than wrong.
const GOOD: f32 = 0.5;

/// One part of a request, and what the quick retrievers say of it.
pub(super) struct Part<'q> {
    pub(super) text: &'q str,
    pub(super) terms: Vec<FoundTerm>,
    pub(super) fused: Fused,
}

impl Part<'_> {
    /// Returns the part's best tool if that is good.
    pub(super) fn good(&self, min_score: f32) -> Option<ToolId> {
        self.fused.best().filter(|&best| self.fused.score_of(best) >= GOOD.max(min_score))
    }
}

/// Asks for each part of the request, where there are several and the picks are to cover them; else there are none.
pub(super) fn parts<'q>(request: &Request<'q>, ranked: &Ranked, report: &mut Report) -> Vec<Part<'q>> {
    let (index, options) = (request.index, request.options);
    let Ranked::Fused { fused, sentences, .. } = ranked else { return Vec::new() };
    if options.choice != Choice::Set || options.max_candidates < 2 || fused.method != Fusion::Weighted {
        return Vec::new();
    }
    let mut texts = request.query.clauses();
    texts.retain(|text| says_something(text));
    if texts.len() < 2 {
        return Vec::new();
    }
    let vectors = static_vectors(index).filter(|_| request.mode.uses_semantic());
    let mut cosines = match vectors.map(|vectors| embed(vectors, &texts, request)).transpose() {
        Ok(embedded) => vectors.zip(embedded).map(|(vectors, embedded)| {
            let of_examples = request.examples.and_then(|examples| examples.cosines(vectors, &embedded));
            let cosines = scores(vectors, (&texts, &embedded), request, sentences);
            (vectors, embedded, cosines, of_examples)
        }),
        Err(reason) => {
            report.degraded(Stage::Select, format!("{reason}; the parts of the request are not told apart"));
            return Vec::new();
        }
    };
    let parts = texts.into_iter().enumerate().map(|(place, text)| {
        let mut signals = Signals::new();
        let mut terms = Vec::new();
        if request.mode.uses_keyword() {
            let (found, signal) = retrieve::keyword(index, query_terms(&[text]), 1, request.examples);
            signals.push((Retriever::Keyword, signal));
            terms = found;
        }
        if let Some((vectors, embedded, cosines, of_examples)) = &mut cosines {
            let own = embedded.slice(s![place..=place, ..]);
            let mut of_tools = vec![std::mem::take(&mut cosines[place])];
            let similar = request.examples.zip(of_examples.as_mut()).map(|(examples, cosines)| {
                let cosines = vec![std::mem::take(&mut cosines[place])];
                (examples, Similar::new(examples, vectors, &of_tools, cosines))
            });
            let mut signal = Signal::cosines(&mut of_tools, index, vectors, own);
            if let Some((examples, similar)) = similar {
                signal = signal.with_similar(examples, similar);
            }
            signals.push((Retriever::Static, signal));
        }
        Part { text, terms, fused: Fused::new(signals, Fusion::Weighted, request.rankable()) }
    });
    parts.collect()
}

/// How near each tool is to each of the parts. Of a part that is a sentence that is known already.
fn scores(
    vectors: &Vectors,
    (texts, embedded): (&[&str], &Array2<f32>),
    request: &Request<'_>,
    of_sentences: &[Vec<f32>],
) -> Vec<Vec<f32>> {
    let sentences: Vec<&str> = request.query.sentences().into_iter().map(str::trim).collect();
    let known = |text: &&str| of_sentences.get(sentences.iter().position(|sentence| sentence == text)?);
    let new: Vec<usize> = (0..texts.len()).filter(|&place| known(&texts[place]).is_none()).collect();
    let mut scored = vectors.scores(embedded.select(Axis(0), &new).view()).into_iter();
    let scores = texts.iter().map(|text| known(text).cloned().or_else(|| scored.next()).unwrap_or_default());
    scores.collect()
}

/// The parts' vectors, one a row; of zeros where the model knows nothing of the part.
fn embed(vectors: &Vectors, texts: &[&str], request: &Request<'_>) -> Result<Array2<f32>, String> {
    let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
    let deadline = request.deadline;
    guarded(vectors.embedder(), deadline, move |embedder| {
        Vectors::embed_queries(embedder, &texts.iter().map(String::as_str).collect::<Vec<_>>(), deadline)
    })
}
