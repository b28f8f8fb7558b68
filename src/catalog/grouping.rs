//! Tools of a catalog grouped by policy and source, so that one decision covers a group.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::definition::Tool;
use crate::ranking::ToolId;
use crate::saved::{SavedError, SavedFile, Writer};

/// The tools of a catalog grouped by equal policy and source.
#[derive(Debug)]
pub(crate) struct Grouping {
    /// The group of each tool.
    pub(crate) group_by_tool: Arc<[u32]>,
    pub(crate) groups: Vec<Group>,
    /// One tool for each policy, which represents it.
    pub(crate) policies: Vec<ToolId>,
}

/// Tools with one policy and one source.
#[derive(Debug)]
pub(crate) struct Group {
    /// A tool that represents the group.
    pub(crate) tool: ToolId,
    pub(crate) policy: usize,
    pub(crate) size: usize,
}

const GROUP_BY_TOOL: &str = "policies.group-of";
const GROUPS: &str = "policies.groups";
const POLICIES: &str = "policies.tools";

/// Returns the policy of a tool as a comparable key. Tools with equal keys get equal decisions,
/// apart from their sources.
pub fn policy(tool: &Tool) -> impl Eq + Hash + Debug {
    (
        tool.is_unsafe(),
        tool.threat_level(),
        &tool.allowed_roles,
        &tool.modes,
        tool.effects(),
        &tool.capabilities,
        tool.cost.map(f64::to_bits),
    )
}

impl Grouping {
    pub(super) fn new<'t>(outlines: impl Iterator<Item = &'t Tool>) -> Self {
        let (mut numbers, mut policy_numbers) = (HashMap::new(), HashMap::new());
        let (mut groups, mut policies): (Vec<Group>, Vec<ToolId>) = (Vec::new(), Vec::new());
        let mut group_by_tool = Vec::with_capacity(outlines.size_hint().0);
        for (index, tool) in outlines.enumerate() {
            let id = ToolId::from_index(index);
            let policy = *policy_numbers.entry(policy(tool)).or_insert_with(|| {
                policies.push(id);
                policies.len() - 1
            });
            let number = *numbers.entry((policy, &tool.source)).or_insert_with(|| {
                groups.push(Group {
                    tool: id,
                    policy,
                    size: 0,
                });
                groups.len() - 1
            });
            groups[number].size += 1;
            group_by_tool.push(u32::try_from(number).expect("no more groups than tools"));
        }
        Self {
            group_by_tool: group_by_tool.into(),
            groups,
            policies,
        }
    }

    pub(super) fn save(&self, writer: &mut Writer) -> Result<(), SavedError> {
        let number = |index: usize| u32::try_from(index).expect("no more groups than tools");
        writer.numbers(GROUP_BY_TOOL, &self.group_by_tool)?;
        let groups: Vec<u32> = self
            .groups
            .iter()
            .flat_map(|group| [group.tool.0, number(group.policy)])
            .collect();
        writer.numbers(GROUPS, &groups)?;
        let policies: Vec<u32> = self.policies.iter().map(|tool| tool.0).collect();
        writer.numbers(POLICIES, &policies)
    }

    pub(super) fn open(file: &SavedFile, tools: usize) -> Result<Self, SavedError> {
        let group_by_tool: Vec<u32> = file.numbers(GROUP_BY_TOOL)?;
        let pairs: Vec<u32> = file.numbers(GROUPS)?;
        let policies: Vec<u32> = file.numbers(POLICIES)?;
        let (pairs, rest) = pairs.as_chunks::<2>();
        let is_tool = |tool: u32| (tool as usize) < tools;
        let is_valid = group_by_tool.len() == tools
            && rest.is_empty()
            && group_by_tool
                .iter()
                .all(|&group| (group as usize) < pairs.len())
            && pairs
                .iter()
                .all(|&[tool, policy]| is_tool(tool) && (policy as usize) < policies.len())
            && policies.iter().all(|&tool| is_tool(tool));
        file.ensure(is_valid, GROUPS)?;
        let group = |&[tool, policy]: &[u32; 2]| Group {
            tool: ToolId(tool),
            policy: policy as usize,
            size: 0,
        };
        let mut groups: Vec<Group> = pairs.iter().map(group).collect();
        for &group in &group_by_tool {
            groups[group as usize].size += 1;
        }
        Ok(Self {
            group_by_tool: group_by_tool.into(),
            groups,
            policies: policies.into_iter().map(ToolId).collect(),
        })
    }
}
