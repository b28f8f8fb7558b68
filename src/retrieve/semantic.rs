//! The semantic retriever.

use ndarray::Array2;

use super::Signal;
use crate::index::Vectors;

/// Scores every tool by its cosine similarity to a request's unit vectors: the whole request's, then each sentence's.
pub(crate) fn semantic(vectors: &Vectors, request: &Array2<f32>) -> Signal {
    let cosines = vectors.scores(request);
    let scores = cosines.rows().into_iter().map(|row| {
        let best = row.iter().skip(1).copied().reduce(f32::max);
        best.map_or(row[0], |best| f32::midpoint(row[0], best))
    });
    Signal { scores: scores.collect(), floor: f32::NEG_INFINITY, ceiling: 1.0 }
}
