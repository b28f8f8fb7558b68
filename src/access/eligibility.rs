//! The decision on every tool of a catalog, made once per group of equal policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Access, AccessError, IneligibleReason, SourceVerdict};
use crate::catalog::{Catalog, CatalogStats, Group, Grouping};
use crate::names::NameTable;
use crate::ranking::ToolId;

/// The decision on every tool of a catalog, for one caller.
#[derive(Debug)]
pub struct Eligibility {
    admitted: Vec<bool>,
    /// The number of ineligible tools.
    total: usize,
    /// The number of tools by reason; a tool with two reasons counts under both.
    counts: BTreeMap<&'static str, usize>,
    /// The reasons that apply to groups of tools, if they are known.
    verdicts: Option<Verdicts>,
    /// The reasons that apply to single tools.
    by_tool: BTreeMap<ToolId, Vec<IneligibleReason>>,
    /// The counts of the full catalog, if this catalog is a shard of it.
    full_counts: Option<CatalogCounts>,
}

/// An access policy with its decision on a catalog, for a caller of many picks.
#[derive(Debug)]
pub(crate) struct DecidedAccess {
    access: Access,
    eligibility: Arc<Eligibility>,
}

impl DecidedAccess {
    /// Decides on every tool of `catalog`; `names` are its names.
    pub(crate) fn new(
        access: Access,
        catalog: &Catalog,
        names: &NameTable,
    ) -> Result<Self, AccessError> {
        let eligibility = Arc::new(access.decide(catalog, names)?);
        Ok(Self {
            access,
            eligibility,
        })
    }

    /// Returns the decision if it was made for an equal policy.
    pub(crate) fn eligibility(&self, access: &Access) -> Option<&Arc<Eligibility>> {
        (self.access == *access).then_some(&self.eligibility)
    }
}

/// The number of tools in a full catalog, of which a shard holds some.
#[derive(Debug, Clone, Copy)]
struct CatalogCounts {
    tools: usize,
    ineligible: usize,
}

/// The reasons that apply to groups of tools: those of a policy, and those of a source.
#[derive(Debug)]
struct Verdicts {
    grouping: Arc<Grouping>,
    by_policy: Vec<Arc<[IneligibleReason]>>,
    /// The reason by group; empty if all sources are admitted.
    by_source: Vec<Option<IneligibleReason>>,
}

impl Verdicts {
    /// Returns the reasons that apply to a group: those of its policy, and that of its source.
    fn group_reasons(&self, group: usize) -> GroupReasons<'_> {
        GroupReasons {
            policy: &self.by_policy[self.grouping.groups[group].policy],
            source: match self.by_source.get(group) {
                Some(reason) => reason.as_slice(),
                None => &[],
            },
        }
    }

    /// Counts the tools of the catalog by reason.
    fn count_tools(&self, counts: &mut ReasonCounts) {
        let mut policy_sizes = vec![0; self.grouping.policies.len()];
        for group in &self.grouping.groups {
            policy_sizes[group.policy] += group.size;
        }
        for (reasons, size) in self.by_policy.iter().zip(policy_sizes) {
            counts.add(reasons, size);
        }
        for (Group { size, .. }, reason) in self.grouping.groups.iter().zip(&self.by_source) {
            counts.add(reason.as_slice(), *size);
        }
    }
}

/// The reasons that apply to one group of tools.
struct GroupReasons<'a> {
    policy: &'a Arc<[IneligibleReason]>,
    source: &'a [IneligibleReason],
}

/// The number of tools by the code of a reason.
#[derive(Default)]
struct ReasonCounts(BTreeMap<&'static str, usize>);

impl ReasonCounts {
    fn add(&mut self, reasons: &[IneligibleReason], tools: usize) {
        for reason in reasons {
            *self.0.entry(reason.code()).or_insert(0) += tools;
        }
    }

    /// Counts the tools of the full catalog by reason, and returns how many are ineligible.
    fn add_full_catalog(
        &mut self,
        access: &Access,
        sources: &SourceVerdict<'_>,
        stats: &CatalogStats,
    ) -> usize {
        let by_policy: Vec<Vec<IneligibleReason>> = stats
            .policies
            .iter()
            .map(|tool| access.verdict(tool))
            .collect();
        let mut ineligible = 0;
        for (size, reasons) in stats.policy_sizes.iter().zip(&by_policy) {
            self.add(reasons, *size);
            if !reasons.is_empty() {
                ineligible += size;
            }
        }
        if sources.admits_all() {
            return ineligible;
        }
        ineligible = 0;
        for group in &stats.groups {
            let source = group.source;
            let source = source.map(|source| stats.sources.names()[source as usize].as_str());
            let source_reason = sources.reason(source);
            self.add(source_reason.as_slice(), group.size);
            if source_reason.is_some() || !by_policy[group.policy as usize].is_empty() {
                ineligible += group.size;
            }
        }
        ineligible
    }
}

impl Access {
    /// Decides which tools of a catalog are eligible.
    ///
    /// # Errors
    ///
    /// [`AccessError`] if the policy names a tool that the catalog lacks, or a cost that is not a
    /// number, and if the definition of a tool cannot be read. A misspelt tool name must not admit
    /// a tool.
    pub fn decide(&self, catalog: &Catalog, names: &NameTable) -> Result<Eligibility, AccessError> {
        if self.max_cost.is_some_and(f64::is_nan) {
            return Err(AccessError::InvalidCost);
        }
        let grouping = catalog.grouping();
        let by_tool = self.reasons_by_tool(names, catalog)?;
        let sources = SourceVerdict::new(self, catalog.sources().known_sources());
        let mut by_policy: Vec<Arc<[IneligibleReason]>> = Vec::new();
        for &tool in &grouping.policies {
            by_policy.push(self.verdict(catalog.outline(tool)?).into());
        }
        let by_source: Vec<Option<IneligibleReason>> = if sources.admits_all() {
            Vec::new()
        } else {
            grouping
                .groups
                .iter()
                .map(|group| sources.reason(catalog.source(group.tool)))
                .collect()
        };
        let verdicts = Verdicts {
            grouping: Arc::clone(grouping),
            by_policy,
            by_source,
        };
        let mut admitted = admitted_flags(&verdicts, catalog.len());
        let mut counts = ReasonCounts::default();
        let mut full_counts = None;
        match catalog.full_stats() {
            None => verdicts.count_tools(&mut counts),
            Some(stats) => {
                let ineligible = counts.add_full_catalog(self, &sources, stats);
                full_counts = Some(CatalogCounts {
                    tools: stats.tools(),
                    ineligible,
                });
            }
        }
        for (tool, reasons) in &by_tool {
            counts.add(reasons, 1);
            if std::mem::take(&mut admitted[tool.index()])
                && let Some(full_counts) = &mut full_counts
            {
                full_counts.ineligible += 1;
            }
        }
        let total = admitted.iter().filter(|admitted| !**admitted).count();
        Ok(Eligibility {
            admitted,
            total,
            counts: counts.0,
            verdicts: Some(verdicts),
            by_tool,
            full_counts,
        })
    }
}

impl Eligibility {
    /// Admits exactly these tools of a catalog with `tools` tools.
    pub(crate) fn only(admitted: &[ToolId], tools: usize) -> Self {
        let mut flags = vec![false; tools];
        admitted.iter().for_each(|tool| flags[tool.index()] = true);
        Self::from_flags(flags)
    }

    /// Returns an eligibility that admits `more` tools as well.
    pub(crate) fn with(&self, more: impl Iterator<Item = ToolId>) -> Self {
        let mut admitted = self.admitted.clone();
        more.for_each(|tool| admitted[tool.index()] = true);
        Self::from_flags(admitted)
    }

    /// Makes an eligibility that gives no reasons.
    fn from_flags(admitted: Vec<bool>) -> Self {
        let total = admitted.iter().filter(|admitted| !**admitted).count();
        let (counts, by_tool) = (BTreeMap::new(), BTreeMap::new());
        Self {
            admitted,
            total,
            counts,
            verdicts: None,
            by_tool,
            full_counts: None,
        }
    }

    /// Returns `true` if the caller may see and run the tool.
    ///
    /// # Panics
    ///
    /// If `tool` comes from a larger catalog.
    pub fn admits(&self, tool: ToolId) -> bool {
        self.admitted[tool.index()]
    }

    /// Returns the reasons why the tool is ineligible; an empty list means that it is eligible.
    pub fn reasons(&self, tool: ToolId) -> Arc<[IneligibleReason]> {
        let tool_reasons = match self.by_tool.get(&tool) {
            Some(reasons) => reasons.as_slice(),
            None => &[],
        };
        match self.group_reasons(tool) {
            // The usual case: tools of equal policies share one list.
            Some(group) if group.source.is_empty() && tool_reasons.is_empty() => {
                Arc::clone(group.policy)
            }
            Some(group) => [group.policy, group.source, tool_reasons].concat().into(),
            None => tool_reasons.into(),
        }
    }

    /// Returns `true` if one of the tool's reasons satisfies `is_wanted`.
    pub(crate) fn has_reason(
        &self,
        tool: ToolId,
        is_wanted: impl Fn(&IneligibleReason) -> bool,
    ) -> bool {
        if let Some(group) = self.group_reasons(tool)
            && group.policy.iter().chain(group.source).any(&is_wanted)
        {
            return true;
        }
        let tool_reasons = self.by_tool.get(&tool);
        tool_reasons.is_some_and(|reasons| reasons.iter().any(is_wanted))
    }

    /// Returns the reasons that apply to the tool's group, if they are known.
    fn group_reasons(&self, tool: ToolId) -> Option<GroupReasons<'_>> {
        let verdicts = self.verdicts.as_ref()?;
        let group = *verdicts.grouping.group_by_tool.get(tool.index())?;
        Some(verdicts.group_reasons(group as usize))
    }

    /// Returns the number of ineligible tools; for a shard, the number in the full catalog.
    pub fn ineligible_count(&self) -> usize {
        match self.full_counts {
            Some(counts) => counts.ineligible,
            None => self.total,
        }
    }

    /// Returns the number of tools by the code of a reason; a tool with two reasons counts under
    /// both.
    pub fn counts(&self) -> &BTreeMap<&'static str, usize> {
        &self.counts
    }

    /// Returns the eligible tools, in registration order.
    pub(crate) fn admitted(&self) -> impl Iterator<Item = ToolId> {
        self.admitted
            .iter()
            .enumerate()
            .filter(|(_, admitted)| **admitted)
            .map(|(index, _)| ToolId::from_index(index))
    }

    /// Returns the ineligible tools, in registration order.
    pub(crate) fn ineligible(&self) -> impl Iterator<Item = ToolId> {
        let flags = self.admitted.iter().enumerate();
        flags
            .filter(|(_, admitted)| !**admitted)
            .map(|(index, _)| ToolId::from_index(index))
    }

    /// Returns a flag for every tool, in registration order: `true` if it is eligible.
    pub(crate) fn flags(&self) -> &[bool] {
        &self.admitted
    }

    /// Returns the number of tools in the catalog.
    pub(crate) fn tools(&self) -> usize {
        self.admitted.len()
    }

    /// Returns the number of eligible tools; for a shard, the number in the full catalog, and at
    /// least the number in the shard.
    pub(crate) fn admitted_count(&self) -> usize {
        let in_catalog = self.admitted.len() - self.total;
        match self.full_counts {
            Some(counts) => in_catalog.max(counts.tools.saturating_sub(counts.ineligible)),
            None => in_catalog,
        }
    }
}

/// Returns a flag for every tool: `true` if neither its policy nor its source makes it ineligible.
fn admitted_flags(verdicts: &Verdicts, tools: usize) -> Vec<bool> {
    let grouping = &verdicts.grouping;
    let mut group_flags = Vec::with_capacity(grouping.groups.len());
    for group in 0..grouping.groups.len() {
        let reasons = verdicts.group_reasons(group);
        group_flags.push(reasons.policy.is_empty() && reasons.source.is_empty());
    }
    if group_flags.iter().all(|is_admitted| *is_admitted) {
        return vec![true; tools];
    }
    let groups = grouping.group_by_tool.iter();
    groups.map(|&group| group_flags[group as usize]).collect()
}
