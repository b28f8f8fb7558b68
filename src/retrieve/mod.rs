//! From a request to one signal per retriever: a score for every tool of the catalog.
//!
//! A request of several sentences may need a tool for each, and a tool that one of them asks for drowns in the whole.
//! So a score is half that of the whole request and half that of the sentence that fits the tool best; `docs/results.md`
//! tells what that gives.

mod examples;
mod keyword;
mod semantic;
mod sentences;
mod terms;

pub(crate) use examples::{ExampleScores, Similar};
pub(crate) use keyword::keyword;
pub(crate) use semantic::semantic;
pub(crate) use terms::{FoundTerm, query_terms};

use ndarray::ArrayView2;

use crate::access::Eligibility;
use crate::index::{Cosines, Index, SourceScores, Sources, Vectors};
use crate::ranking::{Candidate, Scored, ToolId, reaching};

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
    /// What its model says of the request alone; see [`Embedder::scope`](crate::embed::Embedder::scope).
    pub(crate) scope: Option<f32>,
}

impl Signal {
    /// Makes a signal of the cosine similarities of tools to a request: those to each of its unit vectors, that of the whole first
    /// and then those of its sentences, where there are several.
    pub(crate) fn cosines(
        Cosines { scored, tools, sources }: Cosines,
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
        Self { scored, scores, floor, ceiling, context: None, sources, examples: None, scope: None }
    }

    /// Mixes what a retriever says of a request, if anything, with what it says of the conversation, whose share is
    /// `share`.
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
        request.scores.iter_mut().zip(&changes).for_each(|(score, change)| *score += change);
        if let (Some(own), Some(whole)) = (&mut request.sources, &conversation.sources) {
            own.mix(whole, share);
        }
        if let (Some(own), Some(whole)) = (&mut request.examples, &conversation.examples) {
            own.mix(whole, share);
        }
        request.ceiling += share * (conversation.ceiling - request.ceiling);
        Self { context: Some(changes), ..request }
    }

    /// Returns by how much what was said before changes the tool's score.
    pub(crate) fn of_context(&self, tool: ToolId) -> Option<f32> {
        self.context.as_ref().map(|changes| self.scored.place(tool).map_or(0.0, |place| changes[place]))
    }

    /// Returns by how much examples raise the tool's score.
    pub(crate) fn of_examples(&self, tool: ToolId) -> Option<f32> {
        self.examples.as_ref().map(|examples| self.scored.place(tool).map_or(0.0, |place| examples.gains[place]))
    }

    /// Returns the tool's score; that of no evidence where it has none.
    pub(crate) fn of(&self, tool: ToolId) -> f32 {
        self.scored.place(tool).map_or(0.0, |place| self.scores[place])
    }

    /// Returns what it says of the tool's source, where sources tell something.
    pub(crate) fn of_source(&self, tool: ToolId) -> Option<f32> {
        Some(self.sources.as_ref()?.of(self.scored.place(tool)?))
    }

    /// Keeps the scores of some tools, where all have scores.
    pub(crate) fn restrict(&mut self, scored: &Scored) {
        let Scored::All(_) = self.scored else { return };
        self.scores = scored.of(&self.scores).into_owned();
        self.sources.iter_mut().for_each(|sources| sources.restrict(scored));
        self.scored = scored.clone();
    }

    /// Returns the place of each of `tools` among the eligible tools, from 1; `None` where it does not match.
    ///
    /// # Complexity
    ///
    /// One pass over the scores, whatever the number of tools.
    pub(crate) fn ranks(&self, tools: &[ToolId], eligibility: &Eligibility) -> Vec<Option<usize>> {
        let matching = tools.iter().map(|&tool| Candidate { tool, score: self.of(tool) });
        let mut matching: Vec<Candidate> = matching.filter(|candidate| candidate.score > self.floor).collect();
        matching.sort_unstable_by(Candidate::better_first);
        let Some(least) = matching.last().map(|worst| worst.score) else { return vec![None; tools.len()] };
        // How many eligible tools are worse than so many of these, of those that are no worse than all of them.
        let mut worse_than = vec![0_usize; matching.len() + 1];
        let tools_reaching = reaching(&self.scores, least).map(|place| (self.scored.tool(place), self.scores[place]));
        for (tool, score) in tools_reaching.filter(|(tool, _)| eligibility.admits(*tool)) {
            let candidate = Candidate { tool, score };
            worse_than[matching.partition_point(|better| better.better_first(&candidate).is_lt())] += 1;
        }
        let better = worse_than.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        // A tool that is not eligible is not better than itself either.
        let ranks: Vec<(ToolId, usize)> = matching
            .iter()
            .zip(better)
            .map(|(candidate, better)| (candidate.tool, better + usize::from(!eligibility.admits(candidate.tool))))
            .collect();
        let rank = |tool: &ToolId| ranks.iter().find(|(ranked, _)| ranked == tool).map(|&(_, rank)| rank);
        tools.iter().map(rank).collect()
    }

    /// Returns the eligible tools that match, in registration order.
    pub(crate) fn matches(&self, eligibility: &Eligibility) -> impl Iterator<Item = Candidate> {
        let candidates =
            self.scores.iter().enumerate().map(|(place, &score)| Candidate { tool: self.scored.tool(place), score });
        candidates.filter(|candidate| candidate.score > self.floor && eligibility.admits(candidate.tool))
    }
}
