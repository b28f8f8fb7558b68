//! What an earlier snapshot knows of the tools of a new one.
//!
//! A tool is the same if its definition has the same digest. What depends on such a tool alone is
//! taken over, whatever has become of the tools around it; what is counted or compared over all
//! tools is worked out again.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use rayon::prelude::*;

use super::postings::Postings;
use super::rows::Rows;
use super::segment::Segment;
use super::twins::{Likeness, likeness};
use super::{Index, Vectors};
use crate::catalog::{Catalog, Digest, Tool};
use crate::embed::Embedder;

/// Stands for no place.
pub(super) const GONE: u32 = u32::MAX;

/// What a digest begins with, which tells digests apart as well as all of it. Where it does not, a
/// tool is indexed again.
fn start(digest: &Digest) -> u64 {
    digest
        .first_chunk()
        .map_or(0, |start| u64::from_ne_bytes(*start))
}

/// An earlier snapshot, and where it has the tools of a new catalog.
pub(super) struct Before {
    index: Arc<Index>,
    /// By tool of the new catalog: its place there; [`GONE`] where it has it not.
    places: Vec<u32>,
    /// The tools that it has not, in order.
    new: Vec<u32>,
}

impl Before {
    pub(super) fn new(index: Arc<Index>, catalog: &Catalog) -> Self {
        let digests = index.catalog.digests();
        let mut known: HashMap<u64, u32> = HashMap::with_capacity(digests.len());
        known.extend(digests.iter().map(start).zip(0..));
        let is_it = |place: u32, digest: &Digest| digests[place as usize] == *digest;
        let place = |digest: &Digest| {
            known
                .get(&start(digest))
                .copied()
                .filter(|&place| is_it(place, digest))
                .unwrap_or(GONE)
        };
        let places: Vec<u32> = catalog.digests().par_iter().map(place).collect();
        let new = (0..)
            .zip(&places)
            .filter(|(_, place)| **place == GONE)
            .map(|(tool, _)| tool)
            .collect();
        Self { index, places, new }
    }

    /// Returns the tools of `catalog` that are not known.
    pub(super) fn unknown(&self, catalog: &Catalog) -> Vec<Arc<Tool>> {
        self.new
            .iter()
            .map(|&tool| Arc::clone(&catalog.tools()[tool as usize]))
            .collect()
    }

    /// Returns the postings of all tools, of which those that are not known are read.
    pub(super) fn postings(&self, catalog: &Catalog) -> Postings {
        let mut moved = vec![GONE; self.index.catalog.len()];
        for (tool, &place) in (0..).zip(&self.places) {
            if place != GONE {
                moved[place as usize] = tool;
            }
        }
        let read = Postings::build(&self.unknown(catalog));
        Postings::merge(
            &[(&self.segment().postings, &moved), (&read, &self.new)],
            self.places.len(),
        )
    }

    /// Returns the likeness of every tool.
    pub(super) fn likenesses(&self, catalog: &Catalog) -> Vec<Option<Likeness>> {
        let known = &self.segment().likenesses;
        let of = |(&place, tool): (&u32, &Arc<Tool>)| {
            if place == GONE {
                likeness(tool)
            } else {
                known[place as usize]
            }
        };
        self.places
            .par_iter()
            .zip(catalog.tools())
            .map(of)
            .collect()
    }

    /// Puts the vectors that are known of a model into the rows of their tools; `None` where the
    /// model is another.
    pub(super) fn rows(&self, embedder: &dyn Embedder) -> Option<Rows> {
        let is_it = |vectors: &&Vectors| {
            let known = vectors.embedder();
            known.identity() == embedder.identity() && known.dimensions() == embedder.dimensions()
        };
        let vectors = self.index.vectors.iter().find(is_it)?;
        let known = &self.segment().vectors[vectors.model()];
        let mut rows = Rows::zeros(self.places.len(), embedder.dimensions());
        for (tool, &place) in self.places.iter().enumerate() {
            if place != GONE {
                rows.copy(tool, known, place as usize);
            }
        }
        Some(rows)
    }

    /// Puts the vectors of the tools that are not known, in order, into their rows.
    pub(super) fn complete(&self, rows: &mut Rows, embedded: &Rows) {
        for (place, &tool) in self.new.iter().enumerate() {
            rows.copy(tool as usize, embedded, place);
        }
    }

    fn segment(&self) -> &Segment {
        self.index.keyword.segments().whole()
    }
}
