//! A shard: a catalog of some tools of a full catalog, with the same access decisions.
//!
//! Access decisions depend on tools that a shard does not hold: on all sources, all names and all
//! policies. So a shard carries these facts as [`CatalogStats`], and never treats its own tools as
//! the full catalog.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::definitions::{Definitions, Digest, LazyTool};
use super::options::CatalogOptions;
use super::sources::{KnownSources, Sources};
use super::{Catalog, Ids, Tool};
use crate::ranking::ToolId;
use crate::saved::TextTable;
use crate::schema::Validators;

/// The facts about a full catalog that access decisions on its shards need.
#[derive(Debug)]
pub struct CatalogStats {
    /// The digest of the full catalog.
    pub digest: String,
    /// One tool for each policy; only its policy is set.
    pub policies: Vec<Tool>,
    /// The sources of the full catalog.
    pub sources: Arc<KnownSources>,
    /// The number of tools by policy and source.
    pub groups: Vec<PolicyGroup>,
    /// The number of tools of each policy.
    pub policy_sizes: Vec<usize>,
    /// Options with the untrusted sources, which [`Catalog::unknown_values`] compares with the
    /// sources.
    pub options: CatalogOptions,
}

/// The number of tools with one policy and one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyGroup {
    /// The index of the policy.
    pub policy: u32,
    /// The index of the source.
    pub source: Option<u32>,
    /// The number of tools in the group.
    pub size: usize,
}

/// The context of a shard: its full catalog, and facts about its tools.
#[derive(Debug, Clone)]
pub(crate) struct ShardContext {
    pub(crate) stats: Arc<CatalogStats>,
    /// The untrusted tools whose bare names belong to other tools; ascending.
    nameless: Arc<[ToolId]>,
}

/// A tool of a shard.
#[derive(Debug, Clone)]
pub struct ShardTool {
    /// The definition, which is read on first use.
    pub tool: Arc<LazyTool>,
    /// The SHA-256 of the definition.
    pub digest: Digest,
    /// `true` if the bare name is the tool's own in the full catalog.
    pub has_bare_name: bool,
}

impl PolicyGroup {
    /// Returns the number of tools of each of `policies` policies.
    pub fn sizes(groups: &[Self], policies: usize) -> Vec<usize> {
        let mut sizes = vec![0; policies];
        groups
            .iter()
            .for_each(|group| sizes[group.policy as usize] += group.size);
        sizes
    }
}

impl CatalogStats {
    /// Returns the number of tools in the full catalog.
    pub fn tools(&self) -> usize {
        self.policy_sizes.iter().sum()
    }

    /// Collects the statistics of a catalog.
    pub fn from_catalog(catalog: &Catalog) -> Self {
        let grouping = catalog.grouping();
        let number =
            |index: usize| u32::try_from(index).expect("a catalog holds fewer than 2^32 tools");
        let group = |group: &super::Group| PolicyGroup {
            policy: number(group.policy),
            source: catalog.source_number(group.tool).map(number),
            size: group.size,
        };
        let policies: Vec<Tool> = grouping
            .policies
            .iter()
            .map(|&tool| policy_only(catalog.tool(tool)))
            .collect();
        let groups: Vec<PolicyGroup> = grouping.groups.iter().map(group).collect();
        Self {
            digest: catalog.digest().to_owned(),
            policy_sizes: PolicyGroup::sizes(&groups, policies.len()),
            policies,
            sources: Arc::clone(catalog.sources().known_sources()),
            groups,
            options: CatalogOptions {
                untrusted_sources: catalog.options.untrusted_sources.clone(),
                ..CatalogOptions::default()
            },
        }
    }
}

/// Returns a tool with the policy of `tool`, and nothing else.
fn policy_only(tool: &Tool) -> Tool {
    Tool {
        safe: tool.safe,
        annotations: tool.annotations.clone(),
        safety: tool.safety.clone(),
        allowed_roles: tool.allowed_roles.clone(),
        modes: tool.modes.clone(),
        capabilities: tool.capabilities.clone(),
        cost: tool.cost,
        untrusted: tool.untrusted,
        ..Tool::without_arguments("policy", "")
    }
}

impl Catalog {
    /// Makes a catalog of some tools of a full catalog, in the order of the full catalog.
    pub fn shard(stats: &Arc<CatalogStats>, tools: Vec<ShardTool>) -> Self {
        let mut ids = Vec::with_capacity(tools.len());
        let (mut exemplified, mut nameless) = (Vec::new(), Vec::new());
        for (index, entry) in tools.iter().enumerate() {
            let (id, outline) = (ToolId::from_index(index), entry.tool.outline());
            ids.push((outline.id.as_str(), id.0));
            if !outline.examples.is_empty() {
                exemplified.push(id);
            }
            if outline.untrusted && !entry.has_bare_name {
                nameless.push(id);
            }
        }
        let (texts, id_tools) = TextTable::new(ids);
        let sources = tools
            .iter()
            .map(|entry| entry.tool.outline().source.as_deref());
        let sources = Sources::among(&stats.sources, sources);
        let fault = Arc::new(OnceLock::new());
        Self {
            ids: Arc::new(Ids {
                texts,
                tools: id_tools,
            }),
            sources: Arc::new(sources),
            exemplified: exemplified.into(),
            digest: stats.digest.clone(),
            digests: tools.iter().map(|entry| entry.digest).collect(),
            notices: Vec::new(),
            validators: Arc::new(Validators::new(None)),
            options: stats.options.clone(),
            grouping: Arc::default(),
            shard: Some(ShardContext {
                stats: Arc::clone(stats),
                nameless: nameless.into(),
            }),
            definitions: Definitions::lazy(
                tools.into_iter().map(|entry| entry.tool).collect(),
                &fault,
            ),
            saved: None,
            fault,
        }
    }

    /// Returns `true` if the full catalog has tools that this shard lacks.
    pub(crate) fn lacks_tools(&self) -> bool {
        self.shard
            .as_ref()
            .is_some_and(|shard| shard.stats.tools() > self.len())
    }

    /// Returns the statistics of the full catalog, if this catalog is a shard.
    pub(crate) fn full_stats(&self) -> Option<&Arc<CatalogStats>> {
        Some(&self.shard.as_ref()?.stats)
    }

    /// Returns `false` if a tool's bare name belongs to a tool that this shard does not hold.
    pub(crate) fn may_have_bare_name(&self, tool: ToolId) -> bool {
        self.shard
            .as_ref()
            .is_none_or(|shard| shard.nameless.binary_search(&tool).is_err())
    }
}
