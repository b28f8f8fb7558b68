//! The decision on every tool of a catalog, made once per group of equal policies.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{Access, AccessError, IneligibleReason, SourceVerdict, threat_level};
use crate::catalog::{Catalog, ThreatLevel};
use crate::names::NameTable;
use crate::ranking::ToolId;

/// The tools of a catalog grouped by equal policy and source.
#[derive(Debug)]
pub(crate) struct PolicyTable {
    /// Group of each tool.
    group: Arc<[u32]>,
    groups: Vec<Group>,
    /// A tool of each policy, which stands for it.
    policies: Vec<ToolId>,
    sources: usize,
}

/// Tools of one policy and one source.
#[derive(Debug)]
struct Group {
    /// A tool that stands for it.
    tool: ToolId,
    policy: usize,
    size: usize,
}

impl PolicyTable {
    pub(crate) fn new(catalog: &Catalog) -> Self {
        let (mut numbers, mut policy_numbers) = (HashMap::new(), HashMap::new());
        let (mut groups, mut policies): (Vec<Group>, Vec<ToolId>) = (Vec::new(), Vec::new());
        let mut sources = BTreeSet::new();
        let mut group = Vec::with_capacity(catalog.len());
        for (id, tool) in catalog.ids().zip(catalog.tools()) {
            sources.insert(&tool.source);
            let policy = (
                tool.is_unsafe(),
                threat_level(tool).map(ThreatLevel::name),
                &tool.allowed_roles,
                &tool.modes,
                tool.effects(),
                &tool.capabilities,
                tool.cost.map(f64::to_bits),
            );
            let policy = *policy_numbers.entry(policy).or_insert_with(|| {
                policies.push(id);
                policies.len() - 1
            });
            let number = *numbers.entry((policy, &tool.source)).or_insert_with(|| {
                groups.push(Group { tool: id, policy, size: 0 });
                groups.len() - 1
            });
            groups[number].size += 1;
            group.push(u32::try_from(number).expect("no more groups than tools"));
        }
        Self { group: group.into(), groups, policies, sources: sources.len() }
    }

    /// Returns the number of different sources.
    pub(crate) fn sources(&self) -> usize {
        self.sources
    }

    /// Decides on every tool of `catalog`, which has these names.
    pub(crate) fn decide(
        &self,
        catalog: &Catalog,
        names: &NameTable,
        access: &Access,
    ) -> Result<Eligibility, AccessError> {
        if access.max_cost.is_some_and(f64::is_nan) {
            return Err(AccessError::InvalidCost);
        }
        let by_tool = access.by_tool(names)?;
        let sources = SourceVerdict::new(access, catalog);
        let by_policy: Vec<Vec<IneligibleReason>> =
            self.policies.iter().map(|tool| access.verdict(catalog.tool(*tool))).collect();
        let of_source = |tool: ToolId| sources.reason(catalog.tool(tool).source.as_deref());
        let of_source = |tool| if sources.admits_all() { None } else { of_source(tool) };
        let verdict = |group: &Group| by_policy[group.policy].iter().cloned().chain(of_source(group.tool)).collect();
        let verdicts: Vec<Vec<IneligibleReason>> = self.groups.iter().map(verdict).collect();
        let mut admitted: Vec<bool> = if verdicts.iter().all(Vec::is_empty) {
            vec![true; self.group.len()]
        } else {
            let admits: Vec<bool> = verdicts.iter().map(Vec::is_empty).collect();
            self.group.iter().map(|&group| admits[group as usize]).collect()
        };
        let mut counts = BTreeMap::new();
        let mut count = |reasons: &[IneligibleReason], tools: usize| {
            for reason in reasons {
                *counts.entry(reason.code()).or_insert(0) += tools;
            }
        };
        for (Group { size, .. }, reasons) in self.groups.iter().zip(&verdicts) {
            count(reasons, *size);
        }
        for (tool, reasons) in &by_tool {
            count(reasons, 1);
            admitted[tool.index()] = false;
        }
        let total = admitted.iter().filter(|admitted| !**admitted).count();
        Ok(Eligibility { admitted, total, counts, group: Arc::clone(&self.group), verdicts, by_tool })
    }
}

/// The decision on every tool of a catalog, for one caller.
#[derive(Debug)]
pub struct Eligibility {
    admitted: Vec<bool>,
    /// How many tools are ineligible.
    total: usize,
    /// How many tools each reason applies to; a tool with two reasons counts under both.
    counts: BTreeMap<&'static str, usize>,
    group: Arc<[u32]>,
    /// The reasons that apply to each group.
    verdicts: Vec<Vec<IneligibleReason>>,
    /// The reasons that apply to single tools.
    by_tool: BTreeMap<ToolId, Vec<IneligibleReason>>,
}

impl Eligibility {
    /// Admits exactly these tools of a catalog of `tools` tools.
    pub(crate) fn only(admitted: &[ToolId], tools: usize) -> Self {
        let mut flags = vec![false; tools];
        admitted.iter().for_each(|tool| flags[tool.index()] = true);
        let total = flags.iter().filter(|admitted| !**admitted).count();
        let (counts, by_tool) = (BTreeMap::new(), BTreeMap::new());
        Self { admitted: flags, total, counts, group: Arc::new([]), verdicts: Vec::new(), by_tool }
    }

    /// Returns `true` if the caller may see and run the tool.
    ///
    /// # Panics
    ///
    /// If `tool` comes from a larger catalog.
    pub fn admits(&self, tool: ToolId) -> bool {
        self.admitted[tool.index()]
    }

    /// Returns every reason why the caller may not see and run the tool; none where it may.
    pub fn reasons(&self, tool: ToolId) -> Vec<IneligibleReason> {
        self.reasons_of(tool).cloned().collect()
    }

    /// Returns `true` if one of the reasons why the caller may not see and run the tool is of this kind.
    pub(crate) fn has_reason(&self, tool: ToolId, is_wanted: impl Fn(&IneligibleReason) -> bool) -> bool {
        self.reasons_of(tool).any(is_wanted)
    }

    fn reasons_of(&self, tool: ToolId) -> impl Iterator<Item = &IneligibleReason> {
        let group = self.group.get(tool.index()).map_or(&[][..], |&group| &self.verdicts[group as usize]);
        group.iter().chain(self.by_tool.get(&tool).into_iter().flatten())
    }

    /// Returns how many tools are ineligible.
    pub fn ineligible_count(&self) -> usize {
        self.total
    }

    /// Returns how many tools each reason applies to, by its code; a tool with two reasons counts under both.
    pub fn counts(&self) -> &BTreeMap<&'static str, usize> {
        &self.counts
    }

    /// Returns the tools that are eligible, in registration order.
    pub(crate) fn admitted(&self) -> impl Iterator<Item = ToolId> {
        self.admitted.iter().enumerate().filter(|(_, admitted)| **admitted).map(|(index, _)| ToolId::from_index(index))
    }

    /// Returns the tools that are ineligible, in registration order.
    pub(crate) fn ineligible(&self) -> impl Iterator<Item = ToolId> {
        let flags = self.admitted.iter().enumerate();
        flags.filter(|(_, admitted)| !**admitted).map(|(index, _)| ToolId::from_index(index))
    }

    /// Returns for every tool whether it is eligible, in registration order.
    pub(crate) fn flags(&self) -> &[bool] {
        &self.admitted
    }

    /// Returns how many tools the catalog has.
    pub(crate) fn tools(&self) -> usize {
        self.admitted.len()
    }

    /// Returns how many tools are eligible.
    pub(crate) fn admitted_count(&self) -> usize {
        self.admitted.len() - self.total
    }
}
