//! The HTTP server of a gateway: MCP over streamable HTTP, the JSON API, the operator's console and
//! the model proxy.
//!
//! [`serve`] serves a [`Gateway`](picktools_gateway::Gateway) at an address. API keys, allowed
//! origins and rate limits come from the gateway's settings; a reload changes them.

// Modules stand in reading order: each uses only those above it (`tests/main/architecture.rs` of
// the library).
mod problem;
mod api;
mod console;
mod placed;
mod server;

pub use server::{Http, Serving, serve};
