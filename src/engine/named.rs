//! The tools that the request, the caller or the task names.

use std::collections::{BTreeMap, BTreeSet};

use crate::access::{Eligibility, resolve_tools};
use crate::catalog::Catalog;
use crate::index::Index;
use crate::names::{Mention, NameTable};
use crate::options::{MAX_IN_USE, PickError, PickOptions};
use crate::query::Query;
use crate::ranking::ToolId;
use crate::saved::SavedError;

/// The tools that the request, the caller or the task names, eligible or not.
#[derive(Debug, Default)]
pub(super) struct NamedTools {
    /// Tools that the request mentions.
    pub(super) mentions: Vec<Mention>,
    /// Tools that the caller always includes, with their names: the eligible tools that a glob
    /// matches, and all tools that are named.
    pub(super) always: BTreeMap<ToolId, String>,
    /// Tools that the caller includes if no other tool fits, like `always`.
    pub(super) fallbacks: BTreeMap<ToolId, String>,
    /// Tools in use.
    pub(super) in_use: ToolsInUse,
}

impl NamedTools {
    /// Resolves all names.
    pub(super) fn resolve(
        index: &Index,
        eligibility: &Eligibility,
        query: &Query,
        options: &PickOptions,
    ) -> Result<Self, PickError> {
        let resolve = |option, names| resolve_included(index, eligibility, option, names);
        Ok(Self {
            always: resolve("always_include", &options.always_include)?,
            fallbacks: resolve("fallbacks", &options.fallbacks)?,
            mentions: index.names.mentions(query.user_text(), &index.catalog),
            in_use: ToolsInUse::new(&index.names, &index.catalog, query, options)?,
        })
    }

    /// Returns the tools that are mentioned or always included.
    pub(super) fn mandatory(&self) -> BTreeSet<ToolId> {
        let mentioned = self.mentions.iter().map(|mention| mention.tool);
        mentioned.chain(self.always.keys().copied()).collect()
    }

    /// Returns the name by which the request mentions the tool.
    pub(super) fn mention(&self, tool: ToolId) -> Option<&str> {
        let mut mentions = self.mentions.iter();
        let mention = mentions.find(|mention| mention.tool == tool)?;
        Some(&mention.name)
    }
}

/// The tools that a task has called so far.
#[derive(Debug, Default)]
pub(super) struct ToolsInUse {
    /// The latest [`MAX_IN_USE`] tools, each with the name of its last call.
    pub(super) tools: BTreeMap<ToolId, String>,
    /// Tools that were called earlier, the latest first.
    pub(super) surplus: Vec<ToolId>,
    /// Names that are not in the catalog, the latest first.
    pub(super) unknown: Vec<String>,
}

impl ToolsInUse {
    /// Resolves the caller's names, then those of the transcript, each from the latest on.
    fn new(
        names: &NameTable,
        catalog: &Catalog,
        query: &Query,
        options: &PickOptions,
    ) -> Result<Self, SavedError> {
        let mut in_use = Self::default();
        for name in options
            .in_use
            .iter()
            .rev()
            .chain(query.called().iter().rev())
        {
            let mut is_known = false;
            for tool in names.possible_tools(name, catalog)? {
                is_known = true;
                if in_use.tools.contains_key(&tool) || in_use.surplus.contains(&tool) {
                    continue;
                }
                if in_use.tools.len() < MAX_IN_USE {
                    in_use.tools.insert(tool, name.clone());
                } else {
                    in_use.surplus.push(tool);
                }
            }
            if !is_known && !in_use.unknown.contains(name) {
                in_use.unknown.push(name.clone());
            }
        }
        Ok(in_use)
    }
}

/// Returns the tools of an option, with the caller's names for them. A glob stands for the eligible
/// tools that it matches.
fn resolve_included(
    index: &Index,
    eligibility: &Eligibility,
    option: &'static str,
    names: &[String],
) -> Result<BTreeMap<ToolId, String>, PickError> {
    let mut tools = BTreeMap::new();
    for name in names {
        let pattern = index.names.pattern(name);
        if let Some(pattern) =
            pattern.map_err(|error| PickError::InvalidPattern { option, error })?
        {
            for tool in pattern.tools(&index.catalog)? {
                if eligibility.admits(tool) {
                    tools.entry(tool).or_insert_with(|| name.clone());
                }
            }
            continue;
        }
        match resolve_tools(&index.names, &index.catalog, option, name)?[..] {
            [tool] => tools.insert(tool, name.clone()),
            ref several => {
                let candidates = several
                    .iter()
                    .map(|&tool| index.catalog.tool_id(tool).to_owned())
                    .collect();
                return Err(PickError::AmbiguousTool {
                    option,
                    name: name.clone(),
                    candidates,
                });
            }
        };
    }
    Ok(tools)
}
