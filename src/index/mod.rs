//! The index of one snapshot of a catalog. It is built once and only read afterwards.
//!
//! What one tool contributes is a [`ToolRecord`](record::ToolRecord), which does not depend on
//! other tools. An index holds the records of all tools as [columns](columns::Columns), and
//! statistics that are counted or compared over all tools. So an index gives bit-identical results
//! whether it is built at once, updated, opened from a file or made of the rows of a store. Only an
//! index of rows has no vocabulary, so it reads the words of requests as they are.

// Modules are in reading order: each uses only those above it (`tests/main/architecture.rs`).
// Data.
mod error;
mod terms;
mod dot;
mod rows;
mod sketch;
mod postings;
mod vocabulary;
mod recent;
mod original_words;
// What one tool or one source contributes.
mod occurrences;
mod record;
mod source_row;
mod row;
// Statistics over all tools.
mod stats;
mod clones;
mod duplicates;
mod sources;
// The index.
mod embedding;
mod vectors;
mod tags;
mod previous;
mod columns;
mod optional;
mod keyword;
mod snapshot;
mod examples;
mod publishing;

pub(crate) use dot::products;
pub(crate) use duplicates::DuplicateGroups;
pub(crate) use embedding::Progress;
pub use error::IndexError;
pub(crate) use examples::ExampleConfig;
pub use examples::{ExampleIndex, KnownExamples};
pub(crate) use keyword::{IndexedTerm, KeywordIndex};
pub(crate) use optional::{OptionalModel, OptionalModelState};
pub use row::{Row, RowKey, SourceKey, ToolRelations};
pub(crate) use rows::Rows;
pub(crate) use snapshot::IndexConfig;
pub use snapshot::{Index, IndexStats, MemoryPart};
pub use source_row::SourceRow;
pub(crate) use sources::{SourceIndex, SourceScores};
pub use stats::{
    ExampleTotals, GlobalStats, NumberedModel, RequestTerms, SnapshotContext, SnapshotCounts,
    TermCounts,
};
pub(crate) use terms::TermKey;
pub(crate) use vectors::{Cosines, ReasonWord, RequestVectors, ToolWords, Vectors};
pub(crate) use vocabulary::Vocabulary;
