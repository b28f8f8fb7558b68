//! Retrieval: the signals of the retrievers for a request and for its subqueries.

mod conversation;
mod embedded;
mod near;
mod subqueries;

use std::collections::BTreeSet;

use ndarray::Array2;

use self::conversation::BothSignals;
use self::embedded::EmbeddedTexts;
pub(super) use self::near::NearSearch;
use self::near::{NearSignals, SubqueryTerms};
pub(super) use self::subqueries::SubqueryRetrieval;
use self::subqueries::{SearchRows, SubquerySearch};
use super::embeddings::Embeddings;
use super::report::Report;
use super::request::{CatalogIndexes, ResolvedRequest, RetrievalScope, models};
use crate::deadline::Deadline;
use crate::embed::ModelKind;
use crate::fuse::{Mode, Signals};
use crate::index::{Index, RequestVectors, Vectors};
use crate::query::Query;
use crate::ranking::{ScoredTools, ToolId};
use crate::retrieve::{AnalyzedTexts, FoundTerm};
use crate::selection::Stage;

/// The output of the retrievers for a request.
pub(super) struct Retrieval<'q> {
    /// The terms of the request that the index contains.
    pub(super) terms: Vec<FoundTerm<'q>>,
    pub(super) signals: Signals,
    /// The tools that the signals score.
    pub(super) scored: ScoredTools,
    pub(super) subqueries: Vec<SubqueryRetrieval<'q>>,
    /// The search for further tools, if some tools have no scores.
    pub(super) near: Option<NearSearch<'q>>,
}

impl Retrieval<'_> {
    /// Runs no retriever, for this reason.
    pub(super) fn skipped(
        request: &ResolvedRequest<'_>,
        reason: &'static str,
        report: &mut Report,
    ) -> Self {
        report.skipped(Stage::Keyword, reason);
        report.skipped(Stage::Semantic, reason);
        if request.examples.is_some() {
            report.skipped(Stage::Examples, reason);
        }
        Self {
            terms: Vec::new(),
            signals: Signals::new(),
            scored: ScoredTools::All(request.index.catalog.len()),
            subqueries: Vec::new(),
            near: None,
        }
    }

    /// Adds the scores of more tools of a large catalog, in which only the tools near the request
    /// have scores.
    pub(super) fn extend(self, tools: &[ToolId]) -> Self {
        let (Some(near), ScoredTools::Some(scored)) = (self.near, &self.scored) else {
            return Self { near: None, ..self };
        };
        let mut all: BTreeSet<ToolId> = scored.iter().copied().collect();
        all.extend(tools);
        // Subqueries that another model searches have scores for all tools.
        let (mut divided, mut unchanged) = (Vec::new(), Vec::new());
        for subquery in self.subqueries {
            if near.subquery_keyword.is_empty() {
                unchanged.push(subquery);
            } else {
                let SubqueryRetrieval { text, terms, .. } = subquery;
                divided.push(SubqueryTerms { text, terms });
            }
        }
        let mut signals = near.score(all, divided);
        signals.subqueries.append(&mut unchanged);
        Self {
            terms: self.terms,
            scored: scored_tools(&signals.request, near.index),
            signals: signals.request,
            subqueries: signals.subqueries,
            near: Some(near),
        }
    }
}

/// The retrievers, with the embeddings of one request.
pub(super) struct RequestRetriever<'e> {
    embeddings: &'e mut Embeddings,
}

impl<'e> RequestRetriever<'e> {
    pub(super) fn new(embeddings: &'e mut Embeddings) -> Self {
        Self { embeddings }
    }

    /// Runs the retrievers for the request and its subqueries.
    pub(super) fn retrieve<'q>(
        &mut self,
        request: &ResolvedRequest<'q>,
        report: &mut Report,
    ) -> Retrieval<'q> {
        let mut analysed = AnalyzedTexts::new(request.index, request.examples);
        let texts = EmbeddedTexts::new(request, &mut analysed);
        let subqueries =
            SubquerySearch::new((request, &texts), &mut analysed, self.embeddings, report);
        self.search((request, texts), subqueries, analysed, report)
    }

    /// Runs the retrievers for the request alone.
    pub(super) fn retrieve_undivided<'q>(
        &mut self,
        request: &ResolvedRequest<'q>,
        report: &mut Report,
    ) -> Retrieval<'q> {
        let mut analysed = AnalyzedTexts::new(request.index, request.examples);
        let texts = EmbeddedTexts::new(request, &mut analysed);
        self.search(
            (request, texts),
            SubquerySearch::default(),
            analysed,
            report,
        )
    }

    fn search<'q>(
        &mut self,
        (request, texts): (&ResolvedRequest<'q>, EmbeddedTexts<'q>),
        mut subqueries: SubquerySearch<'q>,
        mut analysed: AnalyzedTexts<'q>,
        report: &mut Report,
    ) -> Retrieval<'q> {
        let mut signals = BothSignals::default();
        let terms = search_words(request, &mut analysed, &mut signals, report);
        let near = self.search_vectors((request, &texts), &mut subqueries, &mut signals, report);
        let signals = signals.mix();
        report_examples(request, &signals, report);
        let (near, near_subqueries) = near.unzip();
        let mut finished = near_subqueries.unwrap_or_default();
        // Without signals because of a failure, there is no ranking to divide.
        if !(signals.is_empty() && report.is_degraded()) {
            finished.extend(subqueries.finish(request, &signals));
        }
        Retrieval {
            terms,
            scored: scored_tools(&signals, request.index),
            signals,
            subqueries: finished,
            near,
        }
    }

    /// Runs the semantic retrievers. For a search of near tools, returns it with the results of the
    /// subqueries.
    fn search_vectors<'q>(
        &mut self,
        (request, texts): (&ResolvedRequest<'q>, &EmbeddedTexts<'q>),
        subqueries: &mut SubquerySearch<'q>,
        signals: &mut BothSignals,
        report: &mut Report,
    ) -> Option<(NearSearch<'q>, Vec<SubqueryRetrieval<'q>>)> {
        if request.models().is_empty() {
            report.skipped(Stage::Semantic, "the mode is keyword");
            return None;
        }
        if request.query.is_blank() && request.query.conversation().is_empty() {
            report.skipped(Stage::Semantic, "the request is blank");
            return None;
        }
        let mut failure = request.index.left_out.clone();
        let mut near = None;
        for vectors in models_for_language(request.models(), request.query) {
            let embedder = vectors.embedder();
            let embedded = self
                .embeddings
                .get_or_embed(embedder, &texts.query, request.deadline);
            match embedded {
                Ok(embedded) => match request.scope {
                    RetrievalScope::AllTools => {
                        compare_all(request, subqueries, (vectors, embedded), signals);
                    }
                    RetrievalScope::NearTools => {
                        near = search_near(request, subqueries, (vectors, embedded), signals);
                    }
                },
                Err(reason) => failure = Some(reason.clone()),
            }
        }
        match failure {
            Some(reason) => report.failed(Stage::Semantic, reason),
            None if signals.lacks_models() => {
                report.skipped(Stage::Semantic, "the model knows no word of the request");
            }
            None => report.ran(Stage::Semantic),
        }
        near
    }
}

/// Runs the keyword retriever. Returns the terms of the request that the index contains.
fn search_words<'q>(
    request: &ResolvedRequest<'q>,
    analysed: &mut AnalyzedTexts<'q>,
    signals: &mut BothSignals,
    report: &mut Report,
) -> Vec<FoundTerm<'q>> {
    if !request.mode.uses_keyword() {
        report.skipped(Stage::Keyword, "the mode is semantic");
        return Vec::new();
    }
    if request.deadline.has_passed() {
        report.failed(Stage::Keyword, "the deadline passed before it began");
        return Vec::new();
    }
    let terms = signals.add_keyword(request.index, request.query, analysed, request.examples);
    match &terms {
        Some(_) => report.ran(Stage::Keyword),
        None => report.skipped(Stage::Keyword, "the request has no words"),
    }
    terms.unwrap_or_default()
}

/// Scores all tools by one model.
fn compare_all(
    request: &ResolvedRequest<'_>,
    subqueries: &mut SubquerySearch<'_>,
    (vectors, embedded): (&Vectors, &RequestVectors),
    signals: &mut BothSignals,
) {
    let is_request = |rows| {
        embedded
            .request
            .as_ref()
            .is_some_and(|request| std::ptr::eq(request, rows))
    };
    let searches_subqueries = vectors.embedder().kind() == ModelKind::Static;
    let search = |rows: &Array2<f32>| {
        if searches_subqueries && is_request(rows) {
            subqueries.search(rows, vectors)
        } else {
            vectors.cosines(rows.view())
        }
    };
    signals.add_semantic((request.index, vectors), embedded, request.examples, search);
}

/// Scores the tools that may be near the request by one model, and keeps their keyword scores only.
/// Returns `None` if the model knows no word of the request; then all tools keep their scores.
fn search_near<'q>(
    request: &ResolvedRequest<'q>,
    subqueries: &mut SubquerySearch<'q>,
    (vectors, embedded): (&'q Vectors, &RequestVectors),
    signals: &mut BothSignals,
) -> Option<(NearSearch<'q>, Vec<SubqueryRetrieval<'q>>)> {
    let rows = embedded.request.as_ref()?;
    // Another model than the static one searches the request only.
    let mut searched = SubquerySearch::default();
    if vectors.embedder().kind() == ModelKind::Static {
        searched = std::mem::take(subqueries);
    }
    let rows = searched.rows(rows).unwrap_or_else(|| SearchRows {
        rows: rows.clone(),
        request_rows: rows.nrows(),
        subquery_rows: Vec::new(),
    });
    let (mut terms, mut subquery_keyword) = (Vec::new(), Vec::new());
    for words in searched.into_words() {
        subquery_keyword.push(words.keyword);
        terms.push(SubqueryTerms {
            text: words.text,
            terms: words.terms,
        });
    }
    let search = NearSearch {
        index: request.index,
        vectors,
        scope: embedded.scope,
        rows,
        keyword: std::mem::take(&mut signals.request)
            .pop()
            .map(|(_, signal)| signal),
        subquery_keyword,
    };
    let NearSignals {
        request: near,
        subqueries: finished,
    } = search.nearest(request, terms);
    signals.request = near;
    Some((search, finished))
}

fn report_examples(request: &ResolvedRequest<'_>, signals: &Signals, report: &mut Report) {
    let Some(examples) = request.examples else {
        return;
    };
    match &examples.left_out {
        Some(reason) => report.failed(Stage::Examples, reason),
        None if signals.is_empty() => report.skipped(Stage::Examples, "no retriever ran"),
        None => report.ran(Stage::Examples),
    }
}

/// Returns the tools that the signals score; all score the same ones.
fn scored_tools(signals: &Signals, index: &Index) -> ScoredTools {
    signals
        .first()
        .map_or(ScoredTools::All(index.catalog.len()), |(_, signal)| {
            signal.scored.clone()
        })
}

/// Returns the models that support the language of the request, or the only model.
fn models_for_language<'i>(
    models: &'i [Vectors],
    query: &Query,
) -> impl Iterator<Item = &'i Vectors> {
    models
        .iter()
        .filter(|vectors| models.len() == 1 || vectors.embedder().reads(query.search_text()))
}

/// Returns the terms of a request that the index contains, and the signals of a mode's retrievers
/// without a deadline.
pub(super) fn plain_signals<'q>(
    CatalogIndexes {
        index, examples, ..
    }: CatalogIndexes<'q>,
    query: &'q Query,
    mode: Mode,
) -> Result<(Vec<FoundTerm<'q>>, Signals), String> {
    if mode.uses_semantic()
        && let Some(reason) = &index.left_out
    {
        return Err(reason.clone());
    }
    let (mut found_terms, mut signals) = (Vec::new(), BothSignals::default());
    if mode.uses_keyword() {
        let mut analysed = AnalyzedTexts::new(index, examples);
        found_terms = signals
            .add_keyword(index, query, &mut analysed, examples)
            .unwrap_or_default();
    }
    for vectors in models_for_language(models(index, mode), query) {
        let embedded = Vectors::embed_query(vectors.embedder().as_ref(), query, Deadline::at(None));
        let embedded = embedded.map_err(|error| error.to_string())?;
        let search = |rows: &Array2<f32>| vectors.cosines(rows.view());
        signals.add_semantic((index, vectors), &embedded, examples, search);
    }
    Ok((found_terms, signals.mix()))
}
