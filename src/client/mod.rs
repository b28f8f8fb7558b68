//! The `ToolClient` seam: asking a language model, in the format of its provider.

#[cfg(feature = "llm")]
mod provider_client;

use std::pin::Pin;

use serde_json::Value;

#[cfg(feature = "llm")]
pub use provider_client::ProviderClient;

use crate::provider::Provider;

/// Something that takes a chat request in a provider's format and returns the provider's answer.
pub trait ToolClient: Send + Sync {
    /// Returns the format that it speaks.
    fn provider(&self) -> Provider;

    /// Sends a request and returns the whole answer, or says why there is none.
    fn send(&self, request: Value) -> ClientFuture<'_>;
}

/// The answer of a [`ToolClient`].
pub type ClientFuture<'a> = Pin<Box<dyn Future<Output = Result<Value, String>> + Send + 'a>>;
