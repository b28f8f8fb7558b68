//! Errors of rerankers.

/// An error from a reranker. The order of the candidates does not change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RerankError {
    /// The reranker failed.
    #[error("the reranker {reranker} failed: {reason}")]
    Failed {
        /// The reranker's name.
        reranker: String,
        /// The cause.
        reason: String,
    },
    /// The answer does not score each candidate once.
    #[error("the reranker {reranker} gave {fault}; it must give each candidate one number")]
    InvalidAnswer {
        /// The reranker's name.
        reranker: String,
        /// The defect of the answer.
        fault: String,
    },
    /// The circuit breaker is open after repeated failures.
    #[error(
        "the reranker {reranker} failed {failures} times in a row \
         and is paused for another {seconds} s (last error: {reason})"
    )]
    Paused {
        /// The reranker's name.
        reranker: String,
        /// The number of failures in a row.
        failures: u32,
        /// The rest of the pause, in seconds.
        seconds: u128,
        /// The last failure.
        reason: String,
    },
    /// Reranking by a language model does not support the provider's format.
    #[error(
        "reranking by a language model does not support the format {provider}; \
         use openai, anthropic or ollama"
    )]
    UnsupportedProvider {
        /// The provider's name.
        provider: &'static str,
    },
    /// The language model has no name.
    #[error("the language model has no name; name the model to ask for")]
    NoModelName,
}
