//! A client of MCP servers, over standard input and output and over streamable HTTP.
//!
//! [`list`] asks a server for its tools once; a [`Connection`] stays open for calls. Servers are
//! strangers: what they send is bounded in size and time.

mod client;
mod connection;
mod kept;
mod tap;
mod token;

pub use client::{Limits, ListError, Listing, list};
pub use connection::{
    Begun, Connection, Handshake, Silent, Tail, ToolChanges, Unreachable, Variable,
};
pub use kept::KeptTools;
pub use tap::Said;
