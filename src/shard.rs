//! The seam for stores of shared catalogs (`picktools-store`).
//!
//! A store keeps a [`Row`] for each tool: its definition, words and vectors, under a [`RowKey`]
//! that is a digest of them. It finds the rows of candidates; an [`Index`] over these rows, with
//! counts over the complete catalog ([`PartOf`]), then picks as an engine over the complete catalog
//! does.

pub use crate::index::{
    CountedExamples, Counts, DamagedRow, ExampleIndex, Index, IndexError, KnownExamples,
    NumberedModel, PartOf, RequestTerms, Row, RowKey, SourceKey, SourceRow, TermCounts,
};
pub use crate::retrieve::query_terms;
