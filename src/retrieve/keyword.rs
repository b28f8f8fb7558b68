//! The keyword retriever.

use super::{QueryTerm, Signal};
use crate::error::IndexError;
use crate::index::KeywordIndex;

/// Scores `tools` tools by BM25 over the distinct terms of a request.
pub(crate) fn keyword(index: &KeywordIndex, terms: &[QueryTerm], tools: usize) -> Result<Signal, IndexError> {
    let mut scores = vec![0.0; tools];
    let mut ceiling = 0.0;
    for term in terms {
        ceiling += index.add_scores(&term.term, term.kind, &mut scores)?.unwrap_or(0.0);
    }
    Ok(Signal { scores, floor: 0.0, ceiling })
}
