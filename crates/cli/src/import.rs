//! `picktools import`: a catalog, as JSON Lines, of what people already have.

mod filter;
#[cfg(feature = "mcp")]
mod mcp;
mod openapi;
#[cfg(feature = "mcp")]
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
    /// The tools of MCP servers: those of configuration files, of an address, or of a command after `--`.
    #[cfg(feature = "mcp")]
    Mcp(mcp::McpCommand),
}

impl ImportCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        match self.what {
            What::OpenApi(command) => command.run(),
            #[cfg(feature = "mcp")]
            What::Mcp(command) => command.run(),
        }
    }
}
