//! Configuration files of MCP servers.
//!
//! The parser accepts the files of Claude Desktop, Claude Code (`.mcp.json`), Cursor, Windsurf,
//! Cline, Roo Code, Copilot CLI and Gemini CLI (`mcpServers`), VS Code (`servers`, also inside `mcp`
//! of its settings), Zed (`context_servers`), opencode (`mcp`), Codex (`mcp_servers`, in TOML) and
//! Goose (`extensions`, in YAML). JSON may have comments and trailing commas.
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

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value};
use thiserror::Error;

use picktools::catalog::CatalogFile;
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::schema::kind;

use crate::config_error::MAX_SERVERS;
pub use crate::config_error::McpConfigError;
use crate::entry_format::EntryFormat;
use crate::entry_problem::{EntryProblem, problem};
pub use crate::members::inherited_name_fault;
use crate::members::{call_timeout, refuse_unsupported, unknown};
use crate::notation::{self, Notation};
pub use crate::placeholders::ConfigEnvironment;
pub use crate::tool_filter::ToolFilter;
pub use crate::transport::{ClientCredentials, ServerTransport, is_private};
use crate::transport::{URL_KEYS, parse_transport};

/// The servers of a configuration file.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Configuration {
    /// The valid, enabled servers, in the order of the file.
    pub servers: Vec<Server>,
    /// The names of the disabled servers.
    pub disabled: Vec<String>,
    /// The names of entries that run inside their client, such as the `builtin` extensions of
    /// Goose.
    pub built_in: Vec<String>,
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

/// Returns `true` if a text looks like a configuration file of MCP servers.
pub fn is_configuration(text: &str) -> bool {
    // Documents of other kinds may be large.
    let has_servers = match Notation::from_text(text) {
        Notation::Json => true,
        Notation::Toml => text.contains("mcp_servers"),
        Notation::Yaml => ["extensions", "mcpServers"]
            .iter()
            .any(|member| text.contains(member)),
    };
    if !has_servers {
        return false;
    }
    let Ok(file) = notation::parse(text) else {
        return false;
    };
    match EntryFormat::find(&file) {
        // Other files have a member `servers` too; in OpenAPI documents it is a list.
        Some((_, "/servers", Value::Object(servers))) => servers.values().all(is_server),
        Some((format, _, Value::Object(servers))) => format.matches(servers),
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
    let file = notation::parse(text)?;
    let (format, servers) = servers(&file)?;
    if servers.len() > MAX_SERVERS {
        return Err(McpConfigError::TooMany);
    }
    let mut configuration = Configuration::default();
    for (name, server) in servers {
        let shown_name = marked(name, MAX_NAME_CHARS).into_owned();
        if format.is_built_in(server) {
            configuration.built_in.push(shown_name);
            continue;
        }
        let is_disabled = server.get("disabled") == Some(&Value::Bool(true))
            || server.get("enabled") == Some(&Value::Bool(false));
        if is_disabled {
            configuration.disabled.push(shown_name);
            continue;
        }
        match parse_server(name, server, format, environment) {
            Ok((parsed, warnings)) => {
                configuration.servers.push(parsed);
                configuration.warnings.extend(warnings);
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

/// Returns the servers of a file, with the format of their entries.
fn servers(file: &Value) -> Result<(EntryFormat, &Map<String, Value>), McpConfigError> {
    let (format, holder, servers) = EntryFormat::find(file).ok_or(McpConfigError::NoServers)?;
    match servers {
        Value::Object(servers) => Ok((format, servers)),
        other => Err(McpConfigError::NoObject {
            holder,
            found: kind(other),
        }),
    }
}

/// An entry of a configuration file in the form that most clients share. Its placeholders are not
/// expanded.
#[derive(Debug, Clone)]
pub struct CommonEntry {
    /// The server's name in the file.
    pub name: String,
    /// The members of the entry, or an empty object if it is not an object.
    pub members: Map<String, Value>,
}

/// Returns the entries of a configuration file, also those of disabled servers. An entry that
/// cannot be converted to the common form keeps its own members.
///
/// # Errors
///
/// Those of [`parse_configuration`].
pub fn common_entries(text: &str) -> Result<Vec<CommonEntry>, McpConfigError> {
    let file = notation::parse(text)?;
    let (format, servers) = servers(&file)?;
    let mut entries = Vec::new();
    for (name, entry) in servers {
        let own = entry.as_object().cloned().unwrap_or_default();
        let converted = format.convert(&own).ok().map(Cow::into_owned);
        entries.push(CommonEntry {
            name: name.clone(),
            members: converted.unwrap_or(own),
        });
    }
    Ok(entries)
}

/// Reads an entry. Returns the server, and warnings about members that have no effect.
fn parse_server(
    name: &str,
    entry: &Value,
    format: EntryFormat,
    environment: &ConfigEnvironment<'_>,
) -> Result<(Server, Vec<ServerFault>), EntryProblem> {
    let Some(members) = entry.as_object() else {
        return Err(problem(
            format!("the entry is {}", kind(entry)),
            "give an object with `command` or `url`",
        ));
    };
    let members = format.convert(members)?;
    refuse_unsupported(&members)?;
    let server = Server {
        name: name.to_owned(),
        transport: parse_transport(&members, environment)?,
        tools: ToolFilter::parse(&members)?,
        call_timeout: call_timeout(&members)?,
        scope: None,
    };
    let mut warnings = Vec::new();
    for member in unknown(&members, ToolFilter::is_member) {
        let member = marked(member, MAX_NAME_CHARS);
        warnings.push(ServerFault {
            server: marked(name, MAX_NAME_CHARS).into_owned(),
            message: format!("the member {member:?} is unknown and has no effect"),
            remedy: "remove it, or check that the server works without it".to_owned(),
        });
    }
    Ok((server, warnings))
}
