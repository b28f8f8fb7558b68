//! Tool selection and ranking for agents: it picks the few tools that a request needs out of
//! thousands, and gives a reason for every pick and every exclusion.
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
//! A [`Catalog`] is read and checked once, and an [`Engine`] indexes it. Each pick is a pure
//! function of the catalog, the [`Query`] and the [`PickOptions`], whose [`Access`] describes the
//! caller. This crate is the engine. Other crates build on it: `picktools-provider` translates
//! picks into the format of a model provider, `picktools-call` validates the model's calls against
//! the same [`Access`], and `picktools-import` reads OpenAPI documents.
//!
//! - Eligibility excludes, `select` truncates, `fuse` and `rerank` reorder. Each stage leaves
//!   evidence.
//! - The same inputs give the same bytes. Times are not part of the serialised selection.
//! - The library prints nothing. It reads the environment only if asked to (the proxy of
//!   `EndpointOptions`). It reads a clock only for deadlines, timings and the pauses of a
//!   [`CircuitBreaker`](rerank::CircuitBreaker).
//! - A stage that did not run is reported.
//! - Types that the library creates (selections, reports, errors) are `non_exhaustive`. Types that
//!   a caller creates (options, definitions, scores) are not; large ones have a default.

// Modules are in reading order: each uses only those above it (`tests/main/architecture.rs`).
mod sync;
pub mod excerpt;
pub mod function_words;
mod reading;
pub mod query;
mod ranking;
pub mod deadline;
pub mod breaker;
pub mod json;
pub mod schema;
pub mod disk;
pub mod saved;
pub mod catalog;
pub mod text;
pub mod names;
pub mod sequences;
pub mod examples;
pub mod access;
pub mod embed;
mod index;
mod retrieve;
mod fuse;
pub mod scorer;
pub mod rerank;
pub mod tokens;
pub mod options;
mod select;
mod budget;
pub mod selection;
pub mod engine;
pub mod shard;

pub use access::Access;
pub use catalog::{Catalog, CatalogOptions, Tool, ToolId};
pub use engine::{Engine, EngineBuilder, pick_tools, pick_tools_with};
#[doc(inline)]
pub use names::skills;
pub use options::{Mode, PickError, PickOptions};
pub use query::Query;
pub use selection::{Pick, Selection};
