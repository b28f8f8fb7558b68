//! What can go wrong with a saved index.

use std::io;
use std::path::{Path, PathBuf};

use super::FORMAT_VERSION;
use crate::disk::DiskError;

/// A saved index that cannot be read or written. Whatever it is of, building the index again helps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SavedError {
    /// The folder holds no index.
    #[error("{} is no saved index; make one with `picktools index --catalog PATH --out {}`", path.display(), folder(path).display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read the index {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{} is no index of picktools; name the folder of one, or make one with `picktools index`", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The index was saved in another version of the format.
    #[error(
        "the index {} is of format {found}, and this version of picktools reads format {FORMAT_VERSION}; build it again with \
         `picktools index --out {}`",
        path.display(), folder(path).display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that it has.
        found: u32,
    },
    /// The file is not as it was written.
    #[error("the index {} is damaged: {reason}; build it again with `picktools index --out {}`", path.display(), folder(path).display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A definition that was kept as it is serialised is not a tool's.
    #[error("the definition of {tool:?} cannot be read: {reason}")]
    Definition {
        /// The id of the tool.
        tool: String,
        /// What is wrong.
        reason: String,
    },
    /// Another process is writing the index.
    #[error("another process is writing the index {}; wait for it, or give another folder", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be written; what was there before still is.
    #[error("cannot save the index; what was saved before is as it was")]
    Write(#[from] DiskError),
    /// What is to be saved is too large for the format.
    #[error("the index cannot be saved: {what} is too large for its format")]
    TooLarge {
        /// What is.
        what: &'static str,
    },
}

fn folder(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(path)
}
