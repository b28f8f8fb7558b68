//! The semantic retriever.

use ndarray::{Array2, ArrayView1};

use super::{Signal, examples};
use crate::index::{ExampleIndex, Index, Vectors};

/// Scores every tool by its cosine similarity to a request's unit vectors: the whole request's, then each sentence's.
/// Examples raise tools.
pub(crate) fn semantic(
    index: &Index,
    vectors: &Vectors,
    request: &Array2<f32>,
    examples: Option<&ExampleIndex>,
) -> Signal {
    let signal = Signal::cosines(half_best(&vectors.scores(request)), index);
    match examples.and_then(|index| Some((index, examples::semantic(index, vectors, request)?))) {
        Some((examples, scores)) => signal.with_example_cosines(examples, scores, vectors.embedder().kind()),
        None => signal,
    }
}

/// Half the similarity to the whole request, half that to the sentence that is nearest, where there are several.
pub(super) fn half_best(cosines: &Array2<f32>) -> Vec<f32> {
    if cosines.ncols() == 1 {
        return cosines.iter().copied().collect();
    }
    let half_best =
        |row: ArrayView1<'_, f32>| f32::midpoint(row[0], row.iter().skip(1).copied().fold(f32::NEG_INFINITY, f32::max));
    cosines.rows().into_iter().map(half_best).collect()
}
