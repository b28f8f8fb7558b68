//! The reranking stage: the decision to run the reranker, and the new order of the shortlist.
//!
//! `min_score` was applied before on the calibrated scores, and the picks keep these scores.
//! Reranking orders the candidates again; it neither adds nor removes one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ranking::{RankingEvidence, RequestRanking};
use super::report::Report;
use super::request::ResolvedRequest;
use super::shortlist::Shortlist;
use crate::ranking::{Candidate, Ranking, ToolId};
use crate::rerank::{self, Rerank, RerankFailure, RerankScore, Reranker};
use crate::saved::SavedError;
use crate::selection::{RerankEvidence, RerankReport, Stage};

/// The largest difference of scores at which the better tool is uncertain. `docs/how-to/rerank.md`
/// states what this constant and the next one miss.
const THIN_MARGIN: f32 = 0.25;
/// A candidate below the cutoff with a lower score is unlikely, however close the last pick is. It
/// needs no reranking.
const UNLIKELY: f32 = 0.1;

/// The outcome of reranking: the decision, and the old and new positions of the tools.
pub(super) struct RerankOutcome {
    pub(super) report: RerankReport,
    pub(super) evidence: BTreeMap<ToolId, RerankEvidence>,
}

/// Returns the number of candidates to sort for the reranker; zero if it does not run.
pub(super) fn window(request: &ResolvedRequest<'_>, reranker: Option<&Arc<dyn Reranker>>) -> usize {
    let may_run = request.options.rerank != Rerank::Never && reranker.is_some();
    if may_run {
        request.options.rerank_window
    } else {
        0
    }
}

/// Runs the reranker if the options ask for it, and orders the best candidates by its answer.
pub(super) fn rerank(
    request: &ResolvedRequest<'_>,
    ranked: &dyn RequestRanking,
    reranker: Option<&Arc<dyn Reranker>>,
    shortlist: Shortlist,
    report: &mut Report,
) -> Result<(Shortlist, Option<RerankOutcome>), SavedError> {
    let Some(reranker) = reranker else {
        report.skipped(Stage::Rerank, "no reranker is set");
        return Ok((shortlist, None));
    };
    if request.options.rerank == Rerank::Never {
        report.skipped(Stage::Rerank, "the options ask for no reranking");
        return Ok((shortlist, None));
    }
    let ranking = &shortlist.ranking;
    let mut outcome = RerankOutcome {
        report: rerank_report(request, ranked, reranker.as_ref(), ranking),
        evidence: BTreeMap::new(),
    };
    if let Some(reason) = skip_reason(ranked, &outcome.report) {
        report.skipped(Stage::Rerank, reason);
        return Ok((shortlist, Some(outcome)));
    }
    let best = &ranking[..outcome.report.window];
    match order(request, reranker, best, report)? {
        Some(order) => {
            outcome.report.reordered = true;
            for (after, &RerankScore { candidate, score }) in order.iter().enumerate() {
                let positions = RerankEvidence {
                    score,
                    before: candidate + 1,
                    after: after + 1,
                };
                outcome.evidence.insert(ranking[candidate].tool, positions);
            }
            Ok((shortlist.reranked(&order), Some(outcome)))
        }
        None => Ok((shortlist, Some(outcome))),
    }
}

/// Asks the reranker for the order of the best candidates; `None` if there is no answer.
fn order(
    request: &ResolvedRequest<'_>,
    reranker: &Arc<dyn Reranker>,
    best: &[Candidate],
    report: &mut Report,
) -> Result<Option<Vec<RerankScore>>, SavedError> {
    if request.deadline.has_passed() {
        report.failed(
            Stage::Rerank,
            "the deadline passed before it began; the previous order is kept",
        );
        return Ok(None);
    }
    let mut tools = Vec::with_capacity(best.len());
    for candidate in best {
        tools.push(Arc::clone(request.index.catalog.tool(candidate.tool)?));
    }
    Ok(
        match rerank::run(reranker, request.query, tools, request.deadline) {
            Ok(order) => {
                report.ran(Stage::Rerank);
                Some(order)
            }
            Err(RerankFailure::Paused(reason)) => {
                report
                    .skipped_after_failures(Stage::Rerank, reason + "; the previous order is kept");
                None
            }
            Err(RerankFailure::Failed(reason)) => {
                report.failed(Stage::Rerank, reason + "; the previous order is kept");
                None
            }
        },
    )
}

/// Returns the numbers that decide whether the reranker runs.
fn rerank_report(
    request: &ResolvedRequest<'_>,
    ranked: &dyn RequestRanking,
    reranker: &dyn Reranker,
    ranking: &Ranking,
) -> RerankReport {
    let window = ranking.len().min(request.options.rerank_window);
    let score = |place: usize| Some(ranked.score(ranking.get(place)?.tool));
    let margin = |place: usize| Some(score(place)? - score(place + 1)?);
    let max_candidates = request.options.max_candidates;
    let (mut cut_margin, mut first_cut) = (None, None);
    // Candidates can cross the cutoff only if the window reaches beyond it.
    if max_candidates < window {
        cut_margin = margin(max_candidates - 1);
        first_cut = score(max_candidates);
    }
    RerankReport {
        reranker: reranker.name().to_owned(),
        when: request.options.rerank,
        window,
        top_margin: margin(0),
        cut_margin,
        first_cut,
        reordered: false,
    }
}

/// Returns the reason to skip the reranker, if there is one.
fn skip_reason(ranked: &dyn RequestRanking, report: &RerankReport) -> Option<String> {
    if let RankingEvidence::CatalogOrder = ranked.evidence() {
        return Some("the ranking failed, so there are no best candidates".to_owned());
    }
    if report.window < 2 {
        return Some("there is nothing to reorder".to_owned());
    }
    let thin_top = report.top_margin.is_some_and(|margin| margin < THIN_MARGIN);
    let likely = report.first_cut.is_some_and(|score| score >= UNLIKELY);
    let thin_cut = likely && report.cut_margin.is_some_and(|margin| margin < THIN_MARGIN);
    if report.when == Rerank::Always || thin_top || thin_cut {
        return None;
    }
    let mut reason = "it would hardly change the picks:".to_owned();
    if let Some(margin) = report.top_margin {
        reason.push_str(&format!(" the best candidate leads by {margin:.2}"));
    }
    if let (Some(score), Some(margin)) = (report.first_cut, report.cut_margin) {
        reason.push_str(&format!(
            ", and the first candidate below the cutoff scores {score:.2}, \
             {margin:.2} less than the last pick"
        ));
    }
    Some(reason)
}
