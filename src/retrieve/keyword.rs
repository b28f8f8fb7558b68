//! The keyword retriever.

use super::Signal;
use super::terms::{FoundTerm, QueryTerm};
use crate::index::{Index, IndexError};

/// Scores the tools by BM25 over the distinct terms of a request of `sentences` sentences, and returns the terms
/// that there are.
pub(crate) fn keyword(
    index: &Index,
    terms: Vec<QueryTerm>,
    sentences: usize,
) -> Result<(Vec<FoundTerm>, Signal), IndexError> {
    let tools = index.catalog.len();
    let words = || terms.iter().map(|term| (term.term.as_str(), term.kind, term.weight));
    let sources = index.sources.as_ref().map(|sources| sources.keyword(words()));
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
    let best = by_sentence.into_iter().reduce(|mut best, scores| {
        best.iter_mut().zip(scores).for_each(|(best, score)| *best = best.max(score));
        best
    });
    if let Some(best) = best {
        whole.iter_mut().zip(best).for_each(|(whole, best)| *whole = f32::midpoint(*whole, best));
    }
    let ceiling = found.iter().map(|term| term.indexed.weight).sum();
    Ok((found, Signal { scores: whole, floor: 0.0, ceiling, context: None, sources }))
}
