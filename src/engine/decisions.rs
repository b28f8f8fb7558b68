//! The decisions on the candidates as a set: coverage of subqueries, required tools, and the token
//! budget.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::ranking::{FusedRanking, RequestRanking};
use super::report::Report;
use super::request::ResolvedRequest;
use super::shortlist::{Shortlist, duplicates};
use crate::budget::{self, BudgetItem, FormatCosts};
use crate::index::DuplicateGroups;
use crate::options::{PickError, SelectionMode};
use crate::ranking::{Candidate, ToolId};
use crate::saved::SavedError;
use crate::select::{
    Cover, CutLimits, CutOutcome, Decision, IneligibleRequirement, PickDetails, cut, picks,
    put_in_order,
};
use crate::selection::Stage;
use crate::selection::TokenReport;

/// The largest number of tools that are added because picks require them. Without a limit, one tool
/// could fill a model's context with others.
const MAX_REQUIRED: usize = 16;
/// The largest number of required names that are read per tool.
const MAX_NAMES: usize = 64;

/// The decisions on the tools that were picked, or excluded by a limit, in the order of reports.
pub(super) struct Decisions(Vec<Decision>);

impl Deref for Decisions {
    type Target = [Decision];

    fn deref(&self) -> &[Decision] {
        &self.0
    }
}

impl Decisions {
    /// Decides which candidates are picked, and adds the tools that they require.
    pub(super) fn new(
        request: &ResolvedRequest<'_>,
        ranked: &dyn RequestRanking,
        shortlist: &Shortlist,
        report: &mut Report,
    ) -> Result<Self, SavedError> {
        let limits = CutLimits {
            max_candidates: request.options.max_candidates,
            max_per_source: request.options.max_per_source,
            trusted_sources: &request.trusted_sources,
            mandatory: &shortlist.protected.mandatory,
            in_use: &shortlist.protected.in_use,
            skill_tools: &shortlist.protected.skill_tools,
            duplicates: duplicates(request),
            for_subquery: &shortlist.for_subquery,
            cover: cover(request, ranked, shortlist),
        };
        let mut decisions = cut(&shortlist.ranking, &request.index.catalog, limits);
        if request.options.choice == SelectionMode::Set {
            decisions = RequirementResolver::new(request, ranked, decisions).resolve()?;
        }
        if let Some(duplicates) = duplicates(request) {
            record_accounts(duplicates, &shortlist.ranking, &mut decisions);
        }
        record_copies(request.copies(), &mut decisions);
        report.ran(Stage::Select);
        Ok(Self(decisions))
    }

    /// Returns the picked tools.
    pub(super) fn picked(&self) -> BTreeSet<ToolId> {
        picks(self).map(|(tool, _)| tool).collect()
    }

    /// Orders the picks that had no score before by their values in `ranked`.
    pub(super) fn ordered_by(mut self, ranked: &dyn RequestRanking) -> Self {
        let mut is_ordered = true;
        for decision in &mut self.0 {
            let tool = decision.tool;
            if let Some(details) = decision.picked_mut()
                // A tool that was not scored has an infinite value.
                && details.value.is_infinite()
            {
                details.value = ranked.candidate(tool).score;
                is_ordered = false;
            }
        }
        if !is_ordered {
            put_in_order(&mut self.0);
        }
        self
    }

    /// Fits the definitions of the picks into `tokens`, excludes picks that do not fit, and counts the
    /// tokens. The tokens of the whole catalog are counted once; with a deadline, on a thread that may
    /// be abandoned.
    pub(super) fn fit(
        mut self,
        costs: &Arc<FormatCosts>,
        tokens: usize,
        request: &ResolvedRequest<'_>,
        ranked: &dyn RequestRanking,
    ) -> Result<(Self, TokenReport), PickError> {
        let protected = request.mandatory_or_in_use();
        let mut items = Vec::new();
        for (tool, _) in picks(&self) {
            items.push(BudgetItem {
                tool,
                score: ranked.score(tool),
                is_mandatory: protected.contains(&tool),
            });
        }
        let fitted = budget::fit(costs, &items, tokens)?;
        let mut definitions = fitted.definitions.into_iter();
        for decision in &mut self.0 {
            let Some(picked) = decision.picked_mut() else {
                continue;
            };
            match definitions.next().flatten() {
                Some(definition) => picked.definition = Some(definition),
                None => decision.outcome = CutOutcome::OverBudget,
            }
        }
        put_in_order(&mut self.0);
        let catalog = match request.deadline.instant() {
            _ if request.index.catalog.lacks_tools() => None,
            // The first count of a large catalog can take longer than the deadline permits.
            Some(_) if !costs.has_counted_all() => {
                let costs = Arc::clone(costs);
                request
                    .deadline
                    .run(move || costs.count_all())
                    .ok()
                    .transpose()?
            }
            _ => Some(costs.count_all()?),
        };
        let report = TokenReport {
            budget: tokens,
            provider: costs.provider().to_owned(),
            tokenizer: costs.tokenizer(),
            catalog,
            picks: fitted.tokens,
            saved: catalog.map(|catalog| catalog.saturating_sub(fitted.tokens)),
        };
        Ok((self, report))
    }
}

/// Records the candidates that equal a pick from another source, and for which no place was left.
fn record_accounts(
    duplicates: &DuplicateGroups,
    ranking: &[Candidate],
    decisions: &mut Vec<Decision>,
) {
    let (mut picked, mut picked_groups) = (BTreeSet::new(), BTreeSet::new());
    for (tool, _) in picks(decisions) {
        picked.extend(duplicates.first_equal(tool));
        picked_groups.extend(duplicates.group(tool));
    }
    if picked.is_empty() {
        return;
    }
    let decided: BTreeSet<ToolId> = decisions.iter().map(|decision| decision.tool).collect();
    for &Candidate { tool, .. } in ranking {
        let first = duplicates.first_equal(tool);
        let equals_pick = first.is_some_and(|first| picked.contains(&first));
        let group = duplicates.group(tool);
        let is_duplicate = group.is_some_and(|group| picked_groups.contains(&group));
        if equals_pick && !is_duplicate && !decided.contains(&tool) {
            decisions.push(Decision {
                tool,
                outcome: CutOutcome::Account,
            });
        }
    }
}

/// Records the copies that were excluded because of picked originals.
fn record_copies(copies: &BTreeMap<ToolId, ToolId>, decisions: &mut Vec<Decision>) {
    let picked: BTreeSet<ToolId> = picks(decisions).map(|(tool, _)| tool).collect();
    for (&copy, original) in copies {
        if picked.contains(original) && !picked.contains(&copy) {
            decisions.push(Decision {
                tool: copy,
                outcome: CutOutcome::Copy,
            });
        }
    }
    put_in_order(decisions);
}

/// Returns the coverage of the subqueries, if there are more candidates than places.
fn cover(
    request: &ResolvedRequest<'_>,
    ranked: &dyn RequestRanking,
    shortlist: &Shortlist,
) -> Option<Cover> {
    let Shortlist {
        of_subqueries,
        ranking,
        reranked,
        ..
    } = shortlist;
    let FusedRanking {
        fused, subqueries, ..
    } = ranked.fused()?;
    if subqueries.is_empty() || *reranked || ranking.len() <= request.options.max_candidates {
        return None;
    }
    Some(Cover::new(
        subqueries.iter().map(|subquery| &subquery.fused),
        of_subqueries,
        fused,
        ranking,
    ))
}

/// A resolver that adds the tools that the picks require, directly or indirectly. Required tools
/// that are not picks are listed separately, and their number is limited. Ineligible tools are not
/// added.
struct RequirementResolver<'a> {
    request: &'a ResolvedRequest<'a>,
    ranked: &'a dyn RequestRanking,
    decisions: Vec<Decision>,
    /// The position of each pick's decision.
    picked: BTreeMap<ToolId, usize>,
    /// The number of picks by the common form of confusable source names.
    per_source: HashMap<Option<&'a str>, usize>,
    added: usize,
    over_source: BTreeSet<ToolId>,
    over_required: BTreeSet<ToolId>,
    ineligible: BTreeMap<ToolId, IneligibleRequirement>,
}

impl<'a> RequirementResolver<'a> {
    fn new(
        request: &'a ResolvedRequest<'a>,
        ranked: &'a dyn RequestRanking,
        decisions: Vec<Decision>,
    ) -> Self {
        let mut picked: BTreeMap<ToolId, usize> = BTreeMap::new();
        for (position, decision) in decisions.iter().enumerate() {
            if decision.picked().is_some() {
                picked.insert(decision.tool, position);
            }
        }
        let mut per_source: HashMap<Option<&'a str>, usize> = HashMap::new();
        for &tool in picked.keys() {
            if !request.named.in_use.tools.contains_key(&tool) {
                *per_source.entry(request.look(tool)).or_default() += 1;
            }
        }
        Self {
            request,
            ranked,
            decisions,
            picked,
            per_source,
            added: 0,
            over_source: BTreeSet::new(),
            over_required: BTreeSet::new(),
            ineligible: BTreeMap::new(),
        }
    }

    /// Resolves the requirements, starting at the best pick.
    fn resolve(mut self) -> Result<Vec<Decision>, SavedError> {
        let mut unresolved: Vec<ToolId> =
            picks(&self.decisions).rev().map(|(tool, _)| tool).collect();
        let index = self.request.index;
        while let Some(tool) = unresolved.pop() {
            let definition = index.catalog.tool(tool)?;
            for name in definition.requires.iter().take(MAX_NAMES) {
                let source = definition.source.as_deref();
                let required = index.names.resolve_in_source(name, source, &index.catalog);
                if let Some(required) = required
                    && required != tool
                    && self.require(required, name, tool)
                {
                    unresolved.push(required);
                }
            }
        }
        Ok(self.into_decisions())
    }

    /// Records that a pick requires another tool by this name. Returns `true` if the tool was added
    /// for it.
    fn require(&mut self, required: ToolId, name: &str, by: ToolId) -> bool {
        if !self.request.eligibility().admits(required) {
            let new_requirement = || IneligibleRequirement {
                name: name.to_owned(),
                by: Vec::new(),
            };
            let requirement = self
                .ineligible
                .entry(required)
                .or_insert_with(new_requirement);
            if !requirement.by.contains(&by) {
                requirement.by.push(by);
            }
            return false;
        }
        if !self.ranked.ranks(required) {
            return false;
        }
        let existing = self.picked.get(&required).copied();
        if existing.is_none() && !self.add(required) {
            return false;
        }
        let position = existing.unwrap_or(self.decisions.len() - 1);
        if let Some(PickDetails { required_by, .. }) = self.decisions[position].picked_mut()
            && !required_by.contains(&by)
        {
            required_by.push(by);
        }
        existing.is_none()
    }

    /// Adds a required tool, unless its source or the number of required tools is at its limit.
    fn add(&mut self, tool: ToolId) -> bool {
        let ResolvedRequest {
            options,
            trusted_sources,
            ..
        } = self.request;
        let is_trusted = self
            .request
            .source(tool)
            .is_some_and(|source| trusted_sources.contains(source));
        let source_count = self.per_source.entry(self.request.look(tool)).or_default();
        if options
            .max_per_source
            .is_some_and(|most| !is_trusted && *source_count >= most)
        {
            self.over_source.insert(tool);
            return false;
        }
        if self.added == MAX_REQUIRED {
            self.over_required.insert(tool);
            return false;
        }
        *source_count += 1;
        self.added += 1;
        self.picked.insert(tool, self.decisions.len());
        let mut decision = Decision::pick(self.ranked.candidate(tool));
        if let Some(picked) = decision.picked_mut() {
            picked.only_required = true;
        }
        self.decisions.push(decision);
        true
    }

    /// Adds the decisions on tools that were not added. Removes the exclusion of tools that were
    /// added after all.
    fn into_decisions(mut self) -> Vec<Decision> {
        for Decision { tool, outcome } in &self.decisions {
            if *outcome == CutOutcome::OverSource {
                self.over_source.remove(tool);
            }
        }
        let (picked, mut decisions) = (self.picked, self.decisions);
        for tool in self.over_source {
            let outcome = CutOutcome::OverSource;
            decisions.push(Decision { tool, outcome });
        }
        for tool in self.over_required {
            let outcome = CutOutcome::OverRequired;
            decisions.push(Decision { tool, outcome });
        }
        for (tool, requirement) in self.ineligible {
            let outcome = CutOutcome::Ineligible(requirement);
            decisions.push(Decision { tool, outcome });
        }
        decisions
            .retain(|decision| !decision.lost_its_place() || !picked.contains_key(&decision.tool));
        put_in_order(&mut decisions);
        decisions
    }
}
