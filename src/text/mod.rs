//! What a tool's words become.
//!
//! `document` says which texts of a tool are read, by the keyword index and by models; `analysis`
//! cuts texts into words and terms, those of tools and those of requests alike; `values` tells
//! which parts of a request are no words but what is given to a tool, and what tools take.

mod analysis;
mod document;
pub mod fold;
pub mod likeness;
mod values;

pub use analysis::TermKind;
pub(crate) use analysis::{AnalyzedTerm, Analyzer, words};
pub use document::Field;
pub use document::{EmbeddingText, taken, texts, texts_of};
pub use values::ValueKind;
pub(crate) use values::{Taken, Value, values};
