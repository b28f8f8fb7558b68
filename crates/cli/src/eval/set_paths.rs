//! The paths of a set's files.

use std::path::PathBuf;

/// The files of a set.
pub(super) struct SetPaths {
    pub(super) name: String,
    pub(super) catalog: Vec<PathBuf>,
    pub(super) queries: PathBuf,
    pub(super) qrels: PathBuf,
}
