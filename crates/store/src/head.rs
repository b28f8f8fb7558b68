//! The head of a snapshot: the data about all its tools, and its form in a store.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use picktools::catalog::{
    CatalogOptions, CatalogStats, Conflicts, KnownSources, PolicyGroup, Tool, policy,
};
use picktools::embed::Embedder;
use picktools::saved::fnv1a;
use picktools::shard::SnapshotCounts;

/// The version of the store format. A process reads no other version.
pub(super) const FORMAT: u32 = 3;

/// The identity of the current snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CurrentSnapshot {
    pub(crate) format: u32,
    /// The part of the keyspace that contains the snapshot.
    pub(crate) generation: u64,
    /// A number that grows with each publication of the tenant, in every generation.
    pub(crate) version: u64,
    /// The digest of the catalog.
    pub(crate) catalog: String,
    pub(crate) tools: usize,
    /// The time of the publication, in milliseconds since 1970.
    pub(crate) published: u64,
}

impl CurrentSnapshot {
    /// Returns `true` if this program can read the snapshot.
    pub(super) fn is_readable(&self) -> bool {
        self.format == FORMAT
    }
}

/// The data of a snapshot about all its tools.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotHead {
    pub(crate) current: CurrentSnapshot,
    /// The models of the vectors and their dimensions, in the order of the rows.
    pub(crate) models: Vec<(String, usize)>,
    /// The number of buckets for the counts of terms.
    pub(crate) buckets: u64,
    pub(crate) counts: SnapshotCounts,
    policies: Vec<Tool>,
    sources: Vec<String>,
    groups: Vec<PolicyGroup>,
    untrusted_sources: std::collections::BTreeSet<String>,
}

impl SnapshotHead {
    pub(super) fn new(
        current: CurrentSnapshot,
        models: &[Arc<dyn Embedder>],
        buckets: u64,
        stats: &CatalogStats,
        counts: SnapshotCounts,
    ) -> Self {
        Self {
            current,
            models: models
                .iter()
                .map(|model| (model.identity().to_owned(), model.dimensions()))
                .collect(),
            buckets,
            counts,
            policies: stats.policies.clone(),
            sources: stats.sources.names().to_vec(),
            groups: stats.groups.clone(),
            untrusted_sources: stats.options.untrusted_sources.clone(),
        }
    }

    /// Returns the statistics of the complete catalog, or an error if the numbers are inconsistent.
    pub(super) fn catalog_stats(&self) -> Result<CatalogStats, String> {
        let is_known = |group: &PolicyGroup| {
            (group.policy as usize) < self.policies.len()
                && group
                    .source
                    .is_none_or(|source| (source as usize) < self.sources.len())
        };
        let tools = self
            .groups
            .iter()
            .try_fold(0_usize, |sum, group| sum.checked_add(group.size));
        if !self.groups.iter().all(is_known)
            || tools != Some(self.counts.tools)
            || self.counts.tools != self.current.tools
        {
            return Err("the numbers of tools are inconsistent".to_owned());
        }
        if self.buckets == 0 {
            return Err("the number of count buckets is 0".to_owned());
        }
        Ok(CatalogStats {
            digest: self.current.catalog.clone(),
            policies: self.policies.clone(),
            sources: Arc::new(KnownSources::new(self.sources.clone())),
            policy_sizes: PolicyGroup::sizes(&self.groups, self.policies.len()),
            groups: self.groups.clone(),
            // Tools that are added later belong to other sources, and cannot displace these.
            options: CatalogOptions {
                conflicts: Conflicts::Warn,
                untrusted_sources: self.untrusted_sources.clone(),
                ..CatalogOptions::default()
            },
        })
    }

    /// Returns the bucket of the counts of a term.
    pub(super) fn bucket(&self, term: u64) -> u64 {
        term % self.buckets
    }
}

/// Returns the hash of the policy of a tool. Tools with the same policy get the same access
/// decision.
pub(super) fn policy_tag(tool: &Tool) -> u64 {
    fnv1a(&format!("{:?}", policy(tool)))
}

/// Returns the hash of a source.
pub(super) fn source_tag(source: Option<&str>) -> u64 {
    source.map_or(0, fnv1a)
}

/// The identity and size of a snapshot in a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SnapshotStatus {
    /// The part of the keyspace that contains the snapshot.
    pub generation: u64,
    /// The version of the snapshot.
    pub version: u64,
    /// The digest of the catalog.
    pub catalog: String,
    /// The number of tools.
    pub tools: usize,
    /// The time of the publication, in milliseconds since 1970.
    pub published: u64,
}

impl From<&CurrentSnapshot> for SnapshotStatus {
    fn from(current: &CurrentSnapshot) -> Self {
        let CurrentSnapshot {
            generation,
            version,
            catalog,
            tools,
            published,
            ..
        } = current.clone();
        Self {
            generation,
            version,
            catalog,
            tools,
            published,
        }
    }
}
