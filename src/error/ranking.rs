//! Errors from indexing, picking, and the models that take part in it.

use std::path::PathBuf;

use super::CatalogError;

/// An error from an embedding model.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The ONNX Runtime library cannot be loaded.
    #[error(
        "cannot load ONNX Runtime{}: {reason}; install it (for example `pip install onnxruntime==1.31.1`) and name its \
         shared library, onnxruntime/capi/libonnxruntime.so.1.31.1, as the runtime to load",
        path.as_ref().map(|p| format!(" from {}", p.display())).unwrap_or_default()
    )]
    Runtime {
        /// The library that was to be loaded, where one was named.
        path: Option<PathBuf>,
        /// Why it failed.
        reason: String,
    },
    /// A model folder lacks files.
    #[error(
        "the model folder {} lacks {}; it needs an ONNX model (model.onnx) and its tokenizer (tokenizer.json)",
        path.display(), missing.join(" and ")
    )]
    MissingFiles {
        /// The folder.
        path: PathBuf,
        /// The files that are not there.
        missing: Vec<String>,
    },
    /// The model's name is not known.
    #[error("no model is called {name:?}{}; name a folder that holds model.onnx and tokenizer.json, or one of: {}",
        suggestion.as_ref().map(|s| format!(" (did you mean {s:?}?)")).unwrap_or_default(), known.join(", "))]
    UnknownModel {
        /// What was asked for.
        name: String,
        /// The nearest known name.
        suggestion: Option<String>,
        /// All known names.
        known: Vec<String>,
    },
    /// The model cannot be fetched.
    #[error("cannot fetch the model {name:?}: {reason}; {remedy}")]
    Download {
        /// The model's name.
        name: String,
        /// Why it failed.
        reason: String,
        /// What to do instead.
        remedy: String,
    },
    /// A file of the model is damaged or of another kind.
    #[error("cannot load the model {name}: {reason}")]
    Load {
        /// The model's name or folder.
        name: String,
        /// Why it failed.
        reason: String,
    },
    /// An embedding endpoint cannot be asked: its URL, the model's name or the key is none.
    #[error("cannot use the embedding endpoint {url}: {reason}; {remedy}")]
    InvalidEndpoint {
        /// What was named, without user, password and query.
        url: String,
        /// What is wrong.
        reason: String,
        /// How to mend it.
        remedy: String,
    },
    /// An embedding endpoint did not give what it was asked for.
    #[error("cannot embed with the model {model:?} at {url}: {reason}; {remedy}")]
    Endpoint {
        /// Where it is, without user, password and query.
        url: String,
        /// The model it was asked for.
        model: String,
        /// Why it failed, with what came back, shortened.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// The model failed on a text.
    #[error("the model {model} failed: {reason}")]
    Inference {
        /// The model's identity.
        model: String,
        /// Why it failed.
        reason: String,
    },
}

/// An error from building an index over a catalog.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The keyword index could not be built or read.
    #[error("the keyword index failed: {reason}")]
    Keyword {
        /// What tantivy said.
        reason: String,
    },
    /// The tools could not be embedded.
    #[error("cannot embed the catalog: {0}")]
    Embed(#[from] EmbedError),
    /// The skills could not be indexed: two have one name, or one has none.
    #[error("cannot index the skills: {0}")]
    Skills(CatalogError),
}

impl IndexError {
    pub(crate) fn keyword(error: impl std::fmt::Display) -> Self {
        Self::Keyword { reason: error.to_string() }
    }
}

/// An error from a scorer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ScorerError {
    /// The scorer could not do its work.
    #[error("the scorer {scorer} failed: {reason}")]
    Failed {
        /// The scorer's name.
        scorer: String,
        /// Why it failed.
        reason: String,
    },
    /// A score is not a number from 0 to 1.
    #[error(
        "the scorer {scorer} gave {tool} the score {score}, which is not a number from 0 to 1; the tool is left out"
    )]
    InvalidScore {
        /// The scorer's name.
        scorer: String,
        /// The tool's id.
        tool: String,
        /// The score, as text because it may not be a number.
        score: String,
    },
    /// The scorer gave another number of scores than there are tools.
    #[error("the scorer {scorer} gave {scores} scores for {tools} tools; it must give one for each, in order")]
    WrongCount {
        /// The scorer's name.
        scorer: String,
        /// How many scores came.
        scores: usize,
        /// How many tools there are.
        tools: usize,
    },
}

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
    #[error("language models rerank in the formats openai, anthropic and ollama, not in that of {provider}")]
    UnsupportedProvider {
        /// The provider's name.
        provider: &'static str,
    },
    /// The language model has no name.
    #[error("the language model has no name; name the model to ask for")]
    NoModelName,
}
