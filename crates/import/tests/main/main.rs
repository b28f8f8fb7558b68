//! Integration tests of the importers.

mod openapi;
mod openapi_forms;
mod client_formats;
mod mcp_configurations;
