//! Retrieval: one signal per retriever for a request, with a score for every tool of the catalog.
//!
//! A request of several sentences may need a tool for each, and a sentence has little weight in the
//! complete text. So a score is half the score of the complete request and half that of the
//! best-matching sentence. `docs/results.md` has the measured effect.

mod alternatives;
mod examples;
mod keyword;
mod query_term;
mod semantic;
mod sentences;
mod signal;
mod terms;

pub(crate) use alternatives::Rewording;
pub(crate) use examples::ExampleSimilarities;
pub(crate) use keyword::keyword;
pub use query_term::AlternativeKind;
pub(crate) use semantic::semantic;
pub(crate) use signal::Signal;
pub use terms::query_terms;
pub(crate) use terms::{AnalyzedTexts, FoundTerm};
