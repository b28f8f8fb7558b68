//! Subqueries: the quick retrievers rank each clause of a request like a request of its own.
//!
//! By the whole request alone, the subquery with the strongest words would take all places. Next to
//! it, the tool for another subquery would not even be a candidate.

use ndarray::{Array2, ArrayView2, Axis, concatenate, s};

use super::ranked::RequestRanking;
use super::report::Report;
use super::request::Request;
use super::signals::{Embeddings, guarded};
use crate::deadline::Deadline;
use crate::function_words::has_content_word;
use crate::fuse::{FusedValues, Fusion, Retriever, Signals};
use crate::index::{Cosines, Vectors};
use crate::options::SelectionMode;
use crate::ranking::{Ranking, ScoredTools, top_k};
use crate::reading::scope;
use crate::retrieve::{self, AnalyzedTexts, ExampleSimilarities, FoundTerm, Signal};
use crate::select::static_vectors;
use crate::selection::Stage;

/// The weight of the whole request in the ranking of a subquery: "send it to her" alone does not
/// tell what to send.
const REQUEST_SHARE: f32 = 0.4;

/// A subquery with the results of the quick retrievers.
pub(super) struct Subquery<'q> {
    pub(super) text: &'q str,
    pub(super) terms: Vec<FoundTerm<'q>>,
    pub(super) fused: FusedValues,
}

impl Subquery<'_> {
    /// Returns the best tools that reach `min_score`; none if no tool is likely to serve it.
    pub(super) fn candidates(&self, request: &Request<'_>) -> Ranking {
        let options = request.options;
        if self.fused.is_unsupported() {
            return Ranking::new();
        }
        let least = self.fused.value_at(options.min_score);
        top_k(
            self.fused.candidates(request.rankable(), least),
            options.max_candidates,
        )
    }
}

/// The subqueries of a request with their retrieval results so far.
pub(super) struct SubqueryResults<'q> {
    texts: Vec<&'q str>,
    /// The analysed texts of the subqueries, which the whole request reuses.
    pub(super) analysed: AnalyzedTexts<'q>,
    keyword: Vec<Option<(Vec<FoundTerm<'q>>, Signal)>>,
    semantic: Option<SubqueryVectors>,
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

impl<'q> SubqueryResults<'q> {
    /// Splits the request into subqueries; `None` if there is only one, or if the options do not
    /// ask for a covering set.
    pub(super) fn new(
        request: &Request<'q>,
        embeddings: &mut Embeddings,
        report: &mut Report,
    ) -> Option<Self> {
        let (index, options) = (request.index, request.options);
        if options.choice != SelectionMode::Set
            || options.max_candidates < 2
            || options.fusion != Fusion::Weighted
        {
            return None;
        }
        let mut texts = request.query.clauses();
        if texts.len() > 1 {
            texts.retain(|text| has_content_word(text));
        }
        if texts.len() < 2 {
            return None;
        }
        let mut semantic = None;
        if request.mode.uses_semantic()
            && let Some(vectors) = static_vectors(index)
        {
            match SubqueryVectors::new(vectors, &texts, request, embeddings) {
                Ok(subquery_vectors) => semantic = Some(subquery_vectors),
                Err(reason) => {
                    report.degraded(
                        Stage::Select,
                        format!("{reason}; the request is not split into subqueries"),
                    );
                    return None;
                }
            }
        }
        let mut analysed = AnalyzedTexts::default();
        let mut keyword = Vec::with_capacity(texts.len());
        for &text in &texts {
            let mut output = None;
            if request.mode.uses_keyword() {
                let terms = analysed.terms(&[text]);
                output = Some(retrieve::keyword(index, terms, 1, request.examples));
            }
            keyword.push(output);
        }
        Some(Self {
            texts,
            analysed,
            keyword,
            semantic,
        })
    }

    /// Returns the keyword signals of the subqueries.
    pub(super) fn keyword_signals(&self) -> impl Iterator<Item = &Signal> {
        self.keyword.iter().flatten().map(|(_, signal)| signal)
    }

    /// Restricts the keyword signals to some tools.
    pub(super) fn restrict(&mut self, scored: &ScoredTools) {
        for (_, signal) in self.keyword.iter_mut().flatten() {
            signal.restrict(scored);
        }
    }

    /// Searches the vectors of the whole request and of the subqueries in one scan. Returns the
    /// cosines of the whole request.
    pub(super) fn search(
        &mut self,
        request_rows: &Array2<f32>,
        cosines_of: impl Fn(ArrayView2<'_, f32>) -> Cosines,
    ) -> Cosines {
        let Some(SubqueryVectors {
            vectors,
            shared_rows,
            cosines,
        }) = &mut self.semantic
        else {
            return cosines_of(request_rows.view());
        };
        let new: Vec<usize> = (0..vectors.nrows())
            .filter(|&subquery| shared_rows[subquery].is_none())
            .collect();
        let all = concatenate![Axis(0), request_rows.view(), vectors.select(Axis(0), &new)];
        let mut all_cosines = cosines_of(all.view());
        let row = |subquery: usize| match new.iter().position(|&new| new == subquery) {
            Some(position) => request_rows.nrows() + position,
            None => shared_rows[subquery].unwrap_or_default(),
        };
        *cosines = Vec::with_capacity(vectors.nrows());
        for subquery in 0..vectors.nrows() {
            cosines.push(all_cosines.for_vector(row(subquery)));
        }
        all_cosines.truncate(request_rows.nrows());
        all_cosines
    }
}

impl SubqueryVectors {
    /// Embeds the subqueries, except those that are embedded as sentences of the whole request.
    fn new(
        vectors: &Vectors,
        texts: &[&str],
        request: &Request<'_>,
        embeddings: &mut Embeddings,
    ) -> Result<Self, String> {
        let (embedder, deadline) = (vectors.embedder(), request.deadline);
        let embedded = embeddings
            .get_or_embed(embedder, request.query, deadline)
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
        let mut shared_rows = Vec::with_capacity(texts.len());
        let mut new_texts = Vec::new();
        for text in texts {
            let sentence = sentences.iter().position(|sentence| sentence == text);
            match sentence {
                Some(position) if request_rows.is_some() => shared_rows.push(Some(1 + position)),
                _ => {
                    shared_rows.push(None);
                    new_texts.push(*text);
                }
            }
        }
        let new_vectors = if new_texts.is_empty() {
            Array2::default((0, 0))
        } else {
            embed(vectors, &new_texts, deadline)?
        };
        let mut new_rows = new_vectors.rows().into_iter();
        let mut rows = Vec::with_capacity(texts.len());
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
}

/// Ranks the tools for each subquery.
pub(super) fn rank_subqueries<'q>(
    request: &Request<'q>,
    results: Option<SubqueryResults<'q>>,
    ranked: &RequestRanking<'_>,
) -> Vec<Subquery<'q>> {
    let (
        RequestRanking::Fused { fused, .. },
        Some(SubqueryResults {
            texts,
            keyword,
            semantic,
            ..
        }),
    ) = (ranked, results)
    else {
        return Vec::new();
    };
    let mut static_model = None;
    if let (Some(vectors), Some(subquery_vectors)) = (static_vectors(request.index), semantic) {
        let mut example_cosines = None;
        if let Some(examples) = request.examples {
            example_cosines = examples.cosines(vectors, subquery_vectors.vectors.view());
        }
        static_model = Some((vectors, subquery_vectors, example_cosines));
    }
    let mut subqueries = Vec::with_capacity(texts.len());
    for (position, (text, keyword)) in texts.into_iter().zip(keyword).enumerate() {
        let mut signals = Signals::new();
        let mut terms = Vec::new();
        if let Some((found_terms, signal)) = keyword {
            signals.push((Retriever::Keyword, signal));
            terms = found_terms;
        }
        if let Some((vectors, subquery_vectors, example_cosines)) = &mut static_model {
            let example_cosines = example_cosines
                .as_mut()
                .map(|cosines| std::mem::take(&mut cosines[position]));
            let signal = static_signal(
                request,
                vectors,
                subquery_vectors,
                position,
                example_cosines,
            );
            signals.push((Retriever::Static, signal));
        }
        let signals = signals
            .into_iter()
            .map(|(retriever, signal)| (retriever, in_request(signal, fused.signal(retriever))));
        let signals: Signals = signals.collect();
        subqueries.push(Subquery {
            text,
            terms,
            fused: FusedValues::new(signals, Fusion::Weighted, request.rankable(), scope(text)),
        });
    }
    subqueries
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

/// Returns the signal of the static model for the subquery at `position`.
fn static_signal(
    request: &Request<'_>,
    vectors: &Vectors,
    subquery_vectors: &SubqueryVectors,
    position: usize,
    example_cosines: Option<Vec<f32>>,
) -> Signal {
    let vector = subquery_vectors.vectors.slice(s![position..=position, ..]);
    let cosines = match subquery_vectors.cosines.get(position) {
        Some(cosines) => cosines.clone(),
        None => vectors.cosines(vector),
    };
    let mut similarities = None;
    if let (Some(examples), Some(example_cosines)) = (request.examples, example_cosines) {
        let example_similarities =
            ExampleSimilarities::new(examples, vectors, &cosines.tools, vec![example_cosines]);
        similarities = Some((examples, example_similarities));
    }
    let signal = Signal::cosines(cosines, request.index, vectors, vector);
    match similarities {
        Some((examples, similarities)) => signal.with_example_similarities(examples, similarities),
        None => signal,
    }
}

/// Embeds subqueries, one per row; a row is zeros if the model knows none of the words.
fn embed(vectors: &Vectors, texts: &[&str], deadline: Deadline) -> Result<Array2<f32>, String> {
    let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
    guarded(vectors.embedder(), deadline, move |embedder| {
        Vectors::embed_queries(
            embedder,
            &texts.iter().map(String::as_str).collect::<Vec<_>>(),
            deadline,
        )
    })
}
