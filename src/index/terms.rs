//! The sorted terms of a run of documents, with the ranges of their postings.
//!
//! A term is identified by a hash, so terms with equal hashes are one term to the index. Collisions
//! do not matter in practice: among catalogs of a million terms, one in tens of millions has a
//! collision. FNV-1a is not a cryptographic hash, so the author of a tool can construct a
//! collision. The only effect is that the tool seems to contain a word, which the author could have
//! written anyway. So the hash needs no key and can be stored in files.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

use crate::saved::{
    ByteReader, DamagedBytes, SavedError, SavedFile, Writer, count_smaller, fnv1a, put_length,
    put_number,
};

/// The hash that identifies a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct TermKey(pub u64);

impl TermKey {
    /// Hashes a term with 64-bit FNV-1a.
    pub(crate) fn new(term: &str) -> Self {
        Self(fnv1a(term))
    }
}

/// Distinct terms in ascending order, with the ranges of their postings in parallel arrays.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Terms {
    keys: Vec<TermKey>,
    /// The end of each term's postings. They begin at the end of the previous term's.
    ends: Vec<u32>,
}

impl Terms {
    /// Collects the terms of postings that are sorted by term.
    pub(super) fn from_sorted(postings: impl Iterator<Item = TermKey>) -> Self {
        let mut terms = Self::default();
        for (position, key) in postings.enumerate() {
            let end = number(position + 1);
            if terms.keys.last() == Some(&key)
                && let Some(last) = terms.ends.last_mut()
            {
                *last = end;
            } else {
                terms.push(key, position + 1);
            }
        }
        terms.shrink();
        terms
    }

    /// Adds the next term, whose postings end at `end`.
    pub(super) fn push(&mut self, term: TermKey, end: usize) {
        self.keys.push(term);
        self.ends.push(number(end));
    }

    /// Frees unused capacity.
    pub(super) fn shrink(&mut self) {
        self.keys.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// Returns the range of a term's postings; an empty range for an unknown term.
    pub(super) fn look_up(&self, term: TermKey) -> Range<usize> {
        let index = count_smaller(&self.keys, term.0, |key| key.0);
        if self.keys.get(index) == Some(&term) {
            self.postings(index)
        } else {
            0..0
        }
    }

    /// Returns the terms, ascending.
    pub(super) fn keys(&self) -> &[TermKey] {
        &self.keys
    }

    /// Returns the memory use in bytes.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.keys) + size_of_val(&*self.ends)
    }

    /// Returns the number of terms.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the end of the last postings.
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

    /// Reads the terms of `postings` postings.
    pub(super) fn open(name: &str, file: &SavedFile, postings: usize) -> Result<Self, SavedError> {
        let keys: Vec<u64> = file.numbers(&format!("{name}.terms"))?;
        let ends: Vec<u32> = file.numbers(&format!("{name}.term-ends"))?;
        let terms = Self {
            keys: keys.into_iter().map(TermKey).collect(),
            ends,
        };
        let is_ascending = terms.keys.is_sorted_by(|a, b| a < b) && terms.ends.is_sorted();
        file.ensure(
            is_ascending && terms.keys.len() == terms.ends.len() && terms.end() == postings,
            name,
        )?;
        Ok(terms)
    }

    /// Returns the range of each term's postings.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.len()).map(|index| self.postings(index))
    }

    fn postings(&self, index: usize) -> Range<usize> {
        let start = index
            .checked_sub(1)
            .map_or(0, |previous| self.ends[previous]);
        start as usize..self.ends[index] as usize
    }
}

/// Calls `each` with every term of several runs of documents, ascending. The second argument has
/// the runs that contain the term, in order, each with the range of its postings.
pub(super) fn each_term(runs: &[&Terms], mut each: impl FnMut(TermKey, &[(usize, Range<usize>)])) {
    let first = |(run, terms): (usize, &&Terms)| Some(Reverse((*terms.keys.first()?, run, 0)));
    let mut next: BinaryHeap<Reverse<(TermKey, usize, usize)>> =
        runs.iter().enumerate().filter_map(first).collect();
    let mut containing = Vec::with_capacity(runs.len());
    while let Some(&Reverse((term, ..))) = next.peek() {
        containing.clear();
        while let Some(mut top) = next.peek_mut().filter(|top| top.0.0 == term) {
            let Reverse((_, run, index)) = *top;
            containing.push((run, runs[run].postings(index)));
            match runs[run].keys.get(index + 1) {
                Some(&following) => *top = Reverse((following, run, index + 1)),
                None => drop(PeekMut::pop(top)),
            }
        }
        each(term, &containing);
    }
}

/// Appends the number of terms, and the terms.
pub(super) fn encode_terms(out: &mut Vec<u8>, terms: impl ExactSizeIterator<Item = TermKey>) {
    put_length(out, terms.len());
    terms.for_each(|term| put_number(out, term.0));
}

/// Reads distinct terms in ascending order.
pub(super) fn decode_terms(reader: &mut ByteReader<'_>) -> Result<Vec<TermKey>, DamagedBytes> {
    let count = reader.length(size_of::<TermKey>())?;
    let terms: Vec<u64> = reader.numbers(count)?;
    if !terms.is_sorted_by(|a, b| a < b) {
        return Err(DamagedBytes::new("terms out of order"));
    }
    Ok(terms.into_iter().map(TermKey).collect())
}

/// Converts a number of tools or postings to its stored form.
pub(super) fn number(count: usize) -> u32 {
    u32::try_from(count).expect("a run holds fewer than 2^32 tools and postings")
}
