//! The `Embedder` trait, the static model and the cache of vectors.

mod cache;
mod error;
mod static_file;
mod static_model;
pub mod word_pieces;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

pub(crate) use cache::VectorCache;
pub use cache::{CacheStatus, Role};
pub use error::EmbedError;
pub use static_model::StaticEmbedder;

/// How a model reads a text. Rankings weigh the two kinds differently, as they err differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelKind {
    /// The vector of a text is the sum of its words' vectors, whatever stands around them.
    Static,
    /// A word is read in its context, by a transformer for example.
    Contextual,
}

/// Is told how many more texts are done, from any thread.
pub type EmbedProgress<'a> = &'a (dyn Fn(usize) + Sync);

/// A model that turns texts into vectors whose dot product is the similarity of the texts.
///
/// An embedder is shared between threads; one that needs exclusive access to its model keeps a lock
/// inside.
pub trait Embedder: Send + Sync {
    /// Names the model and everything else that its vectors depend on: vectors are cached under
    /// this name.
    fn identity(&self) -> &str;

    /// Returns the length of every vector.
    fn dimensions(&self) -> usize;

    /// Returns how the model reads a text; [`ModelKind::Contextual`] unless the model says
    /// otherwise.
    ///
    /// In the hybrid mode, the built-in static model ranks beside a contextual one, and a static
    /// one takes its place.
    fn kind(&self) -> ModelKind {
        ModelKind::Contextual
    }

    /// Returns `true` if vectors shall be kept in a cache; `false` suits a model that computes a
    /// vector quicker than it is looked up.
    fn worth_caching(&self) -> bool {
        true
    }

    /// Returns `false` if a text is in a language that the model was not trained on; `true` unless
    /// the model says otherwise.
    ///
    /// In the hybrid mode, the static model ranks without it at such a request.
    fn reads(&self, text: &str) -> bool {
        let _ = text;
        true
    }

    /// Embeds `texts`, one unit vector a text, in order; the same text gives the same vector in any
    /// company.
    ///
    /// `progress` is told how many of them are done, from any thread.
    ///
    /// # Errors
    ///
    /// [`EmbedError`] when the model fails; then none of the texts counts as embedded.
    fn embed(
        &self,
        role: Role,
        texts: &[&str],
        progress: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// As [`embed`](Self::embed), which it calls unless told otherwise, where an answer after
    /// `deadline` is dropped: who can stop working then should.
    ///
    /// # Errors
    ///
    /// As [`embed`](Self::embed), and [`EmbedError::Late`] once the deadline has passed.
    fn embed_until(
        &self,
        role: Role,
        texts: &[&str],
        progress: EmbedProgress<'_>,
        deadline: Option<Instant>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let _ = deadline;
        self.embed(role, texts, progress)
    }

    /// Returns the log-odds that a request is one which tools serve at all, told of the request
    /// alone, were half of all requests such; `None`, unless told otherwise, where the model does
    /// not know. It counts of a [`ModelKind::Static`] alone, and a value that is not finite counts
    /// as `None`.
    ///
    /// Requests near the subject of a tool's source have words of its tools, though none of them
    /// serves it ("buy me a new router"), so that the signals of tools cannot tell. It is asked
    /// where the request is embedded, and should take no longer.
    fn scope(&self, request: &str) -> Option<f32> {
        let _ = request;
        None
    }

    /// Tells what each word of `text` adds to its vector; `None`, unless told otherwise, where the
    /// model cannot tell.
    ///
    /// A model that adds up vectors of words can: its similarities are then sums over pairs of
    /// words, and a pick tells which word of the request met which word of the tool
    /// ([`WordEvidence`](crate::selection::WordEvidence)). One that reads words in their context
    /// cannot. It is asked for the request and for each tool that is returned, under no deadline,
    /// and should take no longer than embedding such a text takes.
    fn word_vectors(&self, role: Role, text: &str) -> Option<WordVectors> {
        let _ = (role, text);
        None
    }
}

/// The words of a text with their vectors. The sum of all of them, scaled to unit length, is the
/// text's vector.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WordVectors {
    /// Where each word stands in the text, in bytes, in order; punctuation marks that have a vector
    /// are words too.
    pub words: Vec<Range<usize>>,
    /// Shape: words × dimensions, one word after the other. The lengths differ: a word's weight is
    /// part of its vector.
    pub vectors: Vec<f32>,
}

/// Returns the model inside the program; `None` without the feature `static-model`.
pub(crate) fn built_in() -> Result<Option<Arc<dyn Embedder>>, EmbedError> {
    #[cfg(feature = "static-model")]
    let model: Option<Arc<dyn Embedder>> = Some(StaticEmbedder::shared()?);
    #[cfg(not(feature = "static-model"))]
    let model = None;
    Ok(model)
}

/// Checks a deadline between two pieces of work.
///
/// # Errors
///
/// [`EmbedError::Late`] if the deadline has passed.
pub fn in_time(deadline: Option<Instant>) -> Result<(), EmbedError> {
    match deadline {
        Some(deadline) if Instant::now() >= deadline => Err(EmbedError::Late {
            reason: "the deadline passed while it embedded".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Turns a panic of a library that runs a model into an error. It leaves nothing half-made behind:
/// a model does not change when it runs.
///
/// # Errors
///
/// The error of `work`, or the message of its panic.
pub fn caught<T>(library: &str, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or(panic.downcast_ref::<String>().map(String::as_str));
        Err(format!(
            "{library} panicked: {}",
            text.unwrap_or("it does not say why")
        ))
    })
}
