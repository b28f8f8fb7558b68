//! Untrusted tools whose text is that of a trusted one.
//!
//! A stranger may offer the text of a tool that is trusted as its own, with keywords repeated or
//! praise put around it, and so take the place of what it copies. What decides is the description:
//! what a model chooses by, and what a copy cannot do without. A copy has nearly the same words,
//! whatever their order and number, or has the whole text within its own. A short text may be
//! another tool's by chance, and counts only under the same name.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt};
use rayon::prelude::*;

use crate::catalog::spelling::normalise;
use crate::catalog::{Catalog, Tool};
use crate::ranking::ToolId;
use crate::saved::{SavedError, Writer};
use crate::text::likeness::{Bands, Sketch, sequence};

/// The fewest words of a description that tell what a tool does wherever it comes from.
const TELLING_WORDS: usize = 5;
/// The most trusted tools that one text is held against.
const MOST_ORIGINALS: usize = 8;

/// The section of a saved index that holds pairs of a copy and what it copies.
const NAME: &str = "copies";

/// Which untrusted tools are copies, each with the trusted ones that it copies, in registration
/// order.
#[derive(Debug)]
pub(crate) struct Copies(BTreeMap<ToolId, Vec<ToolId>>);

impl Copies {
    /// Reads the copies from the index that the catalog was opened from, or looks for them.
    pub(super) fn of(catalog: &Catalog) -> Result<Self, SavedError> {
        let Some(file) = catalog.saved() else {
            return Ok(Self::new(catalog));
        };
        let numbers: Vec<u32> = file.numbers(NAME)?;
        let (pairs, rest) = numbers.as_chunks::<2>();
        file.ensure(
            rest.is_empty() && numbers.iter().all(|&tool| (tool as usize) < catalog.len()),
            NAME,
        )?;
        let mut copies: BTreeMap<ToolId, Vec<ToolId>> = BTreeMap::new();
        pairs.iter().for_each(|&[copy, original]| {
            copies
                .entry(ToolId(copy))
                .or_default()
                .push(ToolId(original))
        });
        Ok(Self(copies))
    }

    pub(super) fn save(&self, writer: &mut Writer) -> Result<(), SavedError> {
        let pairs = self
            .0
            .iter()
            .flat_map(|(copy, of)| of.iter().map(|original| [copy.0, original.0]));
        writer.numbers(NAME, pairs.collect::<Vec<_>>().as_flattened())
    }

    /// Holds every untrusted tool against the trusted ones, in linear time.
    pub(super) fn new(catalog: &Catalog) -> Self {
        let (untrusted, trusted): (Vec<ToolId>, Vec<ToolId>) = catalog
            .ids()
            .partition(|&tool| catalog.tool(tool).untrusted);
        if untrusted.is_empty() || trusted.is_empty() {
            return Self(BTreeMap::new());
        }
        let originals = Originals::new(catalog, &trusted);
        let copies = untrusted.into_par_iter().filter_map(|tool| {
            let copied = originals.copied_by(catalog.tool(tool));
            (!copied.is_empty()).then_some((tool, copied))
        });
        Self(copies.collect::<Vec<_>>().into_iter().collect())
    }

    /// Takes what is known of the tools of a part.
    pub(super) fn of_part(copies: BTreeMap<ToolId, Vec<ToolId>>) -> Self {
        Self(copies)
    }

    /// Returns all of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (ToolId, &[ToolId])> {
        self.0
            .iter()
            .map(|(&copy, originals)| (copy, originals.as_slice()))
    }

    /// Returns the copies among the tools that `counts` accepts, each with the first such tool that
    /// it copies.
    pub(crate) fn among(&self, counts: impl Fn(ToolId) -> bool) -> BTreeMap<ToolId, ToolId> {
        let copies = self.0.iter().filter(|(copy, _)| counts(**copy));
        let copies = copies.filter_map(|(&copy, originals)| {
            Some((copy, *originals.iter().find(|tool| counts(**tool))?))
        });
        copies.collect()
    }
}

/// What is compared of a tool.
struct Text {
    name: String,
    sketch: Sketch,
    sequence: Vec<u64>,
}

impl Text {
    fn new(tool: &Tool) -> Self {
        let sketch = Sketch::new(std::iter::once(tool.description.as_str()));
        Self {
            name: normalise(&tool.name),
            sketch,
            sequence: sequence(&tool.description),
        }
    }

    /// Returns `true` if this copies a trusted text.
    fn copies(&self, original: &Self) -> bool {
        if original.sketch.len() < TELLING_WORDS {
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

/// The texts of the trusted tools, and where to look for those that a text may copy.
struct Originals {
    tools: Vec<(ToolId, Text)>,
    bands: Bands,
    /// By their first words.
    beginnings: HashMap<[u64; TELLING_WORDS], Vec<usize>>,
}

impl Originals {
    fn new(catalog: &Catalog, trusted: &[ToolId]) -> Self {
        let tools: Vec<(ToolId, Text)> = trusted
            .par_iter()
            .map(|&tool| (tool, Text::new(catalog.tool(tool))))
            .collect();
        let (mut bands, mut beginnings) = (Bands::default(), HashMap::<_, Vec<usize>>::new());
        for (number, (_, text)) in tools.iter().enumerate() {
            bands.add(number, &text.sketch);
            if let Some(&beginning) = text.sequence.first_chunk::<TELLING_WORDS>() {
                let alike = beginnings.entry(beginning).or_default();
                if alike.len() < MOST_ORIGINALS {
                    alike.push(number);
                }
            }
        }
        Self {
            tools,
            bands,
            beginnings,
        }
    }

    /// Returns the trusted tools that an untrusted one copies.
    fn copied_by(&self, tool: &Tool) -> Vec<ToolId> {
        let text = Text::new(tool);
        let begun = text.sequence.windows(TELLING_WORDS).filter_map(|words| {
            let words: [u64; TELLING_WORDS] = words.try_into().ok()?;
            self.beginnings.get(&words)
        });
        let mut near: Vec<usize> = self
            .bands
            .near(&text.sketch)
            .chain(begun.flatten().copied())
            .collect();
        near.sort_unstable();
        near.dedup();
        let copied = near
            .into_iter()
            .filter(|&number| text.copies(&self.tools[number].1));
        copied
            .take(MOST_ORIGINALS)
            .map(|number| self.tools[number].0)
            .collect()
    }
}
