//! `picktools doctor`: the state of every configured MCP server, with the reasons and the remedies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use picktools::CatalogOptions;
use picktools::catalog::{CatalogFile, Conflicts};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_check::{CheckReport, Severity};
use picktools_gateway::{Pins, Settings};
use picktools_import::mcp::{Configuration, McpConfigError, Server, ServerFault, ServerTransport};
use picktools_mcp::{Limits, Listing};
use picktools_provider::Tokenizer;
use serde::Serialize;
use serde_json::json;

use crate::init::{self, InstalledConfig};
use crate::live;
use crate::servers::ServerArgs;
use crate::store_args::StoreArgs;
use crate::{heading, mcp, output, reading};

/// The most findings and quarantined tools that are shown per server.
const MAX_SHOWN: usize = 5;
/// The longest shown name and reason, in characters.
const MAX_REASON_CHARS: usize = 300;

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

/// The report about one configuration.
#[derive(Debug, Serialize)]
struct ConfigurationReport {
    /// The client, if the file is that of a known client.
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'static str>,
    /// The file, or `null` for servers of the command line.
    file: Option<String>,
    /// `true` if the gateway of `picktools init` uses the file.
    behind_gateway: bool,
    /// The reason why the file was not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    servers: Vec<ServerReport>,
}

/// The state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ServerState {
    /// It lists its tools.
    Ok,
    /// Some of its tools are missing.
    Incomplete,
    /// It cannot be used.
    Down,
    /// Its entry cannot be used.
    Invalid,
    /// Its entry is switched off.
    Disabled,
    /// It runs inside its client, and is no MCP server.
    BuiltIn,
}

impl ServerState {
    fn describe(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Incomplete => "incomplete",
            Self::Down => "cannot be used",
            Self::Invalid => "invalid entry",
            Self::Disabled => "disabled",
            Self::BuiltIn => "part of its client",
        }
    }

    /// Returns `true` if someone must act.
    fn is_problem(self) -> bool {
        self.is_used() && self != Self::Ok
    }

    /// Returns `true` if the entry is to give tools.
    fn is_used(self) -> bool {
        !matches!(self, Self::Disabled | Self::BuiltIn)
    }
}

/// The report about one server.
#[derive(Debug, Serialize)]
struct ServerReport {
    server: String,
    state: ServerState,
    /// The reason, with the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// The program, or the host of the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    tools: usize,
    /// The tokens of the tools' definitions.
    tokens: usize,
    /// The time until the tools were listed, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<u128>,
    /// The quarantined tools, with the reasons.
    quarantined: BTreeMap<String, String>,
    /// `true` if a quarantined tool waits for a decision; others were refused.
    #[serde(skip)]
    is_waiting: bool,
    /// The errors that `picktools check` finds.
    findings: Vec<String>,
    /// The members of the entry that have no effect.
    warnings: Vec<String>,
}

impl ServerReport {
    fn new(server: impl Into<String>, state: ServerState) -> Self {
        Self {
            server: server.into(),
            state,
            why: None,
            at: None,
            tools: 0,
            tokens: 0,
            ms: None,
            quarantined: BTreeMap::new(),
            is_waiting: false,
            findings: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn needs_attention(&self) -> bool {
        self.state.is_problem() || self.is_waiting
    }
}

/// Checks the servers of these files, and prints the state of each.
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
    print_reports(&reports)
}

/// What servers are checked against.
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

impl ConfigurationReport {
    fn new(file: Option<&Path>) -> Self {
        Self {
            client: None,
            file: file.map(|file| output::line(file.display())),
            behind_gateway: false,
            problem: None,
            servers: Vec::new(),
        }
    }

    fn print(&self) -> anyhow::Result<()> {
        let mut title = match (&self.file, self.client) {
            (Some(file), Some(client)) => format!("{client}: {file}"),
            (Some(file), None) => file.clone(),
            (None, _) => "command line".to_owned(),
        };
        if self.behind_gateway {
            title.push_str(" (servers of the gateway)");
        }
        output::answer(title)?;
        if let Some(problem) = &self.problem {
            return output::answer(format!("  {problem}"));
        }
        let name = |report: &ServerReport| marked(&report.server, MAX_NAME_CHARS).into_owned();
        let width = self
            .servers
            .iter()
            .map(|report| name(report).chars().count())
            .max()
            .unwrap_or_default();
        for report in &self.servers {
            let mut line = format!("  {:width$}  {}", name(report), report.state.describe());
            if matches!(report.state, ServerState::Ok | ServerState::Incomplete) {
                let (tools, tokens) = (report.tools, report.tokens);
                line.push_str(&format!(": {tools} tools, {tokens} tokens"));
            }
            if let Some(why) = &report.why {
                line.push_str(&format!(": {}", marked(why, MAX_REASON_CHARS)));
            }
            output::answer(line)?;
            report.print_details()?;
        }
        Ok(())
    }
}

impl ServerReport {
    fn print_details(&self) -> anyhow::Result<()> {
        let quarantined = self.quarantined.iter().map(|(tool, reason)| {
            let tool = marked(tool, MAX_NAME_CHARS);
            format!("    quarantined: {tool} ({reason}); decide with `picktools approve`")
        });
        let findings = self.findings.iter();
        let findings = findings.map(|finding| format!("    check: {finding}"));
        let warnings = self.warnings.iter();
        let warnings = warnings.map(|warning| format!("    ignored: {warning}"));
        for lines in [
            quarantined.collect::<Vec<_>>(),
            findings.collect(),
            warnings.collect(),
        ] {
            for line in output::first(lines, MAX_SHOWN, output::IN_JSON) {
                let is_count = line.starts_with('…');
                let indent = if is_count { "    " } else { "" };
                output::answer(format!("{indent}{line}"))?;
            }
        }
        Ok(())
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
            "not checked, because the project names its programs; pass --config {}",
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
        let answers = live::ask_each(servers, async |server: &Server| {
            let started = Instant::now();
            let listing = picktools_mcp::list(server, &|name| std::env::var_os(name), limits).await;
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
                    files.push(CatalogFile::from_server(&server.name, &tools));
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
                let mut reason = definition.reason.to_string();
                if definition.denied {
                    reason.push_str(", refused");
                }
                report.is_waiting |= !definition.denied;
                report.quarantined.insert(tool, reason);
            }
            reports.push(report);
        }
        add_findings(&files, &mut reports)?;
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

/// Prints the state of each server, and a summary.
fn print_reports(reports: &[ConfigurationReport]) -> anyhow::Result<()> {
    if reports.is_empty() {
        output::answer("no MCP servers found; pass --config FILE, --url URL or a command")?;
        return Ok(());
    }
    for report in reports {
        report.print()?;
    }
    let (mut usable, mut servers, mut tools, mut tokens) = (0, 0, 0, 0);
    for server in reports.iter().flat_map(|report| &report.servers) {
        if !server.state.is_used() {
            continue;
        }
        servers += 1;
        usable += usize::from(!server.state.is_problem());
        tools += server.tools;
        tokens += server.tokens;
    }
    output::answer(format!(
        "{usable} of {servers} servers can be used: {tools} tools, {tokens} \
         tokens of definitions"
    ))
}

/// Adds the errors that `check` finds in the listed tools.
fn add_findings(files: &[CatalogFile], reports: &mut [ServerReport]) -> anyhow::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let options = CatalogOptions {
        conflicts: Conflicts::Warn,
        ..CatalogOptions::default()
    };
    for finding in CheckReport::read_files(files, &options)?.findings {
        if finding.severity != Severity::Error {
            continue;
        }
        let Some(tool) = &finding.tool else { continue };
        let of_tool = |report: &&mut ServerReport| {
            let rest = tool.strip_prefix(&report.server);
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        if let Some(report) = reports.iter_mut().find(of_tool) {
            let (code, message) = (finding.code, &finding.message);
            report
                .findings
                .push(output::line(format!("{tool}: {code}: {message}")));
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
