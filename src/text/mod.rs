//! What a tool's words become.
//!
//! `document` says which texts of a tool are read, by the keyword index and by models; `analysis` cuts texts into words
//! and terms, those of tools and those of requests alike.

mod analysis;
mod document;

pub use analysis::TermKind;
pub(crate) use analysis::{AnalyzedTerm, Analyzer, words};
pub use document::Field;
pub(crate) use document::{EmbeddingText, texts};
