//! Catalogs of tool definitions: reading, checking and changing them.
//!
//! A [`Catalog`] is immutable; [`Catalog::with_tools`] and [`Catalog::filtered`] make a new one
//! that shares the unchanged tools. Reading has four steps. `files` finds the files, `format`
//! splits bytes into entries, and `entry` turns an entry of any published shape into a [`Tool`].
//! `conflicts` then compares all tools. Each step collects faults instead of stopping at the first,
//! so that one run reports them all. `options` sets the treatment of conflicts and of untrusted
//! sources.

mod aliases;
mod changes;
mod conflicts;
mod definition;
mod definitions;
mod detail;
mod entry;
mod entry_fault;
mod error;
mod files;
mod format;
mod gemini;
mod grouping;
pub mod http;
mod options;
mod outline;
mod part;
mod policy;
mod provider_tools;
mod reader;
mod reading;
mod saving;
mod sources;
pub mod spelling;
mod stats;
mod unknown;

use std::path::Path;
use std::sync::Arc;

use foldhash::HashMap;
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

pub use aliases::OperatorAliases;
pub use aliases::{is_reserved, known_for, reserved};
pub use changes::{ChangeError, Changes};
pub use definition::{Alias, Annotations, NoSchemaMode, Safety, ThreatLevel, Tool};
pub use definition::{Effects, READ_ONLY, is_read_only};
use definitions::{Definitions, DefinitionsInMemory, serialise};
pub(crate) use definitions::{Digest, LazyTool};
pub use detail::Detail;
pub use error::{CatalogError, CatalogFault, FaultKind, Position};
pub use files::CatalogFile;
pub use grouping::policy;
pub(crate) use grouping::{Group, Grouping};
pub use options::{CatalogOptions, Conflicts, InvalidEntries};
pub use part::ShardTool;
pub use reader::{DocumentError, DocumentOperation, DocumentReader, OperationFault, ToolDocument};
pub use reading::{CatalogExamination, Entries};
pub use sources::{KnownSources, Sources};
use stats::ShardContext;
pub use stats::{CatalogStats, PolicyGroup};
pub use unknown::UnknownValue;

pub use crate::ranking::ToolId;
use crate::saved::{SavedError, SavedFile, TextTable};
use crate::schema::{ArgumentCheck, Validators};
pub use crate::schema::{MAX_SCHEMA_DEPTH, MAX_SCHEMA_NODES};

/// The tools that the engine picks from, in registration order.
///
/// ```
/// use picktools::{Catalog, Tool};
///
/// let catalog = Catalog::from_tools([Tool::without_arguments("send_email", "Sends an email")])?;
/// let forecast = Tool::without_arguments("get_forecast", "Weather for the coming days");
/// let more = catalog.with_tools([forecast])?;
/// assert_eq!((catalog.len(), more.len()), (1, 2));
/// let id = more.find("get_forecast").expect("the tool is in the new catalog");
/// assert_eq!(more.tool(id)?.name, "get_forecast");
/// # Ok::<(), picktools::catalog::CatalogError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Catalog {
    tools: Arc<ToolTable>,
    notices: Vec<CatalogFault>,
    /// The options of the catalog, which also apply to tools that are added later.
    options: CatalogOptions,
    /// The validators, shared with the catalogs that are derived from this one.
    validators: Arc<Validators<Tool>>,
}

/// The tools of a catalog, and what is known of them without reading their definitions.
#[derive(Debug)]
struct ToolTable {
    definitions: Box<dyn Definitions>,
    /// The SHA-256 of each definition.
    digests: Arc<[Digest]>,
    ids: Arc<ToolIds>,
    sources: Sources,
    /// The tools that have examples, in registration order.
    exemplified: Vec<ToolId>,
    /// The SHA-256 over all digests.
    digest: String,
}

/// The tools by id.
#[derive(Debug)]
struct ToolIds {
    texts: TextTable,
    /// The tool of each id.
    tools: Vec<u32>,
}

impl Catalog {
    /// Reads a catalog file, or the files of a folder, with default options; see
    /// [`CatalogOptions::open`].
    ///
    /// # Errors
    ///
    /// As [`CatalogOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CatalogError> {
        CatalogOptions::default().open(path)
    }

    /// Reads a catalog from bytes; see [`CatalogOptions::read`]. `default_source` becomes the
    /// source of tools that have none.
    ///
    /// # Errors
    ///
    /// As [`CatalogOptions::read`].
    pub fn from_slice(
        bytes: &[u8],
        origin: &str,
        default_source: Option<&str>,
    ) -> Result<Self, CatalogError> {
        let default_source = default_source.map(str::to_owned);
        CatalogOptions {
            default_source,
            ..CatalogOptions::default()
        }
        .read(bytes, origin)
    }

    /// Makes a catalog from tools in memory, with default options; see [`CatalogOptions::collect`].
    ///
    /// # Errors
    ///
    /// As [`CatalogOptions::collect`].
    pub fn from_tools(tools: impl IntoIterator<Item = Tool>) -> Result<Self, CatalogError> {
        CatalogOptions::default().collect(tools)
    }

    /// Makes a new catalog with `more` tools at the end. It shares the other tools with this one.
    ///
    /// The options of this catalog apply to the new tools. A tool of an untrusted source is
    /// untrusted, and the operator's aliases take precedence over its own.
    ///
    /// # Errors
    ///
    /// As [`CatalogOptions::collect`].
    pub fn with_tools(&self, more: impl IntoIterator<Item = Tool>) -> Result<Self, CatalogError> {
        self.extended(&self.options, more)
    }

    fn extended(
        &self,
        options: &CatalogOptions,
        more: impl IntoIterator<Item = Tool>,
    ) -> Result<Self, CatalogError> {
        Ok(self.derive(options.append(Some(self), more)?))
    }

    /// Adds the notices of this catalog to one that was made from it, and shares the validators.
    fn derive(&self, mut catalog: Self) -> Self {
        catalog.validators = Arc::clone(&self.validators);
        catalog.notices.splice(..0, self.notices.iter().cloned());
        catalog
    }

    /// Makes a new catalog that resolves conflicts of names and aliases of later tools in this way.
    #[must_use]
    pub fn with_conflicts(&self, conflicts: Conflicts) -> Self {
        let mut catalog = self.clone();
        catalog.options.conflicts = conflicts;
        catalog
    }

    /// Makes a new catalog with `more` tools at the end and with more aliases of the operator, which
    /// take precedence over those of the options. Aliases that cannot be given become notices.
    ///
    /// ```
    /// use picktools::{Catalog, Tool, catalog::OperatorAliases};
    ///
    /// let catalog = Catalog::from_tools([Tool::without_arguments("send_email", "Sends")])?;
    /// let pairs = [("mail", "send_email"), ("chat", "send_message")];
    /// let pairs = pairs.map(|(alias, tool)| (alias.to_owned(), tool.to_owned()));
    /// let aliases = OperatorAliases::from_pairs(pairs);
    /// let extended = catalog.with_tools_and_aliases([], &aliases)?;
    /// assert_eq!(extended.tools()?[0].aliases[0].name, "mail");
    /// assert_eq!(extended.notices().len(), 1);
    /// # Ok::<(), picktools::catalog::CatalogError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`CatalogError::Invalid`] if one of the tools is invalid, and for conflicts that the options do
    /// not resolve.
    pub fn with_tools_and_aliases(
        &self,
        more: impl IntoIterator<Item = Tool>,
        aliases: &OperatorAliases,
    ) -> Result<Self, CatalogError> {
        self.extended(&self.options.with_aliases(aliases), more)
    }

    /// Makes a new catalog with added, replaced and removed tools. It shares the other tools with
    /// this one. The rules of [`with_tools`](Self::with_tools) apply to the new tools. A replaced
    /// tool keeps its position.
    ///
    /// ```
    /// use picktools::{Catalog, Tool, catalog::Changes};
    ///
    /// let catalog = Catalog::from_tools([
    ///     Tool::without_arguments("send_email", "Sends"),
    ///     Tool::without_arguments("get_forecast", "Weather"),
    /// ])?;
    /// let changed = catalog.with_changes(Changes {
    ///     put: vec![Tool::without_arguments("send_email", "Sends an email")],
    ///     remove: vec!["get_forecast".to_owned()],
    /// })?;
    /// assert_eq!((changed.len(), changed.tools()?[0].description.as_str()), (1, "Sends an email"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ChangeError`] for an id that no tool has, for invalid tools, and for conflicts that the
    /// options do not resolve.
    pub fn with_changes(&self, changes: Changes) -> Result<Self, ChangeError> {
        Ok(self.derive(self.options.change(self, changes)?))
    }

    /// Makes a new catalog of the tools that `keep` accepts, and shares them with this one. The
    /// operator's aliases of the other tools are removed.
    ///
    /// # Errors
    ///
    /// [`SavedError`] if a definition of a saved index cannot be read.
    pub fn filtered(&self, mut keep: impl FnMut(&Tool) -> bool) -> Result<Self, SavedError> {
        let mut tools = Vec::new();
        for tool in self.tools()? {
            if keep(tool) {
                tools.push(Arc::clone(tool));
            }
        }
        let mut options = self.options.clone();
        if let Some(aliases) = &mut options.aliases {
            aliases.retain_for(&tools);
        }
        Ok(self.derive(Self::new(tools, options, Some(self))?))
    }

    /// Makes a catalog of tools in memory; `previous` has some of them already.
    fn new(
        tools: Vec<Arc<Tool>>,
        options: CatalogOptions,
        previous: Option<&Self>,
    ) -> Result<Self, SavedError> {
        let ids = || {
            let ids = tools
                .par_iter()
                .enumerate()
                .map(|(index, tool)| (tool.id.as_str(), ToolId::from_index(index).0));
            TextTable::new(ids.collect())
        };
        let mut exemplified = Vec::new();
        for (index, tool) in tools.iter().enumerate() {
            if !tool.examples.is_empty() {
                exemplified.push(ToolId::from_index(index));
            }
        }
        let sources = || Sources::new(tools.iter().map(|tool| tool.source.as_deref()));
        let ((texts, id_tools), (sources, digests)) =
            rayon::join(ids, || rayon::join(sources, || digests(&tools, previous)));
        let digests = digests?;
        let table = ToolTable {
            ids: Arc::new(ToolIds {
                texts,
                tools: id_tools,
            }),
            sources,
            exemplified,
            digest: digest(&digests),
            digests,
            definitions: Box::new(DefinitionsInMemory::from(tools)),
        };
        Ok(Self::from_table(table, options))
    }

    fn from_table(tools: ToolTable, options: CatalogOptions) -> Self {
        Self {
            tools: Arc::new(tools),
            notices: Vec::new(),
            validators: Arc::new(Validators::new(options.schema_compiler.clone())),
            options,
        }
    }

    /// Returns the tools in registration order. For a saved index it reads all definitions, which
    /// takes a while. All of them stay in memory, so that no later read fails.
    ///
    /// # Errors
    ///
    /// [`SavedError`] if a definition of a saved index cannot be read or is damaged. Definitions in
    /// memory never fail.
    pub fn tools(&self) -> Result<&[Arc<Tool>], SavedError> {
        self.tools.definitions.all()
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.tools.definitions.len()
    }

    /// Returns `true` if the catalog is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the tool at `id`. For a saved index it reads the definition on first use.
    ///
    /// # Errors
    ///
    /// [`SavedError`] if the definition cannot be read or is damaged. Definitions in memory never
    /// fail.
    ///
    /// # Panics
    ///
    /// If `id` comes from a larger catalog.
    pub fn tool(&self, id: ToolId) -> Result<&Arc<Tool>, SavedError> {
        self.tools.definitions.definition(id.index())
    }

    /// Returns the id of the tool at `id`, by which [`find`](Self::find) finds it.
    ///
    /// # Panics
    ///
    /// If `id` comes from a larger catalog.
    pub fn tool_id(&self, id: ToolId) -> &str {
        self.tools.definitions.id(id.index())
    }

    /// Returns the outline of the tool at `id`: its names and policy. The description, the schemas
    /// and the HTTP operation may be missing.
    pub(crate) fn outline(&self, id: ToolId) -> Result<&Tool, SavedError> {
        self.tools.definitions.outline(id.index())
    }

    /// Returns the outlines of all tools, in registration order.
    pub(crate) fn outlines(&self) -> Result<Vec<&Tool>, SavedError> {
        self.ids().map(|id| self.outline(id)).collect()
    }

    /// Returns the source of the tool at an id.
    ///
    /// # Panics
    ///
    /// If the id comes from a larger catalog.
    pub fn source(&self, tool: ToolId) -> Option<&str> {
        self.sources().source(tool.index())
    }

    /// Returns the index of a tool's source in [`source_names`](Self::source_names).
    pub(crate) fn source_number(&self, tool: ToolId) -> Option<usize> {
        self.sources().number(tool.index())
    }

    /// Returns the names of the sources, in the order of the tools.
    pub(crate) fn source_names(&self) -> &[String] {
        self.sources().all()
    }

    /// Returns the notices of reading: everything that was left out, and why.
    pub fn notices(&self) -> &[CatalogFault] {
        &self.notices
    }

    /// Returns the untrusted sources in the catalog's options that none of its tools has.
    pub fn unknown_values(&self) -> Vec<UnknownValue> {
        self.options.unknown_values(self.sources())
    }

    /// Returns the validator for the arguments of a tool with this schema.
    pub fn check(
        &self,
        tool: ToolId,
        schema: &serde_json::Value,
    ) -> Result<Arc<ArgumentCheck>, String> {
        let definition = self.tool(tool).map_err(|error| error.to_string())?;
        self.validators.get(definition, schema)
    }

    pub(crate) fn sources(&self) -> &Sources {
        &self.tools.sources
    }

    /// Finds a tool by its id.
    pub fn find(&self, id: &str) -> Option<ToolId> {
        let ToolIds { texts, tools } = &*self.tools.ids;
        Some(ToolId(tools[texts.find(id)?]))
    }

    /// Returns the SHA-256 over all definitions in order, as 64 hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.tools.digest
    }

    /// Returns the ids of all tools, in registration order.
    pub fn ids(&self) -> impl Iterator<Item = ToolId> + use<> {
        (0..self.len()).map(ToolId::from_index)
    }

    /// Returns the SHA-256 of each definition, in registration order.
    pub(crate) fn digests(&self) -> &[Digest] {
        &self.tools.digests
    }

    /// Returns the memory that the catalog takes in addition to the definitions, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let ToolTable {
            definitions,
            digests,
            ids,
            ..
        } = &*self.tools;
        let by_id = ids.texts.memory() + size_of_val(&*ids.tools);
        let groups = size_of_val(&*self.grouping().group_by_tool);
        by_id + groups + size_of_val(&**digests) + definitions.memory()
    }

    /// Returns the tools that have examples, in registration order.
    pub(crate) fn exemplified(&self) -> &[ToolId] {
        &self.tools.exemplified
    }

    /// Returns the tools grouped by policy and source.
    pub(crate) fn grouping(&self) -> &Arc<Grouping> {
        self.tools.definitions.grouping()
    }

    /// Returns one tool for each policy; for a shard, for each policy of the full catalog.
    pub(crate) fn policies(&self) -> Result<Vec<&Tool>, SavedError> {
        match self.full_stats() {
            Some(stats) => Ok(stats.policies.iter().collect()),
            None => {
                let tools = self.grouping().policies.iter();
                tools.map(|&tool| self.outline(tool)).collect()
            }
        }
    }

    /// Returns the saved index that this catalog was opened from.
    pub(crate) fn saved(&self) -> Option<&Arc<SavedFile>> {
        self.tools.definitions.saved()
    }

    fn shard_context(&self) -> Option<&ShardContext> {
        self.tools.definitions.shard()
    }
}

/// Returns the digests of definitions; those in `previous` are copied.
fn digests(tools: &[Arc<Tool>], previous: Option<&Catalog>) -> Result<Arc<[Digest]>, SavedError> {
    let address = |tool: &Arc<Tool>| Arc::as_ptr(tool).addr();
    let mut previous_digests: HashMap<usize, &Digest> = HashMap::default();
    if let Some(catalog) = previous {
        let addresses = catalog.tools()?.iter().map(address);
        previous_digests.extend(addresses.zip(catalog.digests()));
    }
    let digest = |tool: &Arc<Tool>| match previous_digests.get(&address(tool)) {
        Some(digest) => **digest,
        None => digest_tool(tool),
    };
    Ok(tools.par_iter().map(digest).collect::<Vec<_>>().into())
}

fn digest_tool(tool: &Tool) -> Digest {
    Sha256::digest(serialise(tool)).into()
}

/// Returns the digest of a catalog from the digests of its definitions.
fn digest(digests: &[Digest]) -> String {
    let bytes = Sha256::digest(digests.as_flattened());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
