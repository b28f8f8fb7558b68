//! What can go wrong with a reranker.

/// An error from a reranker. The order that it was to change stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RerankError {
    /// The reranker could not do its work.
    #[error("the reranker {reranker} failed: {reason}")]
    Failed {
        /// The reranker's name.
        reranker: String,
        /// Why it failed.
        reason: String,
    },
    /// The answer does not score each candidate once.
    #[error("the reranker {reranker} gave {fault}; it must give each candidate one number")]
    InvalidAnswer {
        /// The reranker's name.
        reranker: String,
        /// What it gave.
        fault: String,
    },
    /// The reranker has failed of late, and is left alone for a while.
    #[error(
        "the reranker {reranker} failed {failures} times in a row and is not asked for another {seconds} s \
         (last: {reason})"
    )]
    Paused {
        /// The reranker's name.
        reranker: String,
        /// How often it failed.
        failures: u32,
        /// How long it is left alone from now, in seconds.
        seconds: u128,
        /// Its last failure.
        reason: String,
    },
    /// The provider's format is not one that a language model is asked to rerank in.
    #[error(
        "language models rerank in the formats openai, anthropic and ollama, not in that of {provider}"
    )]
    UnsupportedProvider {
        /// The provider's name.
        provider: &'static str,
    },
    /// The language model has no name.
    #[error("the language model has no name; name the model to ask for")]
    NoModelName,
}
