//! Text analysis for tools and requests.
//!
//! `document` selects the texts of a tool that the keyword index and the models read. `analysis`
//! splits texts of tools and requests into words and terms. `abbreviations` has the meanings of
//! abbreviations. `values` finds the parts of a request that are arguments rather than words, and the
//! kinds of values that a tool accepts.

pub(crate) mod abbreviations;
mod analysis;
mod document;
mod field;
pub mod fold;
pub mod likeness;
mod stemming;
mod values;

pub use analysis::TermKind;
pub(crate) use analysis::{AnalyzedTerm, Analyzer, WordCounts, fold_word, is_unspaced, words};
pub(crate) use document::tag_texts;
pub use document::{EmbeddingText, accepted_values, field_texts, texts};
pub use field::Field;
pub(crate) use stemming::{folded_stem, has_compounds, stemmers};
pub use values::ValueKind;
pub(crate) use values::{AcceptedValue, RequestValue, values};
