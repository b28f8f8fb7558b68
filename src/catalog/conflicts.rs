//! What is wrong between tools: identities and names that two of them claim, names that look alike,
//! and aliases.
//!
//! Trusted tools come before untrusted ones, and among equals the first comes first: who comes
//! later gives way. Whether giving way is enough or the whole catalog is refused is the reader's to
//! decide ([`Conflicts`](super::Conflicts)).

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt, HashSet};
use rayon::prelude::*;

use super::aliases::{self, OperatorAlias, OperatorAliases, Target};
use super::definition::{Alias, Tool};
use super::error::{CatalogFault, FaultKind, Position};
use super::spelling::{confusable, skeleton};
use crate::excerpt::list;
use crate::saved::fnv1a;

/// Tools after their conflicts were settled.
pub(super) struct Settled {
    /// What is left, in registration order.
    pub(super) tools: Vec<Arc<Tool>>,
    /// What gave way, in the order of the tools.
    pub(super) conflicts: Vec<CatalogFault>,
    /// What gave way to the operator's aliases, which is as it should be.
    pub(super) overruled: Vec<CatalogFault>,
    /// What is wrong with the operator's aliases.
    pub(super) alias_faults: Vec<CatalogFault>,
}

/// Settles the conflicts among `tools`, each with its position.
pub(super) fn settle(
    tools: Vec<(Position, Arc<Tool>)>,
    operator: Option<&OperatorAliases>,
) -> Settled {
    let mut order: Vec<usize> = (0..tools.len()).collect();
    order.sort_by_key(|&at| tools[at].1.untrusted);
    let (positions, tools): (Vec<Position>, Vec<Arc<Tool>>) = tools.into_iter().unzip();
    let kept = vec![true; tools.len()];
    let mut settling = Settling {
        positions,
        tools,
        kept,
        order,
        conflicts: Vec::new(),
        overruled: Vec::new(),
        alias_faults: Vec::new(),
    };
    settling.identities();
    settling.look_alikes();
    if let Some(OperatorAliases(aliases)) = operator {
        settling.operator_aliases(aliases);
    }
    settling.aliases();
    let Settling {
        tools,
        kept,
        mut conflicts,
        overruled,
        alias_faults,
        ..
    } = settling;
    conflicts.sort_by_key(|(at, _)| *at);
    Settled {
        tools: tools
            .into_iter()
            .zip(kept)
            .filter(|(_, kept)| *kept)
            .map(|(tool, _)| tool)
            .collect(),
        conflicts: conflicts.into_iter().map(|(_, fault)| fault).collect(),
        overruled,
        alias_faults,
    }
}

struct Settling {
    positions: Vec<Position>,
    tools: Vec<Arc<Tool>>,
    kept: Vec<bool>,
    /// Trusted tools first.
    order: Vec<usize>,
    conflicts: Vec<(usize, CatalogFault)>,
    overruled: Vec<CatalogFault>,
    alias_faults: Vec<CatalogFault>,
}

impl Settling {
    /// The tools that are left, trusted ones first.
    fn left(&self) -> impl Iterator<Item = (usize, &Arc<Tool>)> {
        self.order
            .iter()
            .filter(|at| self.kept[**at])
            .map(|&at| (at, &self.tools[at]))
    }

    fn conflict(
        &mut self,
        at: usize,
        kind: FaultKind,
        pointer: impl Into<String>,
        message: String,
        remedy: &str,
    ) {
        let fault = self.fault(at, kind, pointer, message, remedy);
        self.conflicts.push((at, fault));
    }

    fn fault(
        &self,
        at: usize,
        kind: FaultKind,
        pointer: impl Into<String>,
        message: String,
        remedy: &str,
    ) -> CatalogFault {
        CatalogFault {
            position: self.positions[at].clone(),
            kind,
            name: Some(self.tools[at].name.clone()),
            pointer: pointer.into(),
            message,
            remedy: remedy.to_owned(),
        }
    }

    /// Two tools of one source and one name collide unless both are given different ids; the same
    /// name in another source is not a conflict.
    fn identities(&mut self) {
        // By id, and of one id in order; tools of one id stand together then.
        let hashed = self
            .order
            .par_iter()
            .enumerate()
            .map(|(place, &at)| (fnv1a(&self.tools[at].id), place));
        let mut hashed: Vec<(u64, usize)> = hashed.collect();
        hashed.par_sort_unstable();
        let mut later: Vec<(usize, usize)> = Vec::new();
        for same in hashed
            .chunk_by(|(one, _), (other, _)| one == other)
            .filter(|same| same.len() > 1)
        {
            let mut firsts: HashMap<&str, usize> = HashMap::new();
            for &(_, place) in same {
                let at = self.order[place];
                let first = *firsts.entry(&self.tools[at].id).or_insert(at);
                if first != at {
                    later.push((at, first));
                }
            }
        }
        for (at, first) in later {
            self.kept[at] = false;
            let message = format!(
                "Duplicate tool {:?}, first at {}",
                self.tools[at].id, self.positions[first]
            );
            let remedy = "rename one of them, or give them different ids or sources";
            self.conflict(at, FaultKind::DuplicateTool, "", message, remedy);
        }
    }

    /// A name that looks like another tool's, or like one of the ecosystem's, is there to be
    /// mistaken for it.
    fn look_alikes(&mut self) {
        if self.tools.par_iter().all(|tool| tool.name.is_ascii()) {
            return;
        }
        let mut names: HashMap<String, String> = HashMap::new();
        let plain = self
            .left()
            .map(|(_, tool)| tool.name.clone())
            .filter(|name| name.is_ascii());
        for name in plain.chain(aliases::reserved().map(str::to_owned)) {
            names.entry(skeleton(&name)).or_insert(name);
        }
        let mut found: Vec<(usize, String)> = Vec::new();
        for (at, tool) in self.left().filter(|(_, tool)| !tool.name.is_ascii()) {
            let first = names
                .entry(skeleton(&tool.name))
                .or_insert_with(|| tool.name.clone());
            if confusable(&tool.name, first) {
                found.push((at, first.clone()));
            }
        }
        for (at, like) in found {
            self.kept[at] = false;
            let message = format!(
                "the name {:?} looks like {like:?} and is written otherwise",
                self.tools[at].name
            );
            let remedy = "write it in the letters of one script, or rename the tool";
            self.conflict(at, FaultKind::ConfusableName, "/name", message, remedy);
        }
    }

    /// Gives tools the operator's aliases, and takes these from all others that claim them.
    fn operator_aliases(&mut self, aliases: &[OperatorAlias]) {
        let mut owners: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, tool) in self.left() {
            for name in [tool.id.clone(), tool.qualified_name(), tool.name.clone()] {
                let owners = owners.entry(name).or_default();
                if !owners.contains(&at) {
                    owners.push(at);
                }
            }
        }
        let mut given: HashMap<&str, (usize, bool)> = HashMap::new();
        for OperatorAlias {
            name,
            target,
            deprecated,
        } in aliases
        {
            match self.target(name, target, &owners) {
                // A tool needs no alias for its own name.
                Ok(Some(at)) if self.tools[at].name == *name => {}
                Ok(Some(at)) => {
                    given.insert(name, (at, *deprecated));
                }
                Ok(None) => {}
                Err(fault) => self.alias_faults.push(*fault),
            }
        }
        self.give(aliases, &given);
    }

    /// The tool that an alias of the operator stands for, where there is one.
    fn target(
        &self,
        alias: &str,
        target: &Target,
        owners: &HashMap<String, Vec<usize>>,
    ) -> Result<Option<usize>, Box<CatalogFault>> {
        let owners = |name: &str| owners.get(name).map_or(&[][..], Vec::as_slice);
        let named = owners(alias)
            .iter()
            .copied()
            .find(|&at| self.tools[at].name == alias && !self.tools[at].untrusted);
        let tool = match target {
            Target::Tool(tool) => tool,
            Target::FirstOf(_) if named.is_some() => return Ok(None),
            Target::FirstOf(tools) => {
                let trusted = |tool: &String| match owners(tool) {
                    &[at] if !self.tools[at].untrusted => Some(at),
                    _ => None,
                };
                return Ok(tools.iter().find_map(trusted));
            }
        };
        match (owners(tool), named) {
            (&[at], Some(named)) if named != at => {
                let message = format!("it is the name of {:?}", self.tools[named].id);
                Err(Box::new(aliases::fault(
                    alias,
                    message,
                    "remove the alias, or rename that tool",
                )))
            }
            (&[at], _) => Ok(Some(at)),
            ([], _) => {
                let message = format!("the catalog has no tool {tool:?}");
                let remedy = "name a tool of the catalog, or an array of those that it may be";
                Err(Box::new(aliases::fault(alias, message, remedy)))
            }
            (several, _) => {
                let ids: Vec<&str> = several
                    .iter()
                    .map(|&at| self.tools[at].id.as_str())
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

    fn give(&mut self, aliases: &[OperatorAlias], given: &HashMap<&str, (usize, bool)>) {
        for at in self.order.clone() {
            let overruled = |alias: &Alias| {
                given
                    .get(alias.name.as_str())
                    .is_some_and(|&(owner, _)| owner != at)
            };
            let taken: Vec<(usize, String)> = self.tools[at]
                .aliases
                .iter()
                .enumerate()
                .filter(|(_, alias)| overruled(alias))
                .map(|(index, alias)| (index, alias.name.clone()))
                .collect();
            for (index, alias) in &taken {
                let owner = &self.tools[given[alias.as_str()].0].id;
                let message = format!("the alias '{alias}' is given to {owner:?} by the operator");
                let (pointer, remedy) = (format!("/aliases/{index}"), "nothing is to be done");
                let fault = self.fault(at, FaultKind::AliasConflict, pointer, message, remedy);
                self.overruled.push(fault);
            }
            if !taken.is_empty() {
                Arc::make_mut(&mut self.tools[at])
                    .aliases
                    .retain(|alias| !overruled(alias));
            }
        }
        for OperatorAlias { name, .. } in aliases {
            let Some(&(at, deprecated)) = given.get(name.as_str()) else {
                continue;
            };
            // A tool that has it already stays shared.
            if self.tools[at]
                .aliases
                .iter()
                .any(|alias| alias.name == *name && alias.deprecated == deprecated)
            {
                continue;
            }
            let aliases = &mut Arc::make_mut(&mut self.tools[at]).aliases;
            match aliases.iter_mut().find(|alias| alias.name == *name) {
                Some(alias) => alias.deprecated = deprecated,
                None => aliases.push(Alias {
                    name: name.clone(),
                    deprecated,
                }),
            }
        }
    }

    /// Aliases are looked up without their source, so each may stand only once, and none may be a
    /// tool's name.
    fn aliases(&mut self) {
        let aliases: HashSet<&str> = self
            .tools
            .iter()
            .flat_map(|tool| &tool.aliases)
            .map(|alias| &*alias.name)
            .collect();
        if aliases.is_empty() {
            return;
        }
        let mut names: HashMap<&str, usize> = HashMap::new();
        for (at, tool) in self
            .left()
            .filter(|(_, tool)| aliases.contains(tool.name.as_str()))
        {
            names.entry(&tool.name).or_insert(at);
        }
        let mut claimed: HashMap<&str, usize> = HashMap::new();
        let mut found: Vec<(usize, usize, String, &str)> = Vec::new();
        for (at, tool) in self.left() {
            for (index, Alias { name, .. }) in tool.aliases.iter().enumerate() {
                // An untrusted name gives way to a trusted alias.
                let yields = |owner: usize| self.tools[owner].untrusted && !tool.untrusted;
                let owner = names
                    .get(name.as_str())
                    .filter(|&&owner| owner != at && !yields(owner));
                if let Some(&owner) = owner {
                    let message = format!(
                        "Duplicate tool alias '{name}', which is the name of {:?}",
                        self.tools[owner].id
                    );
                    found.push((at, index, message, "remove the alias"));
                    continue;
                }
                if *name == tool.name {
                    let message =
                        format!("Duplicate tool alias '{name}', which is the tool's own name");
                    found.push((at, index, message, "remove the alias"));
                    continue;
                }
                match claimed.get(name.as_str()) {
                    None => {
                        claimed.insert(name, at);
                    }
                    Some(&first) if first == at => {
                        let message = format!("Duplicate tool alias '{name}', which stands twice");
                        found.push((at, index, message, "remove one of them"));
                    }
                    Some(&first) => {
                        let message = format!(
                            "Duplicate tool alias '{name}', already claimed by {:?}",
                            self.tools[first].id
                        );
                        found.push((at, index, message, "let one tool have it"));
                    }
                }
            }
        }
        // Later aliases of a tool first, so that the places of the others stay.
        for (at, index, message, remedy) in found.into_iter().rev() {
            self.conflict(
                at,
                FaultKind::AliasConflict,
                format!("/aliases/{index}"),
                message,
                remedy,
            );
            Arc::make_mut(&mut self.tools[at]).aliases.remove(index);
        }
    }
}
