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
//! A [`Catalog`] is read and checked once, an [`Engine`] indexes it, and each pick is a pure function of catalog,
//! [`Query`] and [`PickOptions`], whose [`Access`] says who asks. Picks go to a model with [`translate`], and what it calls
//! comes back through a [`Hydrator`], which holds the caller to the same [`Access`]; [`tool_call`] does both. The modules
//! have what is particular to each step.
//!
//! - Eligibility excludes, `select` truncates, `fuse` and `rerank` reorder, and each leaves evidence.
//! - The same inputs give the same bytes; times stand outside the serialised outcome.
//! - The library prints nothing and reads no environment unless asked to (`EndpointOptions`'s proxy); a clock is read
//!   for deadlines, timings and the pauses of a [`CircuitBreaker`](rerank::CircuitBreaker) only.
//! - A stage that did not run says so.
//! - What the library makes (outcomes, reports, errors) is `non_exhaustive`; what a caller makes (options, definitions,
//!   scores) is not, and has a default where it is large.

#![cfg_attr(
    not(feature = "redis"),
    allow(
        dead_code,
        unused_imports,
        reason = "parts of a larger catalog are made of what a store holds; with it all of this is used"
    )
)]

// Modules stand in reading order: each uses only those above it (`tests/main/architecture.rs`).
pub mod excerpt;
mod function_words;
pub mod query;
mod ranking;
mod deadline;
#[cfg(any(feature = "endpoint", feature = "llm"))]
mod http;
mod json;
mod repair;
mod schema;
pub mod disk;
pub mod saved;
pub mod import;
pub mod catalog;
mod text;
pub mod names;
pub mod sequences;
pub mod examples;
pub mod check;
pub mod access;
pub mod embed;
mod index;
mod retrieve;
mod fuse;
pub mod scorer;
pub mod provider;
pub mod learn;
pub mod client;
#[cfg(feature = "llm")]
pub mod enrich;
pub mod rerank;
pub mod options;
mod select;
#[cfg(feature = "tokens")]
mod budget;
pub mod selection;
pub mod engine;
#[cfg(feature = "redis")]
pub mod store;
pub mod call;
#[cfg(feature = "runtime")]
pub mod runtime;
pub mod eval;

pub use access::Access;
pub use call::{Hydrator, tool_call};
pub use catalog::{Catalog, CatalogOptions, Tool, ToolId};
pub use engine::{Engine, EngineBuilder, pick_tools};
#[doc(inline)]
pub use names::skills;
pub use options::{Mode, PickError, PickOptions};
pub use provider::{Provider, translate};
pub use query::Query;
pub use selection::{Pick, Selection};

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
