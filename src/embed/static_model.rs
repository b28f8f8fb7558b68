//! The static model: a table of token vectors inside the program.
//!
//! A text is cut into word pieces, the pieces' vectors are added up, and the sum is scaled to unit length. That
//! costs microseconds and needs no library and no download. The table is distilled from MiniLM on tool texts;
//! `models/static/README.md` tells how, from what, and what it can and cannot do.
//!
//! The file is little-endian throughout: `PTSTATIC`, then as u32 the version, the dimensions, the number of pieces
//! and the length of the vocabulary in bytes; one f32 scale a piece; one row of i8 a piece; the pieces, separated by
//! line feeds; and the SHA-256 of all of the above. A row times its scale is the piece's vector; the weight of a
//! piece in a text is part of it.

use std::borrow::Cow;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::word_pieces::WordPieces;
use super::{EmbedProgress, Embedder, ModelKind, Role, WordVectors};
use crate::embed::EmbedError;

static BYTES: &[u8] = include_bytes!("../../models/static/model.bin");
/// Read on first use; a damaged file is a build error that the tests find.
static SHARED: LazyLock<Result<Arc<StaticEmbedder>, String>> =
    LazyLock::new(|| StaticEmbedder::read(BYTES).map(Arc::new));

const MAGIC: &[u8; 8] = b"PTSTATIC";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 24;
const DIGEST_BYTES: usize = 32;
/// Up to this many texts are embedded on the thread that asks.
const FEW_TEXTS: usize = 32;
const DAMAGED: &str = "the file is damaged, or no static model";

/// A static model: the one inside the program, or another from a file.
pub struct StaticEmbedder {
    identity: String,
    dimensions: usize,
    /// A piece's number is its row.
    pieces: WordPieces,
    scales: Vec<f32>,
    /// Shape: pieces × dimensions.
    rows: Cow<'static, [u8]>,
}

/// The parts of a model's file.
struct Parts<'a> {
    dimensions: usize,
    scales: &'a [u8],
    rows: &'a [u8],
    words: &'a str,
    digest: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Takes a file apart; its digest and its lengths fit.
    fn of(bytes: &'a [u8]) -> Result<Self, String> {
        let damaged = || DAMAGED.to_owned();
        let (body, digest) = bytes.split_at_checked(bytes.len().saturating_sub(DIGEST_BYTES)).ok_or_else(damaged)?;
        let (header, body_rest) = body.split_at_checked(HEADER_BYTES).ok_or_else(damaged)?;
        if header[..8] != *MAGIC || Sha256::digest(body).as_slice() != digest {
            return Err(damaged());
        }
        let (numbers, _) = header[8..].as_chunks::<4>();
        let [version, dimensions, pieces, vocabulary] = numbers else { return Err(damaged()) };
        if u32::from_le_bytes(*version) != VERSION {
            return Err(format!("it has the version {}, not {VERSION}", u32::from_le_bytes(*version)));
        }
        let size = |number: &[u8; 4]| u32::from_le_bytes(*number) as usize;
        let (dimensions, pieces, vocabulary) = (size(dimensions), size(pieces), size(vocabulary));
        let (scales, rest) =
            pieces.checked_mul(4).and_then(|end| body_rest.split_at_checked(end)).ok_or_else(damaged)?;
        let rows = pieces.checked_mul(dimensions).filter(|_| dimensions > 0);
        let (rows, words) = rows.and_then(|end| rest.split_at_checked(end)).ok_or_else(damaged)?;
        let words = std::str::from_utf8(words).map_err(|_| damaged())?;
        if words.len() != vocabulary {
            return Err(damaged());
        }
        Ok(Self { dimensions, scales, rows, words, digest })
    }
}

impl StaticEmbedder {
    /// Returns the model inside the program, which is read once a process.
    ///
    /// # Errors
    ///
    /// [`EmbedError::Load`] when the program was built with a damaged model file.
    pub fn shared() -> Result<Arc<Self>, EmbedError> {
        SHARED.clone().map_err(|reason| EmbedError::Load { name: "static".to_owned(), reason })
    }

    /// Returns the size in bytes of the file of the built-in model.
    pub fn built_in_size() -> u64 {
        BYTES.len() as u64
    }

    /// Reads another model of this kind from a file: one made by `models/train/static`.
    ///
    /// # Errors
    ///
    /// [`EmbedError::Load`] when the file cannot be read, is damaged, or is no such model.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, EmbedError> {
        let path = path.as_ref();
        let read = || {
            let bytes = fs::read(path).map_err(|error| error.to_string())?;
            let parts = Parts::of(&bytes)?;
            let pieces = WordPieces::new(parts.words.split('\n').map(|piece| Cow::Owned(piece.to_owned())));
            Self::new(&parts, pieces, Cow::Owned(parts.rows.to_vec()))
        };
        read().map_err(|reason: String| EmbedError::Load { name: path.display().to_string(), reason })
    }

    fn read(bytes: &'static [u8]) -> Result<Self, String> {
        let parts = Parts::of(bytes)?;
        let pieces = WordPieces::new(parts.words.split('\n').map(Cow::Borrowed));
        Self::new(&parts, pieces, Cow::Borrowed(parts.rows))
    }

    fn new(parts: &Parts<'_>, pieces: WordPieces, rows: Cow<'static, [u8]>) -> Result<Self, String> {
        let scales: Vec<f32> = parts.scales.as_chunks::<4>().0.iter().map(|scale| f32::from_le_bytes(*scale)).collect();
        if pieces.len() != scales.len() || !scales.iter().all(|scale| scale.is_finite()) {
            return Err(DAMAGED.to_owned());
        }
        let hex: String = parts.digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { identity: format!("static:{hex}"), dimensions: parts.dimensions, pieces, scales, rows })
    }

    /// Returns the sums of the vectors of pieces, one sum for each of `words` words, one after the other; each piece
    /// comes with the number of its word.
    fn sums(&self, words: usize, pieces: &[(usize, u32)]) -> Vec<f32> {
        let mut sums = vec![0.0; words * self.dimensions];
        Arch::new().dispatch(Sums { model: self, pieces, sums: &mut sums });
        sums
    }

    /// Returns where the words of a text stand that have pieces, in bytes, and each piece with the number of its word.
    ///
    /// Nothing where less than half of the letters stand in such words: what is left of a text in another script, a unit or
    /// a code, says nothing of the text.
    fn words_and_pieces(&self, text: &str) -> (Vec<Range<usize>>, Vec<(usize, u32)>) {
        let most = text.len() / 3;
        let (mut words, mut pieces) = (Vec::with_capacity(most), Vec::with_capacity(most));
        self.pieces.each_piece(text, |piece, word| {
            if words.last() != Some(word) {
                words.push(word.clone());
            }
            pieces.push((words.len() - 1, piece));
        });
        let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).count();
        let known = || words.iter().map(|word| letters(&text[word.clone()])).sum::<usize>();
        if text.is_ascii() || 2 * known() >= letters(text) { (words, pieces) } else { Default::default() }
    }

    fn vector(&self, text: &str) -> Vec<f32> {
        let (_, mut pieces) = self.words_and_pieces(text);
        pieces.iter_mut().for_each(|(word, _)| *word = 0);
        let mut sum = self.sums(1, &pieces);
        let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
        if length > 0.0 {
            sum.iter_mut().for_each(|value| *value /= length);
        }
        sum
    }
}

/// The loops of [`StaticEmbedder::sums`]: compiled once for each set of vector instructions, of which the processor's
/// is taken.
struct Sums<'a> {
    model: &'a StaticEmbedder,
    pieces: &'a [(usize, u32)],
    sums: &'a mut [f32],
}

impl NullaryFnOnce for Sums<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let StaticEmbedder { dimensions, scales, rows, .. } = self.model;
        for &(word, piece) in self.pieces {
            let (row, scale) = (piece as usize * dimensions, scales[piece as usize]);
            let sum = &mut self.sums[word * dimensions..][..*dimensions];
            for (total, &value) in sum.iter_mut().zip(&rows[row..row + dimensions]) {
                *total += scale * f32::from(value.cast_signed());
            }
        }
    }
}

impl Embedder for StaticEmbedder {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn kind(&self) -> ModelKind {
        ModelKind::Static
    }

    fn worth_caching(&self) -> bool {
        false
    }

    fn embed(&self, _: Role, texts: &[&str], progress: EmbedProgress<'_>) -> Result<Vec<Vec<f32>>, EmbedError> {
        // Waking other threads takes longer than embedding a few texts.
        let vectors = if texts.len() <= FEW_TEXTS {
            texts.iter().map(|text| self.vector(text)).collect()
        } else {
            texts.par_iter().map(|text| self.vector(text)).collect()
        };
        progress(texts.len());
        Ok(vectors)
    }

    fn word_vectors(&self, _: Role, text: &str) -> Option<WordVectors> {
        let (words, pieces) = self.words_and_pieces(text);
        let vectors = self.sums(words.len(), &pieces);
        Some(WordVectors { words, vectors })
    }
}

impl std::fmt::Debug for StaticEmbedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StaticEmbedder")
            .field("identity", &self.identity)
            .field("dimensions", &self.dimensions)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_vectors_of_the_words_add_up_to_the_vector_of_the_text(text in "([a-zA-Z_,.é查]{1,9} ?|\\PC){0,20}") {
            let model = StaticEmbedder::shared().expect("the model is valid");
            let found = model.word_vectors(Role::Query, &text).expect("it can tell");
            prop_assert_eq!(found.vectors.len(), found.words.len() * model.dimensions());
            prop_assert!(found.words.iter().all(|word| text.get(word.clone()).is_some_and(|word| !word.is_empty())));
            let mut sum = vec![0.0; model.dimensions()];
            for (at, value) in found.vectors.iter().enumerate() {
                sum[at % model.dimensions()] += value;
            }
            let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            for (total, own) in sum.iter().zip(model.vector(&text)) {
                prop_assert!((total / length - own).abs() < 1e-4, "{} {}", total / length, own);
            }
        }
    }

    #[test]
    fn what_is_left_of_a_text_in_another_script_says_nothing() {
        let model = StaticEmbedder::shared().expect("the model is valid");
        for (text, known) in [
            ("我的快递到哪儿了? SF20391", false),
            ("где мой заказ ABC", false),
            ("你好 world", true),
            ("la représentation à l'opéra", true),
            ("✓ 90017 → 42", true),
        ] {
            assert_eq!(model.vector(text).iter().any(|&value| value != 0.0), known, "{text}");
            assert_eq!(
                model.word_vectors(Role::Query, text).is_some_and(|found| !found.words.is_empty()),
                known,
                "{text}"
            );
        }
    }

    #[test]
    fn pieces_of_one_word_are_one_word() {
        let text = "reschedule unboxings, twice";
        let found = StaticEmbedder::shared().expect("it is valid").word_vectors(Role::Document, text);
        let words: Vec<&str> = found.expect("it can tell").words.into_iter().map(|word| &text[word]).collect();
        assert_eq!(words, ["reschedule", "unboxings", ",", "twice"]);
    }

    #[derive(serde::Deserialize)]
    struct Reference {
        text: String,
        pieces: Vec<String>,
        /// The first components.
        vector: Vec<f32>,
    }

    #[test]
    fn pieces_and_vectors_are_those_of_the_training() {
        let model = StaticEmbedder::shared().expect("the model is valid");
        let names = model.pieces.names();
        let references: Vec<Reference> =
            serde_json::from_str(include_str!("../../models/static/reference.json")).expect("it is valid");
        assert!(references.len() >= 20);
        for Reference { text, pieces, vector } in references {
            let found: Vec<&str> = model.pieces.cut(&text).iter().map(|row| names[row].as_str()).collect();
            assert_eq!(found, pieces, "{text}");
            let own = model.vector(&text);
            assert_eq!(own.len(), model.dimensions());
            for (a, b) in own.iter().zip(&vector) {
                assert!((a - b).abs() < 1e-5, "{text}: {a} {b}");
            }
        }
    }

    #[test]
    fn hostile_text_has_a_vector_of_unit_length_or_none() {
        let model = StaticEmbedder::shared().expect("the model is valid");
        for text in ["", "\u{0}\u{fffd}", "🚀🚀", &"x".repeat(100_000), "a\u{301}\u{301}", "混合 text 查询"] {
            let length = model.vector(text).iter().map(|value| value * value).sum::<f32>().sqrt();
            assert!(length == 0.0 || (length - 1.0).abs() < 1e-4, "{text:.20}: {length}");
        }
    }

    #[test]
    fn a_damaged_file_is_refused() {
        for cut in [0, 10, 100, BYTES.len() - 1] {
            assert!(StaticEmbedder::read(&BYTES[..cut]).is_err());
        }
    }

    #[test]
    fn a_file_gives_the_vectors_of_the_program() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/static/model.bin");
        let (shared, file) = (StaticEmbedder::shared().expect("it is valid"), StaticEmbedder::from_file(path));
        let file = file.expect("it is valid");
        assert_eq!(file.identity(), shared.identity());
        assert_eq!(file.vector("send a message"), shared.vector("send a message"));
        let error = StaticEmbedder::from_file("no/such.bin").expect_err("there is none");
        assert!(error.to_string().contains("no/such.bin"), "{error}");
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        for (at, value) in [(12, 0), (12, u32::MAX), (16, u32::MAX), (20, u32::MAX), (16, 1), (8, 2)] {
            let mut bytes = BYTES[..BYTES.len() - DIGEST_BYTES].to_vec();
            bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
            let digest = Sha256::digest(&bytes);
            bytes.extend(digest);
            assert!(Parts::of(&bytes).is_err(), "{value} at {at}");
        }
    }
}
