//! A catalog of some tools of a larger one, which is decided on as the larger one would be.
//!
//! What a name permits, which tool a bare name belongs to and which roles there are depends on
//! tools that a part does not hold. So a part knows of the whole what such decisions rest on, and
//! never takes its own tools for all.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::definitions::{Definitions, Digest, LazyTool};
use super::options::CatalogOptions;
use super::sources::{Known, Sources};
use super::{Catalog, Ids, Tool};
use crate::ranking::ToolId;
use crate::saved::Texts;
use crate::schema::Validators;

/// What decisions on a part of a catalog rest on.
#[derive(Debug)]
pub struct Whole {
    /// The digest of the whole.
    pub digest: String,
    /// A tool of each policy, without anything else.
    pub policies: Vec<Tool>,
    /// Sources of the catalog.
    pub sources: Arc<Known>,
    /// Tools grouped by policy and source.
    pub groups: Vec<WholeGroup>,
    /// How many tools each policy has.
    pub of_policies: Vec<usize>,
    /// The untrusted sources, which unknown values are told of.
    pub options: CatalogOptions,
}

/// How many tools of one policy and one source there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WholeGroup {
    /// The number of the policy.
    pub policy: u32,
    /// The number of the source.
    pub source: Option<u32>,
    /// Number of tools in the group.
    pub size: usize,
}

/// What makes a catalog a part of another.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) whole: Arc<Whole>,
    /// The untrusted tools that do not have their bare names; ascending.
    nameless: Arc<[ToolId]>,
}

/// A tool of a part.
#[derive(Debug, Clone)]
pub struct PartTool {
    /// The definition, which is read when it is needed.
    pub tool: Arc<LazyTool>,
    /// SHA-256 of the definition.
    pub digest: Digest,
    /// Whether the bare name is its own, as the whole has it.
    pub has_bare_name: bool,
}

impl WholeGroup {
    /// Adds up how many tools each of so many policies has.
    pub fn sizes(groups: &[Self], policies: usize) -> Vec<usize> {
        let mut sizes = vec![0; policies];
        groups
            .iter()
            .for_each(|group| sizes[group.policy as usize] += group.size);
        sizes
    }
}

impl Whole {
    /// Returns how many tools there are.
    pub fn tools(&self) -> usize {
        self.of_policies.iter().sum()
    }

    /// Says of a catalog what decisions on its parts rest on.
    pub fn of(catalog: &Catalog) -> Self {
        let grouping = catalog.grouping();
        let number =
            |number: usize| u32::try_from(number).expect("a catalog holds fewer than 2^32 tools");
        let group = |group: &super::Group| WholeGroup {
            policy: number(group.policy),
            source: catalog.source_number(group.tool).map(number),
            size: group.size,
        };
        let policies: Vec<Tool> = grouping
            .policies
            .iter()
            .map(|&tool| policy_of(catalog.tool(tool)))
            .collect();
        let groups: Vec<WholeGroup> = grouping.groups.iter().map(group).collect();
        Self {
            digest: catalog.digest().to_owned(),
            of_policies: WholeGroup::sizes(&groups, policies.len()),
            policies,
            sources: Arc::clone(catalog.sources().known()),
            groups,
            options: CatalogOptions {
                untrusted_sources: catalog.options.untrusted_sources.clone(),
                ..CatalogOptions::default()
            },
        }
    }
}

/// Returns a tool that is decided on as `tool` is, wherever it comes from.
fn policy_of(tool: &Tool) -> Tool {
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
    /// Makes a catalog of some tools of a larger one, in the order of that.
    pub fn part(whole: &Arc<Whole>, tools: Vec<PartTool>) -> Self {
        let places = || (0..tools.len()).map(ToolId::from_index);
        let outlines = || tools.iter().map(|part| part.tool.outline());
        let (texts, of) = Texts::new(
            outlines()
                .zip(places())
                .map(|(tool, id)| (tool.id.as_str(), id.0))
                .collect(),
        );
        let nameless = tools
            .iter()
            .zip(places())
            .filter(|(part, _)| part.tool.outline().untrusted && !part.has_bare_name);
        let fault = Arc::new(OnceLock::new());
        Self {
            ids: Arc::new(Ids { texts, tools: of }),
            sources: Arc::new(Sources::among(
                &whole.sources,
                outlines().map(|tool| tool.source.as_deref()),
            )),
            exemplified: outlines()
                .zip(places())
                .filter(|(tool, _)| !tool.examples.is_empty())
                .map(|(_, id)| id)
                .collect(),
            digest: whole.digest.clone(),
            digests: tools.iter().map(|part| part.digest).collect(),
            notices: Vec::new(),
            validators: Arc::new(Validators::new(None)),
            options: whole.options.clone(),
            grouping: Arc::default(),
            part: Some(Part {
                whole: Arc::clone(whole),
                nameless: nameless.map(|(_, id)| id).collect(),
            }),
            definitions: Definitions::lazy(
                tools.into_iter().map(|part| part.tool).collect(),
                &fault,
            ),
            saved: None,
            fault,
        }
    }

    /// Whether it is a part of a catalog that has more tools.
    pub(crate) fn lacks_tools(&self) -> bool {
        self.part
            .as_ref()
            .is_some_and(|part| part.whole.tools() > self.len())
    }

    /// Returns what this catalog is a part of.
    pub(crate) fn whole(&self) -> Option<&Arc<Whole>> {
        self.part.as_ref().map(|part| &part.whole)
    }

    /// Returns `true` if a tool's bare name may be its own, as far as tools are concerned that this
    /// catalog does not hold.
    pub(crate) fn may_have_bare_name(&self, tool: ToolId) -> bool {
        self.part
            .as_ref()
            .is_none_or(|part| part.nameless.binary_search(&tool).is_err())
    }
}
