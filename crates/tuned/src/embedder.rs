//! The tuned model: a small transformer trained on requests and tools, run in pure Rust by the
//! crate `rten`.
//!
//! The model is one ONNX file with int8 weights that carries its own vocabulary. A program built
//! from the repository has it inside; another reads it from a file. `crates/models/tuned/README.md`
//! tells how it was trained, on what, and what it can and cannot do.
//!
//! Activations are quantised with one scale a text, so texts go through the model one at a time, in
//! parallel: a vector does not depend on the text's company.
//!
//! A file is not trusted further than rten can be: its lengths are checked before rten reads it, it
//! gets the operators that our model is made of and no others, and a panic in rten is an error
//! here. The digest of the file is part of the model's identity, so that a changed file never gets
//! another's cached vectors.

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rayon::prelude::*;
use rten::{Model, ModelOptions, Value, op_registry};
use rten_tensor::NdTensor;
use rten_tensor::prelude::*;
use sha2::{Digest, Sha256};

use picktools::embed::word_pieces::WordPieces;
use picktools::embed::{EmbedProgress, Embedder, Role, StaticEmbedder, caught, in_time};

use crate::onnx_file;
use picktools::embed::EmbedError;

/// The model's file, where the program has it inside.
static BYTES: Option<&[u8]> = picktools_models::TUNED_MODEL;
/// As `sha256sum` writes it.
const SHA256: &str = picktools_models::TUNED_SHA256;
/// Filled by the first who read the model. Nobody waits for another here: reading goes through a
/// thread pool, and who waits for that may be given work that wants the model too.
static SHARED: OnceLock<Result<Arc<TunedEmbedder>, String>> = OnceLock::new();

/// Longer texts are cut, in tokens; the model was trained on at most this much.
const MAX_TOKENS: usize = 128;
/// Larger files are not read; ours is a tenth of that.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// What a vector's length may be off 1.
const LENGTH_TOLERANCE: f32 = 1e-3;
const DAMAGED: &str = "it is damaged, or no ONNX model of this kind; copy or fetch it again";

/// The transformer of our own.
///
/// It runs in rten's thread pool, which has a thread for every core, or as many as the environment
/// variable `RTEN_NUM_THREADS` says; vectors do not depend on the number. Texts of more than 128
/// tokens are cut, and a text that has none (no word, no character that the model knows) gets the
/// zero vector.
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
    /// Returns the model that is part of this program, which is read once a process; `None` if the
    /// program was built without it (as from a package registry, whose packages may not be that
    /// large).
    ///
    /// # Errors
    ///
    /// [`EmbedError::Load`] when the program was built with a damaged model file.
    pub fn shared() -> Option<Result<Arc<Self>, EmbedError>> {
        let bytes = BYTES?;
        let model = match SHARED.get() {
            Some(model) => model,
            None => {
                let model = Self::read(Cow::Borrowed(bytes)).map(Arc::new);
                SHARED.get_or_init(|| model)
            }
        };
        Some(model.clone().map_err(|reason| EmbedError::Load {
            name: "tuned".to_owned(),
            reason,
        }))
    }

    /// Returns the size in bytes of the built-in model's file; `None` if the program was built
    /// without it.
    pub fn built_in_size() -> Option<u64> {
        BYTES.map(|bytes| bytes.len() as u64)
    }

    /// Returns the SHA-256 of this version's model file, in lowercase hexadecimal digits: a file
    /// that was fetched and has it is the built-in model.
    pub fn sha256() -> &'static str {
        SHA256.split_whitespace().next().unwrap_or_default()
    }

    /// Reads a model of this kind from an ONNX file.
    ///
    /// # Errors
    ///
    /// [`EmbedError::Load`] when the file cannot be read, is damaged, or is a model of another
    /// kind. Weights that were changed are not noticed: that is another model.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, EmbedError> {
        let path = path.as_ref();
        let model = file(path).and_then(|bytes| {
            let model = Self::read(Cow::Owned(bytes))?;
            // The program's own file is known to take the longest text.
            model
                .run(&[model.last; MAX_TOKENS - 2])
                .map_err(|error| other(&error))?;
            Ok(model)
        });
        model.map_err(|reason| EmbedError::Load {
            name: path.display().to_string(),
            reason,
        })
    }

    fn read(bytes: Cow<'static, [u8]>) -> Result<Self, String> {
        if !onnx_file::is_whole(&bytes) {
            return Err(DAMAGED.to_owned());
        }
        let digest: String = Sha256::digest(&bytes)
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let model = caught("rten", || load(bytes)).map_err(|error| other(&error))?;
        Self::new(model, format!("tuned:{digest}:{MAX_TOKENS}"))
    }

    fn new(model: Model, identity: String) -> Result<Self, String> {
        let vocabulary = model
            .metadata()
            .get("vocabulary")
            .ok_or_else(|| other("it has no vocabulary"))?;
        let pieces = WordPieces::new(Cow::Owned(vocabulary.to_owned()), 0)
            .ok_or_else(|| other("its vocabulary is too large"))?;
        let count = i32::try_from(vocabulary.split('\n').count())
            .map_err(|_| other("its vocabulary is too large"))?;
        let number = |piece: &str| {
            let number = pieces
                .number(piece)
                .and_then(|number| i32::try_from(number).ok());
            number.ok_or_else(|| other(&format!("its vocabulary has no {piece}")))
        };
        let (first, last) = (number("[CLS]")?, number("[SEP]")?);
        if model.input_ids().len() != 1 || model.output_ids().len() != 1 {
            return Err(other(
                "it must have one input, the tokens, and one output, the vector",
            ));
        }
        let mut embedder = Self {
            identity,
            dimensions: 0,
            pieces,
            first,
            last,
            model,
        };
        // The last piece must have its row as well.
        embedder.dimensions = embedder
            .run(&[count - 1])
            .map_err(|error| other(&error))?
            .len();
        Ok(embedder)
    }

    fn vector(&self, text: &str) -> Result<Vec<f32>, String> {
        let pieces = self.pieces.cut(text);
        let tokens = pieces
            .into_iter()
            .take(MAX_TOKENS - 2)
            .filter_map(|piece| i32::try_from(piece).ok());
        let tokens: Vec<i32> = tokens.collect();
        if tokens.is_empty() {
            return Ok(vec![0.0; self.dimensions]);
        }
        self.run(&tokens)
    }

    /// Runs the model on the tokens of a text.
    fn run(&self, tokens: &[i32]) -> Result<Vec<f32>, String> {
        let tokens: Vec<i32> = [&[self.first], tokens, &[self.last]].concat();
        let input: Value = NdTensor::from_data([1, tokens.len()], tokens).into();
        let output = caught("rten", || {
            self.model
                .run_one(input.into(), None)
                .map_err(|error| error.to_string())
        })?;
        let vector: NdTensor<f32, 2> = output
            .try_into()
            .map_err(|_| "its output is not a row of numbers".to_owned())?;
        if vector.size(0) != 1 || self.dimensions != 0 && vector.size(1) != self.dimensions {
            return Err(format!("its output has the shape {:?}", vector.shape()));
        }
        let vector = vector.into_data();
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        // A length that is no number is not near 1 either.
        if (length - 1.0).abs() < LENGTH_TOLERANCE {
            Ok(vector)
        } else {
            Err(format!(
                "its output is no vector of length 1, but of {length}"
            ))
        }
    }
}

/// Reads a file of bounded length.
fn file(path: &Path) -> Result<Vec<u8>, String> {
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(other(&format!(
            "it is no file of at most {} MiB",
            MAX_FILE_BYTES >> 20
        )));
    }
    fs::read(path).map_err(|error| error.to_string())
}

/// Reads a model with the operators of ours, and without those that make much out of little, or run
/// for ever.
fn load(bytes: Cow<'static, [u8]>) -> Result<Model, String> {
    let mut options = ModelOptions::with_ops(op_registry!(
        Add,
        Cast,
        DynamicQuantizeLinear,
        Gather,
        Gelu,
        LayerNormalization,
        LpNormalization,
        MatMul,
        MatMulInteger,
        Mul,
        ReduceMean,
        Reshape,
        Shape,
        Slice,
        Softmax,
        Split,
        Transpose
    ));
    // Ten megabytes more, for less than half the time a text.
    options.prepack_weights(true);
    let model = match bytes {
        Cow::Borrowed(bytes) => options.load_static_slice(bytes),
        Cow::Owned(bytes) => options.load(bytes),
    };
    model.map_err(|error| error.to_string())
}

fn other(what: &str) -> String {
    format!(
        "it is damaged, or not a model of this kind: {what}; name a copy of the repository's crates/models/tuned/model.onnx"
    )
}

impl Embedder for TunedEmbedder {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Its texts were English.
    fn reads(&self, text: &str) -> bool {
        !StaticEmbedder::shared().is_ok_and(|model| model.finds_another_language(text))
    }

    fn embed(
        &self,
        role: Role,
        texts: &[&str],
        progress: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed_until(role, texts, progress, None)
    }

    fn embed_until(
        &self,
        _: Role,
        texts: &[&str],
        progress: EmbedProgress<'_>,
        deadline: Option<Instant>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let done = AtomicUsize::new(0);
        let embed = |text: &&str| {
            in_time(deadline)?;
            let vector = self.vector(text).map_err(|reason| EmbedError::Inference {
                model: self.identity.clone(),
                reason,
            })?;
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            Ok(vector)
        };
        // In the pool of the models, so that a text's own parallel parts find threads of the same
        // pool.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pinned_digest_is_that_of_the_model() {
        let digest = TunedEmbedder::sha256();
        assert!(
            digest.len() == 64
                && digest
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
            "{digest}"
        );
        if let Some(bytes) = BYTES {
            let found: String = Sha256::digest(bytes)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(
                digest, found,
                "run `sha256sum model.onnx > model.sha256` in crates/models/tuned after a change of the model"
            );
        }
    }

    const HOSTILE: [&str; 8] = [
        "",
        " \n",
        "\u{0}\u{1b}[2J\u{fffd}",
        "🚀🎉",
        "查询 订单 状态",
        "a\u{301}\u{301}\u{301}",
        "[CLS] [SEP] [PAD]",
        "'\"\\<>",
    ];

    fn model() -> Arc<TunedEmbedder> {
        TunedEmbedder::shared()
            .expect("it is in the program")
            .expect("it is valid")
    }

    fn embed(texts: &[&str]) -> Vec<Vec<f32>> {
        model()
            .embed(Role::Document, texts, &|_| {})
            .expect("the model works")
    }

    fn length(vector: &[f32]) -> f32 {
        vector.iter().map(|value| value * value).sum::<f32>().sqrt()
    }

    fn read(bytes: &[u8]) -> Result<TunedEmbedder, String> {
        TunedEmbedder::read(Cow::Owned(bytes.to_vec()))
    }

    fn bytes() -> &'static [u8] {
        BYTES.expect("it is in the program")
    }

    #[test]
    fn it_reads_english() {
        for text in [
            "resize this photo",
            "café opening hours",
            "kubectl get pods -A",
            "",
            "😀",
            "status de la PR",
        ] {
            assert!(model().reads(text), "{text}");
        }
        for text in [
            "Bild verkleinern",
            "réduis la taille de cette image",
            "缩小这张图片",
            "この写真を小さくして",
        ] {
            assert!(!model().reads(text), "{text}");
        }
    }

    #[test]
    fn vectors_have_unit_length_or_none_and_no_company() {
        let long = "x".repeat(100_000);
        let words = "read the files of the folder ".repeat(4_000);
        let texts = [
            &HOSTILE[..],
            &["book a meeting room", "read_file", &long, &words],
        ]
        .concat();
        let together = embed(&texts);
        for (text, vector) in texts.iter().zip(&together) {
            assert_eq!(vector.len(), model().dimensions());
            let known = !model().pieces.cut(text).is_empty();
            assert!(
                (length(vector) - f32::from(u8::from(known))).abs() < LENGTH_TOLERANCE,
                "{text:.20}"
            );
            assert_eq!(
                &embed(&[text])[0],
                vector,
                "{text:.20} alone and among others"
            );
        }
        assert_eq!(together, embed(&texts), "again");
        assert!(
            length(&embed(&["book a meeting room"])[0]) > 0.0
                && length(&embed(&["🚀🎉"])[0]) == 0.0
        );
        assert_eq!(
            embed(&["read the files of the folder ".repeat(50).as_str()])[0],
            together[11],
            "both are cut"
        );
        assert!(embed(&[]).is_empty());
    }

    #[test]
    fn vectors_are_the_same_from_any_pool_and_any_number_of_callers() {
        let texts = ["book a meeting room", "delete a file", "where is my parcel"];
        let expected = embed(&texts);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(3)
            .build()
            .expect("threads can be started");
        let from_pool: Vec<Vec<Vec<f32>>> =
            pool.install(|| (0..12).into_par_iter().map(|_| embed(&texts)).collect());
        assert!(from_pool.iter().all(|vectors| *vectors == expected));
        let one = Arc::new(rten::ThreadPool::with_num_threads(1));
        let alone: Vec<Vec<f32>> =
            one.run(|| texts.iter().map(|text| embed(&[text]).remove(0)).collect());
        assert_eq!(alone, expected);
    }

    #[test]
    fn progress_is_told_for_every_text() {
        let most = AtomicUsize::new(0);
        let texts = ["a"; 40];
        let told = |done| {
            most.fetch_max(done, Ordering::Relaxed);
        };
        model()
            .embed(Role::Document, &texts, &told)
            .expect("the model works");
        assert_eq!(most.into_inner(), texts.len());
    }

    #[test]
    fn a_copy_of_the_file_is_the_same_model() {
        let temporary = tempfile::tempdir().expect("a folder can be made");
        let path = temporary.path().join("copy.onnx");
        fs::write(&path, bytes()).expect("it can be written");
        let copy = TunedEmbedder::from_file(&path).expect("it is valid");
        assert_eq!(copy.identity(), model().identity());
        let vector = copy
            .embed(Role::Query, &["book a room"], &|_| {})
            .expect("the model works")
            .remove(0);
        assert_eq!(vector, embed(&["book a room"])[0]);
    }

    #[test]
    fn a_file_that_breaks_off_is_refused() {
        let whole = bytes();
        let ends = [
            0,
            1,
            4,
            20,
            1_000,
            100_000,
            whole.len() / 2,
            whole.len() - 100_000,
            whole.len() - 1,
        ];
        for end in ends {
            let error = read(&whole[..end]).expect_err("it is not whole");
            assert!(error.contains("damaged"), "{end}: {error}");
        }
    }

    #[test]
    fn flipped_bits_are_an_error_or_another_model_and_never_a_panic() {
        let whole = bytes();
        // The beginning is all names, lengths and shapes; further on is mostly weights, which any
        // value fits.
        let steps = whole.len() / 9;
        let places = (0..64)
            .step_by(3)
            .chain((64..4_000).step_by(197))
            .chain((0..whole.len()).step_by(steps));
        let mut refused = 0;
        for place in places {
            let mut damaged = whole.to_vec();
            damaged[place] ^= 0x90;
            match read(&damaged) {
                Ok(other) => {
                    assert_ne!(other.identity(), model().identity(), "{place}");
                    if let Ok(vector) = other.vector("book a meeting room") {
                        assert!((length(&vector) - 1.0).abs() < LENGTH_TOLERANCE, "{place}");
                    }
                }
                Err(error) => {
                    assert!(error.contains("damaged"), "{place}: {error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 10, "{refused}");
    }

    #[test]
    fn other_files_are_refused_by_name_and_reason() {
        let temporary = tempfile::tempdir().expect("a folder can be made");
        let path = temporary.path().join("other.onnx");
        let refusal = || {
            let error = TunedEmbedder::from_file(&path)
                .expect_err("it is no such model")
                .to_string();
            assert!(error.contains("other.onnx"), "{error}");
            error
        };
        assert!(refusal().contains("No such file") || cfg!(not(unix)));
        for bytes in [&b""[..], b"not a model", b"\x08\x09", &[0xff; 64], &[0; 64]] {
            fs::write(&path, bytes).expect("it can be written");
            assert!(refusal().contains("damaged"), "{bytes:?}");
        }
        fs::remove_file(&path).expect("it can be removed");
        fs::create_dir(&path).expect("a folder can be made");
        assert!(refusal().contains("no file"));
    }
}
