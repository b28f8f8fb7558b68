//! The `ToolClient` seam: asking a language model, in the format of its provider.

mod breaker;
mod error;
#[cfg(feature = "llm")]
mod model;
#[cfg(feature = "llm")]
mod provider_client;

use std::pin::Pin;

use serde_json::Value;

pub(crate) use breaker::{Breaker, Paused};
#[cfg(test)]
pub(crate) use breaker::{FAILURES, PAUSE};
pub use error::ClientError;
#[cfg(all(feature = "llm", test))]
pub(crate) use model::body;
#[cfg(feature = "llm")]
pub(crate) use model::{AnswerForm, Model, Question, UnusableModel};
#[cfg(feature = "llm")]
pub use provider_client::ProviderClient;

#[cfg(any(feature = "endpoint", feature = "llm"))]
pub use crate::http::EndpointOptions;
use crate::provider::Provider;

/// Something that takes the body of a chat in a provider's format and returns the provider's answer.
pub trait ToolClient: Send + Sync {
    /// Returns the format that it speaks.
    fn provider(&self) -> Provider;

    /// Sends an API request and returns the whole answer.
    ///
    /// # Errors
    ///
    /// [`ClientError`] where there is no answer; [`ClientError::Failed`] takes errors of the client's own.
    fn send(&self, body: Value) -> ClientFuture<'_>;
}

/// The answer of a [`ToolClient`].
pub type ClientFuture<'a> = Pin<Box<dyn Future<Output = Result<Value, ClientError>> + Send + 'a>>;
