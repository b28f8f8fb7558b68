//! Reuse of an earlier snapshot's data.
//!
//! A tool is unchanged if its definition has the same digest. The data of an unchanged tool is
//! reused, even if other tools around it changed. Data that is counted or compared over all tools
//! is computed again.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use rayon::prelude::*;

use super::duplicates::{DefinitionFingerprint, definition_fingerprint};
use super::postings::Postings;
use super::rows::Rows;
use super::segment::Segment;
use super::{Index, Vectors};
use crate::catalog::{Catalog, Digest, Tool};
use crate::embed::Embedder;

/// The index that marks a tool as missing from the other snapshot.
pub(super) const ABSENT: u32 = u32::MAX;

/// Returns the first 8 bytes of a digest. They almost always identify it. If two digests share
/// them, the tool is indexed again.
fn digest_prefix(digest: &Digest) -> u64 {
    digest
        .first_chunk()
        .map_or(0, |prefix| u64::from_ne_bytes(*prefix))
}

/// An earlier snapshot, with the positions of a new catalog's tools in it.
pub(super) struct PreviousIndex {
    index: Arc<Index>,
    /// The position in the earlier snapshot by tool of the new catalog; [`ABSENT`] for a new tool.
    positions: Vec<u32>,
    /// The new tools, in order.
    new: Vec<u32>,
}

impl PreviousIndex {
    pub(super) fn new(index: Arc<Index>, catalog: &Catalog) -> Self {
        let digests = index.catalog.digests();
        let mut by_prefix: HashMap<u64, u32> = HashMap::with_capacity(digests.len());
        by_prefix.extend(digests.iter().map(digest_prefix).zip(0..));
        let position = |digest: &Digest| match by_prefix.get(&digest_prefix(digest)) {
            Some(&position) if digests[position as usize] == *digest => position,
            _ => ABSENT,
        };
        let positions: Vec<u32> = catalog.digests().par_iter().map(position).collect();
        let mut new = Vec::new();
        for (tool, &position) in (0..).zip(&positions) {
            if position == ABSENT {
                new.push(tool);
            }
        }
        Self {
            index,
            positions,
            new,
        }
    }

    /// Returns the tools of `catalog` that the earlier snapshot does not have.
    pub(super) fn new_tools(&self, catalog: &Catalog) -> Vec<Arc<Tool>> {
        self.new
            .iter()
            .map(|&tool| Arc::clone(&catalog.tools()[tool as usize]))
            .collect()
    }

    /// Returns the postings of all tools. Only new tools are analysed.
    pub(super) fn postings(&self, catalog: &Catalog) -> Postings {
        let mut new_positions = vec![ABSENT; self.index.catalog.len()];
        for (tool, &position) in (0..).zip(&self.positions) {
            if position != ABSENT {
                new_positions[position as usize] = tool;
            }
        }
        let new_postings = Postings::build(&self.new_tools(catalog));
        Postings::merge(
            &[
                (&self.segment().postings, &new_positions),
                (&new_postings, &self.new),
            ],
            self.positions.len(),
        )
    }

    /// Returns the definition fingerprint of every tool.
    pub(super) fn fingerprints(&self, catalog: &Catalog) -> Vec<Option<DefinitionFingerprint>> {
        let previous = &self.segment().fingerprints;
        let fingerprint = |(&position, tool): (&u32, &Arc<Tool>)| {
            if position == ABSENT {
                definition_fingerprint(tool)
            } else {
                previous[position as usize]
            }
        };
        self.positions
            .par_iter()
            .zip(catalog.tools())
            .map(fingerprint)
            .collect()
    }

    /// Returns rows for all tools, with the vectors that the earlier snapshot has by the same
    /// model; `None` if it has no such model.
    pub(super) fn rows(&self, embedder: &dyn Embedder) -> Option<Rows> {
        let is_same_model = |vectors: &&Vectors| {
            let previous = vectors.embedder();
            previous.identity() == embedder.identity()
                && previous.dimensions() == embedder.dimensions()
        };
        let vectors = self.index.vectors.iter().find(is_same_model)?;
        let previous_rows = &self.segment().vectors[vectors.model()];
        let mut rows = Rows::zeros(self.positions.len(), embedder.dimensions());
        for (tool, &position) in self.positions.iter().enumerate() {
            if position != ABSENT {
                rows.copy(tool, previous_rows, position as usize);
            }
        }
        Some(rows)
    }

    /// Copies the vectors of the new tools, in order, to the rows of these tools.
    pub(super) fn fill_new_rows(&self, rows: &mut Rows, embedded: &Rows) {
        for (row, &tool) in self.new.iter().enumerate() {
            rows.copy(tool as usize, embedded, row);
        }
    }

    fn segment(&self) -> &Segment {
        self.index.keyword.segments().single()
    }
}
