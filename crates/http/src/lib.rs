//! The HTTP server of a gateway: MCP over streamable HTTP, the JSON API, the operator's console and
//! the model proxy.
//!
//! [`serve`] serves a [`Gateway`](picktools_gateway::Gateway) at an address. API keys, allowed
//! origins and rate limits come from the gateway's settings. A reload of the settings changes them.

// Modules are in reading order: each uses only modules above it. A test of the library checks this
// (`tests/main/architecture.rs`).
mod problem;
mod body_time;
mod api;
mod console;
mod first_message;
mod guarded_body;
mod listener;
mod unread_body;
mod connections;
mod mcp_requests;
mod server;

pub use api::body_fault;
pub use server::{HttpServer, HttpServerOptions, TlsFiles, serve};
