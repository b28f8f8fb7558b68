//! The terms of a run of documents: what each is known by, and where it has its postings.
//!
//! A term is known by a hash of its letters, so that two terms of one hash are one term to the
//! index. By chance that does not happen: of catalogs of a million terms, one in tens of millions
//! has two that meet. Whoever writes a tool can find two words of one hash, for FNV-1a is no secret
//! and no cipher; but all that this gives is that the tool seems to hold a word that it could as
//! well have held. So the hash needs no key, and may be kept in a file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

use crate::saved::{SavedError, SavedFile, Writer, fnv1a, smaller};

/// What a term is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct TermKey(pub u64);

impl TermKey {
    /// Hashes a term with FNV-1a of 64 bits.
    pub(crate) fn of(term: &str) -> Self {
        Self(fnv1a(term))
    }
}

/// Different terms in ascending order, and where the postings of each are in arrays that lie
/// beside.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Terms {
    keys: Vec<TermKey>,
    /// Where each term's postings end; they begin where those of the term before end.
    ends: Vec<u32>,
}

impl Terms {
    /// Collects the terms of postings that stand in ascending order of their terms.
    pub(super) fn of(postings: impl Iterator<Item = TermKey>) -> Self {
        let mut terms = Self::default();
        for (place, key) in postings.enumerate() {
            let end = number(place + 1);
            match terms
                .ends
                .last_mut()
                .filter(|_| terms.keys.last() == Some(&key))
            {
                Some(last) => *last = end,
                None => terms.push(key, place + 1),
            }
        }
        terms.shrink();
        terms
    }

    /// Takes different terms in ascending order, each with one posting.
    pub(super) fn of_one_each(keys: Vec<TermKey>) -> Self {
        let ends = (1..=number(keys.len())).collect();
        Self { keys, ends }
    }

    /// Adds the next term, whose postings end at `end`.
    pub(super) fn push(&mut self, term: TermKey, end: usize) {
        self.keys.push(term);
        self.ends.push(number(end));
    }

    /// Gives back what memory there is for more terms.
    pub(super) fn shrink(&mut self) {
        self.keys.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// Returns where the postings of a term are; an empty range where there are none.
    pub(super) fn look_up(&self, term: TermKey) -> Range<usize> {
        let place = smaller(&self.keys, term.0, |key| key.0);
        if self.keys.get(place) == Some(&term) {
            self.postings(place)
        } else {
            0..0
        }
    }

    /// Returns the terms, ascending.
    pub(super) fn keys(&self) -> &[TermKey] {
        &self.keys
    }

    /// Returns how many bytes they take.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.keys) + size_of_val(&*self.ends)
    }

    /// Returns how many terms there are.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns where the last postings end.
    fn end(&self) -> usize {
        self.ends.last().map_or(0, |&end| end as usize)
    }

    pub(super) fn save(&self, name: &str, writer: &mut Writer) -> Result<(), SavedError> {
        writer.numbers(
            &format!("{name}.terms"),
            &self.keys.iter().map(|key| key.0).collect::<Vec<u64>>(),
        )?;
        writer.numbers(&format!("{name}.term-ends"), &self.ends)
    }

    /// Reads the terms of so many postings.
    pub(super) fn open(name: &str, file: &SavedFile, postings: usize) -> Result<Self, SavedError> {
        let keys: Vec<u64> = file.numbers(&format!("{name}.terms"))?;
        let ends: Vec<u32> = file.numbers(&format!("{name}.term-ends"))?;
        let terms = Self {
            keys: keys.into_iter().map(TermKey).collect(),
            ends,
        };
        let ascend = terms.keys.is_sorted_by(|a, b| a < b) && terms.ends.is_sorted();
        file.ensure(
            ascend && terms.keys.len() == terms.ends.len() && terms.end() == postings,
            name,
        )?;
        Ok(terms)
    }

    /// Returns where the postings of each term are.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.len()).map(|place| self.postings(place))
    }

    fn postings(&self, place: usize) -> Range<usize> {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[place] as usize
    }
}

/// Tells `each` every term of several runs of documents, ascending, with the runs that have it, in
/// order, and where its postings are in each.
pub(super) fn each_term(runs: &[&Terms], mut each: impl FnMut(TermKey, &[(usize, Range<usize>)])) {
    let first = |(run, terms): (usize, &&Terms)| Some(Reverse((*terms.keys.first()?, run, 0)));
    let mut next: BinaryHeap<Reverse<(TermKey, usize, usize)>> =
        runs.iter().enumerate().filter_map(first).collect();
    let mut held = Vec::with_capacity(runs.len());
    while let Some(&Reverse((term, ..))) = next.peek() {
        held.clear();
        while let Some(mut top) = next.peek_mut().filter(|top| top.0.0 == term) {
            let Reverse((_, run, place)) = *top;
            held.push((run, runs[run].postings(place)));
            match runs[run].keys.get(place + 1) {
                Some(&term) => *top = Reverse((term, run, place + 1)),
                None => drop(PeekMut::pop(top)),
            }
        }
        each(term, &held);
    }
}

/// A number of tools or postings as it is kept.
pub(super) fn number(count: usize) -> u32 {
    u32::try_from(count).expect("a run holds fewer than 2^32 tools and postings")
}
