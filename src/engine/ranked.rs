//! The ranking: what every tool's value and score rest on, and the stages that make it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::parts::AskedParts;
use super::report::Report;
use super::request::Request;
use super::signals::{Embeddings, Said, signals};
use crate::access::Eligibility;
use crate::catalog::Catalog;
use crate::fuse::{Fused, Fusion, Mode};
use crate::ranking::{Candidate, ToolId, top_k};
use crate::retrieve::FoundTerm;
use crate::scorer::{self, NoScores, Score, Scorer, ScorerError};
use crate::selection::{NothingFits, Pick, Stage, Uncalibrated};
use crate::sequences::Prior;

/// The tools of the smallest catalog that the scores were calibrated on (`models/train/fusion`).
const CALIBRATED_TOOLS: usize = 45;
/// How sure the kind of a request that nothing fits must be to be told.
const SURE: f32 = 0.7;

/// The ranking of a request's tools, by what it rests on.
pub(super) enum Ranked<'q> {
    /// The built-in retrievers.
    Fused {
        mode: Mode,
        terms: Vec<FoundTerm<'q>>,
        fused: Fused,
    },
    /// A custom scorer.
    Custom(Custom),
    /// Nothing but the order of the catalog, because what should have ranked failed.
    Registration { scorer: String },
}

/// What a custom scorer says of the tools that it was shown.
pub(super) struct Custom {
    pub(super) scorer: String,
    pub(super) scores: BTreeMap<ToolId, Score>,
    /// Tools whose score is invalid, which are left out.
    invalid: BTreeMap<ToolId, ScorerError>,
    /// How many tools it was shown, where a shortlist bounds them.
    shortlisted: Option<usize>,
}

impl Ranked<'_> {
    /// Falls back to the order of the catalog.
    fn registration(scorer: &str) -> Self {
        Self::Registration {
            scorer: scorer.to_owned(),
        }
    }

    /// Names what ranked.
    pub(super) fn scorer(&self) -> &str {
        match self {
            Self::Fused { mode, .. } => mode.name(),
            Self::Custom(Custom { scorer, .. }) | Self::Registration { scorer } => scorer,
        }
    }

    /// Returns the eligible tools that it has something to say of and that reach the value `least`,
    /// in registration order.
    pub(super) fn reaching(&self, eligibility: &Eligibility, least: f32) -> Vec<Candidate> {
        match self {
            Self::Fused { fused, .. } => fused.candidates(eligibility, least).collect(),
            Self::Custom(Custom { scores, .. }) => {
                let candidates = scores.iter().map(|(&tool, score)| Candidate {
                    tool,
                    score: score.score,
                });
                candidates
                    .filter(|candidate| candidate.score >= least)
                    .collect()
            }
            Self::Registration { .. } => eligibility
                .admitted()
                .map(|tool| Candidate { tool, score: 0.0 })
                .collect(),
        }
    }

    /// Returns `true` if it ranks the tool; one whose score is invalid is left out.
    pub(super) fn ranks(&self, tool: ToolId) -> bool {
        match self {
            Self::Custom(Custom { invalid, .. }) => !invalid.contains_key(&tool),
            Self::Fused { .. } | Self::Registration { .. } => true,
        }
    }

    /// Returns `true` if it has a score for the tool: the built-in ranking of a large catalog has
    /// none for what is far from the request.
    pub(super) fn has(&self, tool: ToolId) -> bool {
        match self {
            Self::Fused { fused, .. } => fused.has(tool),
            Self::Custom(_) | Self::Registration { .. } => true,
        }
    }

    /// Returns why it leaves out tools whose score is invalid, one error per tool.
    pub(super) fn errors(&self) -> Vec<&ScorerError> {
        match self {
            Self::Custom(Custom { invalid, .. }) => invalid.values().collect(),
            Self::Fused { .. } | Self::Registration { .. } => Vec::new(),
        }
    }

    /// Returns how many tools a custom scorer was shown, where a shortlist bounds them.
    pub(super) fn shortlisted(&self) -> Option<usize> {
        match self {
            Self::Custom(Custom { shortlisted, .. }) => *shortlisted,
            Self::Fused { .. } | Self::Registration { .. } => None,
        }
    }

    /// Returns the value by which the tool is ordered.
    pub(super) fn candidate(&self, tool: ToolId) -> Candidate {
        let score = match self {
            Self::Fused { fused, .. } => fused.value(tool),
            Self::Custom(Custom { scores, .. }) => {
                scores.get(&tool).map_or(0.0, |score| score.score)
            }
            Self::Registration { .. } => 0.0,
        };
        Candidate { tool, score }
    }

    /// Returns the tool's score, 0..1.
    pub(super) fn score(&self, tool: ToolId) -> f32 {
        match self {
            Self::Fused { fused, .. } => fused.score_of(tool),
            Self::Custom(_) | Self::Registration { .. } => self.candidate(tool).score,
        }
    }

    /// Returns `true` if the tool scores at least as much as one of the value `least`, without what
    /// it has gained.
    pub(super) fn reaches(&self, candidate: Candidate, least: f32) -> bool {
        match self {
            Self::Fused { fused, .. } => fused.reaches(candidate.tool, least),
            Self::Custom(_) | Self::Registration { .. } => candidate.score >= least,
        }
    }

    /// Returns the estimated probability that any eligible tool answers the request: no less than
    /// the score of any that is picked, where scores are probabilities.
    pub(super) fn answerable(&self, picks: &[Pick]) -> Option<f32> {
        match self {
            Self::Fused { fused, .. } => {
                let picked = picks.iter().filter(|_| fused.method == Fusion::Weighted);
                Some(
                    picked
                        .map(|pick| pick.score)
                        .fold(fused.answerable(), f32::max),
                )
            }
            Self::Custom(_) | Self::Registration { .. } => None,
        }
    }

    /// Returns of what kind the request is if nothing fits it, where that can be told.
    pub(super) fn nothing_fits(&self, catalog: &Catalog) -> Option<NothingFits> {
        let Self::Fused { fused, .. } = self else {
            return None;
        };
        let near = fused.near_source()?;
        if near >= SURE {
            let source = catalog.source(fused.best()?)?.to_owned();
            return Some(NothingFits::NearSource { source });
        }
        (near <= 1.0 - SURE).then_some(NothingFits::OutOfScope)
    }

    /// Returns why the scores are no probabilities.
    pub(super) fn uncalibrated(&self, eligibility: &Eligibility) -> Option<Uncalibrated> {
        match self {
            Self::Fused { fused, .. } if fused.method != Fusion::Weighted => {
                Some(Uncalibrated::Ranks)
            }
            Self::Fused { .. } if eligibility.admitted_count() < CALIBRATED_TOOLS => {
                Some(Uncalibrated::FewTools)
            }
            Self::Custom(_) => Some(Uncalibrated::CustomScorer),
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

/// Retrieves and fuses: the built-in ranking.
pub(super) fn fuse<'q>(
    request: &Request<'q>,
    parts: Option<&mut AskedParts<'q>>,
    embeddings: &mut Embeddings,
    report: &mut Report,
) -> Ranked<'q> {
    let Said { terms, signals } = signals(request, parts, embeddings, report);
    if signals.is_empty() && report.is_degraded() {
        report.skipped(Stage::Fuse, "there is nothing to fuse");
        return Ranked::registration(request.mode.name());
    }
    let fused = Fused::new(signals, request.options.fusion, request.rankable());
    report.ran(Stage::Fuse);
    Ranked::Fused {
        mode: request.mode,
        terms,
        fused,
    }
}

/// Scores all tools after all where one of some, which are wanted whatever their score, has none.
pub(super) fn widen<'q>(
    ranked: &mut Ranked<'q>,
    mut wanted: impl Iterator<Item = ToolId>,
    request: &mut Request<'q>,
    embeddings: &mut Embeddings,
) {
    if wanted.any(|tool| !ranked.has(tool)) {
        request.whole = true;
        let mut report = Report::new();
        let whole = fuse(request, None, embeddings, &mut report);
        // In haste what there is stands.
        if !report.is_degraded() {
            *ranked = whole;
        }
    }
}

/// Asks a custom scorer in place of the built-in ranking, or of the best tools of that where there
/// is a shortlist. What there is without the scorer stands in where it gives nothing: the built-in
/// ranking, else registration order.
pub(super) fn score<'q>(
    request: &Request<'q>,
    (scorer, shortlist): (&Arc<dyn Scorer>, Option<usize>),
    embeddings: &mut Embeddings,
    report: &mut Report,
) -> Ranked<'q> {
    let first_stage = shortlist.map(|most| (fuse(request, None, embeddings, report), most));
    let shown: Vec<ToolId> = match &first_stage {
        Some((Ranked::Fused { fused, .. }, most)) => {
            let best = top_k(
                fused.candidates(request.rankable(), f32::NEG_INFINITY),
                *most,
            );
            let stay: BTreeSet<ToolId> = request.musts().union(&request.held()).copied().collect();
            best.iter()
                .map(|best| best.tool)
                .chain(stay)
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect()
        }
        Some(_) => {
            report.skipped(Stage::Scorer, "there is no ranking to make a shortlist of");
            return Ranked::registration(scorer.name());
        }
        None => {
            let of_examples = request.examples.map(|_| Stage::Examples);
            for stage in [Stage::Keyword, Stage::Semantic]
                .into_iter()
                .chain(of_examples)
                .chain([Stage::Fuse])
            {
                report.skipped(stage, "a custom scorer takes its place");
            }
            request.rankable().admitted().collect()
        }
    };
    let tools = shown
        .iter()
        .map(|&tool| Arc::clone(request.index.catalog.tool(tool)))
        .collect();
    let missed = match scorer::run(scorer, request.query, tools, request.deadline) {
        Ok(scores) => {
            report.ran(Stage::Scorer);
            let shortlisted = first_stage.map(|_| shown.len());
            return Ranked::Custom(Custom::new(
                request,
                scorer.name(),
                (shown, scores),
                shortlisted,
            ));
        }
        Err(NoScores::Failed(error)) => error.to_string(),
        Err(NoScores::Expired) => "the deadline passed before the scorer answered".to_owned(),
    };
    let (stands, ranked) = match first_stage {
        Some((ranked, _)) => ("the built-in ranking stands", ranked),
        None => (
            "eligible tools stand in registration order",
            Ranked::registration(scorer.name()),
        ),
    };
    report.failed(Stage::Scorer, format!("{missed}; {stands}"));
    ranked
}

impl Custom {
    /// Checks a scorer's answer, one score for each tool that it was shown, in order.
    fn new(
        request: &Request<'_>,
        scorer: &str,
        (shown, answer): (Vec<ToolId>, Vec<Score>),
        shortlisted: Option<usize>,
    ) -> Self {
        let (mut scores, mut invalid) = (BTreeMap::new(), BTreeMap::new());
        for (tool, score) in shown.into_iter().zip(answer) {
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

/// Raises what goes with the tools in use, and what is called often where that is to count.
pub(super) fn raise(
    prior: &Prior,
    request: &Request<'_>,
    ranked: &mut Ranked,
    report: &mut Report,
) {
    let in_use = request.held();
    match ranked {
        Ranked::Fused { .. } if in_use.is_empty() && !request.options.popularity => {
            report.skipped(Stage::Prior, "no tool is in use");
        }
        Ranked::Fused { fused, .. } if fused.method == Fusion::Weighted => {
            fused.raise(prior.gains(&in_use));
            if request.options.popularity {
                fused.raise_popular(prior.popular());
            }
            report.ran(Stage::Prior);
        }
        Ranked::Fused { .. } => report.skipped(Stage::Prior, "ranks cannot be raised"),
        Ranked::Custom(_) => report.skipped(Stage::Prior, "a custom scorer ranks"),
        Ranked::Registration { .. } => report.skipped(Stage::Prior, "the ranking failed"),
    }
}
