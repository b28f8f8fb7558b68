//! Errors from reading what others wrote: catalogs, skills, sequences.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// An error from reading sequences of calls.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SequencesError {
    /// The file cannot be read.
    #[error("cannot read the sequences {}: {source}", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A line is no task.
    #[error("{origin}: line {line}: {message}")]
    Line {
        /// Where the text comes from.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// What the parser expected.
        message: String,
    },
    /// There are too many calls to count.
    #[error("{origin}: more than {most} calls; give the latest tasks only")]
    TooMany {
        /// Where the text comes from.
        origin: String,
        /// The most.
        most: usize,
    },
}

/// An error from reading or validating a catalog.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// The file or folder cannot be read.
    #[error("cannot read the catalog {}: {source}", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The file of the operator's aliases cannot be read.
    #[error("cannot read the aliases {}: {source}", path.display())]
    ReadAliases {
        /// What was to be read.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// Aliases of the operator are no names, or mean no tool of the catalog.
    #[error("{}", FaultList("the operator's aliases", faults))]
    Aliases {
        /// Every fault found, in the order of the file.
        faults: Vec<CatalogFault>,
    },
    /// The folder holds no catalog file.
    #[error("the folder {} holds no tools.jsonl or tools.json; name a catalog file or a folder that has one", path.display())]
    NoCatalogInFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The bytes are not UTF-8.
    #[error("{origin}: line {line} is not valid UTF-8 (byte {column} of the line); save the file as UTF-8")]
    NotUtf8 {
        /// Where the bytes come from.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// Byte in the line, from 1.
        column: usize,
    },
    /// The text is not JSON.
    #[error("{origin}: line {line}, column {column}: {message}")]
    Syntax {
        /// Where the text comes from.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What the parser expected.
        message: String,
    },
    /// The JSON is of no known catalog format.
    #[error(
        "{origin}: no catalog format recognised ({found}); expected tool definitions as a JSON array, JSON Lines, \
         an object with `tools`, an MCP tools/list result, or OpenAI or Anthropic tools"
    )]
    UnknownFormat {
        /// Where the text comes from.
        origin: String,
        /// What was found instead.
        found: String,
    },
    /// One or more entries are not valid.
    #[error("{}", FaultList(origin, faults))]
    Invalid {
        /// Where the entries come from.
        origin: String,
        /// Every fault found, in the order of the entries.
        faults: Vec<CatalogFault>,
    },
}

/// One fault of one catalog entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CatalogFault {
    /// Where the entry stands: `line 3`, `entry 4`.
    pub position: String,
    /// The entry's name, where it has one.
    pub name: Option<String>,
    /// JSON pointer into the entry; empty for the whole entry.
    pub pointer: String,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
    pub remedy: String,
}

impl fmt::Display for CatalogFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.position)?;
        if let Some(name) = &self.name {
            write!(f, " ({name:?})")?;
        }
        if !self.pointer.is_empty() {
            write!(f, " at {}", self.pointer)?;
        }
        write!(f, ": {}; {}", self.message, self.remedy)
    }
}

struct FaultList<'a>(&'a str, &'a Vec<CatalogFault>);

impl fmt::Display for FaultList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.1.len() == 1 { "fault" } else { "faults" };
        write!(f, "{}: {} {plural}", self.0, self.1.len())?;
        self.1.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

/// An error from reading skills.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {source}", path.display())]
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
