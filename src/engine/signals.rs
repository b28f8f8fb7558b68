//! What the retrievers say of a request.
//!
//! Where something was said before, each retriever is asked twice: for the request, and for the
//! whole conversation. Half of the words of "do the same for Berlin" tell nothing; but a request
//! that changes the subject must not be drowned in what was said before.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ndarray::{Array2, ArrayView2};

use super::parts::AskedParts;
use super::report::Report;
use super::request::Request;
use crate::deadline::{Deadline, Missed};
use crate::embed::{EmbedError, Embedder, ModelKind};
use crate::fuse::{Mode, Retriever, Signals};
use crate::index::{Cosines, ExampleIndex, Index, RequestVectors, Vectors};
use crate::query::Query;
use crate::ranking::ToolSet;
use crate::retrieve::{self, FoundTerm, ReadTexts, Signal};
use crate::selection::Stage;

/// How much the conversation counts against the request alone. `docs/results.md` has what it gives,
/// and what else was tried.
const CONVERSATION_SHARE: f32 = 0.6;

/// How many tools with most of the words of a request are looked at by meaning in any case.
const PROMISING: usize = 256;

/// A request's embeddings by one model, or why it gave none.
pub(crate) type Embedded = Result<RequestVectors, String>;

/// The request as each model sees it, which is asked once.
#[derive(Default)]
pub struct Embeddings(Vec<(Retriever, Embedded)>);

impl Embeddings {
    /// Embeds the request unless that was done or tried before.
    pub fn of(
        &mut self,
        embedder: &Arc<dyn Embedder>,
        query: &Query,
        deadline: Deadline,
    ) -> &Embedded {
        let model = Retriever::of(embedder.as_ref());
        let place = self
            .0
            .iter()
            .position(|(known, _)| *known == model)
            .unwrap_or_else(|| {
                let query = query.clone();
                let embed =
                    move |embedder: &dyn Embedder| Vectors::embed_query(embedder, &query, deadline);
                self.0.push((model, guarded(embedder, deadline, embed)));
                self.0.len() - 1
            });
        &self.0[place].1
    }
}

/// What the retrievers say of a request.
pub(super) struct Said<'q> {
    /// The terms of the request that the index has.
    pub(super) terms: Vec<FoundTerm<'q>>,
    pub(super) signals: Signals,
}

/// Asks the retrievers: for the request, and in the same look at the vectors of tools for its
/// parts, where it has some.
pub(super) fn signals<'q>(
    request: &Request<'q>,
    mut parts: Option<&mut AskedParts<'q>>,
    embeddings: &mut Embeddings,
    report: &mut Report,
) -> Said<'q> {
    let mut found = Vec::new();
    let mut signals = BothSignals::default();
    let mut none_read = ReadTexts::default();
    let read = parts
        .as_mut()
        .map_or(&mut none_read, |parts| &mut parts.read);
    if !request.mode.uses_keyword() {
        report.skipped(Stage::Keyword, "the mode is semantic");
    } else if request.deadline.has_passed() {
        report.failed(Stage::Keyword, "the deadline passed before it began");
    } else if let Some(terms) =
        signals.add_keyword(request.index, request.query, read, request.examples)
    {
        found = terms;
        report.ran(Stage::Keyword);
    } else {
        report.skipped(Stage::Keyword, "the request has no words");
    }
    semantic(request, parts, embeddings, &mut signals, report);
    let signals = signals.mix();
    if let Some(examples) = request.examples {
        match &examples.left_out {
            Some(reason) => report.failed(Stage::Examples, reason),
            None if signals.is_empty() => report.skipped(Stage::Examples, "no retriever ran"),
            None => report.ran(Stage::Examples),
        }
    }
    Said {
        terms: found,
        signals,
    }
}

/// What a mode's retrievers say of a request, with its terms that the index has, where there is no
/// hurry; else why not.
pub(super) fn plain_signals<'q>(
    (index, examples): (&Index, Option<&ExampleIndex>),
    query: &'q Query,
    mode: Mode,
) -> Result<(Vec<FoundTerm<'q>>, Signals), String> {
    if let Some(reason) = index.left_out.as_ref().filter(|_| mode.uses_semantic()) {
        return Err(reason.clone());
    }
    let (mut found, mut signals) = (Vec::new(), BothSignals::default());
    if mode.uses_keyword() {
        found = signals
            .add_keyword(index, query, &mut ReadTexts::default(), examples)
            .unwrap_or_default();
    }
    for vectors in asked(index, mode, query) {
        let embedded = Vectors::embed_query(vectors.embedder().as_ref(), query, Deadline::at(None));
        let embedded = embedded.map_err(|error| error.to_string())?;
        let look = |rows: &Array2<f32>| vectors.cosines(rows.view());
        signals.add_semantic((index, vectors), &embedded, examples, look);
    }
    Ok((found, signals.mix()))
}

/// What is said of the request alone and of the conversation.
#[derive(Default)]
struct BothSignals {
    request: Signals,
    conversation: Signals,
}

impl BothSignals {
    /// Asks the keyword index; `None` where neither has words.
    fn add_keyword<'q>(
        &mut self,
        index: &Index,
        query: &'q Query,
        read: &mut ReadTexts<'q>,
        examples: Option<&ExampleIndex>,
    ) -> Option<Vec<FoundTerm<'q>>> {
        let mut add = |sentences: Vec<&'q str>, signals: &mut Signals| {
            let terms = read.terms(&sentences);
            if terms.is_empty() {
                return None;
            }
            let (found, signal) = retrieve::keyword(index, terms, sentences.len(), examples);
            signals.push((Retriever::Keyword, signal));
            Some(found)
        };
        let found = add(query.sentences(), &mut self.request);
        let of_all = add(query.conversation_sentences(), &mut self.conversation);
        found.or(of_all.map(|_| Vec::new()))
    }

    /// Adds what a model says; `look` returns how near tools are to vectors.
    fn add_semantic(
        &mut self,
        (index, vectors): (&Index, &Vectors),
        embedded: &RequestVectors,
        examples: Option<&ExampleIndex>,
        mut look: impl FnMut(&Array2<f32>) -> Cosines,
    ) {
        let retriever = Retriever::of(vectors.embedder().as_ref());
        let mut semantic = |rows: &Array2<f32>| {
            let signal = retrieve::semantic(index, vectors, (rows.view(), look(rows)), examples);
            (
                retriever,
                Signal {
                    scope: embedded.scope,
                    ..signal
                },
            )
        };
        self.conversation
            .extend(embedded.conversation.as_ref().map(&mut semantic));
        self.request.extend(embedded.request.as_ref().map(semantic));
    }

    /// Returns the tools that are looked at by meaning in any case: those with most of the words,
    /// those of sources with most of them, and those that are named.
    fn promising(&self, request: &Request<'_>, parts: Option<&AskedParts<'_>>) -> ToolSet {
        let mut tools = ToolSet::new(request.index.catalog.len());
        let named = request.mentions.iter().map(|mention| mention.tool);
        named
            .chain(request.always.keys().copied())
            .for_each(|tool| tools.add(tool));
        let of_parts = parts.into_iter().flat_map(AskedParts::by_words);
        for signal in self
            .request
            .iter()
            .map(|(_, signal)| signal)
            .chain(of_parts)
        {
            tools.add_best(
                &signal.scores,
                signal.floor,
                request.rankable().flags(),
                PROMISING,
            );
            signal
                .sources
                .iter()
                .for_each(|sources| sources.add_best(&mut tools));
        }
        tools
    }

    fn is_empty_of_models(&self) -> bool {
        self.request
            .iter()
            .chain(&self.conversation)
            .all(|(retriever, _)| *retriever == Retriever::Keyword)
    }

    /// Mixes them, where something was said before.
    fn mix(mut self) -> Signals {
        if self.conversation.is_empty() {
            return self.request;
        }
        let take = |signals: &mut Signals, wanted: Retriever| {
            let place = signals
                .iter()
                .position(|(retriever, _)| *retriever == wanted)?;
            Some(signals.swap_remove(place).1)
        };
        let mixed = [Retriever::Keyword, Retriever::Static, Retriever::Model]
            .into_iter()
            .filter_map(|retriever| {
                let own = take(&mut self.request, retriever);
                let signal = match take(&mut self.conversation, retriever) {
                    Some(conversation) => Signal::mixed(own, conversation, CONVERSATION_SHARE),
                    None => own?,
                };
                Some((retriever, signal))
            });
        mixed.collect()
    }
}

/// The models of a mode: the chosen one, and the others as well where they only help along.
pub(super) fn models(index: &Index, mode: Mode) -> &[Vectors] {
    match mode {
        Mode::Keyword => &[],
        Mode::Semantic => &index.vectors[index.vectors.len().saturating_sub(1)..],
        Mode::Hybrid => &index.vectors,
    }
}

/// The models of a mode that are asked: those that read the language of the request, or the only
/// one.
fn asked<'i>(index: &'i Index, mode: Mode, query: &Query) -> impl Iterator<Item = &'i Vectors> {
    let models = models(index, mode);
    models
        .iter()
        .filter(|vectors| models.len() == 1 || vectors.embedder().reads(query.wanted()))
}

/// Asks the models.
fn semantic(
    request: &Request<'_>,
    mut parts: Option<&mut AskedParts<'_>>,
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
    for vectors in asked(request.index, request.mode, request.query) {
        match embeddings.of(vectors.embedder(), request.query, request.deadline) {
            Ok(embedded) => {
                let parts = parts
                    .as_deref_mut()
                    .filter(|_| vectors.embedder().kind() == ModelKind::Static);
                ask(request, parts, (vectors, embedded), signals);
            }
            Err(reason) => failure = Some(reason.clone()),
        }
    }
    match failure {
        Some(reason) => report.failed(Stage::Semantic, reason),
        None if signals.is_empty_of_models() => {
            report.skipped(Stage::Semantic, "the model knows nothing of the request");
        }
        None => report.ran(Stage::Semantic),
    }
}

/// Asks one model. Of a large catalog only the tools that may be near the request have scores from
/// there on.
fn ask(
    request: &Request<'_>,
    mut parts: Option<&mut AskedParts<'_>>,
    (vectors, embedded): (&Vectors, &RequestVectors),
    signals: &mut BothSignals,
) {
    let index = request.index;
    let promising = request
        .may_narrow(vectors)
        .then(|| signals.promising(request, parts.as_deref()));
    let near = |rows: ArrayView2<'_, f32>| match &promising {
        Some(promising) => vectors.near(
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
    let look = |rows: &Array2<f32>| match parts.as_deref_mut().filter(|_| is_request(rows)) {
        Some(parts) => parts.look(rows, near),
        None => near(rows.view()),
    };
    signals.add_semantic((index, vectors), embedded, request.examples, look);
    let Some(scored) = promising.and_then(|_| Some(signals.request.last()?.1.scored.clone()))
    else {
        return;
    };
    signals
        .request
        .iter_mut()
        .for_each(|(_, signal)| signal.restrict(&scored));
    if let Some(parts) = parts {
        parts.restrict(&scored);
    }
}

/// Asks an embedder in time; else says why there is no answer.
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
        catch_unwind(AssertUnwindSafe(ask)).map_err(|_| Missed::panicked())
    };
    match answer {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(Missed::Expired) => {
            Err("the deadline passed while the request was embedded".to_owned())
        }
        Err(Missed::Lost(reason)) => Err(reason),
    }
}
