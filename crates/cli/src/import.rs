//! `picktools import`: a catalog, as JSON Lines, from OpenAPI documents or MCP servers.

mod filter;
mod mcp;
mod openapi;
mod watch;

use std::process::ExitCode;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  picktools import openapi fixtures/openapi > tools.jsonl
  picktools import mcp --config .mcp.json > tools.jsonl";

/// Create a catalog from OpenAPI documents or MCP servers.
///
/// The catalog is written as JSON Lines, one tool per line.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ImportCommand {
    #[command(subcommand)]
    source: ImportSource,
}

#[derive(Subcommand)]
enum ImportSource {
    /// Import the operations of OpenAPI documents.
    ///
    /// Versions 2.0, 3.0 and 3.1 are supported, in JSON or YAML. The exit code is 1 if an operation
    /// or a document was left out.
    #[command(name = "openapi", after_long_help = openapi::EXAMPLES)]
    OpenApi(openapi::OpenApiCommand),
    /// Import the tools of MCP servers as a catalog.
    ///
    /// The catalog is written as JSON Lines, one tool per line. Name the servers by --config, --url
    /// or a command after `--`; these can be combined. The exit code is 1 if tools are missing. For
    /// example, a server did not answer, or a tool is invalid.
    #[command(after_long_help = mcp::EXAMPLES)]
    Mcp(mcp::ImportMcpCommand),
}

impl ImportCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        match self.source {
            ImportSource::OpenApi(command) => command.run(),
            ImportSource::Mcp(command) => command.run(),
        }
    }
}
