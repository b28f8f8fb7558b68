//! What a snapshot says of all its tools, and how that lies in a store.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use picktools::catalog::{
    CatalogOptions, Conflicts, KnownSources, Tool, Whole, WholeGroup, policy,
};
use picktools::embed::Embedder;
use picktools::saved::fnv1a;
use picktools::shard::Counts;

/// The version of how a catalog lies in a store. A process reads no other.
pub(super) const FORMAT: u32 = 3;

/// Which snapshot is the current one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Current {
    pub(crate) format: u32,
    /// The part of the keyspace that it lies in.
    pub(crate) generation: u64,
    /// Grows with each publication of the tenant, whatever generation it is in.
    pub(crate) version: u64,
    /// Digest of the catalog.
    pub(crate) catalog: String,
    pub(crate) tools: usize,
    /// When it was published, in milliseconds since 1970.
    pub(crate) published: u64,
}

impl Current {
    /// Whether this program can read it.
    pub(super) fn is_readable(&self) -> bool {
        self.format == FORMAT
    }
}

/// What a snapshot says of all its tools.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    pub(crate) current: Current,
    /// By what the vectors are, in the order of the rows, each with its dimensions.
    pub(crate) models: Vec<(String, usize)>,
    /// In how many parts the counts of terms lie.
    pub(crate) buckets: u64,
    pub(crate) counts: Counts,
    policies: Vec<Tool>,
    sources: Vec<String>,
    groups: Vec<WholeGroup>,
    untrusted_sources: std::collections::BTreeSet<String>,
}

impl Head {
    pub(super) fn new(
        current: Current,
        models: &[Arc<dyn Embedder>],
        buckets: u64,
        whole: &Whole,
        counts: Counts,
    ) -> Self {
        Self {
            current,
            models: models
                .iter()
                .map(|model| (model.identity().to_owned(), model.dimensions()))
                .collect(),
            buckets,
            counts,
            policies: whole.policies.clone(),
            sources: whole.sources.names().to_vec(),
            groups: whole.groups.clone(),
            untrusted_sources: whole.options.untrusted_sources.clone(),
        }
    }

    /// Returns what decisions on parts of the catalog rest on, if the numbers make sense together.
    pub(super) fn whole(&self) -> Result<Whole, String> {
        let is_known = |group: &WholeGroup| {
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
            return Err("the numbers of its tools do not agree".to_owned());
        }
        if self.buckets == 0 {
            return Err("its counts lie nowhere".to_owned());
        }
        Ok(Whole {
            digest: self.current.catalog.clone(),
            policies: self.policies.clone(),
            sources: Arc::new(KnownSources::new(self.sources.clone())),
            of_policies: WholeGroup::sizes(&self.groups, self.policies.len()),
            groups: self.groups.clone(),
            // What is added to it is another's, and takes nothing away.
            options: CatalogOptions {
                conflicts: Conflicts::Warn,
                untrusted_sources: self.untrusted_sources.clone(),
                ..CatalogOptions::default()
            },
        })
    }

    /// Returns the part in which the count of a term lies.
    pub(super) fn bucket(&self, term: u64) -> u64 {
        term % self.buckets
    }
}

/// By what tools are found that are decided on alike.
pub(super) fn policy_tag(tool: &Tool) -> u64 {
    fnv1a(&format!("{:?}", policy(tool)))
}

/// By what tools of a source are found.
pub(super) fn source_tag(source: Option<&str>) -> u64 {
    source.map_or(0, fnv1a)
}

/// What is known of a snapshot in a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SnapshotStatus {
    /// The part of the keyspace that it lies in.
    pub generation: u64,
    /// Its number.
    pub version: u64,
    /// Digest of the catalog.
    pub catalog: String,
    /// How many tools it holds.
    pub tools: usize,
    /// When it was published, in milliseconds since 1970.
    pub published: u64,
}

impl From<&Current> for SnapshotStatus {
    fn from(current: &Current) -> Self {
        let Current {
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
