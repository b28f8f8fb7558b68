//! `picktools import mcp`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use picktools::catalog::{CatalogFile, Conflicts};
use picktools::import::mcp::{Configuration, Server, Way};
use picktools::{Catalog, CatalogOptions, store};

use super::filter::{Filter, FilterArgs};
use super::watch::watch;
use crate::live::{self, LiveArgs};
use crate::{heading, output, reading};

#[derive(Args)]
pub(super) struct McpCommand {
    /// A configuration file, as Claude Desktop, Claude Code, Cursor, VS Code, Windsurf or Zed have it; may be repeated.
    #[arg(long, value_name = "FILE", help_heading = heading::CATALOG)]
    config: Vec<PathBuf>,
    /// An address of streamable HTTP.
    #[arg(long, value_name = "URL", help_heading = heading::CATALOG)]
    url: Option<String>,
    /// The variable of the environment that holds the bearer token for --url.
    #[arg(long, value_name = "NAME", requires = "url", help_heading = heading::CATALOG)]
    bearer: Option<String>,
    /// What the server of --url or of the command is called: the source of its tools.
    #[arg(long, value_name = "NAME", help_heading = heading::CATALOG)]
    source: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    live: LiveArgs,
    /// Write the tools to this file, wholly or not at all, and not to standard output.
    #[arg(long, short, value_name = "FILE", help_heading = heading::OUTPUT)]
    output: Option<PathBuf>,
    /// Stay connected, and write the file anew whenever the servers have other tools; until it is interrupted.
    #[arg(long, requires = "output", conflicts_with = "offline", help_heading = heading::OUTPUT)]
    watch: bool,
    /// A command that starts a server, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl McpCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let filter = self.filter.filter()?;
        let mut configuration = self.given()?;
        for path in &self.config {
            let text = String::from_utf8(reading::read_input(path)?).with_context(|| format!("{}", path.display()))?;
            let read = live::configuration(path, &text)?;
            configuration.servers.extend(read.servers);
            configuration.disabled.extend(read.disabled);
            configuration.faults.extend(read.faults);
        }
        if let (Some(path), true) = (&self.output, self.watch) {
            output::warnings(configuration.faults.iter().map(ToString::to_string), "");
            watch(configuration.servers, self.live.limits(), path, |followed| {
                let files = followed.tools().map(|(name, tools)| CatalogFile::of_server(name, tools));
                Ok(lines(&read(&files.collect::<Vec<_>>())?, &filter)?)
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        // Whoever imports wants what there is now.
        let answers = self.live.refreshed().tools(&configuration)?;
        let catalog = read(&answers.files)?;
        let lines = lines(&catalog, &filter)?;
        match &self.output {
            Some(path) => store::write(path, lines.as_bytes()).with_context(|| format!("{}", path.display()))?,
            None => lines.lines().try_for_each(output::verbatim)?,
        }
        let missing: Vec<String> =
            answers.missing.into_iter().chain(catalog.notices().iter().map(ToString::to_string)).collect();
        let whole = missing.is_empty();
        output::warnings(missing, "");
        let (tools, servers) = (catalog.len(), answers.files.len());
        output::note(format!(
            "{tools} tools of {servers} of {} servers",
            configuration.servers.len() + configuration.faults.len()
        ));
        Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The server that the arguments themselves name.
    fn given(&self) -> anyhow::Result<Configuration> {
        let mut configuration = Configuration::default();
        if let Some(url) = &self.url {
            anyhow::ensure!(
                url.starts_with("https://") || url.starts_with("http://"),
                "--url: {url:?} is no address of HTTP"
            );
            let mut headers = BTreeMap::new();
            if let Some(name) = &self.bearer {
                let token = std::env::var(name).ok().filter(|token| !token.is_empty());
                let token = token.with_context(|| format!("--bearer: the variable {name:?} is not set"))?;
                headers.insert("Authorization".to_owned(), format!("Bearer {token}"));
            }
            let host = url.split("://").nth(1).and_then(|rest| rest.split(['/', ':']).next()).unwrap_or_default();
            configuration.servers.push(self.server(host, Way::Http { url: url.clone(), headers }));
        }
        if let Some((command, arguments)) = self.command.split_first() {
            let name = Path::new(command).file_stem().map(|name| name.to_string_lossy().into_owned());
            let way = Way::Stdio {
                command: command.clone(),
                arguments: arguments.to_vec(),
                variables: BTreeMap::new(),
                folder: None,
            };
            configuration.servers.push(self.server(&name.unwrap_or_default(), way));
        }
        if configuration.servers.is_empty() && self.config.is_empty() {
            anyhow::bail!("no server is named; give --config FILE, --url URL, or a command after `--`");
        }
        Ok(configuration)
    }

    fn server(&self, name: &str, way: Way) -> Server {
        Server { name: self.source.clone().unwrap_or_else(|| name.to_owned()), way }
    }
}

fn read(files: &[CatalogFile]) -> anyhow::Result<Catalog> {
    Ok(CatalogOptions { conflicts: Conflicts::Warn, ..CatalogOptions::default() }.read_files(files)?)
}

/// The tools that are taken over, as JSON Lines.
fn lines(catalog: &Catalog, filter: &Filter) -> serde_json::Result<String> {
    let taken = catalog.tools().iter().filter(|tool| filter.takes(tool));
    taken.map(|tool| Ok(serde_json::to_string(tool)? + "\n")).collect()
}
