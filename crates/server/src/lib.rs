//! A gateway for MCP: one server before many.
//!
//! A client that connects to twelve servers shows a model hundreds of tools. A [`Gateway`] stands before the servers as
//! one: it shows a few tools that find and call the others, or all of them where they are few; holds each call to the
//! tool's own definition before it goes on; and holds back definitions that changed since somebody approved them.

#![expect(deprecated, reason = "lines for logs are what clients know that speak a revision before 2026-07-28")]

// Modules stand in reading order: each uses only those above it (`tests/main/architecture.rs` of the library).
mod lock;
pub mod settings;
mod error;
mod refusal;
mod naming;
mod keys;
pub mod metrics;
mod shared_file;
mod shared_store;
mod shared;
mod guests;
mod sessions;
pub mod audit;
mod pins;
mod changes;
mod listener;
mod upstream;
mod tolerance;
mod snapshot;
mod journal;
mod front;
mod results;
mod rounds;
mod queue;
mod relay;
mod carried;
mod hub;
mod circuits;
mod decisions;
mod calls;
mod handler;
mod problem;
mod api;
mod proxy;
mod console;
mod http;
mod gateway;

pub use changes::changes;
pub use error::GatewayError;
pub use gateway::{Gateway, GatewayOptions, Serving};
pub use http::Http;
pub use keys::new_key;
pub use metrics::{Counters, Counts, Event, Meter, UpstreamCounts};
pub use pins::{Held, Pins, Why};
pub use queue::{CallQueue, Decision, QueuedCall};
pub use settings::{Settings, SettingsError};
pub use shared::Lost;
pub use shared_file::StateError;
pub use shared_store::{Fault, Purpose, Store};
