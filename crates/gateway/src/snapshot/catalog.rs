//! The catalog of a snapshot: the operator's own tools, and the tools of servers with the
//! operator's overrides, names and aliases.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use picktools::catalog::{
    CatalogError, CatalogFault, CatalogFile, Conflicts, FaultKind, OperatorAliases,
};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::{Catalog, CatalogOptions, Tool};

use crate::naming;
use crate::settings::{NameStyle, Settings};

/// The parts of a catalog.
pub(super) struct CatalogParts<'a> {
    pub(super) settings: &'a Settings,
    pub(super) options: &'a CatalogOptions,
    /// The operator's own catalog.
    pub(super) own_catalog: Option<&'a Catalog>,
    /// The approved definitions of servers.
    pub(super) files: &'a [CatalogFile],
}

/// A message for the operator about something that was left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Notice {
    pub(crate) text: String,
    /// `true` if a server that has not listed its tools yet may be the reason.
    pub(crate) may_be_early: bool,
}

impl Notice {
    pub(super) fn new(text: String) -> Self {
        Self {
            text,
            may_be_early: false,
        }
    }

    fn from_fault(fault: &CatalogFault) -> Self {
        Self {
            text: fault.to_string(),
            may_be_early: fault.kind == FaultKind::OperatorAlias,
        }
    }
}

impl CatalogParts<'_> {
    /// Builds the catalog, and returns what was left out.
    pub(super) fn build(&self) -> Result<(Catalog, Vec<Notice>), CatalogError> {
        let mut notices = Vec::new();
        let server_catalog = match self.files {
            [] => None,
            files => Some(self.options.read_files(files)?),
        };
        let server_tools = match &server_catalog {
            Some(server_catalog) => server_catalog.tools()?,
            None => &[],
        };
        let is_changed = |tool: &Arc<Tool>| self.settings.tool_override(tool).is_some();
        let has_changes = self.settings.aliases.is_some() || server_tools.iter().any(is_changed);
        let catalog = match (self.own_catalog, &server_catalog) {
            (None, Some(server_catalog)) if !has_changes => server_catalog.clone(),
            (Some(own_catalog), None) if !has_changes => own_catalog.clone(),
            _ => {
                // The merged catalog does not have these.
                let left_out = server_catalog.iter().flat_map(Catalog::notices);
                notices.extend(left_out.map(Notice::from_fault));
                self.merge(server_tools)?
            }
        };
        notices.extend(catalog.notices().iter().map(Notice::from_fault));
        Ok((catalog, notices))
    }

    /// Adds the tools of servers, with the overrides, to the operator's own catalog. If both have a
    /// tool with the same id, that of the server is used, because only a server can run it.
    fn merge(&self, server_tools: &[Arc<Tool>]) -> Result<Catalog, CatalogError> {
        let mut tools = Vec::new();
        for tool in server_tools {
            let mut tool = tool.as_ref().clone();
            if let Some(changed) = self.settings.tool_override(&tool) {
                changed.apply(&mut tool);
            }
            tools.push(tool);
        }
        let own_catalog = match self.own_catalog {
            Some(own_catalog) => without_tools(own_catalog, &tools)?,
            None => self.options.collect([])?,
        };
        let aliases = self.aliases(&tools, own_catalog.tools()?);
        // A server must not take down the others by a name that it chooses.
        let own_catalog = own_catalog.with_conflicts(Conflicts::Warn);
        own_catalog.with_tools_and_aliases(tools, &aliases)
    }

    /// Returns the aliases of the operator: those of overrides take precedence. A tool that was
    /// renamed can be called by its new name without the server, unless another tool has it.
    fn aliases(&self, server_tools: &[Tool], own_tools: &[Arc<Tool>]) -> OperatorAliases {
        let own_names = own_tools.iter().map(|tool| tool.name.as_str());
        let server_names = server_tools.iter().map(|tool| tool.name.as_str());
        let names: BTreeSet<&str> = own_names.chain(server_names).collect();
        let mut pairs = Vec::new();
        for tool in server_tools {
            let Some(changed) = self.settings.tool_override(tool) else {
                continue;
            };
            let new_name = changed.rename.as_ref();
            let new_name = new_name.filter(|name| !names.contains(name.as_str()));
            for alias in changed.aliases.iter().chain(new_name) {
                pairs.push((alias.clone(), tool.id.clone()));
            }
        }
        let mut aliases = OperatorAliases::from_pairs(pairs);
        if let Some(others) = &self.settings.aliases {
            aliases.add_missing(others);
        }
        aliases
    }
}

/// Returns a catalog without the tools that servers have too.
fn without_tools(own_catalog: &Catalog, server_tools: &[Tool]) -> Result<Catalog, CatalogError> {
    let mut duplicates = BTreeSet::new();
    for tool in server_tools {
        if own_catalog.find(&tool.id).is_some() {
            duplicates.insert(&tool.id);
            tracing::warn!(
                target: "picktools::gateway", id = %tool.id,
                "left a tool of the catalog out, because a server has the same tool"
            );
        }
    }
    if duplicates.is_empty() {
        return Ok(own_catalog.clone());
    }
    Ok(own_catalog.filtered(|tool| !duplicates.contains(&tool.id))?)
}

/// The names that clients are shown.
#[derive(Default)]
pub(super) struct ShownNames {
    /// The names by tool id.
    pub(super) names: BTreeMap<String, String>,
    /// The ids of the renamed tools.
    pub(super) renamed: BTreeSet<String>,
    pub(super) notices: Vec<Notice>,
}

impl ShownNames {
    /// Names the tools of a catalog. No two tools have the same name. A tool does not get the name
    /// that another one has without overrides, so that each name keeps its meaning. A tool that
    /// cannot be named is left out.
    pub(super) fn new(settings: &Settings, tools: &[Arc<Tool>]) -> Self {
        let mut shown = Self::default();
        let mut taken = shown.name_tools(settings.names, tools);
        for tool in tools {
            if !shown.names.contains_key(&tool.id) {
                continue;
            }
            let changed = settings.tool_override(tool);
            let Some(new_name) = changed.and_then(|changed| changed.rename.as_ref()) else {
                continue;
            };
            let name = shown_name(settings.names, tool, new_name);
            if shown.names.get(&tool.id) == Some(&name) {
                continue;
            }
            if taken.insert(name.clone()) {
                shown.renamed.insert(tool.id.clone());
                shown.names.insert(tool.id.clone(), name);
            } else {
                shown.notices.push(Notice::new(format!(
                    "the tool {:?} keeps its name, because another tool has the name {name:?}; \
                     choose another `rename` in the settings",
                    tool.id
                )));
            }
        }
        // A map that is built at once has full nodes and takes less memory.
        shown.names = mem::take(&mut shown.names).into_iter().collect();
        shown
    }

    /// Names the tools without overrides, and returns the names. Of tools with the same name, trusted
    /// tools and names with a digest come first: only the others chose a name that imitates.
    fn name_tools(&mut self, style: NameStyle, tools: &[Arc<Tool>]) -> BTreeSet<String> {
        let mut by_name: BTreeMap<String, Vec<&Tool>> = BTreeMap::new();
        for tool in tools {
            let name = shown_name(style, tool, &tool.name);
            by_name.entry(name).or_default().push(tool);
        }
        let mut taken: BTreeSet<String> = by_name.keys().cloned().collect();
        for (name, mut tools) in by_name {
            let imitates = |tool: &Tool| (tool.untrusted, name.ends_with(&tool.name));
            tools.sort_by(|tool, other| {
                let order = imitates(tool).cmp(&imitates(other));
                order.then_with(|| tool.id.cmp(&other.id))
            });
            for (position, tool) in tools.into_iter().enumerate() {
                let free_name = if position == 0 && !name.is_empty() {
                    Some(name.clone())
                } else {
                    let source = tool.source.as_deref();
                    let mut names = naming::longer_names(source, &tool.name);
                    names.find(|name| taken.insert(name.clone()))
                };
                match free_name {
                    Some(free_name) => {
                        if position > 0 {
                            self.notices.push(taken_name(tool, &name, &free_name));
                        }
                        self.names.insert(tool.id.clone(), free_name);
                    }
                    None => self.notices.push(Notice::new(format!(
                        "left out the tool {:?}, because other tools have all its names; rename it",
                        marked(&tool.id, MAX_NAME_CHARS)
                    ))),
                }
            }
        }
        taken
    }
}

/// Returns the notice about a tool that did not get its name.
fn taken_name(tool: &Tool, name: &str, free_name: &str) -> Notice {
    Notice::new(format!(
        "the tool {:?} is shown as {free_name:?}, because another tool is shown as {name:?}",
        marked(&tool.id, MAX_NAME_CHARS)
    ))
}

/// Returns the name that clients are shown for a tool with its own or a new name.
fn shown_name(style: NameStyle, tool: &Tool, name: &str) -> String {
    match (style, &tool.source) {
        (NameStyle::Qualified, Some(source)) => naming::qualified_name(source, name),
        _ => name.to_owned(),
    }
}
