//! The cut: from a ranking to the few tools that are returned.

mod cover;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

pub(crate) use cover::{Cover, POOL, static_vectors};

use crate::catalog::Catalog;
use crate::index::Twins;
use crate::provider::Detail;
use crate::ranking::{Candidate, Ranking, ToolId};

/// How the cut is made.
pub(crate) struct Cut<'a> {
    /// The most tools returned.
    pub(crate) max_candidates: usize,
    /// The most tools of one source; tools that must stay count, and stay anyway.
    pub(crate) max_per_source: Option<usize>,
    /// Sources whose tools are not counted.
    pub(crate) trusted_sources: &'a BTreeSet<String>,
    /// Tools that stay whatever their score.
    pub(crate) must: &'a BTreeSet<ToolId>,
    /// Tools that are returned beyond `max_candidates` and `max_per_source`, because they are in use.
    pub(crate) held: &'a BTreeSet<ToolId>,
    /// Tools that are returned beyond `max_candidates`, because something that is returned needs them.
    pub(crate) needed: &'a BTreeSet<ToolId>,
    /// Which tools are the same; `None` where each is returned for itself.
    pub(crate) twins: Option<&'a Twins>,
    /// What the parts of the request want; `None` where tools are returned by rank alone.
    pub(crate) cover: Option<Cover>,
}

/// What the cut left and took away.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Kept {
    /// The returned tools, best first.
    pub(crate) picks: Ranking,
    /// Tools that would have been returned, but for their source's share.
    pub(crate) over_source: Vec<ToolId>,
    /// Tools that must stay, but for whom there was no place.
    pub(crate) over_cutoff: Vec<ToolId>,
    /// Tools that would have been returned, were they not the same as one that is.
    pub(crate) twins: BTreeMap<ToolId, Vec<ToolId>>,
    /// Returned tools that others outrank, and the part of the request that each is returned for.
    pub(crate) covering: BTreeMap<ToolId, usize>,
    /// Tools that gave their places to those.
    pub(crate) covered: Vec<ToolId>,
    /// Returned tools that others require, and those.
    pub(crate) required: BTreeMap<ToolId, Vec<ToolId>>,
    /// Required tools that may not be seen, and what they are required as.
    pub(crate) refused: BTreeMap<ToolId, String>,
    /// Tools for which the token budget has no room.
    pub(crate) over_budget: Vec<ToolId>,
    /// How much of each tool is shown, and its tokens, where there is a budget.
    pub(crate) shown: BTreeMap<ToolId, (Detail, usize)>,
    /// Required tools beyond what a tool may bring along.
    pub(crate) over_required: BTreeSet<ToolId>,
}

/// Cuts `ranking`, which is in order, best first.
pub(crate) fn cut(ranking: &[Candidate], catalog: &Catalog, cut: Cut<'_>) -> Kept {
    let (held, others): (Vec<Candidate>, Vec<Candidate>) =
        ranking.iter().partition(|candidate| cut.held.contains(&candidate.tool));
    let (musts, others): (Vec<Candidate>, Vec<Candidate>) =
        others.into_iter().partition(|candidate| cut.must.contains(&candidate.tool));
    let (stay, leave) = musts.split_at(musts.len().min(cut.max_candidates));
    let mut places = Places::new(catalog, &cut);
    held.iter().for_each(|&candidate| places.keep(candidate));
    stay.iter().for_each(|&candidate| places.take(candidate));
    places.fill(others, held.len(), cut.max_candidates, cut.cover.clone());
    let mut kept = places.kept;
    let picked: BTreeSet<ToolId> = kept.picks.iter().map(|candidate| candidate.tool).collect();
    let brought = |tool: ToolId| cut.needed.contains(&tool) && !picked.contains(&tool);
    kept.picks.extend(ranking.iter().filter(|candidate| brought(candidate.tool)));
    kept.picks.sort_by(Candidate::better_first);
    let over_cutoff = leave.iter().map(|candidate| candidate.tool);
    kept.over_cutoff = over_cutoff.collect();
    for dropped in [&mut kept.over_source, &mut kept.over_cutoff, &mut kept.covered] {
        dropped.retain(|tool| !cut.needed.contains(tool));
    }
    kept
}

/// The places of a cut while they are filled.
struct Places<'a> {
    catalog: &'a Catalog,
    max_per_source: Option<usize>,
    trusted_sources: &'a BTreeSet<String>,
    needed: &'a BTreeSet<ToolId>,
    twins: Option<&'a Twins>,
    per_source: HashMap<Option<&'a str>, usize>,
    /// The returned tools by what they and their twins have in common.
    likeness: HashMap<ToolId, ToolId>,
    kept: Kept,
}

impl<'a> Places<'a> {
    fn new(catalog: &'a Catalog, cut: &Cut<'a>) -> Self {
        let &Cut { max_per_source, trusted_sources, needed, twins, .. } = cut;
        let (per_source, likeness, kept) = (HashMap::new(), HashMap::new(), Kept::default());
        Self { catalog, max_per_source, trusted_sources, needed, twins, per_source, likeness, kept }
    }

    /// Gives the tool a place.
    fn take(&mut self, candidate: Candidate) {
        let source = self.catalog.tool(candidate.tool).source.as_deref();
        if source.is_none_or(|source| !self.trusted_sources.contains(source)) {
            *self.per_source.entry(source).or_default() += 1;
        }
        self.keep(candidate);
    }

    /// Returns the tool without counting it.
    fn keep(&mut self, candidate: Candidate) {
        if let Some(likeness) = self.likeness_of(candidate.tool) {
            self.likeness.entry(likeness).or_insert(candidate.tool);
        }
        self.kept.picks.push(candidate);
    }

    fn likeness_of(&self, tool: ToolId) -> Option<ToolId> {
        self.twins.and_then(|twins| twins.of(tool))
    }

    /// Tells whether the tool is the same as one that has a place, and notes it.
    fn is_twin(&mut self, tool: ToolId) -> bool {
        let Some(&first) = self.likeness_of(tool).and_then(|likeness| self.likeness.get(&likeness)) else {
            return false;
        };
        if self.needed.contains(&tool) {
            return false;
        }
        self.kept.twins.entry(first).or_default().push(tool);
        true
    }

    /// Tells whether the tool's source has its share, and notes it.
    fn is_over_source(&mut self, tool: ToolId) -> bool {
        let source = self.catalog.tool(tool).source.as_deref();
        let taken = self.per_source.get(&source).copied().unwrap_or_default();
        let over = self.max_per_source.is_some_and(|most| taken >= most);
        if over {
            self.kept.over_source.push(tool);
        }
        over
    }

    /// Fills the places that are left beside the `held` tools. The best candidate always gets one; the others by what
    /// they add, where there is a `cover`, else by rank.
    fn fill(&mut self, candidates: Vec<Candidate>, held: usize, places: usize, mut cover: Option<Cover>) {
        let by_rank: Vec<ToolId> = candidates.iter().map(|candidate| candidate.tool).collect();
        let mut candidates = VecDeque::from(candidates);
        if let Some(cover) = &mut cover {
            self.kept.picks.iter().for_each(|candidate| cover.choose(candidate.tool));
        }
        let mut chosen_for = Vec::new();
        while self.kept.picks.len() < held + places {
            let next =
                cover.as_ref().filter(|_| self.kept.picks.len() > held).and_then(|cover| cover.next(&candidates));
            let Some(candidate) = candidates.remove(next.map_or(0, |(place, _)| place)) else { break };
            if self.is_twin(candidate.tool) || self.is_over_source(candidate.tool) {
                continue;
            }
            chosen_for.extend(next.map(|(_, part)| (candidate.tool, part)));
            if let Some(cover) = &mut cover {
                cover.choose(candidate.tool);
            }
            self.take(candidate);
        }
        if !chosen_for.is_empty() {
            self.note_covering(&by_rank, &chosen_for);
        }
    }

    /// Notes which tools have their places for a part of the request, and which gave theirs.
    fn note_covering(&mut self, by_rank: &[ToolId], chosen_for: &[(ToolId, usize)]) {
        let twins = self.kept.twins.values().flatten();
        let refused: BTreeSet<ToolId> = twins.chain(&self.kept.over_source).copied().collect();
        let stands = |tool: &&ToolId| !refused.contains(tool);
        let picked: BTreeSet<ToolId> = self.kept.picks.iter().map(|candidate| candidate.tool).collect();
        let given = by_rank.iter().filter(|tool| picked.contains(tool)).count();
        let best: BTreeSet<ToolId> = by_rank.iter().filter(stands).take(given).copied().collect();
        self.kept.covered =
            by_rank.iter().filter(|tool| best.contains(tool) && !picked.contains(tool)).copied().collect();
        self.kept.covering = chosen_for.iter().filter(|(tool, _)| !best.contains(tool)).copied().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Tool;

    fn run(
        max_candidates: usize,
        max_per_source: Option<usize>,
        must: &[usize],
        needed: &[usize],
        held: &[usize],
    ) -> (Vec<usize>, Vec<usize>, Vec<usize>) {
        let tools = ["a", "a", "a", "b", "b"].iter().enumerate().map(|(i, source)| {
            let mut tool = Tool::new(format!("t{i}"), "");
            tool.source = Some((*source).into());
            tool.id = tool.qualified_name();
            tool
        });
        let catalog = Catalog::from_tools(tools).expect("valid");
        let ranking: Ranking = catalog.ids().map(|tool| Candidate { tool, score: 5.0 - tool.index() as f32 }).collect();
        let tools = |indices: &[usize]| indices.iter().map(|&index| ToolId::from_index(index)).collect();
        let (must, needed, held) = (&tools(must), &tools(needed), &tools(held));
        let trusted_sources = &["b".to_owned()].into();
        let (twins, cover) = (None, None);
        let kept = cut(
            &ranking,
            &catalog,
            Cut { max_candidates, max_per_source, trusted_sources, must, held, needed, twins, cover },
        );
        let index = |ids: Vec<ToolId>| ids.into_iter().map(ToolId::index).collect();
        (kept.picks.iter().map(|c| c.tool.index()).collect(), index(kept.over_source), index(kept.over_cutoff))
    }

    #[test]
    fn the_cut_keeps_the_best() {
        assert_eq!(run(2, None, &[], &[], &[]), (vec![0, 1], vec![], vec![]));
        assert_eq!(run(9, None, &[], &[], &[]), (vec![0, 1, 2, 3, 4], vec![], vec![]));
    }

    #[test]
    fn a_source_gets_no_more_than_its_share() {
        assert_eq!(run(3, Some(1), &[], &[], &[]), (vec![0, 3, 4], vec![1, 2], vec![]));
    }

    #[test]
    fn tools_that_must_stay_do_and_surplus_ones_are_told() {
        assert_eq!(run(2, None, &[4], &[], &[]), (vec![0, 4], vec![], vec![]));
        assert_eq!(run(2, None, &[4, 3, 2], &[], &[]), (vec![2, 3], vec![], vec![4]));
        assert_eq!(run(3, Some(1), &[2], &[], &[]), (vec![2, 3, 4], vec![0, 1], vec![]));
    }

    #[test]
    fn needed_tools_come_on_top_and_are_never_told_as_dropped() {
        assert_eq!(run(2, None, &[], &[3, 4], &[]), (vec![0, 1, 3, 4], vec![], vec![]));
        assert_eq!(run(2, None, &[], &[0], &[]), (vec![0, 1], vec![], vec![]), "it has a place already");
        assert_eq!(run(1, Some(1), &[], &[1], &[]), (vec![0, 1], vec![], vec![]));
        assert_eq!(run(3, Some(1), &[], &[1], &[]), (vec![0, 1, 3, 4], vec![2], vec![]));
        assert_eq!(run(1, None, &[3, 4], &[4], &[]), (vec![3, 4], vec![], vec![]));
    }

    #[test]
    fn tools_in_use_take_no_place_and_no_share_of_their_source() {
        assert_eq!(run(2, None, &[], &[], &[0, 4]), (vec![0, 1, 2, 4], vec![], vec![]));
        assert_eq!(run(1, Some(1), &[], &[], &[0, 1]), (vec![0, 1, 2], vec![], vec![]));
        assert_eq!(run(1, None, &[0, 3], &[0], &[0]), (vec![0, 3], vec![], vec![]), "named, needed and in use");
    }
}
