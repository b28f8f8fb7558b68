//! Errors of reading skills.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// An error from reading skills.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// A file or folder cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The folder has no skill.
    #[error("the folder {} has no SKILL.md at any level; name a folder of skills", path.display())]
    NoSkills {
        /// The folder.
        path: PathBuf,
    },
    /// The folder has more entries than are visited.
    #[error(
        "the folder {} has more than {limit} {what}, and the rest is skipped; name a smaller one",
        path.display()
    )]
    TooMany {
        /// The folder.
        path: PathBuf,
        /// The kind of entries: `skills` or `files and folders`.
        what: &'static str,
        /// The largest number of entries.
        limit: usize,
    },
    /// A folder is deeper than the search.
    #[error(
        "the content of {} is skipped, because it is more than {limit} levels deep; move it up",
        path.display()
    )]
    TooDeep {
        /// The first such folder.
        path: PathBuf,
        /// The depth of the search.
        limit: usize,
    },
    /// A symbolic link leads to a folder that contains it.
    #[error(
        "the symbolic link {} leads back to {} and is not followed; remove it",
        path.display(),
        ancestor.display()
    )]
    Loop {
        /// The link.
        path: PathBuf,
        /// The folder.
        ancestor: PathBuf,
    },
    /// A file is too large.
    #[error("{} is larger than {limit} bytes; move long parts to other files", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The largest size, in bytes.
        limit: u64,
    },
    /// A file is not UTF-8.
    #[error("{} is not valid UTF-8; save it as UTF-8", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
    },
    /// A file is not a valid skill.
    #[error("{}: {}", path.display(), OneLine(faults))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// All faults.
        faults: Vec<SkillFault>,
    },
    /// A file is not valid YAML, but was read; the skill can be used anyway.
    #[error("{}: {}", path.display(), OneLine(warnings))]
    NotYaml {
        /// The file.
        path: PathBuf,
        /// The values that were read as plain text.
        warnings: Vec<SkillFault>,
    },
    /// A skill's folder has another name; the skill can be used anyway.
    #[error(
        "{}: the folder does not have the name of the skill, {name:?}; give both the same name",
        path.display()
    )]
    Misnamed {
        /// The file.
        path: PathBuf,
        /// The skill's name.
        name: String,
    },
    /// A name is taken.
    #[error(
        "{}: the name {name:?} is taken by {}; rename one of them",
        path.display(),
        first.display()
    )]
    Duplicate {
        /// The skipped file.
        path: PathBuf,
        /// The name.
        name: String,
        /// The file that has the name.
        first: PathBuf,
    },
}

impl SkillError {
    /// Returns `true` if the skill can be used anyway.
    pub fn is_warning(&self) -> bool {
        matches!(self, Self::NotYaml { .. } | Self::Misnamed { .. })
    }
}

/// One fault of one `SKILL.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SkillFault {
    /// Line, from 1, if the fault has one.
    pub line: Option<usize>,
    /// The problem.
    pub message: String,
    /// The advice.
    pub remedy: String,
}

impl fmt::Display for SkillFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{}; {}", self.message, self.remedy)
    }
}

struct OneLine<'a>(&'a [SkillFault]);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            let separator = if index > 0 { ". " } else { "" };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}
