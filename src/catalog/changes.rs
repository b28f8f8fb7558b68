//! What changes in a catalog.

use super::definition::Tool;
use super::error::CatalogError;

/// Tools that come, change or go.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// Tools that are added behind the others; one that has the id of a tool of the catalog takes
    /// its place, and is untrusted where that is.
    pub put: Vec<Tool>,
    /// Ids of tools that go.
    pub remove: Vec<String>,
}

/// Why a catalog cannot be changed as was asked. It stays as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// A tool that is to go is not there.
    #[error("the catalog has no tool {id:?} that could be removed; give the id of one")]
    UnknownTool {
        /// The id as it was given.
        id: String,
    },
    /// What is put is not valid, or clashes with what is there.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The index that the catalog was opened from is damaged.
    #[error("{reason}")]
    Damaged {
        /// What is wrong.
        reason: String,
    },
}
