//! What the retrievers say of a request, and of what was said before it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::Trace;
use crate::deadline::{Deadline, Missed};
use crate::eligibility::Eligibility;
use crate::embed::Embedder;
use crate::error::{EmbedError, IndexError, PickError};
use crate::fuse::{Fused, Fusion, Mode, Retriever, Signals};
use crate::index::{Index, RequestVectors, Vectors};
use crate::options::Request;
use crate::query::Query;
use crate::retrieve::{self, FoundTerm, Signal, query_terms};
use crate::selection::Stage;

/// How much the context counts at most: the request itself never counts for less.
const LARGEST_SHARE: f32 = 0.5;

/// A request's embeddings, or why there are none.
pub(super) type Embedded = Result<RequestVectors, String>;

/// What the retrievers say, with the terms of the request that the index has.
pub(super) fn signals(
    index: &Index,
    request: &Request<'_>,
    trace: &mut Trace,
) -> Result<(Vec<FoundTerm>, Signals), PickError> {
    let mut found = Vec::new();
    let mut signals = BothSignals::default();
    if !request.mode.uses_keyword() {
        trace.skipped(Stage::Keyword, "the mode is semantic");
    } else if trace.deadline.has_passed() {
        trace.failed(Stage::Keyword, "the deadline passed before it began");
    } else if let Some(terms) = signals.add_keyword(index, request.query)? {
        found = terms;
        trace.ran(Stage::Keyword);
    } else {
        trace.skipped(Stage::Keyword, "the request has no words");
    }
    semantic(models(index, request.mode), request, &mut signals, trace);
    let share = &mut trace.context_share;
    Ok((found, signals.mix(|own| *share.get_or_insert_with(|| context_share(own, &request.eligibility)))))
}

/// What a mode's retrievers say of a request, where there is no hurry.
pub(super) fn plain_signals(
    index: &Index,
    query: &Query,
    mode: Mode,
    eligibility: &Eligibility,
) -> Result<Signals, PlainError> {
    let mut signals = BothSignals::default();
    if mode.uses_keyword() {
        signals.add_keyword(index, query)?;
    }
    for vectors in models(index, mode) {
        signals.add_semantic(vectors, &Vectors::embed_query(vectors.embedder().as_ref(), query)?);
    }
    Ok(signals.mix(|own| context_share(own, eligibility)))
}

/// Why there are no signals.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) enum PlainError {
    Index(#[from] IndexError),
    Embed(#[from] EmbedError),
}

/// What is said of the request itself and of its context.
#[derive(Default)]
struct BothSignals {
    request: Signals,
    context: Signals,
}

impl BothSignals {
    /// Asks the keyword index; `None` where neither has words.
    fn add_keyword(&mut self, index: &Index, query: &Query) -> Result<Option<Vec<FoundTerm>>, IndexError> {
        let add = |sentences: Vec<&str>, signals: &mut Signals| -> Result<Option<Vec<FoundTerm>>, IndexError> {
            let terms = query_terms(&sentences);
            if terms.is_empty() {
                return Ok(None);
            }
            let (found, signal) = retrieve::keyword(&index.keyword, terms, sentences.len(), index.catalog.len())?;
            signals.push((Retriever::Keyword, signal));
            Ok(Some(found))
        };
        let found = add(query.sentences(), &mut self.request)?;
        let before = add(query.context_sentences(), &mut self.context)?;
        Ok(found.or(before.map(|_| Vec::new())))
    }

    fn add_semantic(&mut self, vectors: &Vectors, embedded: &RequestVectors) {
        let retriever = Retriever::of(vectors.embedder().as_ref());
        let signal = |rows| (retriever, retrieve::semantic(vectors, rows));
        self.request.extend(embedded.request.as_ref().map(signal));
        self.context.extend(embedded.context.as_ref().map(signal));
    }

    fn is_empty_of_models(&self) -> bool {
        self.request.iter().chain(&self.context).all(|(retriever, _)| *retriever == Retriever::Keyword)
    }

    /// Mixes them, where there is a context.
    fn mix(self, share: impl FnOnce(&Signals) -> f32) -> Signals {
        let Self { request, context } = self;
        if context.is_empty() {
            return request;
        }
        let share = share(&request);
        let (mut request, mut context) = (request, context);
        let take = |signals: &mut Signals, wanted: Retriever| -> Option<Signal> {
            let place = signals.iter().position(|(retriever, _)| *retriever == wanted)?;
            Some(signals.swap_remove(place).1)
        };
        let mixed = [Retriever::Keyword, Retriever::Static, Retriever::Model].into_iter().filter_map(|retriever| {
            let (own, before) = (take(&mut request, retriever), take(&mut context, retriever));
            Some((retriever, Signal::mixed(own, before, share)?))
        });
        mixed.collect()
    }
}

/// How much the context of a request counts: the more, the less likely it is that a tool answers the request as it stands.
/// `docs/history.md` tells what else was tried.
fn context_share(request: &Signals, eligibility: &Eligibility) -> f32 {
    let answerable = Fused::new(request.clone(), Fusion::Weighted, eligibility).answerable();
    LARGEST_SHARE * (1.0 - answerable).sqrt()
}

/// The models of a mode: the chosen one, and the others as well where they only help along.
pub(super) fn models(index: &Index, mode: Mode) -> &[Vectors] {
    match mode {
        Mode::Keyword => &[],
        Mode::Semantic => &index.vectors[index.vectors.len().saturating_sub(1)..],
        Mode::Hybrid => &index.vectors,
    }
}

fn semantic(models: &[Vectors], request: &Request<'_>, signals: &mut BothSignals, trace: &mut Trace) {
    if models.is_empty() {
        trace.skipped(Stage::Semantic, "the mode is keyword");
        return;
    }
    if request.query.is_blank() && request.query.context().is_empty() {
        trace.skipped(Stage::Semantic, "the request is blank");
        return;
    }
    let mut failure = None;
    for vectors in models {
        match trace.embedded(vectors, request.query) {
            Ok(embedded) => signals.add_semantic(vectors, embedded),
            Err(reason) => failure = Some(reason.clone()),
        }
    }
    match failure {
        Some(reason) => trace.failed(Stage::Semantic, reason),
        None if signals.is_empty_of_models() => {
            trace.skipped(Stage::Semantic, "the model knows nothing of the request");
        }
        None => trace.ran(Stage::Semantic),
    }
}

/// Embeds a request in time; else says why not.
pub(super) fn embed(vectors: &Vectors, query: &Query, deadline: Deadline) -> Embedded {
    let query = query.clone();
    guarded(vectors, deadline, move |embedder| Vectors::embed_query(embedder, &query))
}

/// Asks an embedder in time; else says why there is no answer.
pub(super) fn guarded<T: Send + 'static>(
    vectors: &Vectors,
    deadline: Deadline,
    ask: impl FnOnce(&dyn Embedder) -> Result<T, EmbedError> + Send + 'static,
) -> Result<T, String> {
    if deadline.has_passed() {
        return Err("the deadline passed before it began".to_owned());
    }
    let answer = if deadline.instant().is_some() {
        let embedder = Arc::clone(vectors.embedder());
        deadline.run(move || ask(embedder.as_ref()))
    } else {
        let ask = || ask(vectors.embedder().as_ref());
        catch_unwind(AssertUnwindSafe(ask)).map_err(|_| Missed::panicked())
    };
    match answer {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(Missed::Expired) => Err("the deadline passed while the request was embedded".to_owned()),
        Err(Missed::Lost(reason)) => Err(reason),
    }
}
