//! The list of the tools of a server.

use std::sync::Arc;

use serde_json::Value;

/// The tools of a server.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Listing {
    /// The tool definitions, unchanged.
    pub tools: Arc<[Value]>,
    /// The reason why tools are missing; `None` if the list is complete.
    pub incomplete: Option<String>,
    /// The protocol revision of the connection.
    pub protocol: String,
    /// The instructions of the server, empty if it has none; `None` if they are not known.
    pub instructions: Option<String>,
}
