//! The cut: from a ranking to the few tools that are returned.

use std::collections::{BTreeSet, HashMap};

use crate::catalog::Catalog;
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
    /// Tools that are returned beyond `max_candidates`, because something that is returned needs them.
    pub(crate) needed: &'a BTreeSet<ToolId>,
}

/// What the cut left and took away.
#[derive(Debug, PartialEq)]
pub(crate) struct Kept {
    /// The returned tools, best first.
    pub(crate) picks: Ranking,
    /// Tools that would have been returned, but for their source's share.
    pub(crate) over_source: Vec<ToolId>,
    /// Tools that must stay, but for whom there was no place.
    pub(crate) over_cutoff: Vec<ToolId>,
}

/// Cuts `ranking`, which is in order, best first.
pub(crate) fn cut(ranking: &[Candidate], catalog: &Catalog, cut: &Cut<'_>) -> Kept {
    let mut per_source: HashMap<Option<&str>, usize> = HashMap::new();
    let mut take = |tool: ToolId| {
        let source = catalog.tool(tool).source.as_deref();
        if source.is_some_and(|source| cut.trusted_sources.contains(source)) {
            return 0;
        }
        let taken = per_source.entry(source).or_default();
        *taken += 1;
        *taken
    };
    let (musts, others): (Vec<Candidate>, Vec<Candidate>) =
        ranking.iter().partition(|candidate| cut.must.contains(&candidate.tool));
    let (stay, leave) = musts.split_at(musts.len().min(cut.max_candidates));
    let mut picks = stay.to_vec();
    picks.iter().for_each(|candidate| {
        take(candidate.tool);
    });
    let mut over_source = Vec::new();
    for candidate in others {
        if picks.len() == cut.max_candidates {
            break;
        }
        if cut.max_per_source.is_some_and(|most| take(candidate.tool) > most) {
            over_source.push(candidate.tool);
        } else {
            picks.push(candidate);
        }
    }
    let picked: BTreeSet<ToolId> = picks.iter().map(|candidate| candidate.tool).collect();
    let brought = |tool: ToolId| cut.needed.contains(&tool) && !picked.contains(&tool);
    picks.extend(ranking.iter().filter(|candidate| brought(candidate.tool)));
    picks.sort_by(Candidate::better_first);
    over_source.retain(|tool| !cut.needed.contains(tool));
    let over_cutoff = leave.iter().map(|candidate| candidate.tool).filter(|tool| !cut.needed.contains(tool)).collect();
    Kept { picks, over_source, over_cutoff }
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
        let (must, needed) = (&tools(must), &tools(needed));
        let trusted_sources = &["b".to_owned()].into();
        let kept = cut(&ranking, &catalog, &Cut { max_candidates, max_per_source, trusted_sources, must, needed });
        let index = |ids: Vec<ToolId>| ids.into_iter().map(ToolId::index).collect();
        (kept.picks.iter().map(|c| c.tool.index()).collect(), index(kept.over_source), index(kept.over_cutoff))
    }

    #[test]
    fn the_cut_keeps_the_best() {
        assert_eq!(run(2, None, &[], &[]), (vec![0, 1], vec![], vec![]));
        assert_eq!(run(9, None, &[], &[]), (vec![0, 1, 2, 3, 4], vec![], vec![]));
    }

    #[test]
    fn a_source_gets_no_more_than_its_share() {
        assert_eq!(run(3, Some(1), &[], &[]), (vec![0, 3, 4], vec![1, 2], vec![]));
    }

    #[test]
    fn tools_that_must_stay_do_and_surplus_ones_are_told() {
        assert_eq!(run(2, None, &[4], &[]), (vec![0, 4], vec![], vec![]));
        assert_eq!(run(2, None, &[4, 3, 2], &[]), (vec![2, 3], vec![], vec![4]));
        assert_eq!(run(3, Some(1), &[2], &[]), (vec![2, 3, 4], vec![0, 1], vec![]));
    }

    #[test]
    fn needed_tools_come_on_top_and_are_never_told_as_dropped() {
        assert_eq!(run(2, None, &[], &[3, 4]), (vec![0, 1, 3, 4], vec![], vec![]));
        assert_eq!(run(2, None, &[], &[0]), (vec![0, 1], vec![], vec![]), "it has a place already");
        assert_eq!(run(1, Some(1), &[], &[1]), (vec![0, 1], vec![], vec![]));
        assert_eq!(run(3, Some(1), &[], &[1]), (vec![0, 1, 3, 4], vec![2], vec![]));
        assert_eq!(run(1, None, &[3, 4], &[4]), (vec![3, 4], vec![], vec![]));
    }
}
