//! The `ToolClient` seam: asking a language model, in the format of its provider.

mod error;

use std::pin::Pin;

use picktools_provider::Provider;
use serde_json::Value;

pub use error::ClientError;

/// Something that takes the body of a chat in a provider's format and returns the provider's
/// answer.
pub trait ToolClient: Send + Sync {
    /// Returns the format that it speaks.
    fn provider(&self) -> Provider;

    /// Sends an API request and returns the whole answer.
    ///
    /// # Errors
    ///
    /// [`ClientError`] where there is no answer; [`ClientError::Failed`] takes errors of the
    /// client's own.
    fn send(&self, body: Value) -> ClientFuture<'_>;
}

/// The answer of a [`ToolClient`].
pub type ClientFuture<'a> = Pin<Box<dyn Future<Output = Result<Value, ClientError>> + Send + 'a>>;
