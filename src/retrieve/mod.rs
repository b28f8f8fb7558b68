//! From a request to one signal per retriever: a score for every tool of the catalog.
//!
//! A request of several sentences may need a tool for each, and a tool that one of them asks for
//! drowns in the whole. So a score is half that of the whole request and half that of the sentence
//! that fits the tool best; `docs/results.md` tells what that gives.

mod examples;
mod keyword;
mod semantic;
mod sentences;
mod terms;

pub(crate) use examples::{ExampleScores, Similar};
pub(crate) use keyword::keyword;
pub(crate) use semantic::semantic;
pub use terms::query_terms;
pub(crate) use terms::{FoundTerm, ReadTexts};

use ndarray::ArrayView2;
use pulp::{Arch, NullaryFnOnce};

use crate::access::Eligibility;
use crate::index::{Cosines, Index, SourceScores, Sources, Vectors};
use crate::ranking::{Candidate, Scored, ToolId};

/// What one retriever says of every tool.
#[derive(Debug, Clone)]
pub(crate) struct Signal {
    /// Which tools have scores.
    pub(crate) scored: Scored,
    /// One score for each of them, in registration order; higher is better.
    pub(crate) scores: Vec<f32>,
    /// A score that is not evidence: tools at or below it do not match.
    pub(crate) floor: f32,
    /// The largest score that this request could give to any tool.
    pub(crate) ceiling: f32,
    /// By how much what was said before changes each score; `None` where the request stands alone.
    pub(crate) context: Option<Vec<f32>>,
    /// What it says of each source as a whole; `None` where sources tell nothing.
    pub(crate) sources: Option<SourceScores>,
    /// What it says of examples, which is in the scores; `None` where no tool has any.
    pub(crate) examples: Option<ExampleScores>,
    /// What its model says of the request alone; see
    /// [`Embedder::scope`](crate::embed::Embedder::scope).
    pub(crate) scope: Option<f32>,
}

impl Signal {
    /// Makes a signal of the cosine similarities of tools to a request: those to each of its unit
    /// vectors, that of the whole first and then those of its sentences, where there are several.
    pub(crate) fn cosines(
        Cosines {
            scored,
            tools,
            sources,
        }: Cosines,
        index: &Index,
        vectors: &Vectors,
        request: ArrayView2<'_, f32>,
    ) -> Self {
        let of_sources = |known: &Sources| {
            let means = sources.unwrap_or_else(|| known.means(&tools, vectors.model(), request));
            let mut scores = known.scored(semantic::half_best(means));
            if let Scored::Some(_) = &scored {
                scores.restrict(&scored);
            }
            scores
        };
        let sources = index.sources.as_ref().map(of_sources);
        let scores = semantic::half_best(tools);
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

    /// Mixes what a retriever says of a request, if anything, with what it says of the
    /// conversation, whose share is `share`.
    pub(crate) fn mixed(request: Option<Self>, conversation: Self, share: f32) -> Self {
        let zeros = || vec![0.0; conversation.scores.len()];
        let silent = || Self {
            scores: zeros(),
            ceiling: 0.0,
            sources: conversation.sources.as_ref().map(SourceScores::silent),
            examples: conversation.examples.as_ref().map(ExampleScores::silent),
            ..conversation.clone()
        };
        let mut request = request.unwrap_or_else(silent);
        let both = request.scores.iter().zip(&conversation.scores);
        let changes: Vec<f32> = both.map(|(own, whole)| share * (whole - own)).collect();
        request
            .scores
            .iter_mut()
            .zip(&changes)
            .for_each(|(score, change)| *score += change);
        if let (Some(own), Some(whole)) = (&mut request.sources, &conversation.sources) {
            own.mix(whole, share);
        }
        if let (Some(own), Some(whole)) = (&mut request.examples, &conversation.examples) {
            own.mix(whole, share);
        }
        request.ceiling += share * (conversation.ceiling - request.ceiling);
        Self {
            context: Some(changes),
            ..request
        }
    }

    /// Returns by how much what was said before changes the tool's score.
    pub(crate) fn of_context(&self, tool: ToolId) -> Option<f32> {
        self.context
            .as_ref()
            .map(|changes| self.scored.place(tool).map_or(0.0, |place| changes[place]))
    }

    /// Returns by how much examples raise the tool's score.
    pub(crate) fn of_examples(&self, tool: ToolId) -> Option<f32> {
        self.examples.as_ref().map(|examples| {
            self.scored
                .place(tool)
                .map_or(0.0, |place| examples.gains[place])
        })
    }

    /// Returns the tool's score; that of no evidence where it has none.
    pub(crate) fn of(&self, tool: ToolId) -> f32 {
        self.scored
            .place(tool)
            .map_or(0.0, |place| self.scores[place])
    }

    /// Returns what it says of the tool's source, where sources tell something.
    pub(crate) fn of_source(&self, tool: ToolId) -> Option<f32> {
        Some(self.sources.as_ref()?.of(self.scored.place(tool)?))
    }

    /// Keeps the scores of some tools, where all have scores.
    pub(crate) fn restrict(&mut self, scored: &Scored) {
        let Scored::All(_) = self.scored else { return };
        self.scores = scored.of(&self.scores).into_owned();
        self.sources
            .iter_mut()
            .for_each(|sources| sources.restrict(scored));
        self.scored = scored.clone();
    }

    /// Returns the place of a tool among those that are admitted, from 1; `None` where it does not
    /// match. There is a flag for each tool with a score.
    ///
    /// # Complexity
    ///
    /// One pass over the scores.
    pub(crate) fn rank(&self, tool: ToolId, admitted: &[bool]) -> Option<usize> {
        let own = self.of(tool);
        let better = Better {
            scores: &self.scores,
            admitted,
            own,
            before: self.scored.before(tool),
        };
        (own > self.floor).then(|| 1 + Arch::new().dispatch(better))
    }

    /// Returns the eligible tools that match, in registration order.
    pub(crate) fn matches(&self, eligibility: &Eligibility) -> impl Iterator<Item = Candidate> {
        let candidates = self
            .scores
            .iter()
            .enumerate()
            .map(|(place, &score)| Candidate {
                tool: self.scored.tool(place),
                score,
            });
        candidates
            .filter(|candidate| candidate.score > self.floor && eligibility.admits(candidate.tool))
    }
}

/// The loop of [`Signal::rank`], which counts better tools: compiled once for each set of vector
/// instructions, of which the processor's is taken.
struct Better<'a> {
    scores: &'a [f32],
    admitted: &'a [bool],
    own: f32,
    /// How many of the scores are of tools that come before.
    before: usize,
}

impl NullaryFnOnce for Better<'_> {
    type Output = usize;

    #[inline(always)]
    fn call(self) -> usize {
        let Self {
            scores,
            admitted,
            own,
            before,
        } = self;
        let ((before, behind), (admitted, admitted_behind)) =
            (scores.split_at(before), admitted.split_at(before));
        // Of equal tools the first is better.
        let as_good = before
            .iter()
            .zip(admitted)
            .map(|(score, admitted)| u32::from(*admitted & score.total_cmp(&own).is_ge()));
        let better = behind
            .iter()
            .zip(admitted_behind)
            .map(|(score, admitted)| u32::from(*admitted & score.total_cmp(&own).is_gt()));
        as_good.sum::<u32>() as usize + better.sum::<u32>() as usize
    }
}
