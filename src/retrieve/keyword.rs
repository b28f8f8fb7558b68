//! The keyword retriever.

use super::examples;
use super::query_term::QueryTerm;
use super::sentences::half_best;
use super::signal::Signal;
use super::terms::FoundTerm;
use crate::index::{ExampleIndex, Index};
use crate::ranking::ScoredTools;

/// Scores the tools by BM25 over the distinct terms of a request with `sentences` sentences.
/// Returns the terms that the index contains, and the signal. Examples raise tools.
pub(crate) fn keyword<'q>(
    index: &Index,
    terms: Vec<QueryTerm<'q>>,
    sentences: usize,
    examples: Option<&ExampleIndex>,
) -> (Vec<FoundTerm<'q>>, Signal) {
    let weighted_terms = || terms.iter().map(|term| (term.key, term.kind, term.weight));
    let sources = index
        .sources
        .as_ref()
        .map(|sources| sources.keyword(weighted_terms()));
    let example_scores = examples.map(|example_index| {
        let scores = examples::keyword(index, example_index, &terms, sentences);
        (example_index, scores)
    });
    let found_terms = FoundTerm::all(&index.keyword, terms);
    let scores = half_best(
        index.catalog.len(),
        sentences,
        &found_terms,
        |term| &term.query,
        |term| index.keyword.contributions(&term.indexed),
    );
    let ceiling = found_terms.iter().map(|term| term.indexed.weight).sum();
    let scored = ScoredTools::All(index.catalog.len());
    let signal = Signal {
        scored,
        scores,
        floor: 0.0,
        ceiling,
        context: None,
        sources,
        examples: None,
        scope: None,
    };
    let signal = match example_scores {
        Some((example_index, scores)) => signal.with_example_words(example_index, scores),
        None => signal,
    };
    (found_terms, signal)
}
