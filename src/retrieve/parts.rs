//! What the retrievers say of a few tools for each part of a request.
//!
//! The parts are requests of their own, so that nothing is shared between them but the weights of the terms.

use ndarray::Array2;

use super::terms::{FoundTerm, query_terms};
use crate::index::{IndexError, KeywordIndex, Vectors, products};
use crate::ranking::ToolId;

/// Scores `tools` by BM25 for each part: shape parts × tools.
pub(crate) fn keyword_parts(index: &KeywordIndex, parts: &[&str], tools: &[ToolId]) -> Result<Array2<f32>, IndexError> {
    let mut scores = Array2::zeros((parts.len(), tools.len()));
    for FoundTerm { query, indexed } in FoundTerm::all(index, query_terms(parts))? {
        for (column, &tool) in tools.iter().enumerate() {
            let contribution = index.contribution(tool, &indexed);
            if contribution > 0.0 {
                query.sentences().for_each(|part| scores[[part, column]] += contribution);
            }
        }
    }
    Ok(scores)
}

/// Scores `tools` by cosine similarity to each part, whose vectors are the rows of `embedded`: shape parts × tools.
pub(crate) fn semantic_parts(vectors: &Vectors, embedded: &Array2<f32>, tools: &[ToolId]) -> Array2<f32> {
    let mut rows = Array2::zeros((tools.len(), embedded.ncols()));
    for (mut row, &tool) in rows.rows_mut().into_iter().zip(tools) {
        row.assign(&vectors.of(tool));
    }
    products(embedded.view(), rows.view())
}
