//! A gateway for MCP: one server before many.
//!
//! A client that connects to twelve servers shows a model hundreds of tools. A [`Gateway`] stands
//! before the servers as one: it shows a few tools that find and call the others, or all of them
//! where they are few; holds each call to the tool's own definition before it goes on; and holds
//! back definitions that changed since somebody approved them.

#![expect(
    deprecated,
    reason = "lines for logs are what clients know that speak a revision before 2026-07-28"
)]

// Modules stand in reading order: each uses only those above it (`tests/main/architecture.rs` of
// the library).
pub mod settings;
mod error;
pub mod refusal;
mod naming;
pub mod metrics;
pub mod guests;
pub mod sessions;
mod pins;
mod changes;
mod listener;
pub mod upstream;
mod tolerance;
pub mod snapshot;
pub mod journal;
pub mod front;
mod results;
pub mod rounds;
mod queue;
mod relay;
mod carried;
pub mod hub;
mod circuits;
mod decisions;
pub mod calls;
pub mod handler;
mod gateway;

pub use changes::changes;
pub use error::GatewayError;
pub use gateway::{Entrance, Gateway, GatewayOptions};
pub use metrics::{Counters, Counts, Event, Meter, UpstreamCounts};
pub use pins::{Held, Pins, Why};
pub use queue::{CallQueue, Decision, QueuedCall};
pub use settings::{Settings, SettingsError};
