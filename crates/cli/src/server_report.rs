//! Reports about MCP servers, as a table and as JSON, for `doctor`, `status` and `init`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use comfy_table::{CellAlignment, Table, presets};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_gateway::REFUSED;
use serde::{Deserialize, Serialize};

use crate::output;

/// The most findings and quarantined tools that are shown per server.
const MAX_SHOWN: usize = 5;
/// The longest shown reason, in characters.
const MAX_REASON_CHARS: usize = 300;

/// The report about one configuration.
#[derive(Debug, Serialize)]
pub(super) struct ConfigurationReport {
    /// The client, if the file is that of a known client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client: Option<&'static str>,
    /// The file, or `null` for servers of the command line.
    pub(super) file: Option<String>,
    /// `true` if the gateway of `picktools init` uses the file.
    pub(super) behind_gateway: bool,
    /// The reason why the file was not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<String>,
    pub(super) servers: Vec<ServerReport>,
}

/// The state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ServerState {
    /// It lists its tools.
    Ok,
    /// A running gateway has not asked it yet.
    Starting,
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
            Self::Starting => "starting",
            Self::Incomplete => "incomplete",
            Self::Down => "cannot be used",
            Self::Invalid => "invalid entry",
            Self::Disabled => "disabled",
            Self::BuiltIn => "part of its client",
        }
    }

    /// Returns `true` if the server has tools.
    fn has_tools(self) -> bool {
        matches!(self, Self::Ok | Self::Incomplete)
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
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ServerReport {
    pub(super) server: String,
    pub(super) state: ServerState,
    /// The reason, with the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    /// The time since when a running gateway cannot use it, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<u64>,
    /// The program, or the host of the URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<String>,
    pub(super) tools: usize,
    /// The tokens of the tools' definitions.
    pub(super) tokens: usize,
    /// The time until the tools were listed, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ms: Option<u128>,
    /// The quarantined tools, with the reasons.
    #[serde(default)]
    pub(super) quarantined: BTreeMap<String, String>,
    /// The errors and warnings of `picktools check`.
    #[serde(default)]
    pub(super) findings: Vec<String>,
    /// The members of the entry that have no effect.
    #[serde(default)]
    pub(super) warnings: Vec<String>,
}

impl ServerReport {
    pub(super) fn new(server: impl Into<String>, state: ServerState) -> Self {
        Self {
            server: server.into(),
            state,
            why: None,
            since: None,
            at: None,
            tools: 0,
            tokens: 0,
            ms: None,
            quarantined: BTreeMap::new(),
            findings: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Returns `true` if the server cannot be used, or if a quarantined tool waits for a decision.
    pub(super) fn needs_attention(&self) -> bool {
        let mut reasons = self.quarantined.values();
        self.state.is_problem() || reasons.any(|reason| !reason.ends_with(REFUSED))
    }

    fn name(&self) -> String {
        marked(&self.server, MAX_NAME_CHARS).into_owned()
    }

    fn row(&self) -> [String; 5] {
        let number = |number: usize| match self.state.has_tools() {
            true => number.to_string(),
            false => "–".to_owned(),
        };
        let mut findings = Vec::new();
        for (count, kind) in [
            (self.quarantined.len(), "quarantined"),
            (self.findings.len(), "found by check"),
            (self.warnings.len(), "ignored"),
        ] {
            if count > 0 {
                findings.push(format!("{count} {kind}"));
            }
        }
        [
            self.name(),
            number(self.tools),
            number(self.tokens),
            self.state.describe().to_owned(),
            findings.join(", "),
        ]
    }

    fn print_details(&self) -> anyhow::Result<()> {
        let mut details = Vec::new();
        if let Some(why) = &self.why {
            let since = self.since.map(age).unwrap_or_default();
            details.push(vec![format!("{}{since}", marked(why, MAX_REASON_CHARS))]);
        }
        let quarantined = self.quarantined.iter().map(|(tool, reason)| {
            let tool = marked(tool, MAX_NAME_CHARS);
            format!("quarantined: {tool} ({reason}); decide with `picktools approve`")
        });
        details.push(quarantined.collect());
        let findings = self.findings.iter();
        details.push(findings.map(|text| format!("check: {text}")).collect());
        let warnings = self.warnings.iter();
        details.push(warnings.map(|text| format!("ignored: {text}")).collect());
        let name = self.name();
        for lines in details {
            for line in output::first(lines, MAX_SHOWN, output::IN_JSON) {
                output::answer(output::line(format!("  {name}: {line}")))?;
            }
        }
        Ok(())
    }
}

/// Returns the time since a moment, as in ` (for 12 min)`.
fn age(since: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.map_or(0, |now| now.as_secs()).saturating_sub(since);
    match seconds {
        0..120 => format!(" (for {seconds} s)"),
        120..7_200 => format!(" (for {} min)", seconds / 60),
        _ => format!(" (for {} h)", seconds / 3_600),
    }
}

impl ConfigurationReport {
    pub(super) fn new(file: Option<&Path>) -> Self {
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
        match &self.problem {
            Some(problem) => output::answer(format!("  {problem}")),
            None => print_servers(&self.servers),
        }
    }
}

/// Prints the state of each server as a table, then the reasons and findings.
pub(super) fn print_servers(servers: &[ServerReport]) -> anyhow::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["server", "tools", "tokens", "state", "findings"]);
    for server in servers {
        table.add_row(server.row());
    }
    for column in [1, 2] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.to_string().lines() {
        output::answer(format!(" {}", line.trim_end()))?;
    }
    for server in servers {
        server.print_details()?;
    }
    Ok(())
}

/// Prints the state of each server of all configurations, and a summary.
pub(super) fn print_reports(reports: &[ConfigurationReport]) -> anyhow::Result<()> {
    if reports.is_empty() {
        output::answer("no MCP servers found; pass --config FILE, --url URL or a command")?;
        return Ok(());
    }
    for report in reports {
        report.print()?;
    }
    print_summary(reports.iter().flat_map(|report| &report.servers))
}

/// Prints how many servers can be used, and how much they have.
pub(super) fn print_summary<'a>(
    reports: impl Iterator<Item = &'a ServerReport>,
) -> anyhow::Result<()> {
    let (mut usable, mut servers, mut tools, mut tokens) = (0, 0, 0, 0);
    for server in reports {
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
