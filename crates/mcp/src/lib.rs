//! A client of MCP servers, over standard input and output and over streamable HTTP.
//!
//! [`list`] asks a server for its tools once; a [`Connection`] stays open for calls. Servers are
//! untrusted: the client limits the size of their messages and the time of their answers.

mod client;
mod connection;
mod failure;
mod http;
mod reading;
mod tool_cache;
mod tap;
mod token;

pub use client::{Limits, ListError, Listing, list};
pub use connection::{
    ConnectError, Connection, Handshake, PendingRequest, SilentHandler, StderrTail, ToolChanges,
    Variable,
};
pub use http::HttpFailure;
pub use reading::{mend, message_id};
pub use tap::RequestUpdate;
pub use tool_cache::ToolListCache;
