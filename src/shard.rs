//! The interface for stores of shared catalogs (`picktools-store`).
//!
//! A store keeps a [`Row`] for each tool: its definition, words and vectors, under a [`RowKey`]
//! that is a digest of them. It finds the rows of candidates. An [`Index`] over these rows, with
//! statistics over the complete catalog ([`SnapshotContext`]), picks as an engine over the complete
//! catalog does.

pub use crate::index::{
    ExampleIndex, ExampleTotals, GlobalStats, Index, IndexError, KnownExamples, NumberedModel,
    RequestTerms, Row, RowKey, SnapshotContext, SnapshotCounts, SourceKey, SourceRow, TermCounts,
    ToolRelations,
};
pub use crate::retrieve::query_terms;
pub use crate::saved::DamagedBytes;
