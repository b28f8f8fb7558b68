//! Options of reading a catalog: conflicts, untrusted sources, and the operator's aliases.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::aliases::OperatorAliases;
use super::definition::NoSchemaMode;
use super::reader::DocumentReader;
use crate::schema::SchemaCompiler;

/// The treatment of names and aliases that two tools claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conflicts {
    /// Rejects the catalog; suits files.
    #[default]
    Strict,
    /// Keeps the name or alias of the tool that has precedence, leaves out the other tool or alias,
    /// and adds a notice to [`Catalog::notices`](super::Catalog::notices). Suits live sources, which must not break each
    /// other. Trusted tools have precedence over untrusted ones, and otherwise earlier ones over
    /// later ones.
    Warn,
}

/// The treatment of entries that are not valid tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InvalidEntries {
    /// Rejects the catalog.
    #[default]
    Refuse,
    /// Leaves the entry out, and adds a notice to [`Catalog::notices`](super::Catalog::notices). A catalog without a valid
    /// tool, and one that is damaged as a whole, is rejected nevertheless.
    LeaveOut,
}

/// Options of reading a catalog.
///
/// ```
/// use picktools::CatalogOptions;
///
/// let options = CatalogOptions {
///     untrusted_sources: ["stranger".to_owned()].into(),
///     ..CatalogOptions::default()
/// };
/// let entries = br#"[
///     {"name": "run", "source": "stranger", "aliases": ["bash"], "parameters": {}}
/// ]"#;
/// let catalog = options.read(entries, "tools.json")?;
/// let tool = &catalog.tools()?[0];
/// assert!(tool.untrusted && tool.aliases.is_empty());
/// println!("{}", catalog.notices()[0]);
/// # Ok::<(), picktools::catalog::CatalogError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct CatalogOptions {
    /// The treatment of names and aliases that two tools claim.
    pub conflicts: Conflicts,
    /// The treatment of entries that are not valid tools. Operations of OpenAPI documents and tools
    /// of MCP servers are always left out.
    pub invalid_entries: InvalidEntries,
    /// The mode of tools that have no schema and do not say that they need none. `None`: such a tool
    /// is not valid.
    pub allow_no_schema: Option<NoSchemaMode>,
    /// Untrusted sources. They include sources with confusable names. Their tools become
    /// [`Tool::untrusted`](super::Tool::untrusted).
    pub untrusted_sources: BTreeSet<String>,
    /// `true` to accept aliases of untrusted sources, except well-known names such as `bash` and
    /// `read_file`.
    pub allow_claimed_aliases: bool,
    /// The operator's aliases, which take precedence over all others.
    pub aliases: Option<OperatorAliases>,
    /// The treatment of the operator's aliases that refer to no tool, to several tools, or to
    /// another tool than the one of that name.
    pub invalid_aliases: InvalidEntries,
    /// The source of tools that have none.
    pub default_source: Option<String>,
    /// The compiler of the validators for arguments; `None` uses `JsonSchema`.
    pub schema_compiler: Option<Arc<dyn SchemaCompiler>>,
    /// Readers of document formats other than lists of tools, such as OpenAPI
    /// (`picktools_import::readers`).
    pub readers: Vec<Arc<dyn DocumentReader>>,
}
