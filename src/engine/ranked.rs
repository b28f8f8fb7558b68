//! The ranking of a request's tools, and the stages that make it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::parts::SubqueryResults;
use super::report::Report;
use super::request::Request;
use super::signals::{Embeddings, RetrievalOutput, retrieve};
use crate::access::Eligibility;
use crate::catalog::Catalog;
use crate::fuse::{FusedValues, Fusion, Mode};
use crate::ranking::{Candidate, ToolId, top_k};
use crate::retrieve::FoundTerm;
use crate::scorer::{self, Score, Scorer, ScorerError, ScorerFailure};
use crate::selection::{NoMatchKind, Pick, Stage, UncalibratedReason};
use crate::sequences::Prior;

/// The lowest probability of a request kind that is reported when no tool fits.
const MIN_KIND_PROBABILITY: f32 = 0.7;

/// The ranking of a request's tools, by its origin.
pub(super) enum RequestRanking<'q> {
    /// The built-in retrievers.
    Fused {
        mode: Mode,
        terms: Vec<FoundTerm<'q>>,
        fused: FusedValues,
    },
    /// A custom scorer.
    Custom(CustomRanking),
    /// The order of the catalog, because the ranking failed.
    Registration { scorer: String },
}

/// The scores of a custom scorer.
pub(super) struct CustomRanking {
    pub(super) scorer: String,
    pub(super) scores: BTreeMap<ToolId, Score>,
    /// Tools with an invalid score, which are excluded.
    invalid: BTreeMap<ToolId, ScorerError>,
    /// The number of tools that it received, if a shortlist limits them.
    shortlisted: Option<usize>,
}

impl RequestRanking<'_> {
    /// Makes the fallback ranking: the order of the catalog.
    fn registration(scorer: &str) -> Self {
        Self::Registration {
            scorer: scorer.to_owned(),
        }
    }

    /// Returns the name of the ranking.
    pub(super) fn scorer(&self) -> &str {
        match self {
            Self::Fused { mode, .. } => mode.name(),
            Self::Custom(CustomRanking { scorer, .. }) | Self::Registration { scorer } => scorer,
        }
    }

    /// Returns `true` if no tool should be shown, because none is likely to serve the request.
    pub(super) fn is_unsupported(&self) -> bool {
        match self {
            Self::Fused { fused, .. } => fused.is_unsupported(),
            Self::Custom(_) | Self::Registration { .. } => false,
        }
    }

    /// Returns the eligible tools that have evidence and reach the value `least`, in registration
    /// order.
    pub(super) fn reaching(&self, eligibility: &Eligibility, least: f32) -> Vec<Candidate> {
        match self {
            Self::Fused { fused, .. } => fused.candidates(eligibility, least).collect(),
            Self::Custom(CustomRanking { scores, .. }) => {
                let mut candidates = Vec::new();
                for (&tool, &Score { score, .. }) in scores {
                    if score >= least {
                        candidates.push(Candidate { tool, score });
                    }
                }
                candidates
            }
            Self::Registration { .. } => eligibility
                .admitted()
                .map(|tool| Candidate { tool, score: 0.0 })
                .collect(),
        }
    }

    /// Returns `true` if it ranks the tool; tools with an invalid score are excluded.
    pub(super) fn ranks(&self, tool: ToolId) -> bool {
        match self {
            Self::Custom(CustomRanking { invalid, .. }) => !invalid.contains_key(&tool),
            Self::Fused { .. } | Self::Registration { .. } => true,
        }
    }

    /// Returns `true` if it has a score for the tool. In a large catalog, the built-in ranking has
    /// no score for tools far from the request.
    pub(super) fn has_score(&self, tool: ToolId) -> bool {
        match self {
            Self::Fused { fused, .. } => fused.has(tool),
            Self::Custom(_) | Self::Registration { .. } => true,
        }
    }

    /// Returns the errors for tools with an invalid score, one per tool.
    pub(super) fn errors(&self) -> Vec<&ScorerError> {
        match self {
            Self::Custom(CustomRanking { invalid, .. }) => invalid.values().collect(),
            Self::Fused { .. } | Self::Registration { .. } => Vec::new(),
        }
    }

    /// Returns the number of tools that a custom scorer received, if a shortlist limits them.
    pub(super) fn shortlisted(&self) -> Option<usize> {
        match self {
            Self::Custom(CustomRanking { shortlisted, .. }) => *shortlisted,
            Self::Fused { .. } | Self::Registration { .. } => None,
        }
    }

    /// Returns the tool with the value that orders it.
    pub(super) fn candidate(&self, tool: ToolId) -> Candidate {
        let score = match self {
            Self::Fused { fused, .. } => fused.value(tool),
            Self::Custom(CustomRanking { scores, .. }) => {
                scores.get(&tool).map_or(0.0, |score| score.score)
            }
            Self::Registration { .. } => 0.0,
        };
        Candidate { tool, score }
    }

    /// Returns the tool's score, 0..1.
    pub(super) fn score(&self, tool: ToolId) -> f32 {
        match self {
            Self::Fused { fused, .. } => fused.score(tool),
            Self::Custom(_) | Self::Registration { .. } => self.candidate(tool).score,
        }
    }

    /// Returns `true` if the tool reaches the value `least` without its gain from the prior.
    pub(super) fn reaches(&self, candidate: Candidate, least: f32) -> bool {
        match self {
            Self::Fused { fused, .. } => fused.reaches(candidate.tool, least),
            Self::Custom(_) | Self::Registration { .. } => candidate.score >= least,
        }
    }

    /// Returns the answerability: the estimated probability that any eligible tool serves the
    /// request. It is at least the score of each pick, if scores are probabilities.
    pub(super) fn answerable(&self, picks: &[Pick]) -> Option<f32> {
        match self {
            Self::Fused { fused, .. } => {
                let mut answerable = fused.answerable();
                if fused.method == Fusion::Weighted {
                    for pick in picks {
                        answerable = answerable.max(pick.score);
                    }
                }
                Some(answerable)
            }
            Self::Custom(_) | Self::Registration { .. } => None,
        }
    }

    /// Returns the kind of a request that no tool serves, if it is certain enough.
    pub(super) fn nothing_fits(&self, catalog: &Catalog) -> Option<NoMatchKind> {
        let Self::Fused { fused, .. } = self else {
            return None;
        };
        if fused.asks_nothing() {
            return Some(NoMatchKind::NoRequest);
        }
        let near = fused.near_source()?;
        if near >= MIN_KIND_PROBABILITY {
            let source = catalog.source(fused.best()?)?.to_owned();
            return Some(NoMatchKind::NearSource { source });
        }
        (near <= 1.0 - MIN_KIND_PROBABILITY).then_some(NoMatchKind::OutOfScope)
    }

    /// Returns the reason why the scores are not probabilities.
    pub(super) fn uncalibrated(&self) -> Option<UncalibratedReason> {
        match self {
            Self::Fused { fused, .. } if fused.method != Fusion::Weighted => {
                Some(UncalibratedReason::Ranks)
            }
            Self::Custom(_) => Some(UncalibratedReason::CustomScorer),
            Self::Fused { .. } | Self::Registration { .. } => None,
        }
    }

    /// Returns the least value of a candidate that scores at least `min_score`.
    pub(super) fn value_at(&self, min_score: f32) -> f32 {
        match self {
            Self::Fused { fused, .. } => fused.value_at(min_score),
            Self::Custom(_) => min_score,
            Self::Registration { .. } => f32::NEG_INFINITY,
        }
    }
}

/// Runs the built-in ranking: retrieval and fusion.
pub(super) fn fuse<'q>(
    request: &Request<'q>,
    subqueries: Option<&mut SubqueryResults<'q>>,
    embeddings: &mut Embeddings,
    report: &mut Report,
) -> RequestRanking<'q> {
    let RetrievalOutput { terms, signals } = retrieve(request, subqueries, embeddings, report);
    if signals.is_empty() && report.is_degraded() {
        report.skipped(Stage::Fuse, "there is nothing to fuse");
        return RequestRanking::registration(request.mode.name());
    }
    let fused = FusedValues::new(
        signals,
        request.options.fusion,
        request.rankable(),
        request.query.scope(),
    );
    report.ran(Stage::Fuse);
    RequestRanking::Fused {
        mode: request.mode,
        terms,
        fused,
    }
}

/// Ranks again with scores for all tools, if one of `required_scores` has no score yet.
pub(super) fn rescore_all<'q>(
    ranked: &mut RequestRanking<'q>,
    mut required_scores: impl Iterator<Item = ToolId>,
    request: &mut Request<'q>,
    embeddings: &mut Embeddings,
) {
    if required_scores.any(|tool| !ranked.has_score(tool)) {
        request.score_all = true;
        let mut report = Report::new();
        let full_ranking = fuse(request, None, embeddings, &mut report);
        // If the deadline prevents that, the first ranking is kept.
        if !report.is_degraded() {
            *ranked = full_ranking;
        }
    }
}

/// Runs a custom scorer in place of the built-in ranking, or on the shortlist of that ranking. If
/// the scorer fails, the fallback is the built-in ranking if there is a shortlist, else catalog
/// order. Without a ranking for the shortlist the scorer does not run.
pub(super) fn score<'q>(
    request: &Request<'q>,
    (scorer, shortlist): (&Arc<dyn Scorer>, Option<usize>),
    embeddings: &mut Embeddings,
    report: &mut Report,
) -> RequestRanking<'q> {
    let first_stage = shortlist.map(|most| (fuse(request, None, embeddings, report), most));
    let candidates: Vec<ToolId> = match &first_stage {
        Some((RequestRanking::Fused { fused, .. }, most)) => {
            let all = fused.candidates(request.rankable(), f32::NEG_INFINITY);
            let mut shortlist = request.mandatory_or_in_use();
            shortlist.extend(request.ranked_fallbacks());
            for candidate in top_k(all, *most) {
                shortlist.insert(candidate.tool);
            }
            shortlist.into_iter().collect()
        }
        Some(_) => {
            report.skipped(Stage::Scorer, "no ranking for a shortlist");
            return RequestRanking::registration(scorer.name());
        }
        None => {
            let reason = "a custom scorer replaces it";
            report.skipped(Stage::Keyword, reason);
            report.skipped(Stage::Semantic, reason);
            if request.examples.is_some() {
                report.skipped(Stage::Examples, reason);
            }
            report.skipped(Stage::Fuse, reason);
            request.rankable().admitted().collect()
        }
    };
    let mut tools = Vec::with_capacity(candidates.len());
    for &tool in &candidates {
        tools.push(Arc::clone(request.index.catalog.tool(tool)));
    }
    let failure = match scorer::run(scorer, request.query, tools, request.deadline) {
        Ok(scores) => {
            report.ran(Stage::Scorer);
            let shortlisted = first_stage.map(|_| candidates.len());
            return RequestRanking::Custom(CustomRanking::new(
                request,
                scorer.name(),
                (candidates, scores),
                shortlisted,
            ));
        }
        Err(ScorerFailure::Failed(error)) => error.to_string(),
        Err(ScorerFailure::Expired) => "the deadline passed before the scorer answered".to_owned(),
    };
    let (fallback, ranked) = match first_stage {
        Some((ranked, _)) => ("the built-in ranking is used instead", ranked),
        None => (
            "eligible tools are in registration order",
            RequestRanking::registration(scorer.name()),
        ),
    };
    report.failed(Stage::Scorer, format!("{failure}; {fallback}"));
    ranked
}

impl CustomRanking {
    /// Validates a scorer's answer, which has one score per tool in the order of `tools`.
    fn new(
        request: &Request<'_>,
        scorer: &str,
        (tools, answer): (Vec<ToolId>, Vec<Score>),
        shortlisted: Option<usize>,
    ) -> Self {
        let (mut scores, mut invalid) = (BTreeMap::new(), BTreeMap::new());
        for (tool, score) in tools.into_iter().zip(answer) {
            if (0.0..=1.0).contains(&score.score) {
                scores.insert(tool, score);
            } else {
                let error = ScorerError::InvalidScore {
                    scorer: scorer.to_owned(),
                    tool: request.index.catalog.tool(tool).id.clone(),
                    score: score.score.to_string(),
                };
                invalid.insert(tool, error);
            }
        }
        Self {
            scorer: scorer.to_owned(),
            scores,
            invalid,
            shortlisted,
        }
    }
}

/// Raises tools that go with the tools in use and, with the option `popularity`, tools that are
/// called often.
pub(super) fn raise(
    prior: &Prior,
    request: &Request<'_>,
    ranked: &mut RequestRanking,
    report: &mut Report,
) {
    let in_use = request.tools_in_use();
    match ranked {
        RequestRanking::Fused { .. } if in_use.is_empty() && !request.options.popularity => {
            report.skipped(Stage::Prior, "no tool is in use");
        }
        RequestRanking::Fused { fused, .. } if fused.method == Fusion::Weighted => {
            fused.raise(prior.gains(&in_use));
            if request.options.popularity {
                fused.raise_popular(prior.popular());
            }
            report.ran(Stage::Prior);
        }
        RequestRanking::Fused { .. } => {
            report.skipped(Stage::Prior, "a fusion of ranks has no prior");
        }
        RequestRanking::Custom(_) => report.skipped(Stage::Prior, "a custom scorer ranks"),
        RequestRanking::Registration { .. } => report.skipped(Stage::Prior, "the ranking failed"),
    }
}
