//! The static model: a table of token vectors in the binary.
//!
//! A text is split into word pieces, the vectors of the pieces are added up, and the sum is scaled
//! to unit length. That takes microseconds and needs no library and no download. Requests use other
//! words than tool texts, so frequent pieces have two vectors: one for requests and one for tools.
//! `crates/models/static/README.md` describes the training, the data and the limits.
//!
//! Other languages have pieces of their own in the same vector space, so that a request finds a
//! tool in another language. The words of a text decide which vocabulary splits it: `die` and `la`
//! have other meanings in English. Words in other scripts need no decision.

use std::borrow::Cow;
use std::fs;
use std::ops::Range;
use std::path::Path;
#[cfg(feature = "static-model")]
use std::sync::{Arc, LazyLock};

use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;
use unicode_script::{Script, UnicodeScript};

use super::cache::TextRole;
use super::embedder::{EmbedProgress, Embedder, ModelKind, WordVectors};
use super::static_file::{DAMAGED, LanguageHint, StaticModelFile};
use super::word_pieces::{Ideographs, WordPieces, each_word};
use crate::embed::EmbedError;

/// The shared model, which is read on first use. The tests find a damaged file.
#[cfg(feature = "static-model")]
static SHARED: LazyLock<Result<Arc<StaticEmbedder>, String>> =
    LazyLock::new(|| StaticEmbedder::from_built_in(picktools_models::STATIC_MODEL).map(Arc::new));

/// The largest number of texts that are embedded on the calling thread.
const FEW_TEXTS: usize = 32;

/// A static model: the one in the binary, or another from a file.
pub struct StaticEmbedder {
    identity: String,
    dimensions: usize,
    /// The English pieces, numbered from 0.
    english: WordPieces,
    english_pieces: usize,
    /// The pieces of other languages, numbered after the English ones.
    others: WordPieces,
    /// The number of English pieces with a second row, for tools. These pieces come first; the
    /// second rows follow the rows of all English pieces.
    second: usize,
    /// The language hint of each piece.
    hints: Vec<LanguageHint>,
    scales: Vec<f32>,
    /// Shape: rows × dimensions.
    rows: Cow<'static, [u8]>,
    /// The weights for the decision if tools serve a request.
    scope: RequestScope,
}

/// The weights of a linear model that decides if tools serve an English request at all.
struct RequestScope {
    /// The weight of each English piece.
    weights: Vec<f32>,
    intercept: f32,
}

/// A word of a text, as it is looked up.
struct TextWord {
    /// The range of the normalised word in the text of [`LookedUpText`].
    normalised: Range<usize>,
    /// The range of the word in the original text, in bytes.
    range: Range<usize>,
    /// The English piece that equals the word.
    english: Option<u32>,
    /// `true` if the word is not in Latin letters.
    has_other_script: bool,
}

/// A text after normalisation and lookup of its words.
struct LookedUpText {
    /// The normalised words, one after the other.
    text: String,
    words: Vec<TextWord>,
}

impl LookedUpText {
    fn word_text(&self, word: &TextWord) -> &str {
        &self.text[word.normalised.clone()]
    }
}

/// A piece of a word, with the index of the word.
#[derive(Clone, Copy)]
struct WordPiece {
    word: usize,
    piece: u32,
}

impl StaticEmbedder {
    /// Returns the model in the binary, which is read once in a process.
    ///
    /// # Errors
    ///
    /// [`EmbedError::Load`] if the binary was built with a damaged model file.
    #[cfg(feature = "static-model")]
    pub fn shared() -> Result<Arc<Self>, EmbedError> {
        SHARED.clone().map_err(|reason| EmbedError::Load {
            name: "static".to_owned(),
            reason,
        })
    }

    /// Returns the size of the built-in model's file, in bytes.
    #[cfg(feature = "static-model")]
    pub fn built_in_size() -> u64 {
        picktools_models::STATIC_MODEL.len() as u64
    }

    /// Reads another static model from a file that `models/train/static` made.
    ///
    /// # Errors
    ///
    /// [`EmbedError::Load`] if the file cannot be read, is damaged, or is not such a model.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, EmbedError> {
        let path = path.as_ref();
        let load = || {
            let bytes = fs::read(path).map_err(|error| error.to_string())?;
            let file = StaticModelFile::parse(&bytes)?;
            Self::new(
                &file,
                |pieces| Cow::Owned(pieces.to_owned()),
                Cow::Owned(file.rows.to_vec()),
            )
        };
        load().map_err(|reason: String| EmbedError::Load {
            name: path.display().to_string(),
            reason,
        })
    }

    #[cfg(feature = "static-model")]
    fn from_built_in(bytes: &'static [u8]) -> Result<Self, String> {
        let file = StaticModelFile::parse_built_in(bytes)?;
        Self::new(&file, Cow::Borrowed, Cow::Borrowed(file.rows))
    }

    fn new<'a>(
        file: &StaticModelFile<'a>,
        text: impl Fn(&'a str) -> Cow<'static, str>,
        rows: Cow<'static, [u8]>,
    ) -> Result<Self, String> {
        let [english, others] = file.pieces;
        let vocabulary = |pieces: &'a str, first, count| {
            WordPieces::new(text(pieces), first)
                .filter(|vocabulary| vocabulary.len() == count)
                .ok_or(DAMAGED)
        };
        let hex: String = file
            .digest
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let step = file.scope.step;
        let weights = file.scope.weights.iter();
        let weights = weights.map(|weight| step * f32::from(weight.cast_signed()));
        Ok(Self {
            identity: format!("static:{hex}"),
            dimensions: file.dimensions,
            english: vocabulary(english, 0, file.english)?,
            english_pieces: file.english,
            others: vocabulary(others, file.english, file.hints.len() - file.english)?,
            second: file.second,
            hints: file.hints.clone(),
            scales: file.scales.clone(),
            rows,
            scope: RequestScope {
                weights: weights.collect(),
                intercept: file.scope.intercept,
            },
        })
    }

    /// Returns the sum of the piece vectors for each word, one word after the other. The words are
    /// numbered from 0, and each has at least one piece.
    fn sums(&self, role: TextRole, words: usize, pieces: &[WordPiece]) -> Vec<f32> {
        let mut sums = Vec::with_capacity(words * self.dimensions);
        Arch::new().dispatch(Sums {
            model: self,
            role,
            pieces,
            sums: &mut sums,
        });
        sums
    }

    /// Returns the ranges of the words with pieces, in bytes, and the pieces.
    ///
    /// Both are empty if less than half of the letters are in such words: the rest of a text in
    /// another script, such as a unit or a code, says nothing about the text.
    fn words_and_pieces(&self, text: &str) -> (Vec<Range<usize>>, Vec<WordPiece>) {
        let looked_up = self.look_up(text);
        let is_other = self.is_other_language(&looked_up);
        let mut words = Vec::with_capacity(looked_up.words.len());
        let mut pieces = Vec::with_capacity(looked_up.words.len());
        for word in &looked_up.words {
            let previous = pieces.len();
            let index = words.len();
            self.each_piece(looked_up.word_text(word), word, is_other, |piece| {
                pieces.push(WordPiece { word: index, piece });
            });
            if pieces.len() > previous {
                words.push(word.range.clone());
            }
        }
        let count_letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).count();
        let count_letters_in_words = || {
            words
                .iter()
                .map(|word| count_letters(&text[word.clone()]))
                .sum::<usize>()
        };
        if text.is_ascii() || 2 * count_letters_in_words() >= count_letters(text) {
            (words, pieces)
        } else {
            Default::default()
        }
    }

    /// Normalises a text and looks up its words.
    fn look_up(&self, text: &str) -> LookedUpText {
        let mut looked_up = LookedUpText {
            text: String::with_capacity(text.len()),
            words: Vec::with_capacity(text.len() / 4),
        };
        each_word(text, Ideographs::Together, |word, range| {
            let start = looked_up.text.len();
            looked_up.text.push_str(word);
            let has_other_script = word
                .chars()
                .next()
                .is_some_and(|c| !c.is_ascii() && c.script() != Script::Latin);
            let english = self.english.number(word);
            looked_up.words.push(TextWord {
                normalised: start..looked_up.text.len(),
                range: range.clone(),
                english,
                has_other_script,
            });
        });
        looked_up
    }

    /// Returns `true` if the model in the binary has a piece for a complete word in lower case.
    /// Without a model, it knows no word.
    pub(crate) fn knows_word(word: &str) -> bool {
        #[cfg(feature = "static-model")]
        if let Ok(model) = &*SHARED {
            return model.english.number(word).is_some() || model.others.number(word).is_some();
        }
        let _ = word;
        false
    }

    /// Returns `true` if a text is probably in another language than English.
    pub fn finds_another_language(&self, text: &str) -> bool {
        self.is_other_language(&self.look_up(text))
    }

    /// Returns `true` if more words indicate another language than English.
    fn is_other_language(&self, looked_up: &LookedUpText) -> bool {
        let vote = |word: &TextWord| {
            let text = looked_up.word_text(word);
            if word.has_other_script {
                return i32::from(text.starts_with(char::is_alphabetic));
            }
            let piece = word.english.or_else(|| self.others.number(text));
            match piece.map(|piece| self.hints[piece as usize]) {
                Some(LanguageHint::Other) => 1,
                Some(LanguageHint::English) => -1,
                Some(LanguageHint::Neither) | None => 0,
            }
        };
        looked_up.words.iter().map(vote).sum::<i32>() > 0
    }

    /// Calls `each` with the pieces of a word of a text.
    ///
    /// In a text of another language, and for a word in another script, the order of preference is:
    /// one piece of the other languages, one English piece, several pieces of the other languages
    /// that cover the word, several English pieces.
    fn each_piece(&self, text: &str, word: &TextWord, is_other: bool, mut each: impl FnMut(u32)) {
        let prefers_others = is_other || word.has_other_script;
        let other = prefers_others.then(|| self.others.number(text)).flatten();
        if let Some(piece) = other.or(word.english) {
            each(piece);
        } else if let Some(pieces) = prefers_others.then(|| self.others.covering(text)).flatten() {
            pieces.into_iter().for_each(each);
        } else {
            self.english.each_piece(text, each);
        }
    }

    /// Returns the row of a piece.
    #[inline(always)]
    fn row(&self, role: TextRole, piece: u32) -> usize {
        let (piece, english) = (piece as usize, self.english_pieces);
        match role {
            TextRole::Document if piece < self.second => english + piece,
            _ if piece >= english => self.second + piece,
            _ => piece,
        }
    }

    fn vector(&self, role: TextRole, text: &str) -> Vec<f32> {
        let (_, mut pieces) = self.words_and_pieces(text);
        if pieces.is_empty() {
            return vec![0.0; self.dimensions];
        }
        pieces.iter_mut().for_each(|piece| piece.word = 0);
        let mut sum = self.sums(role, 1, &pieces);
        let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
        if length > 0.0 {
            sum.iter_mut().for_each(|value| *value /= length);
        }
        sum
    }
}

/// The loops of [`StaticEmbedder::sums`], compiled for each set of vector instructions. The
/// processor decides which version runs.
struct Sums<'a> {
    model: &'a StaticEmbedder,
    role: TextRole,
    pieces: &'a [WordPiece],
    sums: &'a mut Vec<f32>,
}

impl NullaryFnOnce for Sums<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let StaticEmbedder {
            dimensions,
            scales,
            rows,
            ..
        } = self.model;
        for &WordPiece { word, piece } in self.pieces {
            let row = self.model.row(self.role, piece);
            let (scale, row) = (scales[row], row * dimensions);
            let values = rows[row..row + dimensions]
                .iter()
                .map(|value| scale * f32::from(value.cast_signed()));
            if self.sums.len() == word * dimensions {
                self.sums.extend(values);
            } else {
                let sum = &mut self.sums[word * dimensions..];
                sum.iter_mut()
                    .zip(values)
                    .for_each(|(total, value)| *total += value);
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

    fn is_immediate(&self) -> bool {
        true
    }

    fn embed(
        &self,
        role: TextRole,
        texts: &[&str],
        progress: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        // Waking other threads takes longer than embedding a few texts.
        let vectors = if texts.len() <= FEW_TEXTS {
            texts.iter().map(|text| self.vector(role, text)).collect()
        } else {
            texts
                .par_iter()
                .map(|text| self.vector(role, text))
                .collect()
        };
        progress(texts.len());
        Ok(vectors)
    }

    fn scope(&self, request: &str) -> Option<f32> {
        let looked_up = self.look_up(request);
        if self.is_other_language(&looked_up) {
            return None;
        }
        let mut pieces = Vec::with_capacity(looked_up.words.len());
        for word in &looked_up.words {
            self.each_piece(looked_up.word_text(word), word, false, |piece| {
                pieces.push(piece as usize);
            });
        }
        pieces.retain(|&piece| piece < self.english_pieces);
        pieces.sort_unstable();
        pieces.dedup();
        let RequestScope { weights, intercept } = &self.scope;
        let sum: f32 = pieces.iter().map(|&piece| weights[piece]).sum();
        (!pieces.is_empty()).then(|| intercept + sum / (pieces.len() as f32).sqrt())
    }

    fn word_vectors(&self, role: TextRole, text: &str) -> Option<WordVectors> {
        let (words, pieces) = self.words_and_pieces(text);
        let vectors = self.sums(role, words.len(), &pieces);
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
        fn word_vectors_add_up_to_the_text_vector(
            text in "([a-zA-Z_,.é查]{1,9} ?|\\PC){0,20}",
            role in prop_oneof![Just(TextRole::Query), Just(TextRole::Document)],
        ) {
            let model = StaticEmbedder::shared().expect("the model is valid");
            let words = model.word_vectors(role, &text).expect("the model adds up words");
            prop_assert_eq!(words.vectors.len(), words.words.len() * model.dimensions());
            for word in &words.words {
                prop_assert!(text.get(word.clone()).is_some_and(|word| !word.is_empty()));
            }
            let mut sum = vec![0.0; model.dimensions()];
            for (index, value) in words.vectors.iter().enumerate() {
                sum[index % model.dimensions()] += value;
            }
            let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
            let length = length.max(f32::MIN_POSITIVE);
            for (total, expected) in sum.iter().zip(model.vector(role, &text)) {
                let value = total / length;
                prop_assert!((value - expected).abs() < 1e-4, "{} {}", value, expected);
            }
        }
    }

    #[test]
    fn text_in_an_unknown_script_has_a_zero_vector() {
        let model = StaticEmbedder::shared().expect("the model is valid");
        for (text, is_known) in [
            ("ᏙᎯᏧ ᎭᏩ? SF20391", false),
            ("я могу ᏙᎯᏧ ᎣᏏᏲ ᎣᏍᏓ ᏍᎩ ABC", false),
            ("你好 world", true),
            ("la représentation à l'opéra", true),
            ("✓ 90017 → 42", true),
        ] {
            assert_eq!(
                model
                    .vector(TextRole::Query, text)
                    .iter()
                    .any(|&value| value != 0.0),
                is_known,
                "{text}"
            );
            assert_eq!(
                model
                    .word_vectors(TextRole::Query, text)
                    .is_some_and(|vectors| !vectors.words.is_empty()),
                is_known,
                "{text}"
            );
        }
    }

    #[test]
    fn pieces_of_one_word_count_as_one_word() {
        let text = "reschedule unboxings, twice";
        let vectors = StaticEmbedder::shared()
            .expect("the model is valid")
            .word_vectors(TextRole::Document, text);
        let words: Vec<&str> = vectors
            .expect("the model adds up words")
            .words
            .into_iter()
            .map(|word| &text[word])
            .collect();
        assert_eq!(words, ["reschedule", "unboxings", ",", "twice"]);
    }

    fn similarity(request: &str, tool: &str) -> f32 {
        let model = StaticEmbedder::shared().expect("the model is valid");
        let (request, tool) = (
            model.vector(TextRole::Query, request),
            model.vector(TextRole::Document, tool),
        );
        request.iter().zip(&tool).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn requests_in_other_languages_are_near_their_tools() {
        let tools = [
            "send email: Send an email message",
            "get weather: Get the weather forecast for a city",
        ];
        for (email, weather) in [
            (
                "schick eine E-Mail an meine Chefin",
                "wie wird das Wetter morgen",
            ),
            (
                "envoie un courriel à ma collègue",
                "quel temps fera-t-il demain",
            ),
            ("给我的经理发一封邮件", "明天天气怎么样"),
            ("上司にメールを送って", "明日の天気を教えて"),
            ("отправь письмо начальнику", "какая завтра погода"),
        ] {
            assert!(
                similarity(email, tools[0]) > similarity(email, tools[1]) + 0.1,
                "{email}"
            );
            assert!(
                similarity(weather, tools[1]) > similarity(weather, tools[0]) + 0.1,
                "{weather}"
            );
        }
    }

    #[test]
    fn english_requests_use_english_pieces_only() {
        let model = StaticEmbedder::shared().expect("the model is valid");
        let uses_other_pieces = |text: &str| {
            let (_, pieces) = model.words_and_pieces(text);
            pieces
                .iter()
                .any(|piece| piece.piece as usize >= model.english_pieces)
        };
        for text in [
            "let the old sessions die",
            "an open door in a chat",
            "list de facto standards",
            "son of the man on main",
        ] {
            assert!(!uses_other_pieces(text), "{text}");
        }
        for text in [
            "die alten Sitzungen löschen",
            "borra la hora de mi cita",
            "list the 文件 here",
            "order a 🍕",
        ] {
            assert!(uses_other_pieces(text), "{text}");
        }
    }

    #[derive(serde::Deserialize)]
    struct Reference {
        text: String,
        pieces: Vec<String>,
        /// The first components of the vector as a request.
        request: Vec<f32>,
        /// The first components of the vector as a tool.
        tool: Vec<f32>,
        scope: Option<f32>,
    }

    #[test]
    fn pieces_vectors_and_scope_equal_the_training_reference() {
        let model = StaticEmbedder::shared().expect("the model is valid");
        let names: Vec<&str> = model.english.names().chain(model.others.names()).collect();
        let references: Vec<Reference> =
            serde_json::from_str(include_str!("../../crates/models/static/reference.json"))
                .expect("the model is valid");
        assert!(references.len() >= 20);
        assert!(
            references
                .iter()
                .any(|reference| reference.request != reference.tool)
        );
        for Reference {
            text,
            pieces,
            request,
            tool,
            scope,
        } in references
        {
            let (_, word_pieces) = model.words_and_pieces(&text);
            let piece_names: Vec<&str> = word_pieces
                .iter()
                .map(|piece| names[piece.piece as usize])
                .collect();
            assert_eq!(piece_names, pieces, "{text}");
            let actual_scope = model.scope(&text);
            assert_eq!(actual_scope.is_some(), scope.is_some(), "{text}");
            assert!(
                actual_scope
                    .zip(scope)
                    .is_none_or(|(actual, expected)| (actual - expected).abs() < 1e-4),
                "{text}: {actual_scope:?} {scope:?}"
            );
            for (role, expected) in [(TextRole::Query, request), (TextRole::Document, tool)] {
                let vector = model.vector(role, &text);
                assert_eq!(vector.len(), model.dimensions());
                for (a, b) in vector.iter().zip(&expected) {
                    assert!((a - b).abs() < 1e-5, "{text}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn hostile_texts_have_unit_or_zero_vectors() {
        let model = StaticEmbedder::shared().expect("the model is valid");
        for text in [
            "",
            "\u{0}\u{fffd}",
            "🚀🚀",
            &"x".repeat(100_000),
            "a\u{301}\u{301}",
            "混合 text 查询",
        ] {
            let length = model
                .vector(TextRole::Document, text)
                .iter()
                .map(|value| value * value)
                .sum::<f32>()
                .sqrt();
            assert!(
                length == 0.0 || (length - 1.0).abs() < 1e-4,
                "{text:.20}: {length}"
            );
        }
    }

    #[test]
    fn model_file_gives_the_vectors_of_the_built_in_model() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/models/static/model.bin");
        let (shared, file) = (
            StaticEmbedder::shared().expect("the model is valid"),
            StaticEmbedder::from_file(path),
        );
        let file = file.expect("the model is valid");
        assert_eq!(file.identity(), shared.identity());
        for role in [TextRole::Query, TextRole::Document] {
            assert_eq!(
                file.vector(role, "send a message"),
                shared.vector(role, "send a message")
            );
        }
        let error = StaticEmbedder::from_file("no/such.bin").expect_err("the file does not exist");
        assert!(error.to_string().contains("no/such.bin"), "{error}");
    }
}
