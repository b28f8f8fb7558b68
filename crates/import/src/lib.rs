//! Importers for existing files: OpenAPI documents and configuration files of MCP servers.
//!
//! This crate only parses text. It starts no process and opens no connection.

mod config_error;
mod entry_format;
mod entry_problem;
pub mod mcp;
mod members;
mod notation;
pub mod openapi;
mod placeholders;
mod tool_filter;
mod transport;
mod yaml;

use std::sync::Arc;

use picktools::catalog::DocumentReader;

pub use self::notation::{describe_toml_error, jsonc_options, parse_jsonc};

/// Returns the readers of this crate for
/// [`CatalogOptions::readers`](picktools::CatalogOptions::readers).
pub fn readers() -> Vec<Arc<dyn DocumentReader>> {
    vec![Arc::new(openapi::OpenApiReader)]
}
