//! Lists the tools of the MCP servers that a configuration file names, and picks from them.
//!
//! The file is one of Claude Desktop, Claude Code, Cursor, VS Code, Windsurf or Zed, such as
//! `{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}`:
//!
//! ```console
//! $ cargo run -p picktools-examples --bin mcp-client -- .mcp.json "what time is it in Oslo?"
//! ```

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the example prints its results"
)]

use std::error::Error;
use std::path::Path;

use picktools::catalog::{CatalogFile, Conflicts};
use picktools::{CatalogOptions, Engine, PickOptions, Query};
use picktools_import::mcp::{self, ConfigEnvironment, Configuration};
use picktools_mcp::Limits;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(request)) = (arguments.next(), arguments.next()) else {
        return Err("usage: mcp-client CONFIGURATION REQUEST".into());
    };
    let configuration = read_configuration(Path::new(&path))?;
    let files = list_tools(&configuration).await;
    if files.is_empty() {
        return Err(format!("no server of {path} sent any tools").into());
    }

    // `Warn` leaves out a tool whose name is taken. The default refuses the catalog, so one server
    // could break the others.
    let options = CatalogOptions {
        conflicts: Conflicts::Warn,
        ..CatalogOptions::default()
    };
    let catalog = options.read_files(&files)?;
    for notice in catalog.notices() {
        eprintln!("warning: {notice}");
    }
    println!("{} tools of {} servers", catalog.len(), files.len());

    let engine = Engine::new(catalog)?;
    let selection = engine
        .pick_async(Query::new(request), PickOptions::default())
        .await?;
    for pick in &selection.picks {
        println!("{:.2} {}: {}", pick.score, pick.tool.id, pick.reason);
    }
    if selection.picks.is_empty() {
        println!("no tool fits the request");
    }
    Ok(())
}

/// Reads a configuration file. Variables such as `${API_KEY}` are replaced from the environment.
fn read_configuration(path: &Path) -> Result<Configuration, Box<dyn Error>> {
    let absolute = std::path::absolute(path)?;
    let folder = absolute.parent().unwrap_or(&absolute);
    let text = std::fs::read_to_string(&absolute)?;
    let environment = ConfigEnvironment {
        variable: &|name| std::env::var(name).ok(),
        folder,
        read: &|path| std::fs::read_to_string(path),
    };
    let configuration = mcp::parse_configuration(&text, &environment)?;
    for fault in configuration.faults.iter().chain(&configuration.warnings) {
        eprintln!("warning: {fault}");
    }
    Ok(configuration)
}

/// Asks each server for its tools. A server that fails is reported and does not affect the others.
async fn list_tools(configuration: &Configuration) -> Vec<CatalogFile> {
    let limits = Limits::default();
    let mut files = Vec::new();
    for server in &configuration.servers {
        match picktools_mcp::list(server, &|name| std::env::var_os(name), &limits, None).await {
            Ok(listing) => {
                if let Some(reason) = &listing.incomplete {
                    eprintln!("warning: {}: some tools are missing: {reason}", server.name);
                }
                files.push(CatalogFile::from_server(&server.name, &*listing.tools));
            }
            Err(error) => eprintln!("warning: {error}"),
        }
    }
    files
}
