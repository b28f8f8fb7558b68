//! The cut: from a ranking to the few tools that are returned.

mod cover;
mod decision;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use foldhash::{HashMap, HashMapExt};

pub(crate) use cover::{Cover, POOL, static_vectors};
pub(crate) use decision::{Decision, Fate, Picked, Refused, picks, put_in_order};

use crate::catalog::Catalog;
use crate::index::Twins;
use crate::ranking::{Candidate, ToolId};

/// How the cut is made.
pub(crate) struct Cut<'a> {
    /// The most tools returned.
    pub(crate) max_candidates: usize,
    /// The most tools of one source; tools that must stay count, and stay anyway.
    pub(crate) max_per_source: Option<usize>,
    /// Sources whose tools are not counted.
    pub(crate) trusted_sources: &'a HashSet<&'a str>,
    /// Tools that stay whatever their score.
    pub(crate) must: &'a BTreeSet<ToolId>,
    /// Tools that are returned beyond `max_candidates` and `max_per_source`, because they are in
    /// use.
    pub(crate) held: &'a BTreeSet<ToolId>,
    /// Tools that are returned beyond `max_candidates`, because something that is returned needs
    /// them.
    pub(crate) needed: &'a BTreeSet<ToolId>,
    /// Which tools are the same; `None` where each is returned for itself.
    pub(crate) twins: Option<&'a Twins>,
    /// The tools that are candidates for a part of the request alone.
    pub(crate) for_part: &'a BTreeMap<ToolId, usize>,
    /// What the parts of the request want; `None` where tools are returned by rank alone.
    pub(crate) cover: Option<Cover>,
}

/// Cuts `ranking`, which is in order, best first.
pub(crate) fn cut(ranking: &[Candidate], catalog: &Catalog, cut: Cut<'_>) -> Vec<Decision> {
    let (held, others): (Vec<Candidate>, Vec<Candidate>) = ranking
        .iter()
        .partition(|candidate| cut.held.contains(&candidate.tool));
    let (musts, others): (Vec<Candidate>, Vec<Candidate>) = others
        .into_iter()
        .partition(|candidate| cut.must.contains(&candidate.tool));
    let (stay, leave) = musts.split_at(musts.len().min(cut.max_candidates));
    let mut places = Places::new(catalog, &cut);
    held.iter().for_each(|&candidate| places.keep(candidate));
    stay.iter().for_each(|&candidate| places.take(candidate));
    places.fill(others, held.len(), cut.max_candidates, cut.cover.clone());
    let mut decisions = places.decisions;
    decisions.extend(leave.iter().map(|candidate| Decision {
        tool: candidate.tool,
        fate: Fate::OverCutoff,
    }));
    decisions.retain(|decision| !decision.lost_its_place() || !cut.needed.contains(&decision.tool));
    let picked: BTreeSet<ToolId> = picks(&decisions).map(|(tool, _)| tool).collect();
    let brought = |tool: ToolId| cut.needed.contains(&tool) && !picked.contains(&tool);
    decisions.extend(
        ranking
            .iter()
            .filter(|candidate| brought(candidate.tool))
            .copied()
            .map(Decision::pick),
    );
    put_in_order(&mut decisions);
    decisions
}

/// The places of a cut while they are filled.
struct Places<'a> {
    catalog: &'a Catalog,
    max_per_source: Option<usize>,
    trusted_sources: &'a HashSet<&'a str>,
    needed: &'a BTreeSet<ToolId>,
    for_part: &'a BTreeMap<ToolId, usize>,
    twins: Option<&'a Twins>,
    /// How many of each source's look.
    per_source: HashMap<Option<&'a str>, usize>,
    /// The returned tools by what they and their twins have in common.
    likeness: HashMap<ToolId, ToolId>,
    /// How many tools are returned so far.
    filled: usize,
    decisions: Vec<Decision>,
}

impl<'a> Places<'a> {
    fn new(catalog: &'a Catalog, cut: &Cut<'a>) -> Self {
        let &Cut {
            max_per_source,
            trusted_sources,
            needed,
            for_part,
            twins,
            ..
        } = cut;
        Self {
            catalog,
            max_per_source,
            trusted_sources,
            needed,
            for_part,
            twins,
            per_source: HashMap::new(),
            likeness: HashMap::new(),
            filled: 0,
            decisions: Vec::new(),
        }
    }

    /// Gives the tool a place.
    fn take(&mut self, candidate: Candidate) {
        let source = self.catalog.source(candidate.tool);
        if source.is_none_or(|source| !self.trusted_sources.contains(source)) {
            *self
                .per_source
                .entry(self.catalog.sources().look_of(source))
                .or_default() += 1;
        }
        self.keep(candidate);
    }

    /// Returns the tool without counting it.
    fn keep(&mut self, candidate: Candidate) {
        if let Some(likeness) = self.likeness_of(candidate.tool) {
            self.likeness.entry(likeness).or_insert(candidate.tool);
        }
        self.filled += 1;
        self.decisions.push(Decision::pick(candidate));
    }

    fn likeness_of(&self, tool: ToolId) -> Option<ToolId> {
        self.twins.and_then(|twins| twins.of(tool))
    }

    /// Returns `true` if the tool is the same as one that has a place, and notes it.
    fn is_twin(&mut self, tool: ToolId) -> bool {
        let Some(&first) = self
            .likeness_of(tool)
            .and_then(|likeness| self.likeness.get(&likeness))
        else {
            return false;
        };
        if self.needed.contains(&tool) {
            return false;
        }
        self.decisions.push(Decision {
            tool,
            fate: Fate::SameAs(first),
        });
        true
    }

    /// Returns `true` if the tool's source has its share, and notes it.
    fn is_over_source(&mut self, tool: ToolId) -> bool {
        let source = self.catalog.source(tool);
        let is_trusted = source.is_some_and(|source| self.trusted_sources.contains(source));
        let taken = self
            .per_source
            .get(&self.catalog.sources().look_of(source))
            .copied()
            .unwrap_or_default();
        let over = self
            .max_per_source
            .is_some_and(|most| !is_trusted && taken >= most);
        if over {
            self.decisions.push(Decision {
                tool,
                fate: Fate::OverSource,
            });
        }
        over
    }

    /// Fills the places that are left beside the `held` tools. The best candidate always gets one;
    /// the others by what they add, where there is a `cover`, else by rank.
    fn fill(
        &mut self,
        candidates: Vec<Candidate>,
        held: usize,
        places: usize,
        mut cover: Option<Cover>,
    ) {
        let by_rank: Vec<ToolId> = candidates.iter().map(|candidate| candidate.tool).collect();
        let mut candidates = VecDeque::from(candidates);
        if let Some(cover) = &mut cover {
            picks(&self.decisions).for_each(|(tool, _)| cover.choose(tool));
        }
        let mut chosen_for: Vec<(ToolId, usize)> = self
            .for_part
            .iter()
            .map(|(&tool, &part)| (tool, part))
            .collect();
        while self.filled < held + places {
            let next = cover
                .as_ref()
                .filter(|_| self.filled > held)
                .and_then(|cover| cover.next(&candidates));
            let Some(candidate) = candidates.remove(next.map_or(0, |(place, _)| place)) else {
                break;
            };
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
        let (mut picked, mut refused) = (BTreeSet::new(), BTreeSet::new());
        for Decision { tool, fate } in &self.decisions {
            if matches!(fate, Fate::Picked(_)) {
                picked.insert(*tool)
            } else {
                refused.insert(*tool)
            };
        }
        let stands = |tool: &&ToolId| !refused.contains(tool) && !self.for_part.contains_key(tool);
        let given = by_rank.iter().filter(|tool| picked.contains(tool)).count();
        let best: BTreeSet<ToolId> = by_rank.iter().filter(stands).take(given).copied().collect();
        for decision in &mut self.decisions {
            let part = chosen_for
                .iter()
                .find(|(tool, _)| *tool == decision.tool && !best.contains(tool));
            if let (Some(picked), Some(&(_, part))) = (decision.picked_mut(), part) {
                picked.covers = Some(part);
            }
        }
        let covered = by_rank
            .iter()
            .filter(|tool| best.contains(tool) && !picked.contains(tool));
        self.decisions.extend(covered.map(|&tool| Decision {
            tool,
            fate: Fate::Covered,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Tool;
    use crate::ranking::Ranking;

    fn run(
        max_candidates: usize,
        max_per_source: Option<usize>,
        must: &[usize],
        needed: &[usize],
        held: &[usize],
    ) -> (Vec<usize>, Vec<usize>, Vec<usize>) {
        let tools = ["a", "a", "a", "b", "b"]
            .iter()
            .enumerate()
            .map(|(i, source)| {
                let mut tool = Tool::without_arguments(format!("t{i}"), "");
                tool.source = Some((*source).into());
                tool.id = tool.qualified_name();
                tool
            });
        let catalog = Catalog::from_tools(tools).expect("valid");
        let ranking: Ranking = catalog
            .ids()
            .map(|tool| Candidate {
                tool,
                score: 5.0 - tool.index() as f32,
            })
            .collect();
        let tools = |indices: &[usize]| {
            indices
                .iter()
                .map(|&index| ToolId::from_index(index))
                .collect()
        };
        let (must, needed, held) = (&tools(must), &tools(needed), &tools(held));
        let trusted_sources = &["b"].into();
        let (for_part, twins, cover) = (&BTreeMap::new(), None, None);
        let decisions = cut(
            &ranking,
            &catalog,
            Cut {
                max_candidates,
                max_per_source,
                trusted_sources,
                must,
                held,
                needed,
                for_part,
                twins,
                cover,
            },
        );
        let of = |wanted: fn(&Fate) -> bool| {
            decisions
                .iter()
                .filter(|decision| wanted(&decision.fate))
                .map(|decision| decision.tool.index())
                .collect()
        };
        (
            of(|fate| matches!(fate, Fate::Picked(_))),
            of(|fate| *fate == Fate::OverSource),
            of(|fate| *fate == Fate::OverCutoff),
        )
    }

    #[test]
    fn the_cut_keeps_the_best() {
        assert_eq!(run(2, None, &[], &[], &[]), (vec![0, 1], vec![], vec![]));
        assert_eq!(
            run(9, None, &[], &[], &[]),
            (vec![0, 1, 2, 3, 4], vec![], vec![])
        );
    }

    #[test]
    fn a_source_gets_no_more_than_its_share() {
        assert_eq!(
            run(3, Some(1), &[], &[], &[]),
            (vec![0, 3, 4], vec![1, 2], vec![])
        );
    }

    #[test]
    fn tools_that_must_stay_do_and_surplus_ones_are_told() {
        assert_eq!(run(2, None, &[4], &[], &[]), (vec![0, 4], vec![], vec![]));
        assert_eq!(
            run(2, None, &[4, 3, 2], &[], &[]),
            (vec![2, 3], vec![], vec![4])
        );
        assert_eq!(
            run(3, Some(1), &[2], &[], &[]),
            (vec![2, 3, 4], vec![0, 1], vec![])
        );
    }

    #[test]
    fn needed_tools_come_on_top_and_are_never_told_as_dropped() {
        assert_eq!(
            run(2, None, &[], &[3, 4], &[]),
            (vec![0, 1, 3, 4], vec![], vec![])
        );
        assert_eq!(
            run(2, None, &[], &[0], &[]),
            (vec![0, 1], vec![], vec![]),
            "it has a place already"
        );
        assert_eq!(
            run(1, Some(1), &[], &[1], &[]),
            (vec![0, 1], vec![], vec![])
        );
        assert_eq!(
            run(3, Some(1), &[], &[1], &[]),
            (vec![0, 1, 3, 4], vec![2], vec![])
        );
        assert_eq!(
            run(1, None, &[3, 4], &[4], &[]),
            (vec![3, 4], vec![], vec![])
        );
    }

    #[test]
    fn tools_in_use_take_no_place_and_no_share_of_their_source() {
        assert_eq!(
            run(2, None, &[], &[], &[0, 4]),
            (vec![0, 1, 2, 4], vec![], vec![])
        );
        assert_eq!(
            run(1, Some(1), &[], &[], &[0, 1]),
            (vec![0, 1, 2], vec![], vec![])
        );
        assert_eq!(
            run(1, None, &[0, 3], &[0], &[0]),
            (vec![0, 3], vec![], vec![]),
            "named, needed and in use"
        );
    }
}
