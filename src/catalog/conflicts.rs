//! What is wrong between tools: identities and aliases that two of them claim.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::definition::Tool;
use crate::error::CatalogFault;

/// Finds every conflict among `tools`, each with its position.
///
/// Two tools of one source and one name collide unless both are given different ids; the same name in another
/// source is no conflict. Aliases are looked up without their source, so each may stand only once.
pub(super) fn find<T: Borrow<Tool>>(tools: &[(String, T)]) -> Vec<CatalogFault> {
    let mut faults = Vec::new();
    let mut ids: HashMap<&str, &str> = HashMap::with_capacity(tools.len());
    let mut names: HashMap<&str, &Tool> = HashMap::with_capacity(tools.len());
    for (position, tool) in tools {
        let tool: &Tool = tool.borrow();
        names.entry(&tool.name).or_insert(tool);
        match ids.entry(&tool.id) {
            Entry::Vacant(free) => {
                free.insert(position);
            }
            Entry::Occupied(first) => faults.push(fault(
                position,
                tool,
                "",
                format!("Duplicate tool {:?}, first at {}", tool.id, first.get()),
                "rename one of them, or give them different ids or sources",
            )),
        }
    }
    let mut aliases: HashMap<&str, &str> = HashMap::new();
    for (position, tool) in tools {
        let tool: &Tool = tool.borrow();
        for (index, alias) in tool.aliases.iter().enumerate() {
            let pointer = format!("/aliases/{index}");
            let owner = names.get(alias.name.as_str()).filter(|owner| owner.id != tool.id);
            if let Some(owner) = owner {
                let message = format!("Duplicate tool alias '{}', which is the name of {:?}", alias.name, owner.id);
                faults.push(fault(position, tool, &pointer, message, "remove the alias"));
            }
            match aliases.entry(&alias.name) {
                Entry::Vacant(free) => {
                    free.insert(&tool.id);
                }
                Entry::Occupied(first) => {
                    let message =
                        format!("Duplicate tool alias '{}', already claimed by {:?}", alias.name, first.get());
                    faults.push(fault(position, tool, &pointer, message, "let one tool have it"));
                }
            }
        }
    }
    faults
}

fn fault(position: &str, tool: &Tool, pointer: &str, message: String, remedy: &str) -> CatalogFault {
    CatalogFault {
        position: position.to_owned(),
        name: Some(tool.name.clone()),
        pointer: pointer.to_owned(),
        message,
        remedy: remedy.to_owned(),
    }
}
