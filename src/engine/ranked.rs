//! The ranking: what every tool's value and score rest on, and the stages that make it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::report::Report;
use super::request::Request;
use super::signals::{Embeddings, signals};
use crate::access::Eligibility;
use crate::fuse::{Fused, Fusion, Mode};
use crate::options::PickError;
use crate::ranking::{Candidate, ToolId};
use crate::retrieve::FoundTerm;
use crate::scorer::{self, NoScores, Score, Scorer, ScorerError};
use crate::selection::{Stage, Uncalibrated};
use crate::sequences::Prior;

/// The tools of the smallest catalog that the scores were calibrated on (`models/train/fusion`).
const CALIBRATED_TOOLS: usize = 45;

/// The ranking of a request's tools, by what it rests on.
pub(super) enum Ranked {
    /// The built-in retrievers.
    Fused { mode: Mode, terms: Vec<FoundTerm>, fused: Fused },
    /// A custom scorer.
    Custom { scorer: String, scores: BTreeMap<ToolId, Score>, errors: Vec<ScorerError> },
    /// Nothing but the order of the catalog, because what should have ranked failed.
    Registration { scorer: String },
}

impl Ranked {
    /// Falls back to the order of the catalog.
    fn registration(scorer: &str) -> Self {
        Self::Registration { scorer: scorer.to_owned() }
    }

    /// Checks a scorer's answer, one score per eligible tool in order; a tool whose score is invalid is left out.
    fn custom(scorer: &str, request: &Request<'_>, answer: Vec<Score>) -> Self {
        let mut scores = BTreeMap::new();
        let mut errors = Vec::new();
        for (tool, score) in request.rankable().admitted().zip(answer) {
            if (0.0..=1.0).contains(&score.score) {
                scores.insert(tool, score);
            } else {
                errors.push(ScorerError::InvalidScore {
                    scorer: scorer.to_owned(),
                    tool: request.index.catalog.tool(tool).id.clone(),
                    score: score.score.to_string(),
                });
            }
        }
        Self::Custom { scorer: scorer.to_owned(), scores, errors }
    }

    /// Names what ranked.
    pub(super) fn scorer(&self) -> &str {
        match self {
            Self::Fused { mode, .. } => mode.name(),
            Self::Custom { scorer, .. } | Self::Registration { scorer } => scorer,
        }
    }

    /// Returns the eligible tools that it has something to say of, in registration order.
    pub(super) fn candidates<'a>(&'a self, eligibility: &'a Eligibility) -> Box<dyn Iterator<Item = Candidate> + 'a> {
        match self {
            Self::Fused { fused, .. } => Box::new(fused.candidates(eligibility)),
            Self::Custom { scores, .. } => {
                Box::new(scores.iter().map(|(&tool, score)| Candidate { tool, score: score.score }))
            }
            Self::Registration { .. } => Box::new(eligibility.admitted().map(|tool| Candidate { tool, score: 0.0 })),
        }
    }

    /// Returns `true` if it ranks the tool; one whose score is invalid is left out.
    pub(super) fn ranks(&self, tool: ToolId) -> bool {
        match self {
            Self::Custom { scores, .. } => scores.contains_key(&tool),
            Self::Fused { .. } | Self::Registration { .. } => true,
        }
    }

    /// Returns why it leaves out tools whose score is invalid, one error per tool.
    pub(super) fn errors(&self) -> &[ScorerError] {
        match self {
            Self::Custom { errors, .. } => errors,
            Self::Fused { .. } | Self::Registration { .. } => &[],
        }
    }

    /// Returns the value by which the tool is ordered.
    pub(super) fn candidate(&self, tool: ToolId) -> Candidate {
        let score = match self {
            Self::Fused { fused, .. } => fused.value(tool),
            Self::Custom { scores, .. } => scores.get(&tool).map_or(0.0, |score| score.score),
            Self::Registration { .. } => 0.0,
        };
        Candidate { tool, score }
    }

    /// Returns the tool's score, 0..1.
    pub(super) fn score(&self, tool: ToolId) -> f32 {
        match self {
            Self::Fused { fused, .. } => fused.score_of(tool),
            Self::Custom { .. } | Self::Registration { .. } => self.candidate(tool).score,
        }
    }

    /// Returns `true` if the tool scores at least as much as one of the value `least`, without what it has gained by those
    /// in use: a habit may put tools in another order, and is not evidence that one is wanted at all.
    pub(super) fn reaches(&self, candidate: Candidate, least: f32) -> bool {
        candidate.score >= least
            && match self {
                Self::Fused { fused, .. } => fused.own_value(candidate.tool) >= least,
                Self::Custom { .. } | Self::Registration { .. } => true,
            }
    }

    /// Returns the estimated probability that any eligible tool answers the request.
    pub(super) fn answerable(&self) -> Option<f32> {
        match self {
            Self::Fused { fused, .. } => Some(fused.answerable()),
            Self::Custom { .. } | Self::Registration { .. } => None,
        }
    }

    /// Returns why the scores are no probabilities.
    pub(super) fn uncalibrated(&self, eligibility: &Eligibility) -> Option<Uncalibrated> {
        match self {
            Self::Fused { fused, .. } if fused.method != Fusion::Weighted => Some(Uncalibrated::Ranks),
            Self::Fused { .. } if eligibility.admitted_count() < CALIBRATED_TOOLS => Some(Uncalibrated::FewTools),
            Self::Custom { .. } => Some(Uncalibrated::CustomScorer),
            Self::Fused { .. } | Self::Registration { .. } => None,
        }
    }

    /// Returns the least value of a candidate that scores at least `min_score`.
    pub(super) fn value_at(&self, min_score: f32) -> f32 {
        match self {
            Self::Fused { fused, .. } => fused.value_at(min_score),
            Self::Custom { .. } => min_score,
            Self::Registration { .. } => f32::NEG_INFINITY,
        }
    }
}

/// Retrieves and fuses: the built-in ranking.
pub(super) fn fuse(
    request: &Request<'_>,
    embeddings: &mut Embeddings,
    report: &mut Report,
) -> Result<Ranked, PickError> {
    let (terms, signals) = signals(request, embeddings, report)?;
    if signals.is_empty() && report.is_degraded() {
        report.skipped(Stage::Fuse, "there is nothing to fuse");
        return Ok(Ranked::registration(request.mode.name()));
    }
    let fused = Fused::new(signals, request.options.fusion, request.rankable());
    report.ran(Stage::Fuse);
    Ok(Ranked::Fused { mode: request.mode, terms, fused })
}

/// Asks a custom scorer in place of the built-in ranking; where it gives nothing, registration order stands in.
pub(super) fn score(request: &Request<'_>, scorer: &Arc<dyn Scorer>, report: &mut Report) -> Ranked {
    for stage in [Stage::Keyword, Stage::Semantic, Stage::Fuse] {
        report.skipped(stage, "a custom scorer takes its place");
    }
    let tools = request.rankable().admitted().map(|tool| Arc::clone(request.index.catalog.tool(tool))).collect();
    match scorer::run(scorer, request.query, tools, request.deadline) {
        Ok(scores) => {
            report.ran(Stage::Scorer);
            Ranked::custom(scorer.name(), request, scores)
        }
        Err(missed) => {
            let reason = match missed {
                NoScores::Failed(error) => error.to_string(),
                NoScores::Expired => "the deadline passed before the scorer answered".to_owned(),
            };
            report.failed(Stage::Scorer, format!("{reason}; eligible tools stand in registration order"));
            Ranked::registration(scorer.name())
        }
    }
}

/// Raises what goes with the tools in use.
pub(super) fn raise(prior: &Prior, request: &Request<'_>, ranked: &mut Ranked, report: &mut Report) {
    let in_use = request.held();
    match ranked {
        Ranked::Fused { .. } if in_use.is_empty() => report.skipped(Stage::Prior, "no tool is in use"),
        Ranked::Fused { fused, .. } if fused.method == Fusion::Weighted => {
            fused.raise(prior.gains(&in_use));
            report.ran(Stage::Prior);
        }
        Ranked::Fused { .. } => report.skipped(Stage::Prior, "ranks cannot be raised"),
        Ranked::Custom { .. } => report.skipped(Stage::Prior, "a custom scorer ranks"),
        Ranked::Registration { .. } => report.skipped(Stage::Prior, "the ranking failed"),
    }
}
