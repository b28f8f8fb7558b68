//! The semantic index: one unit vector a tool, searched exactly.

use std::sync::Arc;

use ndarray::{Array2, ArrayView1};

use super::Progress;
use super::analysis::split_identifier;
use crate::catalog::document::EmbeddingText;
use crate::catalog::{Catalog, Tool};
use crate::embed::{CacheStatus, Embedder, Role, VectorCache};
use crate::error::{EmbedError, IndexError};
use crate::ranking::ToolId;

/// How many texts are embedded before they are written to the cache: what an interruption can lose.
const TEXTS_PER_WRITE: usize = 1024;

/// The embeddings of one catalog, with the model that made them.
pub(crate) struct Vectors {
    embedder: Arc<dyn Embedder>,
    /// Shape: tools × dimensions; rows have unit length.
    matrix: Array2<f32>,
}

impl Vectors {
    /// Embeds every tool of `catalog`; texts that `cache` holds are not embedded again.
    pub(crate) fn build(
        catalog: &Catalog,
        embedder: Arc<dyn Embedder>,
        mut cache: Option<VectorCache>,
        progress: &Progress,
    ) -> Result<(Self, Option<CacheStatus>), IndexError> {
        let texts: Vec<String> = catalog.tools().iter().map(|tool| Self::text(tool).text).collect();
        let mut matrix = Array2::zeros((texts.len(), embedder.dimensions()));
        let mut missing = Vec::new();
        for (row, text) in texts.iter().enumerate() {
            match cache.as_ref().and_then(|cache| cache.get(Role::Document, text)) {
                Some(vector) => matrix.row_mut(row).assign(&ArrayView1::from(vector)),
                None => missing.push(row),
            }
        }
        let mut done = texts.len() - missing.len();
        if !missing.is_empty() {
            progress.report(done, texts.len());
        }
        for rows in missing.chunks(TEXTS_PER_WRITE) {
            let batch: Vec<&str> = rows.iter().map(|&row| texts[row].as_str()).collect();
            let step = |embedded: usize| progress.report(done + embedded, texts.len());
            let vectors = embedder.embed(Role::Document, &batch, &step)?;
            check_shape(embedder.as_ref(), &vectors, batch.len())?;
            for (&row, vector) in rows.iter().zip(&vectors) {
                matrix.row_mut(row).assign(&ArrayView1::from(vector));
            }
            if let Some(cache) = &mut cache {
                let model = || embedder.identity().to_owned();
                cache
                    .insert_all(Role::Document, batch.iter().zip(vectors))
                    .map_err(|error| EmbedError::Inference { model: model(), reason: error.to_string() })?;
            }
            done += rows.len();
        }
        Ok((Self { embedder, matrix }, cache.map(|cache| cache.status())))
    }

    /// Returns the text that is embedded of a tool.
    pub(crate) fn text(tool: &Tool) -> EmbeddingText {
        EmbeddingText::new(tool, split_identifier)
    }

    /// Embeds a request; `None` where the model knows nothing of it, so that no tool is nearer than another.
    pub(crate) fn embed_query(embedder: &dyn Embedder, text: &str) -> Result<Option<Vec<f32>>, EmbedError> {
        let vectors = embedder.embed(Role::Query, &[text], &|_| {})?;
        check_shape(embedder, &vectors, 1)?;
        Ok(vectors.into_iter().next().filter(|vector| vector.iter().any(|&value| value != 0.0)))
    }

    /// Returns the cosine similarity of every tool to `query`, a unit vector.
    pub(crate) fn scores(&self, query: &[f32]) -> Vec<f32> {
        self.matrix.dot(&ArrayView1::from(query)).to_vec()
    }

    /// Returns the unit vector of one tool.
    pub(crate) fn of(&self, tool: ToolId) -> ArrayView1<'_, f32> {
        self.matrix.row(tool.index())
    }

    pub(crate) fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.embedder
    }
}

/// An embedder is foreign code: what it returns is checked before it is used.
fn check_shape(embedder: &dyn Embedder, vectors: &[Vec<f32>], texts: usize) -> Result<(), EmbedError> {
    let dimensions = embedder.dimensions();
    let reason = if vectors.len() != texts {
        format!("it gave {} vectors for {texts} texts", vectors.len())
    } else if let Some(vector) = vectors.iter().find(|vector| vector.len() != dimensions) {
        format!("it gave a vector of {} dimensions instead of {dimensions}", vector.len())
    } else if vectors.iter().flatten().any(|value| !value.is_finite()) {
        "it gave a vector that holds a value that is no number".to_owned()
    } else {
        return Ok(());
    };
    Err(EmbedError::Inference { model: embedder.identity().to_owned(), reason })
}
