//! Errors of a saved index.

use std::io;
use std::path::{Path, PathBuf};

use super::FORMAT_VERSION;
use crate::disk::DiskError;

/// An error of reading or writing a saved index. Building the index again repairs a damaged one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SavedError {
    /// The folder has no index.
    #[error(
        "{} is not a saved index; build it with `picktools index --catalog PATH --out {}`",
        path.display(), folder(path).display()
    )]
    Missing {
        /// The path of the expected file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read the index {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not an index.
    #[error(
        "{} is not an index of picktools; name the folder of an index, or build one with \
         `picktools index`",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The index was saved in another version of the format.
    #[error(
        "the index {} has format {found}, but this version of picktools reads format \
         {FORMAT_VERSION}; build it again with `picktools index --out {}`",
        path.display(), folder(path).display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The format version of the file.
        found: u32,
    },
    /// The content of the file has changed since it was written.
    #[error(
        "the index {} is damaged: {reason}; build it again with `picktools index --out {}`",
        path.display(), folder(path).display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// A serialised definition cannot be parsed as a tool.
    #[error("cannot read the definition of {tool:?}: {reason}")]
    Definition {
        /// The id of the tool.
        tool: String,
        /// The defect.
        reason: String,
    },
    /// Another process is writing the index.
    #[error(
        "another process is writing the index {}; wait for it, or name another folder",
        path.display()
    )]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be written. The previous file is unchanged.
    #[error("cannot save the index; the previous index is unchanged")]
    Write(#[from] DiskError),
    /// A part of the index is too large for the format.
    #[error("cannot save the index: {what} is too large for its format")]
    TooLarge {
        /// The part that is too large.
        what: &'static str,
    },
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => path,
    }
}
