//! The semantic retriever.

use ndarray::{Array2, ArrayView1};

use super::Signal;
use crate::index::{Index, Vectors};

/// Scores every tool by its cosine similarity to a request's unit vectors: the whole request's, then each sentence's.
pub(crate) fn semantic(index: &Index, vectors: &Vectors, request: &Array2<f32>) -> Signal {
    let cosines = vectors.scores(request);
    let scores = if request.nrows() == 1 {
        cosines.into_iter().collect()
    } else {
        let half_best = |row: ArrayView1<'_, f32>| {
            f32::midpoint(row[0], row.iter().skip(1).copied().fold(f32::NEG_INFINITY, f32::max))
        };
        cosines.rows().into_iter().map(half_best).collect()
    };
    Signal::cosines(scores, index)
}
