//! Settings of the audit log.

use std::path::PathBuf;

use serde::Deserialize;

/// The least size of a file in bytes: each file starts with the complete policy.
const MIN_FILE_BYTES: u64 = 10_000;

/// Settings of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditSettings {
    /// The folder, which is created for its owner only. Each gateway needs its own.
    pub folder: PathBuf,
    /// The size in bytes after which a new file begins; 64 MiB by default.
    #[serde(default = "max_bytes")]
    pub max_bytes: u64,
    /// The number of latest files to keep; 0 keeps all.
    #[serde(default)]
    pub keep: usize,
}

fn max_bytes() -> u64 {
    64 << 20
}

impl AuditSettings {
    /// Creates settings with a folder and defaults.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            max_bytes: max_bytes(),
            keep: 0,
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// A message that names the member.
    pub fn check(&self) -> Result<(), String> {
        if self.folder.as_os_str().is_empty() {
            return Err("audit.folder: a folder is required".to_owned());
        }
        if self.max_bytes < MIN_FILE_BYTES {
            return Err(format!(
                "audit.max_bytes: {} is too small; the least is {MIN_FILE_BYTES}",
                self.max_bytes
            ));
        }
        Ok(())
    }
}
