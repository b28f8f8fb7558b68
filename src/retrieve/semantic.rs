//! The semantic retriever.

use ndarray::Array2;

use super::Signal;
use super::examples::Similar;
use crate::index::{ExampleIndex, Index, Vectors};

/// Scores every tool by its cosine similarity to a request's unit vectors: the whole request's, then each sentence's. Examples
/// raise tools. With the similarities to each sentence, where there are several.
pub(crate) fn semantic(
    index: &Index,
    vectors: &Vectors,
    request: &Array2<f32>,
    examples: Option<&ExampleIndex>,
) -> (Signal, Vec<Vec<f32>>) {
    let mut sentences = vectors.scores(request.view());
    let similar = examples.and_then(|examples| {
        let cosines = examples.cosines(vectors, request)?;
        Some((examples, Similar::new(examples, vectors, &sentences, cosines)))
    });
    let signal = Signal::cosines(&mut sentences, index, vectors, request.view());
    let signal = match similar {
        Some((examples, similar)) => signal.with_similar(examples, similar),
        None => signal,
    };
    (signal, sentences)
}

/// Takes the similarities to the whole request, which come first, and returns half these and half those to the sentence that
/// is nearest, where there are several.
pub(super) fn half_best(cosines: &mut Vec<Vec<f32>>) -> Vec<f32> {
    if cosines.is_empty() {
        return Vec::new();
    }
    let mut whole = cosines.remove(0);
    if let Some((first, others)) = cosines.split_first() {
        let mut best = first.clone();
        for sentence in others {
            best.iter_mut().zip(sentence).for_each(|(best, cosine)| *best = best.max(*cosine));
        }
        whole.iter_mut().zip(best).for_each(|(whole, best)| *whole = f32::midpoint(*whole, best));
    }
    whole
}
