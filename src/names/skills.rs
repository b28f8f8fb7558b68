//! Skills: folders of instructions that say which tools they need.
//!
//! A skill is a folder with a `SKILL.md`: YAML front matter with a `name`, a `description` and
//! `allowed-tools`, then the instructions
//! ([the specification](https://agentskills.io/specification)). Skills are written for many hosts
//! and call tools by the names of the ecosystem, so whether one can be used here is for the
//! [`NameTable`] to say: by name, by alias, or in a variant spelling.

use std::fmt;

use serde::Serialize;

pub use super::prompt::skills_section;

use super::{NameTable, Resolution, ResolvedVia, log_use};
use crate::catalog::Catalog;
use crate::excerpt::list;
use crate::ranking::ToolId;

/// A skill: what its `SKILL.md` says.
///
/// ```
/// use picktools::names::NameTable;
/// use picktools::skills::{AllowedTool, Skill};
/// use picktools::{Catalog, Tool};
///
/// let skill = Skill {
///     name: "notes".to_owned(),
///     description: "Takes notes.".to_owned(),
///     path: "notes/SKILL.md".to_owned(),
///     allowed_tools: vec![AllowedTool { name: "write_file".to_owned(), scope: None }],
///     body: "Write them down.".to_owned(),
/// };
/// let catalog = Catalog::from_tools([Tool::without_arguments("writeFile", "Writes a file")])?;
/// assert!(skill.compatibility(&catalog, &NameTable::new(&catalog)).is_compatible());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skill {
    /// The skill's name.
    pub name: String,
    /// What it is for, and when.
    pub description: String,
    /// Where its `SKILL.md` stands below the folder that was searched, with `/` between the parts.
    pub path: String,
    /// The tools that it needs, in the order of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<AllowedTool>,
    /// The instructions.
    #[serde(skip)]
    pub body: String,
}

/// A tool that a skill may use, as its `SKILL.md` names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AllowedTool {
    /// The name.
    pub name: String,
    /// What the skill may use it for: `git:*` of `Bash(git:*)`. Holding calls to it is up to
    /// whoever runs them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

impl fmt::Display for AllowedTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            Some(scope) => write!(f, "{}({scope})", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// What the tools that a skill names mean in a catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SkillReport {
    /// The skill's name.
    pub name: String,
    /// Where its `SKILL.md` stands below the folder that was searched.
    pub path: String,
    /// Every tool that it names, in the order of the file.
    pub tools: Vec<SkillTool>,
}

/// A tool that a skill names, and what the name means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SkillTool {
    /// The tool as the skill names it.
    #[serde(flatten)]
    pub allowed: AllowedTool,
    /// What it means.
    #[serde(flatten)]
    pub meaning: ToolMeaning,
}

/// What the name of a tool means in a catalog, by the tools' ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ToolMeaning {
    /// One tool.
    Tool {
        /// Its id.
        tool: String,
        /// How the name led to it.
        via: ResolvedVia,
        /// Whether it did by an alias that shall no longer be used.
        deprecated: bool,
    },
    /// Several tools.
    Ambiguous {
        /// Their ids.
        candidates: Vec<String>,
    },
    /// None.
    Unknown {
        /// The nearest names that there are, best first.
        suggestions: Vec<String>,
    },
}

impl Skill {
    /// Tells what the tools that it names mean in a catalog, of which `names` is the table.
    pub fn compatibility(&self, catalog: &Catalog, names: &NameTable) -> SkillReport {
        self.report(|name| ToolMeaning::of(name, catalog, names))
    }

    /// Tells what the tools that it names mean, which is for `meaning` to say.
    pub(crate) fn report(&self, mut meaning: impl FnMut(&str) -> ToolMeaning) -> SkillReport {
        let tools = self.allowed_tools.iter();
        let tools = tools.map(|allowed| SkillTool {
            meaning: meaning(&allowed.name),
            allowed: allowed.clone(),
        });
        SkillReport {
            name: self.name.clone(),
            path: self.path.clone(),
            tools: tools.collect(),
        }
    }
}

impl ToolMeaning {
    /// Returns what `name` means in a catalog, of which `names` is the table.
    pub fn of(name: &str, catalog: &Catalog, names: &NameTable) -> Self {
        let id = |tool: ToolId| catalog.tool(tool).id.clone();
        match names.resolve(name) {
            Resolution::Tool(found) => {
                log_use(name, None, catalog.tool(found.tool), found.deprecated);
                Self::Tool {
                    tool: id(found.tool),
                    via: found.via,
                    deprecated: found.deprecated,
                }
            }
            Resolution::Ambiguous(tools) => Self::Ambiguous {
                candidates: tools.into_iter().map(id).collect(),
            },
            Resolution::Unknown { suggestions } => Self::Unknown { suggestions },
        }
    }
}

impl fmt::Display for ToolMeaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool {
                tool,
                via: ResolvedVia::Name | ResolvedVia::Advertised,
                ..
            } => f.write_str(tool),
            Self::Tool {
                tool,
                via: ResolvedVia::Alias,
                ..
            } => write!(f, "{tool} (alias)"),
            Self::Tool {
                tool,
                via: ResolvedVia::Normalised,
                ..
            } => write!(f, "{tool} (in a variant spelling)"),
            Self::Ambiguous { candidates } => {
                write!(f, "ambiguous; write one of {}", list(candidates, ", "))
            }
            Self::Unknown { suggestions } if suggestions.is_empty() => f.write_str("no such tool"),
            Self::Unknown { suggestions } => write!(
                f,
                "no such tool; did you mean {}?",
                list(suggestions, " or ")
            ),
        }
    }
}

impl SkillReport {
    /// Returns `true` if every tool that the skill names is exactly one; a skill that names none
    /// needs none.
    pub fn is_compatible(&self) -> bool {
        self.tools
            .iter()
            .all(|tool| matches!(tool.meaning, ToolMeaning::Tool { .. }))
    }
}

impl fmt::Display for SkillReport {
    /// Says in one line why the skill cannot be used, or that it can.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the skill {:?} ({}) ", self.name, self.path)?;
        if self.is_compatible() {
            return f.write_str("has all the tools that it needs");
        }
        f.write_str("cannot be used: ")?;
        let mut first = true;
        for SkillTool {
            allowed: AllowedTool { name, .. },
            meaning,
        } in &self.tools
        {
            let problem = match meaning {
                ToolMeaning::Tool { .. } => continue,
                ToolMeaning::Ambiguous { candidates } => {
                    format!(
                        "{name:?} is ambiguous, write one of {}",
                        list(candidates, ", ")
                    )
                }
                ToolMeaning::Unknown { suggestions } if suggestions.is_empty() => {
                    format!("there is no tool {name:?}")
                }
                ToolMeaning::Unknown { suggestions } => {
                    format!(
                        "there is no tool {name:?}, did you mean {}?",
                        list(suggestions, " or ")
                    )
                }
            };
            write!(f, "{}{problem}", if first { "" } else { "; " })?;
            first = false;
        }
        Ok(())
    }
}
