//! Segments: what is known of a run of tools from those tools alone.
//!
//! A segment never changes, and nothing in it depends on what else is in the catalog: whatever is
//! counted over all tools (lengths on average, how many tools hold a term, which tools are the
//! same) belongs to the snapshot that the segment is part of. Snapshots may share segments. A tool
//! has a place in its segment, and in a snapshot the [`ToolId`] that follows from the places: the
//! segments' tools one after the other, in the order of the catalog.

use std::sync::Arc;

use super::before::Before;
use super::postings::Postings;
use super::row::{Row, RowKey};
use super::rows::Rows;
use super::twins::{Likeness, likeness};
use super::vectors::{catalog_vectors, embed_tools, section};
use super::{IndexConfig, IndexError};
use crate::catalog::{Catalog, Tool};
use crate::deadline::Deadline;
use crate::embed::CacheStatus;
use crate::ranking::ToolId;
use crate::saved::{SavedError, SavedFile, Writer};

/// What is known of a run of tools from those tools alone.
pub(super) struct Segment {
    pub(super) postings: Postings,
    /// The tools' unit vectors, one a row, by each model in the order of the configuration.
    pub(super) vectors: Vec<Rows>,
    /// One per tool; `None` where too little is known of it.
    pub(super) likenesses: Vec<Option<Likeness>>,
}

impl Segment {
    /// Indexes `tools`; with the state of the cache of the last model, where it has one.
    pub(super) fn build(
        tools: &[Arc<Tool>],
        config: &IndexConfig,
    ) -> Result<(Self, Option<CacheStatus>), IndexError> {
        let postings = Postings::build(tools);
        let mut vectors = Vec::with_capacity(config.embedders.len());
        let mut status = None;
        for embedder in &config.embedders {
            let folder = config.cache_dir.as_deref();
            let made = embed_tools(
                tools,
                embedder.as_ref(),
                folder,
                &config.progress,
                Deadline::at(None),
            )?;
            vectors.push(made.rows);
            status = made.cache;
        }
        let likenesses = tools.iter().map(|tool| likeness(tool)).collect();
        Ok((
            Self {
                postings,
                vectors,
                likenesses,
            },
            status,
        ))
    }

    /// Indexes the tools of a catalog, as [`build`](Self::build) does, but for what stands in the
    /// index that it was opened from or is known from before.
    pub(super) fn of(
        catalog: &Catalog,
        before: Option<&Before>,
        config: &IndexConfig,
    ) -> Result<(Self, Option<CacheStatus>), IndexError> {
        let (postings, likenesses) = match (catalog.saved(), before) {
            (Some(file), _) => (Postings::open(file)?, open_likenesses(file)?),
            (None, Some(before)) => (before.postings(catalog), before.likenesses(catalog)),
            (None, None) => return Self::build(catalog.tools(), config),
        };
        let mut vectors = Vec::with_capacity(config.embedders.len());
        let mut status = None;
        for embedder in &config.embedders {
            let folder = config.cache_dir.as_deref();
            let made = catalog_vectors(
                catalog,
                before,
                embedder.as_ref(),
                folder,
                &config.progress,
                Deadline::at(None),
            )?;
            vectors.push(made.rows);
            status = made.cache;
        }
        Ok((
            Self {
                postings,
                vectors,
                likenesses,
            },
            status,
        ))
    }

    /// Writes all of it; which model a matrix is of, the header of the file tells.
    pub(super) fn save(&self, writer: &mut Writer) -> Result<(), SavedError> {
        self.postings.save(writer)?;
        for (model, rows) in self.vectors.iter().enumerate() {
            rows.save(&section(model), writer)?;
        }
        let likenesses: Vec<Likeness> = self
            .likenesses
            .iter()
            .map(|known| known.unwrap_or_default())
            .collect();
        writer.numbers(LIKENESSES, &likenesses)
    }

    fn tools(&self) -> usize {
        self.likenesses.len()
    }
}

/// The section of a saved index that holds likenesses; zeros stand where too little is known of a
/// tool.
const LIKENESSES: &str = "likenesses";

fn open_likenesses(file: &SavedFile) -> Result<Vec<Option<Likeness>>, SavedError> {
    let likenesses: Vec<Likeness> = file.numbers(LIKENESSES)?;
    file.ensure(likenesses.len() == file.header.tools, LIKENESSES)?;
    Ok(likenesses
        .into_iter()
        .map(|likeness| (likeness != Likeness::default()).then_some(likeness))
        .collect())
}

/// The segments of one snapshot, in the order of its catalog. Cloning is cheap and shares them.
#[derive(Clone)]
pub(super) struct Segments(Arc<[(usize, Arc<Segment>)]>);

impl Segments {
    /// Puts segments one after the other.
    pub(super) fn new(segments: impl IntoIterator<Item = Arc<Segment>>) -> Self {
        let mut tools = 0;
        let placed = segments.into_iter().map(|segment| {
            let first = tools;
            tools += segment.tools();
            (first, segment)
        });
        Self(placed.collect())
    }

    /// Returns the number of each segment's first tool, with the segment.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Segment)> {
        self.0.iter().map(|(first, segment)| (*first, &**segment))
    }

    /// Returns the number of each segment's first tool, with the segment's postings.
    pub(super) fn postings(&self) -> Vec<(usize, &Postings)> {
        self.iter()
            .map(|(first, segment)| (first, &segment.postings))
            .collect()
    }

    /// Returns the only segment, as building makes one.
    pub(super) fn whole(&self) -> &Segment {
        &self.0[0].1
    }

    /// Takes the segments of single tools.
    pub(super) fn of_rows(rows: &[(RowKey, Arc<Row>)]) -> Self {
        Self::new(rows.iter().map(|(_, row)| Arc::clone(&row.segment)))
    }

    /// Makes one segment of those of single tools.
    pub(super) fn together(&self, models: usize) -> Self {
        let tools: Vec<&Segment> = self.iter().map(|(_, segment)| segment).collect();
        let postings: Vec<&Postings> = tools.iter().map(|segment| &segment.postings).collect();
        let rows =
            |model: usize| Rows::gathered(tools.iter().map(|segment| (&segment.vectors[model], 0)));
        let vectors = (0..models)
            .map(|model| rows(model).unwrap_or_else(|| Rows::zeros(0, 1)))
            .collect();
        let likenesses = tools.iter().map(|segment| segment.likenesses[0]).collect();
        Self::new([Arc::new(Segment {
            postings: Postings::gathered(&postings),
            vectors,
            likenesses,
        })])
    }

    /// Returns how long all tools are together, in units of the field weights. Whole numbers have
    /// one sum, in whatever order they are added up.
    pub(super) fn length(&self) -> u64 {
        let lengths = self
            .iter()
            .flat_map(|(_, segment)| segment.postings.lengths());
        lengths.map(|&length| u64::from(length)).sum()
    }

    /// Returns how many tools they hold.
    pub(super) fn tools(&self) -> usize {
        self.0
            .last()
            .map_or(0, |(first, segment)| first + segment.tools())
    }

    /// Returns the segment that holds a tool of the snapshot, and the tool's place in it.
    pub(super) fn find(&self, tool: ToolId) -> (&Segment, usize) {
        let (_, segment, place) = self.locate(tool);
        (segment, place)
    }

    /// As [`find`](Self::find), with the number of the segment in front.
    pub(super) fn locate(&self, tool: ToolId) -> (usize, &Segment, usize) {
        // Of segments that begin at one tool all but the last are empty.
        let number = self.0.partition_point(|(first, _)| *first <= tool.index()) - 1;
        let (first, segment) = &self.0[number];
        (number, segment, tool.index() - first)
    }

    /// Indexes `tools` in segments that end at `cuts`, in whatever order those stand.
    #[cfg(test)]
    pub(super) fn cut(
        tools: &[Arc<Tool>],
        cuts: &[usize],
        config: &IndexConfig,
    ) -> Result<Self, IndexError> {
        let mut ends: Vec<usize> = cuts
            .iter()
            .map(|&cut| cut.min(tools.len()))
            .chain([tools.len()])
            .collect();
        ends.sort_unstable();
        let mut start = 0;
        let segments = ends.into_iter().map(|end| {
            let run = &tools[std::mem::replace(&mut start, end)..end];
            Ok(Arc::new(Segment::build(run, config)?.0))
        });
        Ok(Self::new(segments.collect::<Result<Vec<_>, IndexError>>()?))
    }
}
