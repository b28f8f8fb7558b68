//! Which words of a request are near which words of a tool.
//!
//! A model that adds up vectors of words makes of a request the vector `Σ w / |Σ w|`. Its cosine
//! with a tool's unit vector is the sum of one contribution per word, `w · tool / |Σ w|`, and the
//! tool's vector is such a sum in turn. So the weightiest words of the request are looked for
//! first, and only these are held against the words of the tool.

use std::ops::Range;

use foldhash::{HashMap, HashMapExt};
use ndarray::{Array1, Array2, ArrayView1, Axis, s};

use crate::catalog::Tool;
use crate::embed::{Embedder, Role};
use crate::function_words::{Listed, function_words, is_stop_word, lower_case};
use crate::index::{Rows, TellingWord, ToolWords, Vectors, products};
use crate::ranking::{ToolId, largest};
use crate::selection::WordEvidence;
use crate::text::EmbeddingText;

/// The most words that the evidence holds.
const MAX_WORDS: usize = 4;
/// What adds less to the similarity is not a reason.
const LEAST_CONTRIBUTION: f32 = 0.02;

/// The distinct words of a request that may be reasons, with their vectors.
pub(super) struct RequestWords<'a> {
    words: Vec<&'a str>,
    /// Shape: words × dimensions; a row is the sum over the places where the word stands.
    vectors: Array2<f32>,
    /// The same, as the words of tools are kept.
    rows: Rows,
    /// The lengths of these.
    lengths: Vec<f32>,
    /// Length of the sum of the vectors of all words of the request.
    length: f32,
}

impl<'a> RequestWords<'a> {
    /// Asks the model for the words of `text`; `None` where it cannot tell.
    pub(super) fn new(embedder: &dyn Embedder, text: &'a str) -> Option<Self> {
        let (found, mut vectors) = word_vectors(embedder, Role::Query, text)?;
        let length = length(vectors.sum_axis(Axis(0)).view());
        let listed: Vec<_> = found
            .iter()
            .map(|word| (Listed::of(&text[word.clone()]), true))
            .collect();
        let function_words = function_words(&listed);
        let mut words: Vec<&str> = Vec::with_capacity(found.len());
        let mut places = HashMap::with_capacity(found.len());
        for (row, word) in found.into_iter().map(|word| &text[word]).enumerate() {
            if function_words[row] || !has_letters(word) {
                continue;
            }
            let place = *places.entry(lower_case(word)).or_insert(words.len());
            let is_new = place == words.len();
            if is_new {
                words.push(word);
            }
            if place < row {
                let (mut to, own) = vectors.multi_slice_mut((s![place, ..], s![row, ..]));
                if is_new { to.assign(&own) } else { to += &own }
            }
        }
        vectors.slice_axis_inplace(Axis(0), (..words.len()).into());
        let lengths = vectors.rows().into_iter().map(self::length).collect();
        Some(Self {
            words,
            rows: Rows::of(vectors.view()),
            vectors,
            lengths,
            length,
        })
    }

    /// Returns what each word adds to the cosine similarity to a tool's unit vector.
    fn contributions(&self, tool: ArrayView1<'_, f32>) -> Array1<f32> {
        products(self.vectors.view(), tool.insert_axis(Axis(0)))
            .column(0)
            .mapv(|product| product / self.length)
    }

    /// Returns the words that bring a tool nearest, the weightiest first, each with the word that
    /// it meets best.
    pub(super) fn evidence(&self, vectors: &Vectors, tool: &Tool, id: ToolId) -> Vec<WordEvidence> {
        let contributions = self.contributions(vectors.of(id).view());
        let mut weighty: Vec<usize> = (0..self.words.len())
            .filter(|&place| contributions[place] >= LEAST_CONTRIBUTION)
            .collect();
        weighty.sort_by(|&a, &b| contributions[b].total_cmp(&contributions[a]));
        weighty.truncate(MAX_WORDS);
        let words = vectors.words(id, || cut(vectors.embedder().as_ref(), tool));
        let asked =
            Rows::gathered(weighty.iter().map(|&place| (&self.rows, place))).unwrap_or_default();
        let products = words.vectors.products(&asked);
        let evidence = weighty
            .iter()
            .zip(products)
            .filter_map(|(&place, products)| {
                let most = largest(&products);
                // Of equal ones the first.
                let other = products
                    .iter()
                    .position(|&product| product > 0.0 && product >= most)?;
                let TellingWord {
                    text,
                    field,
                    length: met,
                } = &words.words[other];
                Some(WordEvidence {
                    word: self.words[place].to_owned(),
                    contribution: contributions[place],
                    meets: text.clone(),
                    field: *field,
                    similarity: (most / (self.lengths[place] * met)).min(1.0),
                })
            });
        evidence.collect()
    }
}

/// Cuts a tool's text into the words that may be a reason; none where the model cannot tell.
fn cut(embedder: &dyn Embedder, tool: &Tool) -> ToolWords {
    let document = EmbeddingText::new(tool);
    let Some((found, vectors)) = word_vectors(embedder, Role::Document, &document.text) else {
        return ToolWords::default();
    };
    let is_telling = |place: &usize| is_telling(&document.text[found[*place].clone()]);
    let telling: Vec<usize> = (0..found.len()).filter(is_telling).collect();
    let word = |&place: &usize| TellingWord {
        text: document.text[found[place].clone()].to_owned(),
        field: document.field_at(found[place].start),
        length: length(vectors.row(place)),
    };
    ToolWords {
        words: telling.iter().map(word).collect(),
        vectors: Rows::of_some(vectors.view(), &telling),
    }
}

/// Returns `true` if a word of a tool may be a reason: it has letters, and carries an intent.
fn is_telling(word: &str) -> bool {
    has_letters(word) && !is_stop_word(word)
}

fn has_letters(word: &str) -> bool {
    word.contains(char::is_alphabetic)
}

/// The words of `text` and their vectors, one a row. A model is foreign code: an answer that does
/// not fit the text is none.
fn word_vectors(
    embedder: &dyn Embedder,
    role: Role,
    text: &str,
) -> Option<(Vec<Range<usize>>, Array2<f32>)> {
    let found = embedder.word_vectors(role, text)?;
    let vectors =
        Array2::from_shape_vec((found.words.len(), embedder.dimensions()), found.vectors).ok()?;
    found
        .words
        .iter()
        .all(|word| text.get(word.clone()).is_some_and(|word| !word.is_empty()))
        .then_some((found.words, vectors))
}

fn length(vector: ArrayView1<'_, f32>) -> f32 {
    vector.dot(&vector).sqrt()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::catalog::Catalog;
    use crate::deadline::Deadline;
    use crate::embed::{StaticEmbedder, WordVectors};
    use crate::index::{Index, IndexConfig};
    use crate::query::Query;
    use crate::text::Field;

    fn index(tool: Tool) -> Index {
        let embedders: Vec<Arc<dyn Embedder>> =
            vec![StaticEmbedder::shared().expect("the model is valid")];
        let catalog = Catalog::from_tools([tool]).expect("the tool is valid");
        Index::build(
            catalog,
            IndexConfig {
                embedders,
                ..IndexConfig::default()
            },
        )
        .expect("it can be indexed")
    }

    fn evidence(request: &str, tool: Tool) -> Vec<WordEvidence> {
        let index = index(tool);
        let vectors = index.vectors.last().expect("there is a model");
        let words =
            RequestWords::new(vectors.embedder().as_ref(), request).expect("the model can tell");
        words.evidence(vectors, &index.catalog.tools()[0], ToolId::from_index(0))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn contributions_add_up_to_the_similarity(
            request in "((rain|the|Send|mail|send|[a-z]{1,9}|[.,!]|\\PC) ?){1,12}",
            description in "((weather|a|send|post|[a-z]{1,9}|[.,!]|\\PC) ?){0,12}",
        ) {
            let index = index(Tool::without_arguments("send_report", description));
            let vectors = index.vectors.last().expect("there is a model");
            let query = Query::new(request.as_str());
            let embedded = Vectors::embed_query(vectors.embedder().as_ref(), &query, Deadline::at(None));
            let embedded = embedded.expect("it works");
            if let Some(query) = embedded.request {
                let words = RequestWords::new(vectors.embedder().as_ref(), &request).expect("the model can tell");
                let tool = vectors.of(ToolId::from_index(0));
                let telling: Vec<String> = words.words.iter().map(|word| word.to_lowercase()).collect();
                let (all, of_all) = word_vectors(vectors.embedder().as_ref(), Role::Query, &request).expect("it can tell");
                let others = all.into_iter().zip(of_all.rows()).filter(|(word, _)| {
                    !telling.contains(&request[word.clone()].to_lowercase())
                });
                let of_others: f32 = others.map(|(_, vector)| vector.dot(&tool) / words.length).sum();
                let sum = words.contributions(tool.view()).sum() + of_others;
                let cosine = vectors.cosines(query.view()).tools[0][0];
                prop_assert!((sum - cosine).abs() < 4e-3, "{sum} {cosine}");
            }
        }
    }

    #[test]
    fn a_word_meets_the_word_of_the_tool_that_is_nearest() {
        let mut tool =
            Tool::without_arguments("getForecast", "Tells what the sky brings, and when");
        tool.title = Some("Weather report".to_owned());
        let found = evidence("Is rain, RAIN, on the way? 🚀", tool);
        let rain = &found[0];
        assert_eq!(
            (rain.word.as_str(), rain.meets.as_str(), rain.field),
            ("rain", "Weather", Field::Title),
            "{found:?}"
        );
        assert!(
            rain.similarity > 0.3 && rain.similarity < 1.0 && rain.contribution > 0.1,
            "{rain:?}"
        );
        assert!(
            found.iter().all(|near| [&near.word, &near.meets]
                .iter()
                .all(|word| is_telling(word))),
            "{found:?}"
        );
        assert_eq!(
            found
                .iter()
                .filter(|near| near.word.eq_ignore_ascii_case("rain"))
                .count(),
            1,
            "{found:?}"
        );
    }

    #[test]
    fn the_same_word_is_very_similar_and_the_weightiest_come_first() {
        let found = evidence(
            "send an invoice to accounting by mail",
            Tool::without_arguments("sendMail", "Sends mail, Mail and mail"),
        );
        let mail = found
            .iter()
            .find(|near| near.word == "mail")
            .expect("it is a reason");
        assert_eq!(
            (mail.meets.as_str(), mail.field),
            ("Mail", Field::Name),
            "the first of equal words: {found:?}"
        );
        assert!(
            mail.similarity > 0.8,
            "a request's word and a tool's have vectors of their own: {mail:?}"
        );
        assert!(
            found.is_sorted_by(|a, b| a.contribution >= b.contribution) && found.len() <= MAX_WORDS,
            "{found:?}"
        );
    }

    #[test]
    fn words_that_were_cut_before_tell_the_same() {
        let index = index(Tool::without_arguments(
            "sendMail",
            "Sends mail and letters, whoever they are for",
        ));
        let vectors = index.vectors.last().expect("there is a model");
        let tool = &index.catalog.tools()[0];
        let ask = |request: &str| {
            let words = RequestWords::new(vectors.embedder().as_ref(), request)
                .expect("the model can tell");
            format!("{:?}", words.evidence(vectors, tool, ToolId::from_index(0)))
        };
        let requests = ["post a letter to the tax office", "send an invoice by mail"];
        let first = requests.map(ask);
        assert!(
            first.iter().all(|found| found.contains("meets")) && first[0] != first[1],
            "{first:?}"
        );
        assert_eq!(requests.map(ask), first);
    }

    #[test]
    fn what_carries_no_intent_is_no_reason() {
        let found = evidence(
            "the 2 of it, or what is this?",
            Tool::without_arguments("what_is_this", "The 2 of it: this or that"),
        );
        assert!(found.is_empty(), "{found:?}");
    }

    /// A model whose words do not fit its texts.
    struct Misfit(WordVectors);

    impl Embedder for Misfit {
        fn identity(&self) -> &str {
            "misfit"
        }

        fn dimensions(&self) -> usize {
            2
        }

        fn embed(
            &self,
            _: Role,
            texts: &[&str],
            _: &(dyn Fn(usize) + Sync),
        ) -> Result<Vec<Vec<f32>>, crate::embed::EmbedError> {
            Ok(vec![vec![1.0, 0.0]; texts.len()])
        }

        fn word_vectors(&self, _: Role, _: &str) -> Option<WordVectors> {
            Some(self.0.clone())
        }
    }

    #[test]
    fn words_that_do_not_fit_the_text_are_none() {
        let check = |words: &[Range<usize>], vectors: &[f32]| {
            let misfit = Misfit(WordVectors {
                words: words.to_vec(),
                vectors: vectors.to_vec(),
            });
            RequestWords::new(&misfit, "é mail").is_some()
        };
        assert!(check(&[0..2, 3..7], &[1.0, 0.0, 0.0, 1.0]));
        assert!(
            !check(&[0..2, 3..7], &[1.0, 0.0, 0.0]),
            "a value is missing"
        );
        assert!(
            !check(&[0..1, 3..7], &[1.0, 0.0, 0.0, 1.0]),
            "it ends within a letter"
        );
        assert!(
            !check(&[0..2, 3..8], &[1.0, 0.0, 0.0, 1.0]),
            "it ends behind the text"
        );
        assert!(!check(&[0..2, 3..3], &[1.0, 0.0, 0.0, 1.0]), "it is empty");
    }
}
