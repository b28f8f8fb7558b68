//! The HTTP server of a gateway: MCP over streamable HTTP, an interface for whoever speaks JSON, the console of operators, and the
//! way to models.
//!
//! [`serve`] has a [`Gateway`](picktools_gateway::Gateway) served at an address. Who may connect, from where and how often stands
//! in the gateway's settings, and is followed as they change.

// Modules stand in reading order: each uses only those above it (`tests/main/architecture.rs` of the library).
mod problem;
mod api;
mod console;
mod placed;
mod server;

pub use server::{Http, Serving, serve};
