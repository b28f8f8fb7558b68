//! Arguments that select MCP servers: configuration files, a URL, or a command line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use picktools_import::mcp::{Configuration, Server, ServerTransport, ToolFilter};

use crate::{heading, init, live, output, reading};

/// The MCP servers of a command.
#[derive(Args)]
pub(super) struct ServerArgs {
    /// Configuration file that lists MCP servers; may be repeated.
    ///
    /// The formats of Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Cline, Roo Code, Zed,
    /// Gemini CLI, Copilot CLI, Codex, opencode and Goose are supported.
    #[arg(long, value_name = "FILE", help_heading = heading::CATALOG)]
    config: Vec<PathBuf>,
    /// URL of an MCP server that speaks streamable HTTP.
    #[arg(long, value_name = "URL", help_heading = heading::CATALOG)]
    url: Option<String>,
    /// Name of the environment variable that contains the bearer token for --url.
    #[arg(long, value_name = "NAME", requires = "url", help_heading = heading::CATALOG)]
    bearer: Option<String>,
    /// Name for the server of --url or COMMAND, used as the source of its tools.
    ///
    /// It is SOURCE in the name SOURCE/TOOL. The default is the host of the URL, or the name of the
    /// program.
    #[arg(long, value_name = "NAME", help_heading = heading::CATALOG)]
    source: Option<String>,
    /// Command that starts an MCP server, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl ServerArgs {
    /// Returns the configuration files.
    pub(super) fn files(&self) -> &[PathBuf] {
        &self.config
    }

    /// Returns `true` if a file, a URL or a command names servers.
    pub(super) fn are_named(&self) -> bool {
        !self.config.is_empty() || self.url.is_some() || !self.command.is_empty()
    }

    /// Returns all named servers.
    pub(super) fn configuration(&self) -> anyhow::Result<Configuration> {
        let mut configuration = Configuration::default();
        for (_, file) in self.each_configuration()? {
            configuration.servers.extend(file.servers);
            configuration.disabled.extend(file.disabled);
            configuration.built_in.extend(file.built_in);
            configuration.faults.extend(file.faults);
            configuration.warnings.extend(file.warnings);
        }
        Ok(configuration)
    }

    /// Returns the servers of the command line, and those of each file.
    pub(super) fn each_configuration(
        &self,
    ) -> anyhow::Result<Vec<(Option<PathBuf>, Configuration)>> {
        let mut configurations = Vec::new();
        let direct = self.direct_server()?;
        if !direct.servers.is_empty() {
            configurations.push((None, direct));
        }
        for path in &self.config {
            let text = String::from_utf8(reading::read_input(path)?)
                .with_context(|| format!("{}", path.display()))?;
            let mut file = live::configuration(path, &text)?;
            leave_gateway_out(&mut file, path);
            let scope = scope(path);
            for server in &mut file.servers {
                server.scope = Some(scope.clone());
            }
            configurations.push((Some(path.clone()), file));
        }
        Ok(configurations)
    }

    /// Returns the server of --url or of the command.
    fn direct_server(&self) -> anyhow::Result<Configuration> {
        let mut configuration = Configuration::default();
        if let Some(url) = &self.url {
            anyhow::ensure!(
                url.starts_with("https://") || url.starts_with("http://"),
                "--url: {url:?} is not an http or https URL"
            );
            let mut headers = BTreeMap::new();
            if let Some(name) = &self.bearer {
                let token = match std::env::var(name) {
                    Ok(token) if !token.is_empty() => token,
                    _ => anyhow::bail!("--bearer: the variable {name:?} is not set"),
                };
                headers.insert("Authorization".to_owned(), format!("Bearer {token}"));
            }
            let host = url
                .split("://")
                .nth(1)
                .and_then(|rest| rest.split(['/', ':']).next())
                .unwrap_or_default();
            configuration.servers.push(self.server(
                host,
                ServerTransport::Http {
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
            let way = ServerTransport::Stdio {
                command: command.clone(),
                arguments: arguments.to_vec(),
                variables: BTreeMap::new(),
                folder: None,
                inherit: Vec::new(),
            };
            configuration
                .servers
                .push(self.server(&name.unwrap_or_default(), way));
        }
        if configuration.servers.is_empty() && self.config.is_empty() {
            anyhow::bail!(
                "no MCP server is named; pass --config FILE, --url URL, or a command after `--`"
            );
        }
        Ok(configuration)
    }

    fn server(&self, name: &str, way: ServerTransport) -> Server {
        let scope = match &way {
            ServerTransport::Http { url, .. } => format!("--url {url}"),
            ServerTransport::Stdio { .. } => format!("-- {}", self.command.join(" ")),
        };
        Server {
            name: self.source.clone().unwrap_or_else(|| name.to_owned()),
            transport: way,
            tools: ToolFilter::default(),
            call_timeout: None,
            // The command line names the server itself.
            scope: Some(scope),
        }
    }
}

/// Removes the entry that starts the gateway of `init`, and says so. A gateway that starts itself
/// would never end.
fn leave_gateway_out(file: &mut Configuration, path: &Path) {
    file.servers.retain(|server| {
        let is_gateway = init::starts_gateway(server);
        if is_gateway {
            let (name, path) = (output::line(&server.name), output::line(path.display()));
            output::note(format!(
                "{name} in {path} starts the picktools gateway; it is left out"
            ));
        }
        !is_gateway
    });
}

/// Returns the name of a configuration file as a scope, whatever path leads to it.
fn scope(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    path.to_string_lossy().into_owned()
}
