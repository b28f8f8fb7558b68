//! Reuse of an earlier snapshot's columns.
//!
//! A tool is unchanged if its definition has the same digest. The columns of an unchanged tool are
//! copied, even if other tools around it changed. Statistics over all tools are counted again.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use rayon::prelude::*;

use super::postings::{ABSENT, Postings};
use super::record::DefinitionFingerprint;
use super::rows::Rows;
use super::vectors::Vectors;
use super::vocabulary::Vocabulary;
use crate::catalog::{Catalog, Digest, Tool};
use crate::embed::Embedder;
use crate::ranking::ToolId;
use crate::saved::SavedError;

/// Returns the first 8 bytes of a digest. They almost always identify it. If two digests share
/// them, the tool is indexed again.
fn digest_prefix(digest: &Digest) -> u64 {
    digest
        .first_chunk()
        .map_or(0, |prefix| u64::from_ne_bytes(*prefix))
}

/// The columns of an earlier snapshot.
#[derive(Clone, Copy)]
pub(super) struct SnapshotColumns<'s> {
    pub(super) digests: &'s [Digest],
    pub(super) postings: &'s Postings,
    pub(super) fingerprints: &'s [Option<DefinitionFingerprint>],
    pub(super) vectors: &'s [Vectors],
    pub(super) vocabulary: &'s Vocabulary,
}

/// The columns of an earlier snapshot, with the positions of a new catalog's tools in it.
pub(super) struct PreviousColumns<'s> {
    columns: SnapshotColumns<'s>,
    catalog: &'s Catalog,
    /// The position in the earlier snapshot by tool of the new catalog; [`ABSENT`] for a new tool.
    positions: Vec<u32>,
    /// The new tools, in order.
    new: Vec<u32>,
}

impl<'s> PreviousColumns<'s> {
    /// Compares an earlier catalog, which has the `columns`, with the new `catalog`.
    pub(super) fn new(
        (columns, earlier): (SnapshotColumns<'s>, &'s Catalog),
        catalog: &Catalog,
    ) -> Self {
        let digests = columns.digests;
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
            columns,
            catalog: earlier,
            positions,
            new,
        }
    }

    /// Returns the tools of `catalog` that the earlier snapshot does not have.
    pub(super) fn new_tools(&self, catalog: &Catalog) -> Result<Vec<Arc<Tool>>, SavedError> {
        let tools = self.new.iter();
        tools
            .map(|&tool| catalog.tool(ToolId(tool)).map(Arc::clone))
            .collect()
    }

    /// Merges the postings of unchanged tools with those of the new tools.
    pub(super) fn merge_postings(&self, new: &Postings) -> Postings {
        let mut new_positions = vec![ABSENT; self.columns.digests.len()];
        for (tool, &position) in (0..).zip(&self.positions) {
            if position != ABSENT {
                new_positions[position as usize] = tool;
            }
        }
        Postings::merge(
            &[(self.columns.postings, &new_positions), (new, &self.new)],
            self.positions.len(),
        )
    }

    /// Merges the fingerprints of unchanged tools with those of the new tools, in order.
    pub(super) fn merge_fingerprints(
        &self,
        new: &[Option<DefinitionFingerprint>],
    ) -> Vec<Option<DefinitionFingerprint>> {
        let mut fingerprints = Vec::with_capacity(self.positions.len());
        let mut new = new.iter();
        for &position in &self.positions {
            let fingerprint = match position {
                ABSENT => new.next(),
                _ => self.columns.fingerprints.get(position as usize),
            };
            fingerprints.push(fingerprint.copied().flatten());
        }
        fingerprints
    }

    /// Adds the words of the new tools to the vocabulary, and takes those of removed tools away.
    pub(super) fn merge_vocabulary(&self, new: &Vocabulary) -> Result<Vocabulary, SavedError> {
        let mut is_kept = vec![false; self.columns.digests.len()];
        for &position in &self.positions {
            if position != ABSENT {
                is_kept[position as usize] = true;
            }
        }
        let mut removed = Vec::new();
        for (tool, is_kept) in self.catalog.ids().zip(is_kept) {
            if !is_kept {
                removed.push(Arc::clone(self.catalog.tool(tool)?));
            }
        }
        let sum = Vocabulary::sum([self.columns.vocabulary, new]);
        Ok(if removed.is_empty() {
            sum
        } else {
            sum.without(&Vocabulary::from_tools(&removed))
        })
    }

    /// Returns the vectors that the earlier snapshot has by the same model; `None` if it has no
    /// such model.
    pub(super) fn vectors(&self, embedder: &dyn Embedder) -> Option<&'s Rows> {
        let is_same_model = |vectors: &&Vectors| {
            let previous = vectors.embedder();
            previous.identity() == embedder.identity()
                && previous.dimensions() == embedder.dimensions()
        };
        let vectors = self.columns.vectors.iter().find(is_same_model)?;
        Some(vectors.rows())
    }

    /// Merges the vectors of unchanged tools with those of the new tools, in order.
    pub(super) fn merge_rows(&self, known: &Rows, new: &Rows) -> Rows {
        let mut rows = Rows::zeros(self.positions.len(), known.dimensions());
        for (tool, &position) in self.positions.iter().enumerate() {
            if position != ABSENT {
                rows.copy(tool, known, position as usize);
            }
        }
        for (row, &tool) in self.new.iter().enumerate() {
            rows.copy(tool as usize, new, row);
        }
        rows
    }
}
