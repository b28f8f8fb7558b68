//! The record of files that tools read and write. It prevents a tool from overwriting a file whose
//! current content the model has not read.

use std::collections::BTreeMap;
use std::fs::Metadata;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use super::lock;

/// The most files in the record. Beyond it, the least recently used file is dropped and must be
/// read again before a write.
const MAX_FILES: usize = 10_000;

/// The record of files that tools have read and written. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct FileLedger {
    state: Arc<Mutex<FileLedgerState>>,
}

#[derive(Debug, Default)]
pub(crate) struct FileLedgerState {
    files: BTreeMap<PathBuf, FileUse>,
    /// A write was refused because no tool had read the file.
    has_refused_unread: bool,
    next_order: u64,
}

/// The uses of one file by tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileUse {
    /// The number of reads.
    pub reads: u64,
    /// The number of writes.
    pub writes: u64,
    /// The stamp of the file at its last use.
    stamp: Stamp,
    /// The position of the last use among all uses.
    order: u64,
}

/// The metadata that changes with the content of a file, or if another file takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
    /// The device and the number of the file on it.
    #[cfg(unix)]
    identity: (u64, u64),
}

/// An error from a write that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file was never read.
    #[error("{path} was not read yet")]
    NotRead {
        /// The file.
        path: String,
    },
    /// The file changed since it was read.
    #[error("{path} was changed since it was read")]
    Changed {
        /// The file.
        path: String,
    },
    /// The metadata of the file cannot be read.
    #[error("cannot inspect {path}: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// The cause.
        reason: String,
    },
}

impl Stamp {
    fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            length: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            identity: (metadata.dev(), metadata.ino()),
        }
    }
}

impl FileLedger {
    /// Records a read. `metadata` must come from the opened file before its content was read, so
    /// that a concurrent change is noticed.
    pub fn note_read(&self, path: &Path, metadata: &Metadata) {
        self.note(path, Stamp::from_metadata(metadata), |file| file.reads += 1);
    }

    /// Records a write with the current metadata of the file. If the metadata cannot be read, the
    /// file is dropped from the record.
    pub fn note_written(&self, path: &Path) {
        match path.metadata() {
            Ok(metadata) => self.note_write(path, &metadata),
            Err(_) => self.forget(path),
        }
    }

    /// Records a write. `metadata` must come from the written file.
    pub fn note_write(&self, path: &Path, metadata: &Metadata) {
        self.note(path, Stamp::from_metadata(metadata), |file| {
            file.writes += 1;
        });
    }

    /// Drops a file from the record.
    pub fn forget(&self, path: &Path) {
        lock(&self.state).files.remove(&canonical(path));
    }

    /// Returns the uses of a file; `None` if no tool has read or written it.
    pub fn get(&self, path: &Path) -> Option<FileUse> {
        lock(&self.state).files.get(&canonical(path)).copied()
    }

    /// Checks that a file may be written: it does not exist, or it is unchanged since a tool read
    /// it.
    ///
    /// # Errors
    ///
    /// [`FileError`] if the file may not be written.
    pub fn check_write(&self, path: &Path) -> Result<(), FileError> {
        let path_text = || path.display().to_string();
        let metadata = match path.metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                return Err(FileError::Unreadable {
                    path: path_text(),
                    reason: error.to_string(),
                });
            }
        };
        self.check_unchanged(path, &metadata)
    }

    /// Checks that an existing file is unchanged since a tool read or wrote it. `metadata` should
    /// come from the opened file, so that another file cannot take its place after the check.
    ///
    /// # Errors
    ///
    /// [`FileError`] if no tool has read the file, or it has changed since.
    pub fn check_unchanged(&self, path: &Path, metadata: &Metadata) -> Result<(), FileError> {
        let path_text = || path.display().to_string();
        match self.get(path) {
            None => {
                lock(&self.state).has_refused_unread = true;
                Err(FileError::NotRead { path: path_text() })
            }
            Some(file) if file.stamp != Stamp::from_metadata(metadata) => {
                Err(FileError::Changed { path: path_text() })
            }
            Some(_) => Ok(()),
        }
    }

    /// Returns `true` if a write was refused because no tool had read the file.
    pub fn has_refused_unread(&self) -> bool {
        lock(&self.state).has_refused_unread
    }

    /// Forgets all files.
    pub fn clear(&self) {
        *lock(&self.state) = FileLedgerState::default();
    }

    fn note(&self, path: &Path, stamp: Stamp, count: impl FnOnce(&mut FileUse)) {
        let path = canonical(path);
        let mut state = lock(&self.state);
        let order = state.next_order;
        state.next_order += 1;
        let file = state.files.entry(path).or_insert(FileUse {
            reads: 0,
            writes: 0,
            stamp,
            order,
        });
        (file.stamp, file.order) = (stamp, order);
        count(file);
        if state.files.len() > MAX_FILES {
            let oldest = state.files.iter().min_by_key(|(_, file)| file.order);
            if let Some((oldest_path, _)) = oldest {
                let oldest_path = oldest_path.clone();
                state.files.remove(&oldest_path);
            }
        }
    }
}

/// Returns the canonical path of a file, or the path itself if the file does not exist.
fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
