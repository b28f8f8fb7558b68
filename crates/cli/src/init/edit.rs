//! Edits of a client's file: finds its servers, summarises them without secrets, checks them, and
//! replaces them by the gateway's entry. Bytes outside the servers' object stay unchanged.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use anyhow::{anyhow, bail, ensure};
use jsonc_parser::ast::{Object, ObjectProp, Value as Node};
use jsonc_parser::{CollectOptions, ParseOptions};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_import::mcp;
use picktools_import::mcp::{ConfigEnvironment, Configuration, McpConfigError, ServerFault};
use serde::Serialize;
use serde_json::{Value, json};

use super::places::{GEMINI, McpClient, Scope};

/// The name of the gateway's entry.
pub(super) const ENTRY: &str = "picktools";
/// The arguments that start the gateway, followed by the file of its servers.
pub(super) const ARGUMENTS: [&str; 2] = ["mcp", "--config"];
/// A placeholder for the value of every variable, valid as a URL and as a program. Real values are
/// never read.
const ANY_VALUE: &str = "https://variable";

/// The MCP configuration of a client's file.
#[derive(Debug)]
pub(super) enum ClientSetup {
    /// No servers.
    Empty,
    /// Only the gateway's entry.
    Gateway,
    Servers(ServerBlock),
}

/// The servers of a client's file.
#[derive(Debug)]
pub(super) struct ServerBlock {
    /// The position of their object in the text.
    range: Range<usize>,
    /// The positions of the entries that move.
    moving: Vec<Range<usize>>,
    pub(super) summaries: Vec<ServerSummary>,
    /// The positions of the entries that stay.
    kept: Vec<Range<usize>>,
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

/// The summary of a server, without secrets: no arguments, variables or headers. Of an address it
/// contains only the host, of a command line only the program.
#[derive(Debug, Serialize)]
pub(super) struct ServerSummary {
    pub(super) name: String,
    /// The program or the address.
    pub(super) at: String,
    pub(super) disabled: bool,
}

/// Finds the servers of a client in the text of its file.
pub(super) fn find(
    text: &str,
    client: &McpClient,
    scope: Scope,
    upstreams: &Path,
) -> anyhow::Result<ClientSetup> {
    // Ranges refer to the text after the byte order mark.
    let mark = text.len() - text.trim_start_matches('\u{feff}').len();
    let text = &text[mark..];
    ensure!(!text.trim().is_empty(), "the file is empty");
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &strict())
        .map_err(|error| anyhow!("invalid JSON: {error}"))?;
    let Some(Node::Object(root)) = parsed.value else {
        bail!("the file is not a JSON object")
    };
    let mut members = root
        .properties
        .iter()
        .filter(|property| property.name.as_str() == client.member);
    let Some(member) = members.next() else {
        return Ok(ClientSetup::Empty);
    };
    ensure!(
        members.next().is_none(),
        "duplicate key `{}`; remove one of them",
        client.member
    );
    let Node::Object(servers) = &member.value else {
        bail!("`{}` is not an object", client.member)
    };
    if servers.properties.is_empty() {
        return Ok(ClientSetup::Empty);
    }
    if servers.properties.iter().any(is_gateway) {
        let mut others = Vec::new();
        for entry in &servers.properties {
            if !is_gateway(entry) {
                others.push(entry.name.as_str());
            }
        }
        if others.is_empty() {
            return Ok(ClientSetup::Gateway);
        }
        let (names, file) = (others.join(", "), upstreams.display());
        bail!(
            "the file has other servers besides picktools ({names}); move them to {file}, or run \
             with --undo first"
        );
    }
    let slice = |range: &jsonc_parser::common::Range| &text[range.start..range.end];
    let (faults, _, _) = check(slice(&servers.range))?;
    let mut block = ServerBlock {
        range: mark + servers.range.start..mark + servers.range.end,
        moving: Vec::new(),
        summaries: Vec::new(),
        kept: Vec::new(),
        staying: Vec::new(),
        warnings: Vec::new(),
        variables: BTreeSet::new(),
    };
    let mut moving_texts = Vec::new();
    for server in &servers.properties {
        let name = server.name.as_str();
        let shown = marked(name, MAX_NAME_CHARS);
        let fault = faults.iter().find(|fault| fault.server == shown);
        let reason = match fault {
            Some(fault) => Some(format!("{}; {}", fault.message, fault.remedy)),
            None if scope == Scope::User => relative_member(server, text),
            None => None,
        };
        let reason = reason.or_else(|| difference(server, slice(&server.range), client));
        let range = mark + server.range.start..mark + server.range.end;
        match reason {
            Some(reason) => {
                block.kept.push(range);
                let name = shown.into_owned();
                block.staying.push(StayingServer { name, reason });
            }
            None => {
                block.moving.push(range);
                block.summaries.push(summarize(server));
                moving_texts.push(slice(&server.range));
            }
        }
    }
    if block.moving.is_empty() {
        let reasons: Vec<String> = block
            .staying
            .iter()
            .map(|server| format!("{}: {}", server.name, server.reason))
            .collect();
        bail!(
            "no server can move behind the gateway: {}",
            reasons.join("; ")
        );
    }
    let (_, warnings, variables) = check(&format!("{{{}}}", moving_texts.join(", ")))?;
    block.warnings = warnings.iter().map(ToString::to_string).collect();
    block.variables = variables;
    Ok(ClientSetup::Servers(block))
}

impl ServerBlock {
    /// Returns the file that the gateway reads: the unchanged text of the moving servers, with names
    /// of variables.
    pub(super) fn upstreams(&self, text: &str, client: &McpClient) -> String {
        if self.kept.is_empty() {
            return format!("{{\"{}\": {}}}\n", client.member, &text[self.range.clone()]);
        }
        let entries: Vec<&str> = self
            .moving
            .iter()
            .map(|range| &text[range.clone()])
            .collect();
        format!(
            "{{\"{}\": {{\n  {}\n}}}}\n",
            client.member,
            entries.join(",\n  ")
        )
    }

    /// Returns the client's file with the gateway's entry in place of the moving servers.
    pub(super) fn replaced(&self, text: &str, entry: &Value) -> String {
        let (before, servers, after) = (
            &text[..self.range.start],
            &text[self.range.clone()],
            &text[self.range.end..],
        );
        let mut entries = vec![format!("\"{ENTRY}\": {entry}")];
        entries.extend(self.kept.iter().map(|range| text[range.clone()].to_owned()));
        if !servers.contains('\n') {
            return format!("{before}{{{}}}{after}", entries.join(", "));
        }
        let end = if servers.contains("\r\n") {
            "\r\n"
        } else {
            "\n"
        };
        let line = before.rsplit('\n').next().unwrap_or_default();
        let outer: String = line
            .chars()
            .take_while(|c| matches!(c, ' ' | '\t'))
            .collect();
        // The members of the top-level object are indented by one step.
        let step = if outer.is_empty() { "  " } else { &outer };
        let entries = entries.join(&format!(",{end}{outer}{step}"));
        format!("{before}{{{end}{outer}{step}{entries}{end}{outer}}}{after}")
    }
}

/// Returns the gateway's entry.
pub(super) fn entry(client: &McpClient, program: &str, upstreams: &str) -> Value {
    let mut entry = json!({});
    if let Some((key, value)) = client.extra_member {
        entry[key] = json!(value);
    }
    entry["command"] = json!(program);
    entry["args"] = json!([ARGUMENTS[0], ARGUMENTS[1], upstreams]);
    entry
}

/// Returns the JSON dialect of such files: comments and trailing commas are allowed, nothing else.
fn strict() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_extended_string_escapes: false,
        allow_non_finite_numbers: false,
    }
}

fn is_gateway(entry: &ObjectProp<'_>) -> bool {
    let Node::Object(server) = &entry.value else {
        return false;
    };
    let Some(arguments) = server.get_array("args") else {
        return false;
    };
    let mut arguments = arguments
        .elements
        .iter()
        .map(|argument| argument.as_string_lit().map(|text| text.value.as_ref()));
    entry.name.as_str() == ENTRY
        && ARGUMENTS
            .iter()
            .all(|&one| arguments.next() == Some(Some(one)))
}

/// Reads the servers as the gateway would. Returns the servers that it could not run, what it would
/// ignore, and the variables that the servers refer to.
fn check(servers: &str) -> anyhow::Result<(Vec<ServerFault>, Vec<ServerFault>, BTreeSet<String>)> {
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
        faults, warnings, ..
    } = mcp::parse_configuration(&format!("{{\"mcpServers\": {servers}}}"), &surroundings)
        .map_err(|error| match error {
            McpConfigError::Syntax(error) => anyhow!("invalid JSON: {error}"),
            other => other.into(),
        })?;
    Ok((faults, warnings, variables.into_inner()))
}

/// Returns what Gemini CLI reads in another way than the gateway does.
fn difference(server: &ObjectProp<'_>, text: &str, client: &McpClient) -> Option<String> {
    if client.name != GEMINI.name {
        return None;
    }
    let is_dollar_name = |(at, _): (usize, &str)| {
        text[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    };
    if text.match_indices('$').any(is_dollar_name) {
        return Some(format!(
            "the form $KEY of a variable works only in {}; write ${{KEY}}",
            client.title
        ));
    }
    let Node::Object(members) = &server.value else {
        return None;
    };
    let is_sse = members.get_string("url").is_some()
        && members.get_string("httpUrl").is_none()
        && members
            .get_string("type")
            .is_none_or(|name| name.value != "http");
    is_sse.then(|| {
        format!(
            "`url` is an address of HTTP+SSE in {}, which MCP replaced in 2025; give the server's \
             streamable HTTP URL as `httpUrl`",
            client.title
        )
    })
}

/// Names the member of a user's server that depends on the folder of the file, which changes.
fn relative_member(server: &ObjectProp<'_>, text: &str) -> Option<String> {
    let Node::Object(members) = &server.value else {
        return None;
    };
    let is_relative =
        |value: &str| !(Path::new(value).is_absolute() || value.starts_with(['~', '$', '/']));
    let value = |key| members.get_string(key).map(|text| text.value.as_ref());
    let server_text = &text[members.range.start..members.range.end];
    let member = if value("cwd").is_some_and(is_relative) {
        "`cwd`"
    } else if value("envFile").is_some_and(is_relative) {
        "`envFile`"
    } else if value("command")
        .is_some_and(|command| command.contains(['/', '\\']) && is_relative(command))
    {
        "`command`"
    } else if ["${workspaceFolder", "${workspaceRoot"]
        .iter()
        .any(|name| server_text.contains(name))
    {
        "`${workspaceFolder}`"
    } else {
        return None;
    };
    Some(format!(
        "{member} would change its meaning in another folder; write an absolute path"
    ))
}

fn summarize(server: &ObjectProp<'_>) -> ServerSummary {
    let name = server.name.as_str().to_owned();
    let Node::Object(members) = &server.value else {
        return ServerSummary {
            name,
            at: String::new(),
            disabled: false,
        };
    };
    let is = |key: &str, value: bool| {
        members
            .get_boolean(key)
            .is_some_and(|boolean| boolean.value == value)
    };
    ServerSummary {
        name,
        at: program_or_host(members),
        disabled: is("disabled", true) || is("enabled", false),
    }
}

/// Returns the program or the host of a server, or an empty text if it has neither.
fn program_or_host(members: &Object<'_>) -> String {
    if let Some(command) = members.get_string("command") {
        return program(&command.value);
    }
    // Zed's older files contain an object in `command`.
    if let Some(command) = members.get_object("command")
        && let Some(path) = command.get_string("path")
    {
        return program(&path.value);
    }
    for key in ["url", "serverUrl", "httpUrl"] {
        if let Some(address) = members.get_string(key) {
            return host(&address.value);
        }
    }
    String::new()
}

/// Returns the program of a command, which may include arguments.
fn program(command: &str) -> String {
    match command.trim().split_once(char::is_whitespace) {
        Some((program, _)) => format!("{program} …"),
        None => command.trim().to_owned(),
    }
}

/// Returns the scheme and host of an address. Paths and queries may contain keys.
fn host(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    // A default value after a variable's name is removed.
    let host = host.split(":-").next().unwrap_or_default();
    if scheme.is_empty() || scheme.contains(|c: char| !c.is_ascii_alphabetic()) {
        return "an address".to_owned();
    }
    format!("{scheme}://{host}")
}
