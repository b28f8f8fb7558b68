//! Retrieval: the signals of the retrievers for a request.
//!
//! If the request has context, each retriever runs twice: for the request, and for the whole
//! conversation. Half of the words of "do the same for Berlin" carry no information. But a request
//! that changes the subject must not be drowned in its context.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ndarray::{Array2, ArrayView2};

use super::parts::SubqueryResults;
use super::report::Report;
use super::request::Request;
use crate::deadline::{Deadline, DeadlineError};
use crate::embed::{EmbedError, Embedder, ModelKind};
use crate::fuse::{Mode, Retriever, Signals};
use crate::index::{Cosines, ExampleIndex, Index, RequestVectors, Vectors};
use crate::query::Query;
use crate::ranking::ToolSet;
use crate::retrieve::{self, AnalyzedTexts, FoundTerm, Signal};
use crate::selection::Stage;

/// The weight of the conversation relative to the request alone. `docs/results.md` has the
/// measurements and the alternatives that were tried.
const CONVERSATION_SHARE: f32 = 0.6;

/// The number of tools with the best keyword scores whose vectors are always compared.
const PROMISING: usize = 256;

/// A request's embeddings by one model, or the cause of their absence.
pub(crate) type Embedded = Result<RequestVectors, String>;

/// The embeddings of a request by each model. Each model embeds it once.
#[derive(Default)]
pub struct Embeddings(Vec<(Retriever, Embedded)>);

impl Embeddings {
    /// Returns the embeddings by a model. Embeds the request on the first call only, even if that
    /// fails.
    pub fn get_or_embed(
        &mut self,
        embedder: &Arc<dyn Embedder>,
        query: &Query,
        deadline: Deadline,
    ) -> &Embedded {
        let model = Retriever::from_embedder(embedder.as_ref());
        let position = self
            .0
            .iter()
            .position(|(other, _)| *other == model)
            .unwrap_or_else(|| {
                let query = query.clone();
                let embed =
                    move |embedder: &dyn Embedder| Vectors::embed_query(embedder, &query, deadline);
                self.0.push((model, guarded(embedder, deadline, embed)));
                self.0.len() - 1
            });
        &self.0[position].1
    }
}

/// The output of the retrievers for a request.
pub(super) struct RetrievalOutput<'q> {
    /// The terms of the request that the index contains.
    pub(super) terms: Vec<FoundTerm<'q>>,
    pub(super) signals: Signals,
}

/// Runs the retrievers for the request and, in the same scan of the tools' vectors, for its
/// subqueries.
pub(super) fn retrieve<'q>(
    request: &Request<'q>,
    mut subqueries: Option<&mut SubqueryResults<'q>>,
    embeddings: &mut Embeddings,
    report: &mut Report,
) -> RetrievalOutput<'q> {
    let mut found_terms = Vec::new();
    let mut signals = BothSignals::default();
    let mut no_texts = AnalyzedTexts::default();
    let analysed = match &mut subqueries {
        Some(subqueries) => &mut subqueries.analysed,
        None => &mut no_texts,
    };
    if !request.mode.uses_keyword() {
        report.skipped(Stage::Keyword, "the mode is semantic");
    } else if request.deadline.has_passed() {
        report.failed(Stage::Keyword, "the deadline passed before it began");
    } else if let Some(terms) =
        signals.add_keyword(request.index, request.query, analysed, request.examples)
    {
        found_terms = terms;
        report.ran(Stage::Keyword);
    } else {
        report.skipped(Stage::Keyword, "the request has no words");
    }
    retrieve_semantic(request, subqueries, embeddings, &mut signals, report);
    let signals = signals.mix();
    if let Some(examples) = request.examples {
        match &examples.left_out {
            Some(reason) => report.failed(Stage::Examples, reason),
            None if signals.is_empty() => report.skipped(Stage::Examples, "no retriever ran"),
            None => report.ran(Stage::Examples),
        }
    }
    RetrievalOutput {
        terms: found_terms,
        signals,
    }
}

/// Returns the terms of a request that the index contains, and the signals of a mode's retrievers
/// without a deadline.
pub(super) fn plain_signals<'q>(
    (index, examples): (&Index, Option<&ExampleIndex>),
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
        found_terms = signals
            .add_keyword(index, query, &mut AnalyzedTexts::default(), examples)
            .unwrap_or_default();
    }
    for vectors in models_for_language(index, mode, query) {
        let embedded = Vectors::embed_query(vectors.embedder().as_ref(), query, Deadline::at(None));
        let embedded = embedded.map_err(|error| error.to_string())?;
        let search = |rows: &Array2<f32>| vectors.cosines(rows.view());
        signals.add_semantic((index, vectors), &embedded, examples, search);
    }
    Ok((found_terms, signals.mix()))
}

/// The signals for the request alone and for the conversation.
#[derive(Default)]
struct BothSignals {
    request: Signals,
    conversation: Signals,
}

impl BothSignals {
    /// Runs the keyword retriever; `None` if neither text has terms.
    fn add_keyword<'q>(
        &mut self,
        index: &Index,
        query: &'q Query,
        analysed: &mut AnalyzedTexts<'q>,
        examples: Option<&ExampleIndex>,
    ) -> Option<Vec<FoundTerm<'q>>> {
        let mut add = |sentences: Vec<&'q str>, signals: &mut Signals| {
            let terms = analysed.terms(&sentences);
            if terms.is_empty() {
                return None;
            }
            let (found_terms, signal) = retrieve::keyword(index, terms, sentences.len(), examples);
            signals.push((Retriever::Keyword, signal));
            Some(found_terms)
        };
        let request_terms = add(query.sentences(), &mut self.request);
        let conversation_terms = add(query.conversation_sentences(), &mut self.conversation);
        request_terms.or(conversation_terms.map(|_| Vec::new()))
    }

    /// Adds the signal of a model; `search` returns the cosines of the tools with vectors.
    fn add_semantic(
        &mut self,
        (index, vectors): (&Index, &Vectors),
        embedded: &RequestVectors,
        examples: Option<&ExampleIndex>,
        mut search: impl FnMut(&Array2<f32>) -> Cosines,
    ) {
        let retriever = Retriever::from_embedder(vectors.embedder().as_ref());
        let mut semantic = |rows: &Array2<f32>| {
            let signal = retrieve::semantic(index, vectors, (rows.view(), search(rows)), examples);
            (
                retriever,
                Signal {
                    scope: embedded.scope,
                    ..signal
                },
            )
        };
        if let Some(rows) = &embedded.conversation {
            self.conversation.push(semantic(rows));
        }
        if let Some(rows) = &embedded.request {
            self.request.push(semantic(rows));
        }
    }

    /// Returns the tools whose vectors are always compared: those with the best keyword scores,
    /// those of sources with the best scores, and mentioned tools.
    fn promising_tools(
        &self,
        request: &Request<'_>,
        subqueries: Option<&SubqueryResults<'_>>,
    ) -> ToolSet {
        let mut tools = ToolSet::new(request.index.catalog.len());
        for mention in &request.mentions {
            tools.add(mention.tool);
        }
        for &tool in request.always.keys() {
            tools.add(tool);
        }
        let flags = request.rankable().flags();
        let mut add_best = |signal: &Signal| {
            tools.add_best(&signal.scores, signal.floor, flags, PROMISING);
            if let Some(sources) = &signal.sources {
                sources.add_best(&mut tools);
            }
        };
        for (_, signal) in &self.request {
            add_best(signal);
        }
        if let Some(subqueries) = subqueries {
            for signal in subqueries.keyword_signals() {
                add_best(signal);
            }
        }
        tools
    }

    fn lacks_models(&self) -> bool {
        self.request
            .iter()
            .chain(&self.conversation)
            .all(|(retriever, _)| *retriever == Retriever::Keyword)
    }

    /// Combines both kinds of signals, if the request has context.
    fn mix(mut self) -> Signals {
        if self.conversation.is_empty() {
            return self.request;
        }
        let take = |signals: &mut Signals, name: Retriever| {
            let position = signals
                .iter()
                .position(|(retriever, _)| *retriever == name)?;
            Some(signals.swap_remove(position).1)
        };
        let mut mixed = Signals::new();
        for retriever in [Retriever::Keyword, Retriever::Static, Retriever::Model] {
            let request = take(&mut self.request, retriever);
            let conversation = take(&mut self.conversation, retriever);
            let signal = match (request, conversation) {
                (request, Some(conversation)) => {
                    Signal::mixed(request, conversation, CONVERSATION_SHARE)
                }
                (Some(request), None) => request,
                (None, None) => continue,
            };
            mixed.push((retriever, signal));
        }
        mixed
    }
}

/// Returns the models of a mode: the main one, and in hybrid mode also the supporting ones.
pub(super) fn models(index: &Index, mode: Mode) -> &[Vectors] {
    match mode {
        Mode::Keyword => &[],
        Mode::Semantic => &index.vectors[index.vectors.len().saturating_sub(1)..],
        Mode::Hybrid => &index.vectors,
    }
}

/// Returns the models of a mode that support the language of the request, or the only model.
fn models_for_language<'i>(
    index: &'i Index,
    mode: Mode,
    query: &Query,
) -> impl Iterator<Item = &'i Vectors> {
    let models = models(index, mode);
    models
        .iter()
        .filter(|vectors| models.len() == 1 || vectors.embedder().reads(query.search_text()))
}

/// Runs the semantic retrievers.
fn retrieve_semantic(
    request: &Request<'_>,
    mut subqueries: Option<&mut SubqueryResults<'_>>,
    embeddings: &mut Embeddings,
    signals: &mut BothSignals,
    report: &mut Report,
) {
    let models = models(request.index, request.mode);
    if models.is_empty() {
        report.skipped(Stage::Semantic, "the mode is keyword");
        return;
    }
    if request.query.is_blank() && request.query.conversation().is_empty() {
        report.skipped(Stage::Semantic, "the request is blank");
        return;
    }
    let mut failure = request.index.left_out.clone();
    for vectors in models_for_language(request.index, request.mode, request.query) {
        match embeddings.get_or_embed(vectors.embedder(), request.query, request.deadline) {
            Ok(embedded) => {
                let mut model_subqueries = None;
                if vectors.embedder().kind() == ModelKind::Static {
                    model_subqueries = subqueries.as_deref_mut();
                }
                run_model(request, model_subqueries, (vectors, embedded), signals);
            }
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
}

/// Runs one model. In a large catalog, only the tools that may be near the request have scores
/// afterwards.
fn run_model(
    request: &Request<'_>,
    mut subqueries: Option<&mut SubqueryResults<'_>>,
    (vectors, embedded): (&Vectors, &RequestVectors),
    signals: &mut BothSignals,
) {
    let index = request.index;
    let mut promising = None;
    if request.may_narrow(vectors) {
        promising = Some(signals.promising_tools(request, subqueries.as_deref()));
    }
    let cosines_of = |rows: ArrayView2<'_, f32>| match &promising {
        Some(promising) => vectors.nearest(
            rows,
            request.rankable().flags(),
            promising.clone(),
            index.sources.as_ref(),
        ),
        None => vectors.cosines(rows),
    };
    let is_request = |rows| {
        embedded
            .request
            .as_ref()
            .is_some_and(|request| std::ptr::eq(request, rows))
    };
    let search = |rows: &Array2<f32>| match subqueries.as_deref_mut() {
        Some(subqueries) if is_request(rows) => subqueries.search(rows, cosines_of),
        _ => cosines_of(rows.view()),
    };
    signals.add_semantic((index, vectors), embedded, request.examples, search);
    if promising.is_none() {
        return;
    }
    let Some((_, signal)) = signals.request.last() else {
        return;
    };
    let scored = signal.scored.clone();
    for (_, signal) in &mut signals.request {
        signal.restrict(&scored);
    }
    if let Some(subqueries) = subqueries {
        subqueries.restrict(&scored);
    }
}

/// Runs an embedder under the deadline; returns the cause if there is no answer.
pub(super) fn guarded<T: Send + 'static>(
    embedder: &Arc<dyn Embedder>,
    deadline: Deadline,
    ask: impl FnOnce(&dyn Embedder) -> Result<T, EmbedError> + Send + 'static,
) -> Result<T, String> {
    if deadline.has_passed() {
        return Err("the deadline passed before it began".to_owned());
    }
    let answer = if deadline.instant().is_some() {
        let embedder = Arc::clone(embedder);
        deadline.run(move || ask(embedder.as_ref()))
    } else {
        let ask = || ask(embedder.as_ref());
        catch_unwind(AssertUnwindSafe(ask)).map_err(|_| DeadlineError::panicked())
    };
    match answer {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(DeadlineError::Expired) => {
            Err("the deadline passed while the request was embedded".to_owned())
        }
        Err(DeadlineError::Lost(reason)) => Err(reason),
    }
}
