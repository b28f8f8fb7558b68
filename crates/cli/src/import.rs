//! `picktools import`: a catalog, as JSON Lines, of what people already have.

mod filter;
mod mcp;
mod openapi;
mod watch;

use std::process::ExitCode;

use clap::{Args, Subcommand};

#[derive(Args)]
pub(super) struct ImportCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The operations of OpenAPI documents (2.0, 3.0, 3.1; JSON or YAML).
    #[command(name = "openapi")]
    OpenApi(openapi::OpenApiCommand),
    /// The tools of MCP servers: those of configuration files, of an address, or of a command after
    /// `--`.
    Mcp(mcp::McpCommand),
}

impl ImportCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        match self.what {
            What::OpenApi(command) => command.run(),
            What::Mcp(command) => command.run(),
        }
    }
}
