//! Errors from indexing a catalog.

use crate::catalog::CatalogError;
use crate::embed::EmbedError;
use crate::saved::SavedError;

/// An error from building an index over a catalog.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The model could not be opened.
    #[error(transparent)]
    Model(EmbedError),
    /// The tools could not be embedded.
    #[error("cannot embed the catalog")]
    Embed(#[from] EmbedError),
    /// The index that the catalog was opened from is damaged.
    #[error(transparent)]
    Saved(#[from] SavedError),
    /// The skills could not be indexed: two have one name, or one has none.
    #[error("cannot index the skills")]
    Skills(#[source] CatalogError),
}
