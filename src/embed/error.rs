//! Errors of embedding models.

use std::path::PathBuf;

use crate::excerpt::list;

/// An error from an embedding model.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The ONNX Runtime library cannot be loaded.
    #[error(
        "cannot load ONNX Runtime{}: {reason}; install it (for example `pip install \
         onnxruntime==1.31.1`) and name its shared library, \
         onnxruntime/capi/libonnxruntime.so.1.31.1, as the runtime to load",
        path.as_ref().map(|p| format!(" from {}", p.display())).unwrap_or_default()
    )]
    Runtime {
        /// The path of the library, if one was given.
        path: Option<PathBuf>,
        /// The cause.
        reason: String,
    },
    /// The model folder does not exist.
    #[error(
        "no such folder: {}; name one that holds model.onnx and tokenizer.json, \
         or a model by its name",
        path.display()
    )]
    MissingFolder {
        /// The path of the folder.
        path: PathBuf,
    },
    /// A model folder lacks files.
    #[error(
        "the model folder {} lacks {}; it needs an ONNX model (model.onnx) and its tokenizer \
         (tokenizer.json)",
        path.display(), missing.join(" and ")
    )]
    MissingFiles {
        /// The folder.
        path: PathBuf,
        /// The missing files.
        missing: Vec<String>,
    },
    /// The model's name is unknown.
    #[error(
        "unknown model {name:?}{}; name a folder that holds model.onnx and tokenizer.json, \
         or one of: {}",
        suggestion.as_ref().map(|s| format!(" (did you mean {s:?}?)")).unwrap_or_default(),
        list(known, ", ")
    )]
    UnknownModel {
        /// The unknown name.
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
        /// The cause.
        reason: String,
        /// The alternative.
        remedy: String,
    },
    /// A file of the model is damaged or of another kind.
    #[error("cannot load the model {name}: {reason}")]
    Load {
        /// The model's name or folder.
        name: String,
        /// The cause.
        reason: String,
    },
    /// The options of an embedding endpoint are invalid: its URL, the model's name or the key.
    #[error("cannot use the embedding endpoint {url}: {reason}; {remedy}")]
    InvalidEndpoint {
        /// The URL, without user, password and query.
        url: String,
        /// The cause.
        reason: String,
        /// The action that fixes it.
        remedy: String,
    },
    /// A request to an embedding endpoint failed.
    #[error("cannot embed with the model {model:?} at {url}: {reason}; {remedy}")]
    Endpoint {
        /// The URL, without user, password and query.
        url: String,
        /// The model's name.
        model: String,
        /// The cause, with the shortened response.
        reason: String,
        /// The action that may help.
        remedy: String,
    },
    /// The model failed on a text.
    #[error("the model {model} failed: {reason}")]
    Inference {
        /// The model's identity.
        model: String,
        /// The cause.
        reason: String,
    },
    /// The deadline passed before the model was ready.
    #[error("the model was not ready in time: {reason}")]
    Late {
        /// The state of the work at the deadline.
        reason: String,
    },
}

impl EmbedError {
    /// Returns `true` if the error may be temporary: an endpoint failed, or the deadline passed.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Endpoint { .. } | Self::Late { .. })
    }
}
