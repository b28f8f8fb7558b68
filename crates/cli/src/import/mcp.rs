//! `picktools import mcp`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use picktools::catalog::{CatalogFile, Conflicts};
use picktools::{Catalog, CatalogOptions, disk};

use super::filter::{Filter, FilterArgs};
use super::watch::watch;
use crate::live::LiveArgs;
use crate::servers::ServerArgs;
use crate::{heading, output};

#[derive(Args)]
pub(super) struct McpCommand {
    #[command(flatten)]
    servers: ServerArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    live: LiveArgs,
    /// Write the tools to this file, wholly or not at all, and not to standard output.
    #[arg(long, short, value_name = "FILE", help_heading = heading::OUTPUT)]
    output: Option<PathBuf>,
    /// Stay connected, and write the file anew whenever the servers have other tools; until it is
    /// interrupted.
    #[arg(long, requires = "output", conflicts_with = "offline", help_heading = heading::OUTPUT)]
    watch: bool,
}

impl McpCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let filter = self.filter.filter()?;
        let configuration = self.servers.configuration()?;
        if let (Some(path), true) = (&self.output, self.watch) {
            output::warnings(configuration.faults.iter().map(ToString::to_string), "");
            watch(
                configuration.servers,
                self.live.limits(),
                path,
                |followed| {
                    let files = followed
                        .tools()
                        .map(|(name, tools)| CatalogFile::of_server(name, tools));
                    Ok(lines(&read(&files.collect::<Vec<_>>())?, &filter)?)
                },
            )?;
            return Ok(ExitCode::SUCCESS);
        }
        // Whoever imports wants what there is now.
        let answers = self.live.refreshed().tools(&configuration)?;
        let catalog = read(&answers.files)?;
        let lines = lines(&catalog, &filter)?;
        match &self.output {
            Some(path) => disk::write(path, lines.as_bytes())
                .with_context(|| format!("{}", path.display()))?,
            None => lines.lines().try_for_each(output::verbatim)?,
        }
        let missing: Vec<String> = answers
            .missing
            .into_iter()
            .chain(catalog.notices().iter().map(ToString::to_string))
            .collect();
        let whole = missing.is_empty();
        output::warnings(missing, "");
        let (tools, servers) = (catalog.len(), answers.files.len());
        output::note(format!(
            "{tools} tools of {servers} of {} servers",
            configuration.servers.len() + configuration.faults.len()
        ));
        Ok(if whole {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

fn read(files: &[CatalogFile]) -> anyhow::Result<Catalog> {
    Ok(CatalogOptions {
        conflicts: Conflicts::Warn,
        ..CatalogOptions::default()
    }
    .read_files(files)?)
}

/// The tools that are taken over, as JSON Lines.
fn lines(catalog: &Catalog, filter: &Filter) -> serde_json::Result<String> {
    let taken = catalog.tools().iter().filter(|tool| filter.takes(tool));
    taken
        .map(|tool| Ok(serde_json::to_string(tool)? + "\n"))
        .collect()
}
