//! The tools that a name resolves to.

use serde::Serialize;

use crate::ranking::ToolId;

/// The result of resolving a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// One tool.
    Tool(ResolvedTool),
    /// Several tools, of different sources or with variant spellings of the name, in registration
    /// order.
    Ambiguous(Vec<ToolId>),
    /// No tool.
    Unknown {
        /// The most similar names of the catalog, best first.
        suggestions: Vec<String>,
    },
}

/// A tool that a name resolves to, with the kind of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResolvedTool {
    /// The tool.
    pub tool: ToolId,
    /// The kind of the name.
    pub via: ResolvedVia,
    /// `true` if the name is a deprecated alias.
    pub deprecated: bool,
}

/// The kind of a name that resolves to a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResolvedVia {
    /// The tool's name, qualified name or id.
    Name,
    /// An alias of the tool.
    Alias,
    /// A name or an alias in a variant spelling.
    Normalised,
    /// The shown name: the name under which the model saw the tool.
    Advertised,
}
