//! A client of MCP servers, over standard input and output and over streamable HTTP.
//!
//! [`list`] asks a server for its tools once; a [`Connection`] stays open for calls. Servers are
//! untrusted: the client limits the size of their messages and the time of their answers.

mod client;
mod connection;
mod failure;
mod handshake;
mod http;
mod limits;
mod listing;
mod message_pace;
mod private_files;
mod program;
mod program_messages;
mod reading;
mod sse;
mod supervisor;
mod tap;
mod token;
mod token_answer;
mod tool_cache;
mod tool_list;

pub use client::{ListError, list};
pub use connection::{
    ConnectError, ConnectOptions, Connection, PendingRequest, SilentHandler, StderrTail,
    ToolChanges,
};
pub use handshake::Handshake;
pub use http::HttpFailure;
pub use limits::Limits;
pub use listing::{ItemListing, ListKind, ListLimits};
pub use program::Variable;
pub use reading::{mend, message_id};
pub use supervisor::{SUPERVISE, supervise, supervise_programs};
pub use tap::RequestUpdate;
pub use tool_cache::ToolListCache;
pub use tool_list::Listing;
