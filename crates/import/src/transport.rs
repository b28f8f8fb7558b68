//! The transport of a server's entry: a program, or a URL with its headers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::schema::kind;

use crate::entry_problem::{EntryProblem, problem};
use crate::members::{inherited, parse_env_file};
use crate::placeholders::{ConfigEnvironment, expand};

/// The members of a server entry that may contain its URL.
pub(crate) const URL_KEYS: [&str; 3] = ["url", "serverUrl", "httpUrl"];

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
        /// The names of the caller's environment variables that the program also inherits.
        inherit: Vec<String>,
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

pub(crate) fn parse_transport(
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
    headers.extend(headers_from_variables(members, environment)?);
    Ok(headers)
}

/// Reads the headers whose values are variables. A header without a value is left out, as in Codex.
fn headers_from_variables(
    members: &Map<String, Value>,
    environment: &ConfigEnvironment<'_>,
) -> Result<BTreeMap<String, String>, EntryProblem> {
    const MEMBER: &str = "env_http_headers";
    let mut headers = BTreeMap::new();
    let names = match members.get(MEMBER) {
        None | Some(Value::Null) => return Ok(headers),
        Some(Value::Object(names)) => names,
        Some(other) => {
            return Err(problem(
                format!("`{MEMBER}` is {}", kind(other)),
                "give an object from headers to names of variables",
            ));
        }
    };
    for (header, name) in names {
        let name = text(MEMBER, name)?;
        if let Some(value) = (environment.variable)(&name).filter(|value| !value.is_empty()) {
            headers.insert(header.clone(), value);
        }
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
        inherit: inherited(members)?,
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
