//! The ranking of a request's tools, and the stages that make it.

mod fused;
mod scorer;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

pub(super) use self::fused::{FusedRanking, Subquery};
pub(super) use self::scorer::ScorerRanking;
use super::report::Report;
use super::request::ResolvedRequest;
use super::retrieval::Retrieval;
use crate::access::Eligibility;
use crate::catalog::Catalog;
use crate::fuse::Fusion;
use crate::ranking::{Candidate, ToolId};
use crate::saved::SavedError;
use crate::scorer::{self as custom, Score, Scorer, ScorerError, ScorerFailure};
use crate::selection::{NoMatchKind, Pick, Stage, UncalibratedReason};
use crate::sequences::Prior;

/// The lowest probability of a request kind that is reported when no tool fits.
const MIN_KIND_PROBABILITY: f32 = 0.7;

/// A ranking of a request's tools.
pub(super) type BoxedRanking<'q> = Box<dyn RequestRanking + 'q>;

/// The evidence of a ranking, by its origin.
pub(super) enum RankingEvidence<'r> {
    Fused(&'r FusedRanking<'r>),
    Scorer(&'r ScorerRanking),
    /// The order of the catalog is no evidence.
    CatalogOrder,
}

/// A ranking of a request's tools. It does not change; a ranking with more scores is another one.
pub(super) trait RequestRanking {
    /// Returns the name of the ranking.
    fn name(&self) -> &str;

    /// Returns the evidence for explanations.
    fn evidence(&self) -> RankingEvidence<'_>;

    /// Returns the eligible tools that have evidence and reach the value `least`, in registration
    /// order.
    fn reaching(&self, eligibility: &Eligibility, least: f32) -> Vec<Candidate>;

    /// Returns the tool with the value that orders it.
    fn candidate(&self, tool: ToolId) -> Candidate;

    /// Returns the least value of a candidate that scores at least `min_score`.
    fn value_at(&self, min_score: f32) -> f32;

    /// Returns the ranking with scores for these tools as well. In a large catalog, the built-in
    /// ranking has no scores for tools far from the request.
    fn extended<'r>(
        self: Box<Self>,
        request: &ResolvedRequest<'_>,
        tools: &BTreeSet<ToolId>,
    ) -> BoxedRanking<'r>
    where
        Self: 'r;

    /// Returns the tool's score, 0..1.
    fn score(&self, tool: ToolId) -> f32 {
        self.candidate(tool).score
    }

    /// Returns `true` if the tool reaches the value `least` without its gain from the prior.
    fn reaches(&self, candidate: Candidate, least: f32) -> bool {
        candidate.score >= least
    }

    /// Returns `true` if it ranks the tool; tools with an invalid score are excluded.
    fn ranks(&self, _tool: ToolId) -> bool {
        true
    }

    /// Returns `true` if no tool should be shown, because none is likely to serve the request.
    fn is_unsupported(&self) -> bool {
        false
    }

    /// Returns the errors for tools with an invalid score, one per tool.
    fn errors(&self) -> Vec<&ScorerError> {
        Vec::new()
    }

    /// Returns the number of tools that a custom scorer received, if a shortlist limits them.
    fn shortlisted(&self) -> Option<usize> {
        None
    }

    /// Returns the answerability: the estimated probability that any eligible tool serves the
    /// request. It is at least the score of each pick, if scores are probabilities.
    fn answerable(&self, _picks: &[Pick]) -> Option<f32> {
        None
    }

    /// Returns the kind of a request that no tool serves, if it is certain enough.
    fn nothing_fits(&self, _catalog: &Catalog) -> Option<NoMatchKind> {
        None
    }

    /// Returns the reason why the scores are not probabilities.
    fn uncalibrated(&self) -> Option<UncalibratedReason> {
        None
    }

    /// Returns the built-in ranking, if it is one.
    fn fused(&self) -> Option<&FusedRanking<'_>> {
        match self.evidence() {
            RankingEvidence::Fused(fused) => Some(fused),
            RankingEvidence::Scorer(_) | RankingEvidence::CatalogOrder => None,
        }
    }

    /// Returns the subqueries that are ranked separately.
    fn subqueries(&self) -> &[Subquery<'_>] {
        self.fused().map_or(&[], |ranking| &ranking.subqueries)
    }
}

impl RequestRanking for FusedRanking<'_> {
    fn name(&self) -> &str {
        self.mode.name()
    }

    fn evidence(&self) -> RankingEvidence<'_> {
        RankingEvidence::Fused(self)
    }

    fn reaching(&self, eligibility: &Eligibility, least: f32) -> Vec<Candidate> {
        self.fused.scores.candidates(eligibility, least)
    }

    fn candidate(&self, tool: ToolId) -> Candidate {
        let score = self.fused.scores.value(tool);
        Candidate { tool, score }
    }

    fn value_at(&self, min_score: f32) -> f32 {
        self.fused.calibration.value_at(min_score)
    }

    fn extended<'r>(
        self: Box<Self>,
        request: &ResolvedRequest<'_>,
        tools: &BTreeSet<ToolId>,
    ) -> BoxedRanking<'r>
    where
        Self: 'r,
    {
        let unscored = self.unscored(tools);
        if unscored.is_empty() {
            return self;
        }
        Box::new(self.with_scores(request, &unscored))
    }

    fn score(&self, tool: ToolId) -> f32 {
        self.fused.score(tool)
    }

    fn reaches(&self, candidate: Candidate, least: f32) -> bool {
        self.fused.scores.reaches(candidate.tool, least)
    }

    fn is_unsupported(&self) -> bool {
        self.fused.calibration.is_unsupported()
    }

    fn answerable(&self, picks: &[Pick]) -> Option<f32> {
        let mut answerable = self.fused.answerable();
        if self.fused.scores.method == Fusion::Weighted {
            for pick in picks {
                answerable = answerable.max(pick.score);
            }
        }
        Some(answerable)
    }

    fn nothing_fits(&self, catalog: &Catalog) -> Option<NoMatchKind> {
        if self.fused.calibration.asks_nothing() {
            return Some(NoMatchKind::NoRequest);
        }
        let near = self.fused.near_source()?;
        if near >= MIN_KIND_PROBABILITY {
            let source = catalog.source(self.fused.calibration.best()?)?.to_owned();
            return Some(NoMatchKind::NearSource { source });
        }
        (near <= 1.0 - MIN_KIND_PROBABILITY).then_some(NoMatchKind::OutOfScope)
    }

    fn uncalibrated(&self) -> Option<UncalibratedReason> {
        (self.fused.scores.method != Fusion::Weighted).then_some(UncalibratedReason::Ranks)
    }
}

impl RequestRanking for ScorerRanking {
    fn name(&self) -> &str {
        &self.scorer
    }

    fn evidence(&self) -> RankingEvidence<'_> {
        RankingEvidence::Scorer(self)
    }

    fn reaching(&self, _eligibility: &Eligibility, least: f32) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for (&tool, &Score { score, .. }) in &self.scores {
            if score >= least {
                candidates.push(Candidate { tool, score });
            }
        }
        candidates
    }

    fn candidate(&self, tool: ToolId) -> Candidate {
        let score = self.scores.get(&tool).map_or(0.0, |score| score.score);
        Candidate { tool, score }
    }

    fn value_at(&self, min_score: f32) -> f32 {
        min_score
    }

    fn extended<'r>(
        self: Box<Self>,
        _request: &ResolvedRequest<'_>,
        _tools: &BTreeSet<ToolId>,
    ) -> BoxedRanking<'r>
    where
        Self: 'r,
    {
        self
    }

    fn ranks(&self, tool: ToolId) -> bool {
        !self.invalid.contains_key(&tool)
    }

    fn errors(&self) -> Vec<&ScorerError> {
        self.invalid.values().collect()
    }

    fn shortlisted(&self) -> Option<usize> {
        self.shortlisted
    }

    fn uncalibrated(&self) -> Option<UncalibratedReason> {
        Some(UncalibratedReason::CustomScorer)
    }
}

/// The order of the catalog, because the ranking failed.
struct CatalogOrder {
    /// The name of the ranking that failed.
    name: String,
}

impl RequestRanking for CatalogOrder {
    fn name(&self) -> &str {
        &self.name
    }

    fn evidence(&self) -> RankingEvidence<'_> {
        RankingEvidence::CatalogOrder
    }

    fn reaching(&self, eligibility: &Eligibility, _least: f32) -> Vec<Candidate> {
        eligibility
            .admitted()
            .map(|tool| Candidate { tool, score: 0.0 })
            .collect()
    }

    fn candidate(&self, tool: ToolId) -> Candidate {
        Candidate { tool, score: 0.0 }
    }

    fn value_at(&self, _min_score: f32) -> f32 {
        f32::NEG_INFINITY
    }

    fn extended<'r>(
        self: Box<Self>,
        _request: &ResolvedRequest<'_>,
        _tools: &BTreeSet<ToolId>,
    ) -> BoxedRanking<'r>
    where
        Self: 'r,
    {
        self
    }
}

/// A scorer of the caller.
#[derive(Clone)]
pub(super) struct CustomScorer {
    scorer: Arc<dyn Scorer>,
    /// The number of tools that the scorer receives, if not all.
    pub(super) shortlist: Option<usize>,
}

impl CustomScorer {
    pub(super) fn new(scorer: Arc<dyn Scorer>, shortlist: Option<usize>) -> Self {
        let shortlist = shortlist.map(|tools| tools.max(1));
        Self { scorer, shortlist }
    }
}

impl fmt::Debug for CustomScorer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomScorer")
            .field("scorer", &self.scorer.name())
            .field("shortlist", &self.shortlist)
            .finish()
    }
}

/// The components of an engine that a ranking depends on.
pub(super) struct RankingInputs<'e> {
    pub(super) scorer: Option<&'e CustomScorer>,
    pub(super) prior: Option<&'e Prior>,
}

/// Ranks the tools by the custom scorer if there is one, else by the retrievers, whose ranking is
/// also the fallback of the scorer. The last resort is the order of the catalog.
pub(super) fn rank<'q>(
    request: &ResolvedRequest<'_>,
    retrieval: Retrieval<'q>,
    RankingInputs { scorer, prior }: RankingInputs<'_>,
    report: &mut Report,
) -> Result<BoxedRanking<'q>, SavedError> {
    let built_in = match scorer {
        Some(CustomScorer {
            shortlist: None, ..
        }) => {
            report.skipped(Stage::Fuse, "a custom scorer replaces it");
            None
        }
        _ => fuse(request, retrieval, report),
    };
    let mut name = request.mode.name();
    if let Some(scorer) = scorer {
        name = scorer.scorer.name();
        if let Some(ranking) = score(request, scorer, built_in.as_ref(), report)? {
            if prior.is_some() {
                report.skipped(Stage::Prior, "a custom scorer ranks");
            }
            return Ok(Box::new(ranking));
        }
    }
    Ok(match (built_in, prior) {
        (Some(ranking), Some(prior)) => Box::new(raise(ranking, prior, request, report)),
        (Some(ranking), None) => Box::new(ranking),
        (None, prior) => {
            if prior.is_some() {
                report.skipped(Stage::Prior, "the ranking failed");
            }
            let name = name.to_owned();
            Box::new(CatalogOrder { name })
        }
    })
}

/// Fuses the signals of the retrievers; `None` if they failed.
fn fuse<'q>(
    request: &ResolvedRequest<'_>,
    retrieval: Retrieval<'q>,
    report: &mut Report,
) -> Option<FusedRanking<'q>> {
    if retrieval.signals.is_empty() && report.is_degraded() {
        report.skipped(Stage::Fuse, "there is nothing to fuse");
        return None;
    }
    let ranking = FusedRanking::new(request, retrieval);
    report.ran(Stage::Fuse);
    Some(ranking)
}

/// Raises tools that go with the tools in use and, with the option `popularity`, tools that are
/// called often.
fn raise<'q>(
    ranking: FusedRanking<'q>,
    prior: &Prior,
    request: &ResolvedRequest<'_>,
    report: &mut Report,
) -> FusedRanking<'q> {
    if request.tools_in_use().is_empty() && !request.options.popularity {
        report.skipped(Stage::Prior, "no tool is in use");
        return ranking;
    }
    if ranking.fused.scores.method != Fusion::Weighted {
        report.skipped(Stage::Prior, "a fusion of ranks has no prior");
        return ranking;
    }
    let raised = ranking.raised(prior, request);
    report.ran(Stage::Prior);
    raised
}

/// Runs a custom scorer on all eligible tools or, if it has a shortlist, on the best tools of the
/// built-in ranking. Returns `None` if it fails, or without a ranking for the shortlist.
fn score(
    request: &ResolvedRequest<'_>,
    CustomScorer { scorer, shortlist }: &CustomScorer,
    built_in: Option<&FusedRanking<'_>>,
    report: &mut Report,
) -> Result<Option<ScorerRanking>, SavedError> {
    let (tools, fallback): (Vec<ToolId>, &str) = match (shortlist, built_in) {
        (None, _) => (
            request.rankable().admitted().collect(),
            "eligible tools are in registration order",
        ),
        (Some(most), Some(ranking)) => (
            best_tools(request, ranking, *most),
            "the built-in ranking is used instead",
        ),
        (Some(_), None) => {
            report.skipped(Stage::Scorer, "no ranking for a shortlist");
            return Ok(None);
        }
    };
    let mut definitions = Vec::with_capacity(tools.len());
    for &tool in &tools {
        definitions.push(Arc::clone(request.index.catalog.tool(tool)?));
    }
    let failure = match custom::run(scorer, request.query, definitions, request.deadline) {
        Ok(scores) => {
            report.ran(Stage::Scorer);
            let (catalog, received) = (&request.index.catalog, shortlist.map(|_| tools.len()));
            let answer = tools.into_iter().zip(scores);
            let ranking = ScorerRanking::new(catalog, scorer.name(), answer, received);
            return Ok(Some(ranking));
        }
        Err(ScorerFailure::Failed(error)) => error.to_string(),
        Err(ScorerFailure::Expired) => "the deadline passed before the scorer answered".to_owned(),
    };
    report.failed(Stage::Scorer, format!("{failure}; {fallback}"));
    Ok(None)
}

/// Returns the best tools of a ranking, at most `most`, and the tools that are always scored.
fn best_tools(
    request: &ResolvedRequest<'_>,
    FusedRanking { fused, .. }: &FusedRanking<'_>,
    most: usize,
) -> Vec<ToolId> {
    let mut tools = request.mandatory_or_in_use();
    tools.extend(request.ranked_fallbacks());
    let best = fused
        .scores
        .best_candidates(request.rankable(), f32::NEG_INFINITY, most);
    tools.extend(best.iter().map(|candidate| candidate.tool));
    tools.into_iter().collect()
}
