//! The keyword retriever.

use super::sentences::half_best;
use super::terms::{FoundTerm, QueryTerm};
use super::{Signal, examples};
use crate::index::{ExampleIndex, Index};
use crate::ranking::Scored;

/// Scores the tools by BM25 over the distinct terms of a request of `sentences` sentences, and
/// returns the terms that there are. Examples raise tools.
pub(crate) fn keyword<'q>(
    index: &Index,
    terms: Vec<QueryTerm<'q>>,
    sentences: usize,
    examples: Option<&ExampleIndex>,
) -> (Vec<FoundTerm<'q>>, Signal) {
    let words = || terms.iter().map(|term| (term.key, term.kind, term.weight));
    let sources = index
        .sources
        .as_ref()
        .map(|sources| sources.keyword(words()));
    let of_examples = examples.map(|of| (of, examples::keyword(index, of, &terms, sentences)));
    let found = FoundTerm::all(&index.keyword, terms);
    let scores = half_best(
        index.catalog.len(),
        sentences,
        &found,
        |term| &term.query,
        |term| index.keyword.contributions(&term.indexed),
    );
    let ceiling = found.iter().map(|term| term.indexed.weight).sum();
    let scored = Scored::All(index.catalog.len());
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
    let signal = match of_examples {
        Some((of, scores)) => signal.with_example_words(of, scores),
        None => signal,
    };
    (found, signal)
}
