//! What the examples of tools add to a signal.
//!
//! A retriever scores examples as it scores tools, and a tool's score is raised towards what its
//! examples come to, where that is more; so a tool without examples competes with what a text alone
//! can reach.
//!
//! Of words, what they come to is a soft maximum, the logarithm of a sum of exponentials: the
//! nearest example counts most, and others near it count too. A sum over many is high by their
//! number alone, and who asks for one tool for whatever there is would be served with it; so the
//! more there are, the more the sum becomes a mean. A fixed share of it counts, so that the tool's
//! own text always has its say.
//!
//! Of vectors, it is the similarity to the tool's centre ([`ExampleIndex::centres`]), which the
//! tool's own text is a part of: a query moved towards what was relevant (Rocchio 1971), turned
//! round. Requests of many kinds have no direction in common, so a tool that is asked for whatever
//! there is gains nothing.
//!
//! One rule, with the same constants for every catalog; `docs/results.md` has what else was tried.

use super::Signal;
use super::sentences::half_best;
use super::terms::QueryTerm;
use crate::index::{ExampleIndex, Index, Vectors};
use crate::ranking::ToolId;

/// How much of what the words of a tool's examples score above its own text is added to that.
const SHARE: f32 = 0.6;
/// BM25 scores that lie within this count nearly alike in a soft maximum.
const SPREAD: f32 = 5.0;
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
        Self {
            scores: vec![0.0; self.scores.len()],
            gains: vec![0.0; self.gains.len()],
        }
    }

    /// Mixes it with what the retriever says of the conversation, whose share is `share`.
    pub(super) fn mix(&mut self, conversation: &Self, share: f32) {
        let mix = |own: &mut [f32], whole: &[f32]| {
            own.iter_mut()
                .zip(whole)
                .for_each(|(own, whole)| *own += share * (whole - *own));
        };
        mix(&mut self.scores, &conversation.scores);
        mix(&mut self.gains, &conversation.gains);
    }
}

/// Scores every example by BM25 over the terms of a request of `sentences` sentences.
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
            .map(move |(example, gives)| (example, share * gives))
    };
    half_best(examples.len(), sentences, terms, |term| term, contributions)
}

/// The cosine similarities of a request's unit vectors to examples, and to the centres of their
/// tools.
pub(crate) struct Similar {
    /// By row of the request, then by example.
    examples: Vec<Vec<f32>>,
    /// By row of the request, then by tool that has some.
    centres: Vec<Vec<f32>>,
}

impl Similar {
    /// Takes the cosines of the rows of a request to all tools, `own`, and to all examples.
    pub(crate) fn new(
        examples: &ExampleIndex,
        vectors: &Vectors,
        own: &[Vec<f32>],
        cosines: Vec<Vec<f32>>,
    ) -> Self {
        let centres = own
            .iter()
            .zip(&cosines)
            .map(|(own, cosines)| examples.centres(vectors, own, cosines));
        Self {
            centres: centres.collect(),
            examples: cosines,
        }
    }
}

impl Signal {
    /// Raises the tools to whose centres a request is nearer than to their own texts.
    #[must_use]
    pub(crate) fn with_similar(self, examples: &ExampleIndex, similar: Similar) -> Self {
        let Similar {
            examples: cosines,
            centres,
        } = similar;
        let centres = super::semantic::half_best(centres);
        let gains = examples
            .tools()
            .zip(centres)
            .map(|((tool, _), centre)| (tool, centre - self.of(tool)));
        let gains = gains.collect();
        self.raised(gains, super::semantic::half_best(cosines))
    }

    /// Raises the tools whose examples have more of the request's words than their own texts have,
    /// by the score of all examples.
    #[must_use]
    pub(super) fn with_example_words(self, examples: &ExampleIndex, scores: Vec<f32>) -> Self {
        let gain = |(tool, places)| (tool, SHARE * (pooled(&scores[places]) - self.of(tool)));
        let gains = examples.tools().map(gain).collect();
        self.raised(gains, scores)
    }

    fn raised(mut self, of_tools: Vec<(ToolId, f32)>, scores: Vec<f32>) -> Self {
        let mut gains = vec![0.0; self.scores.len()];
        for (tool, gain) in of_tools.into_iter().filter(|(_, gain)| *gain > 0.0) {
            gains[tool.index()] = gain;
            self.scores[tool.index()] += gain;
            self.ceiling = self.ceiling.max(self.of(tool));
        }
        Self {
            examples: Some(ExampleScores { scores, gains }),
            ..self
        }
    }
}

/// The scores of a tool's examples as one: a soft maximum.
fn pooled(scores: &[f32]) -> f32 {
    let best = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = scores
        .iter()
        .map(|score| ((score - best) / SPREAD).exp())
        .sum();
    let crowd = (1.0 + scores.len() as f32 / MANY) / (1.0 + 1.0 / MANY);
    best + SPREAD * (sum / crowd).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_example_counts_for_itself_and_the_nearest_of_several_most() {
        assert!((pooled(&[16.0]) - 16.0).abs() < 1e-4);
        let far = pooled(&[16.0, 0.0, 0.0, 0.0]);
        assert!(
            far < 16.0 && far > 13.0,
            "what is far takes something away: {far}"
        );
        let near = pooled(&[16.0; 4]);
        assert!(
            near > 16.0 && near < 22.0,
            "what is near adds something: {near}"
        );
        let greedy: Vec<f32> = (0..50)
            .map(|number| if number == 7 { 16.0 } else { 0.0 })
            .collect();
        assert!(
            pooled(&greedy) < 16.0,
            "one near example of fifty is no more than that one alone"
        );
        assert!(pooled(&[0.0; 3]).is_finite());
    }
}
