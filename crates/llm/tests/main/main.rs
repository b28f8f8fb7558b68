//! Integration tests with models over HTTP. The model is a test server that gives every kind of bad
//! answer.

// Language models as rerankers.
mod llm_reranking;
// Language models as repairers.
mod llm_repair;
// Embedding models.
mod endpoint;
// Requests in each provider's format, and validation of the calls.
mod dispatching;
