//! The shortlist of candidates: the tools that reach `min_score` for the complete request, are
//! protected (named, in use, always included, of a picked skill), or reach `min_score` for a
//! subquery. If none of them is likely to fit, the caller's best fallback is a candidate, too. If
//! no other tool is a candidate, all fallbacks are.

use std::collections::{BTreeMap, BTreeSet};

use super::ranking::{RankingEvidence, RequestRanking, Subquery};
use super::report::Report;
use super::request::ResolvedRequest;
use crate::index::DuplicateGroups;
use crate::options::{PickOptions, SelectionMode};
use crate::ranking::{Candidate, Ranking, ToolId, ToolSet, top_k};
use crate::rerank::RerankScore;
use crate::select::{Decision, POOL, picks};
use crate::selection::Stage;

/// The number of best candidates whose evidence a selection contains with the option `debug`. It
/// also contains the evidence of every pick.
pub(super) const MAX_CONSIDERED: usize = 100;

/// The probability from which a tool is likely to fit a request, so that no fallback is needed.
const LIKELY: f32 = 0.5;

/// The tools that can be picked for the request. Tools that picks require are added later, and need
/// not be candidates.
pub(super) struct Shortlist {
    /// The candidates that later stages look at: the best ones, then the tools of subqueries that
    /// are not among them. Both groups are in the order of their scores for the complete request.
    pub(super) ranking: Ranking,
    /// All candidates, in no order.
    all: Vec<Candidate>,
    /// The number of ranked tools that are not candidates. Picks may require some of them.
    non_candidates: usize,
    pub(super) protected: ProtectedTools,
    pub(super) skills: SkillTools,
    /// The tools that reach `min_score` for a subquery, at most `max_candidates` for each subquery.
    /// Each has the position of the subquery for which it scores best; best score first.
    pub(super) of_subqueries: Vec<(ToolId, usize)>,
    /// Those tools of `of_subqueries` that would not be candidates otherwise, with the position of
    /// the subquery.
    pub(super) for_subquery: BTreeMap<ToolId, usize>,
    /// The tools that are candidates only because no other tool is likely to fit.
    pub(super) fallbacks: BTreeSet<ToolId>,
    /// `true` if a reranker determined the order. It reads the whole request, so it has considered
    /// the subqueries.
    pub(super) reranked: bool,
}

/// The tools of picked skills, eligible or not, with the names of the skills.
#[derive(Debug, Default)]
pub(super) struct SkillTools(BTreeMap<ToolId, Vec<String>>);

impl SkillTools {
    /// Adds a tool of a picked skill.
    pub(super) fn with(mut self, tool: ToolId, skill: &str) -> Self {
        self.0.entry(tool).or_default().push(skill.to_owned());
        self
    }

    /// Returns the eligible tools.
    pub(super) fn eligible(&self, request: &ResolvedRequest<'_>) -> BTreeSet<ToolId> {
        request.only_eligible(self.0.keys().copied())
    }

    /// Returns the names of the skills that need the tool, best first.
    pub(super) fn skill_names(&self, tool: ToolId) -> Vec<String> {
        self.0.get(&tool).cloned().unwrap_or_default()
    }
}

/// The tools that are candidates whatever their score.
pub(super) struct ProtectedTools {
    /// Tools that the request names or that are always included, and a fallback that takes a place
    /// beside other candidates.
    pub(super) mandatory: BTreeSet<ToolId>,
    /// Tools in use.
    pub(super) in_use: BTreeSet<ToolId>,
    /// Tools of picked skills.
    pub(super) skill_tools: BTreeSet<ToolId>,
}

impl ProtectedTools {
    fn new(
        request: &ResolvedRequest<'_>,
        ranked: &dyn RequestRanking,
        skills: &SkillTools,
    ) -> Self {
        let ranked_only = |mut tools: BTreeSet<ToolId>| {
            tools.retain(|&tool| ranked.ranks(tool));
            tools
        };
        Self {
            mandatory: ranked_only(request.mandatory_tools()),
            in_use: ranked_only(request.tools_in_use()),
            skill_tools: ranked_only(skills.eligible(request)),
        }
    }

    fn all(&self) -> BTreeSet<ToolId> {
        let mut all = self.mandatory.clone();
        all.extend(&self.in_use);
        all.extend(&self.skill_tools);
        all
    }
}

impl Shortlist {
    /// Applies `min_score`, and sorts the best candidates: at least `window`, the number of
    /// candidates that the reranker receives.
    pub(super) fn new(
        request: &ResolvedRequest<'_>,
        ranked: &dyn RequestRanking,
        skills: SkillTools,
        window: usize,
        report: &mut Report,
    ) -> Self {
        let subqueries = ranked.subqueries();
        let mut protected = ProtectedTools::new(request, ranked, &skills);
        let protected_tools = protected.all();
        let of_subqueries = tools_of_subqueries(subqueries, request);
        let mut all = request_candidates(request, ranked, &protected_tools);
        let threshold = ranked.value_at(request.options.min_score);
        let reaches = |candidate: &Candidate| {
            !shows_nothing(request, ranked) && ranked.reaches(*candidate, threshold)
        };
        let may_fit = all.iter().any(reaches) || !of_subqueries.is_empty();
        let mut fallbacks = fallback_candidates(request, ranked, may_fit, &of_subqueries, &all);
        fallbacks.retain(|fallback| of_subqueries.iter().all(|(tool, _)| tool != fallback));
        if may_fit {
            protected.mandatory.extend(&fallbacks);
        }
        all.extend(fallbacks.iter().map(|&tool| ranked.candidate(tool)));
        match ranked.evidence() {
            // The tools are in registration order, and each reaches the threshold.
            RankingEvidence::CatalogOrder => {
                report.skipped(Stage::MinScore, "there are no scores");
            }
            RankingEvidence::Fused(_) | RankingEvidence::Scorer(_) => report.ran(Stage::MinScore),
        }
        let pool = if subqueries.is_empty() { 0 } else { POOL };
        // Duplicates of picks are skipped, so each may add a candidate from a lower rank.
        let duplicate_count = duplicates(request).map_or(0, DuplicateGroups::len);
        let depth = sorting_depth(request.options, protected_tools.len() + fallbacks.len())
            .max(pool)
            .saturating_add(duplicate_count)
            .max(window);
        let mut ranking = top_k(all.iter().copied(), depth);
        let for_subquery = subquery_candidates(&of_subqueries, ranked, request, &protected_tools);
        all.extend(for_subquery.keys().map(|&tool| ranked.candidate(tool)));
        // The tools of subqueries may be chosen at any rank.
        let sorted_tools: BTreeSet<ToolId> =
            ranking.iter().map(|candidate| candidate.tool).collect();
        let other_tools = of_subqueries
            .iter()
            .filter(|(tool, _)| !sorted_tools.contains(tool))
            .map(|&(tool, _)| ranked.candidate(tool));
        ranking.extend(top_k(other_tools, usize::MAX));
        // Copies of trusted tools are not rankable. Those that a picked skill needs are candidates.
        let protected_copies = protected_tools
            .iter()
            .filter(|&&tool| !request.rankable().admits(tool))
            .count();
        // A tool with an invalid score is not ranked, and is never a candidate.
        let ranked_count =
            request.rankable().admitted_count() + protected_copies - ranked.errors().len();
        let non_candidates = ranked_count - all.len();
        Self {
            ranking,
            all,
            non_candidates,
            protected,
            skills,
            of_subqueries,
            for_subquery,
            fallbacks,
            reranked: false,
        }
    }

    /// Returns the shortlist in the order of a reranker. The ordering values keep their positions
    /// and are made strictly decreasing, so that later sorts keep the order.
    pub(super) fn reranked(self, order: &[RerankScore]) -> Self {
        let mut ranking = self.ranking;
        permute(&mut ranking, order);
        Self {
            ranking,
            reranked: true,
            ..self
        }
    }

    /// Returns the number of candidates that are not picked.
    pub(super) fn not_picked(
        &self,
        request: &ResolvedRequest<'_>,
        decisions: &[Decision],
    ) -> usize {
        let mut picked = ToolSet::new(request.rankable().tools());
        picks(decisions).for_each(|(tool, _)| picked.add(tool));
        let is_left = |candidate: &&Candidate| !picked.contains(candidate.tool);
        self.all.iter().filter(is_left).count()
    }

    /// Returns the number of ranked tools that are neither candidates nor required by picks.
    pub(super) fn below_threshold(
        &self,
        request: &ResolvedRequest<'_>,
        decisions: &[Decision],
    ) -> usize {
        let mut required = BTreeSet::new();
        for decision in decisions {
            if let Some(tool) = decision.required()
                && request.rankable().admits(tool)
            {
                required.insert(tool);
            }
        }
        if !required.is_empty() {
            for candidate in &self.all {
                required.remove(&candidate.tool);
            }
        }
        self.non_candidates - required.len()
    }
}

/// Returns the fallbacks that are candidates: all of them if no other tool fits, and the best one
/// if other tools may fit, but none is likely to.
fn fallback_candidates(
    request: &ResolvedRequest<'_>,
    ranked: &dyn RequestRanking,
    may_fit: bool,
    of_subqueries: &[(ToolId, usize)],
    candidates: &[Candidate],
) -> BTreeSet<ToolId> {
    let mut fallbacks: BTreeSet<ToolId> = request.ranked_fallbacks().collect();
    if fallbacks.is_empty() || !request.named.mentions.is_empty() || request.query.is_small_talk() {
        return BTreeSet::new();
    }
    if may_fit {
        let mut likely = ranked.answerable(&[]);
        for &(tool, position) in of_subqueries {
            let score = ranked.subqueries()[position].fused.score(tool);
            likely = likely.map(|likely| likely.max(score));
        }
        if likely.is_none_or(|likely| likely >= LIKELY) {
            return BTreeSet::new();
        }
    }
    fallbacks.retain(|&tool| ranked.ranks(tool));
    for candidate in candidates {
        fallbacks.remove(&candidate.tool);
    }
    if may_fit {
        let ranking = fallbacks.iter().map(|&tool| ranked.candidate(tool));
        let best = top_k(ranking, 1);
        fallbacks.retain(|&tool| best.iter().any(|best| best.tool == tool));
    }
    fallbacks
}

/// Returns `true` if no tool is shown because none is likely to serve the request. A threshold of 0
/// asks for a complete ranking.
fn shows_nothing(request: &ResolvedRequest<'_>, ranked: &dyn RequestRanking) -> bool {
    request.options.min_score > 0.0 && ranked.is_unsupported()
}

/// Returns the duplicates, if the picks are chosen as a set.
pub(super) fn duplicates<'a>(request: &ResolvedRequest<'a>) -> Option<&'a DuplicateGroups> {
    if request.options.choice != SelectionMode::Set {
        return None;
    }
    Some(&request.index.duplicates)
}

/// Returns the candidates for the complete request: the tools that reach the threshold, and all
/// protected tools.
fn request_candidates(
    request: &ResolvedRequest<'_>,
    ranked: &dyn RequestRanking,
    protected: &BTreeSet<ToolId>,
) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    if !shows_nothing(request, ranked) {
        let threshold = ranked.value_at(request.options.min_score);
        candidates = ranked.reaching(request.rankable(), threshold);
    }
    if !protected.is_empty() {
        let mut others = protected.clone();
        others.retain(|&tool| candidates.iter().all(|candidate| candidate.tool != tool));
        candidates.extend(others.into_iter().map(|tool| ranked.candidate(tool)));
    }
    candidates
}

/// Returns the tools that reach `min_score` for a subquery, at most `max_candidates` for each
/// subquery, with the subquery for which they score best.
fn tools_of_subqueries(
    subqueries: &[Subquery<'_>],
    request: &ResolvedRequest<'_>,
) -> Vec<(ToolId, usize)> {
    let mut best: BTreeMap<ToolId, (f32, usize)> = BTreeMap::new();
    for (position, subquery) in subqueries.iter().enumerate() {
        for Candidate { tool, .. } in subquery.candidates(request) {
            let score = subquery.fused.score(tool);
            let entry = best.entry(tool).or_insert((score, position));
            if score > entry.0 {
                *entry = (score, position);
            }
        }
    }
    let mut tools: Vec<(ToolId, (f32, usize))> = best.into_iter().collect();
    tools.sort_by(|(_, (a, _)), (_, (b, _))| b.total_cmp(a));
    tools
        .into_iter()
        .map(|(tool, (_, position))| (tool, position))
        .collect()
}

/// Returns those tools of `of_subqueries` that are neither protected nor reach `min_score` for the
/// complete request.
fn subquery_candidates(
    of_subqueries: &[(ToolId, usize)],
    ranked: &dyn RequestRanking,
    request: &ResolvedRequest<'_>,
    protected: &BTreeSet<ToolId>,
) -> BTreeMap<ToolId, usize> {
    let threshold = ranked.value_at(request.options.min_score);
    // If no tool is likely to serve the complete request, a tool may still serve a subquery.
    let shows_nothing = shows_nothing(request, ranked);
    let mut candidates = BTreeMap::new();
    for &(tool, subquery) in of_subqueries {
        if protected.contains(&tool) {
            continue;
        }
        let reaches_threshold = !shows_nothing && ranked.reaches(ranked.candidate(tool), threshold);
        if !reaches_threshold {
            candidates.insert(tool, subquery);
        }
    }
    candidates
}

/// Returns the number of best candidates to sort. With protected tools or a limit per source, picks
/// may have any rank, so it is `usize::MAX`.
fn sorting_depth(options: &PickOptions, protected: usize) -> usize {
    if protected > 0 || options.max_per_source.is_some() {
        return usize::MAX;
    }
    options
        .max_candidates
        .max(if options.debug { MAX_CONSIDERED } else { 0 })
}

/// Puts the tools of the window in their new order.
fn permute(ranking: &mut Ranking, order: &[RerankScore]) {
    let tools: Vec<_> = order
        .iter()
        .map(|score| ranking[score.candidate].tool)
        .collect();
    for (place, tool) in ranking.iter_mut().zip(tools) {
        place.tool = tool;
    }
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

    proptest! {
        #[test]
        fn permute_survives_sorting_and_keeps_the_rest(
            (values, order, window) in (1usize..12).prop_flat_map(|count| {
                let window = 0..=count;
                (prop::collection::vec(-2i8..3, count), window).prop_flat_map(|(values, window)| {
                    (Just(values), Just((0..window).collect::<Vec<_>>()).prop_shuffle(), Just(window))
                })
            }),
        ) {
            let numbered = values.iter().enumerate();
            let candidates = numbered.map(|(index, &value)| Candidate {
                tool: ToolId::from_index(index),
                score: f32::from(value),
            });
            let mut ranking: Ranking = candidates.collect();
            ranking.sort_by(Candidate::better_first);
            let before: Vec<ToolId> = ranking.iter().map(|candidate| candidate.tool).collect();
            let scores: Vec<RerankScore> =
                order.iter().map(|&candidate| RerankScore { candidate, score: 0.0 }).collect();
            permute(&mut ranking, &scores);
            ranking.sort_by(Candidate::better_first);
            let after: Vec<ToolId> = ranking.iter().map(|candidate| candidate.tool).collect();
            let expected: Vec<ToolId> = order.iter().map(|&place| before[place]).collect();
            prop_assert_eq!(&after[..window], &expected[..]);
            prop_assert_eq!(&after[window..], &before[window..]);
        }
    }
}
