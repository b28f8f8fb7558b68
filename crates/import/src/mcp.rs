//! Which MCP servers a configuration file names, and how each is reached.
//!
//! Read are the files of Claude Desktop, Claude Code (`.mcp.json`), Cursor, Windsurf, Cline and
//! Gemini CLI (`mcpServers`), VS Code (`servers`, also within `mcp` of its settings) and Zed
//! (`context_servers`), with comments and commas at ends. Names in braces are put in from the
//! environment: `${NAME}`, `${env:NAME}`, `${NAME:-otherwise}`, `${workspaceFolder}`,
//! `${userHome}`. What cannot be put in is a fault of that server alone.
//!
//! ```
//! use std::path::Path;
//! use picktools_import::mcp;
//! use picktools_import::mcp::{Surroundings, Way};
//!
//! let text = r#"{"mcpServers": {"wiki": {"url": "https://wiki.example/mcp", "headers": {"Authorization": "Bearer ${KEY}"}}}}"#;
//! let surroundings = Surroundings { variable: &|name| (name == "KEY").then(|| "secret".to_owned()), folder: Path::new("") };
//! let configuration = mcp::read(text, &surroundings)?;
//! let Way::Http { headers, .. } = &configuration.servers[0].way else { panic!("it has an address") };
//! assert_eq!(headers["Authorization"], "Bearer secret");
//! # Ok::<(), mcp::McpConfigError>(())
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use jsonc_parser::ParseOptions;
use serde_json::{Map, Value};
use thiserror::Error;

use picktools::catalog::CatalogFile;
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::json::Json;
use picktools::schema::kind;

/// Under which members of a file its servers stand.
const HOLDERS: [&str; 5] = [
    "/mcpServers",
    "/mcp/servers",
    "/mcp/mcpServers",
    "/context_servers",
    "/servers",
];
/// Under which members of a server its address stands.
const ADDRESSES: [&str; 3] = ["url", "serverUrl", "httpUrl"];
/// The most servers of one file.
const MAX_SERVERS: usize = 1_000;

/// The servers that a file names.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Configuration {
    /// Those that can be reached, in the order of the file.
    pub servers: Vec<Server>,
    /// Those that are switched off.
    pub disabled: Vec<String>,
    /// Those that cannot be reached as the file has them.
    pub faults: Vec<ServerFault>,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// What the file calls it; the source of its tools.
    pub name: String,
    /// How it is reached.
    pub way: Way,
}

/// How a server is reached. What it shows of itself holds no values of variables and headers, which
/// may be secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Way {
    /// A program that is started, and spoken with on its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        arguments: Vec<String>,
        /// Variables of its environment beside those of the caller.
        variables: BTreeMap<String, String>,
        /// The folder that it works in; the caller's where it is `None`.
        folder: Option<PathBuf>,
    },
    /// An address of streamable HTTP.
    Http {
        /// The address.
        url: String,
        /// Headers of each request.
        headers: BTreeMap<String, String>,
        /// What tokens are got with that requests carry, for a server that wants them.
        credentials: Option<ClientCredentials>,
    },
}

/// What a program gets tokens with: OAuth's client credentials. What it shows of itself holds no
/// secret.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientCredentials {
    /// The client's id.
    pub id: String,
    /// The client's secret.
    pub secret: String,
    /// The scopes that are asked for.
    pub scopes: Vec<String>,
    /// Where tokens come from. `None` for what the server says, which must then be of its own
    /// origin: another would be given the secret.
    pub token_url: Option<String>,
}

impl fmt::Debug for ClientCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            scopes,
            token_url,
            ..
        } = self;
        let mut shown = f.debug_struct("ClientCredentials");
        shown
            .field("id", id)
            .field("scopes", scopes)
            .field("token_url", token_url)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio {
                command,
                variables,
                folder,
                ..
            } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("variables", &variables.keys())
                .field("folder", folder)
                .finish_non_exhaustive(),
            Self::Http { headers, .. } => f
                .debug_struct("Http")
                .field("headers", &headers.keys())
                .finish_non_exhaustive(),
        }
    }
}

/// Why a server cannot be reached as the file has it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{server}: {message}; {remedy}")]
#[non_exhaustive]
pub struct ServerFault {
    /// What the file calls it.
    pub server: String,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
    pub remedy: String,
}

/// Why a file is no configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum McpConfigError {
    /// It is not JSON, comments aside.
    #[error("{0}")]
    Syntax(String),
    /// A member stands twice.
    #[error("{0}: the member stands twice; remove one of them")]
    Repeated(String),
    /// It names no servers.
    #[error(
        "it names no MCP servers; they stand under `mcpServers`, `servers` or `context_servers`"
    )]
    NoServers,
    /// Its servers are no object.
    #[error("{holder} is {found}; give an object from names to servers")]
    NoObject {
        /// Where they stand.
        holder: &'static str,
        /// What stands there.
        found: &'static str,
    },
    /// It names too many.
    #[error("it names more than {MAX_SERVERS} servers; split the file")]
    TooMany,
}

/// What is put into a file in place of names in braces.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// A variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The folder of the file.
    pub folder: &'a Path,
}

/// Returns `true` if a text looks like a configuration of MCP servers.
pub fn is_configuration(text: &str) -> bool {
    parse(text).is_ok_and(|file| {
        let servers = holder(&file).and_then(|(at, servers)| Some((at, servers.as_object()?)));
        // `servers` alone is a word that other files use as well: those of OpenAPI have a list
        // there.
        servers.is_some_and(|(at, servers)| at != "/servers" || servers.values().all(is_server))
    })
}

/// Returns the text of a catalog's file if it is a configuration of MCP servers: it has no tools,
/// but names servers that have.
pub fn configuration_text(file: &CatalogFile) -> Option<&str> {
    std::str::from_utf8(file.bytes())
        .ok()
        .filter(|text| is_configuration(text))
}

fn is_server(value: &Value) -> bool {
    std::iter::once(&"command")
        .chain(&ADDRESSES)
        .any(|key| value.get(key).is_some())
}

fn holder(file: &Value) -> Option<(&'static str, &Value)> {
    HOLDERS
        .into_iter()
        .find_map(|at| Some((at, file.pointer(at)?)))
}

fn parse(text: &str) -> Result<Value, McpConfigError> {
    let options = ParseOptions {
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
    };
    let read =
        jsonc_parser::parse_to_serde_value::<Json>(text.trim_start_matches('\u{feff}'), &options);
    let Json { value, repeated } = read.map_err(|error| {
        McpConfigError::Syntax(marked(&error.to_string(), MAX_NAME_CHARS).into_owned())
    })?;
    match repeated.into_iter().next() {
        Some(pointer) => Err(McpConfigError::Repeated(pointer)),
        None => Ok(value),
    }
}

/// Reads a configuration.
///
/// # Errors
///
/// [`McpConfigError`] when the text is no configuration. What is wrong with one server stands in
/// [`Configuration::faults`].
pub fn read(text: &str, surroundings: &Surroundings<'_>) -> Result<Configuration, McpConfigError> {
    let file = parse(text)?;
    let (at, servers) = holder(&file).ok_or(McpConfigError::NoServers)?;
    let Some(servers) = servers.as_object() else {
        return Err(McpConfigError::NoObject {
            holder: at,
            found: kind(servers),
        });
    };
    if servers.len() > MAX_SERVERS {
        return Err(McpConfigError::TooMany);
    }
    let mut configuration = Configuration::default();
    for (name, server) in servers {
        let shown = marked(name, MAX_NAME_CHARS).into_owned();
        let off = server.get("disabled") == Some(&Value::Bool(true))
            || server.get("enabled") == Some(&Value::Bool(false));
        if off {
            configuration.disabled.push(shown);
            continue;
        }
        match way(server, surroundings) {
            Ok(way) => configuration.servers.push(Server {
                name: name.clone(),
                way,
            }),
            Err((message, remedy)) => configuration.faults.push(ServerFault {
                server: shown,
                message,
                remedy,
            }),
        }
    }
    Ok(configuration)
}

/// What is wrong, and the remedy.
type Fault = (String, String);

fn fault(message: impl Into<String>, remedy: impl Into<String>) -> Fault {
    (message.into(), remedy.into())
}

fn way(server: &Value, surroundings: &Surroundings<'_>) -> Result<Way, Fault> {
    let Some(members) = server.as_object() else {
        return Err(fault(
            format!("it is {}", kind(server)),
            "give an object with `command` or `url`",
        ));
    };
    let kind = members
        .get("type")
        .or_else(|| members.get("transport"))
        .and_then(Value::as_str);
    if kind == Some("sse") {
        return Err(fault(
            "it speaks the HTTP+SSE transport, which the protocol replaced in 2025",
            "give the server's address of streamable HTTP, with `\"type\": \"http\"`",
        ));
    }
    let address = ADDRESSES
        .into_iter()
        .find_map(|key| Some((key, members.get(key)?)));
    match (members.get("command"), address) {
        (Some(_), Some(_)) => Err(fault(
            "it has both a command and an address",
            "remove one of them",
        )),
        (None, None) => Err(fault(
            "it has neither a command nor an address",
            "give `command` or `url`",
        )),
        // Zed's older files have all of it within `command`.
        (Some(Value::Object(command)), None) => stdio(command, "path", surroundings),
        (Some(_), None) => stdio(members, "command", surroundings),
        (None, Some((key, url))) => {
            let url = expand(&text(key, url)?, surroundings)?;
            if !url.starts_with("http://") && !url.starts_with("https://") {
                return Err(fault(
                    format!("`{key}` is no address of HTTP"),
                    "give one that begins with https:// or http://",
                ));
            }
            let headers = named(members, "headers", surroundings)?;
            let credentials = credentials(members, surroundings)?;
            if credentials.is_some()
                && headers
                    .keys()
                    .any(|name| name.eq_ignore_ascii_case("authorization"))
            {
                return Err(fault(
                    "it has both `clientCredentials` and a header `Authorization`",
                    "remove one of them",
                ));
            }
            Ok(Way::Http {
                url,
                headers,
                credentials,
            })
        }
    }
}

fn credentials(
    members: &Map<String, Value>,
    surroundings: &Surroundings<'_>,
) -> Result<Option<ClientCredentials>, Fault> {
    const MEMBER: &str = "clientCredentials";
    let members = match members.get(MEMBER) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(members)) => members,
        Some(other) => {
            let message = format!("`{MEMBER}` is {}", kind(other));
            return Err(fault(
                message,
                "give an object with `clientId` and `clientSecret`",
            ));
        }
    };
    let known = ["clientId", "clientSecret", "scopes", "tokenUrl"];
    if let Some(unknown) = members.keys().find(|name| !known.contains(&name.as_str())) {
        let message = format!(
            "`{MEMBER}` has no member {:?}",
            marked(unknown, MAX_NAME_CHARS)
        );
        return Err(fault(
            message,
            format!(
                "it has {}",
                known.map(|name| format!("`{name}`")).join(", ")
            ),
        ));
    }
    let needed = |key| match members.get(key) {
        None => Err(fault(
            format!("`{MEMBER}` has no `{key}`"),
            format!("give `{key}`"),
        )),
        Some(value) => match expand(&text(key, value)?, surroundings)? {
            empty if empty.is_empty() => Err(fault(
                format!("`{key}` is empty"),
                "give one, or set its variable",
            )),
            value => Ok(value),
        },
    };
    let scopes = match members.get("scopes") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(scopes)) => scopes
            .iter()
            .map(|scope| text("scopes", scope))
            .collect::<Result<_, _>>()?,
        Some(other) => {
            return Err(fault(
                format!("`scopes` is {}", kind(other)),
                "give a list of texts",
            ));
        }
    };
    let token_url = members
        .get("tokenUrl")
        .map(|_| needed("tokenUrl"))
        .transpose()?;
    if token_url.as_ref().is_some_and(|url| !is_private(url)) {
        return Err(fault(
            "`tokenUrl` is no address of HTTPS, and a secret is sent there",
            "give one that begins with https://",
        ));
    }
    Ok(Some(ClientCredentials {
        id: needed("clientId")?,
        secret: needed("clientSecret")?,
        scopes,
        token_url,
    }))
}

/// Whether nobody on the way reads what is sent to an address: HTTPS, or this machine.
pub fn is_private(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return url.starts_with("https://");
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let port = |(_, port): &(&str, &str)| port.bytes().all(|byte| byte.is_ascii_digit());
    let host = authority
        .rsplit_once(':')
        .filter(port)
        .map_or(authority, |(host, _)| host);
    ["127.0.0.1", "[::1]", "localhost"].contains(&host)
}

fn stdio(
    members: &Map<String, Value>,
    program: &str,
    surroundings: &Surroundings<'_>,
) -> Result<Way, Fault> {
    let command = expand(
        &text(program, members.get(program).unwrap_or(&Value::Null))?,
        surroundings,
    )?;
    if command.trim().is_empty() {
        return Err(fault("its command is empty", "name the program"));
    }
    let arguments = match members.get("args") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(arguments)) => {
            let one = |argument| expand(&text("args", argument)?, surroundings);
            arguments.iter().map(one).collect::<Result<_, _>>()?
        }
        Some(other) => {
            return Err(fault(
                format!("`args` is {}", kind(other)),
                "give a list of texts",
            ));
        }
    };
    let folder = match members.get("cwd") {
        None | Some(Value::Null) => None,
        Some(folder) => Some(
            surroundings
                .folder
                .join(expand(&text("cwd", folder)?, surroundings)?),
        ),
    };
    Ok(Way::Stdio {
        command,
        arguments,
        variables: named(members, "env", surroundings)?,
        folder,
    })
}

fn text(key: &str, value: &Value) -> Result<String, Fault> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(fault(format!("`{key}` is {}", kind(other)), "give a text")),
    }
}

/// Texts by name. Numbers and booleans are written as they stand, as the programs do that write
/// such files.
fn named(
    members: &Map<String, Value>,
    key: &str,
    surroundings: &Surroundings<'_>,
) -> Result<BTreeMap<String, String>, Fault> {
    let named = match members.get(key) {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(named)) => named,
        Some(other) => {
            return Err(fault(
                format!("`{key}` is {}", kind(other)),
                "give an object from names to texts",
            ));
        }
    };
    let one = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            other => expand(&text(key, other)?, surroundings)?,
        };
        Ok((name.clone(), value))
    };
    named.iter().map(one).collect()
}

/// Puts in what stands for names in braces. What is put in is not looked through again.
fn expand(text: &str, surroundings: &Surroundings<'_>) -> Result<String, Fault> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            return Err(fault("a `${` is not closed", "close it with `}`"));
        };
        expanded.push_str(&value(name, surroundings)?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn value(name: &str, surroundings: &Surroundings<'_>) -> Result<String, Fault> {
    let variable = |name: &str| (surroundings.variable)(name);
    if let Some(asked) = name.strip_prefix("input:") {
        return Err(fault(
            format!(
                "its editor asks a person for {:?}",
                marked(asked, MAX_NAME_CHARS)
            ),
            "write `${NAME}` instead, and set the variable NAME",
        ));
    }
    let folder = || {
        let folder = surroundings.folder;
        // The files of a project stand in a hidden folder of it: `.vscode`, `.cursor`.
        let hidden = folder
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        folder
            .parent()
            .filter(|_| hidden)
            .unwrap_or(folder)
            .display()
            .to_string()
    };
    let found = match name {
        "workspaceFolder" | "workspaceRoot" => Some(folder()),
        "userHome" => variable("HOME").or_else(|| variable("USERPROFILE")),
        "pathSeparator" | "/" => Some(std::path::MAIN_SEPARATOR.to_string()),
        _ => {
            let name = name.strip_prefix("env:").unwrap_or(name);
            match name.split_once(":-") {
                Some((name, otherwise)) => variable(name)
                    .filter(|value| !value.is_empty())
                    .or_else(|| Some(otherwise.to_owned())),
                None => variable(name),
            }
        }
    };
    found.ok_or_else(|| {
        let name = marked(name, MAX_NAME_CHARS);
        fault(
            format!("the variable {name:?} is not set"),
            "set it in the environment",
        )
    })
}
