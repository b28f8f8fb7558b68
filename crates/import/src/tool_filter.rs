//! The tools of a server that its configuration file allows.

use std::collections::BTreeSet;

use globset::{Glob, GlobMatcher};
use serde_json::{Map, Value};

use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::schema::kind;

use crate::entry_problem::{EntryProblem, problem};

/// Members that list the only tools that may be used.
const ALLOWED: [&str; 7] = [
    "includeTools",
    "include_tools",
    "enabledTools",
    "enabled_tools",
    "allowedTools",
    "allowed_tools",
    "available_tools",
];
/// Members that list tools that must not be used.
const FORBIDDEN: [&str; 8] = [
    "disabledTools",
    "disabled_tools",
    "excludeTools",
    "exclude_tools",
    "excludedTools",
    "blockedTools",
    "deniedTools",
    "denyTools",
];
/// Parts of names of members that restrict a server.
const RESTRICTIVE: [&str; 11] = [
    "deny",
    "denied",
    "disable",
    "exclude",
    "block",
    "forbid",
    "allow",
    "include",
    "permission",
    "restrict",
    "approval",
];
/// Members with such names that restrict nothing here: those that let a client skip its own
/// questions, and the switches that are read elsewhere.
const HARMLESS: [&str; 8] = [
    "alwaysAllow",
    "always_allow",
    "autoApprove",
    "autoApproval",
    "auto_approve",
    "disabled",
    "approval_mode",
    "default_tools_approval_mode",
];

/// The tools of a server that its configuration file allows: all, if the file says nothing.
///
/// Clients call these settings `disabledTools`, `excludeTools`, `includeTools`, `enabledTools`,
/// `allowedTools` or `tools`. A tool that they forbid is neither listed nor called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// The only tools, if there is such a list.
    allowed: Option<Patterns>,
    forbidden: Patterns,
}

#[derive(Debug, Clone, Default)]
struct Patterns {
    names: BTreeSet<String>,
    globs: Vec<GlobMatcher>,
}

impl PartialEq for Patterns {
    fn eq(&self, other: &Self) -> bool {
        // The globs follow from the names.
        self.names == other.names
    }
}

impl Eq for Patterns {}

impl Patterns {
    fn add(&mut self, name: &str) -> Result<(), globset::Error> {
        if name.contains('*') {
            self.globs.push(Glob::new(name)?.compile_matcher());
        }
        self.names.insert(name.to_owned());
        Ok(())
    }

    fn matches(&self, name: &str) -> bool {
        self.names.contains(name) || self.globs.iter().any(|glob| glob.is_match(name))
    }
}

impl ToolFilter {
    /// Returns `true` if the tool may be listed and called.
    pub fn permits(&self, name: &str) -> bool {
        !self.forbidden.matches(name)
            && self
                .allowed
                .as_ref()
                .is_none_or(|allowed| allowed.matches(name))
    }

    /// Returns `true` if the filter may forbid a tool.
    pub fn is_set(&self) -> bool {
        *self != Self::default()
    }

    /// Removes the tools that may not be used from a list of definitions.
    pub fn retain(&self, tools: &mut Vec<Value>) {
        tools.retain(|tool| {
            tool.get("name")
                .and_then(Value::as_str)
                .is_none_or(|name| self.permits(name))
        });
    }

    /// Returns `true` if a member of an entry is one of the filter, or restricts nothing here.
    pub(crate) fn is_member(member: &str) -> bool {
        member == "tools"
            || ALLOWED.contains(&member)
            || FORBIDDEN.contains(&member)
            || HARMLESS.contains(&member)
    }

    /// Reads the filter of a server's entry.
    pub(crate) fn parse(entry: &Map<String, Value>) -> Result<Self, EntryProblem> {
        let mut filter = Self::default();
        for (member, value) in entry {
            if value.is_null() {
                continue;
            }
            if ALLOWED.contains(&member.as_str()) {
                let allowed = filter.allowed.get_or_insert_default();
                add_all(allowed, member, value)?;
            } else if FORBIDDEN.contains(&member.as_str()) {
                add_all(&mut filter.forbidden, member, value)?;
            } else if member == "tools" {
                filter.add_tools(value)?;
            } else if !HARMLESS.contains(&member.as_str()) && is_restrictive(member) {
                let shown = marked(member, MAX_NAME_CHARS);
                return Err(problem(
                    format!("the member {shown:?} may restrict the server, but is unknown"),
                    "remove it, or use `disabledTools` or `enabledTools`",
                ));
            }
        }
        Ok(filter)
    }

    /// Reads `tools`: the list of the only tools, or settings by tool.
    fn add_tools(&mut self, value: &Value) -> Result<(), EntryProblem> {
        let Value::Object(tools) = value else {
            let allowed = self.allowed.get_or_insert_default();
            return add_all(allowed, "tools", value);
        };
        for (name, setting) in tools {
            let is_off = match setting {
                Value::Bool(is_on) => !is_on,
                Value::Object(members) => {
                    members.get("enabled") == Some(&Value::Bool(false))
                        || members.get("disabled") == Some(&Value::Bool(true))
                }
                other => {
                    return Err(problem(
                        format!(
                            "`tools` has {} for {:?}",
                            kind(other),
                            marked(name, MAX_NAME_CHARS)
                        ),
                        "give true, false, or an object with `enabled`",
                    ));
                }
            };
            if is_off {
                add(&mut self.forbidden, "tools", name)?;
            }
        }
        Ok(())
    }
}

fn add_all(patterns: &mut Patterns, member: &str, value: &Value) -> Result<(), EntryProblem> {
    let names = match value {
        Value::Array(names) => names.iter().collect(),
        name => vec![name],
    };
    for name in names {
        let Some(name) = name.as_str() else {
            return Err(problem(
                format!("`{member}` has {}", kind(name)),
                "give a list of names of tools",
            ));
        };
        add(patterns, member, name)?;
    }
    Ok(())
}

fn add(patterns: &mut Patterns, member: &str, name: &str) -> Result<(), EntryProblem> {
    // Gemini CLI allows arguments after a tool's name, which no list can check.
    let plain = name.split('(').next().unwrap_or(name).trim();
    patterns.add(plain).map_err(|_| {
        let shown = marked(name, MAX_NAME_CHARS);
        problem(
            format!("`{member}` has the unreadable pattern {shown:?}"),
            "give names of tools, with `*` for any characters",
        )
    })
}

fn is_restrictive(member: &str) -> bool {
    let lower = member.to_lowercase();
    RESTRICTIVE.iter().any(|part| lower.contains(part))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filter(entry: &Value) -> ToolFilter {
        let entry = entry.as_object().expect("an object");
        ToolFilter::parse(entry).unwrap_or_else(|problem| panic!("{}", problem.message))
    }

    #[test]
    fn members_of_other_clients_forbid_tools() {
        for entry in [
            json!({"disabledTools": ["wipe"]}),
            json!({"disabled_tools": ["wipe"]}),
            json!({"excludeTools": "wipe"}),
            json!({"excludeTools": ["wi*"]}),
            json!({"includeTools": ["list", "read(path)"]}),
            json!({"enabledTools": ["list", "read"]}),
            json!({"enabled_tools": ["list", "r*"]}),
            json!({"allowedTools": ["list", "read"], "disabledTools": ["other"]}),
            json!({"tools": ["list", "read"]}),
            json!({"tools": {"wipe": {"enabled": false}, "list": {"enabled": true}}}),
            json!({"tools": {"wipe": false}}),
            json!({"includeTools": ["*"], "excludeTools": ["wipe"]}),
        ] {
            let filter = filter(&entry);
            assert!(filter.is_set(), "{entry}");
            assert!(filter.permits("list") && filter.permits("read"), "{entry}");
            assert!(!filter.permits("wipe"), "{entry}");
        }
        for entry in [
            json!({}),
            json!({"alwaysAllow": ["list"], "disabled": false, "tools": ["*"], "trust": true}),
            json!({"disabledTools": null}),
        ] {
            assert!(filter(&entry).permits("wipe"), "{entry}");
        }
        assert!(!filter(&json!({"allowedTools": []})).permits("list"));
    }

    #[test]
    fn unknown_or_unreadable_restriction_is_a_fault() {
        for entry in [
            json!({"toolDenylist": ["wipe"]}),
            json!({"permissions": {"wipe": "never"}}),
            json!({"disabledTools": [1]}),
            json!({"disabledTools": {"wipe": true}}),
            json!({"excludeTools": ["[*"]}),
            json!({"tools": {"wipe": "off"}}),
        ] {
            let entry = entry.as_object().expect("an object");
            assert!(ToolFilter::parse(entry).is_err(), "{entry:?}");
        }
    }
}
