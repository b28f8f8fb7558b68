//! The immutable corpus: definitions, reading, and the document a tool becomes.
//!
//! A [`Catalog`] is made once and never changes; [`Catalog::with_tools`] and [`Catalog::retain`] make a new one
//! that shares the tools that stay. Reading goes through three rooms: `format` splits bytes into entries and says
//! which published shape each has, `entry` turns one entry into a [`Tool`], and `conflicts` looks at all of them
//! together. Each collects faults instead of stopping at the first, so that one run reports them all.

mod conflicts;
mod definition;
pub(crate) mod document;
mod entry;
mod format;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use sha2::{Digest, Sha256};

pub use definition::{Alias, Annotations, NoSchemaMode, Safety, ThreatLevel, Tool};

use crate::error::{CatalogError, CatalogFault};
use crate::ranking::ToolId;
use crate::schema;

/// File names that a catalog folder is searched for, in this order.
const FOLDER_FILES: [&str; 2] = ["tools.jsonl", "tools.json"];

/// The tools that are picked from, in registration order.
#[derive(Debug, Clone)]
pub struct Catalog {
    tools: Vec<Arc<Tool>>,
    by_id: HashMap<String, ToolId>,
    digest: String,
}

impl Catalog {
    /// Reads a catalog file, or a folder that holds `tools.jsonl` or `tools.json`.
    ///
    /// The format is detected from the content; see [`Catalog::from_slice`]. Tools that name no source get the
    /// file's name without its ending (the folder's name for the two file names above).
    ///
    /// # Errors
    ///
    /// [`CatalogError`] when the path cannot be read or its content is no valid catalog; faults of entries are
    /// reported all at once.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CatalogError> {
        let path = path.as_ref();
        let file = catalog_file(path)?;
        let bytes = fs::read(&file).map_err(|source| CatalogError::Read { path: file.clone(), source })?;
        let source = default_source(&file);
        Self::from_slice(&bytes, &file.display().to_string(), source.as_deref())
    }

    /// Reads a catalog from bytes.
    ///
    /// Accepted are native tool definitions, MCP `tools/list` results (bare or as a JSON-RPC response), OpenAI
    /// tools (Chat Completions and Responses) and Anthropic tools: as a JSON array, as JSON Lines, or in the
    /// `tools` member of an object. `origin` names the bytes in messages; `default_source` becomes the source of
    /// tools that name none.
    ///
    /// # Errors
    ///
    /// As [`Catalog::open`].
    pub fn from_slice(bytes: &[u8], origin: &str, default_source: Option<&str>) -> Result<Self, CatalogError> {
        let document = format::split(bytes, origin)?;
        let source = document.source.as_deref().or(default_source);
        let read: Vec<_> = document
            .entries
            .par_iter()
            .map(|entry| entry.value.as_ref().map(|value| entry::read(value, source)))
            .collect();
        let mut faults = Vec::new();
        let mut tools = Vec::with_capacity(read.len());
        for (entry, result) in document.entries.iter().zip(read) {
            match result {
                Ok((tool, entry_faults)) => {
                    faults.extend(entry_faults.into_iter().map(|fault| fault.at(&entry.position, tool.as_ref())));
                    if let Some(tool) = tool {
                        tools.push((entry.position.clone(), tool));
                    }
                }
                Err(fault) => faults.push(fault.clone()),
            }
        }
        faults.extend(conflicts::find(&tools));
        if faults.is_empty() {
            return Ok(Self::new(tools.into_iter().map(|(_, tool)| Arc::new(tool)).collect()));
        }
        faults.sort_by_key(|fault| position_number(&fault.position));
        Err(CatalogError::Invalid { origin: origin.to_owned(), faults })
    }

    /// Makes a catalog of tools that are already in memory.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Invalid`] with every fault: schemas, missing schemas, and conflicts between the tools.
    pub fn from_tools(tools: impl IntoIterator<Item = Tool>) -> Result<Self, CatalogError> {
        Self::check(tools.into_iter().map(Arc::new).collect())
    }

    /// Makes a new catalog that has `more` tools at the end and shares the others with this one.
    ///
    /// # Errors
    ///
    /// As [`Catalog::from_tools`].
    pub fn with_tools(&self, more: impl IntoIterator<Item = Tool>) -> Result<Self, CatalogError> {
        Self::check(self.tools.iter().cloned().chain(more.into_iter().map(Arc::new)).collect())
    }

    /// Makes a new catalog of the tools that `keep` accepts, shared with this one.
    #[must_use]
    pub fn retain(&self, mut keep: impl FnMut(&Tool) -> bool) -> Self {
        Self::new(self.tools.iter().filter(|tool| keep(tool)).cloned().collect())
    }

    fn check(tools: Vec<Arc<Tool>>) -> Result<Self, CatalogError> {
        let placed: Vec<(String, &Tool)> =
            tools.iter().enumerate().map(|(index, tool)| (format::entry_position(index), tool.as_ref())).collect();
        let mut faults: Vec<CatalogFault> = placed
            .par_iter()
            .flat_map_iter(|(position, tool)| {
                entry::check(tool).into_iter().map(|fault| fault.at(position, Some(*tool)))
            })
            .collect();
        faults.extend(conflicts::find(&placed));
        if faults.is_empty() {
            return Ok(Self::new(tools));
        }
        faults.sort_by_key(|fault| position_number(&fault.position));
        Err(CatalogError::Invalid { origin: "tools".to_owned(), faults })
    }

    fn new(tools: Vec<Arc<Tool>>) -> Self {
        let by_id =
            tools.iter().enumerate().map(|(index, tool)| (tool.id.clone(), ToolId::from_index(index))).collect();
        let digest = digest(&tools);
        Self { tools, by_id, digest }
    }

    /// Returns the tools in registration order.
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Tells whether there are no tools.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns the tool at `id`.
    ///
    /// # Panics
    ///
    /// If `id` comes from a larger catalog.
    pub fn tool(&self, id: ToolId) -> &Arc<Tool> {
        &self.tools[id.index()]
    }

    /// Finds a tool by its identity.
    pub fn find(&self, id: &str) -> Option<ToolId> {
        self.by_id.get(id).copied()
    }

    /// Returns the SHA-256 over all definitions in order, as 64 hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ToolId> + use<> {
        (0..self.tools.len()).map(ToolId::from_index)
    }
}

fn catalog_file(path: &Path) -> Result<PathBuf, CatalogError> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    FOLDER_FILES
        .iter()
        .map(|name| path.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| CatalogError::NoCatalogInFolder { path: path.to_owned() })
}

/// The folder's name for a file of a usual name, else the file's name without its ending.
fn default_source(file: &Path) -> Option<String> {
    // `tools.json` alone does not tell its folder.
    let file = file.canonicalize().ok()?;
    let usual = FOLDER_FILES.iter().any(|name| file.ends_with(name));
    let name = if usual { file.parent()?.file_name() } else { file.file_stem() };
    name.map(|name| name.to_string_lossy().into_owned())
}

fn digest(tools: &[Arc<Tool>]) -> String {
    let per_tool: Vec<[u8; 32]> = tools
        .par_iter()
        .map(|tool| Sha256::digest(serde_json::to_vec(tool).expect("a tool serialises")).into())
        .collect();
    let whole = Sha256::digest(per_tool.concat());
    whole.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The number in `line 3` or `entry 4`, by which faults are ordered.
fn position_number(position: &str) -> usize {
    position.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

impl entry::EntryFault {
    fn at(self, position: &str, tool: Option<&Tool>) -> CatalogFault {
        CatalogFault {
            position: position.to_owned(),
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
        .map(|fault| entry::EntryFault::new(format!("/{field}{}", fault.pointer), fault.message, fault.remedy))
        .collect()
}
