//! Conflicts between tools: duplicate ids and names, confusable names, and aliases.
//!
//! Trusted tools take precedence over untrusted ones, and otherwise earlier tools over later ones;
//! the tool without precedence is left out. The options decide if that suffices or the catalog is
//! rejected ([`Conflicts`](super::Conflicts)).

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use rayon::prelude::*;

use super::aliases::{self, OperatorAlias, OperatorAliases, Target};
use super::definition::{Alias, Tool};
use super::error::{CatalogFault, FaultKind, Position};
use super::spelling::{confusable, skeleton};
use crate::excerpt::list;
use crate::saved::fnv1a;

/// Tools whose conflicts are resolved.
pub(super) struct ResolvedTools {
    /// The remaining tools, in registration order.
    pub(super) tools: Vec<Arc<Tool>>,
    /// The faults of the tools and aliases that were left out, in the order of the tools.
    pub(super) conflicts: Vec<CatalogFault>,
    /// The notices about aliases that the operator's aliases replace, as intended.
    pub(super) replaced_aliases: Vec<CatalogFault>,
    /// The faults of the operator's aliases.
    pub(super) alias_faults: Vec<CatalogFault>,
}

/// Resolves the conflicts among `tools`, each with its position.
pub(super) fn resolve(
    tools: Vec<(Position, Arc<Tool>)>,
    operator: Option<&OperatorAliases>,
) -> ResolvedTools {
    let mut order: Vec<usize> = (0..tools.len()).collect();
    order.sort_by_key(|&index| tools[index].1.untrusted);
    let (positions, tools): (Vec<Position>, Vec<Arc<Tool>>) = tools.into_iter().unzip();
    let is_kept = vec![true; tools.len()];
    let mut resolver = ConflictResolver {
        positions,
        tools,
        is_kept,
        order,
        conflicts: Vec::new(),
        replaced_aliases: Vec::new(),
        alias_faults: Vec::new(),
    };
    resolver.resolve_ids();
    resolver.resolve_confusable_names();
    if let Some(OperatorAliases(aliases)) = operator {
        resolver.apply_operator_aliases(aliases);
    }
    resolver.resolve_aliases();
    let ConflictResolver {
        tools,
        is_kept,
        mut conflicts,
        replaced_aliases,
        alias_faults,
        ..
    } = resolver;
    conflicts.sort_by_key(|(index, _)| *index);
    let mut kept_tools = Vec::with_capacity(tools.len());
    for (tool, is_kept) in tools.into_iter().zip(is_kept) {
        if is_kept {
            kept_tools.push(tool);
        }
    }
    ResolvedTools {
        tools: kept_tools,
        conflicts: conflicts.into_iter().map(|(_, fault)| fault).collect(),
        replaced_aliases,
        alias_faults,
    }
}

struct ConflictResolver {
    positions: Vec<Position>,
    tools: Vec<Arc<Tool>>,
    is_kept: Vec<bool>,
    /// The indices of the tools, trusted ones first.
    order: Vec<usize>,
    conflicts: Vec<(usize, CatalogFault)>,
    replaced_aliases: Vec<CatalogFault>,
    alias_faults: Vec<CatalogFault>,
}

impl ConflictResolver {
    /// Returns the remaining tools, trusted ones first.
    fn remaining(&self) -> impl Iterator<Item = (usize, &Arc<Tool>)> {
        self.order
            .iter()
            .filter(|index| self.is_kept[**index])
            .map(|&index| (index, &self.tools[index]))
    }

    fn report_conflict(
        &mut self,
        tool: usize,
        kind: FaultKind,
        pointer: impl Into<String>,
        message: String,
        remedy: &str,
    ) {
        let fault = self.fault(tool, kind, pointer, message, remedy);
        self.conflicts.push((tool, fault));
    }

    fn fault(
        &self,
        tool: usize,
        kind: FaultKind,
        pointer: impl Into<String>,
        message: String,
        remedy: &str,
    ) -> CatalogFault {
        CatalogFault {
            position: self.positions[tool].clone(),
            kind,
            name: Some(self.tools[tool].name.clone()),
            pointer: pointer.into(),
            message,
            remedy: remedy.to_owned(),
        }
    }

    /// Leaves out tools whose id an earlier tool has. Two tools of one source and one name conflict
    /// unless they have different ids; the same name in another source is not a conflict.
    fn resolve_ids(&mut self) {
        // Sorting by hash and rank puts equal ids next to each other, in order of precedence.
        let hashed = self
            .order
            .par_iter()
            .enumerate()
            .map(|(rank, &tool)| (fnv1a(&self.tools[tool].id), rank));
        let mut hashed: Vec<(u64, usize)> = hashed.collect();
        hashed.par_sort_unstable();
        let mut duplicates: Vec<(usize, usize)> = Vec::new();
        for equal_hashes in hashed.chunk_by(|(hash, _), (other, _)| hash == other) {
            if equal_hashes.len() == 1 {
                continue;
            }
            let mut firsts: HashMap<&str, usize> = HashMap::new();
            for &(_, rank) in equal_hashes {
                let tool = self.order[rank];
                let first = *firsts.entry(&self.tools[tool].id).or_insert(tool);
                if first != tool {
                    duplicates.push((tool, first));
                }
            }
        }
        for (tool, first) in duplicates {
            self.is_kept[tool] = false;
            let message = format!(
                "Duplicate tool {:?}, first at {}",
                self.tools[tool].id, self.positions[first]
            );
            let remedy = "rename one of them, or give them different ids or sources";
            self.report_conflict(tool, FaultKind::DuplicateTool, "", message, remedy);
        }
    }

    /// Leaves out tools with a name that is confusable with another tool's name, or with a
    /// well-known name: such a name may be chosen to deceive.
    fn resolve_confusable_names(&mut self) {
        if self.tools.par_iter().all(|tool| tool.name.is_ascii()) {
            return;
        }
        let mut names: HashMap<String, String> = HashMap::new();
        let mut add = |name: &str| {
            let first = names.entry(skeleton(name));
            first.or_insert_with(|| name.to_owned());
        };
        for (_, tool) in self.remaining() {
            if tool.name.is_ascii() {
                add(&tool.name);
            }
        }
        aliases::reserved().for_each(add);
        let mut conflicts: Vec<(usize, String)> = Vec::new();
        for (index, tool) in self.remaining() {
            if tool.name.is_ascii() {
                continue;
            }
            let first = names
                .entry(skeleton(&tool.name))
                .or_insert_with(|| tool.name.clone());
            if confusable(&tool.name, first) {
                conflicts.push((index, first.clone()));
            }
        }
        for (tool, other) in conflicts {
            self.is_kept[tool] = false;
            let message = format!(
                "the name {:?} is confusable with {other:?}",
                self.tools[tool].name
            );
            let remedy = "write it in the letters of one script, or rename the tool";
            self.report_conflict(tool, FaultKind::ConfusableName, "/name", message, remedy);
        }
    }

    /// Gives tools the operator's aliases, and removes these from all other tools.
    fn apply_operator_aliases(&mut self, aliases: &[OperatorAlias]) {
        let mut owners: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, tool) in self.remaining() {
            for name in [tool.id.clone(), tool.qualified_name(), tool.name.clone()] {
                let owners = owners.entry(name).or_default();
                if !owners.contains(&index) {
                    owners.push(index);
                }
            }
        }
        let mut assigned: HashMap<&str, AliasOwner> = HashMap::new();
        for OperatorAlias {
            name,
            target,
            deprecated,
        } in aliases
        {
            match self.find_target(name, target, &owners) {
                // A tool needs no alias for its own name.
                Ok(Some(tool)) if self.tools[tool].name == *name => {}
                Ok(Some(tool)) => {
                    let deprecated = *deprecated;
                    assigned.insert(name, AliasOwner { tool, deprecated });
                }
                Ok(None) => {}
                Err(fault) => self.alias_faults.push(*fault),
            }
        }
        self.remove_replaced_aliases(&assigned);
        self.add_aliases(aliases, &assigned);
    }

    /// Returns the tool that an alias of the operator refers to, if the catalog has it.
    fn find_target(
        &self,
        alias: &str,
        target: &Target,
        owners: &HashMap<String, Vec<usize>>,
    ) -> Result<Option<usize>, Box<CatalogFault>> {
        let owners = |name: &str| match owners.get(name) {
            Some(owners) => owners.as_slice(),
            None => &[],
        };
        let same_name = owners(alias)
            .iter()
            .copied()
            .find(|&owner| self.tools[owner].name == alias && !self.tools[owner].untrusted);
        let tool = match target {
            Target::Tool(tool) => tool,
            Target::FirstOf(_) if same_name.is_some() => return Ok(None),
            Target::FirstOf(tools) => {
                let trusted = |tool: &String| match owners(tool) {
                    &[owner] if !self.tools[owner].untrusted => Some(owner),
                    _ => None,
                };
                return Ok(tools.iter().find_map(trusted));
            }
        };
        match (owners(tool), same_name) {
            (&[owner], Some(same_name)) if same_name != owner => {
                let message = format!("it is the name of {:?}", self.tools[same_name].id);
                Err(Box::new(aliases::fault(
                    alias,
                    message,
                    "remove the alias, or rename that tool",
                )))
            }
            (&[owner], _) => Ok(Some(owner)),
            ([], _) => {
                let message = format!("the catalog has no tool {tool:?}");
                let remedy = "name a tool of the catalog, or an array of alternatives";
                Err(Box::new(aliases::fault(alias, message, remedy)))
            }
            (several, _) => {
                let ids: Vec<&str> = several
                    .iter()
                    .map(|&owner| self.tools[owner].id.as_str())
                    .collect();
                let remedy = format!("write one of {}", list(&ids, ", "));
                Err(Box::new(aliases::fault(
                    alias,
                    format!("{tool:?} is ambiguous"),
                    remedy,
                )))
            }
        }
    }

    /// Removes the aliases of other tools that the operator assigns to an owner.
    fn remove_replaced_aliases(&mut self, assigned: &HashMap<&str, AliasOwner>) {
        for tool in self.order.clone() {
            let is_replaced = |alias: &Alias| {
                assigned
                    .get(alias.name.as_str())
                    .is_some_and(|owner| owner.tool != tool)
            };
            let mut replaced: Vec<(usize, String)> = Vec::new();
            for (index, alias) in self.tools[tool].aliases.iter().enumerate() {
                if is_replaced(alias) {
                    replaced.push((index, alias.name.clone()));
                }
            }
            for (index, alias) in &replaced {
                let owner = &self.tools[assigned[alias.as_str()].tool].id;
                let message = format!("the alias '{alias}' is given to {owner:?} by the operator");
                let (pointer, remedy) = (format!("/aliases/{index}"), "no action is needed");
                let fault = self.fault(tool, FaultKind::AliasConflict, pointer, message, remedy);
                self.replaced_aliases.push(fault);
            }
            if !replaced.is_empty() {
                Arc::make_mut(&mut self.tools[tool])
                    .aliases
                    .retain(|alias| !is_replaced(alias));
            }
        }
    }

    fn add_aliases(&mut self, aliases: &[OperatorAlias], assigned: &HashMap<&str, AliasOwner>) {
        for OperatorAlias { name, .. } in aliases {
            let Some(&AliasOwner { tool, deprecated }) = assigned.get(name.as_str()) else {
                continue;
            };
            // A tool that already has the alias stays shared.
            if self.tools[tool]
                .aliases
                .iter()
                .any(|alias| alias.name == *name && alias.deprecated == deprecated)
            {
                continue;
            }
            let aliases = &mut Arc::make_mut(&mut self.tools[tool]).aliases;
            match aliases.iter_mut().find(|alias| alias.name == *name) {
                Some(alias) => alias.deprecated = deprecated,
                None => aliases.push(Alias {
                    name: name.clone(),
                    deprecated,
                }),
            }
        }
    }

    /// Leaves out conflicting aliases. A lookup of an alias ignores sources, so an alias must be
    /// unique, and it must not be the name of a tool.
    fn resolve_aliases(&mut self) {
        let mut aliases: HashSet<&str> = HashSet::new();
        for tool in &self.tools {
            for alias in &tool.aliases {
                aliases.insert(&alias.name);
            }
        }
        if aliases.is_empty() {
            return;
        }
        let mut names: HashMap<&str, usize> = HashMap::new();
        for (index, tool) in self.remaining() {
            if aliases.contains(tool.name.as_str()) {
                names.entry(&tool.name).or_insert(index);
            }
        }
        let conflicts = self.alias_conflicts(&names);
        // Later aliases of a tool are removed first, so that the indices of the others stay valid.
        for conflict in conflicts.into_iter().rev() {
            let AliasConflict {
                tool,
                alias,
                message,
                remedy,
            } = conflict;
            let pointer = format!("/aliases/{alias}");
            self.report_conflict(tool, FaultKind::AliasConflict, pointer, message, remedy);
            Arc::make_mut(&mut self.tools[tool]).aliases.remove(alias);
        }
    }

    /// Finds the aliases that conflict with a name or with an earlier alias; `names` are the tools
    /// by those names that are also aliases.
    fn alias_conflicts(&self, names: &HashMap<&str, usize>) -> Vec<AliasConflict> {
        let mut claimed: HashMap<&str, usize> = HashMap::new();
        let mut conflicts = Vec::new();
        for (index, tool) in self.remaining() {
            for (alias, Alias { name, .. }) in tool.aliases.iter().enumerate() {
                // A trusted alias takes precedence over an untrusted name.
                let yields = |owner: usize| self.tools[owner].untrusted && !tool.untrusted;
                let (reason, remedy) = if let Some(&owner) = names.get(name.as_str())
                    && owner != index
                    && !yields(owner)
                {
                    let id = &self.tools[owner].id;
                    (format!("which is the name of {id:?}"), "remove the alias")
                } else if *name == tool.name {
                    let reason = "which is the tool's own name".to_owned();
                    (reason, "remove the alias")
                } else {
                    match claimed.get(name.as_str()) {
                        None => {
                            claimed.insert(name, index);
                            continue;
                        }
                        Some(&first) if first == index => {
                            let reason = "which the tool lists twice".to_owned();
                            (reason, "remove one of them")
                        }
                        Some(&first) => {
                            let id = &self.tools[first].id;
                            let reason = format!("already claimed by {id:?}");
                            (reason, "keep it in one tool only")
                        }
                    }
                };
                conflicts.push(AliasConflict {
                    tool: index,
                    alias,
                    message: format!("Duplicate tool alias '{name}', {reason}"),
                    remedy,
                });
            }
        }
        conflicts
    }
}

/// The tool to which the operator gives an alias.
#[derive(Clone, Copy)]
struct AliasOwner {
    /// The index of the tool.
    tool: usize,
    deprecated: bool,
}

/// An alias of a tool that conflicts with another alias or name.
struct AliasConflict {
    /// The index of the tool.
    tool: usize,
    /// The index of the alias in the tool.
    alias: usize,
    message: String,
    remedy: &'static str,
}
