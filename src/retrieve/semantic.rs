//! The semantic retriever.

use ndarray::ArrayView2;

use super::Signal;
use super::examples::Similar;
use crate::index::{Cosines, ExampleIndex, Index, Vectors};

/// Scores tools by their cosine similarities to a request's unit vectors: the whole request's, then
/// each sentence's. Examples raise tools.
pub(crate) fn semantic(
    index: &Index,
    vectors: &Vectors,
    (request, cosines): (ArrayView2<'_, f32>, Cosines),
    examples: Option<&ExampleIndex>,
) -> Signal {
    let similar = examples.and_then(|examples| {
        let of_examples = examples.cosines(vectors, request)?;
        Some((
            examples,
            Similar::new(examples, vectors, &cosines.tools, of_examples),
        ))
    });
    let signal = Signal::cosines(cosines, index, vectors, request);
    match similar {
        Some((examples, similar)) => signal.with_similar(examples, similar),
        None => signal,
    }
}

/// Takes the similarities to the whole request, which come first, and returns half these and half
/// those to the sentence that is nearest, where there are several.
pub(super) fn half_best(cosines: Vec<Vec<f32>>) -> Vec<f32> {
    let mut cosines = cosines.into_iter();
    let Some(mut whole) = cosines.next() else {
        return Vec::new();
    };
    if let Some(mut best) = cosines.next() {
        for sentence in cosines {
            best.iter_mut()
                .zip(sentence)
                .for_each(|(best, cosine)| *best = best.max(cosine));
        }
        whole
            .iter_mut()
            .zip(best)
            .for_each(|(whole, best)| *whole = f32::midpoint(*whole, best));
    }
    whole
}
