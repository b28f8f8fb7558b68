//! The search for subqueries: the quick retrievers score each clause of a request like a request of
//! its own.
//!
//! By the whole request alone, the subquery with the strongest words would take all places. Next to
//! it, the tool for another subquery would not even be a candidate.

use ndarray::{Array2, Axis, concatenate, s};

use super::super::embeddings::{Embeddings, guarded};
use super::super::report::Report;
use super::super::request::ResolvedRequest;
use super::embedded::EmbeddedTexts;
use crate::deadline::Deadline;
use crate::fuse::{Retriever, Signals};
use crate::index::{Cosines, Vectors};
use crate::retrieve::{self, AnalyzedTexts, ExampleSimilarities, FoundTerm, Signal};
use crate::select::static_vectors;
use crate::selection::Stage;

/// The weight of the whole request in the ranking of a subquery: "send it to her" alone does not
/// tell what to send.
const REQUEST_SHARE: f32 = 0.4;

/// A subquery with the results of the quick retrievers.
pub(in super::super) struct SubqueryRetrieval<'q> {
    pub(in super::super) text: &'q str,
    /// The terms of the subquery that the index contains.
    pub(in super::super) terms: Vec<FoundTerm<'q>>,
    pub(in super::super) signals: Signals,
}

/// The subqueries of a request with their retrieval results so far.
#[derive(Default)]
pub(super) struct SubquerySearch<'q> {
    subqueries: Vec<SubqueryWords<'q>>,
    vectors: Option<SubqueryVectors>,
}

/// A subquery with the results of the keyword retriever.
pub(super) struct SubqueryWords<'q> {
    pub(super) text: &'q str,
    pub(super) terms: Vec<FoundTerm<'q>>,
    pub(super) keyword: Option<Signal>,
}

/// The subqueries in the vector space of the static model.
struct SubqueryVectors {
    /// One row per subquery; zeros if the model knows none of its words.
    vectors: Array2<f32>,
    /// For each subquery, the row of the whole request that has the same vector, if there is one.
    shared_rows: Vec<Option<usize>>,
    /// The cosines of the tools with each subquery, if they were computed.
    cosines: Vec<Cosines>,
}

/// The vectors of a request, followed by those of its subqueries.
pub(super) struct SearchRows {
    pub(super) rows: Array2<f32>,
    /// The number of rows of the request.
    pub(super) request_rows: usize,
    /// The row of each subquery; some are rows of the request.
    pub(super) subquery_rows: Vec<usize>,
}

impl SearchRows {
    /// Divides the cosines of all rows into those of the request and those of each subquery.
    pub(super) fn divide(&self, mut cosines: Cosines) -> (Cosines, Vec<Cosines>) {
        let mut by_subquery = Vec::with_capacity(self.subquery_rows.len());
        for &row in &self.subquery_rows {
            by_subquery.push(cosines.for_vector(row));
        }
        cosines.truncate(self.request_rows);
        (cosines, by_subquery)
    }
}

impl<'q> SubquerySearch<'q> {
    /// Embeds the subqueries and scores all tools by their words. If they cannot be embedded, the
    /// request is not divided.
    pub(super) fn new(
        (request, embedded): (&ResolvedRequest<'q>, &EmbeddedTexts<'q>),
        analysed: &mut AnalyzedTexts<'q>,
        embeddings: &mut Embeddings,
        report: &mut Report,
    ) -> Self {
        if request.subqueries.is_empty() {
            return Self::default();
        }
        let mut vectors = None;
        if request.mode.uses_semantic()
            && let Some(model) = static_vectors(request.index)
        {
            match SubqueryVectors::new(model, (request, embedded), embeddings) {
                Ok(subquery_vectors) => vectors = Some(subquery_vectors),
                Err(reason) => {
                    report.degraded(
                        Stage::Select,
                        format!("{reason}; the request is not split into subqueries"),
                    );
                    return Self::default();
                }
            }
        }
        let mut subqueries = Vec::with_capacity(request.subqueries.len());
        for &text in &request.subqueries {
            let (mut terms, mut keyword) = (Vec::new(), None);
            if request.mode.uses_keyword() {
                let query_terms = analysed.terms(&[text]);
                let (found_terms, signal) =
                    retrieve::keyword(request.index, query_terms, 1, request.examples);
                (terms, keyword) = (found_terms, Some(signal));
            }
            subqueries.push(SubqueryWords {
                text,
                terms,
                keyword,
            });
        }
        Self {
            subqueries,
            vectors,
        }
    }

    /// Returns the subqueries with the results of the keyword retriever.
    pub(super) fn into_words(self) -> Vec<SubqueryWords<'q>> {
        self.subqueries
    }

    /// Returns the rows of the request and those of the subqueries, for one scan of the vectors of
    /// the static model. Returns `None` without vectors of subqueries.
    pub(super) fn rows(&self, request_rows: &Array2<f32>) -> Option<SearchRows> {
        let SubqueryVectors {
            vectors,
            shared_rows,
            ..
        } = self.vectors.as_ref()?;
        let new: Vec<usize> = (0..vectors.nrows())
            .filter(|&subquery| shared_rows[subquery].is_none())
            .collect();
        let rows = concatenate![Axis(0), request_rows.view(), vectors.select(Axis(0), &new)];
        let row = |subquery: usize| match new.iter().position(|&new| new == subquery) {
            Some(position) => request_rows.nrows() + position,
            None => shared_rows[subquery].unwrap_or_default(),
        };
        Some(SearchRows {
            rows,
            request_rows: request_rows.nrows(),
            subquery_rows: (0..vectors.nrows()).map(row).collect(),
        })
    }

    /// Searches the vectors of the whole request and of the subqueries in one scan. Returns the
    /// cosines of the whole request.
    pub(super) fn search(&mut self, request_rows: &Array2<f32>, model: &Vectors) -> Cosines {
        let Some(rows) = self.rows(request_rows) else {
            return model.cosines(request_rows.view());
        };
        let (cosines, by_subquery) = rows.divide(model.cosines(rows.rows.view()));
        if let Some(vectors) = &mut self.vectors {
            vectors.cosines = by_subquery;
        }
        cosines
    }

    /// Adds the signals of the static model, and mixes in those of the whole request.
    pub(super) fn finish(
        self,
        request: &ResolvedRequest<'q>,
        request_signals: &Signals,
    ) -> Vec<SubqueryRetrieval<'q>> {
        let mut static_model = None;
        if let (Some(model), Some(subqueries)) = (static_vectors(request.index), self.vectors) {
            let mut example_cosines = None;
            if let Some(examples) = request.examples {
                example_cosines = examples.cosines(model, subqueries.vectors.view());
            }
            static_model = Some((model, subqueries, example_cosines));
        }
        let mut finished = Vec::with_capacity(self.subqueries.len());
        for (position, subquery) in self.subqueries.into_iter().enumerate() {
            let mut semantic = None;
            if let Some((model, vectors, example_cosines)) = &mut static_model {
                let example_cosines = example_cosines
                    .as_mut()
                    .map(|cosines| std::mem::take(&mut cosines[position]));
                let signal = vectors.signal(request, model, position, example_cosines);
                semantic = Some(signal);
            }
            finished.push(SubqueryRetrieval {
                text: subquery.text,
                terms: subquery.terms,
                signals: mix(subquery.keyword, semantic, request_signals),
            });
        }
        finished
    }
}

/// Returns the signals of a subquery, with those of the whole request mixed in.
pub(super) fn mix(
    keyword: Option<Signal>,
    semantic: Option<Signal>,
    request_signals: &Signals,
) -> Signals {
    let mut signals = Signals::new();
    for (retriever, signal) in [(Retriever::Keyword, keyword), (Retriever::Static, semantic)] {
        if let Some(signal) = signal {
            let mut of_request = request_signals.iter();
            let of_request = of_request.find(|(other, _)| *other == retriever);
            let signal = in_request(signal, of_request.map(|(_, signal)| signal));
            signals.push((retriever, signal));
        }
    }
    signals
}

/// Mixes the signal of the whole request into that of a subquery, if both score the same tools.
fn in_request(subquery: Signal, request: Option<&Signal>) -> Signal {
    match request {
        Some(request) if request.scores.len() == subquery.scores.len() => {
            let mixed = Signal::mixed(Some(subquery), request.clone(), REQUEST_SHARE);
            Signal {
                context: None,
                ..mixed
            }
        }
        _ => subquery,
    }
}

impl SubqueryVectors {
    /// Embeds the subqueries, except those that are embedded as sentences of the whole request.
    fn new(
        model: &Vectors,
        (request, texts): (&ResolvedRequest<'_>, &EmbeddedTexts<'_>),
        embeddings: &mut Embeddings,
    ) -> Result<Self, String> {
        let (embedder, deadline) = (model.embedder(), request.deadline);
        let embedded = embeddings
            .get_or_embed(embedder, &texts.query, deadline)
            .as_ref()
            .map_err(String::clone)?;
        // Its first row is the whole text; the others are its sentences, if there are several.
        let request_rows = embedded.request.as_ref().filter(|rows| rows.nrows() > 1);
        let sentences: Vec<&str> = request
            .query
            .sentences()
            .into_iter()
            .map(str::trim)
            .collect();
        let subqueries = &request.subqueries;
        let mut shared_rows = Vec::with_capacity(subqueries.len());
        let mut new_texts = Vec::new();
        for text in subqueries {
            let sentence = sentences.iter().position(|sentence| sentence == text);
            match sentence {
                Some(position) if request_rows.is_some() => shared_rows.push(Some(1 + position)),
                _ => {
                    shared_rows.push(None);
                    new_texts.push(texts.rewording.apply(text));
                }
            }
        }
        let new_vectors = if new_texts.is_empty() {
            Array2::default((0, 0))
        } else {
            let new_texts: Vec<&str> = new_texts.iter().map(AsRef::as_ref).collect();
            embed(model, &new_texts, deadline)?
        };
        let mut new_rows = new_vectors.rows().into_iter();
        let mut rows = Vec::with_capacity(subqueries.len());
        for shared_row in &shared_rows {
            match (shared_row, request_rows) {
                (Some(row), Some(request_rows)) => rows.push(request_rows.row(*row)),
                _ => rows.extend(new_rows.next()),
            }
        }
        let vectors = ndarray::stack(Axis(0), &rows).map_err(|error| error.to_string())?;
        Ok(Self {
            vectors,
            shared_rows,
            cosines: Vec::new(),
        })
    }

    /// Returns the signal of the static model for the subquery at `position`.
    fn signal(
        &self,
        request: &ResolvedRequest<'_>,
        model: &Vectors,
        position: usize,
        example_cosines: Option<Vec<f32>>,
    ) -> Signal {
        let vector = self.vectors.slice(s![position..=position, ..]);
        let cosines = match self.cosines.get(position) {
            Some(cosines) => cosines.clone(),
            None => model.cosines(vector),
        };
        let mut similarities = None;
        if let (Some(examples), Some(example_cosines)) = (request.examples, example_cosines) {
            let example_similarities =
                ExampleSimilarities::new(examples, model, &cosines.tools, vec![example_cosines]);
            similarities = Some((examples, example_similarities));
        }
        let signal = Signal::cosines(cosines, request.index, model, vector);
        match similarities {
            Some((examples, similarities)) => {
                signal.with_example_similarities(examples, similarities)
            }
            None => signal,
        }
    }
}

/// Embeds subqueries, one per row; a row is zeros if the model knows none of the words.
fn embed(model: &Vectors, texts: &[&str], deadline: Deadline) -> Result<Array2<f32>, String> {
    let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
    guarded(model.embedder(), deadline, move |embedder| {
        Vectors::embed_queries(
            embedder,
            &texts.iter().map(String::as_str).collect::<Vec<_>>(),
            deadline,
        )
    })
}
