//! The reading options of a catalog, as an index records them.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use picktools::catalog::NoSchemaMode;
use serde::{Deserialize, Serialize};

/// The treatment of name conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ConflictsArg {
    Strict,
    Warn,
}

/// The treatment of calls of tools without a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum NoSchemaArg {
    /// Only tools that are known to be read-only.
    ReadOnly,
    /// Every call waits for the approval of a person.
    HumanApproval,
    /// Any call.
    Full,
}

impl NoSchemaArg {
    pub(super) fn mode(self) -> NoSchemaMode {
        match self {
            Self::ReadOnly => NoSchemaMode::ReadOnly,
            Self::HumanApproval => NoSchemaMode::HumanApproval,
            Self::Full => NoSchemaMode::Full,
        }
    }
}

/// The reading options of a catalog, as an index records them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedReading {
    pub(super) aliases: Option<PathBuf>,
    pub(super) conflicts: Option<ConflictsArg>,
    #[serde(default)]
    pub(super) strict_catalog: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) allow_no_schema: Option<NoSchemaArg>,
    pub(super) untrusted_sources: Vec<String>,
    pub(super) allow_claimed_aliases: bool,
}

impl RecordedReading {
    /// Returns the alias file, if one was used.
    pub(super) fn aliases_file(&self) -> Option<&Path> {
        aliases_file(self.aliases.as_deref()?)
    }
}

impl fmt::Display for RecordedReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options: Vec<String> = Vec::new();
        if let Some(path) = &self.aliases {
            options.push(format!("--aliases {}", path.display()));
        }
        if let Some(conflicts) = self.conflicts {
            let name = format!("{conflicts:?}").to_lowercase();
            options.push(format!("--conflicts {name}"));
        }
        if self.strict_catalog {
            options.push("--strict-catalog".to_owned());
        }
        if let Some(mode) = self.allow_no_schema {
            options.push(format!("--allow-no-schema {}", mode.mode().name()));
        }
        for source in &self.untrusted_sources {
            options.push(format!("--untrusted-source {source:?}"));
        }
        if self.allow_claimed_aliases {
            options.push("--allow-claimed-aliases".to_owned());
        }
        f.write_str(&if options.is_empty() {
            "no options".to_owned()
        } else {
            options.join(" ")
        })
    }
}

/// Returns the file that an argument of --aliases names, or `None` for `ecosystem`.
pub(super) fn aliases_file(argument: &Path) -> Option<&Path> {
    if argument == Path::new("ecosystem") {
        return None;
    }
    Some(argument)
}
