//! Configuration files of MCP servers.
//!
//! The parser accepts the files of Claude Desktop, Claude Code (`.mcp.json`), Cursor, Windsurf,
//! Cline and Gemini CLI (`mcpServers`), VS Code (`servers`, also inside `mcp` of its settings) and
//! Zed (`context_servers`). Comments and trailing commas are allowed.
//!
//! Placeholders in braces are expanded from the environment: `${NAME}`, `${env:NAME}`,
//! `${NAME:-default}`, `${workspaceFolder}`, `${userHome}`. A placeholder without a value
//! invalidates only its own server.
//!
//! ```
//! use std::path::Path;
//! use picktools_import::mcp;
//! use picktools_import::mcp::{ConfigEnvironment, ServerTransport};
//!
//! let text = r#"{"mcpServers": {"wiki": {
//!     "url": "https://wiki.example/mcp",
//!     "headers": {"Authorization": "Bearer ${KEY}"}}}}"#;
//! let environment = ConfigEnvironment {
//!     variable: &|name| (name == "KEY").then(|| "secret".to_owned()),
//!     folder: Path::new(""),
//!     read: &|path| std::fs::read_to_string(path),
//! };
//! let configuration = mcp::parse_configuration(text, &environment)?;
//! let ServerTransport::Http { headers, .. } = &configuration.servers[0].transport else {
//!     panic!("the server has a URL")
//! };
//! assert_eq!(headers["Authorization"], "Bearer secret");
//! # Ok::<(), mcp::McpConfigError>(())
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jsonc_parser::ParseOptions;
use serde_json::{Map, Value};
use thiserror::Error;

use picktools::catalog::CatalogFile;
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::json::Json;
use picktools::schema::kind;

use crate::members::{call_timeout, parse_env_file, refuse_unsupported, unknown};
pub use crate::tool_filter::ToolFilter;

/// JSON pointers to the members of a file that may contain its servers.
const SERVER_POINTERS: [&str; 5] = [
    "/mcpServers",
    "/mcp/servers",
    "/mcp/mcpServers",
    "/context_servers",
    "/servers",
];
/// The members of a server entry that may contain its URL.
const URL_KEYS: [&str; 3] = ["url", "serverUrl", "httpUrl"];
/// The largest number of servers in one file.
const MAX_SERVERS: usize = 1_000;

/// The servers of a configuration file.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Configuration {
    /// The valid, enabled servers, in the order of the file.
    pub servers: Vec<Server>,
    /// The names of the disabled servers.
    pub disabled: Vec<String>,
    /// The servers whose entries are invalid.
    pub faults: Vec<ServerFault>,
    /// Warnings about members of valid entries that have no effect.
    pub warnings: Vec<ServerFault>,
}

/// An MCP server of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The server's name in the file, which is the source of its tools.
    pub name: String,
    /// The connection parameters.
    pub transport: ServerTransport,
    /// The tools that the file allows.
    pub tools: ToolFilter,
    /// The time for a call that the file names.
    pub call_timeout: Option<Duration>,
    /// The file that configures it. Servers of two files with the same name are different servers.
    pub scope: Option<String>,
}

/// The connection parameters of a server.
///
/// The `Debug` output omits the values of variables and headers, which may be secret.
#[derive(Clone, PartialEq, Eq)]
pub enum ServerTransport {
    /// A program that communicates over its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        arguments: Vec<String>,
        /// Environment variables, in addition to those of the caller.
        variables: BTreeMap<String, String>,
        /// The working directory; the caller's if `None`.
        folder: Option<PathBuf>,
    },
    /// A URL of streamable HTTP.
    Http {
        /// The URL.
        url: String,
        /// The headers of every request.
        headers: BTreeMap<String, String>,
        /// Credentials for access tokens, if the server requires them.
        credentials: Option<ClientCredentials>,
    },
}

/// OAuth client credentials, with which a program requests access tokens.
///
/// The `Debug` output omits the secret.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientCredentials {
    /// The client's id.
    pub id: String,
    /// The client's secret.
    pub secret: String,
    /// The requested scopes.
    pub scopes: Vec<String>,
    /// The token endpoint.
    ///
    /// `None` for the endpoint that the server announces. It must have the server's own origin,
    /// because another origin would receive the secret.
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
        let mut debug = f.debug_struct("ClientCredentials");
        debug
            .field("id", id)
            .field("scopes", scopes)
            .field("token_url", token_url)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ServerTransport {
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

/// Error of one server's entry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{server}: {message}; {remedy}")]
#[non_exhaustive]
pub struct ServerFault {
    /// The server's name in the file.
    pub server: String,
    /// The cause.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

/// Error of a configuration file as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum McpConfigError {
    /// The text is not JSON with comments.
    #[error("{0}")]
    Syntax(String),
    /// A key occurs twice.
    #[error("duplicate key {0:?}; remove one of them")]
    Repeated(String),
    /// The file defines no servers.
    #[error("no MCP servers found; define them under `mcpServers`, `servers` or `context_servers`")]
    NoServers,
    /// The servers are not an object.
    #[error("{holder} is {found}; give an object from names to servers")]
    NoObject {
        /// The JSON pointer to the servers.
        holder: &'static str,
        /// The JSON type of the value.
        found: &'static str,
    },
    /// The file defines too many servers.
    #[error("more than {MAX_SERVERS} servers; split the file")]
    TooMany,
}

/// The values for the placeholders of a configuration file.
#[derive(Clone, Copy)]
pub struct ConfigEnvironment<'a> {
    /// Looks up an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The folder of the file.
    pub folder: &'a Path,
    /// Reads a file that an entry names.
    pub read: &'a dyn Fn(&Path) -> std::io::Result<String>,
}

/// Returns `true` if a text looks like a configuration file of MCP servers.
pub fn is_configuration(text: &str) -> bool {
    let Ok(file) = parse_jsonc(text) else {
        return false;
    };
    match find_servers(&file) {
        // Other files have a member `servers` too; in OpenAPI documents it is a list.
        Some(("/servers", Value::Object(servers))) => servers.values().all(is_server),
        Some((_, Value::Object(_))) => true,
        _ => false,
    }
}

/// Returns the text of a catalog file if it is a configuration file of MCP servers.
pub fn configuration_text(file: &CatalogFile) -> Option<&str> {
    let text = std::str::from_utf8(file.bytes()).ok()?;
    is_configuration(text).then_some(text)
}

fn is_server(value: &Value) -> bool {
    value.get("command").is_some() || URL_KEYS.iter().any(|key| value.get(key).is_some())
}

fn find_servers(file: &Value) -> Option<(&'static str, &Value)> {
    SERVER_POINTERS
        .into_iter()
        .find_map(|at| Some((at, file.pointer(at)?)))
}

fn parse_jsonc(text: &str) -> Result<Value, McpConfigError> {
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
    let parsed =
        jsonc_parser::parse_to_serde_value::<Json>(text.trim_start_matches('\u{feff}'), &options);
    let Json { value, repeated } = parsed.map_err(|error| {
        McpConfigError::Syntax(marked(&error.to_string(), MAX_NAME_CHARS).into_owned())
    })?;
    match repeated.into_iter().next() {
        Some(pointer) => Err(McpConfigError::Repeated(pointer)),
        None => Ok(value),
    }
}

/// Parses a configuration file.
///
/// # Errors
///
/// [`McpConfigError`] if the text is not a configuration file. Errors of single servers are in
/// [`Configuration::faults`].
pub fn parse_configuration(
    text: &str,
    environment: &ConfigEnvironment<'_>,
) -> Result<Configuration, McpConfigError> {
    let file = parse_jsonc(text)?;
    let (pointer, servers) = find_servers(&file).ok_or(McpConfigError::NoServers)?;
    let Some(servers) = servers.as_object() else {
        return Err(McpConfigError::NoObject {
            holder: pointer,
            found: kind(servers),
        });
    };
    if servers.len() > MAX_SERVERS {
        return Err(McpConfigError::TooMany);
    }
    let mut configuration = Configuration::default();
    for (name, server) in servers {
        let shown_name = marked(name, MAX_NAME_CHARS).into_owned();
        let is_disabled = server.get("disabled") == Some(&Value::Bool(true))
            || server.get("enabled") == Some(&Value::Bool(false));
        if is_disabled {
            configuration.disabled.push(shown_name);
            continue;
        }
        match parse_server(name, server, environment) {
            Ok(parsed) => {
                configuration.servers.push(parsed);
                let members = server.as_object().into_iter();
                let unknown = members.flat_map(|entry| unknown(entry, ToolFilter::is_member));
                configuration
                    .warnings
                    .extend(unknown.map(|member| ServerFault {
                        server: shown_name.clone(),
                        message: format!(
                            "the member {:?} is unknown and has no effect",
                            marked(member, MAX_NAME_CHARS)
                        ),
                        remedy: "remove it, or check that the server works without it".to_owned(),
                    }));
            }
            Err(EntryProblem { message, remedy }) => configuration.faults.push(ServerFault {
                server: shown_name,
                message,
                remedy,
            }),
        }
    }
    Ok(configuration)
}

/// The cause and the remedy of an invalid server entry.
pub(crate) struct EntryProblem {
    pub(crate) message: String,
    pub(crate) remedy: String,
}

pub(crate) fn problem(message: impl Into<String>, remedy: impl Into<String>) -> EntryProblem {
    EntryProblem {
        message: message.into(),
        remedy: remedy.into(),
    }
}

fn parse_server(
    name: &str,
    entry: &Value,
    environment: &ConfigEnvironment<'_>,
) -> Result<Server, EntryProblem> {
    let Some(members) = entry.as_object() else {
        return Err(problem(
            format!("the entry is {}", kind(entry)),
            "give an object with `command` or `url`",
        ));
    };
    refuse_unsupported(members)?;
    Ok(Server {
        name: name.to_owned(),
        transport: parse_transport(members, environment)?,
        tools: ToolFilter::parse(members)?,
        call_timeout: call_timeout(members)?,
        scope: None,
    })
}

fn parse_transport(
    members: &Map<String, Value>,
    environment: &ConfigEnvironment<'_>,
) -> Result<ServerTransport, EntryProblem> {
    let transport_type = members
        .get("type")
        .or_else(|| members.get("transport"))
        .and_then(Value::as_str);
    if transport_type.is_some_and(|name| name.eq_ignore_ascii_case("sse")) {
        return Err(problem(
            "the entry uses the HTTP+SSE transport, which MCP replaced in 2025",
            "give the server's streamable HTTP URL, with `\"type\": \"http\"`",
        ));
    }
    let address = URL_KEYS
        .into_iter()
        .find_map(|key| Some((key, members.get(key)?)));
    match (members.get("command"), address) {
        (Some(_), Some(_)) => Err(problem(
            "the entry has both a command and a URL",
            "remove one of them",
        )),
        (None, None) => Err(problem(
            "the entry has neither a command nor a URL",
            "give `command` or `url`",
        )),
        // Older Zed files have all members inside `command`.
        (Some(Value::Object(command)), None) => stdio(command, "path", environment),
        (Some(_), None) => stdio(members, "command", environment),
        (None, Some((key, url))) => {
            let url = expand(&text(key, url)?, environment)?;
            if !url.starts_with("http://") && !url.starts_with("https://") {
                return Err(problem(
                    format!("`{key}` is not an HTTP URL"),
                    "give a URL that starts with https:// or http://",
                ));
            }
            let headers = parse_headers(members, environment)?;
            let credentials = credentials(members, environment)?;
            if credentials.is_some()
                && headers
                    .keys()
                    .any(|name| name.eq_ignore_ascii_case("authorization"))
            {
                return Err(problem(
                    "the entry has both `clientCredentials` and an `Authorization` header",
                    "remove one of them",
                ));
            }
            Ok(ServerTransport::Http {
                url,
                headers,
                credentials,
            })
        }
    }
}

/// Reads the headers, and the variable with a bearer token.
fn parse_headers(
    members: &Map<String, Value>,
    environment: &ConfigEnvironment<'_>,
) -> Result<BTreeMap<String, String>, EntryProblem> {
    let mut headers = BTreeMap::new();
    for member in ["headers", "http_headers", "httpHeaders"] {
        headers.extend(parse_string_map(members, member, environment)?);
    }
    for member in ["bearer_token_env_var", "bearerTokenEnvVar"] {
        let Some(name) = members.get(member).filter(|name| !name.is_null()) else {
            continue;
        };
        let name = text(member, name)?;
        let Some(token) = (environment.variable)(&name).filter(|token| !token.is_empty()) else {
            return Err(problem(
                format!(
                    "the variable {:?} of `{member}` is not set",
                    marked(&name, MAX_NAME_CHARS)
                ),
                "set it in the environment",
            ));
        };
        headers.insert("Authorization".to_owned(), format!("Bearer {token}"));
    }
    Ok(headers)
}

fn credentials(
    members: &Map<String, Value>,
    environment: &ConfigEnvironment<'_>,
) -> Result<Option<ClientCredentials>, EntryProblem> {
    const MEMBER: &str = "clientCredentials";
    let members = match members.get(MEMBER) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(members)) => members,
        Some(other) => {
            let message = format!("`{MEMBER}` is {}", kind(other));
            return Err(problem(
                message,
                "give an object with `clientId` and `clientSecret`",
            ));
        }
    };
    let known_keys = ["clientId", "clientSecret", "scopes", "tokenUrl"];
    if let Some(unknown) = members
        .keys()
        .find(|name| !known_keys.contains(&name.as_str()))
    {
        let message = format!(
            "`{MEMBER}` has the unknown key {:?}",
            marked(unknown, MAX_NAME_CHARS)
        );
        return Err(problem(
            message,
            format!(
                "the known keys are {}",
                known_keys.map(|name| format!("`{name}`")).join(", ")
            ),
        ));
    }
    let required = |key| match members.get(key) {
        None => Err(problem(
            format!("`{MEMBER}` has no `{key}`"),
            format!("give `{key}`"),
        )),
        Some(value) => match expand(&text(key, value)?, environment)? {
            empty if empty.is_empty() => Err(problem(
                format!("`{key}` is empty"),
                "give a value, or set its variable",
            )),
            value => Ok(value),
        },
    };
    let scopes = parse_scopes(members)?;
    let token_url = members
        .get("tokenUrl")
        .map(|_| required("tokenUrl"))
        .transpose()?;
    if token_url.as_ref().is_some_and(|url| !is_private(url)) {
        return Err(problem(
            "`tokenUrl` is not an HTTPS URL, but receives a secret",
            "give a URL that starts with https://",
        ));
    }
    Ok(Some(ClientCredentials {
        id: required("clientId")?,
        secret: required("clientSecret")?,
        scopes,
        token_url,
    }))
}

fn parse_scopes(members: &Map<String, Value>) -> Result<Vec<String>, EntryProblem> {
    match members.get("scopes") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(scopes)) => scopes.iter().map(|scope| text("scopes", scope)).collect(),
        Some(other) => Err(problem(
            format!("`scopes` is {}", kind(other)),
            "give a list of strings",
        )),
    }
}

/// Returns `true` if nobody else can read what is sent to a URL: it uses HTTPS or points to this
/// machine.
pub fn is_private(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return url.starts_with("https://");
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if is_port(port) => host,
        _ => authority,
    };
    ["127.0.0.1", "[::1]", "localhost"].contains(&host)
}

fn stdio(
    members: &Map<String, Value>,
    program: &str,
    environment: &ConfigEnvironment<'_>,
) -> Result<ServerTransport, EntryProblem> {
    let command = expand(
        &text(program, members.get(program).unwrap_or(&Value::Null))?,
        environment,
    )?;
    if command.trim().is_empty() {
        return Err(problem("`command` is empty", "name the program"));
    }
    let arguments = match members.get("args") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(arguments)) => {
            let mut expanded = Vec::with_capacity(arguments.len());
            for argument in arguments {
                expanded.push(match argument {
                    Value::Number(_) | Value::Bool(_) => argument.to_string(),
                    other => expand(&text("args", other)?, environment)?,
                });
            }
            expanded
        }
        Some(other) => {
            return Err(problem(
                format!("`args` is {}", kind(other)),
                "give a list of strings",
            ));
        }
    };
    let folder = match members.get("cwd") {
        None | Some(Value::Null) => None,
        Some(folder) => Some(path("cwd", folder, environment)?),
    };
    let mut variables = BTreeMap::new();
    if let Some(file) = members.get("envFile").filter(|file| !file.is_null()) {
        let file = path("envFile", file, environment)?;
        let text = (environment.read)(&file).map_err(|error| {
            problem(
                format!("`envFile` {} cannot be read: {error}", file.display()),
                "check its path",
            )
        })?;
        let from_file = parse_env_file(&text).map_err(|error| {
            problem(
                format!("`envFile` {}: {error}", file.display()),
                "write NAME=value on each line",
            )
        })?;
        variables.extend(from_file);
    }
    variables.extend(parse_string_map(members, "env", environment)?);
    Ok(ServerTransport::Stdio {
        command,
        arguments,
        variables,
        folder,
    })
}

/// Reads a path. A `~` at its start is the home folder, and others are relative to the folder of the
/// file.
fn path(
    key: &str,
    value: &Value,
    environment: &ConfigEnvironment<'_>,
) -> Result<PathBuf, EntryProblem> {
    let text = expand(&text(key, value)?, environment)?;
    let variable = |name: &str| (environment.variable)(name);
    let below_home = match text.strip_prefix('~') {
        Some("") => Some(""),
        Some(rest) => rest.strip_prefix(['/', '\\']),
        None => None,
    };
    let home = below_home.and_then(|_| variable("HOME").or_else(|| variable("USERPROFILE")));
    match (below_home, home) {
        (Some(rest), Some(home)) => Ok(Path::new(&home).join(rest)),
        _ => Ok(environment.folder.join(text)),
    }
}

fn text(key: &str, value: &Value) -> Result<String, EntryProblem> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(problem(
            format!("`{key}` is {}", kind(other)),
            "give a string",
        )),
    }
}

/// Parses an object of strings. Numbers and booleans become text, as in the programs that use these
/// files.
fn parse_string_map(
    members: &Map<String, Value>,
    key: &str,
    environment: &ConfigEnvironment<'_>,
) -> Result<BTreeMap<String, String>, EntryProblem> {
    let entries = match members.get(key) {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(entries)) => entries,
        Some(other) => {
            return Err(problem(
                format!("`{key}` is {}", kind(other)),
                "give an object of strings",
            ));
        }
    };
    let mut expanded = BTreeMap::new();
    for (name, value) in entries {
        let value = match value {
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            other => expand(&text(key, other)?, environment)?,
        };
        expanded.insert(name.clone(), value);
    }
    Ok(expanded)
}

/// Expands placeholders in braces. The inserted values are not expanded again.
fn expand(text: &str, environment: &ConfigEnvironment<'_>) -> Result<String, EntryProblem> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            return Err(problem("a `${` is not closed", "close it with `}`"));
        };
        expanded.push_str(&value(name, environment)?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn value(name: &str, environment: &ConfigEnvironment<'_>) -> Result<String, EntryProblem> {
    let variable = |name: &str| (environment.variable)(name);
    if let Some(input) = name.strip_prefix("input:") {
        return Err(problem(
            format!(
                "the placeholder \"input:{}\" needs input in an editor",
                marked(input, MAX_NAME_CHARS)
            ),
            "use `${NAME}` instead, and set the variable NAME",
        ));
    }
    let folder = || {
        let folder = environment.folder;
        // Project files may be in a hidden folder of the project: `.vscode`, `.cursor`.
        let is_hidden = folder
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let project = match folder.parent() {
            Some(parent) if is_hidden => parent,
            _ => folder,
        };
        project.display().to_string()
    };
    let value = match name {
        "workspaceFolder" | "workspaceRoot" => Some(folder()),
        "userHome" => variable("HOME").or_else(|| variable("USERPROFILE")),
        "pathSeparator" | "/" => Some(std::path::MAIN_SEPARATOR.to_string()),
        _ => {
            let name = name.strip_prefix("env:").unwrap_or(name);
            match name.split_once(":-") {
                Some((name, default)) => match variable(name) {
                    Some(text) if !text.is_empty() => Some(text),
                    _ => Some(default.to_owned()),
                },
                None => variable(name),
            }
        }
    };
    value.ok_or_else(|| {
        let name = marked(name, MAX_NAME_CHARS);
        problem(
            format!("the variable {name:?} is not set"),
            "set it in the environment",
        )
    })
}
