//! The formats of entries that only one client has, and their conversion to the common form:
//! `command`, `args`, `env`, `url`, `headers`.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::entry_problem::{EntryProblem, problem};

/// The types of Goose's extensions that run inside Goose.
const GOOSE_BUILT_IN: [&str; 4] = ["builtin", "platform", "frontend", "inline_python"];

/// The format of the entries of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryFormat {
    /// The form that most clients share.
    Common,
    Codex,
    Opencode,
    Goose,
}

impl EntryFormat {
    /// Returns the servers of a file, with the JSON pointer to them.
    pub(crate) fn find(file: &Value) -> Option<(Self, &'static str, &Value)> {
        const POINTERS: [(EntryFormat, &str); 7] = [
            (EntryFormat::Common, "/mcpServers"),
            (EntryFormat::Common, "/mcp/servers"),
            (EntryFormat::Common, "/mcp/mcpServers"),
            (EntryFormat::Common, "/context_servers"),
            (EntryFormat::Common, "/servers"),
            (EntryFormat::Codex, "/mcp_servers"),
            (EntryFormat::Goose, "/extensions"),
        ];
        if file.get("mcpServers").is_none()
            && let Some(servers) = file.get("mcp")
            && has_opencode_servers(servers)
        {
            return Some((Self::Opencode, "/mcp", servers));
        }
        POINTERS.into_iter().find_map(|(format, pointer)| {
            let servers = file.pointer(pointer)?;
            // opencode 2 has the member of VS Code.
            let is_opencode = pointer == "/mcp/servers" && has_opencode_entry(servers);
            let format = if is_opencode { Self::Opencode } else { format };
            Some((format, pointer, servers))
        })
    }

    /// Returns `true` for an entry that runs inside its client, and is no MCP server.
    pub(crate) fn is_built_in(self, entry: &Value) -> bool {
        let kind = entry.get("type").and_then(Value::as_str);
        self == Self::Goose && kind.is_some_and(|kind| GOOSE_BUILT_IN.contains(&kind))
    }

    /// Returns `true` if an object has only entries of this format.
    pub(crate) fn matches(self, servers: &Map<String, Value>) -> bool {
        let is_extension = |entry: &Value| {
            self.is_built_in(entry)
                || entry.get("type").is_some_and(Value::is_string)
                    && (entry.get("cmd").is_some() || entry.get("uri").is_some())
        };
        self != Self::Goose || !servers.is_empty() && servers.values().all(is_extension)
    }

    /// Converts an entry to the common form.
    pub(crate) fn convert<'a>(
        self,
        entry: &'a Map<String, Value>,
    ) -> Result<Cow<'a, Map<String, Value>>, EntryProblem> {
        match self {
            Self::Common => Ok(Cow::Borrowed(entry)),
            Self::Codex => {
                refuse_dollars("Codex", entry)?;
                Ok(Cow::Borrowed(entry))
            }
            Self::Opencode => opencode(entry).map(Cow::Owned),
            Self::Goose => Ok(Cow::Owned(goose(entry))),
        }
    }
}

/// Returns `true` if `mcp` has servers of opencode, and no member with servers of another client.
fn has_opencode_servers(servers: &Value) -> bool {
    let Value::Object(servers) = servers else {
        return false;
    };
    let is_holder = |name: &str| {
        let holder = servers.get(name);
        holder.is_some_and(|holder| !holder.get("type").is_some_and(Value::is_string))
    };
    !servers.is_empty()
        && !is_holder("servers")
        && !is_holder("mcpServers")
        && servers.values().any(Value::is_object)
}

/// Returns `true` if one of the entries has a command or a type as in opencode.
fn has_opencode_entry(servers: &Value) -> bool {
    let is_opencode = |entry: &Value| {
        entry.get("command").is_some_and(Value::is_array)
            || entry.get("type") == Some(&json!("remote"))
    };
    servers
        .as_object()
        .is_some_and(|servers| servers.values().any(is_opencode))
}

/// Refuses a text that the client passes on as it is, but that would be a placeholder here.
fn refuse_dollars(client: &str, entry: &Map<String, Value>) -> Result<(), EntryProblem> {
    if !entry.values().any(|value| has_text(value, "${")) {
        return Ok(());
    }
    Err(problem(
        format!("the entry has the text `${{`, which {client} does not replace"),
        "leave the server in its client, or write the value without `${`",
    ))
}

fn has_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(value) => value.contains(text),
        Value::Array(values) => values.iter().any(|value| has_text(value, text)),
        Value::Object(members) => members.values().any(|value| has_text(value, text)),
        _ => false,
    }
}

/// Moves a member to another name.
fn rename(entry: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = entry.remove(from) {
        entry.insert(to.to_owned(), value);
    }
}

/// Converts an entry of opencode: the program and its arguments are one list, and placeholders have
/// the form `{env:NAME}`.
fn opencode(entry: &Map<String, Value>) -> Result<Map<String, Value>, EntryProblem> {
    refuse_dollars("opencode", entry)?;
    if entry.values().any(|value| has_text(value, "{file:")) {
        return Err(problem(
            "the entry has the content of a file (`{file:…}`), which is not supported",
            "use `{env:NAME}` instead, and set the variable NAME",
        ));
    }
    let mut converted = Map::new();
    for (name, value) in entry {
        converted.insert(name.clone(), with_env_placeholders(value));
    }
    if let Some(Value::Array(line)) = converted.get("command") {
        let mut line = line.clone();
        if line.is_empty() {
            return Err(problem("`command` is empty", "name the program"));
        }
        let program = line.remove(0);
        converted.insert("command".to_owned(), program);
        converted.insert("args".to_owned(), Value::Array(line));
    }
    rename(&mut converted, "environment", "env");
    // It is the time for the list of tools, five seconds by default.
    rename(&mut converted, "timeout", "startup_timeout_ms");
    Ok(converted)
}

/// Replaces `{env:NAME}` by the common placeholder. A variable that is not set is empty, as in
/// opencode.
fn with_env_placeholders(value: &Value) -> Value {
    match value {
        Value::String(text) => {
            let mut converted = String::new();
            let mut rest = text.as_str();
            while let Some((before, after)) = rest.split_once("{env:") {
                let Some((name, after)) = after.split_once('}') else {
                    break;
                };
                converted.push_str(&format!("{before}${{{name}:-}}"));
                rest = after;
            }
            converted.push_str(rest);
            converted.into()
        }
        Value::Array(values) => values.iter().map(with_env_placeholders).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), with_env_placeholders(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// Converts an extension of Goose.
fn goose(entry: &Map<String, Value>) -> Map<String, Value> {
    let mut converted = entry.clone();
    for (from, to) in [("cmd", "command"), ("uri", "url"), ("envs", "env")] {
        rename(&mut converted, from, to);
    }
    // Seconds for the start and for each call, also from 1000 on.
    rename(&mut converted, "timeout", "tool_timeout_sec");
    rename(&mut converted, "display_name", "title");
    converted.remove("bundled");
    let tools = converted.get("available_tools");
    if tools.and_then(Value::as_array).is_some_and(Vec::is_empty) {
        converted.remove("available_tools");
    }
    // Their values are in Goose's keyring, or in the environment.
    let keys = converted.remove("env_keys").unwrap_or_default();
    for key in keys.as_array().into_iter().flatten() {
        if let (Some(key), Some(variables)) = (key.as_str(), variables_mut(&mut converted)) {
            variables.insert(key.to_owned(), format!("${{{key}}}").into());
        }
    }
    if !converted.contains_key("url") {
        return converted;
    }
    // The variables of a server with a URL are for its headers only.
    let variables = converted.remove("env").unwrap_or_default();
    if let Some(Value::Object(headers)) = converted.get_mut("headers") {
        for header in headers.values_mut() {
            let Value::String(text) = header else {
                continue;
            };
            for (name, value) in variables.as_object().into_iter().flatten() {
                if let Some(value) = value.as_str() {
                    *text = text.replace(&format!("${{{name}}}"), value);
                }
            }
        }
    }
    converted
}

/// Returns the variables of an entry; `None` if the member is not an object.
fn variables_mut(entry: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    let variables = entry.entry("env").or_insert_with(|| json!({}));
    if variables.is_null() {
        *variables = json!({});
    }
    variables.as_object_mut()
}
