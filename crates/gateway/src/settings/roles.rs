//! Settings of the roles of callers.

use std::collections::BTreeSet;
use std::sync::Arc;

use picktools::names::ToolPatterns;
use picktools::{Access, Catalog, Tool};
use serde::Deserialize;

/// The role of callers without another role.
pub const DEFAULT_ROLE: &str = "default";

/// An access policy with a name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Role {
    /// The tools that may be seen and run. `exclude`, `quarantine` and `quotas` are not allowed in
    /// settings, because they name tools that may not exist.
    pub access: Access,
    /// Names and patterns of tools that may be neither seen nor run, such as `mail/*`.
    pub deny: Vec<String>,
    /// The treatment of calls of unsafe tools.
    #[serde(rename = "unsafe")]
    pub marked_unsafe: Unsafe,
    /// `true` for operators: they may use the console and the metrics and decide about approvals.
    pub operator: bool,
}

/// The treatment of calls of unsafe tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Unsafe {
    /// The tools are hidden.
    Deny,
    /// A person must confirm each call.
    #[default]
    Confirm,
    /// The calls run.
    Allow,
}

impl Role {
    /// Returns the access policy for a catalog, with the tools that match the patterns.
    pub(super) fn access_to(&self, tools: &[Arc<Tool>]) -> Result<Access, String> {
        let denied = self.denied()?;
        let mut exclude = BTreeSet::new();
        for tool in tools {
            if denied.matches_tool(tool) || denied.matches(&tool.qualified_name()) {
                exclude.insert(tool.id.clone());
            }
        }
        Ok(Access {
            allow_unsafe: self.marked_unsafe != Unsafe::Deny,
            exclude,
            ..self.access.clone()
        })
    }

    /// Compiles the names and patterns of denied tools.
    pub(super) fn denied(&self) -> Result<ToolPatterns, String> {
        ToolPatterns::new(&self.deny).map_err(|error| format!("deny: {error}"))
    }

    /// Returns the names and patterns of `deny` that match no tool of a catalog.
    pub(crate) fn unmatched_denials(&self, catalog: &Catalog) -> Vec<&str> {
        let mut unmatched = Vec::new();
        for pattern in &self.deny {
            let matches = |patterns: ToolPatterns| {
                let tools = patterns.tools(catalog);
                tools.is_ok_and(|tools| !tools.is_empty())
            };
            if !ToolPatterns::new(std::slice::from_ref(pattern)).is_ok_and(matches) {
                unmatched.push(pattern.as_str());
            }
        }
        unmatched
    }
}
