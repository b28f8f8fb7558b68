//! The `Embedder` trait, the static model and the cache of vectors.

mod cache;
mod embedder;
mod error;
mod static_file;
mod static_model;
pub mod word_pieces;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

pub(crate) use cache::VectorCache;
pub use cache::{CacheStatus, TextRole};
pub use embedder::{EmbedProgress, Embedder, ModelKind, WordVectors};
pub use error::EmbedError;
pub use static_model::StaticEmbedder;

/// Returns the model in the binary; `None` without the feature `static-model`.
pub(crate) fn built_in() -> Result<Option<Arc<dyn Embedder>>, EmbedError> {
    #[cfg(feature = "static-model")]
    let model: Option<Arc<dyn Embedder>> = Some(StaticEmbedder::shared()?);
    #[cfg(not(feature = "static-model"))]
    let model = None;
    Ok(model)
}

/// Checks a deadline between two steps of work.
///
/// # Errors
///
/// [`EmbedError::Late`] if the deadline has passed.
pub fn check_deadline(deadline: Option<Instant>) -> Result<(), EmbedError> {
    match deadline {
        Some(deadline) if Instant::now() >= deadline => Err(EmbedError::Late {
            reason: "the deadline passed during embedding".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Turns a panic of a library that runs a model into an error. A model does not change when it
/// runs, so a panic leaves no broken state.
///
/// # Errors
///
/// The error of `work`, or the message of its panic.
pub fn catch_panic<T>(
    library: &str,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<&str>()
            .copied()
            .or(panic.downcast_ref::<String>().map(String::as_str));
        Err(format!(
            "{library} panicked: {}",
            message.unwrap_or("no message")
        ))
    })
}
