//! The effect of examples on a signal.
//!
//! A retriever scores examples as it scores tools. A tool's score is raised towards the combined
//! score of its examples if that is higher. So a tool without examples competes with scores that a
//! text alone can reach.
//!
//! For keywords, the combined score is a soft maximum, the logarithm of a sum of exponentials. The
//! nearest example counts most, and others near it count too. A sum over many examples is high
//! because of their number alone. Somebody could report one tool for every request and have it
//! always picked. So the more examples there are, the more the sum becomes a mean. Only a fixed
//! share of it counts, so the tool's own text always matters.
//!
//! For vectors, it is the similarity to the tool's centroid
//! ([`ExampleIndex::centroid_similarities`]), which includes the tool's own text. This is Rocchio's
//! method (1971) with the roles of query and document exchanged. Unrelated requests have no common
//! direction, so a tool that is reported for everything gains nothing.
//!
//! The rule and its constants are the same for every catalog. `docs/results.md` has the
//! alternatives that were measured.

use super::query_term::QueryTerm;
use super::sentences::half_best;
use super::signal::{self, ExampleScores, Signal};
use crate::index::{ExampleIndex, Index, Vectors};
use crate::ranking::ToolId;

/// The share of the difference between the keyword score of a tool's examples and its own text that
/// is added.
const SHARE: f32 = 0.6;
/// The width of the soft maximum, in BM25 scores. Scores within this distance count nearly alike.
const SPREAD: f32 = 5.0;
/// The number of examples from which on the sum becomes rather a mean.
const CROWD_EXAMPLES: f32 = 8.0;

impl ExampleScores {
    /// Returns scores of 0 for the same examples.
    pub(super) fn zeros(&self) -> Self {
        Self {
            scores: vec![0.0; self.scores.len()],
            gains: vec![0.0; self.gains.len()],
        }
    }

    /// Mixes in the scores for the conversation with the weight `share`.
    pub(super) fn mix(&mut self, conversation: &Self, share: f32) {
        let mix = |request: &mut [f32], conversation: &[f32]| {
            for (score, other) in request.iter_mut().zip(conversation) {
                *score += share * (other - *score);
            }
        };
        mix(&mut self.scores, &conversation.scores);
        mix(&mut self.gains, &conversation.gains);
    }
}

/// Scores every example by BM25 over the terms of a request with `sentences` sentences.
pub(super) fn keyword(
    index: &Index,
    examples: &ExampleIndex,
    terms: &[QueryTerm<'_>],
    sentences: usize,
) -> Vec<f32> {
    let contributions = |term: &QueryTerm<'_>| {
        let share = term.weight;
        examples
            .contributions(index, term.key, term.kind)
            .map(move |(example, contribution)| (example, share * contribution))
    };
    half_best(examples.len(), sentences, terms, |term| term, contributions)
}

/// The cosine similarities of a request's unit vectors to examples and to the centroids of their
/// tools.
pub(crate) struct ExampleSimilarities {
    /// By row of the request, then by example.
    examples: Vec<Vec<f32>>,
    /// By row of the request, then by tool with examples.
    centroids: Vec<Vec<f32>>,
}

impl ExampleSimilarities {
    /// Takes the cosines of the rows of a request to all tools and to all examples.
    pub(crate) fn new(
        examples: &ExampleIndex,
        vectors: &Vectors,
        tool_cosines: &[Vec<f32>],
        cosines: Vec<Vec<f32>>,
    ) -> Self {
        let mut centroids = Vec::with_capacity(cosines.len());
        for (tool_cosines, cosines) in tool_cosines.iter().zip(&cosines) {
            centroids.push(examples.centroid_similarities(vectors, tool_cosines, cosines));
        }
        Self {
            centroids,
            examples: cosines,
        }
    }
}

impl Signal {
    /// Raises the tools whose centroid is nearer to the request than their own text.
    #[must_use]
    pub(crate) fn with_example_similarities(
        self,
        examples: &ExampleIndex,
        similarities: ExampleSimilarities,
    ) -> Self {
        let ExampleSimilarities {
            examples: cosines,
            centroids,
        } = similarities;
        let centroids = signal::half_best(centroids);
        let gains = examples
            .tools()
            .zip(centroids)
            .map(|((tool, _), centroid)| (tool, centroid - self.score(tool)));
        let gains = gains.collect();
        self.raise(gains, signal::half_best(cosines))
    }

    /// Raises the tools whose examples match the request's words better than their own text.
    /// `scores` has one score per example.
    #[must_use]
    pub(super) fn with_example_words(self, examples: &ExampleIndex, scores: Vec<f32>) -> Self {
        let gain = |(tool, positions)| {
            let excess = soft_maximum(&scores[positions]) - self.score(tool);
            (tool, SHARE * excess)
        };
        let gains = examples.tools().map(gain).collect();
        self.raise(gains, scores)
    }

    fn raise(mut self, tool_gains: Vec<(ToolId, f32)>, scores: Vec<f32>) -> Self {
        let mut gains = vec![0.0; self.scores.len()];
        for (tool, gain) in tool_gains.into_iter().filter(|(_, gain)| *gain > 0.0) {
            gains[tool.index()] = gain;
            self.scores[tool.index()] += gain;
            self.ceiling = self.ceiling.max(self.score(tool));
        }
        Self {
            examples: Some(ExampleScores { scores, gains }),
            ..self
        }
    }
}

/// Combines the scores of a tool's examples: a soft maximum.
fn soft_maximum(scores: &[f32]) -> f32 {
    let best = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = scores
        .iter()
        .map(|score| ((score - best) / SPREAD).exp())
        .sum();
    let crowd = (1.0 + scores.len() as f32 / CROWD_EXAMPLES) / (1.0 + 1.0 / CROWD_EXAMPLES);
    best + SPREAD * (sum / crowd).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_maximum_is_dominated_by_the_nearest_example() {
        assert!((soft_maximum(&[16.0]) - 16.0).abs() < 1e-4);
        let far = soft_maximum(&[16.0, 0.0, 0.0, 0.0]);
        assert!(
            far < 16.0 && far > 13.0,
            "distant examples lower the score: {far}"
        );
        let near = soft_maximum(&[16.0; 4]);
        assert!(
            near > 16.0 && near < 22.0,
            "near examples raise the score: {near}"
        );
        let mostly_far: Vec<f32> = (0..50)
            .map(|number| if number == 7 { 16.0 } else { 0.0 })
            .collect();
        assert!(
            soft_maximum(&mostly_far) < 16.0,
            "one near example of fifty scores less than that one alone"
        );
        assert!(soft_maximum(&[0.0; 3]).is_finite());
    }
}
