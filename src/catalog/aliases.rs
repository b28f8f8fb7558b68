//! The aliases that the operator gives. They take precedence over the aliases of sources.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use super::definition::Tool;
use super::entry::name_problem;
use super::error::{CatalogError, CatalogFault, FaultKind, Position};
use super::spelling::normalise;
use crate::json;

/// The well-known names of tools that nearly every host has, as skills and models use them, and the
/// names that hosts give to those tools.
const ECOSYSTEM: &str = include_str!("ecosystem.json");

/// The well-known names without case and separators.
static RESERVED: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let aliases = OperatorAliases::ecosystem().0;
    aliases.iter().map(|alias| normalise(&alias.name)).collect()
});

/// The operator's aliases of tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorAliases(pub(super) Vec<OperatorAlias>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OperatorAlias {
    pub(super) name: String,
    pub(super) target: Target,
    pub(super) deprecated: bool,
}

/// The target of an alias.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Target {
    /// A tool, by id, qualified name or name.
    Tool(String),
    /// The first of these tools that is unique in the catalog and trusted. No match is not an
    /// error.
    FirstOf(Vec<String>),
}

/// A value in an alias file.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a tool, an array of tools, or an object with `tool`"
)]
enum AliasValue {
    Tool(String),
    FirstOf(Vec<String>),
    Full {
        tool: String,
        #[serde(default)]
        deprecated: bool,
    },
}

impl OperatorAliases {
    /// Reads a file of aliases; see [`OperatorAliases::from_slice`].
    ///
    /// # Errors
    ///
    /// [`CatalogError`] if the file cannot be read, and as [`OperatorAliases::from_slice`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CatalogError> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(|source| CatalogError::ReadAliases {
            path: path.to_owned(),
            source,
        })?;
        Self::from_slice(&bytes, &path.display().to_string())
    }

    /// Reads aliases from a JSON object. A key is an alias. Its value is a tool (id, `source/name`
    /// or name), an array of tools of which the first in the catalog counts, or
    /// `{"tool": …, "deprecated": true}`.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Syntax`] if the text is not such JSON, and [`CatalogError::Aliases`] with
    /// every alias that is invalid or a duplicate.
    pub fn from_slice(bytes: &[u8], origin: &str) -> Result<Self, CatalogError> {
        let syntax_error = |error: &serde_json::Error| CatalogError::Syntax {
            origin: origin.to_owned(),
            line: error.line(),
            column: error.column(),
            message: format!(
                "{}; give an object from aliases to tools, such as {{\"bash\": \"terminalRun\"}}",
                json::message(error)
            ),
        };
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let AliasEntries(entries) =
            serde_json::from_slice(bytes).map_err(|error| syntax_error(&error))?;
        let mut faults = Vec::new();
        let mut names = HashSet::new();
        let mut aliases = Vec::with_capacity(entries.len());
        for (name, value) in entries {
            if let Some(problem) = name_problem(&name) {
                faults.push(fault(&name, problem, "give a short printable name"));
            } else if !names.insert(name.clone()) {
                faults.push(fault(
                    &name,
                    "duplicate alias".to_owned(),
                    "keep one of them",
                ));
            }
            let (target, deprecated) = match value {
                AliasValue::Tool(tool) => (Target::Tool(tool), false),
                AliasValue::FirstOf(tools) => (Target::FirstOf(tools), false),
                AliasValue::Full { tool, deprecated } => (Target::Tool(tool), deprecated),
            };
            aliases.push(OperatorAlias {
                name,
                target,
                deprecated,
            });
        }
        if faults.is_empty() {
            return Ok(Self(aliases));
        }
        Err(CatalogError::Aliases { faults })
    }

    /// Makes aliases of tools, each an alias with the id of its tool. Of equal aliases, the first one
    /// counts.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut all = Vec::new();
        for (name, tool) in pairs {
            all.push(OperatorAlias {
                name,
                target: Target::Tool(tool),
                deprecated: false,
            });
        }
        let mut aliases = Self(Vec::new());
        aliases.add_missing(&Self(all));
        aliases
    }

    /// Returns the problem of a name that cannot be an alias.
    pub fn problem(name: &str) -> Option<String> {
        name_problem(name)
    }

    /// Returns the aliases that may refer to a tool, by its id, its qualified name or its name.
    pub fn names_for<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a str> {
        let may_refer = move |alias: &&OperatorAlias| match &alias.target {
            Target::Tool(target) => target == tool,
            Target::FirstOf(targets) => targets.iter().any(|target| target == tool),
        };
        self.0.iter().filter(may_refer).map(|alias| &*alias.name)
    }

    /// Returns the names of the tools that an alias may refer to.
    pub fn targets(&self, alias: &str) -> impl Iterator<Item = &str> {
        let alias = self.0.iter().find(|known| known.name == alias);
        let targets = match alias.map(|alias| &alias.target) {
            Some(Target::Tool(tool)) => std::slice::from_ref(tool),
            Some(Target::FirstOf(tools)) => tools,
            None => &[],
        };
        targets.iter().map(String::as_str)
    }

    /// Adds the aliases of `others` whose names are not among these.
    pub fn add_missing(&mut self, others: &Self) {
        let mut names: HashSet<String> = self.0.iter().map(|alias| alias.name.clone()).collect();
        for alias in &others.0 {
            if names.insert(alias.name.clone()) {
                self.0.push(alias.clone());
            }
        }
    }

    /// Removes the aliases of tools that are not among `tools`.
    pub(super) fn retain_for(&mut self, tools: &[Arc<Tool>]) {
        let names = tools
            .iter()
            .flat_map(|tool| [tool.id.clone(), tool.qualified_name(), tool.name.clone()]);
        let names: HashSet<String> = names.collect();
        self.0.retain(|alias| match &alias.target {
            Target::Tool(tool) => names.contains(tool),
            Target::FirstOf(_) => true,
        });
    }

    /// Returns the well-known names that skills and models use for the tools of nearly every host,
    /// such as `bash`, `read_file` and `web_search`. Each refers to the first of its usual tools
    /// that a catalog has.
    pub fn ecosystem() -> Self {
        Self::from_slice(ECOSYSTEM.as_bytes(), "ecosystem.json").expect("a test reads the file")
    }
}

pub(super) fn fault(alias: &str, message: String, remedy: impl Into<String>) -> CatalogFault {
    CatalogFault {
        position: Position::OperatorAlias(alias.to_owned()),
        kind: FaultKind::OperatorAlias,
        name: None,
        pointer: String::new(),
        message,
        remedy: remedy.into(),
    }
}

/// Returns `true` if a name is well known, in any spelling. An untrusted source cannot take such a
/// name.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&normalise(name))
}

/// Returns the well-known names, normalised.
pub fn reserved() -> impl Iterator<Item = &'static str> {
    RESERVED.iter().map(String::as_str)
}

/// Returns the usual tools of a well-known name, in any spelling of the name.
pub fn known_for(name: &str) -> Vec<String> {
    let name = normalise(name);
    let mut usual_tools = Vec::new();
    for alias in OperatorAliases::ecosystem().0 {
        if normalise(&alias.name) != name {
            continue;
        }
        match alias.target {
            Target::Tool(tool) => usual_tools.push(tool),
            Target::FirstOf(tools) => usual_tools.extend(tools),
        }
    }
    usual_tools
}

/// The entries of an alias file in order, including duplicates.
struct AliasEntries(Vec<(String, AliasValue)>);

impl<'de> Deserialize<'de> for AliasEntries {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = AliasEntries;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object from aliases to tools")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<AliasEntries, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(AliasEntries(members))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_of_equal_aliases_counts() {
        let pair = |name: &str, tool: &str| (name.to_owned(), tool.to_owned());
        let mut aliases = OperatorAliases::from_pairs([pair("a", "x"), pair("a", "y")]);
        aliases.add_missing(&OperatorAliases::from_pairs([
            pair("a", "z"),
            pair("b", "z"),
        ]));
        let expected = OperatorAliases::from_pairs([pair("a", "x"), pair("b", "z")]);
        assert_eq!(aliases, expected);
        assert_eq!(aliases.names_for("z").collect::<Vec<_>>(), ["b"]);
        assert_eq!(OperatorAliases::problem("a"), None);
        assert!(OperatorAliases::problem(" ").is_some());
    }

    #[test]
    fn ecosystem_file_is_valid_and_its_names_are_reserved() {
        assert!(OperatorAliases::ecosystem().0.len() >= 30);
        for name in ["bash", "Read_File", "readFile", "WRITE-FILE"] {
            assert!(is_reserved(name), "{name}");
        }
        assert!(!is_reserved("terminalRun") && !is_reserved("read_mail"));
    }

    #[test]
    fn alias_file_faults_name_the_position() {
        let parse = |text: &str| {
            OperatorAliases::from_slice(text.as_bytes(), "a.json")
                .map_err(|error| error.to_string())
        };
        let error = parse("{\"bash\":\n 7}").expect_err("a number is not a tool");
        assert!(error.contains("a.json: line 2"), "{error}");
        let error = parse("{\"bash\": \"a\", \"bash\": \"b\", \"x\u{200b}\": \"c\"}")
            .expect_err("both aliases are invalid");
        assert!(
            error.contains("duplicate alias") && error.contains("U+200B"),
            "{error}"
        );
        assert!(parse("[1]").is_err() && parse("").is_err() && parse("{}").is_ok());
    }

    #[test]
    fn duplicate_keys_are_refused_and_a_mark_is_allowed() {
        let parse = |text: &str| OperatorAliases::from_slice(text.as_bytes(), "aliases.json");
        for text in [
            r#"{"a": "x", "a": "y"}"#,
            r#"{"a": {"tool": "x", "tool": "y"}}"#,
            r#"{"a": {"tool": "x", "deprecated": true, "deprecated": false}}"#,
        ] {
            assert!(parse(text).is_err(), "{text}");
            assert!(parse(&format!("\u{feff}{text}")).is_err(), "{text}");
        }
        parse("\u{feff}{\"a\": \"x\"}").expect("a mark is allowed");
    }
}
