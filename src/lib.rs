//! Tool selection and ranking for agents: the few tools a request needs, out of thousands, with a reason for
//! every pick and every exclusion.
//!
//! ```
//! use picktools::{Catalog, Engine, PickOptions, Query};
//!
//! let catalog = Catalog::from_slice(
//!     br#"[{"name": "get_forecast", "description": "Weather for the coming days", "parameters": {}},
//!          {"name": "book_room", "description": "Books a meeting room", "parameters": {}}]"#,
//!     "example",
//!     None,
//! )?;
//! let engine = Engine::new(catalog)?;
//! let selection = engine.pick(&Query::new("will the weather hold?"), &PickOptions::default())?;
//! assert_eq!(selection.picks[0].tool.name, "get_forecast");
//! println!("{}", selection.picks[0].reason);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//!
//! - Imports go one way: a module uses only those declared above it (`tests/main/architecture.rs`).
//! - Eligibility excludes, `select` truncates, `fuse` and `rerank` reorder, and each leaves evidence.
//! - The same inputs give the same bytes; times stand outside the serialised outcome.
//! - The library prints nothing and reads no environment unless asked to (`EndpointOptions`'s proxy); a clock is read
//!   for deadlines, timings and the pauses of a [`CircuitBreaker`] only.
//! - A stage that did not run says so.

mod excerpt;
mod query;
mod ranking;
mod deadline;
#[cfg(any(feature = "endpoint", feature = "llm"))]
mod http;
mod repair;
mod schema;
mod catalog;
mod text;
mod names;
mod sequences;
mod check;
mod access;
pub mod store;
mod embed;
mod index;
mod retrieve;
mod fuse;
mod scorer;
mod provider;
mod client;
mod rerank;
mod options;
mod select;
#[cfg(feature = "tokens")]
mod budget;
mod selection;
mod engine;
mod call;
pub mod eval;

pub use access::{Access, AccessError, Eligibility, IneligibleReason, MAX_LISTED_INELIGIBLE};
pub use call::{
    ApprovalError, ApprovalQueue, CallError, CallNames, Hydrated, Hydrator, MAX_ARGUMENT_BYTES, PendingCall, Repair,
    RepairError, RepairFuture, RepairRequest, Repairer, ToolCallError, ToolCallOptions, ToolCalls, ValidCall,
    tool_call,
};
pub use catalog::{
    Alias, Annotations, Catalog, CatalogError, CatalogFault, CatalogOptions, Conflicts, FaultKind, NoSchemaMode,
    OperatorAliases, Position, Safety, ThreatLevel, Tool,
};
pub use check::{CHECK_VERSION, CheckReport, Finding, Rule, Severity};
#[cfg(feature = "llm")]
pub use client::ProviderClient;
pub use client::{ClientError, ClientFuture, ToolClient};
#[cfg(feature = "endpoint")]
pub use embed::EndpointEmbedder;
#[cfg(feature = "fastembed")]
pub use embed::OnnxOptions;
#[cfg(feature = "tuned")]
pub use embed::TunedEmbedder;
pub use embed::{CacheStatus, EmbedError, Embedder, ModelKind, Role, StaticEmbedder, WordVectors};
#[cfg(feature = "fastembed")]
pub use embed::{FastEmbedder, HubModel};
pub use engine::{BuiltInScorer, Engine, EngineBuilder, pick_tools};
pub use fuse::{DEFAULT_RRF_K, Fusion, Mode, Retriever, RetrieverScores};
#[cfg(any(feature = "endpoint", feature = "llm"))]
pub use http::EndpointOptions;
pub use index::{IndexError, IndexStats};
pub use names::{
    Advertised, Advertising, AdvertisingError, AllowedTool, NameTable, Resolution, Resolved, ResolvedVia, Skill,
    SkillError, SkillFault, SkillFolder, SkillReport, SkillTool, ToolMeaning, skills_section, tools_section,
};
pub use options::{Choice, MAX_IN_USE, PickError, PickOptions, TokenBudget, UNTRUSTED_MAX_PER_SOURCE};
#[cfg(feature = "tokens")]
pub use provider::Tokenizer;
pub use provider::{
    Answer, Arguments, CallStream, Change, ChangeCode, Detail, EventReader, Finish, MAX_ANSWER_ARGUMENT_BYTES,
    MAX_CALLS, MAX_EVENT_BYTES, Provider, ResponseError, ToolCall, TranslateError, TranslateOptions, Translation,
    UnknownProvider, tool_references, translate,
};
pub use query::{MAX_QUERY_BYTES, Query};
pub use ranking::ToolId;
#[cfg(feature = "fastembed")]
pub use rerank::CrossEncoder;
#[cfg(feature = "llm")]
pub use rerank::LlmReranker;
pub use rerank::{
    CircuitBreaker, DEFAULT_RERANK_WINDOW, MAX_RERANK_WINDOW, Rerank, RerankError, RerankFuture, RerankScore, Reranker,
};
pub use schema::{ArgumentFault, MAX_SCHEMA_DEPTH, MAX_SCHEMA_NODES};
pub use scorer::{Score, ScoreFuture, Scorer, ScorerError, per_tool};
pub use selection::{
    CalledTogether, Considered, Definition, Degraded, DropReason, Dropped, FusionEvidence, FusionPart, Ineligible,
    IneligibleTool, KeywordEvidence, Pick, PriorEvidence, Provenance, RerankEvidence, RerankReport, SELECTION_VERSION,
    Selection, SemanticEvidence, SkillPick, Stage, StageReport, StageStatus, TermEvidence, Timings, TokenReport,
    WordEvidence,
};
pub use sequences::{SequenceStats, Sequences, SequencesError};
pub use text::{Field, TermKind};

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
