//! The scores that a retriever gives to tools.

use ndarray::ArrayView2;
use pulp::{Arch, NullaryFnOnce};

use crate::access::Eligibility;
use crate::index::{Cosines, Index, SourceIndex, SourceScores, Vectors};
use crate::ranking::{Candidate, ScoredTools, ToolId};

/// The scores that one retriever gives to the tools for a request.
#[derive(Debug, Clone)]
pub(crate) struct Signal {
    /// The tools that have scores.
    pub(crate) scored: ScoredTools,
    /// One score for each of them, in registration order; higher is better.
    pub(crate) scores: Vec<f32>,
    /// The score without evidence: tools at or below it do not match.
    pub(crate) floor: f32,
    /// The upper bound of a score for this request.
    pub(crate) ceiling: f32,
    /// The change of each score by the conversation; `None` without a context.
    pub(crate) context: Option<Vec<f32>>,
    /// The scores of sources; `None` if source scoring is off.
    pub(crate) sources: Option<SourceScores>,
    /// The scores of examples, which `scores` includes; `None` without examples.
    pub(crate) examples: Option<ExampleScores>,
    /// The model's estimate from the request alone; see
    /// [`Embedder::scope`](crate::embed::Embedder::scope).
    pub(crate) scope: Option<f32>,
}

impl Signal {
    /// Makes a signal of the cosine similarities of tools to the unit vectors of a request. Similar
    /// tags raise them. The first vector is the complete text. Its sentences follow if there are
    /// several.
    pub(crate) fn cosines(
        Cosines {
            scored,
            mut tools,
            sources,
        }: Cosines,
        index: &Index,
        vectors: &Vectors,
        request: ArrayView2<'_, f32>,
    ) -> Self {
        let score_sources = |index: &SourceIndex| {
            let means = sources.unwrap_or_else(|| index.means(&tools, vectors.model(), request));
            let mut scores = index.assign_scores(half_best(means));
            if let ScoredTools::Some(_) = &scored {
                scores.restrict(&scored);
            }
            scores
        };
        let sources = index.sources.as_ref().map(score_sources);
        if let Some(tags) = &index.tags {
            tags.raise(vectors.model(), request, &scored, &mut tools);
        }
        let scores = half_best(tools);
        let (floor, ceiling) = (f32::NEG_INFINITY, 1.0);
        Self {
            scored,
            scores,
            floor,
            ceiling,
            context: None,
            sources,
            examples: None,
            scope: None,
        }
    }

    /// Mixes the signal of the conversation into that of the request with the weight `share`. The
    /// request may have no signal.
    pub(crate) fn mixed(request: Option<Self>, conversation: Self, share: f32) -> Self {
        let zero_signal = || Self {
            scores: vec![0.0; conversation.scores.len()],
            ceiling: 0.0,
            sources: conversation.sources.as_ref().map(SourceScores::zeros),
            examples: conversation.examples.as_ref().map(ExampleScores::zeros),
            ..conversation.clone()
        };
        let mut request = request.unwrap_or_else(zero_signal);
        let pairs = request.scores.iter().zip(&conversation.scores);
        let changes: Vec<f32> = pairs
            .map(|(score, other)| share * (other - score))
            .collect();
        request
            .scores
            .iter_mut()
            .zip(&changes)
            .for_each(|(score, change)| *score += change);
        if let (Some(scores), Some(others)) = (&mut request.sources, &conversation.sources) {
            scores.mix(others, share);
        }
        if let (Some(scores), Some(others)) = (&mut request.examples, &conversation.examples) {
            scores.mix(others, share);
        }
        request.ceiling += share * (conversation.ceiling - request.ceiling);
        Self {
            context: Some(changes),
            ..request
        }
    }

    /// Returns the change of the tool's score by the conversation.
    pub(crate) fn context_change(&self, tool: ToolId) -> Option<f32> {
        self.context.as_ref().map(|changes| {
            self.scored
                .position(tool)
                .map_or(0.0, |position| changes[position])
        })
    }

    /// Returns the increase of the tool's score by its examples.
    pub(crate) fn example_gain(&self, tool: ToolId) -> Option<f32> {
        self.examples.as_ref().map(|examples| {
            self.scored
                .position(tool)
                .map_or(0.0, |position| examples.gains[position])
        })
    }

    /// Returns the tool's score; 0 if it has none.
    pub(crate) fn score(&self, tool: ToolId) -> f32 {
        self.scored
            .position(tool)
            .map_or(0.0, |position| self.scores[position])
    }

    /// Returns the score of the tool's source; `None` if source scoring is off.
    pub(crate) fn source_score(&self, tool: ToolId) -> Option<f32> {
        Some(self.sources.as_ref()?.score(self.scored.position(tool)?))
    }

    /// Returns the signal with the scores of some tools only. All tools must have scores.
    pub(crate) fn restricted(&self, scored: &ScoredTools) -> Self {
        let mut sources = self.sources.clone();
        if let Some(sources) = &mut sources {
            sources.restrict(scored);
        }
        Self {
            scored: scored.clone(),
            scores: scored.select(&self.scores).into_owned(),
            context: self.context.clone(),
            sources,
            examples: self.examples.clone(),
            ..*self
        }
    }

    /// Returns the rank of a tool among the admitted ones, from 1; `None` if it does not match.
    /// `admitted` has one flag per tool with a score.
    ///
    /// # Complexity
    ///
    /// One pass over the scores.
    pub(crate) fn rank(&self, tool: ToolId, admitted: &[bool]) -> Option<usize> {
        let score = self.score(tool);
        let better = RankLoop {
            scores: &self.scores,
            admitted,
            score,
            earlier: self.scored.count_before(tool),
        };
        (score > self.floor).then(|| 1 + Arch::new().dispatch(better))
    }

    /// Returns the eligible tools that match, in registration order.
    pub(crate) fn matches(&self, eligibility: &Eligibility) -> impl Iterator<Item = Candidate> {
        let candidates = self
            .scores
            .iter()
            .enumerate()
            .map(|(position, &score)| Candidate {
                tool: self.scored.tool(position),
                score,
            });
        candidates
            .filter(|candidate| candidate.score > self.floor && eligibility.admits(candidate.tool))
    }
}

/// The loop of [`Signal::rank`], which counts better tools. It is compiled for each set of vector
/// instructions, and the processor selects the version.
struct RankLoop<'a> {
    scores: &'a [f32],
    admitted: &'a [bool],
    score: f32,
    /// The number of scores of earlier tools.
    earlier: usize,
}

impl NullaryFnOnce for RankLoop<'_> {
    type Output = usize;

    #[inline(always)]
    fn call(self) -> usize {
        let Self {
            scores,
            admitted,
            score,
            earlier,
        } = self;
        let (earlier_scores, later_scores) = scores.split_at(earlier);
        let (earlier_admitted, later_admitted) = admitted.split_at(earlier);
        // Among tools with equal scores, the earlier one is better.
        let as_good = earlier_scores
            .iter()
            .zip(earlier_admitted)
            .map(|(other, admitted)| u32::from(*admitted & other.total_cmp(&score).is_ge()));
        let better = later_scores
            .iter()
            .zip(later_admitted)
            .map(|(other, admitted)| u32::from(*admitted & other.total_cmp(&score).is_gt()));
        as_good.sum::<u32>() as usize + better.sum::<u32>() as usize
    }
}

/// The scores that one retriever gives to the examples of a catalog.
#[derive(Debug, Clone)]
pub(crate) struct ExampleScores {
    /// One score per example, on the scale of tool scores.
    pub(crate) scores: Vec<f32>,
    /// The increase of each tool's score.
    pub(crate) gains: Vec<f32>,
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
