//! Segments: the index data that depends on single tools.
//!
//! A segment never changes and does not depend on the rest of the catalog. Everything that is
//! counted over all tools belongs to the snapshot: average lengths, document frequencies,
//! duplicates. Snapshots may share segments. A tool has a position in its segment. Its [`ToolId`]
//! in a snapshot follows from the order of the segments, which is the order of the catalog.

use std::sync::Arc;

use super::duplicates::{DefinitionFingerprint, definition_fingerprint};
use super::postings::Postings;
use super::previous::PreviousIndex;
use super::row::{Row, RowKey};
use super::rows::Rows;
use super::vectors::{catalog_vectors, embed_tools, section};
use super::{IndexConfig, IndexError};
use crate::catalog::{Catalog, Tool};
use crate::deadline::Deadline;
use crate::embed::CacheStatus;
use crate::ranking::ToolId;
use crate::saved::{SavedError, SavedFile, Writer};

/// The index data of a run of tools that depends on these tools alone.
pub(super) struct Segment {
    pub(super) postings: Postings,
    /// The tools' unit vectors, one per row, by each model in the order of the configuration.
    pub(super) vectors: Vec<Rows>,
    /// One fingerprint per tool; `None` for a short description.
    pub(super) fingerprints: Vec<Option<DefinitionFingerprint>>,
}

impl Segment {
    /// Indexes `tools`. Returns the segment and the cache state of the last model, if it has a
    /// cache.
    pub(super) fn build(
        tools: &[Arc<Tool>],
        config: &IndexConfig,
    ) -> Result<(Self, Option<CacheStatus>), IndexError> {
        let postings = Postings::build(tools);
        let mut vectors = Vec::with_capacity(config.embedders.len());
        let mut status = None;
        for embedder in &config.embedders {
            let cache_dir = config.cache_dir.as_deref();
            let embedding = embed_tools(
                tools,
                embedder.as_ref(),
                cache_dir,
                &config.progress,
                Deadline::at(None),
            )?;
            vectors.push(embedding.rows);
            status = embedding.cache;
        }
        let fingerprints = tools
            .iter()
            .map(|tool| definition_fingerprint(tool))
            .collect();
        Ok((
            Self {
                postings,
                vectors,
                fingerprints,
            },
            status,
        ))
    }

    /// Indexes the tools of a catalog as [`build`](Self::build) does. Data from the index that the
    /// catalog was opened from, or from an earlier snapshot, is reused.
    pub(super) fn build_catalog(
        catalog: &Catalog,
        previous: Option<&PreviousIndex>,
        config: &IndexConfig,
    ) -> Result<(Self, Option<CacheStatus>), IndexError> {
        let (postings, fingerprints) = match (catalog.saved(), previous) {
            (Some(file), _) => (Postings::open(file)?, open_fingerprints(file)?),
            (None, Some(previous)) => (previous.postings(catalog), previous.fingerprints(catalog)),
            (None, None) => return Self::build(catalog.tools(), config),
        };
        let mut vectors = Vec::with_capacity(config.embedders.len());
        let mut status = None;
        for embedder in &config.embedders {
            let cache_dir = config.cache_dir.as_deref();
            let embedding = catalog_vectors(
                catalog,
                previous,
                embedder.as_ref(),
                cache_dir,
                &config.progress,
                Deadline::at(None),
            )?;
            vectors.push(embedding.rows);
            status = embedding.cache;
        }
        Ok((
            Self {
                postings,
                vectors,
                fingerprints,
            },
            status,
        ))
    }

    /// Saves the segment. The header of the file has the model of each matrix.
    pub(super) fn save(&self, writer: &mut Writer) -> Result<(), SavedError> {
        self.postings.save(writer)?;
        for (model, rows) in self.vectors.iter().enumerate() {
            rows.save(&section(model), writer)?;
        }
        let mut fingerprints = Vec::with_capacity(self.fingerprints.len());
        for fingerprint in &self.fingerprints {
            fingerprints.push(fingerprint.unwrap_or_default());
        }
        writer.numbers(FINGERPRINTS, &fingerprints)
    }

    fn tools(&self) -> usize {
        self.fingerprints.len()
    }
}

/// The section of a saved index that holds definition fingerprints. Zeros mark a missing
/// fingerprint.
const FINGERPRINTS: &str = "likenesses";

fn open_fingerprints(file: &SavedFile) -> Result<Vec<Option<DefinitionFingerprint>>, SavedError> {
    let fingerprints: Vec<DefinitionFingerprint> = file.numbers(FINGERPRINTS)?;
    file.ensure(fingerprints.len() == file.header.tools, FINGERPRINTS)?;
    Ok(fingerprints
        .into_iter()
        .map(|fingerprint| (fingerprint != DefinitionFingerprint::default()).then_some(fingerprint))
        .collect())
}

/// The segments of one snapshot, in the order of its catalog. Clones share them.
#[derive(Clone)]
pub(super) struct Segments(Arc<[(usize, Arc<Segment>)]>);

impl Segments {
    /// Concatenates segments.
    pub(super) fn new(segments: impl IntoIterator<Item = Arc<Segment>>) -> Self {
        let mut tools = 0;
        let placed = segments.into_iter().map(|segment| {
            let first = tools;
            tools += segment.tools();
            (first, segment)
        });
        Self(placed.collect())
    }

    /// Returns the first tool number of each segment, with the segment.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Segment)> {
        self.0.iter().map(|(first, segment)| (*first, &**segment))
    }

    /// Returns the first tool number of each segment, with the segment's postings.
    pub(super) fn postings(&self) -> Vec<(usize, &Postings)> {
        self.iter()
            .map(|(first, segment)| (first, &segment.postings))
            .collect()
    }

    /// Returns the only segment, as a build makes one.
    pub(super) fn single(&self) -> &Segment {
        &self.0[0].1
    }

    /// Takes the single-tool segments of rows.
    pub(super) fn from_rows(rows: &[(RowKey, Arc<Row>)]) -> Self {
        Self::new(rows.iter().map(|(_, row)| Arc::clone(&row.segment)))
    }

    /// Merges single-tool segments into one segment.
    pub(super) fn merge(&self, models: usize) -> Self {
        let tools: Vec<&Segment> = self.iter().map(|(_, segment)| segment).collect();
        let postings: Vec<&Postings> = tools.iter().map(|segment| &segment.postings).collect();
        let rows =
            |model: usize| Rows::gather(tools.iter().map(|segment| (&segment.vectors[model], 0)));
        let vectors = (0..models)
            .map(|model| rows(model).unwrap_or_else(|| Rows::zeros(0, 1)))
            .collect();
        let fingerprints = tools
            .iter()
            .map(|segment| segment.fingerprints[0])
            .collect();
        Self::new([Arc::new(Segment {
            postings: Postings::gather(&postings),
            vectors,
            fingerprints,
        })])
    }

    /// Returns the total length of all tools, in units of the field weights. Integer sums do not
    /// depend on the order of addition.
    pub(super) fn length(&self) -> u64 {
        let lengths = self
            .iter()
            .flat_map(|(_, segment)| segment.postings.lengths());
        lengths.map(|&length| u64::from(length)).sum()
    }

    /// Returns the number of tools.
    pub(super) fn tools(&self) -> usize {
        self.0
            .last()
            .map_or(0, |(first, segment)| first + segment.tools())
    }

    /// Returns the segment that holds a tool of the snapshot, and the tool's position in it.
    pub(super) fn find(&self, tool: ToolId) -> (&Segment, usize) {
        let (_, segment, position) = self.locate(tool);
        (segment, position)
    }

    /// Works like [`find`](Self::find), and returns the number of the segment first.
    pub(super) fn locate(&self, tool: ToolId) -> (usize, &Segment, usize) {
        // If several segments begin at one tool, all but the last are empty.
        let number = self.0.partition_point(|(first, _)| *first <= tool.index()) - 1;
        let (first, segment) = &self.0[number];
        (number, segment, tool.index() - first)
    }

    /// Indexes `tools` in segments that end at `cuts`, given in any order.
    #[cfg(test)]
    pub(super) fn cut(
        tools: &[Arc<Tool>],
        cuts: &[usize],
        config: &IndexConfig,
    ) -> Result<Self, IndexError> {
        let mut ends: Vec<usize> = cuts.iter().map(|&cut| cut.min(tools.len())).collect();
        ends.push(tools.len());
        ends.sort_unstable();
        let mut start = 0;
        let mut segments = Vec::with_capacity(ends.len());
        for end in ends {
            let (segment, _) = Segment::build(&tools[start..end], config)?;
            segments.push(Arc::new(segment));
            start = end;
        }
        Ok(Self::new(segments))
    }
}
