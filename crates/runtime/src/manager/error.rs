//! The error of a manager that cannot be built.

use std::io;

use picktools::access::AccessError;
use picktools::catalog::CatalogError;

/// An error from building a manager.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// The definitions do not form a catalog.
    #[error("invalid tool definitions: {0}")]
    Catalog(#[source] CatalogError),
    /// The access policy is invalid.
    #[error("invalid access policy: {0}")]
    Access(#[source] AccessError),
    /// A runner has no tool in the catalog.
    #[error("runner without a tool: the catalog has no tool {id:?}")]
    UnknownTool {
        /// The tool's id.
        id: String,
    },
    /// The root is not a folder that can be opened.
    #[error("cannot use the working folder {root}: {source}")]
    Root {
        /// The folder.
        root: String,
        /// The cause.
        source: io::Error,
    },
}
