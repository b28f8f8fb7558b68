//! The plan of `init` for the servers of a client's file: which move behind the gateway, and which
//! stay for what reason. Summaries of servers have no secrets.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_gateway::name_fault;
use picktools_import::mcp;
use picktools_import::mcp::{
    CommonEntry, ConfigEnvironment, Configuration, McpConfigError, ServerFault, ServerTransport,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::clients::{CODEX, ClientConfig, McpClient, Scope, ServersPlace};
use super::document;
use super::entry::{ARGUMENTS, ENTRY};
use super::server_texts::{GatewayEntry, ServerText};
use super::summary::{ServerSummary, difference, relative_member, summarize};
/// The reason why a server of the same name as a moved one stays.
const SAME_NAME: &str = "the gateway already has a server of this name; rename one of them";
/// A placeholder for the value of every variable, valid as a URL and as a program. Real values are
/// never read.
const ANY_VALUE: &str = "https://variable";

/// The MCP configuration of a client's file.
#[derive(Debug)]
pub(super) enum ClientSetup {
    /// No servers.
    Empty,
    /// The gateway's entry, and servers that stay.
    Gateway(Vec<StayingServer>),
    Servers(ServerBlock),
}

/// The servers of a client's file.
#[derive(Debug)]
pub(super) struct ServerBlock {
    /// The file of the servers that are behind the gateway already, if the client's file has the
    /// gateway's entry.
    pub(super) moved: Option<String>,
    /// The name of the gateway's entry, if the file has it already.
    pub(super) gateway: Option<String>,
    moving: Vec<ServerText>,
    /// A file with all servers, if all of them move.
    complete: Option<String>,
    pub(super) summaries: Vec<ServerSummary>,
    pub(super) staying: Vec<StayingServer>,
    /// Warnings about members of the moving entries that have no effect.
    pub(super) warnings: Vec<String>,
    /// The variables that the moving servers refer to.
    pub(super) variables: BTreeSet<String>,
}

/// A server that stays in the client's file, because the gateway could not run it as the client
/// does.
#[derive(Debug, Serialize)]
pub(super) struct StayingServer {
    pub(super) name: String,
    pub(super) reason: String,
}

/// The entries of a client's file, in its notation and in the common form.
struct ClientServers {
    texts: Vec<ServerText>,
    entries: Vec<CommonEntry>,
    file: String,
}

impl ClientServers {
    /// Reads the servers of a file, or returns `None` if it has no member for them.
    fn from_text(text: &str, place: ServersPlace<'_>) -> anyhow::Result<Option<Self>> {
        let Some(texts) = document::server_texts(text, place)? else {
            return Ok(None);
        };
        let entries = match texts.entries.is_empty() {
            true => Vec::new(),
            false => mcp::common_entries(&texts.file).map_err(invalid)?,
        };
        Ok(Some(Self {
            texts: texts.entries,
            entries,
            file: texts.file,
        }))
    }

    /// Returns the entry that starts the gateway.
    fn gateway(&self, place: &ClientConfig) -> Option<&CommonEntry> {
        self.entries.iter().find(|entry| is_gateway(entry, place))
    }
}

fn invalid(error: McpConfigError) -> anyhow::Error {
    match error {
        McpConfigError::Syntax(error) => anyhow!("invalid syntax: {error}"),
        other => other.into(),
    }
}

/// Finds the servers of a client in the text of its file. `moved` is the text of the servers that
/// are behind its gateway already.
pub(super) fn find(
    text: &str,
    place: &ClientConfig,
    moved: Option<String>,
) -> anyhow::Result<ClientSetup> {
    let Some(servers) = ClientServers::from_text(text, place.servers())? else {
        return Ok(ClientSetup::Empty);
    };
    if servers.entries.is_empty() {
        return Ok(ClientSetup::Empty);
    }
    let gateway = servers.gateway(place).map(|entry| entry.name.clone());
    let moved = moved.filter(|_| gateway.is_some());
    let mut moved_names = BTreeSet::new();
    for server in moved_servers(moved.as_deref(), place.client)? {
        moved_names.insert(server.name);
    }
    let ServerCheck { faults, .. } = check(&servers.file)?;
    let mut block = ServerBlock {
        moved,
        gateway,
        moving: Vec::new(),
        complete: None,
        summaries: Vec::new(),
        staying: Vec::new(),
        warnings: Vec::new(),
        variables: BTreeSet::new(),
    };
    for (server, entry) in servers.texts.iter().zip(&servers.entries) {
        if is_gateway(entry, place) {
            continue;
        }
        let shown = marked(&server.name, MAX_NAME_CHARS);
        let fault = faults.iter().find(|fault| fault.server == shown);
        let reason = match fault {
            Some(fault) => Some(format!("{}; {}", fault.message, fault.remedy)),
            None if place.scope == Scope::User => relative_member(entry),
            None => None,
        };
        let reason = reason.or_else(|| difference(entry, &server.text, place.client));
        let reason = reason.or_else(|| name_fault(&server.name).map(str::to_owned));
        let is_moved = moved_names.contains(&server.name);
        let reason = reason.or_else(|| is_moved.then(|| SAME_NAME.to_owned()));
        match reason {
            Some(reason) => {
                let name = shown.into_owned();
                block.staying.push(StayingServer { name, reason });
            }
            None => {
                block.moving.push(server.clone());
                block.summaries.push(summarize(entry));
            }
        }
    }
    block.finish(place, servers.file)
}

impl ServerBlock {
    /// Checks that something can move, and completes what is known about the moving servers.
    /// `file` is a file with all servers.
    fn finish(mut self, place: &ClientConfig, file: String) -> anyhow::Result<ClientSetup> {
        // The new entry must not hide a server of the user.
        let is_entry = |server: &StayingServer| server.name == place.entry;
        if self.gateway.is_none() && self.staying.iter().any(is_entry) {
            bail!(
                "a server that stays has the name {:?}, which the gateway's entry needs; rename it",
                place.entry
            );
        }
        if self.moving.is_empty() && self.gateway.is_some() {
            return Ok(ClientSetup::Gateway(self.staying));
        }
        if self.moving.is_empty() {
            let reasons: Vec<String> = self
                .staying
                .iter()
                .map(|server| format!("{}: {}", server.name, server.reason))
                .collect();
            bail!(
                "no server can move behind the gateway: {}",
                reasons.join("; ")
            );
        }
        let ServerCheck {
            warnings,
            variables,
            ..
        } = check(&document::servers_file(place.client, &self.moving_texts()))?;
        self.warnings = warnings.iter().map(ToString::to_string).collect();
        self.variables = variables;
        if self.staying.is_empty() && self.gateway.is_none() {
            self.complete = Some(file);
        }
        Ok(ClientSetup::Servers(self))
    }

    fn moving_texts(&self) -> Vec<&str> {
        self.moving
            .iter()
            .map(|server| server.text.as_str())
            .collect()
    }

    /// Returns the file that the gateway reads: the unchanged text of the moving servers, with names
    /// of variables, after those that were moved before.
    pub(super) fn upstreams(&self, client: &'static McpClient) -> anyhow::Result<String> {
        if let Some(file) = &self.complete {
            return Ok(file.clone());
        }
        let moved = moved_servers(self.moved.as_deref(), client)?;
        let mut entries: Vec<&str> = moved.iter().map(|server| server.text.as_str()).collect();
        entries.extend(self.moving_texts());
        Ok(document::servers_file(client, &entries))
    }

    /// Returns the client's file with the gateway's entry in place of the moving servers.
    pub(super) fn replaced(
        &self,
        text: &str,
        place: &ClientConfig,
        entry: &Value,
    ) -> anyhow::Result<String> {
        let moving = self.moving.iter().map(|server| server.name.as_str());
        let gateway = match &self.gateway {
            Some(name) => GatewayEntry::Existing {
                name,
                variables: &self.variables,
            },
            None => GatewayEntry::New {
                name: place.entry,
                entry,
            },
        };
        document::replaced(text, place.servers(), &moving.collect(), gateway)
    }

    /// Returns the gateway's entry.
    pub(super) fn entry(&self, client: &McpClient, program: &str, upstreams: &str) -> Value {
        let mut entry = entry(client, program, upstreams);
        if client.name == CODEX.name && !self.variables.is_empty() {
            // Codex passes no other variables to its servers.
            entry["env_vars"] = json!(self.variables);
        }
        entry
    }
}

/// Returns the servers of the file that the gateway reads, or none without a file.
fn moved_servers(
    text: Option<&str>,
    client: &'static McpClient,
) -> anyhow::Result<Vec<ServerText>> {
    let Some(text) = text else {
        return Ok(Vec::new());
    };
    let place = ServersPlace {
        client,
        inside: &[],
    };
    let texts = document::server_texts(text, place).context("the file of the moved servers")?;
    Ok(texts.map(|texts| texts.entries).unwrap_or_default())
}

/// Returns the client's file with the servers behind the gateway in place of the gateway's entry.
/// Everything else stays, also what was added or changed since. Returns `None` if the file has no
/// such entry.
pub(super) fn restored(
    text: &str,
    place: &ClientConfig,
    moved: &str,
) -> anyhow::Result<Option<String>> {
    let Some(servers) = ClientServers::from_text(text, place.servers())? else {
        return Ok(None);
    };
    let is_own = |entry: &&CommonEntry| is_own_gateway(entry, place);
    let Some(gateway) = servers.entries.iter().find(is_own) else {
        return Ok(None);
    };
    let mut moved = moved_servers(Some(moved), place.client)?;
    // A server that the user entered again is newer.
    moved.retain(|server| !servers.texts.iter().any(|own| own.name == server.name));
    document::restored(text, place.servers(), &gateway.name, &moved).map(Some)
}

/// Returns `true` if a file has the entry that `init` wrote, and not one of the user's own.
pub(super) fn has_gateway(text: &str, place: &ClientConfig) -> anyhow::Result<bool> {
    let servers = ClientServers::from_text(text, place.servers())?;
    let entries = servers.map(|servers| servers.entries).unwrap_or_default();
    Ok(entries.iter().any(|entry| is_own_gateway(entry, place)))
}

/// Returns the gateway's entry, without variables.
pub(super) fn entry(client: &McpClient, program: &str, upstreams: &str) -> Value {
    let mut entry = json!({});
    for (key, value) in client.extra_members {
        entry[key] = value.to_json();
    }
    let mut arguments = vec![ARGUMENTS[0], ARGUMENTS[1], upstreams];
    if client.has_command_list {
        arguments.insert(0, program);
        entry["command"] = json!(arguments);
    } else {
        entry["command"] = json!(program);
        entry["args"] = json!(arguments);
    }
    entry
}

/// Returns the argument of an entry with this index.
fn argument(entry: &CommonEntry, index: usize) -> Option<&str> {
    entry.members.get("args")?.get(index)?.as_str()
}

/// Returns `true` for an entry that starts the gateway.
pub(super) fn is_gateway(entry: &CommonEntry, place: &ClientConfig) -> bool {
    // Files of earlier versions have the same name in each scope.
    [ENTRY, place.entry].contains(&entry.name.as_str())
        && ARGUMENTS
            .iter()
            .enumerate()
            .all(|(index, &expected)| argument(entry, index) == Some(expected))
}

/// Returns `true` for an entry that starts the gateway with the file of this place.
pub(super) fn is_own_gateway(entry: &CommonEntry, place: &ClientConfig) -> bool {
    let expected = place.gateway_command("");
    is_gateway(entry, place)
        && argument(entry, ARGUMENTS.len()).is_some_and(|path| {
            Path::new(path) == place.upstreams
                || expected.is_ok_and(|(_, expected)| path == expected)
        })
}

/// The servers of a file as the gateway would read them.
struct ServerCheck {
    /// The servers that it could not run.
    faults: Vec<ServerFault>,
    /// The members that it would ignore.
    warnings: Vec<ServerFault>,
    /// The variables that the servers refer to.
    variables: BTreeSet<String>,
}

/// Reads a file with servers as the gateway would.
fn check(file: &str) -> anyhow::Result<ServerCheck> {
    let variables = RefCell::new(BTreeSet::new());
    let variable = |name: &str| {
        let is_name =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            return None;
        }
        variables.borrow_mut().insert(name.to_owned());
        Some(ANY_VALUE.to_owned())
    };
    let surroundings = ConfigEnvironment {
        variable: &variable,
        folder: Path::new(""),
        read: &|_| Ok(String::new()),
    };
    let Configuration {
        servers,
        faults,
        warnings,
        ..
    } = mcp::parse_configuration(file, &surroundings).map_err(invalid)?;
    let mut variables = variables.into_inner();
    for server in servers {
        if let ServerTransport::Stdio { inherit, .. } = server.transport {
            variables.extend(inherit);
        }
    }
    Ok(ServerCheck {
        faults,
        warnings,
        variables,
    })
}
