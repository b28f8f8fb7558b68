//! Patterns: names and globs of tools in options and settings.

use std::collections::BTreeSet;

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::catalog::Catalog;
use crate::ranking::ToolId;

/// The characters that make a text a glob.
const GLOB_CHARACTERS: [char; 4] = ['*', '?', '[', '{'];

/// The compiled names and globs of tools.
///
/// ```
/// use picktools::names::ToolPatterns;
///
/// let patterns = ToolPatterns::new(&["Bash".to_owned(), "github/*".to_owned()])?;
/// assert!(patterns.matches("github/list_issues"));
/// assert!(!patterns.matches("bash"));
/// # Ok::<(), picktools::names::PatternError>(())
/// ```
#[derive(Debug)]
pub struct ToolPatterns {
    /// All patterns as they are written, the globs too. A tool's name may have a character such as
    /// `*`; a pattern that is equal to the name matches it.
    names: BTreeSet<String>,
    globs: GlobSet,
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
    /// text, and `[ab]` for one of the characters.
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
        }
        let globs = globs.build().map_err(|error| PatternError::TooLarge {
            reason: error.kind().to_string(),
        })?;
        Ok(Self {
            names: patterns.iter().cloned().collect(),
            globs,
        })
    }

    /// Returns `true` if a pattern is the name or matches it.
    pub fn matches(&self, name: &str) -> bool {
        self.names.contains(name) || self.globs.is_match(name)
    }

    /// Returns `true` if a pattern matches the id or the name of a tool.
    pub fn matches_tool(&self, catalog: &Catalog, tool: ToolId) -> bool {
        let outline = catalog.outline(tool);
        self.matches(&outline.id) || self.matches(&outline.name)
    }
}

/// Returns `true` if a text has one of the characters `*`, `?`, `[` and `{`.
pub fn is_glob(pattern: &str) -> bool {
    pattern.contains(GLOB_CHARACTERS)
}

fn compile(pattern: &str) -> Result<Glob, PatternError> {
    Glob::new(pattern).map_err(|error| PatternError::Invalid {
        pattern: pattern.to_owned(),
        reason: error.kind().to_string(),
    })
}
