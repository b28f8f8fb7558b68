//! The keyword retriever.

use super::{QueryTerm, Signal};
use crate::error::IndexError;
use crate::index::KeywordIndex;

/// Scores `tools` tools by BM25 over the distinct terms of a request of `sentences` sentences.
pub(crate) fn keyword(
    index: &KeywordIndex,
    terms: &[QueryTerm],
    sentences: usize,
    tools: usize,
) -> Result<Signal, IndexError> {
    let mut whole = vec![0.0; tools];
    let mut by_sentence = vec![vec![0.0; tools]; if sentences > 1 { sentences } else { 0 }];
    let mut ceiling = 0.0;
    for term in terms {
        let own: Vec<usize> = term.sentences().filter(|&sentence| sentence < by_sentence.len()).collect();
        let largest = index.contributions(&term.term, term.kind, |tool, contribution| {
            whole[tool] += contribution;
            own.iter().for_each(|&sentence| by_sentence[sentence][tool] += contribution);
        })?;
        ceiling += largest.unwrap_or(0.0);
    }
    let best = by_sentence.into_iter().reduce(|mut best, scores| {
        best.iter_mut().zip(scores).for_each(|(best, score)| *best = best.max(score));
        best
    });
    if let Some(best) = best {
        whole.iter_mut().zip(best).for_each(|(whole, best)| *whole = f32::midpoint(*whole, best));
    }
    Ok(Signal { scores: whole, floor: 0.0, ceiling })
}
