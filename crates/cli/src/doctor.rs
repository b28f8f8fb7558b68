//! `picktools doctor`: the state of every configured MCP server, with the reasons and the remedies.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use picktools::CatalogOptions;
use picktools::catalog::{CatalogFile, Conflicts};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_check::{CheckReport, Severity};
use picktools_gateway::{Pins, Settings, front};
use picktools_import::mcp::{Configuration, McpConfigError, Server, ServerFault, ServerTransport};
use picktools_mcp::{Limits, Listing};
use picktools_provider::Tokenizer;
use serde_json::json;

use crate::init::{self, InstalledConfig};
use crate::live;
use crate::server_report::{ConfigurationReport, ServerReport, ServerState, print_reports};
use crate::servers::ServerArgs;
use crate::store_args::StoreArgs;
use crate::{heading, mcp, output, reading};

const EXAMPLES: &str = "\
Examples:
  picktools doctor
  picktools doctor --config .mcp.json --json";

/// Check configured MCP servers, and print the state of each.
///
/// The command starts or contacts each server and lists its tools. Without --config, --url or
/// COMMAND, it checks the servers in the files of your clients (the files that `picktools init`
/// finds) and the servers that `init` has moved. The files in a project folder, such as
/// `.mcp.json`, are checked only if --config names them.
///
/// The exit code is 0 if all servers can be used and no definition waits for approval, and else 1.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct DoctorCommand {
    #[command(flatten)]
    servers: ServerArgs,
    /// Timeout in milliseconds for each MCP server to connect and list its tools.
    #[arg(long, value_name = "MS", default_value_t = 30_000,
        value_parser = clap::value_parser!(u64).range(1..), help_heading = heading::CATALOG)]
    server_timeout_ms: u64,
    /// Settings file of the gateway, whose overrides of tools are checked.
    ///
    /// An override of a tool that its server does not have is reported.
    #[arg(long, value_name = "FILE", help_heading = heading::GATEWAY)]
    settings: Option<PathBuf>,
    /// Folder with approved and quarantined definitions, in its subfolder `gateway`.
    ///
    /// The default is the data folder of picktools, such as ~/.local/share/picktools on Linux. With
    /// --store, they are in the store.
    #[arg(long, value_name = "FOLDER", help_heading = heading::GATEWAY)]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

/// Checks the servers of these files that gateways read. Prints the state of each, and the tokens
/// that the gateways save.
pub(super) fn check_files(files: &[PathBuf]) -> anyhow::Result<()> {
    let state = mcp::state_folder(None)?;
    let (pins, _) = mcp::approvals(None, &state)?;
    let mut reports = Vec::new();
    for file in files {
        let mut report = ConfigurationReport::new(Some(file));
        report.behind_gateway = true;
        let checks = Checks {
            pins: &pins,
            settings: &Settings::default(),
            limits: Limits::default(),
        };
        report.servers = checks.run(&open_configuration(file)?)?;
        reports.push(report);
    }
    print_reports(&reports)?;
    let mut saved = 0;
    let mut has_tools = false;
    for report in &reports {
        let (mut sources, mut tools, mut tokens) = (Vec::new(), 0, 0);
        for server in &report.servers {
            if server.tools > 0 {
                sources.push(server.server.clone());
            }
            tools += server.tools;
            tokens += server.tokens;
        }
        has_tools |= tools > 0;
        saved += front::saved_tokens(&sources, tools, tokens);
    }
    if !has_tools {
        return Ok(());
    }
    output::answer(match saved {
        0 => "the servers have few tools, so the gateway lists all of them directly".to_owned(),
        _ => format!("the gateway saves {saved} of these tokens in each conversation"),
    })
}

/// The approvals, settings and limits for the check of servers.
struct Checks<'a> {
    pins: &'a Pins,
    settings: &'a Settings,
    limits: Limits,
}

impl DoctorCommand {
    fn limits(&self) -> Limits {
        Limits {
            time: Duration::from_millis(self.server_timeout_ms),
            ..Limits::default()
        }
    }

    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let state = mcp::state_folder(self.state_dir.as_deref())?;
        let (pins, _) = mcp::approvals(self.store.open()?.as_ref(), &state)?;
        let settings = match &self.settings {
            Some(path) => mcp::read_settings(path)?,
            None => Settings::default(),
        };
        let checks = Checks {
            pins: &pins,
            settings: &settings,
            limits: self.limits(),
        };
        let mut reports = Vec::new();
        if self.servers.are_named() {
            for (file, configuration) in self.servers.each_configuration()? {
                let mut report = ConfigurationReport::new(file.as_deref());
                report.servers = checks.run(&configuration)?;
                reports.push(report);
            }
        } else {
            for config in init::installed_configs()? {
                let report = check_installed(&config, &checks)?;
                reports.extend(report);
            }
        }
        self.print(&reports)?;
        let needs_attention = reports.iter().any(|report| {
            report.problem.is_some() || report.servers.iter().any(ServerReport::needs_attention)
        });
        Ok(ExitCode::from(u8::from(needs_attention)))
    }

    fn print(&self, reports: &[ConfigurationReport]) -> anyhow::Result<()> {
        if self.json {
            return output::json(&json!({"version": 1, "configurations": reports}));
        }
        print_reports(reports)
    }
}

/// Checks the servers of a client's file, or of the file behind its gateway. Returns `None` if
/// it has none.
fn check_installed(
    config: &InstalledConfig,
    checks: &Checks<'_>,
) -> anyhow::Result<Option<ConfigurationReport>> {
    let mut report = ConfigurationReport::new(Some(&config.file));
    report.client = Some(config.title);
    report.behind_gateway = config.behind_gateway;
    let mut configuration = match open_configuration(&config.file) {
        Ok(configuration) => configuration,
        Err(error) => {
            let kind = error.downcast_ref::<McpConfigError>();
            if kind == Some(&McpConfigError::NoServers) {
                return Ok(None);
            }
            report.problem = Some(output::line(format!("{error:#}")));
            return Ok(Some(report));
        }
    };
    configuration
        .servers
        .retain(|server| !init::starts_gateway(server));
    if configuration.servers.is_empty()
        && configuration.faults.is_empty()
        && configuration.disabled.is_empty()
    {
        return Ok(None);
    }
    if config.is_project {
        // Its commands come from the authors of the project.
        report.problem = Some(format!(
            "not checked: the project's file decides which programs start; to check it, pass \
             --config {}",
            config.file.display()
        ));
        return Ok(Some(report));
    }
    report.servers = checks.run(&configuration)?;
    Ok(Some(report))
}

impl Checks<'_> {
    /// Asks all servers of a configuration.
    fn run(&self, configuration: &Configuration) -> anyhow::Result<Vec<ServerReport>> {
        let Self {
            pins,
            settings,
            limits,
        } = self;
        let servers = &configuration.servers;
        let cache = live::cache();
        let answers = live::ask_each(servers, async |server: &Server| {
            let started = Instant::now();
            let environment = |name: &str| std::env::var_os(name);
            let listing = picktools_mcp::list(server, &environment, limits, cache.as_ref()).await;
            (listing, started.elapsed().as_millis())
        })?;
        let mut reports = Vec::new();
        let mut files = Vec::new();
        for (server, (listing, ms)) in servers.iter().zip(answers) {
            let mut report = ServerReport::new(&server.name, ServerState::Ok);
            report.at = Some(program_or_host(server));
            report.ms = Some(ms);
            match listing {
                Ok(Listing {
                    tools, incomplete, ..
                }) => {
                    report.tools = tools.len();
                    let names = tools.iter().filter_map(|tool| tool.get("name")?.as_str());
                    for tool in settings.unknown_overrides(&server.name, &names.collect()) {
                        report.warnings.push(output::line(format!(
                            "the settings override the tool {tool:?}; the server has no such tool"
                        )));
                    }
                    report.tokens = Tokenizer::O200k.count(&json!(tools).to_string());
                    files.push(CatalogFile::from_server(&server.name, &*tools));
                    if let Some(reason) = incomplete {
                        report.state = ServerState::Incomplete;
                        report.why = Some(output::line(reason));
                    }
                }
                Err(error) => {
                    report.state = ServerState::Down;
                    report.why = Some(output::line(live::describe(&error)));
                }
            }
            for (tool, definition) in pins.quarantined_of(server)? {
                report
                    .quarantined
                    .insert(tool, definition.describe_reason());
            }
            reports.push(report);
        }
        add_findings(&files, settings, &mut reports)?;
        for ServerFault {
            server,
            message,
            remedy,
            ..
        } in &configuration.faults
        {
            let mut report = ServerReport::new(server, ServerState::Invalid);
            report.why = Some(output::line(format!("{message}; {remedy}")));
            reports.push(report);
        }
        for name in &configuration.disabled {
            reports.push(ServerReport::new(name, ServerState::Disabled));
        }
        for name in &configuration.built_in {
            reports.push(ServerReport::new(name, ServerState::BuiltIn));
        }
        for warning in &configuration.warnings {
            let of_server = |report: &&mut ServerReport| report.server == warning.server;
            if let Some(report) = reports.iter_mut().find(of_server) {
                let text = format!("{}; {}", warning.message, warning.remedy);
                report.warnings.push(output::line(text));
            }
        }
        Ok(reports)
    }
}

/// Adds the errors and warnings that `check` finds in the listed tools.
fn add_findings(
    files: &[CatalogFile],
    settings: &Settings,
    reports: &mut [ServerReport],
) -> anyhow::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let options = CatalogOptions {
        conflicts: Conflicts::Warn,
        allow_no_schema: settings.allow_no_schema,
        ..CatalogOptions::default()
    };
    for finding in CheckReport::read_files(files, &options)?.findings {
        if finding.severity < Severity::Warning {
            continue;
        }
        let Some(tool) = &finding.tool else { continue };
        let of_tool = |report: &&mut ServerReport| {
            let rest = tool.strip_prefix(&report.server);
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        if let Some(report) = reports.iter_mut().find(of_tool) {
            let summary = finding.summary();
            report
                .findings
                .push(output::line(format!("{tool}: {summary}")));
        }
    }
    Ok(())
}

/// Reads a configuration file.
fn open_configuration(path: &Path) -> anyhow::Result<Configuration> {
    let text = String::from_utf8(reading::read_input(path)?)
        .map_err(|_| anyhow::anyhow!("the file is not valid UTF-8; save it as UTF-8"))?;
    live::configuration(path, &text)
}

/// Returns the program of a server, or the host of its URL, without arguments and keys.
fn program_or_host(server: &Server) -> String {
    let shown = match &server.transport {
        ServerTransport::Stdio { command, .. } => command.as_str(),
        ServerTransport::Http { url, .. } => {
            let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            host.rsplit('@').next().unwrap_or_default()
        }
    };
    marked(shown, MAX_NAME_CHARS).into_owned()
}
