//! What makes the picks a set: the parts of the request that they cover, the tools that they
//! require, and the budget that they fit.

use std::collections::{BTreeMap, BTreeSet};

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::candidates::{Candidates, twins};
use super::ranked::Ranked;
use super::report::Report;
use super::request::Request;
use crate::budget::{self, Costs, Wanted};
use crate::options::Choice;
use crate::options::PickError;
use crate::ranking::ToolId;
use crate::select::{Cover, Cut, Decision, Fate, Picked, Refused, cut, picks, put_in_order};
use crate::selection::Stage;
use crate::selection::TokenReport;

/// The most tools that stand beside the picks because these require them: a tool is not to fill a
/// model's context with others.
const MAX_REQUIRED: usize = 16;
/// The most names of required tools that are read per tool.
const MAX_NAMES: usize = 64;

/// Decides which candidates are picked, and brings along what they require.
pub(super) fn choose(
    request: &Request<'_>,
    ranked: &Ranked<'_>,
    candidates: &Candidates<'_>,
    report: &mut Report,
) -> Vec<Decision> {
    let limits = Cut {
        max_candidates: request.options.max_candidates,
        max_per_source: request.options.max_per_source,
        trusted_sources: &request.trusted_sources,
        must: &candidates.stay.musts,
        held: &candidates.stay.held,
        needed: &candidates.stay.needed,
        twins: twins(request),
        for_part: &candidates.for_part,
        cover: cover(request, ranked, candidates),
    };
    let mut decisions = cut(&candidates.ranking, &request.index.catalog, limits);
    if request.options.choice == Choice::Set {
        decisions = Requiring::new(request, ranked, decisions).follow();
    }
    give_way(&request.copies, &mut decisions);
    report.ran(Stage::Select);
    decisions
}

/// Notes which copies gave way to picked tools.
fn give_way(copies: &BTreeMap<ToolId, ToolId>, decisions: &mut Vec<Decision>) {
    let picked: BTreeSet<ToolId> = picks(decisions).map(|(tool, _)| tool).collect();
    let gave_way = copies
        .iter()
        .filter(|(copy, original)| picked.contains(original) && !picked.contains(copy));
    decisions.extend(gave_way.map(|(&tool, _)| Decision {
        tool,
        fate: Fate::Copy,
    }));
    put_in_order(decisions);
}

/// What the parts want of the candidates, where there is a choice between them.
fn cover(request: &Request<'_>, ranked: &Ranked<'_>, candidates: &Candidates<'_>) -> Option<Cover> {
    let Candidates {
        parts,
        good,
        ranking,
        reranked,
        ..
    } = candidates;
    let Ranked::Fused { fused, .. } = ranked else {
        return None;
    };
    if parts.is_empty() || *reranked || ranking.len() <= request.options.max_candidates {
        return None;
    }
    Some(Cover::new(
        parts.iter().map(|part| &part.fused),
        good.clone(),
        fused,
        ranking,
    ))
}

/// Brings the tools along that the picks require, and those that these require, as far as they may
/// be seen: beside the picks, whose number is limited, where they are not among them.
struct Requiring<'a> {
    request: &'a Request<'a>,
    ranked: &'a Ranked<'a>,
    decisions: Vec<Decision>,
    /// Where the decision of each picked tool stands.
    picked: BTreeMap<ToolId, usize>,
    /// The picked tools that take a share of their source, by its look.
    per_source: HashMap<Option<&'a str>, usize>,
    brought: usize,
    over_source: BTreeSet<ToolId>,
    over_required: BTreeSet<ToolId>,
    refused: BTreeMap<ToolId, Refused>,
}

impl<'a> Requiring<'a> {
    fn new(request: &'a Request<'a>, ranked: &'a Ranked<'a>, decisions: Vec<Decision>) -> Self {
        let places = decisions
            .iter()
            .enumerate()
            .filter(|(_, decision)| decision.picked().is_some());
        let picked: BTreeMap<ToolId, usize> = places
            .map(|(place, decision)| (decision.tool, place))
            .collect();
        let mut requiring = Self {
            request,
            ranked,
            decisions,
            picked,
            per_source: HashMap::new(),
            brought: 0,
            over_source: BTreeSet::new(),
            over_required: BTreeSet::new(),
            refused: BTreeMap::new(),
        };
        for &tool in requiring
            .picked
            .keys()
            .filter(|tool| !request.in_use.tools.contains_key(tool))
        {
            *requiring.per_source.entry(request.look(tool)).or_default() += 1;
        }
        requiring
    }

    /// Follows what is required from the best pick on.
    fn follow(mut self) -> Vec<Decision> {
        let mut left: Vec<ToolId> = picks(&self.decisions).rev().map(|(tool, _)| tool).collect();
        let index = self.request.index;
        while let Some(tool) = left.pop() {
            let definition = index.catalog.tool(tool);
            for name in definition.requires.iter().take(MAX_NAMES) {
                let source = definition.source.as_deref();
                let required = index
                    .names
                    .of_source(name, source, &index.catalog)
                    .filter(|required| *required != tool);
                if let Some(required) = required
                    && self.require(required, name, tool)
                {
                    left.push(required);
                }
            }
        }
        self.decide()
    }

    /// Notes that a picked tool requires another under this name; returns `true` if that is picked
    /// for it.
    fn require(&mut self, required: ToolId, name: &str, by: ToolId) -> bool {
        if !self.request.eligibility.admits(required) {
            let first = || Refused {
                name: name.to_owned(),
                by: Vec::new(),
            };
            let refused = self.refused.entry(required).or_insert_with(first);
            if !refused.by.contains(&by) {
                refused.by.push(by);
            }
            return false;
        }
        if !self.ranked.ranks(required) {
            return false;
        }
        let known = self.picked.get(&required).copied();
        if known.is_none() && !self.bring(required) {
            return false;
        }
        let place = known.unwrap_or(self.decisions.len() - 1);
        if let Some(Picked { required_by, .. }) = self.decisions[place].picked_mut()
            && !required_by.contains(&by)
        {
            required_by.push(by);
        }
        known.is_none()
    }

    /// Puts a tool beside the picks if its source has a share left, and not too many were brought
    /// along.
    fn bring(&mut self, tool: ToolId) -> bool {
        let Request {
            options,
            trusted_sources,
            ..
        } = self.request;
        let is_trusted = self
            .request
            .source(tool)
            .is_some_and(|source| trusted_sources.contains(source));
        let share = self.per_source.entry(self.request.look(tool)).or_default();
        if options
            .max_per_source
            .is_some_and(|most| !is_trusted && *share >= most)
        {
            self.over_source.insert(tool);
            return false;
        }
        if self.brought == MAX_REQUIRED {
            self.over_required.insert(tool);
            return false;
        }
        *share += 1;
        self.brought += 1;
        self.picked.insert(tool, self.decisions.len());
        let mut decision = Decision::pick(self.ranked.candidate(tool));
        if let Some(picked) = decision.picked_mut() {
            picked.beside = true;
        }
        self.decisions.push(decision);
        true
    }

    /// Adds what was not brought along, and takes away that a tool lost its place where it was.
    fn decide(mut self) -> Vec<Decision> {
        let over_source = |decision: &&Decision| decision.fate == Fate::OverSource;
        for Decision { tool, .. } in self.decisions.iter().filter(over_source) {
            self.over_source.remove(tool);
        }
        let (picked, decisions) = (self.picked, &mut self.decisions);
        decisions.extend(self.over_source.into_iter().map(|tool| Decision {
            tool,
            fate: Fate::OverSource,
        }));
        decisions.extend(self.over_required.into_iter().map(|tool| Decision {
            tool,
            fate: Fate::OverRequired,
        }));
        decisions.extend(self.refused.into_iter().map(|(tool, refused)| Decision {
            tool,
            fate: Fate::Refused(refused),
        }));
        decisions
            .retain(|decision| !decision.lost_its_place() || !picked.contains_key(&decision.tool));
        put_in_order(decisions);
        self.decisions
    }
}

/// Shows as much of the picks as fits `tokens`, takes the others away, and counts. What the whole
/// catalog costs is counted once, and where there is a deadline on a thread that may be left
/// behind.
pub(super) fn fit(
    costs: &Arc<Costs>,
    tokens: usize,
    request: &Request<'_>,
    ranked: &Ranked<'_>,
    decisions: &mut [Decision],
) -> Result<TokenReport, PickError> {
    let musts: BTreeSet<ToolId> = request.musts().union(&request.held()).copied().collect();
    let wanted: Vec<Wanted> = picks(decisions)
        .map(|(tool, _)| Wanted {
            tool,
            score: ranked.score(tool),
            must: musts.contains(&tool),
        })
        .collect();
    let fitted = budget::fit(costs, &wanted, tokens)?;
    let picked = decisions
        .iter_mut()
        .filter(|decision| decision.picked().is_some());
    for (decision, shown) in picked.zip(fitted.shown) {
        match (decision.picked_mut(), shown) {
            (Some(picked), Some(_)) => picked.shown = shown,
            _ => decision.fate = Fate::OverBudget,
        }
    }
    put_in_order(decisions);
    let catalog = match request.deadline.instant() {
        _ if request.index.catalog.lacks_tools() => None,
        None => Some(costs.whole()?),
        Some(_) => {
            let costs = Arc::clone(costs);
            request
                .deadline
                .run(move || costs.whole())
                .ok()
                .transpose()?
        }
    };
    Ok(TokenReport {
        budget: tokens,
        provider: costs.provider().to_owned(),
        tokenizer: costs.tokenizer(),
        catalog,
        picks: fitted.tokens,
        saved: catalog.map(|catalog| catalog.saturating_sub(fitted.tokens)),
    })
}
