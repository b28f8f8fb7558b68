//! The immutable corpus: definitions and reading.
//!
//! A [`Catalog`] is made once and never changes; [`Catalog::with_tools`] and [`Catalog::filtered`]
//! make a new one that shares the tools that stay. Reading goes through four rooms: `files` finds
//! the files, `format` splits bytes into entries, `entry` turns one entry of whatever published
//! shape into a [`Tool`], and `conflicts` looks at all of them together. Each collects faults
//! instead of stopping at the first, so that one run reports them all. `options` says what becomes
//! of conflicts and of untrusted sources.

mod aliases;
mod changes;
mod conflicts;
mod definition;
mod definitions;
mod detail;
mod entry;
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
mod saving;
mod sources;
pub mod spelling;
mod unknown;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use foldhash::HashMap;
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

pub use aliases::OperatorAliases;
pub use aliases::{is_reserved, known_for, reserved};
pub use changes::{ChangeError, Changes};
pub use definition::{Alias, Annotations, NoSchemaMode, Safety, ThreatLevel, Tool};
pub use definition::{Effects, READ_ONLY, is_read_only};
use definitions::{Definitions, serialise};
pub(crate) use definitions::{Digest, LazyTool};
pub use detail::Detail;
pub use error::{CatalogError, CatalogFault, FaultKind, Position};
pub use files::CatalogFile;
pub use grouping::policy;
pub(crate) use grouping::{Group, Grouping};
pub use options::{CatalogOptions, Conflicts};
pub use options::{Entries, Examined};
use part::Part;
pub use part::{PartTool, Whole, WholeGroup};
pub use reader::{DocumentError, DocumentOperation, DocumentReader, OperationFault, ToolDocument};
pub use sources::{Known as KnownSources, Sources};
pub use unknown::UnknownValue;

pub use crate::ranking::ToolId;
use crate::saved::{SavedError, SavedFile, Texts};
use crate::schema::{self, Check, Validators};
pub use crate::schema::{MAX_SCHEMA_DEPTH, MAX_SCHEMA_NODES};

/// The tools that are picked from, in registration order.
///
/// ```
/// use picktools::{Catalog, Tool};
///
/// let catalog = Catalog::from_tools([Tool::without_arguments("send_email", "Sends an email")])?;
/// let more = catalog.with_tools([Tool::without_arguments("get_forecast", "Weather for the coming days")])?;
/// assert_eq!((catalog.len(), more.len()), (1, 2));
/// let id = more.find("get_forecast").expect("it was added");
/// assert_eq!(more.tool(id).name, "get_forecast");
/// # Ok::<(), picktools::catalog::CatalogError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Catalog {
    definitions: Definitions,
    /// The SHA-256 of each definition.
    digests: Arc<[Digest]>,
    ids: Arc<Ids>,
    sources: Arc<Sources>,
    /// The tools that have examples, in registration order.
    exemplified: Arc<[ToolId]>,
    digest: String,
    notices: Vec<CatalogFault>,
    /// How it was made, which holds for tools that are added later.
    options: CatalogOptions,
    grouping: Arc<OnceLock<Arc<Grouping>>>,
    /// Shared with the catalogs that are made of this one.
    validators: Arc<Validators<Tool>>,
    /// The index that it was opened from.
    saved: Option<Arc<SavedFile>>,
    /// What was wrong with the first definition of an index that could not be read; shared with the
    /// catalogs that are made of this one, which may have what stands for it.
    fault: Arc<OnceLock<SavedError>>,
    /// Of what it is a part, where it holds some tools of a larger one.
    part: Option<Part>,
}

/// The tools' identities.
#[derive(Debug)]
struct Ids {
    texts: Texts,
    /// The tool of each.
    tools: Vec<u32>,
}

impl Catalog {
    /// Reads a catalog file, or the files of a folder, as [`CatalogOptions::open`] does where
    /// nothing is set.
    ///
    /// # Errors
    ///
    /// As [`CatalogOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CatalogError> {
        CatalogOptions::default().open(path)
    }

    /// Reads a catalog from bytes, as [`CatalogOptions::read`] does; `default_source` becomes the
    /// source of tools that name none.
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

    /// Makes a catalog of tools that are already in memory, as [`CatalogOptions::collect`] does
    /// where nothing is set.
    ///
    /// # Errors
    ///
    /// As [`CatalogOptions::collect`].
    pub fn from_tools(tools: impl IntoIterator<Item = Tool>) -> Result<Self, CatalogError> {
        CatalogOptions::default().collect(tools)
    }

    /// Makes a new catalog that has `more` tools at the end and shares the others with this one.
    ///
    /// The options that this catalog was made with hold for them too: a tool that is added to an
    /// untrusted source is untrusted, and the operator's aliases count above its own.
    ///
    /// # Errors
    ///
    /// As [`CatalogOptions::collect`].
    pub fn with_tools(&self, more: impl IntoIterator<Item = Tool>) -> Result<Self, CatalogError> {
        let mut catalog = self.options.append(Some(self), more)?;
        catalog.validators = Arc::clone(&self.validators);
        catalog.notices.splice(..0, self.notices.iter().cloned());
        Ok(catalog)
    }

    /// Makes a new catalog in which tools have come, changed or gone, and which shares the others
    /// with this one. What comes is held to the same rules as in [`with_tools`](Self::with_tools);
    /// a tool that is replaced keeps its place.
    ///
    /// ```
    /// use picktools::{Catalog, Tool, catalog::Changes};
    ///
    /// let tools = [Tool::without_arguments("send_email", "Sends"), Tool::without_arguments("get_forecast", "Weather")];
    /// let catalog = Catalog::from_tools(tools)?;
    /// let put = vec![Tool::without_arguments("send_email", "Sends an email")];
    /// let changed = catalog.with_changes(Changes { put, remove: vec!["get_forecast".to_owned()] })?;
    /// assert_eq!((changed.len(), changed.tools()[0].description.as_str()), (1, "Sends an email"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ChangeError`] for an id that no tool has, and for tools that are not valid or clash, where
    /// conflicts are not settled.
    pub fn with_changes(&self, changes: Changes) -> Result<Self, ChangeError> {
        let mut catalog = self.options.change(self, changes)?;
        catalog.validators = Arc::clone(&self.validators);
        catalog.notices.splice(..0, self.notices.iter().cloned());
        Ok(catalog)
    }

    /// Makes a new catalog of the tools that `keep` accepts, shared with this one. The operator's
    /// aliases of the others go with them.
    #[must_use]
    pub fn filtered(&self, mut keep: impl FnMut(&Tool) -> bool) -> Self {
        let tools: Vec<Arc<Tool>> = self
            .tools()
            .iter()
            .filter(|tool| keep(tool))
            .cloned()
            .collect();
        let mut options = self.options.clone();
        if let Some(aliases) = &mut options.aliases {
            aliases.keep_for(&tools);
        }
        Self {
            validators: Arc::clone(&self.validators),
            ..Self::new(tools, self.notices.clone(), options, Some(self))
        }
    }

    /// `known` has some of the tools already.
    fn new(
        tools: Vec<Arc<Tool>>,
        notices: Vec<CatalogFault>,
        options: CatalogOptions,
        known: Option<&Self>,
    ) -> Self {
        let ids = || {
            let ids = tools
                .par_iter()
                .enumerate()
                .map(|(index, tool)| (tool.id.as_str(), ToolId::from_index(index).0));
            Texts::new(ids.collect())
        };
        let sources = || Sources::new(tools.iter().map(|tool| tool.source.as_deref()));
        let ((texts, of), (sources, digests)) =
            rayon::join(ids, || (sources(), digests(&tools, known)));
        Self {
            ids: Arc::new(Ids { texts, tools: of }),
            sources: Arc::new(sources),
            exemplified: tools
                .iter()
                .enumerate()
                .filter(|(_, tool)| !tool.examples.is_empty())
                .map(|(index, _)| ToolId::from_index(index))
                .collect(),
            digest: digest(&digests),
            digests,
            notices,
            validators: Arc::new(Validators::new(options.schema_compiler.clone())),
            options,
            grouping: Arc::default(),
            definitions: Definitions::Read(tools),
            saved: None,
            part: None,
            fault: known.map_or_else(Arc::default, |known| Arc::clone(&known.fault)),
        }
    }

    /// Returns the tools in registration order. Of a saved index it reads all definitions, which
    /// takes a while; see [`read_all`](Self::read_all).
    pub fn tools(&self) -> &[Arc<Tool>] {
        self.definitions.all()
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.definitions.len()
    }

    /// Returns `true` if there are no tools.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the tool at `id`. Of a saved index it reads the definition when that is first
    /// needed; one that cannot be read is an unsafe tool called `unreadable`, which no call of is
    /// valid, and stands in [`Catalog::fault`] from then on.
    ///
    /// # Panics
    ///
    /// If `id` comes from a larger catalog.
    pub fn tool(&self, id: ToolId) -> &Arc<Tool> {
        self.definitions.tool(id.index())
    }

    /// Returns what names the tool at `id` and decides on it: description, schemas, and how it is
    /// called over HTTP may be left out.
    pub(crate) fn outline(&self, id: ToolId) -> &Tool {
        self.definitions.outline(id.index())
    }

    /// Returns the outlines of all tools, in registration order.
    pub(crate) fn outlines(&self) -> impl Iterator<Item = (ToolId, &Tool)> {
        self.ids().map(|id| (id, self.outline(id)))
    }

    /// Returns the source of a tool.
    pub(crate) fn source(&self, tool: ToolId) -> Option<&str> {
        self.sources.of(tool.index())
    }

    /// Returns the number of a tool's source among [`source_names`](Self::source_names).
    pub(crate) fn source_number(&self, tool: ToolId) -> Option<usize> {
        self.sources.number(tool.index())
    }

    /// Returns the sources, in the order of the tools.
    pub(crate) fn source_names(&self) -> &[String] {
        self.sources.all()
    }

    /// Reads all definitions that a saved index still holds.
    ///
    /// # Errors
    ///
    /// [`SavedError`] when one of them cannot be read or is not what was saved.
    pub fn read_all(&self) -> Result<&[Arc<Tool>], &SavedError> {
        let tools = self.tools();
        self.fault().map_or(Ok(tools), Err)
    }

    /// Returns what was wrong with the first definition of a saved index that could not be read. No
    /// tool is picked from such a catalog, nor from one that is made of it.
    pub fn fault(&self) -> Option<&SavedError> {
        self.fault.get()
    }

    /// Returns what was left out while the catalog was made, and why.
    pub fn notices(&self) -> &[CatalogFault] {
        &self.notices
    }

    /// Returns the untrusted sources of the catalog's options that none of its tools is of.
    pub fn unknown_values(&self) -> Vec<UnknownValue> {
        self.options.unknown_values(&self.sources)
    }

    /// What arguments of calls of a tool with this schema are held to.
    pub fn check(&self, tool: ToolId, schema: &serde_json::Value) -> Result<Arc<Check>, String> {
        self.validators.get(self.tool(tool), schema)
    }

    pub(crate) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Finds a tool by its identity.
    pub fn find(&self, id: &str) -> Option<ToolId> {
        self.ids
            .texts
            .find(id)
            .map(|place| ToolId(self.ids.tools[place]))
    }

    /// Returns the SHA-256 over all definitions in order, as 64 hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the ids of all tools, in registration order.
    pub fn ids(&self) -> impl Iterator<Item = ToolId> + use<> {
        (0..self.len()).map(ToolId::from_index)
    }

    /// Returns the SHA-256 of each definition, in registration order.
    pub(crate) fn digests(&self) -> &[Digest] {
        &self.digests
    }

    /// Returns how many bytes it takes beside the definitions.
    pub(crate) fn memory(&self) -> usize {
        let ids = self.ids.texts.memory() + size_of_val(&*self.ids.tools);
        let groups = size_of_val(&*self.grouping().of);
        ids + groups + size_of_val(&*self.digests) + self.definitions.memory()
    }

    /// Returns the tools that have examples, in registration order.
    pub(crate) fn exemplified(&self) -> &[ToolId] {
        &self.exemplified
    }

    /// Returns which tools are decided on together.
    pub(crate) fn grouping(&self) -> &Arc<Grouping> {
        self.grouping.get_or_init(|| Arc::new(Grouping::new(self)))
    }

    /// Returns a tool of each policy that there is.
    pub(crate) fn policies(&self) -> impl Iterator<Item = &Tool> {
        let of_whole = self.part.iter().flat_map(|part| &part.whole.policies);
        let own = self.part.is_none().then(|| {
            self.grouping()
                .policies
                .iter()
                .map(|&tool| self.outline(tool))
        });
        of_whole.chain(own.into_iter().flatten())
    }

    /// Returns the index that this catalog was opened from.
    pub(crate) fn saved(&self) -> Option<&Arc<SavedFile>> {
        self.saved.as_ref()
    }
}

/// Digests definitions, but for those that `known` has.
fn digests(tools: &[Arc<Tool>], known: Option<&Catalog>) -> Arc<[Digest]> {
    let address = |tool: &Arc<Tool>| Arc::as_ptr(tool).addr();
    let known: HashMap<usize, &Digest> = known.map_or_else(HashMap::default, |known| {
        known
            .tools()
            .iter()
            .map(address)
            .zip(known.digests.iter())
            .collect()
    });
    let digest = |tool: &Arc<Tool>| {
        known
            .get(&address(tool))
            .map_or_else(|| digest_of(tool), |digest| **digest)
    };
    tools.par_iter().map(digest).collect::<Vec<_>>().into()
}

fn digest_of(tool: &Tool) -> Digest {
    Sha256::digest(serialise(tool)).into()
}

fn digest(digests: &[Digest]) -> String {
    let whole = Sha256::digest(digests.as_flattened());
    whole.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl entry::EntryFault {
    fn at(self, position: &Position, tool: Option<&Tool>) -> CatalogFault {
        CatalogFault {
            position: position.clone(),
            kind: self.kind,
            name: self.name.or_else(|| tool.map(|tool| tool.name.clone())),
            pointer: self.pointer,
            message: self.message,
            remedy: self.remedy,
        }
    }
}

/// Refuses a schema, or the lack of one, with pointers below `field`.
fn schema_faults(field: &str, value: &serde_json::Value) -> Vec<entry::EntryFault> {
    schema::check(value)
        .err()
        .into_iter()
        .flatten()
        .map(|fault| {
            entry::EntryFault::new(
                format!("/{field}{}", fault.pointer),
                fault.message,
                fault.remedy,
            )
        })
        .map(|fault| fault.of(FaultKind::InvalidSchema))
        .collect()
}
