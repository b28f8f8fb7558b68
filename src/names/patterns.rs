//! Patterns: names and globs of tools in options and settings.

use std::collections::BTreeSet;

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::NameTable;
use crate::catalog::{Catalog, Tool};
use crate::ranking::ToolId;
use crate::saved::SavedError;

/// The characters that make a text a glob.
const GLOB_CHARACTERS: [char; 4] = ['*', '?', '[', '{'];

/// The start of a tool's name in clients that name the server too: `mcp__server__tool`.
const CLIENT_START: &str = "mcp__";

/// The compiled names and globs of tools.
///
/// ```
/// use picktools::names::ToolPatterns;
///
/// let patterns = ToolPatterns::new(&["Bash".to_owned(), "github/*".to_owned()])?;
/// assert!(patterns.matches("github/list_issues"));
/// assert!(!patterns.matches("bash"));
/// let patterns = ToolPatterns::new(&["mcp__github__list_*".to_owned(), "mcp__jira".to_owned()])?;
/// assert!(patterns.matches("github/list_issues") && patterns.matches("jira/create_issue"));
/// # Ok::<(), picktools::names::PatternError>(())
/// ```
#[derive(Debug)]
pub struct ToolPatterns {
    /// All patterns as they are written, the globs too. A tool's name may have a character such as
    /// `*`; a pattern that is equal to the name matches it.
    names: BTreeSet<String>,
    globs: GlobSet,
    /// `true` if a pattern begins as the names of clients do.
    has_client_form: bool,
}

/// An error in a name or glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// A name is empty.
    #[error("a name is empty; remove it")]
    Empty,
    /// A glob is invalid.
    #[error("invalid pattern {pattern:?}: {reason}")]
    Invalid {
        /// The glob.
        pattern: String,
        /// The fault.
        reason: String,
    },
    /// The globs are too many or too long.
    #[error("invalid patterns: {reason}")]
    TooLarge {
        /// The exceeded limit.
        reason: String,
    },
}

impl ToolPatterns {
    /// Compiles names and globs. `*` stands for any characters, `?` for one, `{a,b}` for either
    /// text, and `[ab]` for one of the characters. A pattern such as `mcp__server__*` also matches
    /// ids (`server/tool`), and `mcp__server` matches all tools of the server.
    ///
    /// # Errors
    ///
    /// [`PatternError`] if a name is empty, or a glob is invalid or too long.
    pub fn new(patterns: &[String]) -> Result<Self, PatternError> {
        let mut globs = GlobSetBuilder::new();
        for pattern in patterns {
            if pattern.trim().is_empty() {
                return Err(PatternError::Empty);
            }
            globs.add(compile(pattern)?);
            if is_server_pattern(pattern) {
                globs.add(compile(&format!("{pattern}__*"))?);
            }
        }
        let globs = globs.build().map_err(|error| PatternError::TooLarge {
            reason: error.kind().to_string(),
        })?;
        Ok(Self {
            names: patterns.iter().cloned().collect(),
            globs,
            has_client_form: patterns.iter().any(|one| one.starts_with(CLIENT_START)),
        })
    }

    /// Returns `true` if a pattern is the name or matches it.
    pub fn matches(&self, name: &str) -> bool {
        let matches = |name: &str| self.names.contains(name) || self.globs.is_match(name);
        matches(name)
            || (self.has_client_form && client_form(name).is_some_and(|name| matches(&name)))
    }

    /// Returns `true` if a pattern matches the id or the name of a tool.
    pub fn matches_tool(&self, tool: &Tool) -> bool {
        self.matches(&tool.id) || self.matches(&tool.name)
    }

    /// Returns the tools of a catalog that match, in registration order.
    ///
    /// # Errors
    ///
    /// [`SavedError`] if the definition of a tool cannot be read.
    pub fn tools(&self, catalog: &Catalog) -> Result<Vec<ToolId>, SavedError> {
        let mut tools = Vec::new();
        for tool in catalog.ids() {
            if self.matches_tool(catalog.outline(tool)?) {
                tools.push(tool);
            }
        }
        Ok(tools)
    }
}

/// Returns `true` if a text stands for several tools: it has one of the characters `*`, `?`, `[`
/// and `{`, or has the form `mcp__server`.
pub fn is_glob(pattern: &str) -> bool {
    pattern.contains(GLOB_CHARACTERS) || is_server_pattern(pattern)
}

impl NameTable {
    /// Returns `true` if a text is a glob or `mcp__server`, and no tool has it as its name.
    pub(crate) fn is_pattern(&self, text: &str) -> bool {
        is_glob(text) && self.tools.get(text).is_none()
    }

    /// Compiles a glob or `mcp__server`. Returns `None` if the text is not such a pattern, or a
    /// tool has it as its name.
    ///
    /// # Errors
    ///
    /// [`PatternError`] if the glob is invalid or too long.
    pub(crate) fn pattern(&self, text: &str) -> Result<Option<ToolPatterns>, PatternError> {
        if !self.is_pattern(text) {
            return Ok(None);
        }
        ToolPatterns::new(&[text.to_owned()]).map(Some)
    }
}

/// Returns `true` for `mcp__server`, which stands for all tools of a server.
fn is_server_pattern(pattern: &str) -> bool {
    let server = pattern.strip_prefix(CLIENT_START);
    server.is_some_and(|server| !server.is_empty() && !server.contains("__"))
}

/// Returns the name of a client for the id `server/tool`. Clients replace characters that models
/// do not accept by an underscore.
fn client_form(id: &str) -> Option<String> {
    let (server, tool) = id.split_once('/')?;
    let (server, tool) = (accepted_by_models(server), accepted_by_models(tool));
    Some(format!("{CLIENT_START}{server}__{tool}"))
}

fn accepted_by_models(name: &str) -> String {
    let is_accepted = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.replace(|c| !is_accepted(c), "_")
}

fn compile(pattern: &str) -> Result<Glob, PatternError> {
    Glob::new(pattern).map_err(|error| PatternError::Invalid {
        pattern: pattern.to_owned(),
        reason: error.kind().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_clients_match_the_tools_of_a_server() {
        let matches = |pattern: &str, id: &str| {
            let patterns = ToolPatterns::new(&[pattern.to_owned()]).expect("valid");
            patterns.matches(id)
        };
        for (pattern, id, expected) in [
            ("mcp__github", "github/create_issue", true),
            ("mcp__github__*", "github/create_issue", true),
            ("mcp__github__create_*", "github/create_issue", true),
            ("mcp__github__create_issue", "github/create_issue", true),
            ("mcp__my_server__*", "my server/list", true),
            ("mcp__*", "github/create_issue", true),
            ("mcp__*__create_*", "github/create_issue", true),
            ("mcp__git", "github/create_issue", false),
            ("mcp__git__*", "github/create_issue", false),
            ("mcp__github__list_*", "github/create_issue", false),
            ("mcp__github", "create_issue", false),
        ] {
            assert_eq!(matches(pattern, id), expected, "{pattern} {id}");
        }
        assert!(is_glob("mcp__github") && is_glob("mcp__github__*"));
        assert!(!is_glob("mcp__github__create_issue") && !is_glob("mcp__"));
    }
}
