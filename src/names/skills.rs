//! Skills: folders of instructions that declare the tools they need.
//!
//! A skill is a folder with a `SKILL.md`: YAML front matter with a `name`, a `description` and
//! `allowed-tools`, then the instructions
//! ([the specification](https://agentskills.io/specification)). Skills are written for many hosts
//! and use common tool names. The [`NameTable`] resolves these names exactly, by alias, or in a
//! variant spelling, and so decides if a catalog can serve a skill.

use std::fmt;

use serde::Serialize;

pub use super::prompt::skills_section;

use super::{NameTable, Resolution, ResolvedVia, log_use};
use crate::catalog::Catalog;
use crate::excerpt::list;
use crate::ranking::ToolId;
use crate::saved::SavedError;

/// A skill, as its `SKILL.md` describes it.
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
/// assert!(skill.compatibility(&catalog, &NameTable::new(&catalog)?)?.is_compatible());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skill {
    /// The skill's name.
    pub name: String,
    /// The purpose of the skill, and when to use it.
    pub description: String,
    /// The path of its `SKILL.md` relative to the searched folder, with `/` between the parts.
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
    /// The restriction of the tool's use, such as `git:*` in `Bash(git:*)`. The host that runs
    /// calls must enforce it.
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

/// The result of resolving the tools of a skill in a catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SkillReport {
    /// The skill's name.
    pub name: String,
    /// The path of its `SKILL.md` relative to the searched folder.
    pub path: String,
    /// Every tool that it names, in the order of the file.
    pub tools: Vec<SkillTool>,
}

/// A tool that a skill names, with the result of resolving the name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SkillTool {
    /// The tool as the skill names it.
    #[serde(flatten)]
    pub allowed: AllowedTool,
    /// The result of resolving the name.
    #[serde(flatten)]
    pub meaning: ToolMeaning,
}

/// The result of resolving a tool name in a catalog, with the tools' ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ToolMeaning {
    /// One tool.
    Tool {
        /// Its id.
        tool: String,
        /// The kind of the name.
        via: ResolvedVia,
        /// `true` if the name is a deprecated alias.
        deprecated: bool,
    },
    /// The tools that a pattern such as `mcp__server__*` matches.
    Matched {
        /// Their ids.
        tools: Vec<String>,
    },
    /// Several tools.
    Ambiguous {
        /// Their ids.
        candidates: Vec<String>,
    },
    /// No tool.
    Unknown {
        /// The most similar names of the catalog, best first.
        suggestions: Vec<String>,
    },
}

impl Skill {
    /// Resolves the tools of the skill in a catalog, of which `names` is the name table.
    ///
    /// # Errors
    ///
    /// [`SavedError`] if the definition of a tool cannot be read.
    pub fn compatibility(
        &self,
        catalog: &Catalog,
        names: &NameTable,
    ) -> Result<SkillReport, SavedError> {
        self.report(|name| ToolMeaning::resolve(name, catalog, names))
    }

    /// Resolves the tools of the skill with the function `resolve`.
    pub(crate) fn report(
        &self,
        mut resolve: impl FnMut(&str) -> Result<ToolMeaning, SavedError>,
    ) -> Result<SkillReport, SavedError> {
        let mut tools = Vec::with_capacity(self.allowed_tools.len());
        for allowed in &self.allowed_tools {
            tools.push(SkillTool {
                meaning: resolve(&allowed.name)?,
                allowed: allowed.clone(),
            });
        }
        Ok(SkillReport {
            name: self.name.clone(),
            path: self.path.clone(),
            tools,
        })
    }
}

impl ToolMeaning {
    /// Resolves `name` in a catalog, of which `names` is the name table, and logs the use.
    ///
    /// # Errors
    ///
    /// [`SavedError`] if the definition of a tool cannot be read.
    pub fn resolve(name: &str, catalog: &Catalog, names: &NameTable) -> Result<Self, SavedError> {
        let id = |tool: ToolId| catalog.tool_id(tool).to_owned();
        if let Ok(Some(pattern)) = names.pattern(name) {
            let tools = pattern.tools(catalog)?;
            if tools.is_empty() {
                let suggestions = names.suggest(name, |_| true);
                return Ok(Self::Unknown { suggestions });
            }
            return Ok(Self::Matched {
                tools: tools.into_iter().map(id).collect(),
            });
        }
        Ok(match names.resolve(name, catalog)? {
            Resolution::Tool(resolved) => {
                let tool = catalog.tool(resolved.tool)?;
                log_use(name, None, tool, resolved.deprecated);
                Self::Tool {
                    tool: id(resolved.tool),
                    via: resolved.via,
                    deprecated: resolved.deprecated,
                }
            }
            Resolution::Ambiguous(tools) => Self::Ambiguous {
                candidates: tools.into_iter().map(id).collect(),
            },
            Resolution::Unknown { suggestions } => Self::Unknown { suggestions },
        })
    }

    /// Returns `true` if the name stands for exactly one tool, or is a pattern that matches tools.
    pub fn is_resolved(&self) -> bool {
        matches!(self, Self::Tool { .. } | Self::Matched { .. })
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
            Self::Matched { tools } => f.write_str(&list(tools, ", ")),
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
    /// Returns `true` if every name of the skill resolves to exactly one tool, every pattern matches
    /// a tool, or the skill names no tools.
    pub fn is_compatible(&self) -> bool {
        self.tools.iter().all(|tool| tool.meaning.is_resolved())
    }
}

impl fmt::Display for SkillReport {
    /// Writes one line: that the skill can be used, or why not.
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
                ToolMeaning::Tool { .. } | ToolMeaning::Matched { .. } => continue,
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
