//! The most similar words of a request and a tool.
//!
//! A model that sums word vectors turns a request into the vector `Σ w / |Σ w|`. Its cosine with a
//! tool's unit vector is the sum of one contribution per word, `w · tool / |Σ w|`. The tool's
//! vector is a sum of the same kind. So the weightiest words of the request are found first, and
//! only these are compared with the words of the tool.

use std::ops::Range;

use foldhash::{HashMap, HashMapExt};
use ndarray::{Array1, Array2, ArrayView1, Axis, s};

use crate::catalog::Tool;
use crate::embed::{Embedder, TextRole, WordVectors};
use crate::function_words::{FunctionWordEntry, function_words, is_stop_word, lower_case};
use crate::index::{ReasonWord, Rows, ToolWords, Vectors, products};
use crate::ranking::{ToolId, largest};
use crate::selection::WordEvidence;
use crate::text::EmbeddingText;

/// The largest number of words in the evidence.
const MAX_WORDS: usize = 4;
/// The lowest contribution to the similarity that counts as evidence.
const LEAST_CONTRIBUTION: f32 = 0.02;

/// The distinct words of a request that may be evidence, with their vectors.
pub(super) struct RequestWords<'a> {
    words: Vec<&'a str>,
    /// One row per word; shape: words × dimensions. A row is the sum over all occurrences of the
    /// word.
    vectors: Array2<f32>,
    /// The same vectors in the format of the tools' words.
    rows: Rows,
    /// The lengths of the rows.
    lengths: Vec<f32>,
    /// The length of the sum of the vectors of all words of the request.
    length: f32,
}

impl<'a> RequestWords<'a> {
    /// Gets the word vectors of `text`; `None` if the model has none.
    pub(super) fn new(embedder: &dyn Embedder, text: &'a str) -> Option<Self> {
        let (word_ranges, mut vectors) = word_vectors(embedder, TextRole::Query, text)?;
        let length = length(vectors.sum_axis(Axis(0)).view());
        let mut entries = Vec::with_capacity(word_ranges.len());
        for word in &word_ranges {
            entries.push((FunctionWordEntry::look_up(&text[word.clone()]), true));
        }
        let function_words = function_words(&entries);
        let mut words: Vec<&str> = Vec::with_capacity(word_ranges.len());
        let mut positions = HashMap::with_capacity(word_ranges.len());
        for (row, word) in word_ranges.into_iter().enumerate() {
            let word = &text[word];
            if function_words[row] || !has_letters(word) {
                continue;
            }
            let position = *positions.entry(lower_case(word)).or_insert(words.len());
            let is_new = position == words.len();
            if is_new {
                words.push(word);
            }
            if position < row {
                let (mut sum, vector) = vectors.multi_slice_mut((s![position, ..], s![row, ..]));
                if is_new {
                    sum.assign(&vector);
                } else {
                    sum += &vector;
                }
            }
        }
        vectors.slice_axis_inplace(Axis(0), (..words.len()).into());
        let lengths = vectors.rows().into_iter().map(self::length).collect();
        Some(Self {
            words,
            rows: Rows::from_vectors(vectors.view()),
            vectors,
            lengths,
            length,
        })
    }

    /// Returns the contribution of each word to the cosine similarity with a tool's unit vector.
    fn contributions(&self, tool: ArrayView1<'_, f32>) -> Array1<f32> {
        products(self.vectors.view(), tool.insert_axis(Axis(0)))
            .column(0)
            .mapv(|product| product / self.length)
    }

    /// Returns the words that contribute most to the similarity with a tool, the weightiest first.
    /// Each has the most similar word of the tool.
    pub(super) fn evidence(&self, vectors: &Vectors, tool: &Tool, id: ToolId) -> Vec<WordEvidence> {
        let contributions = self.contributions(vectors.vector(id).view());
        let mut weighty: Vec<usize> = (0..self.words.len())
            .filter(|&position| contributions[position] >= LEAST_CONTRIBUTION)
            .collect();
        weighty.sort_by(|&a, &b| contributions[b].total_cmp(&contributions[a]));
        weighty.truncate(MAX_WORDS);
        let words = vectors.words(id, || split_tool_words(vectors.embedder().as_ref(), tool));
        let request_rows = Rows::gather(weighty.iter().map(|&position| (&self.rows, position)))
            .unwrap_or_default();
        let products = words.vectors.products(&request_rows);
        let mut evidence = Vec::with_capacity(weighty.len());
        for (position, products) in weighty.into_iter().zip(products) {
            let largest_product = largest(&products);
            // Of equal words, the first is chosen.
            let most_similar = products
                .iter()
                .position(|&product| product > 0.0 && product >= largest_product);
            let Some(most_similar) = most_similar else {
                continue;
            };
            let ReasonWord {
                text,
                field,
                length: tool_length,
            } = &words.words[most_similar];
            evidence.push(WordEvidence {
                word: self.words[position].to_owned(),
                contribution: contributions[position],
                meets: text.clone(),
                field: *field,
                similarity: (largest_product / (self.lengths[position] * tool_length)).min(1.0),
            });
        }
        evidence
    }
}

/// Splits a tool's text into the words that may be evidence; none if the model has no word vectors.
fn split_tool_words(embedder: &dyn Embedder, tool: &Tool) -> ToolWords {
    let document = EmbeddingText::new(tool);
    let Some((word_ranges, vectors)) = word_vectors(embedder, TextRole::Document, &document.text)
    else {
        return ToolWords::default();
    };
    let mut significant = Vec::new();
    for (position, range) in word_ranges.iter().enumerate() {
        if is_significant(&document.text[range.clone()]) {
            significant.push(position);
        }
    }
    let mut words = Vec::with_capacity(significant.len());
    for &position in &significant {
        let range = word_ranges[position].clone();
        words.push(ReasonWord {
            field: document.field_at(range.start),
            text: document.text[range].to_owned(),
            length: length(vectors.row(position)),
        });
    }
    ToolWords {
        words,
        vectors: Rows::from_selected(vectors.view(), &significant),
    }
}

/// Returns `true` if a word of a tool may be evidence: it has letters and is not a stop word.
fn is_significant(word: &str) -> bool {
    has_letters(word) && !is_stop_word(word)
}

fn has_letters(word: &str) -> bool {
    word.contains(char::is_alphabetic)
}

/// Returns the words of `text` and their vectors, one per row. A model is foreign code, so an
/// answer that does not fit the text is ignored.
fn word_vectors(
    embedder: &dyn Embedder,
    role: TextRole,
    text: &str,
) -> Option<(Vec<Range<usize>>, Array2<f32>)> {
    let WordVectors { words, vectors } = embedder.word_vectors(role, text)?;
    let vectors = Array2::from_shape_vec((words.len(), embedder.dimensions()), vectors).ok()?;
    words
        .iter()
        .all(|word| text.get(word.clone()).is_some_and(|word| !word.is_empty()))
        .then_some((words, vectors))
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
    use crate::embed::StaticEmbedder;
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
        let words = RequestWords::new(vectors.embedder().as_ref(), request)
            .expect("the model has word vectors");
        words.evidence(
            vectors,
            index
                .catalog
                .tool(ToolId::from_index(0))
                .expect("in memory"),
            ToolId::from_index(0),
        )
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
            let embedded = Vectors::embed_query(
                vectors.embedder().as_ref(),
                &query,
                Deadline::at(None),
            )
            .expect("it works");
            if let Some(query) = embedded.request {
                let words = RequestWords::new(vectors.embedder().as_ref(), &request)
                    .expect("the model has word vectors");
                let tool = vectors.vector(ToolId::from_index(0));
                let significant: Vec<String> =
                    words.words.iter().map(|word| word.to_lowercase()).collect();
                let embedder = vectors.embedder().as_ref();
                let (all_words, all_vectors) =
                    word_vectors(embedder, TextRole::Query, &request)
                        .expect("the model has word vectors");
                let others = all_words.into_iter().zip(all_vectors.rows()).filter(|(word, _)| {
                    !significant.contains(&request[word.clone()].to_lowercase())
                });
                let other_sum: f32 =
                    others.map(|(_, vector)| vector.dot(&tool) / words.length).sum();
                let sum = words.contributions(tool.view()).sum() + other_sum;
                let cosine = vectors.cosines(query.view()).tools[0][0];
                prop_assert!((sum - cosine).abs() < 4e-3, "{sum} {cosine}");
            }
        }
    }

    #[test]
    fn evidence_for_word_names_most_similar_tool_word() {
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
                .all(|word| is_significant(word))),
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
    fn evidence_for_same_word_is_similar_and_sorted() {
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
    fn evidence_from_cached_words_is_unchanged() {
        let index = index(Tool::without_arguments(
            "sendMail",
            "Sends mail and letters, whoever they are for",
        ));
        let vectors = index.vectors.last().expect("there is a model");
        let tool = index
            .catalog
            .tool(ToolId::from_index(0))
            .expect("in memory");
        let ask = |request: &str| {
            let words = RequestWords::new(vectors.embedder().as_ref(), request)
                .expect("the model has word vectors");
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
    fn evidence_without_content_words_is_empty() {
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
            _: TextRole,
            texts: &[&str],
            _: &(dyn Fn(usize) + Sync),
        ) -> Result<Vec<Vec<f32>>, crate::embed::EmbedError> {
            Ok(vec![vec![1.0, 0.0]; texts.len()])
        }

        fn word_vectors(&self, _: TextRole, _: &str) -> Option<WordVectors> {
            Some(self.0.clone())
        }
    }

    #[test]
    fn request_words_that_do_not_fit_the_text_are_none() {
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
