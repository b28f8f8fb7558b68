//! `picktools import mcp`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use picktools::catalog::{CatalogFile, Conflicts, FaultKind};
use picktools::{Catalog, CatalogOptions, disk};

use super::filter::{Filter, FilterArgs};
use super::watch::watch;
use crate::live::LiveArgs;
use crate::servers::ServerArgs;
use crate::{heading, output};

pub(super) const EXAMPLES: &str = "\
Examples:
  picktools import mcp --config .mcp.json --except 'git/*' > tools.jsonl
  picktools import mcp -- npx -y @modelcontextprotocol/server-memory > memory.jsonl";

/// The arguments of `picktools import mcp`.
#[derive(Args)]
pub(super) struct ImportMcpCommand {
    #[command(flatten)]
    servers: ServerArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    live: LiveArgs,
    /// Write the tools to this file instead of standard output.
    ///
    /// The file is replaced atomically.
    #[arg(long, short, value_name = "FILE", help_heading = heading::OUTPUT)]
    output: Option<PathBuf>,
    /// Stay connected, and replace the file of --output whenever the tools change.
    ///
    /// The command runs until it is interrupted. It needs --output.
    #[arg(long, requires = "output", conflicts_with = "offline", help_heading = heading::OUTPUT)]
    watch: bool,
}

impl ImportMcpCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let filter = self.filter.filter()?;
        let configuration = self.servers.configuration()?;
        if let (Some(path), true) = (&self.output, self.watch) {
            output::warnings(&configuration.faults, "");
            watch(configuration.servers, self.live.limits(), path, |watched| {
                let mut files = Vec::new();
                for (name, tools) in watched.tools() {
                    files.push(CatalogFile::from_server(name, tools));
                }
                lines(&read_catalog(&files)?, &filter)
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        // An import ignores the cache.
        let answers = self.live.refreshed().tools(&configuration)?;
        let catalog = read_catalog(&answers.files)?;
        let lines = lines(&catalog, &filter)?;
        match &self.output {
            Some(path) => disk::write(path, lines.as_bytes())
                .with_context(|| format!("{}", path.display()))?,
            None => lines.lines().try_for_each(output::json_text)?,
        }
        let mut warnings = answers.missing;
        let mut is_complete = warnings.is_empty();
        for notice in catalog.notices() {
            // The tool of an unchecked keyword is there.
            is_complete &= notice.kind == FaultKind::UncheckedKeyword;
            warnings.push(notice.to_string());
        }
        output::warnings(warnings, "");
        let (tools, servers) = (catalog.len(), answers.files.len());
        output::note(format!(
            "imported {tools} tools from {servers} of {} servers",
            configuration.servers.len() + configuration.faults.len()
        ));
        Ok(if is_complete {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

fn read_catalog(files: &[CatalogFile]) -> anyhow::Result<Catalog> {
    Ok(CatalogOptions {
        conflicts: Conflicts::Warn,
        ..CatalogOptions::default()
    }
    .read_files(files)?)
}

/// Returns the selected tools as JSON Lines.
fn lines(catalog: &Catalog, filter: &Filter) -> anyhow::Result<String> {
    let mut lines = String::new();
    for tool in catalog.tools()? {
        if filter.takes(tool) {
            lines.push_str(&serde_json::to_string(tool)?);
            lines.push('\n');
        }
    }
    Ok(lines)
}
