//! Integration tests of the importers.

mod openapi;
mod client_formats;
mod mcp_configurations;
