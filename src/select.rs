//! The cut: from a ranking to the few tools that are returned.

mod cover;
mod decision;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use foldhash::{HashMap, HashMapExt};

pub(crate) use cover::{Cover, POOL, static_vectors};
pub(crate) use decision::{
    CutOutcome, Decision, IneligibleRequirement, PickDetails, picks, put_in_order,
};

use crate::catalog::Catalog;
use crate::index::DuplicateGroups;
use crate::ranking::{Candidate, ToolId};

/// The limits and evidence of a cut.
pub(crate) struct CutLimits<'a> {
    /// The largest number of picks.
    pub(crate) max_candidates: usize,
    /// The largest number of picks from one source. Mandatory tools count, but are picked anyway.
    pub(crate) max_per_source: Option<usize>,
    /// Sources that `max_per_source` does not limit.
    pub(crate) trusted_sources: &'a HashSet<&'a str>,
    /// Mandatory tools, which are picked with any score.
    pub(crate) mandatory: &'a BTreeSet<ToolId>,
    /// Tools in use, which are picked beyond `max_candidates` and `max_per_source`.
    pub(crate) in_use: &'a BTreeSet<ToolId>,
    /// Tools of picked skills, which are picked beyond `max_candidates`.
    pub(crate) skill_tools: &'a BTreeSet<ToolId>,
    /// The duplicates of the catalog. If `None`, duplicates are picked like other tools.
    pub(crate) duplicates: Option<&'a DuplicateGroups>,
    /// The tools that are candidates for one subquery only, with its position.
    pub(crate) for_subquery: &'a BTreeMap<ToolId, usize>,
    /// The coverage of the subqueries. If `None`, tools are picked by rank alone.
    pub(crate) cover: Option<Cover>,
}

/// Chooses the picks from `ranking`, whose best candidate comes first.
pub(crate) fn cut(
    ranking: &[Candidate],
    catalog: &Catalog,
    limits: CutLimits<'_>,
) -> Vec<Decision> {
    let (in_use, others): (Vec<Candidate>, Vec<Candidate>) = ranking
        .iter()
        .partition(|candidate| limits.in_use.contains(&candidate.tool));
    let (mandatory, others): (Vec<Candidate>, Vec<Candidate>) = others
        .into_iter()
        .partition(|candidate| limits.mandatory.contains(&candidate.tool));
    let (kept_mandatory, surplus) = mandatory.split_at(mandatory.len().min(limits.max_candidates));
    let mut slots = PickSlots::new(catalog, &limits);
    for &candidate in &in_use {
        slots.pick_uncounted(candidate);
    }
    for &candidate in kept_mandatory {
        slots.pick(candidate);
    }
    slots.fill(
        others,
        in_use.len(),
        limits.max_candidates,
        limits.cover.clone(),
    );
    let mut decisions = slots.decisions;
    for candidate in surplus {
        decisions.push(Decision {
            tool: candidate.tool,
            outcome: CutOutcome::OverCutoff,
        });
    }
    decisions.retain(|decision| {
        !decision.lost_its_place() || !limits.skill_tools.contains(&decision.tool)
    });
    let picked: BTreeSet<ToolId> = picks(&decisions).map(|(tool, _)| tool).collect();
    for &candidate in ranking {
        if limits.skill_tools.contains(&candidate.tool) && !picked.contains(&candidate.tool) {
            decisions.push(Decision::pick(candidate));
        }
    }
    put_in_order(&mut decisions);
    decisions
}

/// The picks of a cut while it runs.
struct PickSlots<'a> {
    catalog: &'a Catalog,
    max_per_source: Option<usize>,
    trusted_sources: &'a HashSet<&'a str>,
    skill_tools: &'a BTreeSet<ToolId>,
    for_subquery: &'a BTreeMap<ToolId, usize>,
    duplicates: Option<&'a DuplicateGroups>,
    /// The number of picks by the common form of confusable source names.
    per_source: HashMap<Option<&'a str>, usize>,
    /// The picked tool for each group of duplicates.
    picked_of_group: HashMap<ToolId, ToolId>,
    /// The number of picks so far.
    pick_count: usize,
    decisions: Vec<Decision>,
}

impl<'a> PickSlots<'a> {
    fn new(catalog: &'a Catalog, limits: &CutLimits<'a>) -> Self {
        let &CutLimits {
            max_per_source,
            trusted_sources,
            skill_tools,
            for_subquery,
            duplicates,
            ..
        } = limits;
        Self {
            catalog,
            max_per_source,
            trusted_sources,
            skill_tools,
            for_subquery,
            duplicates,
            per_source: HashMap::new(),
            picked_of_group: HashMap::new(),
            pick_count: 0,
            decisions: Vec::new(),
        }
    }

    /// Picks a tool and counts it for its source.
    fn pick(&mut self, candidate: Candidate) {
        let source = self.catalog.source(candidate.tool);
        if source.is_none_or(|source| !self.trusted_sources.contains(source)) {
            *self
                .per_source
                .entry(self.catalog.sources().skeleton(source))
                .or_default() += 1;
        }
        self.pick_uncounted(candidate);
    }

    /// Picks a tool without counting it for its source.
    fn pick_uncounted(&mut self, candidate: Candidate) {
        if let Some(group) = self.duplicate_group(candidate.tool) {
            self.picked_of_group.entry(group).or_insert(candidate.tool);
        }
        self.pick_count += 1;
        self.decisions.push(Decision::pick(candidate));
    }

    fn duplicate_group(&self, tool: ToolId) -> Option<ToolId> {
        self.duplicates?.group(tool)
    }

    /// Returns `true` and records a decision if the tool duplicates a pick.
    fn is_duplicate(&mut self, tool: ToolId) -> bool {
        let Some(group) = self.duplicate_group(tool) else {
            return false;
        };
        let Some(&first) = self.picked_of_group.get(&group) else {
            return false;
        };
        if self.skill_tools.contains(&tool) {
            return false;
        }
        self.decisions.push(Decision {
            tool,
            outcome: CutOutcome::SameAs(first),
        });
        true
    }

    /// Returns `true` and records a decision if the tool's source has reached its limit.
    fn is_over_source(&mut self, tool: ToolId) -> bool {
        let source = self.catalog.source(tool);
        let is_trusted = source.is_some_and(|source| self.trusted_sources.contains(source));
        let count = self
            .per_source
            .get(&self.catalog.sources().skeleton(source))
            .copied()
            .unwrap_or_default();
        let is_over = self
            .max_per_source
            .is_some_and(|most| !is_trusted && count >= most);
        if is_over {
            self.decisions.push(Decision {
                tool,
                outcome: CutOutcome::OverSource,
            });
        }
        is_over
    }

    /// Fills the places that are left after the `tools_in_use`. The best candidate always gets one.
    /// The others are chosen by what they add to `cover`, or by rank without one.
    fn fill(
        &mut self,
        candidates: Vec<Candidate>,
        tools_in_use: usize,
        max_candidates: usize,
        mut cover: Option<Cover>,
    ) {
        let by_rank: Vec<ToolId> = candidates.iter().map(|candidate| candidate.tool).collect();
        let mut candidates = VecDeque::from(candidates);
        if let Some(cover) = &mut cover {
            for (tool, _) in picks(&self.decisions) {
                cover.choose(tool);
            }
        }
        let mut chosen_for: Vec<(ToolId, usize)> = Vec::with_capacity(self.for_subquery.len());
        for (&tool, &part) in self.for_subquery {
            chosen_for.push((tool, part));
        }
        while self.pick_count < tools_in_use + max_candidates {
            let mut next = None;
            if let Some(cover) = &cover
                && self.pick_count > tools_in_use
            {
                next = cover.next(&candidates);
            }
            let position = next.as_ref().map_or(0, |next| next.position);
            let Some(candidate) = candidates.remove(position) else {
                break;
            };
            if self.is_duplicate(candidate.tool) || self.is_over_source(candidate.tool) {
                continue;
            }
            if let Some(subquery) = next.and_then(|next| next.subquery) {
                chosen_for.push((candidate.tool, subquery));
            }
            if let Some(cover) = &mut cover {
                cover.choose(candidate.tool);
            }
            self.pick(candidate);
        }
        if !chosen_for.is_empty() {
            self.record_coverage(&by_rank, &chosen_for);
        }
    }

    /// Records which tools were picked for a subquery, and which lost their place to them.
    fn record_coverage(&mut self, by_rank: &[ToolId], chosen_for: &[(ToolId, usize)]) {
        let (mut picked, mut excluded) = (BTreeSet::new(), BTreeSet::new());
        for Decision { tool, outcome } in &self.decisions {
            if matches!(outcome, CutOutcome::Picked(_)) {
                picked.insert(*tool)
            } else {
                excluded.insert(*tool)
            };
        }
        let competes =
            |tool: &&ToolId| !excluded.contains(tool) && !self.for_subquery.contains_key(tool);
        let place_count = by_rank.iter().filter(|tool| picked.contains(tool)).count();
        let best: BTreeSet<ToolId> = by_rank
            .iter()
            .filter(competes)
            .take(place_count)
            .copied()
            .collect();
        for decision in &mut self.decisions {
            let part = chosen_for
                .iter()
                .find(|(tool, _)| *tool == decision.tool && !best.contains(tool));
            if let (Some(picked), Some(&(_, part))) = (decision.picked_mut(), part) {
                picked.covers = Some(part);
            }
        }
        for &tool in by_rank {
            if best.contains(&tool) && !picked.contains(&tool) {
                self.decisions.push(Decision {
                    tool,
                    outcome: CutOutcome::Covered,
                });
            }
        }
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
        mandatory: &[usize],
        skill_tools: &[usize],
        in_use: &[usize],
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
        let (mandatory, skill_tools, in_use) =
            (&tools(mandatory), &tools(skill_tools), &tools(in_use));
        let trusted_sources = &["b"].into();
        let (for_subquery, duplicates, cover) = (&BTreeMap::new(), None, None);
        let decisions = cut(
            &ranking,
            &catalog,
            CutLimits {
                max_candidates,
                max_per_source,
                trusted_sources,
                mandatory,
                in_use,
                skill_tools,
                for_subquery,
                duplicates,
                cover,
            },
        );
        let tools_with = |is_outcome: fn(&CutOutcome) -> bool| {
            decisions
                .iter()
                .filter(|decision| is_outcome(&decision.outcome))
                .map(|decision| decision.tool.index())
                .collect()
        };
        (
            tools_with(|outcome| matches!(outcome, CutOutcome::Picked(_))),
            tools_with(|outcome| *outcome == CutOutcome::OverSource),
            tools_with(|outcome| *outcome == CutOutcome::OverCutoff),
        )
    }

    #[test]
    fn cut_without_limits_keeps_the_best() {
        assert_eq!(run(2, None, &[], &[], &[]), (vec![0, 1], vec![], vec![]));
        assert_eq!(
            run(9, None, &[], &[], &[]),
            (vec![0, 1, 2, 3, 4], vec![], vec![])
        );
    }

    #[test]
    fn cut_with_max_per_source_limits_each_source() {
        assert_eq!(
            run(3, Some(1), &[], &[], &[]),
            (vec![0, 3, 4], vec![1, 2], vec![])
        );
    }

    #[test]
    fn cut_keeps_mandatory_tools_and_reports_surplus() {
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
    fn cut_adds_skill_tools_and_never_drops_them() {
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
    fn cut_does_not_count_tools_in_use() {
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
