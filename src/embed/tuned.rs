//! The tuned model: a small transformer trained on requests and tools, run in pure Rust by the crate `rten`.
//!
//! The model is one ONNX file with int8 weights that carries its own vocabulary. A program built from the repository
//! has it inside; another reads it from a file. `models/tuned/README.md` tells how it was trained, on what, and what
//! it can and cannot do.
//!
//! Activations are quantised with one scale a text, so texts go through the model one at a time, in parallel: a
//! vector does not depend on the text's company.

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use rayon::prelude::*;
use rten::{Model, Value};
use rten_tensor::NdTensor;
use sha2::{Digest, Sha256};

use super::word_pieces::WordPieces;
use super::{Embedder, Role};
use crate::error::EmbedError;

#[cfg(tuned_in_program)]
static BYTES: Option<&[u8]> = Some(include_bytes!("../../models/tuned/model.onnx"));
#[cfg(not(tuned_in_program))]
static BYTES: Option<&[u8]> = None;
/// Read on first use.
static SHARED: LazyLock<Option<Result<Arc<TunedEmbedder>, String>>> = LazyLock::new(|| {
    let bytes = BYTES?;
    Some(Model::load_static_slice(bytes).map_err(|error| error.to_string()).and_then(|model| {
        TunedEmbedder::new(model, &Sha256::digest(bytes)).map(Arc::new)
    }))
});

/// Longer texts are cut, in tokens.
const MAX_TOKENS: usize = 128;

/// The transformer of our own.
pub struct TunedEmbedder {
    identity: String,
    dimensions: usize,
    pieces: WordPieces,
    /// What stands before and after the tokens of a text.
    first: i32,
    last: i32,
    model: Model,
}

impl TunedEmbedder {
    /// Returns the model that is part of this program, which is read once a process; `None` if the program was built
    /// without it (as from a package registry, whose packages may not be that large).
    ///
    /// # Errors
    ///
    /// [`EmbedError::Load`] when the program was built with a damaged model file.
    pub fn shared() -> Option<Result<Arc<Self>, EmbedError>> {
        let model = SHARED.as_ref()?;
        Some(model.clone().map_err(|reason| EmbedError::Load { name: "tuned".to_owned(), reason }))
    }

    /// Reads a model of this kind from an ONNX file.
    ///
    /// # Errors
    ///
    /// [`EmbedError::Load`] when the file cannot be read, is damaged, or is a model of another kind.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, EmbedError> {
        let path = path.as_ref();
        let read = || {
            let bytes = fs::read(path).map_err(|error| error.to_string())?;
            let digest = Sha256::digest(&bytes);
            Self::new(Model::load(bytes).map_err(|error| error.to_string())?, &digest)
        };
        read().map_err(|reason| EmbedError::Load { name: path.display().to_string(), reason })
    }

    fn new(model: Model, digest: &[u8]) -> Result<Self, String> {
        let other = |what: &str| format!("it is not a model of this kind: {what}");
        let vocabulary = model.metadata().get("vocabulary").ok_or_else(|| other("it has no vocabulary"))?;
        let pieces = WordPieces::new(vocabulary.split('\n').map(|piece| Cow::Owned(piece.to_owned())));
        let number = |piece: &str| {
            let number = pieces.number(piece).and_then(|number| i32::try_from(number).ok());
            number.ok_or_else(|| other(&format!("its vocabulary has no {piece}")))
        };
        let (first, last) = (number("[CLS]")?, number("[SEP]")?);
        if model.input_ids().len() != 1 || model.output_ids().len() != 1 {
            return Err(other("it must have one input, the tokens, and one output, the vector"));
        }
        let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let mut embedder = Self { identity: format!("tuned:{hex}"), dimensions: 0, pieces, first, last, model };
        embedder.dimensions = embedder.vector("").map_err(|error| other(&error))?.len();
        Ok(embedder)
    }

    fn vector(&self, text: &str) -> Result<Vec<f32>, String> {
        let pieces = self.pieces.cut(text);
        let tokens = pieces.into_iter().take(MAX_TOKENS - 2).filter_map(|piece| i32::try_from(piece).ok());
        let tokens: Vec<i32> = std::iter::once(self.first).chain(tokens).chain([self.last]).collect();
        let input: Value = NdTensor::from_data([1, tokens.len()], tokens).into();
        let output = self.model.run_one(input.into(), None).map_err(|error| error.to_string())?;
        let vector: NdTensor<f32, 2> = output.try_into().map_err(|_| "its output is not a row of numbers".to_owned())?;
        let vector = vector.into_data();
        if vector.is_empty() || !vector.iter().all(|value| value.is_finite()) {
            return Err("its output is not a vector of numbers".to_owned());
        }
        Ok(vector)
    }
}

impl Embedder for TunedEmbedder {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn embed(
        &self,
        _: Role,
        texts: &[&str],
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let done = AtomicUsize::new(0);
        let embed = |text: &&str| {
            let vector = self
                .vector(text)
                .map_err(|reason| EmbedError::Inference { model: self.identity.clone(), reason })?;
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            Ok(vector)
        };
        // In the pool of the models, so that a text's own parallel parts find threads of the same pool.
        rten::thread_pool().run(|| texts.par_iter().map(embed).collect())
    }
}

impl std::fmt::Debug for TunedEmbedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TunedEmbedder")
            .field("identity", &self.identity)
            .field("dimensions", &self.dimensions)
            .finish_non_exhaustive()
    }
}
