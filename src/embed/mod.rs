//! The `Embedder` seam, the models of our own, the adapters for endpoints and for fastembed, the models by name, and
//! the cache.

mod cache;
#[cfg(feature = "endpoint")]
mod http;
#[cfg(feature = "endpoint")]
mod endpoint;
#[cfg(feature = "fastembed")]
mod fastembed;
mod word_pieces;
mod static_model;
#[cfg(feature = "tuned")]
mod onnx_file;
#[cfg(feature = "tuned")]
mod tuned;
#[cfg(all(feature = "cli", feature = "tuned"))]
mod fetch;
// For the program: a library's user names no models.
#[cfg(feature = "cli")]
pub(crate) mod models;

use crate::error::EmbedError;

pub(crate) use cache::VectorCache;
pub use cache::{CacheStatus, Role};
pub use static_model::StaticEmbedder;
#[cfg(feature = "tuned")]
pub use tuned::TunedEmbedder;

#[cfg(feature = "fastembed")]
pub use self::fastembed::{FastEmbedder, FastEmbedderOptions};
#[cfg(feature = "endpoint")]
pub use endpoint::{EndpointEmbedder, EndpointOptions};

/// A model that turns texts into vectors whose dot product is the similarity of the texts.
///
/// An embedder is shared between threads; one that needs exclusive access to its model keeps a lock inside.
pub trait Embedder: Send + Sync {
    /// Names the model and everything else that its vectors depend on: vectors are cached under this name.
    fn identity(&self) -> &str;

    /// Returns the length of every vector.
    fn dimensions(&self) -> usize;

    /// Tells whether vectors shall be kept in a cache; not so where a vector is quicker to compute than to look up.
    fn worth_caching(&self) -> bool {
        true
    }

    /// Embeds `texts`, one unit vector a text, in order; the same text gives the same vector in any company.
    ///
    /// `progress` is told how many of them are done, from any thread.
    ///
    /// # Errors
    ///
    /// [`EmbedError`] when the model fails; then none of the texts counts as embedded.
    fn embed(&self, role: Role, texts: &[&str], progress: &(dyn Fn(usize) + Sync))
    -> Result<Vec<Vec<f32>>, EmbedError>;
}
