//! Where what is decided is recorded.

use std::path::PathBuf;

use serde::Deserialize;

/// The least bytes of a file: what holds at a time is stated anew at the start of each.
const LEAST_BYTES: u64 = 10_000;

/// Where what is decided is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditSettings {
    /// The folder, which is made where it is not there, for its owner alone; each gateway needs its
    /// own.
    pub folder: PathBuf,
    /// After how many bytes a new file is begun; 64 MiB unless told otherwise.
    #[serde(default = "max_bytes")]
    pub max_bytes: u64,
    /// How many files are kept, the latest; 0 keeps all.
    #[serde(default)]
    pub keep: usize,
}

fn max_bytes() -> u64 {
    64 << 20
}

impl AuditSettings {
    /// Makes settings that name a folder and leave the rest as it is where nothing is said.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            max_bytes: max_bytes(),
            keep: 0,
        }
    }

    /// Finds what does not fit.
    ///
    /// # Errors
    ///
    /// A message that names the place.
    pub fn check(&self) -> Result<(), String> {
        if self.folder.as_os_str().is_empty() {
            return Err("audit.folder: a folder is needed".to_owned());
        }
        if self.max_bytes < LEAST_BYTES {
            return Err(format!(
                "audit.max_bytes: at least {LEAST_BYTES} are needed"
            ));
        }
        Ok(())
    }
}
