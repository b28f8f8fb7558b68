//! The integration tests of imports.

mod openapi;
mod mcp_configurations;
