//! The semantic retriever.

use ndarray::ArrayView2;

use super::examples::ExampleSimilarities;
use super::signal::Signal;
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
