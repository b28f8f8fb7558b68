//! Importers for existing files: OpenAPI documents and configuration files of MCP servers.
//!
//! This crate only parses text. It starts no process and opens no connection.

pub mod mcp;
mod members;
pub mod openapi;
mod tool_filter;

use std::sync::Arc;

use picktools::catalog::DocumentReader;

/// Returns the readers of this crate for
/// [`CatalogOptions::readers`](picktools::CatalogOptions::readers).
pub fn readers() -> Vec<Arc<dyn DocumentReader>> {
    vec![Arc::new(openapi::OpenApiReader)]
}
