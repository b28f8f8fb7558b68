//! Changes of a catalog.

use super::definition::Tool;
use super::error::CatalogError;

/// Tools to add, replace or remove.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// The tools to add at the end. A tool with the id of a tool in the catalog replaces that tool,
    /// and is untrusted if that tool is.
    pub put: Vec<Tool>,
    /// The ids of the tools to remove.
    pub remove: Vec<String>,
}

/// An error from changing a catalog, which stays as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The catalog has no tool with the id of a tool to remove.
    #[error("cannot remove the tool {id:?}: the catalog has no tool with that id; give another id")]
    UnknownTool {
        /// The unknown id.
        id: String,
    },
    /// A new tool is invalid or conflicts with a tool of the catalog, or a definition of the
    /// catalog cannot be read.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}
