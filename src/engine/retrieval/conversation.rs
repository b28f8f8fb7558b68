//! The signals of a request with context: those of the request alone, and those of the whole
//! conversation.
//!
//! If the request has context, each retriever runs twice. Half of the words of "do the same for
//! Berlin" carry no information. But a request that changes the subject must not be drowned in its
//! context.

use ndarray::Array2;

use crate::fuse::{Retriever, Signals};
use crate::index::{Cosines, ExampleIndex, Index, RequestVectors, Vectors};
use crate::query::Query;
use crate::retrieve::{self, AnalyzedTexts, FoundTerm, Signal};

/// The weight of the conversation relative to the request alone. `docs/results.md` has the
/// measurements and the alternatives that were tried.
const CONVERSATION_SHARE: f32 = 0.6;

/// The signals for the request alone and for the conversation.
#[derive(Default)]
pub(super) struct BothSignals {
    pub(super) request: Signals,
    conversation: Signals,
}

impl BothSignals {
    /// Runs the keyword retriever; `None` if neither text has terms.
    pub(super) fn add_keyword<'q>(
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
    pub(super) fn add_semantic(
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

    pub(super) fn lacks_models(&self) -> bool {
        self.request
            .iter()
            .chain(&self.conversation)
            .all(|(retriever, _)| *retriever == Retriever::Keyword)
    }

    /// Combines both kinds of signals, if the request has context.
    pub(super) fn mix(mut self) -> Signals {
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
