//! The aliases that an operator gives: they count whatever sources claim.

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

/// The names that skills and models use for the tools that nearly every host has, and what hosts
/// call those tools.
const ECOSYSTEM: &str = include_str!("ecosystem.json");

/// Ecosystem names without case and separators.
static RESERVED: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let aliases = OperatorAliases::ecosystem().0;
    aliases.iter().map(|alias| normalise(&alias.name)).collect()
});

/// Aliases by which the operator wants tools to be called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorAliases(pub(super) Vec<OperatorAlias>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OperatorAlias {
    pub(super) name: String,
    pub(super) target: Target,
    pub(super) deprecated: bool,
}

/// What an alias stands for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Target {
    /// This tool, by id, qualified name or name.
    Tool(String),
    /// The first of these that the catalog has once, in a source that is trusted; none is not an
    /// error.
    FirstOf(Vec<String>),
}

/// A value of the file.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a tool, an array of tools, or an object with `tool`"
)]
enum Value {
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
    /// [`CatalogError`] when the file cannot be read, and as [`OperatorAliases::from_slice`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CatalogError> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(|source| CatalogError::ReadAliases {
            path: path.to_owned(),
            source,
        })?;
        Self::from_slice(&bytes, &path.display().to_string())
    }

    /// Reads aliases from a JSON object: a member is an alias, its value the tool (id,
    /// `source/name` or name), an array of tools of which the first that the catalog has is meant,
    /// or `{"tool": …, "deprecated": true}`.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Syntax`] when the text is not such JSON, [`CatalogError::Aliases`] with
    /// every alias that is no name or stands twice.
    pub fn from_slice(bytes: &[u8], origin: &str) -> Result<Self, CatalogError> {
        let Members(members) = serde_json::from_slice(bytes).map_err(|error| CatalogError::Syntax {
            origin: origin.to_owned(),
            line: error.line(),
            column: error.column(),
            message: format!(
                "{}; give an object from aliases to tools, such as {{\"bash\": \"terminalRun\"}}",
                json::message(&error)
            ),
        })?;
        let mut faults = Vec::new();
        let mut seen = HashSet::new();
        let mut aliases = Vec::with_capacity(members.len());
        for (name, value) in members {
            if let Some(problem) = name_problem(&name) {
                faults.push(fault(&name, problem, "give a short printable name"));
            } else if !seen.insert(name.clone()) {
                faults.push(fault(
                    &name,
                    "it stands twice".to_owned(),
                    "let it mean one tool",
                ));
            }
            let (target, deprecated) = match value {
                Value::Tool(tool) => (Target::Tool(tool), false),
                Value::FirstOf(tools) => (Target::FirstOf(tools), false),
                Value::Full { tool, deprecated } => (Target::Tool(tool), deprecated),
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

    /// Forgets the aliases of tools that are not among `tools`.
    pub(super) fn keep_for(&mut self, tools: &[Arc<Tool>]) {
        let known = tools
            .iter()
            .flat_map(|tool| [tool.id.clone(), tool.qualified_name(), tool.name.clone()]);
        let known: HashSet<String> = known.collect();
        self.0.retain(|alias| match &alias.target {
            Target::Tool(tool) => known.contains(tool),
            Target::FirstOf(_) => true,
        });
    }

    /// Returns the names that skills and models use for the tools that nearly every host has:
    /// `bash`, `read_file`, `web_search` and others, each for the first of the tools known for it
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

/// Returns `true` if a name is one of the ecosystem's, in any writing, which a source without trust
/// cannot take.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&normalise(name))
}

/// The ecosystem's names.
pub fn reserved() -> impl Iterator<Item = &'static str> {
    RESERVED.iter().map(String::as_str)
}

/// The tools that an ecosystem's name stands for, in any writing of it.
pub fn known_for(name: &str) -> Vec<String> {
    let name = normalise(name);
    let aliases = OperatorAliases::ecosystem()
        .0
        .into_iter()
        .filter(|alias| normalise(&alias.name) == name);
    aliases
        .flat_map(|alias| match alias.target {
            Target::Tool(tool) => vec![tool],
            Target::FirstOf(tools) => tools,
        })
        .collect()
}

/// The members of the object in order, repeated ones included.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object from aliases to tools")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ecosystem_file_is_sound_and_its_names_are_reserved() {
        assert!(OperatorAliases::ecosystem().0.len() >= 30);
        for name in ["bash", "Read_File", "readFile", "WRITE-FILE"] {
            assert!(is_reserved(name), "{name}");
        }
        assert!(!is_reserved("terminalRun") && !is_reserved("read_mail"));
    }

    #[test]
    fn faults_of_the_file_are_told_with_their_place() {
        let read = |text: &str| {
            OperatorAliases::from_slice(text.as_bytes(), "a.json")
                .map_err(|error| error.to_string())
        };
        let error = read("{\"bash\":\n 7}").expect_err("a number is not a tool");
        assert!(error.contains("a.json: line 2"), "{error}");
        let error = read("{\"bash\": \"a\", \"bash\": \"b\", \"x\u{200b}\": \"c\"}")
            .expect_err("both are wrong");
        assert!(
            error.contains("stands twice") && error.contains("U+200B"),
            "{error}"
        );
        assert!(read("[1]").is_err() && read("").is_err() && read("{}").is_ok());
    }
}
