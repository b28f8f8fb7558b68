//! The [`ToolClient`] trait: sends an API request to a language model in the format of its
//! provider.

mod error;

use std::pin::Pin;

use picktools_provider::Provider;
use serde_json::Value;

pub use error::ClientError;

/// A client of a model provider: it sends the body of an API request and returns the answer.
pub trait ToolClient: Send + Sync {
    /// Returns the provider format of the client.
    fn provider(&self) -> Provider;

    /// Sends an API request and returns the complete answer.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if there is no answer. [`ClientError::Failed`] carries the client's own
    /// errors.
    fn send(&self, body: Value) -> ClientFuture<'_>;
}

/// The answer of a [`ToolClient`].
pub type ClientFuture<'a> = Pin<Box<dyn Future<Output = Result<Value, ClientError>> + Send + 'a>>;
