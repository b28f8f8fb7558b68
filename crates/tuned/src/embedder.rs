//! The tuned model: a small transformer trained on requests and tools, run in pure Rust by the
//! crate `rten`.
//!
//! The model is one ONNX file with int8 weights and its own vocabulary. A program built from the
//! repository contains it; other programs read it from a file. `crates/models/tuned/README.md`
//! describes its training, its data and its limits.
//!
//! Activations are quantised with one scale per text. Texts are therefore embedded one at a time,
//! in parallel, and a vector does not depend on other texts.
//!
//! A model file is untrusted. Its lengths are checked before rten reads it, and only the operators
//! of this model are allowed. A panic in rten becomes an error. The digest of the file is part of
//! the model's identity, so a changed file never uses the cached vectors of another one.

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
use picktools::embed::{
    EmbedProgress, Embedder, StaticEmbedder, TextRole, catch_panic, check_deadline,
};

use crate::onnx_file;
use picktools::embed::EmbedError;

/// The model's file, if the program contains it.
static BYTES: Option<&[u8]> = picktools_models::TUNED_MODEL;
/// The SHA-256 of the file, in the format of `sha256sum`.
const SHA256: &str = picktools_models::TUNED_SHA256;
/// The built-in model, stored by the first thread that loaded it.
///
/// Threads do not wait for each other here. Loading uses a thread pool, and a waiting thread of
/// that pool could get work that needs the model too.
static SHARED: OnceLock<Result<Arc<TunedEmbedder>, String>> = OnceLock::new();

/// The number of tokens after which a text is cut. The model was trained with this limit.
const MAX_TOKENS: usize = 128;
/// The largest size of a model file; ten times that of the built-in model.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// The tolerance of the length of a vector, which should be 1.
const LENGTH_TOLERANCE: f32 = 1e-3;
const DAMAGED: &str = "it is damaged, or not an ONNX model of this kind; copy or fetch it again";

/// The tuned embedding model.
///
/// It runs in rten's thread pool, which has a thread per core, or the number in the environment
/// variable `RTEN_NUM_THREADS`. Vectors do not depend on the number of threads. Texts of more than
/// 128 tokens are cut. A text without known words or characters gets the zero vector.
pub struct TunedEmbedder {
    identity: String,
    dimensions: usize,
    pieces: WordPieces,
    /// The token in front of a text, `[CLS]`.
    first: i32,
    /// The token after a text, `[SEP]`.
    last: i32,
    model: Model,
}

impl TunedEmbedder {
    /// Returns the model that is part of this program, loaded once per process.
    ///
    /// Returns `None` if the program was built without it, for example from a package registry,
    /// which limits the size of packages.
    ///
    /// # Errors
    ///
    /// [`EmbedError::Load`] if the program was built with a damaged model file.
    pub fn shared() -> Option<Result<Arc<Self>, EmbedError>> {
        let bytes = BYTES?;
        let model = match SHARED.get() {
            Some(model) => model,
            None => {
                let model = Self::from_bytes(Cow::Borrowed(bytes)).map(Arc::new);
                SHARED.get_or_init(|| model)
            }
        };
        Some(model.clone().map_err(|reason| EmbedError::Load {
            name: "tuned".to_owned(),
            reason,
        }))
    }

    /// Returns the size of the built-in model in bytes, or `None` if the program was built without
    /// it.
    pub fn built_in_size() -> Option<u64> {
        BYTES.map(|bytes| bytes.len() as u64)
    }

    /// Returns the SHA-256 of this version's model file, in lowercase hexadecimal digits.
    ///
    /// A fetched file with this digest is the built-in model.
    pub fn sha256() -> &'static str {
        SHA256.split_whitespace().next().unwrap_or_default()
    }

    /// Reads a model of this kind from an ONNX file.
    ///
    /// # Errors
    ///
    /// [`EmbedError::Load`] if the file cannot be read, is damaged, or is a model of another kind.
    /// Changed weights are not an error: such a file is another model.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, EmbedError> {
        let path = path.as_ref();
        let model = read_file(path).and_then(|bytes| {
            let model = Self::from_bytes(Cow::Owned(bytes))?;
            // The built-in file is known to accept the longest text.
            model
                .run(&[model.last; MAX_TOKENS - 2])
                .map_err(|error| invalid_model(&error))?;
            Ok(model)
        });
        model.map_err(|reason| EmbedError::Load {
            name: path.display().to_string(),
            reason,
        })
    }

    fn from_bytes(bytes: Cow<'static, [u8]>) -> Result<Self, String> {
        if !onnx_file::is_intact(&bytes) {
            return Err(DAMAGED.to_owned());
        }
        let digest: String = Sha256::digest(&bytes)
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let model = catch_panic("rten", || load(bytes)).map_err(|error| invalid_model(&error))?;
        Self::new(model, format!("tuned:{digest}:{MAX_TOKENS}"))
    }

    fn new(model: Model, identity: String) -> Result<Self, String> {
        let vocabulary = model
            .metadata()
            .get("vocabulary")
            .ok_or_else(|| invalid_model("it has no vocabulary"))?;
        let pieces = WordPieces::new(Cow::Owned(vocabulary.to_owned()), 0)
            .ok_or_else(|| invalid_model("its vocabulary is too large"))?;
        let count = i32::try_from(vocabulary.split('\n').count())
            .map_err(|_| invalid_model("its vocabulary is too large"))?;
        let number = |piece: &str| {
            let number = pieces
                .number(piece)
                .and_then(|number| i32::try_from(number).ok());
            number.ok_or_else(|| invalid_model(&format!("its vocabulary has no {piece}")))
        };
        let (first, last) = (number("[CLS]")?, number("[SEP]")?);
        if model.input_ids().len() != 1 || model.output_ids().len() != 1 {
            return Err(invalid_model(
                "it does not have exactly one input (tokens) and one output (vector)",
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
        // The vocabulary must not have more pieces than the model has rows.
        embedder.dimensions = embedder
            .run(&[count - 1])
            .map_err(|error| invalid_model(&error))?
            .len();
        Ok(embedder)
    }

    fn embed_text(&self, text: &str) -> Result<Vec<f32>, String> {
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

    /// Runs the model on the tokens of a text, and checks the vector.
    fn run(&self, tokens: &[i32]) -> Result<Vec<f32>, String> {
        let tokens: Vec<i32> = [&[self.first], tokens, &[self.last]].concat();
        let input: Value = NdTensor::from_data([1, tokens.len()], tokens).into();
        let output = catch_panic("rten", || {
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
        // This comparison also fails if the length is not a number.
        if (length - 1.0).abs() < LENGTH_TOLERANCE {
            Ok(vector)
        } else {
            Err(format!("its output has the length {length} instead of 1"))
        }
    }
}

/// Reads a file of limited size.
fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(invalid_model(&format!(
            "it is not a file of at most {} MiB",
            MAX_FILE_BYTES >> 20
        )));
    }
    fs::read(path).map_err(|error| error.to_string())
}

/// Loads a model with the operators of the tuned model only.
///
/// Other operators could allocate large outputs from small inputs, or loop forever.
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
    // This needs 10 MB more memory, and less than half the time per text.
    options.prepack_weights(true);
    let model = match bytes {
        Cow::Borrowed(bytes) => options.load_static_slice(bytes),
        Cow::Owned(bytes) => options.load(bytes),
    };
    model.map_err(|error| error.to_string())
}

fn invalid_model(reason: &str) -> String {
    format!(
        "it is damaged, or not a model of this kind: {reason}; \
         use a copy of crates/models/tuned/model.onnx of the repository"
    )
}

impl Embedder for TunedEmbedder {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Returns `false` for other languages, because the model was trained on English texts.
    fn reads(&self, text: &str) -> bool {
        !StaticEmbedder::shared().is_ok_and(|model| model.finds_another_language(text))
    }

    fn embed(
        &self,
        role: TextRole,
        texts: &[&str],
        progress: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed_until(role, texts, progress, None)
    }

    fn embed_until(
        &self,
        _: TextRole,
        texts: &[&str],
        progress: EmbedProgress<'_>,
        deadline: Option<Instant>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let done = AtomicUsize::new(0);
        let embed = |text: &&str| {
            check_deadline(deadline)?;
            let vector = self
                .embed_text(text)
                .map_err(|reason| EmbedError::Inference {
                    model: self.identity.clone(),
                    reason,
                })?;
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            Ok(vector)
        };
        // The texts are distributed in rten's pool, which also runs the parallel parts of one text.
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
    fn pinned_digest_is_that_of_the_model() {
        let digest = TunedEmbedder::sha256();
        assert!(
            digest.len() == 64
                && digest
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
            "{digest}"
        );
        if let Some(bytes) = BYTES {
            let actual: String = Sha256::digest(bytes)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(
                digest, actual,
                "after a change of the model, run `sha256sum model.onnx > model.sha256` in \
                 crates/models/tuned"
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
            .embed(TextRole::Document, texts, &|_| {})
            .expect("the model works")
    }

    fn length(vector: &[f32]) -> f32 {
        vector.iter().map(|value| value * value).sum::<f32>().sqrt()
    }

    fn parse(bytes: &[u8]) -> Result<TunedEmbedder, String> {
        TunedEmbedder::from_bytes(Cow::Owned(bytes.to_vec()))
    }

    fn bytes() -> &'static [u8] {
        BYTES.expect("it is in the program")
    }

    #[test]
    fn tuned_model_reads_english_only() {
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
    fn vectors_have_unit_or_zero_length_and_ignore_other_texts() {
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
            let has_tokens = !model().pieces.cut(text).is_empty();
            let expected = if has_tokens { 1.0 } else { 0.0 };
            assert!(
                (length(vector) - expected).abs() < LENGTH_TOLERANCE,
                "{text:.20}"
            );
            assert_eq!(
                &embed(&[text])[0],
                vector,
                "{text:.20} alone and with others"
            );
        }
        assert_eq!(together, embed(&texts), "repeated");
        assert!(
            length(&embed(&["book a meeting room"])[0]) > 0.0
                && length(&embed(&["🚀🎉"])[0]) == 0.0
        );
        assert_eq!(
            embed(&["read the files of the folder ".repeat(50).as_str()])[0],
            together[11],
            "both texts are cut"
        );
        assert!(embed(&[]).is_empty());
    }

    #[test]
    fn vectors_do_not_depend_on_threads() {
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
    fn progress_is_reported_for_every_text() {
        let max_done = AtomicUsize::new(0);
        let texts = ["a"; 40];
        let progress = |done| {
            max_done.fetch_max(done, Ordering::Relaxed);
        };
        model()
            .embed(TextRole::Document, &texts, &progress)
            .expect("the model works");
        assert_eq!(max_done.into_inner(), texts.len());
    }

    #[test]
    fn copied_model_file_has_the_same_identity() {
        let temporary = tempfile::tempdir().expect("a folder can be made");
        let path = temporary.path().join("copy.onnx");
        fs::write(&path, bytes()).expect("it can be written");
        let copy = TunedEmbedder::from_file(&path).expect("it is valid");
        assert_eq!(copy.identity(), model().identity());
        let vector = copy
            .embed(TextRole::Query, &["book a room"], &|_| {})
            .expect("the model works")
            .remove(0);
        assert_eq!(vector, embed(&["book a room"])[0]);
    }

    #[test]
    fn truncated_model_file_is_refused() {
        let file = bytes();
        let ends = [
            0,
            1,
            4,
            20,
            1_000,
            100_000,
            file.len() / 2,
            file.len() - 100_000,
            file.len() - 1,
        ];
        for end in ends {
            let error = parse(&file[..end]).expect_err("the file is truncated");
            assert!(error.contains("damaged"), "{end}: {error}");
        }
    }

    #[test]
    fn flipped_bits_are_an_error_or_another_model() {
        let file = bytes();
        // The beginning has names, lengths and shapes. The rest is mostly weights, of which every
        // value is valid.
        let steps = file.len() / 9;
        let positions = (0..64)
            .step_by(3)
            .chain((64..4_000).step_by(197))
            .chain((0..file.len()).step_by(steps));
        let mut refused = 0;
        for position in positions {
            let mut damaged = file.to_vec();
            damaged[position] ^= 0x90;
            match parse(&damaged) {
                Ok(other) => {
                    assert_ne!(other.identity(), model().identity(), "{position}");
                    if let Ok(vector) = other.embed_text("book a meeting room") {
                        let difference = (length(&vector) - 1.0).abs();
                        assert!(difference < LENGTH_TOLERANCE, "{position}");
                    }
                }
                Err(error) => {
                    assert!(error.contains("damaged"), "{position}: {error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 10, "{refused}");
    }

    #[test]
    fn invalid_model_file_is_refused_with_name_and_reason() {
        let temporary = tempfile::tempdir().expect("a folder can be made");
        let path = temporary.path().join("other.onnx");
        let refusal = || {
            let error = TunedEmbedder::from_file(&path)
                .expect_err("it is not a model")
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
        assert!(refusal().contains("not a file"));
    }
}
