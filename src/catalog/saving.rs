//! Catalogs in a saved index.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::aliases::OperatorAliases;
use super::definition::{NoSchemaMode, Tool};
use super::definitions::{AllDefinitions, Definitions, Digest};
use super::error::CatalogFault;
use super::grouping::Grouping;
use super::options::{CatalogOptions, Conflicts};
use super::sources::Sources;
use super::{Catalog, ToolIds, ToolTable, digest};
use crate::ranking::ToolId;
use crate::saved::{SavedError, SavedFile, TextTable, Writer, index_path};

const DEFINITIONS: &str = "catalog.definitions";
const ENDS: &str = "catalog.definition-ends";
const DIGESTS: &str = "catalog.digests";
const IDS: &str = "catalog.ids";
const ID_TOOLS: &str = "catalog.id-tools";
const EXEMPLIFIED: &str = "catalog.exemplified";
const SETTINGS: &str = "catalog.settings";

/// The options and notices of a catalog, as they are saved.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedOptions {
    conflicts: Conflicts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    allow_no_schema: Option<NoSchemaMode>,
    untrusted_sources: BTreeSet<String>,
    allow_claimed_aliases: bool,
    aliases: Option<OperatorAliases>,
    default_source: Option<String>,
    notices: Vec<CatalogFault>,
}

/// Definitions in a saved index. A definition stays in memory after its first use.
#[derive(Debug)]
struct SavedDefinitions {
    file: Arc<SavedFile>,
    /// The end offset of each definition.
    ends: Vec<u64>,
    digests: Arc<[Digest]>,
    ids: Arc<ToolIds>,
    /// The position of each tool in `ids`.
    id_positions: Vec<u32>,
    loaded: Vec<OnceLock<Arc<Tool>>>,
    all: AllDefinitions,
    grouping: Arc<Grouping>,
}

impl SavedDefinitions {
    /// Opens the definitions in a saved index, each with its digest and its id.
    fn open(
        file: &Arc<SavedFile>,
        digests: &Arc<[Digest]>,
        ids: &Arc<ToolIds>,
    ) -> Result<Self, SavedError> {
        let ends: Vec<u64> = file.numbers(ENDS)?;
        let is_complete = ends.last().copied().unwrap_or_default() == file.bytes(DEFINITIONS)?;
        file.ensure(
            is_complete && ends.len() == digests.len() && ends.is_sorted(),
            ENDS,
        )?;
        let mut id_positions = vec![u32::MAX; digests.len()];
        for (position, &tool) in (0..).zip(&ids.tools) {
            id_positions[tool as usize] = position;
        }
        file.ensure(!id_positions.contains(&u32::MAX), IDS)?;
        Ok(Self {
            file: Arc::clone(file),
            loaded: ends.iter().map(|_| OnceLock::new()).collect(),
            ends,
            digests: Arc::clone(digests),
            ids: Arc::clone(ids),
            id_positions,
            all: AllDefinitions::default(),
            grouping: Arc::new(Grouping::open(file, digests.len())?),
        })
    }

    fn bytes(&self, index: usize) -> Result<Vec<u8>, SavedError> {
        let bytes = self.file.part(DEFINITIONS, self.range(index))?;
        if Sha256::digest(&bytes)[..] != self.digests[index] {
            let definition = describe_definition(index);
            let reason = format!("{definition} does not match its digest");
            return Err(self.file.damaged(reason));
        }
        Ok(bytes)
    }

    fn range(&self, index: usize) -> Range<u64> {
        let start = match index.checked_sub(1) {
            Some(previous) => self.ends[previous],
            None => 0,
        };
        start..self.ends[index]
    }
}

impl Definitions for SavedDefinitions {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn id(&self, index: usize) -> &str {
        self.ids.texts.get(self.id_positions[index] as usize)
    }

    fn definition(&self, index: usize) -> Result<&Arc<Tool>, SavedError> {
        if let Some(tool) = self.loaded[index].get() {
            return Ok(tool);
        }
        let tool = serde_json::from_slice(&self.bytes(index)?).map_err(|error| {
            let reason = format!("{}: {error}", describe_definition(index));
            self.file.damaged(reason)
        })?;
        Ok(self.loaded[index].get_or_init(|| Arc::new(tool)))
    }

    fn all(&self) -> Result<&[Arc<Tool>], SavedError> {
        self.all.get_or_read(self)
    }

    fn serialised(&self, index: usize) -> Result<Cow<'_, [u8]>, SavedError> {
        Ok(self.bytes(index)?.into())
    }

    fn grouping(&self) -> &Arc<Grouping> {
        &self.grouping
    }

    fn memory(&self) -> usize {
        let positions = size_of_val(&*self.ends) + size_of_val(&*self.id_positions);
        positions + size_of_val(&*self.loaded)
    }

    fn saved(&self) -> Option<&Arc<SavedFile>> {
        Some(&self.file)
    }
}

fn describe_definition(index: usize) -> String {
    format!("the definition of tool {}", index + 1)
}

impl Catalog {
    /// Opens the catalog of a saved index ([`Engine::save`](crate::Engine::save)). Definitions are
    /// read on first use. An engine of this catalog takes the indexed data from the saved index, as
    /// far as it has the same models.
    ///
    /// An index is as trustworthy as its catalog: anyone with write access to it can add tools.
    /// `JsonSchema` validates calls, even if the options of the original catalog had another
    /// compiler.
    ///
    /// ```
    /// use picktools::{Catalog, Engine, PickOptions, Query, Tool};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let folder = folder.path();
    /// let tools = [
    ///     Tool::without_arguments("get_forecast", "Weather for the coming days"),
    ///     Tool::without_arguments("book_room", "Books"),
    /// ];
    /// Engine::new(Catalog::from_tools(tools)?)?.save(folder, serde_json::Value::Null)?;
    ///
    /// let engine = Engine::new(Catalog::open_saved(folder)?)?;
    /// let query = Query::new("will the weather hold?");
    /// let selection = engine.pick(&query, &PickOptions::default())?;
    /// assert_eq!(selection.picks[0].tool.name, "get_forecast");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`SavedError`] if the folder has no index, or the index is damaged or of another version.
    pub fn open_saved(folder: impl AsRef<Path>) -> Result<Self, SavedError> {
        let file = Arc::new(SavedFile::open(folder.as_ref())?);
        let tools = file.header.tools;
        let digests: Arc<[_]> = file.numbers(DIGESTS)?.into();
        let digest = digest(&digests);
        file.ensure(
            digests.len() == tools && u32::try_from(tools).is_ok() && digest == file.header.catalog,
            DIGESTS,
        )?;
        let (texts, id_tools) = (TextTable::open(IDS, &file)?, file.numbers::<u32>(ID_TOOLS)?);
        let are_valid = texts.len() == tools
            && id_tools.len() == tools
            && id_tools.iter().all(|&tool| (tool as usize) < tools);
        file.ensure(are_valid, IDS)?;
        let exemplified: Vec<u32> = file.numbers(EXEMPLIFIED)?;
        file.ensure(
            exemplified.iter().all(|&tool| (tool as usize) < tools),
            EXEMPLIFIED,
        )?;
        let saved: SavedOptions = file.json(SETTINGS)?;
        let options = CatalogOptions {
            conflicts: saved.conflicts,
            allow_no_schema: saved.allow_no_schema,
            untrusted_sources: saved.untrusted_sources,
            allow_claimed_aliases: saved.allow_claimed_aliases,
            aliases: saved.aliases,
            default_source: saved.default_source,
            ..CatalogOptions::default()
        };
        let ids = Arc::new(ToolIds {
            texts,
            tools: id_tools,
        });
        let table = ToolTable {
            definitions: Box::new(SavedDefinitions::open(&file, &digests, &ids)?),
            ids,
            sources: Sources::open(&file, tools)?,
            exemplified: exemplified.into_iter().map(ToolId).collect(),
            digest,
            digests,
        };
        Ok(Self {
            notices: saved.notices,
            ..Self::from_table(table, options)
        })
    }

    /// Returns `true` if the folder has a saved index, intact or not.
    pub fn is_saved(folder: impl AsRef<Path>) -> bool {
        index_path(folder.as_ref()).is_file()
    }

    /// Returns the note of the saved index that this catalog was opened from; `None` for other
    /// catalogs.
    pub fn note(&self) -> Option<&serde_json::Value> {
        self.saved().map(|file| &file.header.note)
    }

    pub(crate) fn save(&self, writer: &mut Writer) -> Result<(), SavedError> {
        self.save_definitions(writer)?;
        let ToolTable {
            digests,
            ids,
            sources,
            exemplified,
            ..
        } = &*self.tools;
        writer.numbers(DIGESTS, digests)?;
        ids.texts.save(IDS, writer)?;
        writer.numbers(ID_TOOLS, &ids.tools)?;
        sources.save(writer)?;
        let exemplified: Vec<u32> = exemplified.iter().map(|tool| tool.0).collect();
        writer.numbers(EXEMPLIFIED, &exemplified)?;
        self.grouping().save(writer)?;
        let options = self.options.clone();
        let settings = SavedOptions {
            conflicts: options.conflicts,
            allow_no_schema: options.allow_no_schema,
            untrusted_sources: options.untrusted_sources,
            allow_claimed_aliases: options.allow_claimed_aliases,
            aliases: options.aliases,
            default_source: options.default_source,
            notices: self.notices.clone(),
        };
        writer.json(SETTINGS, &settings)
    }

    fn save_definitions(&self, writer: &mut Writer) -> Result<(), SavedError> {
        let mut ends = Vec::with_capacity(self.len());
        let mut end = 0;
        let mut read_error = None;
        let serialised =
            (0..self.len()).map_while(|tool| match self.tools.definitions.serialised(tool) {
                Ok(definition) => {
                    end += definition.len() as u64;
                    ends.push(end);
                    Some(definition)
                }
                Err(error) => {
                    read_error = Some(error);
                    None
                }
            });
        writer.streamed(DEFINITIONS, serialised)?;
        match read_error {
            Some(error) => Err(error),
            None => writer.numbers(ENDS, &ends),
        }
    }
}
