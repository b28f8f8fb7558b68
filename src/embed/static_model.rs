//! The static model: a table of token vectors inside the program.
//!
//! A text is cut into word pieces, the pieces' vectors are added up, and the sum is scaled to unit
//! length. That costs microseconds and needs no library and no download. People ask in other words
//! than tools are written in, so frequent pieces have two vectors, one for requests and one for
//! tools. `crates/models/static/README.md` tells how the table was made, from what, and what it can
//! and cannot do.
//!
//! Other languages have pieces of their own, laid into the same space, so that a request in one
//! finds a tool that is written in another. Which vocabulary cuts a text is decided by its words:
//! `die` and `la` are other words in English. Words in other scripts need no decision.

use std::borrow::Cow;
use std::fs;
use std::ops::Range;
use std::path::Path;
#[cfg(feature = "static-model")]
use std::sync::{Arc, LazyLock};

use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;
use unicode_script::{Script, UnicodeScript};

use super::static_file::{DAMAGED, Lean, Parts};
use super::word_pieces::{Ideographs, WordPieces, each_word};
use super::{EmbedProgress, Embedder, ModelKind, Role, WordVectors};
use crate::embed::EmbedError;

/// Read on first use; a damaged file is a build error that the tests find.
#[cfg(feature = "static-model")]
static SHARED: LazyLock<Result<Arc<StaticEmbedder>, String>> =
    LazyLock::new(|| StaticEmbedder::read(picktools_models::STATIC_MODEL).map(Arc::new));

/// Up to this many texts are embedded on the thread that asks.
const FEW_TEXTS: usize = 32;

/// A static model: the one inside the program, or another from a file.
pub struct StaticEmbedder {
    identity: String,
    dimensions: usize,
    /// Pieces of English, numbered from 0.
    english: WordPieces,
    english_pieces: usize,
    /// Pieces of other languages, which are numbered behind them.
    others: WordPieces,
    /// So many English pieces, the first, have a second row, for tools; these come after those of
    /// all English pieces.
    second: usize,
    /// What each piece says of a text's language.
    leans: Vec<Lean>,
    scales: Vec<f32>,
    /// Shape: rows × dimensions.
    rows: Cow<'static, [u8]>,
    /// What each English piece adds to the evidence that tools serve a request, and what there is
    /// without any.
    scope: (Vec<f32>, f32),
}

/// A word of a text, as it is looked up.
struct Word {
    text: Range<usize>,
    /// Where it stands in the text as it was given, in bytes.
    place: Range<usize>,
    /// The English piece that it is.
    english: Option<u32>,
    /// It is not in Latin letters.
    is_elsewhere: bool,
}

impl StaticEmbedder {
    /// Returns the model inside the program, which is read once a process.
    ///
    /// # Errors
    ///
    /// [`EmbedError::Load`] when the program was built with a damaged model file.
    #[cfg(feature = "static-model")]
    pub fn shared() -> Result<Arc<Self>, EmbedError> {
        SHARED.clone().map_err(|reason| EmbedError::Load {
            name: "static".to_owned(),
            reason,
        })
    }

    /// Returns the size in bytes of the file of the built-in model.
    #[cfg(feature = "static-model")]
    pub fn built_in_size() -> u64 {
        picktools_models::STATIC_MODEL.len() as u64
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
            Self::new(
                &parts,
                |pieces| Cow::Owned(pieces.to_owned()),
                Cow::Owned(parts.rows.to_vec()),
            )
        };
        read().map_err(|reason: String| EmbedError::Load {
            name: path.display().to_string(),
            reason,
        })
    }

    #[cfg(feature = "static-model")]
    fn read(bytes: &'static [u8]) -> Result<Self, String> {
        let parts = Parts::of_program(bytes)?;
        Self::new(&parts, Cow::Borrowed, Cow::Borrowed(parts.rows))
    }

    fn new<'a>(
        parts: &Parts<'a>,
        text: impl Fn(&'a str) -> Cow<'static, str>,
        rows: Cow<'static, [u8]>,
    ) -> Result<Self, String> {
        let ([english, others], scope) = (parts.pieces, &parts.scope);
        let pieces = |pieces: &'a str, first, count| {
            WordPieces::new(text(pieces), first)
                .filter(|found| found.len() == count)
                .ok_or(DAMAGED)
        };
        let hex: String = parts
            .digest
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Ok(Self {
            identity: format!("static:{hex}"),
            dimensions: parts.dimensions,
            english: pieces(english, 0, parts.english)?,
            english_pieces: parts.english,
            others: pieces(others, parts.english, parts.leans.len() - parts.english)?,
            second: parts.second,
            leans: parts.leans.clone(),
            scales: parts.scales.clone(),
            rows,
            scope: (
                scope
                    .weights
                    .iter()
                    .map(|weight| scope.step * f32::from(weight.cast_signed()))
                    .collect(),
                scope.intercept,
            ),
        })
    }

    /// Returns the sums of the vectors of pieces, one sum for each word, one after the other; each
    /// piece comes with the number of its word. The words are numbered from 0 and have a piece
    /// each.
    fn sums(&self, role: Role, words: usize, pieces: &[(usize, u32)]) -> Vec<f32> {
        let mut sums = Vec::with_capacity(words * self.dimensions);
        Arch::new().dispatch(Sums {
            model: self,
            role,
            pieces,
            sums: &mut sums,
        });
        sums
    }

    /// Returns where the words of a text stand that have pieces, in bytes, and each piece with the
    /// number of its word.
    ///
    /// Nothing where less than half of the letters stand in such words: what is left of a text in
    /// another script, a unit or a code, says nothing of the text.
    fn words_and_pieces(&self, text: &str) -> (Vec<Range<usize>>, Vec<(usize, u32)>) {
        let (read, found) = self.look_up(text);
        let is_other = self.is_of_another_language(&read, &found);
        let (mut words, mut pieces) = (
            Vec::with_capacity(found.len()),
            Vec::with_capacity(found.len()),
        );
        for word in found {
            let before = pieces.len();
            self.each_piece(&read[word.text.clone()], &word, is_other, |piece| {
                pieces.push((words.len(), piece))
            });
            if pieces.len() > before {
                words.push(word.place);
            }
        }
        let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).count();
        let known = || {
            words
                .iter()
                .map(|word| letters(&text[word.clone()]))
                .sum::<usize>()
        };
        if text.is_ascii() || 2 * known() >= letters(text) {
            (words, pieces)
        } else {
            Default::default()
        }
    }

    /// Returns the words of a text one after the other, as they are looked up, and what there is to
    /// say of each.
    fn look_up(&self, text: &str) -> (String, Vec<Word>) {
        let (mut read, mut words) = (
            String::with_capacity(text.len()),
            Vec::with_capacity(text.len() / 4),
        );
        each_word(text, Ideographs::Together, |word, place| {
            let start = read.len();
            read.push_str(word);
            let is_elsewhere = word
                .chars()
                .next()
                .is_some_and(|c| !c.is_ascii() && c.script() != Script::Latin);
            let english = self.english.number(word);
            words.push(Word {
                text: start..read.len(),
                place: place.clone(),
                english,
                is_elsewhere,
            });
        });
        (read, words)
    }

    /// Returns `true` if a text is rather in another language than in English.
    pub fn finds_another_language(&self, text: &str) -> bool {
        let (read, words) = self.look_up(text);
        self.is_of_another_language(&read, &words)
    }

    /// Returns `true` if more words of a text speak for another language than for English.
    fn is_of_another_language(&self, read: &str, words: &[Word]) -> bool {
        let lean = |word: &Word| {
            let text = &read[word.text.clone()];
            if word.is_elsewhere {
                return i32::from(text.starts_with(char::is_alphabetic));
            }
            let piece = word.english.or_else(|| self.others.number(text));
            match piece.map(|piece| self.leans[piece as usize]) {
                Some(Lean::Other) => 1,
                Some(Lean::English) => -1,
                Some(Lean::Neither) | None => 0,
            }
        };
        words.iter().map(lean).sum::<i32>() > 0
    }

    /// Calls `each` with the pieces of a word of a text.
    ///
    /// In a text of another language, and in another script, a word is a piece of the other
    /// languages, else one of English, else made of pieces of the former where they cover it.
    fn each_piece(&self, text: &str, word: &Word, is_other: bool, mut each: impl FnMut(u32)) {
        let looks_elsewhere = is_other || word.is_elsewhere;
        let other = looks_elsewhere.then(|| self.others.number(text)).flatten();
        if let Some(piece) = other.or(word.english) {
            each(piece);
        } else if let Some(pieces) = looks_elsewhere
            .then(|| self.others.covering(text))
            .flatten()
        {
            pieces.into_iter().for_each(each);
        } else {
            self.english.each_piece(text, each);
        }
    }

    /// Returns the row of a piece.
    #[inline(always)]
    fn row(&self, role: Role, piece: u32) -> usize {
        let (piece, english) = (piece as usize, self.english_pieces);
        match role {
            Role::Document if piece < self.second => english + piece,
            _ if piece >= english => self.second + piece,
            _ => piece,
        }
    }

    fn vector(&self, role: Role, text: &str) -> Vec<f32> {
        let (_, mut pieces) = self.words_and_pieces(text);
        if pieces.is_empty() {
            return vec![0.0; self.dimensions];
        }
        pieces.iter_mut().for_each(|(word, _)| *word = 0);
        let mut sum = self.sums(role, 1, &pieces);
        let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
        if length > 0.0 {
            sum.iter_mut().for_each(|value| *value /= length);
        }
        sum
    }
}

/// The loops of [`StaticEmbedder::sums`]: compiled once for each set of vector instructions, of
/// which the processor's is taken.
struct Sums<'a> {
    model: &'a StaticEmbedder,
    role: Role,
    pieces: &'a [(usize, u32)],
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
        for &(word, piece) in self.pieces {
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

    fn embed(
        &self,
        role: Role,
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
        let (read, words) = self.look_up(request);
        if self.is_of_another_language(&read, &words) {
            return None;
        }
        let mut pieces = Vec::with_capacity(words.len());
        for word in &words {
            self.each_piece(&read[word.text.clone()], word, false, |piece| {
                pieces.push(piece as usize)
            });
        }
        pieces.retain(|&piece| piece < self.english_pieces);
        pieces.sort_unstable();
        pieces.dedup();
        let (weights, intercept) = &self.scope;
        let sum: f32 = pieces.iter().map(|&piece| weights[piece]).sum();
        (!pieces.is_empty()).then(|| intercept + sum / (pieces.len() as f32).sqrt())
    }

    fn word_vectors(&self, role: Role, text: &str) -> Option<WordVectors> {
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
        fn the_vectors_of_the_words_add_up_to_the_vector_of_the_text(
            text in "([a-zA-Z_,.é查]{1,9} ?|\\PC){0,20}",
            role in prop_oneof![Just(Role::Query), Just(Role::Document)],
        ) {
            let model = StaticEmbedder::shared().expect("the model is valid");
            let found = model.word_vectors(role, &text).expect("it can tell");
            prop_assert_eq!(found.vectors.len(), found.words.len() * model.dimensions());
            prop_assert!(found.words.iter().all(|word| text.get(word.clone()).is_some_and(|word| !word.is_empty())));
            let mut sum = vec![0.0; model.dimensions()];
            for (at, value) in found.vectors.iter().enumerate() {
                sum[at % model.dimensions()] += value;
            }
            let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            for (total, own) in sum.iter().zip(model.vector(role, &text)) {
                prop_assert!((total / length - own).abs() < 1e-4, "{} {}", total / length, own);
            }
        }
    }

    #[test]
    fn what_is_left_of_a_text_in_another_script_says_nothing() {
        let model = StaticEmbedder::shared().expect("the model is valid");
        for (text, known) in [
            ("ᏙᎯᏧ ᎭᏩ? SF20391", false),
            ("я могу ᏙᎯᏧ ᎣᏏᏲ ᎣᏍᏓ ᏍᎩ ABC", false),
            ("你好 world", true),
            ("la représentation à l'opéra", true),
            ("✓ 90017 → 42", true),
        ] {
            assert_eq!(
                model
                    .vector(Role::Query, text)
                    .iter()
                    .any(|&value| value != 0.0),
                known,
                "{text}"
            );
            assert_eq!(
                model
                    .word_vectors(Role::Query, text)
                    .is_some_and(|found| !found.words.is_empty()),
                known,
                "{text}"
            );
        }
    }

    #[test]
    fn pieces_of_one_word_are_one_word() {
        let text = "reschedule unboxings, twice";
        let found = StaticEmbedder::shared()
            .expect("it is valid")
            .word_vectors(Role::Document, text);
        let words: Vec<&str> = found
            .expect("it can tell")
            .words
            .into_iter()
            .map(|word| &text[word])
            .collect();
        assert_eq!(words, ["reschedule", "unboxings", ",", "twice"]);
    }

    fn similarity(request: &str, tool: &str) -> f32 {
        let model = StaticEmbedder::shared().expect("it is valid");
        let (request, tool) = (
            model.vector(Role::Query, request),
            model.vector(Role::Document, tool),
        );
        request.iter().zip(&tool).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn a_request_in_another_language_is_near_what_it_asks_for() {
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
    fn an_english_request_is_read_by_the_english_pieces() {
        let model = StaticEmbedder::shared().expect("it is valid");
        let others = |text: &str| {
            model
                .words_and_pieces(text)
                .1
                .iter()
                .any(|&(_, piece)| piece as usize >= model.english_pieces)
        };
        for text in [
            "let the old sessions die",
            "an open door in a chat",
            "list de facto standards",
            "son of the man on main",
        ] {
            assert!(!others(text), "{text}");
        }
        for text in [
            "die alten Sitzungen löschen",
            "borra la hora de mi cita",
            "list the 文件 here",
            "order a 🍕",
        ] {
            assert!(others(text), "{text}");
        }
    }

    #[derive(serde::Deserialize)]
    struct Reference {
        text: String,
        pieces: Vec<String>,
        /// The first components of its vector as a request.
        request: Vec<f32>,
        /// The same as a tool.
        tool: Vec<f32>,
        scope: Option<f32>,
    }

    #[test]
    fn pieces_vectors_and_scope_are_those_of_the_training() {
        let model = StaticEmbedder::shared().expect("the model is valid");
        let names: Vec<&str> = model.english.names().chain(model.others.names()).collect();
        let references: Vec<Reference> =
            serde_json::from_str(include_str!("../../crates/models/static/reference.json"))
                .expect("it is valid");
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
            let (_, found) = model.words_and_pieces(&text);
            let found: Vec<&str> = found
                .iter()
                .map(|&(_, piece)| names[piece as usize])
                .collect();
            assert_eq!(found, pieces, "{text}");
            let own = model.scope(&text);
            assert_eq!(own.is_some(), scope.is_some(), "{text}");
            assert!(
                own.zip(scope)
                    .is_none_or(|(own, scope)| (own - scope).abs() < 1e-4),
                "{text}: {own:?} {scope:?}"
            );
            for (role, vector) in [(Role::Query, request), (Role::Document, tool)] {
                let own = model.vector(role, &text);
                assert_eq!(own.len(), model.dimensions());
                for (a, b) in own.iter().zip(&vector) {
                    assert!((a - b).abs() < 1e-5, "{text}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn hostile_text_has_a_vector_of_unit_length_or_none() {
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
                .vector(Role::Document, text)
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
    fn a_file_gives_the_vectors_of_the_program() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/models/static/model.bin");
        let (shared, file) = (
            StaticEmbedder::shared().expect("it is valid"),
            StaticEmbedder::from_file(path),
        );
        let file = file.expect("it is valid");
        assert_eq!(file.identity(), shared.identity());
        for role in [Role::Query, Role::Document] {
            assert_eq!(
                file.vector(role, "send a message"),
                shared.vector(role, "send a message")
            );
        }
        let error = StaticEmbedder::from_file("no/such.bin").expect_err("there is none");
        assert!(error.to_string().contains("no/such.bin"), "{error}");
    }
}
