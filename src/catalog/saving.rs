//! Catalogs in a saved index.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::aliases::OperatorAliases;
use super::definition::NoSchemaMode;
use super::definitions::{DEFINITIONS, Definitions, ENDS};
use super::error::CatalogFault;
use super::grouping::Grouping;
use super::options::{CatalogOptions, Conflicts};
use super::sources::Sources;
use super::{Catalog, Ids, digest};
use crate::ranking::ToolId;
use crate::saved::{SavedError, SavedFile, TextTable, Writer, index_path};
use crate::schema::Validators;

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
        let SavedOptions {
            conflicts,
            allow_no_schema,
            untrusted_sources,
            allow_claimed_aliases,
            aliases,
            default_source,
            notices,
        } = file.json(SETTINGS)?;
        let options = CatalogOptions {
            conflicts,
            allow_no_schema,
            untrusted_sources,
            allow_claimed_aliases,
            aliases,
            default_source,
            ..CatalogOptions::default()
        };
        let fault = Arc::default();
        Ok(Self {
            definitions: Definitions::open(&file, &digests, &fault)?,
            digests,
            ids: Arc::new(Ids {
                texts,
                tools: id_tools,
            }),
            sources: Arc::new(Sources::open(&file, tools)?),
            exemplified: exemplified.into_iter().map(ToolId).collect(),
            digest,
            notices,
            validators: Arc::new(Validators::new(None)),
            options,
            grouping: Arc::new(OnceLock::from(Arc::new(Grouping::open(&file, tools)?))),
            saved: Some(file),
            shard: None,
            fault,
        })
    }

    /// Returns `true` if the folder has a saved index, intact or not.
    pub fn is_saved(folder: impl AsRef<Path>) -> bool {
        index_path(folder.as_ref()).is_file()
    }

    /// Returns the note of the saved index that this catalog was opened from; `None` for other
    /// catalogs.
    pub fn note(&self) -> Option<&serde_json::Value> {
        self.saved.as_ref().map(|file| &file.header.note)
    }

    pub(crate) fn save(&self, writer: &mut Writer) -> Result<(), SavedError> {
        self.save_definitions(writer)?;
        writer.numbers(DIGESTS, &self.digests)?;
        self.ids.texts.save(IDS, writer)?;
        writer.numbers(ID_TOOLS, &self.ids.tools)?;
        self.sources.save(writer)?;
        writer.numbers(
            EXEMPLIFIED,
            &self
                .exemplified
                .iter()
                .map(|tool| tool.0)
                .collect::<Vec<u32>>(),
        )?;
        self.grouping().save(writer)?;
        let CatalogOptions {
            conflicts,
            allow_no_schema,
            untrusted_sources,
            allow_claimed_aliases,
            aliases,
            default_source,
            ..
        } = self.options.clone();
        let notices = self.notices.clone();
        let settings = SavedOptions {
            conflicts,
            allow_no_schema,
            untrusted_sources,
            allow_claimed_aliases,
            aliases,
            default_source,
            notices,
        };
        writer.json(SETTINGS, &settings)
    }

    fn save_definitions(&self, writer: &mut Writer) -> Result<(), SavedError> {
        let mut ends = Vec::with_capacity(self.len());
        let mut end = 0;
        let mut read_error = None;
        let serialised =
            (0..self.len()).map_while(|tool| match self.definitions.serialised(tool) {
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
