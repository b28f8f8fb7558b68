//! The retrievers that a ranking can combine.

use crate::embed::{Embedder, ModelKind};

/// A component that scores tools for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retriever {
    /// The keyword index.
    Keyword,
    /// The static model.
    Static,
    /// Any other embedding model.
    Model,
}

impl Retriever {
    /// Returns the retriever's stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keyword => "keyword",
            Self::Static => "static",
            Self::Model => "model",
        }
    }

    /// Returns the retriever of an embedding model.
    pub(crate) fn from_embedder(embedder: &dyn Embedder) -> Self {
        match embedder.kind() {
            ModelKind::Static => Self::Static,
            ModelKind::Contextual => Self::Model,
        }
    }
}
