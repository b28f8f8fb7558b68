//! Clients whose files are read, but not edited. The change is described.

use anyhow::Context;
use picktools_import::mcp;
use picktools_import::mcp::{CommonEntry, McpConfigError};
use serde_json::{Value, json};

use super::client_report::{ClientReport, Status, printable};
use super::clients::ClientConfig;
use super::edit;
use super::entry::ARGUMENTS;
use super::summary::{ServerSummary, summarize};

/// The seconds that Goose waits for a call. Calls may take long behind the gateway, too.
const TIMEOUT_SECONDS: u64 = 300;

/// The state of a file.
struct ByHandSetup {
    has_gateway: bool,
    /// The servers that are not the gateway, as their summaries.
    servers: Vec<ServerSummary>,
}

/// Reads the entries of a file.
fn read_entries(text: &str) -> anyhow::Result<Vec<CommonEntry>> {
    match mcp::common_entries(text) {
        Ok(entries) => Ok(entries),
        Err(McpConfigError::NoServers) => Ok(Vec::new()),
        Err(error) => Err(error).context("invalid configuration"),
    }
}

fn read_setup(text: &str, place: &ClientConfig) -> anyhow::Result<ByHandSetup> {
    let mut setup = ByHandSetup {
        has_gateway: false,
        servers: Vec::new(),
    };
    for entry in &read_entries(text)? {
        let is_server = ["command", "url"]
            .iter()
            .any(|member| entry.members.contains_key(*member));
        if edit::is_gateway(entry, place) {
            setup.has_gateway = true;
        } else if is_server {
            setup.servers.push(summarize(entry));
        }
    }
    Ok(setup)
}

/// Describes how to put the gateway in front of the servers of a file.
pub(super) fn plan(
    text: &str,
    place: &ClientConfig,
    program: &str,
    report: &mut ClientReport,
) -> anyhow::Result<()> {
    let setup = read_setup(text, place)?;
    let is_empty = !setup.servers.iter().any(|server| !server.disabled);
    report.servers = setup.servers;
    report.status = match (setup.has_gateway, is_empty) {
        (true, _) => Status::Already,
        (false, true) => Status::NoServers,
        (false, false) => Status::ByHand,
    };
    if report.status != Status::ByHand {
        return Ok(());
    }
    let (command, path) = place.gateway_command(program)?;
    report.message = Some(format!(
        "the file is YAML, which picktools does not edit; move the servers, below the key \
         `{}`, to {} and add the new entry by hand",
        place.client.member,
        printable(&place.upstreams)
    ));
    report.entry = Some(entry(place, command, &path));
    Ok(())
}

/// Returns the gateway's entry for Goose. JSON is valid in YAML.
fn entry(place: &ClientConfig, program: &str, upstreams: &str) -> Value {
    json!({
        "enabled": true,
        "type": "stdio",
        "name": place.entry,
        "description": "The tools of all servers behind the picktools gateway",
        "cmd": program,
        "args": [ARGUMENTS[0], ARGUMENTS[1], upstreams],
        "envs": {},
        "timeout": TIMEOUT_SECONDS,
    })
}

/// Describes how to remove the gateway from a file.
pub(super) fn plan_undo(
    text: &str,
    place: &ClientConfig,
    report: &mut ClientReport,
) -> anyhow::Result<()> {
    let entries = read_entries(text)?;
    if !entries
        .iter()
        .any(|entry| edit::is_own_gateway(entry, place))
    {
        report.status = Status::NotBehind;
        return Ok(());
    }
    report.status = Status::ByHand;
    report.message = Some(format!(
        "the file is YAML, which picktools does not edit; remove the entry {:?} by hand, and move \
         the servers back from {}",
        place.entry,
        printable(&place.upstreams)
    ));
    Ok(())
}
