//! A shard: a catalog of some tools of a full catalog, with the same access decisions.
//!
//! Access decisions depend on tools that a shard does not hold: on all sources, all names and all
//! policies. So a shard carries these facts as [`CatalogStats`], and never treats its own tools as
//! the full catalog.

use std::borrow::Cow;
use std::sync::Arc;

use super::definitions::{AllDefinitions, Definitions, Digest, LazyTool};
use super::grouping::{Group, Grouping};
use super::options::CatalogOptions;
use super::sources::Sources;
use super::stats::{CatalogStats, PolicyGroup, ShardContext};
use super::{Catalog, Tool, ToolIds, ToolTable};
use crate::ranking::ToolId;
use crate::saved::{SavedError, TextTable};

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

/// The definitions of a shard, whose outlines are in memory.
#[derive(Debug)]
struct ShardDefinitions {
    tools: Vec<Arc<LazyTool>>,
    grouping: Arc<Grouping>,
    all: AllDefinitions,
    context: ShardContext,
}

impl Definitions for ShardDefinitions {
    fn len(&self) -> usize {
        self.tools.len()
    }

    fn id(&self, index: usize) -> &str {
        &self.tools[index].outline().id
    }

    fn outline(&self, index: usize) -> Result<&Tool, SavedError> {
        Ok(self.tools[index].outline())
    }

    fn definition(&self, index: usize) -> Result<&Arc<Tool>, SavedError> {
        let tool = &self.tools[index];
        tool.load().map_err(|reason| SavedError::Definition {
            tool: self.id(index).to_owned(),
            reason: reason.to_owned(),
        })
    }

    fn all(&self) -> Result<&[Arc<Tool>], SavedError> {
        self.all.get_or_read(self)
    }

    fn serialised(&self, index: usize) -> Result<Cow<'_, [u8]>, SavedError> {
        Ok(self.tools[index].serialised())
    }

    fn grouping(&self) -> &Arc<Grouping> {
        &self.grouping
    }

    fn memory(&self) -> usize {
        size_of_val(&*self.tools)
    }

    fn shard(&self) -> Option<&ShardContext> {
        Some(&self.context)
    }
}

impl CatalogStats {
    /// Collects the statistics of a catalog.
    ///
    /// # Errors
    ///
    /// [`SavedError`] if the definition of a saved index cannot be read.
    pub fn from_catalog(catalog: &Catalog) -> Result<Self, SavedError> {
        let grouping = catalog.grouping();
        let number =
            |index: usize| u32::try_from(index).expect("a catalog holds fewer than 2^32 tools");
        let group = |group: &Group| PolicyGroup {
            policy: number(group.policy),
            source: catalog.source_number(group.tool).map(number),
            size: group.size,
        };
        let mut policies = Vec::with_capacity(grouping.policies.len());
        for &tool in &grouping.policies {
            policies.push(policy_only(catalog.outline(tool)?));
        }
        let groups: Vec<PolicyGroup> = grouping.groups.iter().map(group).collect();
        Ok(Self {
            digest: catalog.digest().to_owned(),
            policy_sizes: PolicyGroup::sizes(&groups, policies.len()),
            policies,
            sources: Arc::clone(catalog.sources().known_sources()),
            groups,
            options: CatalogOptions {
                untrusted_sources: catalog.options.untrusted_sources.clone(),
                ..CatalogOptions::default()
            },
        })
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
        let outlines = tools.iter().map(|entry| entry.tool.outline());
        let table = ToolTable {
            ids: Arc::new(ToolIds {
                texts,
                tools: id_tools,
            }),
            sources,
            exemplified,
            digest: stats.digest.clone(),
            digests: tools.iter().map(|entry| entry.digest).collect(),
            definitions: Box::new(ShardDefinitions {
                grouping: Arc::new(Grouping::new(outlines)),
                tools: tools.iter().map(|entry| Arc::clone(&entry.tool)).collect(),
                all: AllDefinitions::default(),
                context: ShardContext {
                    stats: Arc::clone(stats),
                    nameless,
                },
            }),
        };
        Self::from_table(table, stats.options.clone())
    }

    /// Returns `true` if the full catalog has tools that this shard lacks.
    pub(crate) fn lacks_tools(&self) -> bool {
        self.shard_context()
            .is_some_and(|shard| shard.stats.tools() > self.len())
    }

    /// Returns the statistics of the full catalog, if this catalog is a shard.
    pub(crate) fn full_stats(&self) -> Option<&Arc<CatalogStats>> {
        Some(&self.shard_context()?.stats)
    }

    /// Returns `false` if a tool's bare name belongs to a tool that this shard does not hold.
    pub(crate) fn may_have_bare_name(&self, tool: ToolId) -> bool {
        self.shard_context()
            .is_none_or(|shard| shard.nameless.binary_search(&tool).is_err())
    }
}
