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
        /// What was to be read.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The folder holds no skill.
    #[error("the folder {} holds no SKILL.md, nor does one below it; name a folder of skills", path.display())]
    NoSkills {
        /// The folder.
        path: PathBuf,
    },
    /// The folder holds more than is looked at.
    #[error("the folder {} holds more than {limit} {what}, the rest is passed over; name a smaller one", path.display())]
    TooMany {
        /// The folder.
        path: PathBuf,
        /// What there is too much of.
        what: &'static str,
        /// How many are looked at.
        limit: usize,
    },
    /// A folder lies deeper than is looked at.
    #[error("what lies in {} is passed over: it is more than {limit} levels deep; move it up", path.display())]
    TooDeep {
        /// The first such folder.
        path: PathBuf,
        /// How deep is looked.
        limit: usize,
    },
    /// A symbolic link leads to a folder that it stands in.
    #[error("the symbolic link {} leads back to {} and is not followed; remove it", path.display(), ancestor.display())]
    Loop {
        /// The link.
        path: PathBuf,
        /// The folder.
        ancestor: PathBuf,
    },
    /// A file is too large.
    #[error("{} is larger than {limit} bytes; move what is long into files beside it", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most bytes.
        limit: u64,
    },
    /// A file is not UTF-8.
    #[error("{} is not valid UTF-8; save it as UTF-8", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
    },
    /// A file is not as a skill's must be.
    #[error("{}: {}", path.display(), OneLine(faults))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Every fault found.
        faults: Vec<SkillFault>,
    },
    /// A skill's folder has another name; the skill can be used all the same.
    #[error("{}: the skill is called {name:?} and its folder is not; give both the same name", path.display())]
    Misnamed {
        /// The file.
        path: PathBuf,
        /// The skill's name.
        name: String,
    },
    /// A name is taken.
    #[error("{}: the name {name:?} is taken by {}; rename one of them", path.display(), first.display())]
    Duplicate {
        /// The file that is passed over.
        path: PathBuf,
        /// The name.
        name: String,
        /// The file that has it.
        first: PathBuf,
    },
}

/// One fault of one `SKILL.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SkillFault {
    /// Line, from 1, where the fault has one.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
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
        let faults: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&faults.join(". "))
    }
}
