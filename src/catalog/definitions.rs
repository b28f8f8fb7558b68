//! The definitions of a catalog's tools: in memory, or in a saved index until they are needed.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use super::definition::Tool;
use crate::saved::{SavedError, SavedFile};

/// The SHA-256 of a definition, as it is serialised.
pub(crate) type Digest = [u8; 32];

/// The definitions of a catalog's tools, in registration order.
#[derive(Debug, Clone)]
pub(super) enum Definitions {
    Read(Vec<Arc<Tool>>),
    Saved(Arc<SavedDefinitions>),
}

/// Definitions that lie in a saved index. One that was needed stays in memory.
#[derive(Debug)]
pub(super) struct SavedDefinitions {
    file: Arc<SavedFile>,
    /// Where each definition ends.
    ends: Vec<u64>,
    digests: Arc<[Digest]>,
    needed: Vec<OnceLock<Arc<Tool>>>,
    /// All of them, once somebody needs all.
    all: OnceLock<Vec<Arc<Tool>>>,
    /// What was wrong first, as the catalog tells.
    fault: Arc<OnceLock<SavedError>>,
}

/// The section that holds the definitions, and the one of where they end.
pub(super) const DEFINITIONS: &str = "catalog.definitions";
pub(super) const ENDS: &str = "catalog.definition-ends";

impl Definitions {
    /// Finds definitions in an index; each has its digest. What is wrong with the first that cannot be read is put into `fault`.
    pub(super) fn open(
        file: &Arc<SavedFile>,
        digests: &Arc<[Digest]>,
        fault: &Arc<OnceLock<SavedError>>,
    ) -> Result<Self, SavedError> {
        let ends: Vec<u64> = file.numbers(ENDS)?;
        let whole = ends.last().copied().unwrap_or_default() == file.bytes(DEFINITIONS)?;
        file.ensure(whole && ends.len() == digests.len() && ends.is_sorted(), ENDS)?;
        let needed = ends.iter().map(|_| OnceLock::new()).collect();
        let (file, digests, fault) = (Arc::clone(file), Arc::clone(digests), Arc::clone(fault));
        let all = OnceLock::new();
        Ok(Self::Saved(Arc::new(SavedDefinitions { file, ends, digests, needed, all, fault })))
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Read(tools) => tools.len(),
            Self::Saved(saved) => saved.ends.len(),
        }
    }

    /// Returns how many bytes are taken to find definitions that are not read yet.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Read(_) => 0,
            Self::Saved(saved) => size_of_val(&*saved.ends) + size_of_val(&*saved.needed),
        }
    }

    pub(super) fn tool(&self, place: usize) -> &Arc<Tool> {
        match self {
            Self::Read(tools) => &tools[place],
            Self::Saved(saved) => saved.needed[place].get_or_init(|| saved.read(place)),
        }
    }

    pub(super) fn all(&self) -> &[Arc<Tool>] {
        match self {
            Self::Read(tools) => tools,
            Self::Saved(saved) => saved.all.get_or_init(|| {
                let places = (0..saved.ends.len()).into_par_iter();
                places.map(|place| Arc::clone(saved.needed[place].get_or_init(|| saved.read(place)))).collect()
            }),
        }
    }

    /// Returns a definition as it is serialised.
    pub(super) fn serialised(&self, place: usize) -> Result<Vec<u8>, SavedError> {
        match self {
            Self::Read(tools) => Ok(serialise(&tools[place])),
            Self::Saved(saved) => saved.bytes(place),
        }
    }
}

impl SavedDefinitions {
    /// Reads a definition; what cannot be read is a tool that nobody may see or call, and is remembered as the fault.
    fn read(&self, place: usize) -> Arc<Tool> {
        let tool = self.bytes(place).and_then(|bytes| {
            serde_json::from_slice(&bytes).map_err(|error| self.file.damaged(format!("{}: {error}", of(place))))
        });
        let tool = tool.unwrap_or_else(|error| {
            // Only the first is told.
            self.fault.get_or_init(|| error);
            unreadable()
        });
        Arc::new(tool)
    }

    fn bytes(&self, place: usize) -> Result<Vec<u8>, SavedError> {
        let bytes = self.file.part(DEFINITIONS, self.range(place))?;
        if Sha256::digest(&bytes)[..] != self.digests[place] {
            return Err(self.file.damaged(format!("{} does not have its digest", of(place))));
        }
        Ok(bytes)
    }

    fn range(&self, place: usize) -> Range<u64> {
        place.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[place]
    }
}

fn of(place: usize) -> String {
    format!("the definition of tool {}", place + 1)
}

/// What stands for a tool that cannot be read: unsafe, and without a schema that a call could be held to.
fn unreadable() -> Tool {
    let mut tool = Tool::without_arguments("unreadable", "");
    (tool.parameters, tool.safe, tool.untrusted) = (None, Some(false), true);
    tool
}

/// Returns a definition as it is digested and saved.
pub(crate) fn serialise(tool: &Tool) -> Vec<u8> {
    serde_json::to_vec(tool).expect("a tool serialises")
}
