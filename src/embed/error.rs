//! What can go wrong with an embedding model.

use std::path::PathBuf;

use crate::excerpt::list;

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
    /// There is no such folder.
    #[error(
        "there is no folder {}; name one that holds model.onnx and tokenizer.json, or a model by its name",
        path.display()
    )]
    MissingFolder {
        /// What was named.
        path: PathBuf,
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
        suggestion.as_ref().map(|s| format!(" (did you mean {s:?}?)")).unwrap_or_default(), list(known, ", "))]
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
    /// An embedding endpoint cannot be asked: its URL, the model's name or the key is invalid.
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
    /// The model was not ready when the deadline passed.
    #[error("the model was not ready in time: {reason}")]
    Late {
        /// How far it had come.
        reason: String,
    },
}

impl EmbedError {
    /// Returns `true` if it may be no fault of the caller's and pass: an endpoint failed, or time
    /// ran out.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Endpoint { .. } | Self::Late { .. })
    }
}
