//! The keyword retriever.

use super::terms::{FoundTerm, QueryTerm};
use super::{Signal, examples, half_best};
use crate::index::{ExampleIndex, Index, IndexError};

/// Scores the tools by BM25 over the distinct terms of a request of `sentences` sentences, and returns the terms
/// that there are. Examples raise tools.
pub(crate) fn keyword(
    index: &Index,
    terms: Vec<QueryTerm>,
    sentences: usize,
    examples: Option<&ExampleIndex>,
) -> Result<(Vec<FoundTerm>, Signal), IndexError> {
    let tools = index.catalog.len();
    let words = || terms.iter().map(|term| (term.term.as_str(), term.kind, term.weight));
    let sources = index.sources.as_ref().map(|sources| sources.keyword(words()));
    let score = |of| examples::keyword(index, of, &terms, sentences);
    let of_examples = examples.map(|of| score(of).map(|scores| (of, scores))).transpose()?;
    let found = FoundTerm::all(&index.keyword, terms)?;
    let mut whole = vec![0.0; tools];
    let mut by_sentence = vec![vec![0.0; tools]; if sentences > 1 { sentences } else { 0 }];
    for FoundTerm { query, indexed } in &found {
        let own: Vec<usize> = query.sentences().filter(|&sentence| sentence < by_sentence.len()).collect();
        index.keyword.contributions(indexed, |tool, contribution| {
            whole[tool] += contribution;
            own.iter().for_each(|&sentence| by_sentence[sentence][tool] += contribution);
        })?;
    }
    half_best(&mut whole, &by_sentence);
    let ceiling = found.iter().map(|term| term.indexed.weight).sum();
    let signal = Signal { scores: whole, floor: 0.0, ceiling, context: None, sources, examples: None };
    let signal = match of_examples {
        Some((of, scores)) => signal.with_examples(of, scores, examples::KEYWORD_SPREAD),
        None => signal,
    };
    Ok((found, signal))
}
