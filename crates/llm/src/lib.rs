//! Clients for language models and embedding models over HTTP, and the components that use them: a
//! reranker, an argument repairer and a writer of example requests.
//!
//! Answers are untrusted: they are limited in size and time, parsed strictly, and quoted without
//! keys.

mod embedder;
pub mod enrich;
mod endpoint;
mod model;
mod provider_client;
mod repairer;
mod reranker;

pub use embedder::EndpointEmbedder;
pub use endpoint::EndpointOptions;
pub use provider_client::ProviderClient;
pub use repairer::LlmRepairer;
pub use reranker::LlmReranker;
