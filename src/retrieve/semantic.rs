//! The semantic retriever.

use ndarray::ArrayView2;

use super::Signal;
use super::examples::ExampleSimilarities;
use crate::index::{Cosines, ExampleIndex, Index, Vectors};

/// Scores tools by their cosine similarities to a request's unit vectors: first that of the
/// complete request, then those of its sentences. Examples raise tools.
pub(crate) fn semantic(
    index: &Index,
    vectors: &Vectors,
    (request, cosines): (ArrayView2<'_, f32>, Cosines),
    examples: Option<&ExampleIndex>,
) -> Signal {
    let similarities = examples.and_then(|examples| {
        let example_cosines = examples.cosines(vectors, request)?;
        let similarities =
            ExampleSimilarities::new(examples, vectors, &cosines.tools, example_cosines);
        Some((examples, similarities))
    });
    let signal = Signal::cosines(cosines, index, vectors, request);
    match similarities {
        Some((examples, similarities)) => signal.with_example_similarities(examples, similarities),
        None => signal,
    }
}

/// Returns half the similarity to the complete request and half that to the nearest sentence, by
/// tool. The complete request comes first. Without sentences, its similarities are returned
/// unchanged.
pub(super) fn half_best(cosines: Vec<Vec<f32>>) -> Vec<f32> {
    let mut cosines = cosines.into_iter();
    let Some(mut scores) = cosines.next() else {
        return Vec::new();
    };
    if let Some(mut best) = cosines.next() {
        for sentence in cosines {
            best.iter_mut()
                .zip(sentence)
                .for_each(|(best, cosine)| *best = best.max(cosine));
        }
        scores
            .iter_mut()
            .zip(best)
            .for_each(|(score, best)| *score = f32::midpoint(*score, best));
    }
    scores
}
