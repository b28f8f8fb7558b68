//! From a request to one signal a retriever: a score for every tool of the catalog.
//!
//! A request of several sentences may need a tool for each, and a tool that one of them asks for drowns in the whole.
//! So a score is half that of the whole request and half that of the sentence that fits the tool best; `docs/results.md`
//! tells what that gives.

mod keyword;
mod semantic;
mod terms;

pub(crate) use keyword::keyword;
pub(crate) use semantic::semantic;
pub(crate) use terms::{QueryTerm, query_terms};

use crate::eligibility::Eligibility;
use crate::ranking::{Candidate, ToolId};

/// What one retriever says of every tool.
#[derive(Debug, Clone)]
pub(crate) struct Signal {
    /// One score a tool, in registration order; higher is better.
    pub(crate) scores: Vec<f32>,
    /// A score that is no evidence: tools at or below it do not match.
    pub(crate) floor: f32,
    /// The largest score that this request could give to any tool.
    pub(crate) ceiling: f32,
}

impl Signal {
    pub(crate) fn of(&self, tool: ToolId) -> f32 {
        self.scores[tool.index()]
    }

    /// Returns the place of `tool` among the eligible tools, from 1; `None` where it does not match.
    pub(crate) fn rank(&self, tool: ToolId, eligibility: &Eligibility) -> Option<usize> {
        let candidate = |tool: ToolId| Candidate { tool, score: self.of(tool) };
        let own = candidate(tool);
        (own.score > self.floor).then(|| {
            let before = |other: &ToolId| candidate(*other).better_first(&own).is_lt();
            1 + eligibility.admitted().filter(before).count()
        })
    }

    /// Returns the eligible tools that match, in registration order.
    pub(crate) fn matches(&self, eligibility: &Eligibility) -> impl Iterator<Item = Candidate> {
        eligibility
            .admitted()
            .map(|tool| Candidate { tool, score: self.of(tool) })
            .filter(|candidate| candidate.score > self.floor)
    }
}
