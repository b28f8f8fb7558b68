//! The semantic retriever.

use super::Signal;
use crate::index::Vectors;

/// Scores every tool by its cosine similarity to a request's unit vector.
pub(crate) fn semantic(vectors: &Vectors, query: &[f32]) -> Signal {
    Signal { scores: vectors.scores(query), floor: f32::NEG_INFINITY, ceiling: 1.0 }
}
