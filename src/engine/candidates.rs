//! `min_score`: which of the ranked tools are candidates, and how many of them are put in order. A
//! tool is one by its score for the whole request, or as the good tool of a part.

use std::collections::{BTreeMap, BTreeSet};

use super::parts::Part;
use super::ranked::Ranked;
use super::report::Report;
use super::request::Request;
use crate::index::Twins;
use crate::options::{Choice, PickOptions};
use crate::ranking::{Candidate, Ranking, ToolId, top_k};
use crate::select::{Decision, POOL};
use crate::selection::Stage;

/// How many candidates an outcome shows the evidence of, beside the picked ones.
pub(super) const MAX_CONSIDERED: usize = 100;

/// The tools that may be picked.
pub(super) struct Candidates<'q> {
    /// Those that later stages may reach, best first.
    pub(super) ranking: Ranking,
    /// All of them, in no order.
    all: Vec<Candidate>,
    /// How many eligible tools are not candidates.
    below_threshold: usize,
    pub(super) stay: Stay,
    /// The parts of the request that the picks are to cover; none where it has one.
    pub(super) parts: Vec<Part<'q>>,
    /// The good tools of parts, best first by part.
    pub(super) good: Vec<(ToolId, usize)>,
    /// The tools that are candidates for a part alone.
    pub(super) for_part: BTreeMap<ToolId, usize>,
    /// Whether a reranker has decided on the order.
    pub(super) reranked: bool,
}

/// Tools that stay whatever their score.
pub(super) struct Stay {
    /// Because they are named or always included.
    pub(super) musts: BTreeSet<ToolId>,
    /// Because they are in use.
    pub(super) held: BTreeSet<ToolId>,
    /// Because picked skills need them.
    pub(super) needed: BTreeSet<ToolId>,
}

impl Stay {
    fn new(request: &Request<'_>, ranked: &Ranked<'_>) -> Self {
        let ranks = |mut tools: BTreeSet<ToolId>| {
            tools.retain(|&tool| ranked.ranks(tool));
            tools
        };
        Self {
            musts: ranks(request.musts()),
            held: ranks(request.held()),
            needed: ranks(request.brought()),
        }
    }

    fn all(&self) -> BTreeSet<ToolId> {
        self.musts
            .iter()
            .chain(&self.held)
            .chain(&self.needed)
            .copied()
            .collect()
    }
}

impl<'q> Candidates<'q> {
    /// Applies `min_score`, and puts at least `window` candidates in order.
    pub(super) fn new(
        request: &Request<'q>,
        ranked: &Ranked<'_>,
        parts: Vec<Part<'q>>,
        window: usize,
        report: &mut Report,
    ) -> Self {
        let stay = Stay::new(request, ranked);
        let staying = stay.all();
        let mut all = above(request, ranked, &staying);
        match ranked {
            Ranked::Registration { .. } => report.skipped(Stage::MinScore, "there are no scores"),
            Ranked::Fused { .. } | Ranked::Custom(_) => report.ran(Stage::MinScore),
        }
        let pool = if parts.is_empty() { 0 } else { POOL };
        let twins = twins(request).map_or(0, Twins::len);
        let depth = depth(request.options, staying.len())
            .max(pool)
            .saturating_add(twins)
            .max(window);
        let mut ranking = top_k(all.iter().copied(), depth);
        let good = good(&parts, request.options.min_score);
        let for_part = for_part(&good, ranked, request, &staying);
        all.extend(for_part.keys().map(|&tool| ranked.candidate(tool)));
        // The good tools of parts may be chosen wherever they stand.
        let placed: BTreeSet<ToolId> = ranking.iter().map(|candidate| candidate.tool).collect();
        let behind = good
            .iter()
            .filter(|(tool, _)| !placed.contains(tool))
            .map(|&(tool, _)| ranked.candidate(tool));
        ranking.extend(top_k(behind, usize::MAX));
        let unranked = staying
            .iter()
            .filter(|&&tool| !request.rankable().admits(tool))
            .count();
        let below_threshold =
            request.rankable().admitted_count() + unranked - ranked.errors().len() - all.len();
        Self {
            ranking,
            all,
            below_threshold,
            stay,
            parts,
            good,
            for_part,
            reranked: false,
        }
    }

    /// Returns how many eligible tools are neither candidates nor required by picks.
    pub(super) fn below_threshold(&self, request: &Request<'_>, decisions: &[Decision]) -> usize {
        let required = decisions.iter().filter_map(Decision::required);
        let mut required: BTreeSet<ToolId> = required
            .filter(|&tool| request.rankable().admits(tool))
            .collect();
        if !required.is_empty() {
            for candidate in &self.all {
                required.remove(&candidate.tool);
            }
        }
        self.below_threshold - required.len()
    }
}

/// Which tools are the same, where that matters.
pub(super) fn twins<'a>(request: &Request<'a>) -> Option<&'a Twins> {
    Some(&request.index.twins).filter(|_| request.options.choice == Choice::Set)
}

/// The tools that score enough, and those that stay, whether or not anything ranked them.
fn above(request: &Request<'_>, ranked: &Ranked<'_>, staying: &BTreeSet<ToolId>) -> Vec<Candidate> {
    let mut candidates = ranked.reaching(
        request.rankable(),
        ranked.value_at(request.options.min_score),
    );
    if !staying.is_empty() {
        let mut others = staying.clone();
        others.retain(|&tool| candidates.iter().all(|candidate| candidate.tool != tool));
        candidates.extend(others.into_iter().map(|tool| ranked.candidate(tool)));
    }
    candidates
}

/// The good tools of the parts, each with the first part that it is good for; those of the
/// best-served parts first.
fn good(parts: &[Part<'_>], min_score: f32) -> Vec<(ToolId, usize)> {
    let best = parts
        .iter()
        .enumerate()
        .filter_map(|(part, asked)| Some((asked.good(min_score)?, part)));
    let mut good: Vec<(ToolId, usize)> = Vec::new();
    for (tool, part) in best {
        if good.iter().all(|(known, _)| *known != tool) {
            good.push((tool, part));
        }
    }
    let score = |&(tool, part): &(ToolId, usize)| parts[part].fused.score_of(tool);
    good.sort_by(|a, b| score(b).total_cmp(&score(a)));
    good
}

/// Those of the good tools that are no candidates by their score for the whole request.
fn for_part(
    good: &[(ToolId, usize)],
    ranked: &Ranked<'_>,
    request: &Request<'_>,
    staying: &BTreeSet<ToolId>,
) -> BTreeMap<ToolId, usize> {
    let least = ranked.value_at(request.options.min_score);
    let is_candidate =
        |tool: ToolId| staying.contains(&tool) || ranked.reaches(ranked.candidate(tool), least);
    good.iter()
        .copied()
        .filter(|&(tool, _)| !is_candidate(tool))
        .collect()
}

/// How many candidates are put in order; all of them where the cut may reach far down.
fn depth(options: &PickOptions, staying: usize) -> usize {
    if staying > 0 || options.max_per_source.is_some() {
        return usize::MAX;
    }
    options
        .max_candidates
        .max(if options.debug { MAX_CONSIDERED } else { 0 })
}
