//! What the examples of tools add to a signal.
//!
//! A retriever scores examples as it scores tools, and a tool's score is raised towards what its examples come to, where that is
//! more: by a fixed share, so that the tool's own text always has its say, and a tool without examples competes with what a text
//! alone can reach. What examples come to is a soft maximum, the logarithm of a sum of exponentials: the nearest one counts
//! most, and others near it count too. A sum over many is high by their number alone, and who asks for one tool for whatever there
//! is would be served with it; so the more there are, the more the sum becomes a mean.
//!
//! One rule, with the same constants for every catalog; `docs/results.md` has what else was tried.

use ndarray::Array2;

use super::Signal;
use super::sentences::half_best;
use super::terms::QueryTerm;
use crate::embed::ModelKind;
use crate::index::{ExampleIndex, Index, Vectors};

/// How much of what a tool's examples score above its own text is added to that.
const SHARE: f32 = 0.6;
/// Scores that lie within this count nearly alike in a soft maximum: of BM25, and of the cosines of a static model and of any
/// other, which tells texts better apart.
pub(super) const KEYWORD_SPREAD: f32 = 5.0;
const COSINE_SPREAD: f32 = 0.125;
const MODEL_SPREAD: f32 = 0.06;
/// The number of examples from which on the sum over them is rather a mean.
const MANY: f32 = 8.0;

/// What one retriever says of the examples of a catalog.
#[derive(Debug, Clone)]
pub(crate) struct ExampleScores {
    /// One score per example, of the kind that tools have.
    pub(crate) scores: Vec<f32>,
    /// By how much they raise each tool's score.
    pub(crate) gains: Vec<f32>,
}

impl ExampleScores {
    /// What a retriever says of the same examples that has nothing to say.
    pub(super) fn silent(&self) -> Self {
        Self { scores: vec![0.0; self.scores.len()], gains: vec![0.0; self.gains.len()] }
    }

    /// Mixes it with what the retriever says of the conversation, whose share is `share`.
    pub(super) fn mix(&mut self, conversation: &Self, share: f32) {
        let mix = |own: &mut [f32], whole: &[f32]| {
            own.iter_mut().zip(whole).for_each(|(own, whole)| *own += share * (whole - *own));
        };
        mix(&mut self.scores, &conversation.scores);
        mix(&mut self.gains, &conversation.gains);
    }
}

/// Scores every example by BM25 over the terms of a request of `sentences` sentences.
pub(super) fn keyword(index: &Index, examples: &ExampleIndex, terms: &[QueryTerm], sentences: usize) -> Vec<f32> {
    let contributions = |term: &QueryTerm| {
        let share = term.weight;
        examples.contributions(index, &term.term, term.kind).map(move |(example, gives)| (example, share * gives))
    };
    half_best(examples.len(), sentences, terms, |term| term, contributions)
}

/// Scores every example by its cosine similarity to a request's unit vectors; `None` where the model has no vectors of them.
pub(super) fn semantic(examples: &ExampleIndex, vectors: &Vectors, request: &Array2<f32>) -> Option<Vec<f32>> {
    Some(super::semantic::half_best(&mut examples.cosines(vectors, request)?))
}

impl Signal {
    /// Raises the tools whose examples have higher cosines than their own texts.
    #[must_use]
    pub(crate) fn with_example_cosines(self, examples: &ExampleIndex, cosines: Vec<f32>, model: ModelKind) -> Self {
        let spread = if model == ModelKind::Static { COSINE_SPREAD } else { MODEL_SPREAD };
        self.with_examples(examples, cosines, spread)
    }

    /// Raises the tools whose examples score more than their own texts do.
    #[must_use]
    pub(super) fn with_examples(mut self, examples: &ExampleIndex, scores: Vec<f32>, spread: f32) -> Self {
        let mut gains = vec![0.0; self.scores.len()];
        for (tool, places) in examples.tools() {
            let own = self.of(tool);
            let gain = SHARE * (pooled(&scores[places], spread) - own).max(0.0);
            gains[tool.index()] = gain;
            self.scores[tool.index()] = own + gain;
            self.ceiling = self.ceiling.max(own + gain);
        }
        Self { examples: Some(ExampleScores { scores, gains }), ..self }
    }
}

/// The scores of a tool's examples as one: a soft maximum.
fn pooled(scores: &[f32], spread: f32) -> f32 {
    let best = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = scores.iter().map(|score| ((score - best) / spread).exp()).sum();
    let crowd = (1.0 + scores.len() as f32 / MANY) / (1.0 + 1.0 / MANY);
    best + spread * (sum / crowd).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_example_counts_for_itself_and_the_nearest_of_several_most() {
        assert!((pooled(&[0.4], COSINE_SPREAD) - 0.4).abs() < 1e-6);
        let far = pooled(&[0.4, -0.5, -0.5, -0.5], COSINE_SPREAD);
        assert!(far < 0.4 && far > 0.25, "what is far takes something away: {far}");
        let near = pooled(&[0.4, 0.4, 0.4, 0.4], COSINE_SPREAD);
        assert!(near > 0.4 && near < 0.56, "what is near adds something: {near}");
        let greedy: Vec<f32> = (0..50).map(|number| if number == 7 { 0.4 } else { 0.0 }).collect();
        assert!(pooled(&greedy, COSINE_SPREAD) < 0.4, "one near example of fifty is no more than that one alone");
        assert!(pooled(&[0.0; 3], KEYWORD_SPREAD).is_finite());
    }
}
