//! Which files tools have read and written, so that none is written that a model has not seen as it
//! is.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use super::lock;

/// The most files that are kept; of more, those that were noted first are forgotten and have to be
/// read again.
const MAX_FILES: usize = 10_000;

/// Which files tools have read and written; clones share it.
#[derive(Debug, Clone, Default)]
pub struct FileLedger {
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
pub(crate) struct Known {
    files: BTreeMap<PathBuf, FileUse>,
    next: u64,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileUse {
    /// How often it was read.
    pub reads: u64,
    /// How often it was written.
    pub writes: u64,
    /// How it was when it was last read or written.
    stamp: Stamp,
    noted: u64,
}

/// What changes when a file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
}

/// Why a file may not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It was never read.
    #[error("{path} was not read yet")]
    NotRead {
        /// The file.
        path: String,
    },
    /// It is otherwise than when it was read.
    #[error("{path} was changed since it was read")]
    Changed {
        /// The file.
        path: String,
    },
    /// Whether it is there cannot be told.
    #[error("{path} cannot be looked at: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            length: metadata.len(),
            modified: metadata.modified().ok(),
        }
    }
}

impl FileLedger {
    /// Notes that a file was read when it was as `metadata` says: taken from the opened file before
    /// its content was read, so that a change meanwhile is noticed.
    pub fn note_read(&self, path: &Path, metadata: &Metadata) {
        self.note(path, Stamp::of(metadata), |file| file.reads += 1);
    }

    /// Notes that a file was written, as it is now; one that cannot be looked at is forgotten.
    pub fn note_written(&self, path: &Path) {
        match path.metadata() {
            Ok(metadata) => self.note(path, Stamp::of(&metadata), |file| file.writes += 1),
            Err(_) => drop(lock(&self.known).files.remove(&canonical(path))),
        }
    }

    /// Returns what became of a file; `None` of one that no tool has touched.
    pub fn get(&self, path: &Path) -> Option<FileUse> {
        lock(&self.known).files.get(&canonical(path)).copied()
    }

    /// Tells whether a file may be written: it is not there, or was read and is as it was then.
    ///
    /// # Errors
    ///
    /// [`FileError`] when it may not.
    pub fn check_write(&self, path: &Path) -> Result<(), FileError> {
        let shown = || path.display().to_string();
        let metadata = match path.metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                return Err(FileError::Unreadable {
                    path: shown(),
                    reason: error.to_string(),
                });
            }
        };
        match self.get(path) {
            None => Err(FileError::NotRead { path: shown() }),
            Some(file) if file.stamp != Stamp::of(&metadata) => {
                Err(FileError::Changed { path: shown() })
            }
            Some(_) => Ok(()),
        }
    }

    /// Forgets all files.
    pub fn clear(&self) {
        *lock(&self.known) = Known::default();
    }

    fn note(&self, path: &Path, stamp: Stamp, count: impl FnOnce(&mut FileUse)) {
        let path = canonical(path);
        let mut known = lock(&self.known);
        let noted = known.next;
        known.next += 1;
        let file = known.files.entry(path).or_insert(FileUse {
            reads: 0,
            writes: 0,
            stamp,
            noted,
        });
        (file.stamp, file.noted) = (stamp, noted);
        count(file);
        if known.files.len() > MAX_FILES {
            let oldest = known
                .files
                .iter()
                .min_by_key(|(_, file)| file.noted)
                .map(|(path, _)| path.clone());
            oldest.map(|path| known.files.remove(&path));
        }
    }
}

/// One path for all ways of writing it; of a file that is not there, the path as it is.
fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
