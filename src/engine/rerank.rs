//! Whether the reranker is asked, and what its answer makes of the ranking.
//!
//! `min_score` has been applied before, on the calibrated scores, and these stay what the picks
//! show: reranking puts the admitted candidates in another order, and neither adds nor removes one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::candidates::Candidates;
use super::ranked::Ranked;
use super::report::Report;
use super::request::Request;
use crate::ranking::{Ranking, ToolId};
use crate::rerank::{self, NotReranked, Rerank, RerankScore, Reranker};
use crate::selection::{RerankEvidence, RerankReport, Stage};

/// Scores that lie closer leave open which tool is the better one. `docs/reranking.md` tells what
/// this and the next constant miss.
const THIN_MARGIN: f32 = 0.25;
/// A tool that would be cut and is less likely than this needs no second look, however close the
/// one before it is.
const UNLIKELY: f32 = 0.1;

/// What reranking came to: the decision, and the places of the tools that it moved or left.
pub(super) struct Reranked {
    pub(super) report: RerankReport,
    pub(super) evidence: BTreeMap<ToolId, RerankEvidence>,
}

/// How many candidates are put in order for the reranker; none where it is not asked for.
pub(super) fn window(request: &Request<'_>, reranker: Option<&Arc<dyn Reranker>>) -> usize {
    let wanted = request.options.rerank != Rerank::Never && reranker.is_some();
    if wanted {
        request.options.rerank_window
    } else {
        0
    }
}

/// Asks the reranker where that is wanted, and puts the best candidates in the order that it gives.
pub(super) fn rerank(
    request: &Request<'_>,
    ranked: &Ranked<'_>,
    reranker: Option<&Arc<dyn Reranker>>,
    candidates: &mut Candidates<'_>,
    report: &mut Report,
) -> Option<Reranked> {
    let Some(reranker) = reranker else {
        report.skipped(Stage::Rerank, "no reranker is set");
        return None;
    };
    if request.options.rerank == Rerank::Never {
        report.skipped(Stage::Rerank, "the options ask for none");
        return None;
    }
    let ranking = &mut candidates.ranking;
    let mut told = numbers(request, ranked, reranker.as_ref(), ranking);
    let mut evidence = BTreeMap::new();
    if let Some(reason) = needless(ranked, &told) {
        report.skipped(Stage::Rerank, reason);
        return Some(Reranked {
            report: told,
            evidence,
        });
    }
    if request.deadline.has_passed() {
        report.failed(
            Stage::Rerank,
            "the deadline passed before it began; the prior order stands",
        );
        return Some(Reranked {
            report: told,
            evidence,
        });
    }
    let tools = ranking[..told.window]
        .iter()
        .map(|candidate| Arc::clone(request.index.catalog.tool(candidate.tool)))
        .collect();
    match rerank::run(reranker, request.query, tools, request.deadline) {
        Ok(order) => {
            report.ran(Stage::Rerank);
            told.reordered = true;
            for (after, &RerankScore { candidate, score }) in order.iter().enumerate() {
                let places = RerankEvidence {
                    score,
                    before: candidate + 1,
                    after: after + 1,
                };
                evidence.insert(ranking[candidate].tool, places);
            }
            permute(ranking, &order);
            // Who reads request and tool together has seen the parts.
            candidates.reranked = true;
        }
        Err(NotReranked::Paused(reason)) => {
            report.left_out(Stage::Rerank, reason + "; the prior order stands")
        }
        Err(NotReranked::Failed(reason)) => {
            report.failed(Stage::Rerank, reason + "; the prior order stands")
        }
    }
    Some(Reranked {
        report: told,
        evidence,
    })
}

/// The numbers that decide whether the reranker is asked.
fn numbers(
    request: &Request<'_>,
    ranked: &Ranked<'_>,
    reranker: &dyn Reranker,
    ranking: &Ranking,
) -> RerankReport {
    let window = ranking.len().min(request.options.rerank_window);
    let score = |place: usize| {
        ranking
            .get(place)
            .map(|candidate| ranked.score(candidate.tool))
    };
    let margin = |place: usize| Some(score(place)? - score(place + 1)?);
    // Only what stands on both sides of the cutoff can trade places across it.
    let cut = Some(request.options.max_candidates).filter(|&most| most < window);
    RerankReport {
        reranker: reranker.name().to_owned(),
        when: request.options.rerank,
        window,
        top_margin: margin(0),
        cut_margin: cut.and_then(|most| margin(most - 1)),
        first_cut: cut.and_then(score),
        reordered: false,
    }
}

/// Says why there is no need to ask.
fn needless(ranked: &Ranked<'_>, report: &RerankReport) -> Option<String> {
    if matches!(ranked, Ranked::Registration { .. }) {
        return Some("the ranking failed, and its candidates are not the best ones".to_owned());
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
    let mut told = "its answer would hardly change the picks:".to_owned();
    if let Some(margin) = report.top_margin {
        told.push_str(&format!(" the best candidate leads by {margin:.2}"));
    }
    if let (Some(score), Some(margin)) = (report.first_cut, report.cut_margin) {
        told.push_str(&format!(
            ", and the first that is cut scores {score:.2}, {margin:.2} below the last that is not"
        ));
    }
    Some(told)
}

/// Puts the tools of the window in their new order. The values by which candidates are ordered stay
/// in their places, and fall strictly, so that whoever sorts by them later keeps the order.
fn permute(ranking: &mut Ranking, order: &[RerankScore]) {
    let tools: Vec<_> = order
        .iter()
        .map(|score| ranking[score.candidate].tool)
        .collect();
    ranking
        .iter_mut()
        .zip(tools)
        .for_each(|(place, tool)| place.tool = tool);
    for place in 1..ranking.len() {
        let above = ranking[place - 1].score;
        if ranking[place].score >= above {
            ranking[place].score = above.next_down();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ranking::Candidate;

    proptest! {
        #[test]
        fn the_new_order_outlives_a_sort_and_the_rest_keeps_its_own(
            (values, order, window) in (1usize..12).prop_flat_map(|count| {
                let window = 0..=count;
                (prop::collection::vec(-2i8..3, count), window).prop_flat_map(|(values, window)| {
                    (Just(values), Just((0..window).collect::<Vec<_>>()).prop_shuffle(), Just(window))
                })
            }),
        ) {
            let candidates = values.iter().enumerate();
            let candidates = candidates.map(|(i, &v)| Candidate { tool: ToolId::from_index(i), score: f32::from(v) });
            let mut ranking: Ranking = candidates.collect();
            ranking.sort_by(Candidate::better_first);
            let before: Vec<ToolId> = ranking.iter().map(|candidate| candidate.tool).collect();
            let scores: Vec<RerankScore> =
                order.iter().map(|&candidate| RerankScore { candidate, score: 0.0 }).collect();
            permute(&mut ranking, &scores);
            ranking.sort_by(Candidate::better_first);
            let after: Vec<ToolId> = ranking.iter().map(|candidate| candidate.tool).collect();
            let wanted: Vec<ToolId> = order.iter().map(|&place| before[place]).collect();
            prop_assert_eq!(&after[..window], &wanted[..]);
            prop_assert_eq!(&after[window..], &before[window..]);
        }
    }
}
