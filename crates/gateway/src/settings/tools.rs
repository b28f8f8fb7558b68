//! Overrides of tools: what the operator changes in the definitions of a server.

use std::collections::BTreeMap;

use picktools::Tool;
use picktools::catalog::{Annotations, OperatorAliases};
use serde::Deserialize;

use crate::naming;

/// The most characters of a description and of a search text.
const MAX_TEXT_CHARS: usize = 4_000;

/// The overrides of the tools of a server, by the server's own names of the tools.
pub type ToolOverrides = BTreeMap<String, ToolOverride>;

/// The operator's changes of a tool of a server. Approvals still refer to the server's own
/// definition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolOverride {
    /// The name that clients are shown, without the server.
    pub rename: Option<String>,
    /// The description that models are shown and that is searched.
    pub description: Option<String>,
    /// `true` if nobody may see or run the tool.
    pub hide: bool,
    /// The hints that replace those of the server.
    pub hints: ToolHints,
    /// A text that is searched with the tool, and that models are not shown.
    pub search_text: Option<String>,
    /// `true` if the tool is always listed.
    pub always: bool,
    /// Other names of the tool.
    pub aliases: Vec<String>,
}

/// Hints about a tool. A missing hint keeps the one of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolHints {
    /// `true` if the tool changes nothing.
    pub read_only: Option<bool>,
    /// `true` if the tool may destroy something, which makes it an unsafe tool.
    pub destructive: Option<bool>,
    /// `true` if a repeated call has no further effect.
    pub idempotent: Option<bool>,
    /// `true` if the tool reaches beyond its server.
    pub open_world: Option<bool>,
}

impl ToolHints {
    /// Replaces the hints of a server. A tool that only reads destroys nothing, and the reverse.
    fn apply(&self, annotations: &mut Annotations) {
        let implied = |opposite: Option<bool>| (opposite == Some(true)).then_some(false);
        let read_only = self.read_only.or(implied(self.destructive));
        let destructive = self.destructive.or(implied(self.read_only));
        let hints = [
            (read_only, &mut annotations.read_only_hint),
            (destructive, &mut annotations.destructive_hint),
            (self.idempotent, &mut annotations.idempotent_hint),
            (self.open_world, &mut annotations.open_world_hint),
        ];
        for (hint, annotation) in hints {
            if hint.is_some() {
                *annotation = hint;
            }
        }
    }
}

impl ToolOverride {
    /// Checks the values of an override.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(name) = &self.rename {
            if !naming::is_accepted(name) {
                return Err(format!(
                    "`rename`: {name:?} is not a name; use at most {} letters, digits, `_` and `-`",
                    naming::MAX_CHARS
                ));
            }
            if naming::is_own_name(name) {
                return Err(format!(
                    "`rename`: {name:?} is a tool of the gateway itself"
                ));
            }
        }
        for (member, text) in [
            ("description", &self.description),
            ("search_text", &self.search_text),
        ] {
            let Some(text) = text else { continue };
            if text.trim().is_empty() || text.chars().count() > MAX_TEXT_CHARS {
                return Err(format!(
                    "`{member}` must have 1 to {MAX_TEXT_CHARS} characters"
                ));
            }
        }
        if self.hints.read_only == Some(true) && self.hints.destructive == Some(true) {
            return Err("`hints`: `read_only` and `destructive` exclude each other".to_owned());
        }
        for alias in &self.aliases {
            let problem = match naming::is_own_name(alias) {
                true => Some("it is a tool of the gateway itself".to_owned()),
                false => OperatorAliases::problem(alias),
            };
            if let Some(problem) = problem {
                return Err(format!("`aliases`: {alias:?}: {problem}"));
            }
        }
        Ok(())
    }

    /// Changes a tool, apart from its names.
    pub(crate) fn apply(&self, tool: &mut Tool) {
        if let Some(description) = &self.description {
            tool.description.clone_from(description);
        }
        self.hints.apply(&mut tool.annotations);
        // Tags and examples are searched, and no definition for a model contains them. A catalog
        // ignores examples of untrusted servers.
        let Some(text) = &self.search_text else {
            return;
        };
        tool.tags.push(text.clone());
        if !tool.untrusted {
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            tool.examples.extend(lines.map(str::to_owned));
        }
    }
}

/// Checks the overrides of all servers: names of tools must stay unique.
pub(super) fn check_overrides<'a>(
    overrides: impl Iterator<Item = (&'a String, &'a ToolOverrides)>,
) -> Result<(), String> {
    let mut owners: BTreeMap<&str, String> = BTreeMap::new();
    for (server, tools) in overrides {
        let mut renames: BTreeMap<&str, &str> = BTreeMap::new();
        for (tool, changed) in tools {
            let place = format!("the tool {tool:?} of the upstream {server:?}");
            changed
                .check()
                .map_err(|error| format!("{place}: {error}"))?;
            if let Some(name) = &changed.rename
                && let Some(other) = renames.insert(name, tool)
            {
                return Err(format!(
                    "{place}: `rename`: {other:?} has the name {name:?} too; choose another one"
                ));
            }
            for alias in &changed.aliases {
                if let Some(owner) = owners.insert(alias, place.clone()) {
                    return Err(format!(
                        "{place}: the alias {alias:?} belongs to {owner} too; keep one of them"
                    ));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    fn parse(tools: &str) -> Result<Settings, String> {
        let text = format!(r#"{{"upstreams": {{"git": {{"tools": {tools}}}}}}}"#);
        Settings::parse(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn invalid_overrides_are_refused() {
        for (tools, expected) in [
            (r#"{"a": {"rename": "b c"}}"#, "is not a name"),
            (r#"{"a": {"rename": ""}}"#, "is not a name"),
            (r#"{"a": {"rename": "search_tools"}}"#, "gateway itself"),
            (r#"{"a": {"aliases": ["call_tool"]}}"#, "gateway itself"),
            (r#"{"a": {"aliases": [" "]}}"#, "it is empty"),
            (r#"{"a": {"aliases": ["x", "x"]}}"#, "keep one of them"),
            (
                r#"{"a": {"aliases": ["x"]}, "b": {"aliases": ["x"]}}"#,
                "keep one of them",
            ),
            (
                r#"{"a": {"rename": "x"}, "b": {"rename": "x"}}"#,
                "choose another one",
            ),
            (r#"{"a": {"description": " "}}"#, "characters"),
            (
                r#"{"a": {"hints": {"read_only": true, "destructive": true}}}"#,
                "exclude each other",
            ),
            (r#"{"a": {"hidden": true}}"#, "unknown field"),
            (r#"{"a": {"hints": {"readOnly": true}}}"#, "unknown field"),
        ] {
            let error = parse(tools).map(|_| ()).expect_err(tools);
            assert!(error.contains(expected), "{tools}: {error}");
        }
        let text = r#"{"upstreams": {"*": {"tools": {"a": {"hide": true}}}}}"#;
        let error = Settings::parse(text).expect_err("a tool belongs to one server");
        assert!(error.to_string().contains("name the server"), "{error}");
    }

    #[test]
    fn hints_that_exclude_each_other_are_replaced_together() {
        let hints = |text| -> ToolHints { serde_json::from_str(text).expect("valid hints") };
        let mut annotations = Annotations {
            destructive_hint: Some(true),
            open_world_hint: Some(true),
            ..Annotations::default()
        };
        hints(r#"{"read_only": true}"#).apply(&mut annotations);
        assert_eq!(annotations.read_only_hint, Some(true));
        assert_eq!(annotations.destructive_hint, Some(false));
        assert_eq!(annotations.open_world_hint, Some(true));
        hints(r#"{"destructive": true}"#).apply(&mut annotations);
        assert_eq!(annotations.read_only_hint, Some(false));
        assert_eq!(annotations.destructive_hint, Some(true));
    }
}
