//! `min_score`: which of the ranked tools are candidates, and how many of them are put in order.

use std::collections::BTreeSet;

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
    /// The parts of the request that the picks are to cover; empty where there is no choice between them.
    pub(super) parts: Vec<&'q str>,
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
    fn new(request: &Request<'_>, ranked: &Ranked) -> Self {
        let ranks = |mut tools: BTreeSet<ToolId>| {
            tools.retain(|&tool| ranked.ranks(tool));
            tools
        };
        Self { musts: ranks(request.musts()), held: ranks(request.held()), needed: ranks(request.brought()) }
    }

    fn all(&self) -> BTreeSet<ToolId> {
        self.musts.iter().chain(&self.held).chain(&self.needed).copied().collect()
    }
}

impl<'q> Candidates<'q> {
    /// Applies `min_score`, and puts at least `window` candidates in order.
    pub(super) fn new(request: &Request<'q>, ranked: &Ranked, window: usize, report: &mut Report) -> Self {
        let stay = Stay::new(request, ranked);
        let staying = stay.all();
        let all = above(request, ranked, &staying);
        match ranked {
            Ranked::Registration { .. } => report.skipped(Stage::MinScore, "there are no scores"),
            Ranked::Fused { .. } | Ranked::Custom { .. } => report.ran(Stage::MinScore),
        }
        let parts = parts(request, ranked);
        let pool = if parts.is_empty() { 0 } else { POOL };
        let twins = twins(request).map_or(0, Twins::len);
        let depth = depth(request.options, staying.len()).max(pool).saturating_add(twins).max(window);
        let ranking = top_k(all.iter().copied(), depth);
        let below_threshold = request.eligibility.admitted_count() - ranked.errors().len() - all.len();
        Self { ranking, all, below_threshold, stay, parts }
    }

    /// Returns how many eligible tools are neither candidates nor required by picks.
    pub(super) fn below_threshold(&self, decisions: &[Decision]) -> usize {
        let mut required: BTreeSet<ToolId> = decisions.iter().filter_map(Decision::required).collect();
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
fn above(request: &Request<'_>, ranked: &Ranked, staying: &BTreeSet<ToolId>) -> Vec<Candidate> {
    let least = ranked.value_at(request.options.min_score);
    let mut candidates: Vec<Candidate> = ranked
        .candidates(&request.eligibility)
        .filter(|&candidate| ranked.reaches(candidate, least) || staying.contains(&candidate.tool))
        .collect();
    let found: BTreeSet<ToolId> =
        candidates.iter().map(|candidate| candidate.tool).filter(|tool| staying.contains(tool)).collect();
    candidates.extend(staying.difference(&found).map(|&tool| ranked.candidate(tool)));
    candidates
}

/// The parts of the request, where there are several, and the picks are to cover them.
fn parts<'q>(request: &Request<'q>, ranked: &Ranked) -> Vec<&'q str> {
    let Ranked::Fused { fused, .. } = ranked else { return Vec::new() };
    if request.options.choice != Choice::Set || request.options.max_candidates < 2 || fused.quick_weights().is_empty() {
        return Vec::new();
    }
    let parts = request.query.clauses();
    if parts.len() < 2 { Vec::new() } else { parts }
}

/// How many candidates are put in order; all of them where the cut may reach far down.
fn depth(options: &PickOptions, staying: usize) -> usize {
    if staying > 0 || options.max_per_source.is_some() {
        return usize::MAX;
    }
    options.max_candidates.max(if options.debug { MAX_CONSIDERED } else { 0 })
}
