//! The integration tests of models over HTTP, which are a server of the tests that answers badly in
//! every way.

// Language models as rerankers.
mod llm_reranking;
// Language models that mend calls.
mod llm_repair;
// Embedding models.
mod endpoint;
// Asking models in each provider's format, and hydrating what they call.
mod dispatching;
