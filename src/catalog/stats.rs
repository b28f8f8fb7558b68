//! The facts about a full catalog that its shards carry.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::definition::Tool;
use super::options::CatalogOptions;
use super::sources::KnownSources;
use crate::ranking::ToolId;

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
    /// Options with the untrusted sources, which [`Catalog::unknown_values`](super::Catalog::unknown_values) compares with the
    /// sources.
    pub options: CatalogOptions,
}

impl CatalogStats {
    /// Returns the number of tools in the full catalog.
    pub fn tools(&self) -> usize {
        self.policy_sizes.iter().sum()
    }
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
#[derive(Debug)]
pub(crate) struct ShardContext {
    pub(crate) stats: Arc<CatalogStats>,
    /// The untrusted tools whose bare names belong to other tools; ascending.
    pub(super) nameless: Vec<ToolId>,
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
