//! Tools from what people already have: descriptions of HTTP interfaces, and the MCP servers that their editors know.
//!
//! What is here reads text and no more: it starts no process and opens no connection, but for [`mcp::list`], which asks servers
//! (feature `mcp`).

pub mod mcp;
pub mod openapi;
