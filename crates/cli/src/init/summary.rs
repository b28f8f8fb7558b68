//! Summaries of servers without secrets, and reasons why a server would differ behind the gateway.

use std::path::Path;

use picktools_import::mcp::CommonEntry;
use serde::Serialize;
use serde_json::{Map, Value};

use super::clients::{GEMINI, McpClient};

/// The summary of a server, without secrets: no arguments, variables or headers. Of an address it
/// contains only the host, of a command line only the program.
#[derive(Debug, Serialize)]
pub(super) struct ServerSummary {
    pub(super) name: String,
    /// The program or the address.
    pub(super) at: String,
    pub(super) disabled: bool,
}

/// Returns the text of a member.
fn text<'a>(members: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    members.get(key)?.as_str()
}

/// Returns what Gemini CLI reads in another way than the gateway does. `source` is the entry as it
/// is in the file.
pub(super) fn difference(entry: &CommonEntry, source: &str, client: &McpClient) -> Option<String> {
    if client.name != GEMINI.name {
        return None;
    }
    let is_dollar_name = |(at, _): (usize, &str)| {
        source[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    };
    if source.match_indices('$').any(is_dollar_name) {
        return Some(format!(
            "the form $KEY of a variable works only in {}; write ${{KEY}}",
            client.title
        ));
    }
    let members = &entry.members;
    let is_sse = text(members, "url").is_some()
        && text(members, "httpUrl").is_none()
        && text(members, "type").is_none_or(|name| name != "http");
    is_sse.then(|| {
        format!(
            "`url` is an address of HTTP+SSE in {}, which MCP replaced in 2025; give the server's \
             streamable HTTP URL as `httpUrl`",
            client.title
        )
    })
}

/// Names the member of a user's server that depends on the folder of the file, which changes.
pub(super) fn relative_member(entry: &CommonEntry) -> Option<String> {
    let members = &entry.members;
    let is_relative =
        |value: &str| !(Path::new(value).is_absolute() || value.starts_with(['~', '$', '/']));
    let member = if text(members, "cwd").is_some_and(is_relative) {
        "`cwd`"
    } else if text(members, "envFile").is_some_and(is_relative) {
        "`envFile`"
    } else if text(members, "command")
        .is_some_and(|command| command.contains(['/', '\\']) && is_relative(command))
    {
        "`command`"
    } else if has_project_folder(members) {
        "`${workspaceFolder}`"
    } else {
        return None;
    };
    Some(format!(
        "{member} would change its meaning in another folder; write an absolute path"
    ))
}

fn has_project_folder(members: &Map<String, Value>) -> bool {
    let text = Value::Object(members.clone()).to_string();
    ["${workspaceFolder", "${workspaceRoot"]
        .iter()
        .any(|name| text.contains(name))
}

pub(super) fn summarize(entry: &CommonEntry) -> ServerSummary {
    let members = &entry.members;
    let is = |key: &str, value: bool| members.get(key) == Some(&Value::Bool(value));
    ServerSummary {
        name: entry.name.clone(),
        at: program_or_host(members),
        disabled: is("disabled", true) || is("enabled", false),
    }
}

/// Returns the program or the host of a server, or an empty text if it has neither.
fn program_or_host(members: &Map<String, Value>) -> String {
    if let Some(command) = text(members, "command") {
        return program(command);
    }
    // Zed's older files contain an object in `command`.
    let command = members.get("command").and_then(Value::as_object);
    if let Some(path) = command.and_then(|command| text(command, "path")) {
        return program(path);
    }
    for key in ["url", "serverUrl", "httpUrl"] {
        if let Some(address) = text(members, key) {
            return host(address);
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
