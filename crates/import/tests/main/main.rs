//! Integration tests of the importers.

mod openapi;
mod mcp_configurations;
