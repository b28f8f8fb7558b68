//! The vectors of tools and other texts by one model.

use std::path::Path;
use std::sync::Arc;

use super::error::IndexError;
use super::rows::{MAX_DIMENSIONS, Rows};
use crate::catalog::Tool;
use crate::deadline::Deadline;
use crate::embed::{CacheStatus, EmbedError, Embedder, TextRole, VectorCache};
use crate::text::EmbeddingText;

/// The number of texts per write to the cache. An interruption loses at most as many.
const TEXTS_PER_WRITE: usize = 1024;
/// The number of texts per write under a deadline, which interrupts more often.
const TEXTS_PER_HURRIED_WRITE: usize = 32;

/// A callback that reports embedding progress: texts done, texts in total.
#[derive(Clone, Default)]
pub(crate) struct Progress(pub(crate) Option<Arc<dyn Fn(usize, usize) + Send + Sync>>);

impl Progress {
    pub(super) fn report(&self, done: usize, total: usize) {
        if let Some(report) = &self.0 {
            report(done, total);
        }
    }
}

/// The circumstances of an embedding.
#[derive(Clone, Copy)]
pub(super) struct EmbeddingOptions<'a> {
    pub(super) cache_dir: Option<&'a Path>,
    pub(super) progress: &'a Progress,
    pub(super) deadline: Deadline,
}

/// The vectors of tools or other texts by one model.
pub(super) struct Embedding {
    /// One text per row.
    pub(super) rows: Rows,
    /// State of the cache; `None` without a cache.
    pub(super) cache: Option<CacheStatus>,
}

/// Embeds tools. Texts in the cache in `cache_dir` are not embedded again, if the model is worth
/// caching. New vectors are written to the cache, also before a deadline interrupts.
pub(super) fn embed_tools(
    tools: &[Arc<Tool>],
    embedder: &dyn Embedder,
    options: EmbeddingOptions<'_>,
) -> Result<Embedding, IndexError> {
    let texts: Vec<String> = tools
        .iter()
        .map(|tool| EmbeddingText::new(tool).text)
        .collect();
    let texts = EmbeddingBatch {
        role: TextRole::Document,
        texts: &texts,
        what: "tools",
    };
    embed_texts(texts, embedder, options)
}

/// A batch of texts to embed.
pub(super) struct EmbeddingBatch<'a> {
    pub(super) role: TextRole,
    pub(super) texts: &'a [String],
    /// The kind of the texts, for messages.
    pub(super) what: &'static str,
}

/// Works like [`embed_tools`], for any texts.
pub(super) fn embed_texts(
    EmbeddingBatch { role, texts, what }: EmbeddingBatch<'_>,
    embedder: &dyn Embedder,
    options: EmbeddingOptions<'_>,
) -> Result<Embedding, IndexError> {
    let EmbeddingOptions {
        cache_dir,
        progress,
        deadline,
    } = options;
    let mut cache = open_cache(cache_dir, embedder);
    let mut embedded = Rows::zeros(texts.len(), embedder.dimensions());
    let mut missing = Vec::new();
    for (row, text) in texts.iter().enumerate() {
        match cache.as_ref().and_then(|cache| cache.get(role, text)) {
            Some(vector) => embedded.set(row, vector),
            None => missing.push(row),
        }
    }
    let mut done = texts.len() - missing.len();
    if !missing.is_empty() {
        progress.report(done, texts.len());
    }
    let has_deadline = deadline.instant().is_some();
    for rows in missing.chunks(if has_deadline {
        TEXTS_PER_HURRIED_WRITE
    } else {
        TEXTS_PER_WRITE
    }) {
        let batch: Vec<&str> = rows.iter().map(|&row| texts[row].as_str()).collect();
        let step = |new: usize| progress.report(done + new, texts.len());
        let vectors = embedder.embed_until(role, &batch, &step, deadline.instant())?;
        check_shape(embedder, &vectors, batch.len())?;
        for (&row, vector) in rows.iter().zip(&vectors) {
            embedded.set(row, vector);
        }
        if let Some(cache) = &mut cache {
            let model = || embedder.identity().to_owned();
            cache
                .insert_all(role, batch.iter().zip(vectors))
                .map_err(|error| EmbedError::Inference {
                    model: model(),
                    reason: error.to_string(),
                })?;
        }
        done += rows.len();
        if deadline.has_passed() && done < texts.len() {
            let reason = format!(
                "it had embedded {done} of {} {what} when the deadline passed",
                texts.len()
            );
            return Err(EmbedError::Late { reason }.into());
        }
    }
    Ok(Embedding {
        rows: embedded,
        cache: cache.map(|cache| cache.status()),
    })
}

/// Opens the cache of a model; `None` without a folder, or if the model is not worth caching.
fn open_cache(cache_dir: Option<&Path>, embedder: &dyn Embedder) -> Option<VectorCache> {
    let root = cache_dir?;
    if !embedder.worth_caching() {
        return None;
    }
    let (identity, dimensions) = (embedder.identity(), embedder.dimensions());
    Some(VectorCache::open(root, identity, dimensions))
}

/// Validates the output of an embedder, which is foreign code.
pub(super) fn check_shape(
    embedder: &dyn Embedder,
    vectors: &[Vec<f32>],
    texts: usize,
) -> Result<(), EmbedError> {
    let dimensions = embedder.dimensions();
    let reason = if dimensions > MAX_DIMENSIONS {
        format!("its vectors have {dimensions} dimensions, of which {MAX_DIMENSIONS} can be kept")
    } else if vectors.len() != texts {
        format!("it gave {} vectors for {texts} texts", vectors.len())
    } else if let Some(vector) = vectors.iter().find(|vector| vector.len() != dimensions) {
        format!(
            "it gave a vector of {} dimensions instead of {dimensions}",
            vector.len()
        )
    } else if vectors.iter().flatten().any(|value| !value.is_finite()) {
        "it gave a vector with a value that is not finite".to_owned()
    } else {
        return Ok(());
    };
    Err(EmbedError::Inference {
        model: embedder.identity().to_owned(),
        reason,
    })
}
