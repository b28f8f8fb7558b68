//! Errors of configuration files.

use thiserror::Error;

/// The largest number of servers in one file.
pub(crate) const MAX_SERVERS: usize = 1_000;

/// Error of a configuration file as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum McpConfigError {
    /// The text is not valid in its notation: JSON with comments, TOML or YAML.
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
