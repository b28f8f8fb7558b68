//! The decision on every tool of a catalog, made once per group of equal policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Access, AccessError, IneligibleReason, SourceVerdict};
use crate::catalog::{Catalog, Group, Grouping, WholeGroup};
use crate::names::NameTable;
use crate::ranking::ToolId;

/// The decision on every tool of a catalog, for one caller.
#[derive(Debug)]
pub struct Eligibility {
    admitted: Vec<bool>,
    /// How many tools are ineligible.
    total: usize,
    /// How many tools each reason applies to; a tool with two reasons counts under both.
    counts: BTreeMap<&'static str, usize>,
    /// The reasons that apply to groups of tools, where these are known.
    verdicts: Option<Verdicts>,
    /// The reasons that apply to single tools.
    by_tool: BTreeMap<ToolId, Vec<IneligibleReason>>,
    /// How many tools there are and how many of them are ineligible, where the catalog is a part of
    /// another.
    of_whole: Option<(usize, usize)>,
}

/// The reasons that apply to groups of tools: those of a policy, and those of a source.
#[derive(Debug)]
struct Verdicts {
    grouping: Arc<Grouping>,
    by_policy: Vec<Arc<[IneligibleReason]>>,
    /// By group; empty where all sources are admitted.
    by_source: Vec<Option<IneligibleReason>>,
}

impl Verdicts {
    /// Returns the reasons that apply to a group: those of its policy, and that of its source.
    fn of(&self, group: usize) -> (&Arc<[IneligibleReason]>, &[IneligibleReason]) {
        let of_source = self.by_source.get(group).map_or(&[][..], Option::as_slice);
        (
            &self.by_policy[self.grouping.groups[group].policy],
            of_source,
        )
    }
}

impl Eligibility {
    /// Decides on every tool of `catalog`, which has these names.
    pub(super) fn decide(
        catalog: &Catalog,
        names: &NameTable,
        access: &Access,
    ) -> Result<Self, AccessError> {
        if access.max_cost.is_some_and(f64::is_nan) {
            return Err(AccessError::InvalidCost);
        }
        let grouping = catalog.grouping();
        let by_tool = access.by_tool(names)?;
        let sources = SourceVerdict::new(access, catalog.sources().known());
        let by_policy: Vec<Arc<[IneligibleReason]>> = grouping
            .policies
            .iter()
            .map(|tool| access.verdict(catalog.outline(*tool)).into())
            .collect();
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
        let admits: Vec<bool> = (0..grouping.groups.len())
            .map(|group| verdicts.of(group))
            .map(|(of_policy, of_source)| of_policy.is_empty() && of_source.is_empty())
            .collect();
        let mut admitted: Vec<bool> = if admits.iter().all(|admits| *admits) {
            vec![true; catalog.len()]
        } else {
            grouping
                .of
                .iter()
                .map(|&group| admits[group as usize])
                .collect()
        };
        let mut counts = BTreeMap::new();
        let mut count = |reasons: &[IneligibleReason], tools: usize| {
            for reason in reasons {
                *counts.entry(reason.code()).or_insert(0) += tools;
            }
        };
        let mut of_whole = None;
        match catalog.whole() {
            None => {
                let mut of_policies = vec![0; grouping.policies.len()];
                grouping
                    .groups
                    .iter()
                    .for_each(|group| of_policies[group.policy] += group.size);
                verdicts
                    .by_policy
                    .iter()
                    .zip(of_policies)
                    .for_each(|(reasons, size)| count(reasons, size));
                for (Group { size, .. }, reason) in grouping.groups.iter().zip(&verdicts.by_source)
                {
                    count(reason.as_slice(), *size);
                }
            }
            Some(whole) => {
                let by_policy: Vec<Vec<IneligibleReason>> = whole
                    .policies
                    .iter()
                    .map(|tool| access.verdict(tool))
                    .collect();
                let mut ineligible = 0;
                let of_policies = whole.of_policies.iter().zip(&by_policy);
                of_policies
                    .clone()
                    .for_each(|(size, reasons)| count(reasons, *size));
                if sources.admits_all() {
                    ineligible = of_policies
                        .filter(|(_, reasons)| !reasons.is_empty())
                        .map(|(size, _)| size)
                        .sum();
                } else {
                    for WholeGroup {
                        policy,
                        source,
                        size,
                    } in &whole.groups
                    {
                        let source =
                            source.map(|source| whole.sources.names()[source as usize].as_str());
                        let of_source = sources.reason(source);
                        count(of_source.as_slice(), *size);
                        let is_refused =
                            of_source.is_some() || !by_policy[*policy as usize].is_empty();
                        ineligible += if is_refused { *size } else { 0 };
                    }
                }
                of_whole = Some((whole.tools(), ineligible));
            }
        }
        for (tool, reasons) in &by_tool {
            count(reasons, 1);
            if std::mem::take(&mut admitted[tool.index()])
                && let Some((_, ineligible)) = &mut of_whole
            {
                *ineligible += 1;
            }
        }
        let total = admitted.iter().filter(|admitted| !**admitted).count();
        Ok(Self {
            admitted,
            total,
            counts,
            verdicts: Some(verdicts),
            by_tool,
            of_whole,
        })
    }

    /// Admits exactly these tools of a catalog of `tools` tools.
    pub(crate) fn only(admitted: &[ToolId], tools: usize) -> Self {
        let mut flags = vec![false; tools];
        admitted.iter().for_each(|tool| flags[tool.index()] = true);
        Self::of_flags(flags)
    }

    /// Admits `more` tools as well.
    pub(crate) fn with(&self, more: impl Iterator<Item = ToolId>) -> Self {
        let mut admitted = self.admitted.clone();
        more.for_each(|tool| admitted[tool.index()] = true);
        Self::of_flags(admitted)
    }

    /// Admits tools without a reason for any.
    fn of_flags(admitted: Vec<bool>) -> Self {
        let total = admitted.iter().filter(|admitted| !**admitted).count();
        let (counts, by_tool) = (BTreeMap::new(), BTreeMap::new());
        Self {
            admitted,
            total,
            counts,
            verdicts: None,
            by_tool,
            of_whole: None,
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

    /// Returns every reason why the caller may not see and run the tool; none where it may.
    pub fn reasons(&self, tool: ToolId) -> Arc<[IneligibleReason]> {
        let own = self.by_tool.get(&tool).map_or(&[][..], Vec::as_slice);
        match (self.of_group(tool), own) {
            // As with most tools: those of equal policies share them.
            (Some((of_policy, [])), []) => Arc::clone(of_policy),
            (Some((of_policy, of_source)), own) => [of_policy, of_source, own].concat().into(),
            (None, own) => own.into(),
        }
    }

    /// Returns `true` if one of the reasons why the caller may not see and run the tool is of this
    /// kind.
    pub(crate) fn has_reason(
        &self,
        tool: ToolId,
        is_wanted: impl Fn(&IneligibleReason) -> bool,
    ) -> bool {
        let of_group = self
            .of_group(tool)
            .into_iter()
            .flat_map(|(of_policy, of_source)| of_policy.iter().chain(of_source));
        of_group
            .chain(self.by_tool.get(&tool).into_iter().flatten())
            .any(is_wanted)
    }

    /// Returns the reasons that apply to the tool's group, where they are known: those of its
    /// policy, and that of its source.
    fn of_group(&self, tool: ToolId) -> Option<(&Arc<[IneligibleReason]>, &[IneligibleReason])> {
        let verdicts = self.verdicts.as_ref()?;
        verdicts
            .grouping
            .of
            .get(tool.index())
            .map(|&group| verdicts.of(group as usize))
    }

    /// Returns how many tools are ineligible; of a part of a larger catalog, how many of that.
    pub fn ineligible_count(&self) -> usize {
        self.of_whole
            .map_or(self.total, |(_, ineligible)| ineligible)
    }

    /// Returns how many tools each reason applies to, by its code; a tool with two reasons counts
    /// under both.
    pub fn counts(&self) -> &BTreeMap<&'static str, usize> {
        &self.counts
    }

    /// Returns the tools that are eligible, in registration order.
    pub(crate) fn admitted(&self) -> impl Iterator<Item = ToolId> {
        self.admitted
            .iter()
            .enumerate()
            .filter(|(_, admitted)| **admitted)
            .map(|(index, _)| ToolId::from_index(index))
    }

    /// Returns the tools that are ineligible, in registration order.
    pub(crate) fn ineligible(&self) -> impl Iterator<Item = ToolId> {
        let flags = self.admitted.iter().enumerate();
        flags
            .filter(|(_, admitted)| !**admitted)
            .map(|(index, _)| ToolId::from_index(index))
    }

    /// Returns for every tool whether it is eligible, in registration order.
    pub(crate) fn flags(&self) -> &[bool] {
        &self.admitted
    }

    /// Returns how many tools the catalog has.
    pub(crate) fn tools(&self) -> usize {
        self.admitted.len()
    }

    /// Returns how many tools are eligible; of a part of a larger catalog, how many of that, and no
    /// fewer than here, whatever is told of it.
    pub(crate) fn admitted_count(&self) -> usize {
        let here = self.admitted.len() - self.total;
        self.of_whole.map_or(here, |(tools, ineligible)| {
            here.max(tools.saturating_sub(ineligible))
        })
    }
}
