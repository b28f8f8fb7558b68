//! The terms of a run of documents: what each is known by, and where it has its postings.
//!
//! A term is known by a hash of its letters, so that two terms of one hash are one term to the index. By chance that does
//! not happen: of catalogs of a million terms, one in tens of millions has two that meet. Whoever writes a tool can find
//! two words of one hash, for FNV-1a is no secret and no cipher; but all that this gives is that the tool seems to hold a
//! word that it could as well have held. So the hash needs no key, and may be kept in a file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

/// What a term is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(super) struct TermKey(u64);

impl TermKey {
    /// Hashes a term with FNV-1a of 64 bits (Fowler, Noll, Vo, Eastlake, Hansen: RFC 9923).
    pub(super) fn of(term: &str) -> Self {
        const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        Self(term.bytes().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME)))
    }
}

/// Different terms in ascending order, and where the postings of each are in arrays that lie beside.
#[derive(Debug, Default, PartialEq)]
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
            match terms.ends.last_mut().filter(|_| terms.keys.last() == Some(&key)) {
                Some(last) => *last = end,
                None => terms.push(key, place + 1),
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

    /// Gives back what memory there is for more terms.
    pub(super) fn shrink(&mut self) {
        self.keys.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// Returns where the postings of a term are; an empty range where there are none.
    pub(super) fn look_up(&self, term: TermKey) -> Range<usize> {
        self.keys.binary_search(&term).map_or(0..0, |place| self.postings(place))
    }

    fn postings(&self, place: usize) -> Range<usize> {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[place] as usize
    }
}

/// Tells `each` every term of several runs of documents, ascending, with the runs that have it, in order, and where its
/// postings are in each.
pub(super) fn each_term(runs: &[&Terms], mut each: impl FnMut(TermKey, &[(usize, Range<usize>)])) {
    let first = |(run, terms): (usize, &&Terms)| Some(Reverse((*terms.keys.first()?, run, 0)));
    let mut next: BinaryHeap<Reverse<(TermKey, usize, usize)>> = runs.iter().enumerate().filter_map(first).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_has_the_key_that_the_specification_gives() {
        for (term, key) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(TermKey::of(term), TermKey(key), "{term}");
        }
    }
}
