//! The interface of embedding models.

use std::ops::Range;
use std::time::Instant;

use super::cache::TextRole;
use super::error::EmbedError;

/// The way in which a model reads a text. Rankings weigh the two kinds differently, because their
/// errors differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelKind {
    /// The vector of a text is the sum of its words' vectors, regardless of context.
    Static,
    /// A word is read in its context, by a transformer for example.
    Contextual,
}

/// A callback that receives the number of texts embedded since the last call, from any thread.
pub type EmbedProgress<'a> = &'a (dyn Fn(usize) + Sync);

/// A model that turns texts into vectors whose dot product is the similarity of the texts.
///
/// An embedder is shared between threads; one that needs exclusive access to its model keeps a lock
/// inside.
pub trait Embedder: Send + Sync {
    /// Returns the identity of the model: its name and everything else that its vectors depend on.
    /// Vectors are cached under this identity.
    fn identity(&self) -> &str;

    /// Returns the number of dimensions of every vector.
    fn dimensions(&self) -> usize;

    /// Returns the kind of the model; [`ModelKind::Contextual`] by default.
    ///
    /// In the hybrid mode, the built-in static model ranks together with a contextual model;
    /// another static model replaces it.
    fn kind(&self) -> ModelKind {
        ModelKind::Contextual
    }

    /// Returns `true` if vectors should be cached. `false` suits a model that computes a vector
    /// faster than a cache finds it.
    fn worth_caching(&self) -> bool {
        true
    }

    /// Returns `true` if the model embeds a request within microseconds and waits for nothing. It
    /// then runs on the caller's thread, and no deadline interrupts it. The default is `false`.
    fn is_immediate(&self) -> bool {
        false
    }

    /// Returns `false` if a text is in a language that the model was not trained on; `true` by
    /// default.
    ///
    /// In the hybrid mode, the static model ranks such a request without this model.
    fn reads(&self, text: &str) -> bool {
        let _ = text;
        true
    }

    /// Embeds `texts` and returns one unit vector for each, in order. The vector of a text does not
    /// depend on the other texts.
    ///
    /// `progress` receives the number of embedded texts, from any thread.
    ///
    /// # Errors
    ///
    /// [`EmbedError`] if the model fails; then none of the texts counts as embedded.
    fn embed(
        &self,
        role: TextRole,
        texts: &[&str],
        progress: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// Embeds like [`embed`](Self::embed), which it calls by default. The caller drops a result
    /// after `deadline`, so a model should stop then if it can.
    ///
    /// # Errors
    ///
    /// As [`embed`](Self::embed), and [`EmbedError::Late`] once the deadline has passed.
    fn embed_until(
        &self,
        role: TextRole,
        texts: &[&str],
        progress: EmbedProgress<'_>,
        deadline: Option<Instant>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let _ = deadline;
        self.embed(role, texts, progress)
    }

    /// Returns the log-odds that any tool serves a request, from the request alone, under the
    /// assumption that tools serve half of all requests. The default is `None`: the model does not
    /// know. Only a value from a [`ModelKind::Static`] model counts, and a value that is not finite
    /// counts as `None`.
    ///
    /// A request near the topic of a source shares words with its tools, even if none of them
    /// serves it ("buy me a new router"). So the signals of tools cannot decide that. The method
    /// runs when the request is embedded, and it should take no longer.
    fn scope(&self, request: &str) -> Option<f32> {
        let _ = request;
        None
    }

    /// Returns the contribution of each word of `text` to its vector. The default is `None`: the
    /// model cannot tell.
    ///
    /// A model that adds up word vectors can. Its similarities are sums over pairs of words, so a
    /// pick can show which word of the request matched which word of the tool
    /// ([`WordEvidence`](crate::selection::WordEvidence)). A model that reads words in context
    /// cannot. The method runs for the request and for each returned tool, without a deadline, and
    /// it should take no longer than embedding the text.
    fn word_vectors(&self, role: TextRole, text: &str) -> Option<WordVectors> {
        let _ = (role, text);
        None
    }
}

/// The words of a text with their vectors. Their sum, scaled to unit length, is the vector of the
/// text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WordVectors {
    /// The range of each word in the text, in bytes, in order; punctuation marks with a vector
    /// count as words.
    pub words: Vec<Range<usize>>,
    /// Shape: words × dimensions, one word after the other. The lengths differ, because a word's
    /// weight is part of its vector.
    pub vectors: Vec<f32>,
}
