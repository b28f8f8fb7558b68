//! Errors of advertised names.

use crate::excerpt::list;

/// An error from choosing the names that a model is shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdvertisingError {
    /// The map of names has a key that is no tool.
    #[error(
        "the name map has {name:?}, which is none of the tools; write a tool's id, source/name or name"
    )]
    UnknownTool {
        /// The key.
        name: String,
    },
    /// The map of names has a key that is several tools.
    #[error(
        "the name map has {name:?}, which is ambiguous; write one of: {}",
        list(candidates, ", ")
    )]
    AmbiguousTool {
        /// The key.
        name: String,
        /// The ids of the tools that it may mean.
        candidates: Vec<String>,
    },
    /// The map of names has two keys for one tool.
    #[error("the name map names the tool {tool} twice; keep one of its names")]
    NamedTwice {
        /// The tool's id.
        tool: String,
    },
    /// Two tools would be shown under one name.
    #[error(
        "the tools {} would both be shown as {name:?}; give each a name of its own",
        list(tools, " and ")
    )]
    SharedName {
        /// The name.
        name: String,
        /// The ids of the tools.
        tools: Vec<String>,
    },
    /// A tool has more aliases than can each have a definition.
    #[error(
        "the tool {tool} has {count} aliases, of which {limit} can have definitions of their own; tell them in the \
         descriptions instead (described)"
    )]
    TooManyAliases {
        /// The tool's id.
        tool: String,
        /// How many it has.
        count: usize,
        /// The most that can be expanded.
        limit: usize,
    },
    /// The map of names shows a tool under nothing.
    #[error(
        "the name map shows the tool {tool} under an empty name; give it one, or leave it out of the map"
    )]
    EmptyName {
        /// The tool's id.
        tool: String,
    },
}
