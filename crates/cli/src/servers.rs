//! Which MCP servers a command is about: those of files, of an address, or of a command line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use picktools_import::mcp::{Configuration, Server, Way};

use crate::{heading, live, reading};

/// Which MCP servers.
#[derive(Args)]
pub(super) struct ServerArgs {
    /// A configuration file, as Claude Desktop, Claude Code, Cursor, VS Code, Windsurf or Zed have
    /// it; may be repeated.
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
    /// A command that starts a server, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl ServerArgs {
    /// The files that name them.
    pub(super) fn files(&self) -> &[PathBuf] {
        &self.config
    }

    /// Returns `true` if something names servers.
    pub(super) fn are_named(&self) -> bool {
        !self.config.is_empty() || self.url.is_some() || !self.command.is_empty()
    }

    /// The servers that are named.
    pub(super) fn configuration(&self) -> anyhow::Result<Configuration> {
        let mut configuration = self.given()?;
        for path in &self.config {
            let text = String::from_utf8(reading::read_input(path)?)
                .with_context(|| format!("{}", path.display()))?;
            let read = live::configuration(path, &text)?;
            configuration.servers.extend(read.servers);
            configuration.disabled.extend(read.disabled);
            configuration.faults.extend(read.faults);
        }
        Ok(configuration)
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
                let token =
                    token.with_context(|| format!("--bearer: the variable {name:?} is not set"))?;
                headers.insert("Authorization".to_owned(), format!("Bearer {token}"));
            }
            let host = url
                .split("://")
                .nth(1)
                .and_then(|rest| rest.split(['/', ':']).next())
                .unwrap_or_default();
            configuration.servers.push(self.server(
                host,
                Way::Http {
                    url: url.clone(),
                    headers,
                    credentials: None,
                },
            ));
        }
        if let Some((command, arguments)) = self.command.split_first() {
            let name = Path::new(command)
                .file_stem()
                .map(|name| name.to_string_lossy().into_owned());
            let way = Way::Stdio {
                command: command.clone(),
                arguments: arguments.to_vec(),
                variables: BTreeMap::new(),
                folder: None,
            };
            configuration
                .servers
                .push(self.server(&name.unwrap_or_default(), way));
        }
        if configuration.servers.is_empty() && self.config.is_empty() {
            anyhow::bail!(
                "no server is named; give --config FILE, --url URL, or a command after `--`"
            );
        }
        Ok(configuration)
    }

    fn server(&self, name: &str, way: Way) -> Server {
        Server {
            name: self.source.clone().unwrap_or_else(|| name.to_owned()),
            way,
        }
    }
}
