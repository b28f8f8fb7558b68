//! Errors of an advertising strategy.

use crate::excerpt::list;

/// An error of choosing the names under which a model sees the tools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdvertisingError {
    /// The name map has a key that is not a tool.
    #[error("unknown tool in the name map: {name:?}; write a tool's id, source/name or name")]
    UnknownTool {
        /// The key.
        name: String,
    },
    /// The name map has a key that several tools have as a name.
    #[error(
        "ambiguous tool in the name map: {name:?}; write one of: {}",
        list(candidates, ", ")
    )]
    AmbiguousTool {
        /// The key.
        name: String,
        /// The ids of the tools that have the name.
        candidates: Vec<String>,
    },
    /// The name map has two keys for one tool.
    #[error("duplicate tool in the name map: {tool} has two keys; keep one of them")]
    NamedTwice {
        /// The tool's id.
        tool: String,
    },
    /// Two tools would be shown under one name.
    #[error(
        "the tools {} would both be shown as {name:?}; give them different names",
        list(tools, " and ")
    )]
    SharedName {
        /// The name.
        name: String,
        /// The ids of the tools.
        tools: Vec<String>,
    },
    /// A tool has more aliases than the limit for separate definitions.
    #[error(
        "too many aliases: the tool {tool} has {count}, and at most {limit} can have a definition \
         each; list them in the description instead (described)"
    )]
    TooManyAliases {
        /// The tool's id.
        tool: String,
        /// The number of aliases.
        count: usize,
        /// The most aliases that can have a definition each.
        limit: usize,
    },
    /// The name map has an empty name for a tool.
    #[error(
        "the name map has an empty name for the tool {tool}; set a name, or remove the tool from \
         the map"
    )]
    EmptyName {
        /// The tool's id.
        tool: String,
    },
}
