//! Untrusted clones: untrusted tools with the text of a trusted tool.
//!
//! An untrusted source can copy the text of a trusted tool, repeat keywords or add praise, and so
//! displace the original. The description decides, because a model chooses by it and a clone needs
//! it. A clone has nearly the same words in any order and number, or contains the complete text. A
//! short description may match by chance. It counts only if the names are equal as well.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use rayon::prelude::*;

use super::row::{Row, RowKey};
use crate::catalog::spelling::normalise;
use crate::catalog::{Catalog, Tool};
use crate::ranking::ToolId;
use crate::saved::{SavedError, Writer};
use crate::text::likeness::{Bands, TextSketch, sequence};

/// The fewest words with which a description identifies a tool, whatever its source.
const MIN_IDENTIFYING_WORDS: usize = 5;
/// The largest number of originals that are recorded for one clone.
const MAX_ORIGINALS: usize = 8;

/// The section of a saved index that holds pairs of a clone and its original.
const SECTION: &str = "copies";

/// The untrusted clones of a catalog, each with its trusted originals in registration order.
#[derive(Debug)]
pub(crate) struct UntrustedClones(BTreeMap<ToolId, Vec<ToolId>>);

impl UntrustedClones {
    /// Reads the clones from the index that the catalog was opened from, or finds them.
    pub(super) fn load_or_build(catalog: &Catalog) -> Result<Self, SavedError> {
        let Some(file) = catalog.saved() else {
            return Self::new(catalog);
        };
        let numbers: Vec<u32> = file.numbers(SECTION)?;
        let (pairs, rest) = numbers.as_chunks::<2>();
        file.ensure(
            rest.is_empty() && numbers.iter().all(|&tool| (tool as usize) < catalog.len()),
            SECTION,
        )?;
        let mut clones: BTreeMap<ToolId, Vec<ToolId>> = BTreeMap::new();
        pairs.iter().for_each(|&[clone, original]| {
            clones
                .entry(ToolId(clone))
                .or_default()
                .push(ToolId(original));
        });
        Ok(Self(clones))
    }

    pub(super) fn save(&self, writer: &mut Writer) -> Result<(), SavedError> {
        let pairs = self
            .0
            .iter()
            .flat_map(|(clone, originals)| originals.iter().map(|original| [clone.0, original.0]));
        writer.numbers(SECTION, pairs.collect::<Vec<_>>().as_flattened())
    }

    /// Compares every untrusted tool with the trusted tools, in linear time.
    pub(super) fn new(catalog: &Catalog) -> Result<Self, SavedError> {
        let tools = catalog.tools()?;
        let (untrusted, trusted): (Vec<ToolId>, Vec<ToolId>) = catalog
            .ids()
            .partition(|tool| tools[tool.index()].untrusted);
        if untrusted.is_empty() || trusted.is_empty() {
            return Ok(Self(BTreeMap::new()));
        }
        let originals = Originals::new(tools, &trusted);
        let clones = untrusted.into_par_iter().filter_map(|tool| {
            let originals = originals.find_originals(&tools[tool.index()]);
            (!originals.is_empty()).then_some((tool, originals))
        });
        Ok(Self(clones.collect::<Vec<_>>().into_iter().collect()))
    }

    /// Takes the clones that are known from the rows of a store.
    pub(super) fn from_rows(rows: &[(RowKey, Arc<Row>)]) -> Self {
        let mut ids: HashMap<RowKey, ToolId> = HashMap::with_capacity(rows.len());
        for (position, (key, _)) in (0..).zip(rows) {
            ids.insert(*key, ToolId(position));
        }
        let mut clones = BTreeMap::new();
        for (key, row) in rows {
            if row.originals.is_empty() {
                continue;
            }
            let mut originals = Vec::new();
            for original in &row.originals {
                originals.extend(ids.get(original));
            }
            clones.insert(ids[key], originals);
        }
        Self(clones)
    }

    /// Returns all clones with their originals.
    pub(super) fn all(&self) -> impl Iterator<Item = (ToolId, &[ToolId])> {
        self.0
            .iter()
            .map(|(&clone, originals)| (clone, originals.as_slice()))
    }

    /// Returns the clones among the tools that `counts` accepts, each with its first original that
    /// `counts` accepts.
    pub(crate) fn among(&self, counts: impl Fn(ToolId) -> bool) -> BTreeMap<ToolId, ToolId> {
        let clones = self.0.iter().filter(|(clone, _)| counts(**clone));
        let clones = clones.filter_map(|(&clone, originals)| {
            Some((clone, *originals.iter().find(|tool| counts(**tool))?))
        });
        clones.collect()
    }
}

/// The parts of a tool that are compared.
struct ComparedText {
    name: String,
    sketch: TextSketch,
    sequence: Vec<u64>,
}

impl ComparedText {
    fn new(tool: &Tool) -> Self {
        let sketch = TextSketch::new(std::iter::once(tool.description.as_str()));
        Self {
            name: normalise(&tool.name),
            sketch,
            sequence: sequence(&tool.description),
        }
    }

    /// Returns `true` if this text is a clone of a trusted text.
    fn is_clone(&self, original: &Self) -> bool {
        if original.sketch.len() < MIN_IDENTIFYING_WORDS {
            return self.name == original.name && self.sketch.equals(&original.sketch);
        }
        self.sketch.is_like(&original.sketch) || self.contains(original)
    }

    fn contains(&self, original: &Self) -> bool {
        self.sequence
            .windows(original.sequence.len())
            .any(|words| words == original.sequence)
    }
}

/// The texts of the trusted tools, with lookup tables for similar texts.
struct Originals {
    tools: Vec<(ToolId, ComparedText)>,
    bands: Bands,
    /// Tool numbers by the first words of the description.
    by_first_words: HashMap<[u64; MIN_IDENTIFYING_WORDS], Vec<usize>>,
}

impl Originals {
    fn new(tools: &[Arc<Tool>], trusted: &[ToolId]) -> Self {
        let tools: Vec<(ToolId, ComparedText)> = trusted
            .par_iter()
            .map(|&tool| (tool, ComparedText::new(&tools[tool.index()])))
            .collect();
        let (mut bands, mut by_first_words) = (Bands::default(), HashMap::<_, Vec<usize>>::new());
        for (number, (_, text)) in tools.iter().enumerate() {
            bands.add(number, &text.sketch);
            if let Some(&first_words) = text.sequence.first_chunk::<MIN_IDENTIFYING_WORDS>() {
                let numbers = by_first_words.entry(first_words).or_default();
                if numbers.len() < MAX_ORIGINALS {
                    numbers.push(number);
                }
            }
        }
        Self {
            tools,
            bands,
            by_first_words,
        }
    }

    /// Returns the trusted originals of an untrusted tool; none if it is no clone.
    fn find_originals(&self, tool: &Tool) -> Vec<ToolId> {
        let text = ComparedText::new(tool);
        let same_beginning = text
            .sequence
            .windows(MIN_IDENTIFYING_WORDS)
            .filter_map(|words| {
                let words: [u64; MIN_IDENTIFYING_WORDS] = words.try_into().ok()?;
                self.by_first_words.get(&words)
            });
        let mut similar: Vec<usize> = self
            .bands
            .near(&text.sketch)
            .chain(same_beginning.flatten().copied())
            .collect();
        similar.sort_unstable();
        similar.dedup();
        let originals = similar
            .into_iter()
            .filter(|&number| text.is_clone(&self.tools[number].1));
        originals
            .take(MAX_ORIGINALS)
            .map(|number| self.tools[number].0)
            .collect()
    }
}
