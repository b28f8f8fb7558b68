//! Who may see what: the one decision that picking and running share.
//!
//! [`Limits::verdict`] decides on a tool's policy data. Catalogs have many tools and few different policies, so
//! [`PolicyTable`] groups tools of equal policy once, and a pick decides once a group instead of once a tool.
//! What a caller excludes by name is added tool by tool. An ineligible tool is never scored, uses up no depth,
//! and is reported with every reason that applies to it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use crate::catalog::{Catalog, Tool};
use crate::ranking::ToolId;

/// The most ineligible tools that an outcome lists one by one.
pub const MAX_LISTED_INELIGIBLE: usize = 50;

/// Why a tool may not be seen.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "code", rename_all = "snake_case")]
#[non_exhaustive]
pub enum IneligibleReason {
    /// The tool is marked unsafe, and unsafe tools were not allowed.
    Unsafe,
    /// None of the caller's roles may see the tool.
    Role {
        /// The roles that may.
        allowed: BTreeSet<String>,
    },
    /// The tool does not fit the execution mode.
    ExecutionMode {
        /// The modes that it fits.
        modes: BTreeSet<String>,
    },
    /// The tool lacks a capability that was asked for.
    Capability {
        /// What it lacks.
        missing: BTreeSet<String>,
    },
    /// A call costs more than is left.
    Cost {
        /// Cost of a call.
        cost: f64,
        /// What is left.
        left: f64,
    },
    /// The tool's quota is used up.
    Quota,
    /// The tool's source is denied, or is not among those allowed.
    Source {
        /// The tool's source.
        source: Option<String>,
    },
    /// The caller excluded the tool by name.
    Excluded,
}

impl IneligibleReason {
    /// Returns the reason's stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unsafe => "unsafe",
            Self::Role { .. } => "role",
            Self::ExecutionMode { .. } => "execution_mode",
            Self::Capability { .. } => "capability",
            Self::Cost { .. } => "cost",
            Self::Quota => "quota",
            Self::Source { .. } => "source",
            Self::Excluded => "excluded",
        }
    }

    /// Returns the reason as a sentence's end: "the tool is …".
    pub fn describe(&self) -> String {
        let list = |items: &BTreeSet<String>| items.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        match self {
            Self::Unsafe => "marked unsafe, and unsafe tools are not allowed".to_owned(),
            Self::Role { allowed } => format!("only for the roles {}", list(allowed)),
            Self::ExecutionMode { modes } => format!("only for the execution modes {}", list(modes)),
            Self::Capability { missing } => format!("without the capabilities {}", list(missing)),
            Self::Cost { cost, left } => format!("too costly: a call costs {cost}, and {left} is left"),
            Self::Quota => "out of quota".to_owned(),
            Self::Source { source } => {
                format!("from a source that is not allowed: {}", source.as_deref().unwrap_or("none"))
            }
            Self::Excluded => "excluded by the caller".to_owned(),
        }
    }
}

/// What a caller may see. Sources match by exact name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    pub(crate) allow_unsafe: bool,
    pub(crate) roles: BTreeSet<String>,
    pub(crate) execution_mode: Option<String>,
    pub(crate) capabilities: BTreeSet<String>,
    pub(crate) max_cost: Option<f64>,
    pub(crate) allow_sources: BTreeSet<String>,
    pub(crate) deny_sources: BTreeSet<String>,
}

impl Limits {
    /// Returns every reason why `tool` may not be seen; none means that it may.
    ///
    /// A tool without a cost costs nothing. An empty set of allowed sources allows all.
    pub(crate) fn verdict(&self, tool: &Tool) -> Vec<IneligibleReason> {
        let mut reasons = Vec::new();
        if tool.is_unsafe() && !self.allow_unsafe {
            reasons.push(IneligibleReason::Unsafe);
        }
        if !tool.allowed_roles.is_empty() && tool.allowed_roles.is_disjoint(&self.roles) {
            reasons.push(IneligibleReason::Role { allowed: tool.allowed_roles.clone() });
        }
        if let Some(mode) = &self.execution_mode
            && !tool.modes.is_empty()
            && !tool.modes.contains(mode)
        {
            reasons.push(IneligibleReason::ExecutionMode { modes: tool.modes.clone() });
        }
        let missing: BTreeSet<String> = self.capabilities.difference(&tool.capabilities).cloned().collect();
        if !missing.is_empty() {
            reasons.push(IneligibleReason::Capability { missing });
        }
        if let (Some(cost), Some(left)) = (tool.cost, self.max_cost)
            && cost > left
        {
            reasons.push(IneligibleReason::Cost { cost, left });
        }
        let among = |sources: &BTreeSet<String>| tool.source.as_ref().is_some_and(|source| sources.contains(source));
        if among(&self.deny_sources) || (!self.allow_sources.is_empty() && !among(&self.allow_sources)) {
            reasons.push(IneligibleReason::Source { source: tool.source.clone() });
        }
        reasons
    }
}

/// The tools of a catalog grouped by equal policy.
#[derive(Debug)]
pub(crate) struct PolicyTable {
    /// Group of each tool.
    group: Vec<u32>,
    /// A tool of each group, which stands for it, and the group's size.
    groups: Vec<(ToolId, usize)>,
    sources: usize,
}

impl PolicyTable {
    pub(crate) fn new(catalog: &Catalog) -> Self {
        let mut numbers = HashMap::new();
        let mut groups: Vec<(ToolId, usize)> = Vec::new();
        let mut sources = BTreeSet::new();
        let mut group = Vec::with_capacity(catalog.len());
        for (id, tool) in catalog.ids().zip(catalog.tools()) {
            sources.insert(&tool.source);
            let policy = (
                &tool.source,
                tool.is_unsafe(),
                &tool.allowed_roles,
                &tool.modes,
                &tool.capabilities,
                tool.cost.map(f64::to_bits),
            );
            let number = *numbers.entry(policy).or_insert_with(|| {
                groups.push((id, 0));
                groups.len() - 1
            });
            groups[number].1 += 1;
            group.push(u32::try_from(number).expect("no more groups than tools"));
        }
        Self { group, groups, sources: sources.len() }
    }

    /// Returns the number of different sources.
    pub(crate) fn sources(&self) -> usize {
        self.sources
    }

    /// Decides on every tool of `catalog`; `by_tool` holds what the caller excludes one by one.
    pub(crate) fn decide(
        &self,
        catalog: &Catalog,
        limits: &Limits,
        by_tool: &BTreeMap<ToolId, Vec<IneligibleReason>>,
    ) -> Eligibility {
        let verdicts: Vec<Vec<IneligibleReason>> =
            self.groups.iter().map(|(tool, _)| limits.verdict(catalog.tool(*tool))).collect();
        let mut admitted: Vec<bool> = self.group.iter().map(|&group| verdicts[group as usize].is_empty()).collect();
        let mut counts = BTreeMap::new();
        let mut count = |reasons: &[IneligibleReason], tools: usize| {
            for reason in reasons {
                *counts.entry(reason.code()).or_insert(0) += tools;
            }
        };
        for ((_, size), reasons) in self.groups.iter().zip(&verdicts) {
            count(reasons, *size);
        }
        for (tool, reasons) in by_tool {
            count(reasons, 1);
            admitted[tool.index()] = false;
        }
        let total = admitted.iter().filter(|admitted| !**admitted).count();
        let mut eligibility = Eligibility { admitted, total, counts, listed: Vec::new() };
        let ineligible = catalog.ids().filter(|id| !eligibility.admits(*id)).take(MAX_LISTED_INELIGIBLE);
        eligibility.listed = ineligible.map(|id| (id, self.reasons(id, &verdicts, by_tool))).collect();
        eligibility
    }

    fn reasons(
        &self,
        tool: ToolId,
        verdicts: &[Vec<IneligibleReason>],
        by_tool: &BTreeMap<ToolId, Vec<IneligibleReason>>,
    ) -> Vec<IneligibleReason> {
        let group = &verdicts[self.group[tool.index()] as usize];
        group.iter().chain(by_tool.get(&tool).into_iter().flatten()).cloned().collect()
    }
}

/// The decision on every tool of a catalog.
#[derive(Debug)]
pub(crate) struct Eligibility {
    admitted: Vec<bool>,
    /// How many tools are ineligible.
    pub(crate) total: usize,
    /// How many tools each reason applies to; a tool with two reasons counts under both.
    pub(crate) counts: BTreeMap<&'static str, usize>,
    /// The first [`MAX_LISTED_INELIGIBLE`], with every reason.
    pub(crate) listed: Vec<(ToolId, Vec<IneligibleReason>)>,
}

impl Eligibility {
    /// Admits exactly these tools of a catalog of `tools` tools.
    pub(crate) fn only(admitted: &[ToolId], tools: usize) -> Self {
        let mut flags = vec![false; tools];
        admitted.iter().for_each(|tool| flags[tool.index()] = true);
        let total = flags.iter().filter(|admitted| !**admitted).count();
        Self { admitted: flags, total, counts: BTreeMap::new(), listed: Vec::new() }
    }

    /// Tells whether the tool may be seen.
    pub(crate) fn admits(&self, tool: ToolId) -> bool {
        self.admitted[tool.index()]
    }

    /// Returns the tools that may be seen, in registration order.
    pub(crate) fn admitted(&self) -> impl Iterator<Item = ToolId> {
        self.admitted.iter().enumerate().filter(|(_, admitted)| **admitted).map(|(index, _)| ToolId::from_index(index))
    }

    /// Tells of every tool whether it may be seen, in registration order.
    pub(crate) fn flags(&self) -> &[bool] {
        &self.admitted
    }

    /// Returns how many tools the catalog has.
    pub(crate) fn tools(&self) -> usize {
        self.admitted.len()
    }

    /// Returns how many tools may be seen.
    pub(crate) fn admitted_count(&self) -> usize {
        self.admitted.len() - self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, change: impl FnOnce(&mut Tool)) -> Tool {
        let mut tool = Tool::new(name, "");
        change(&mut tool);
        tool
    }

    fn set(items: &[&str]) -> BTreeSet<String> {
        items.iter().map(|&item| item.to_owned()).collect()
    }

    fn codes(limits: &Limits, tool: &Tool) -> Vec<&'static str> {
        limits.verdict(tool).iter().map(IneligibleReason::code).collect()
    }

    #[test]
    fn every_reason_applies_alone_and_together() {
        let dangerous = tool("a", |t| t.annotations.destructive_hint = Some(true));
        let hidden = tool("b", |t| {
            t.safe = Some(false);
            t.allowed_roles = set(&["admin"]);
            t.modes = set(&["batch"]);
            t.cost = Some(2.0);
            t.source = Some("mail".into());
        });
        let limits = Limits {
            execution_mode: Some("interactive".into()),
            capabilities: set(&["streaming"]),
            max_cost: Some(1.0),
            deny_sources: set(&["mail"]),
            ..Limits::default()
        };
        assert_eq!(codes(&Limits::default(), &dangerous), ["unsafe"]);
        assert_eq!(codes(&limits, &hidden), ["unsafe", "role", "execution_mode", "capability", "cost", "source"]);
        let generous = Limits { allow_unsafe: true, roles: set(&["admin", "user"]), ..Limits::default() };
        assert!(codes(&generous, &dangerous).is_empty() && codes(&generous, &hidden).is_empty());
    }

    #[test]
    fn a_hint_only_tightens_and_an_absent_one_is_unknown() {
        assert!(
            tool("a", |t| {
                t.safe = Some(true);
                t.annotations.destructive_hint = Some(true);
            })
            .is_unsafe()
        );
        assert!(!tool("a", |t| t.annotations.read_only_hint = Some(false)).is_unsafe());
        assert!(!tool("a", |_| ()).is_unsafe());
    }

    #[test]
    fn the_table_decides_as_each_verdict_does_and_counts_all() {
        let tools: Vec<Tool> = (0..120)
            .map(|i| {
                tool(&format!("t{i}"), |t| {
                    t.safe = (i % 3 == 0).then_some(false);
                    t.allowed_roles = if i % 2 == 0 { set(&["admin"]) } else { set(&[]) };
                })
            })
            .collect();
        let catalog = Catalog::from_tools(tools).expect("valid");
        let limits = Limits::default();
        let excluded = BTreeMap::from([(ToolId::from_index(1), vec![IneligibleReason::Excluded])]);
        let decided = PolicyTable::new(&catalog).decide(&catalog, &limits, &excluded);
        for id in catalog.ids() {
            let naive = limits.verdict(catalog.tool(id)).is_empty() && !excluded.contains_key(&id);
            assert_eq!(decided.admits(id), naive);
        }
        assert_eq!(decided.counts, BTreeMap::from([("excluded", 1), ("role", 60), ("unsafe", 40)]));
        assert_eq!((decided.total, decided.listed.len()), (81, MAX_LISTED_INELIGIBLE));
        assert_eq!(decided.listed[0].1.len(), 2);
    }
}
