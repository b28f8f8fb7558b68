//! Edits of a client's file: finds its servers, summarises them without secrets, checks them, and
//! replaces them by the gateway's entry, or that by the servers. Bytes outside the servers' object
//! stay unchanged.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, anyhow, bail, ensure};
use jsonc_parser::ast::{Object, ObjectProp, Value as Node};
use jsonc_parser::{CollectOptions, ParseOptions};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_gateway::name_fault;
use picktools_import::mcp;
use picktools_import::mcp::{ConfigEnvironment, Configuration, McpConfigError, ServerFault};
use serde::Serialize;
use serde_json::{Value, json};

use super::places::{ClientConfig, GEMINI, McpClient, Scope};

/// The name of the gateway's entry.
pub(super) const ENTRY: &str = "picktools";
/// The arguments that start the gateway, followed by the file of its servers.
pub(super) const ARGUMENTS: [&str; 2] = ["mcp", "--config"];
/// The names of the entries in a project's file, and in the part of a user's file that holds for one
/// project. A client may read several of these files, and one entry must not hide another.
pub(super) const PROJECT_ENTRY: &str = "picktools-project";
pub(super) const LOCAL_ENTRY: &str = "picktools-local";
/// The member of Claude Code's file with the settings of projects.
pub(super) const PROJECTS: &str = "projects";
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
    /// The position of their object in the text.
    range: Range<usize>,
    /// The positions of the entries that move.
    moving: Vec<Range<usize>>,
    pub(super) summaries: Vec<ServerSummary>,
    /// The positions of the entries that stay, with the gateway's entry.
    kept: Vec<Range<usize>>,
    /// `true` if the file has the gateway's entry already.
    pub(super) has_gateway: bool,
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

/// Parses a text without a byte order mark. Returns its top-level object.
fn parse_root(text: &str) -> anyhow::Result<Object<'_>> {
    ensure!(!text.trim().is_empty(), "the file is empty");
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &strict())
        .map_err(|error| anyhow!("invalid JSON: {error}"))?;
    match parsed.value {
        Some(Node::Object(root)) => Ok(root),
        _ => bail!("the file is not a JSON object"),
    }
}

/// Returns the object at a member that must not occur twice.
fn member<'a, 'o>(object: &'o Object<'a>, name: &str) -> anyhow::Result<Option<&'o Object<'a>>> {
    let mut members = object
        .properties
        .iter()
        .filter(|property| property.name.as_str() == name);
    let Some(member) = members.next() else {
        return Ok(None);
    };
    ensure!(
        members.next().is_none(),
        "duplicate key `{name}`; remove one of them"
    );
    match &member.value {
        Node::Object(value) => Ok(Some(value)),
        _ => bail!("`{name}` is not an object"),
    }
}

/// Returns the object with the servers of a file, or `None` if it has none.
fn servers<'a, 'o>(
    root: &'o Object<'a>,
    place: &ClientConfig,
) -> anyhow::Result<Option<&'o Object<'a>>> {
    let mut holder = root;
    for name in &place.inside {
        match member(holder, name)? {
            Some(inner) => holder = inner,
            None => return Ok(None),
        }
    }
    member(holder, place.client.member)
}

/// Splits a text into its byte order mark and the rest, to which ranges of the parser refer.
fn split_mark(text: &str) -> (usize, &str) {
    let mark = text.len() - text.trim_start_matches('\u{feff}').len();
    (mark, &text[mark..])
}

/// Finds the servers of a client in the text of its file. `moved` is the text of the servers that
/// are behind its gateway already.
pub(super) fn find(
    text: &str,
    place: &ClientConfig,
    moved: Option<&str>,
) -> anyhow::Result<ClientSetup> {
    let client = place.client;
    let (mark, text) = split_mark(text);
    let root = parse_root(text)?;
    let Some(servers) = servers(&root, place)? else {
        return Ok(ClientSetup::Empty);
    };
    if servers.properties.is_empty() {
        return Ok(ClientSetup::Empty);
    }
    let is_gateway = |entry: &ObjectProp<'_>| is_gateway(entry, place);
    let has_gateway = servers.properties.iter().any(is_gateway);
    let mut moved_names = BTreeSet::new();
    if has_gateway && let Some(moved) = moved {
        for entry in moved_servers(moved, client)? {
            moved_names.insert(entry.name);
        }
    }
    let slice = |range: &jsonc_parser::common::Range| &text[range.start..range.end];
    let (faults, _, _) = check(slice(&servers.range))?;
    let mut block = ServerBlock {
        range: mark + servers.range.start..mark + servers.range.end,
        moving: Vec::new(),
        summaries: Vec::new(),
        kept: Vec::new(),
        staying: Vec::new(),
        has_gateway,
        warnings: Vec::new(),
        variables: BTreeSet::new(),
    };
    let mut moving_texts = Vec::new();
    for server in &servers.properties {
        let range = mark + server.range.start..mark + server.range.end;
        if is_gateway(server) {
            block.kept.push(range);
            continue;
        }
        let name = server.name.as_str();
        let shown = marked(name, MAX_NAME_CHARS);
        let fault = faults.iter().find(|fault| fault.server == shown);
        let reason = match fault {
            Some(fault) => Some(format!("{}; {}", fault.message, fault.remedy)),
            None if place.scope == Scope::User => relative_member(server, text),
            None => None,
        };
        let reason = reason.or_else(|| difference(server, slice(&server.range), client));
        let reason = reason.or_else(|| name_fault(name).map(str::to_owned));
        let is_moved = moved_names.contains(name);
        let reason = reason.or_else(|| is_moved.then(|| SAME_NAME.to_owned()));
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
    // The new entry must not hide a server of the user.
    let is_entry = |server: &StayingServer| server.name == place.entry;
    if !has_gateway && block.staying.iter().any(is_entry) {
        bail!(
            "a server that stays has the name {:?}, which the gateway's entry needs; rename it",
            place.entry
        );
    }
    if block.moving.is_empty() && has_gateway {
        return Ok(ClientSetup::Gateway(block.staying));
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
    /// of variables, after those that were `moved` before.
    pub(super) fn upstreams(
        &self,
        text: &str,
        client: &McpClient,
        moved: Option<&str>,
    ) -> anyhow::Result<String> {
        if self.kept.is_empty() {
            let servers = &text[self.range.clone()];
            return Ok(format!("{{\"{}\": {servers}}}\n", client.member));
        }
        let mut entries = Vec::new();
        if let Some(moved) = moved.filter(|_| self.has_gateway) {
            for entry in moved_servers(moved, client)? {
                entries.push(entry.text);
            }
        }
        for range in &self.moving {
            entries.push(text[range.clone()].to_owned());
        }
        let entries = entries.join(",\n  ");
        Ok(format!("{{\"{}\": {{\n  {entries}\n}}}}\n", client.member))
    }

    /// Returns the client's file with the gateway's entry in place of the moving servers.
    pub(super) fn replaced(&self, text: &str, place: &ClientConfig, entry: &Value) -> String {
        let mut entries = Vec::new();
        if !self.has_gateway {
            entries.push(format!("\"{}\": {entry}", place.entry));
        }
        entries.extend(self.kept.iter().map(|range| text[range.clone()].to_owned()));
        with_entries(text, &self.range, &entries)
    }
}

/// Returns a text with other entries in the object at `range`, in the same layout.
fn with_entries(text: &str, range: &Range<usize>, entries: &[String]) -> String {
    let (before, servers, after) = (
        &text[..range.start],
        &text[range.clone()],
        &text[range.end..],
    );
    if entries.is_empty() {
        return format!("{before}{{}}{after}");
    }
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

/// A server that was moved behind the gateway.
struct MovedServer {
    name: String,
    /// Its member of the object, with the name.
    text: String,
}

/// Returns the servers of the file that the gateway reads.
fn moved_servers(text: &str, client: &McpClient) -> anyhow::Result<Vec<MovedServer>> {
    let (_, text) = split_mark(text);
    let root = parse_root(text).context("the file of the moved servers")?;
    let mut moved = Vec::new();
    let servers = member(&root, client.member)?;
    for server in servers.map_or(&[][..], |servers| &servers.properties) {
        moved.push(MovedServer {
            name: server.name.as_str().to_owned(),
            text: text[server.range.start..server.range.end].to_owned(),
        });
    }
    Ok(moved)
}

/// Returns the client's file with the servers behind the gateway in place of the gateway's entry.
/// Everything else stays, also what was added or changed since. Returns `None` if the file has no
/// such entry.
pub(super) fn restored(
    text: &str,
    place: &ClientConfig,
    moved: &str,
) -> anyhow::Result<Option<String>> {
    let (mark, unmarked) = split_mark(text);
    let root = parse_root(unmarked)?;
    let Some(servers) = servers(&root, place)? else {
        return Ok(None);
    };
    let is_gateway = |entry: &&ObjectProp<'_>| is_own_gateway(entry, place);
    let Some(gateway) = servers.properties.iter().find(is_gateway) else {
        return Ok(None);
    };
    let mut entries = Vec::new();
    for entry in moved_servers(moved, place.client)? {
        // A server that the user entered again is newer.
        let is_entered = |own: &ObjectProp<'_>| own.name.as_str() == entry.name;
        if !servers.properties.iter().any(is_entered) {
            entries.push(entry.text);
        }
    }
    if entries.is_empty() {
        let others = servers.properties.iter().filter(|entry| !is_gateway(entry));
        let others: Vec<String> = others
            .map(|entry| unmarked[entry.range.start..entry.range.end].to_owned())
            .collect();
        let range = mark + servers.range.start..mark + servers.range.end;
        return Ok(Some(with_entries(text, &range, &others)));
    }
    let (start, end) = (mark + gateway.range.start, mark + gateway.range.end);
    let line = text[..start].rsplit('\n').next().unwrap_or_default();
    let indent: String = line
        .chars()
        .take_while(|c| matches!(c, ' ' | '\t'))
        .collect();
    let separator = if text[..start].contains('\n') {
        format!(",\n{indent}")
    } else {
        ", ".to_owned()
    };
    let entries = entries.join(&separator);
    Ok(Some(format!("{}{entries}{}", &text[..start], &text[end..])))
}

/// Returns `true` if a file has the entry that `init` wrote, and not one of the user's own.
pub(super) fn has_gateway(text: &str, place: &ClientConfig) -> anyhow::Result<bool> {
    let (_, text) = split_mark(text);
    let root = parse_root(text)?;
    let servers = servers(&root, place)?;
    let entries = servers.map_or(&[][..], |servers| &servers.properties);
    Ok(entries.iter().any(|entry| is_own_gateway(entry, place)))
}

/// Returns the names of the projects in a file that have servers of their own.
pub(super) fn projects_with_servers(text: &str) -> anyhow::Result<Vec<String>> {
    let (_, text) = split_mark(text);
    let root = parse_root(text)?;
    let mut names = Vec::new();
    let projects = member(&root, PROJECTS)?;
    for project in projects.map_or(&[][..], |projects| &projects.properties) {
        let Node::Object(members) = &project.value else {
            continue;
        };
        let servers = members.get_object("mcpServers");
        if servers.is_some_and(|servers| !servers.properties.is_empty()) {
            names.push(project.name.as_str().to_owned());
        }
    }
    Ok(names)
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

fn is_gateway(entry: &ObjectProp<'_>, place: &ClientConfig) -> bool {
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
    // Files of earlier versions have the same name in each scope.
    [ENTRY, place.entry].contains(&entry.name.as_str())
        && ARGUMENTS
            .iter()
            .all(|&one| arguments.next() == Some(Some(one)))
}

/// Returns `true` for an entry that starts the gateway with the file of this place.
fn is_own_gateway(entry: &ObjectProp<'_>, place: &ClientConfig) -> bool {
    let Node::Object(server) = &entry.value else {
        return false;
    };
    let Some(arguments) = server.get_array("args") else {
        return false;
    };
    let path = arguments.elements.get(ARGUMENTS.len());
    let path = path.and_then(|path| path.as_string_lit());
    let expected = place.gateway_command("");
    is_gateway(entry, place)
        && path.is_some_and(|path| {
            Path::new(path.value.as_ref()) == place.upstreams
                || expected.is_ok_and(|(_, expected)| path.value == expected)
        })
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
