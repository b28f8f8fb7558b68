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

pub(crate) use examples::ExampleScores;
pub(crate) use keyword::keyword;
pub(crate) use semantic::semantic;
pub(crate) use terms::{FoundTerm, QueryTerm, query_terms};

use crate::access::Eligibility;
use crate::index::Index;
use crate::ranking::{Candidate, ToolId};

/// What one retriever says of every tool.
#[derive(Debug, Clone)]
pub(crate) struct Signal {
    /// One score per tool, in registration order; higher is better.
    pub(crate) scores: Vec<f32>,
    /// A score that is not evidence: tools at or below it do not match.
    pub(crate) floor: f32,
    /// The largest score that this request could give to any tool.
    pub(crate) ceiling: f32,
    /// By how much what was said before changes each score; `None` where the request stands alone.
    pub(crate) context: Option<Vec<f32>>,
    /// What it says of each tool's source as a whole; `None` where sources tell nothing.
    pub(crate) sources: Option<Vec<f32>>,
    /// What it says of examples, which is in the scores; `None` where no tool has any.
    pub(crate) examples: Option<ExampleScores>,
}

impl Signal {
    /// Makes a signal of a request's cosine similarities to the tools.
    pub(crate) fn cosines(scores: Vec<f32>, index: &Index) -> Self {
        let sources = index.sources.as_ref().map(|sources| sources.mean(&scores));
        Self { scores, floor: f32::NEG_INFINITY, ceiling: 1.0, context: None, sources, examples: None }
    }

    /// Mixes what a retriever says of a request, if anything, with what it says of the conversation, whose share is
    /// `share`.
    pub(crate) fn mixed(request: Option<Self>, conversation: Self, share: f32) -> Self {
        let zeros = || vec![0.0; conversation.scores.len()];
        let silent = || Self {
            scores: zeros(),
            ceiling: 0.0,
            sources: conversation.sources.as_ref().map(|_| zeros()),
            examples: conversation.examples.as_ref().map(ExampleScores::silent),
            ..conversation.clone()
        };
        let mut request = request.unwrap_or_else(silent);
        let both = request.scores.iter().zip(&conversation.scores);
        let changes: Vec<f32> = both.map(|(own, whole)| share * (whole - own)).collect();
        request.scores.iter_mut().zip(&changes).for_each(|(score, change)| *score += change);
        if let (Some(own), Some(whole)) = (&mut request.sources, &conversation.sources) {
            own.iter_mut().zip(whole).for_each(|(own, whole)| *own += share * (whole - *own));
        }
        if let (Some(own), Some(whole)) = (&mut request.examples, &conversation.examples) {
            own.mix(whole, share);
        }
        request.ceiling += share * (conversation.ceiling - request.ceiling);
        Self { context: Some(changes), ..request }
    }

    /// Returns by how much what was said before changes the tool's score.
    pub(crate) fn of_context(&self, tool: ToolId) -> Option<f32> {
        self.context.as_ref().map(|changes| changes[tool.index()])
    }

    /// Returns by how much examples raise the tool's score.
    pub(crate) fn of_examples(&self, tool: ToolId) -> Option<f32> {
        self.examples.as_ref().map(|examples| examples.gains[tool.index()])
    }

    pub(crate) fn of(&self, tool: ToolId) -> f32 {
        self.scores[tool.index()]
    }

    /// Returns the place of `tool` among the eligible tools, from 1; `None` where it does not match.
    pub(crate) fn rank(&self, tool: ToolId, eligibility: &Eligibility) -> Option<usize> {
        let own = self.of(tool);
        let (before, behind) = self.scores.split_at(tool.index());
        let (admitted_before, admitted_behind) = eligibility.flags().split_at(tool.index());
        let count = |scores: &[f32], admitted: &[bool], is_better: fn(f32, f32) -> bool| {
            scores.iter().zip(admitted).filter(|&(&score, &admitted)| admitted & is_better(score, own)).count()
        };
        // Of equal tools the earlier one comes first.
        let better = count(before, admitted_before, |score, own| score >= own)
            + count(behind, admitted_behind, |score, own| score > own);
        (own > self.floor).then_some(1 + better)
    }

    /// Returns the eligible tools that match, in registration order.
    pub(crate) fn matches(&self, eligibility: &Eligibility) -> impl Iterator<Item = Candidate> {
        eligibility
            .admitted()
            .map(|tool| Candidate { tool, score: self.of(tool) })
            .filter(|candidate| candidate.score > self.floor)
    }
}
