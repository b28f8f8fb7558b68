//! The forward index: which terms each tool of a segment holds, how often and in which fields, so that a match is
//! explained without reading the tool's text again.
//!
//! A term is known by a hash of 64 bits, so that two terms of one tool are as good as never taken for each other;
//! 13 bytes per term and tool are all that it takes. The hash is FNV-1a, which is specified and may be kept in a file.
//! Whoever writes a tool can find two words of one hash; all that this gives is that the tool seems to hold a word that
//! it could as well have held. The inverted index, which ranks, knows terms by their letters.

use std::ops::Range;

use crate::text::Field;

const _: () = assert!(Field::ALL.len() <= u8::BITS as usize, "a field has a bit");

/// The terms of every tool of a segment.
#[derive(Default)]
pub(super) struct ForwardIndex {
    /// Where each tool's terms end; they begin where those of the tool before end.
    ends: Vec<usize>,
    /// Ascending within a tool.
    keys: Vec<TermKey>,
    frequencies: Vec<u32>,
    fields: Vec<u8>,
}

/// The terms of one tool: key, frequency, and a bit for each field.
#[derive(Default)]
pub(super) struct ToolTerms(Vec<(TermKey, u32, u8)>);

impl ToolTerms {
    /// Counts `term` another `frequency` times, in `field`.
    pub(super) fn add(&mut self, term: &str, frequency: u32, field: Field) {
        self.0.push((TermKey::of(term), frequency, 1 << field as u8));
    }

    /// Puts the terms in order, each once.
    pub(super) fn merge(&mut self) {
        self.0.sort_unstable_by_key(|&(key, ..)| key);
        self.0.dedup_by(|later, first| {
            let same = later.0 == first.0;
            if same {
                first.1 += later.1;
                first.2 |= later.2;
            }
            same
        });
    }
}

impl ForwardIndex {
    /// Adds the next tool, with its terms merged.
    pub(super) fn push(&mut self, tool: &ToolTerms) {
        for &(key, frequency, fields) in &tool.0 {
            self.keys.push(key);
            self.frequencies.push(frequency);
            self.fields.push(fields);
        }
        self.ends.push(self.keys.len());
    }

    /// Returns the terms of a tool, each once.
    pub(super) fn terms(&self, tool: usize) -> &[TermKey] {
        &self.keys[self.held(tool)]
    }

    /// Returns how often a tool holds a term, and in which fields, in the order in which they are reported.
    pub(super) fn find(&self, tool: usize, term: TermKey) -> Option<(u32, Vec<Field>)> {
        let at = self.place(tool, term)?;
        let held = |field: &Field| self.fields[at] & (1 << *field as u8) != 0;
        Some((self.frequencies[at], Field::ALL.into_iter().filter(held).collect()))
    }

    fn place(&self, tool: usize, term: TermKey) -> Option<usize> {
        let held = self.held(tool);
        Some(held.start + self.keys[held].binary_search(&term).ok()?)
    }

    fn held(&self, tool: usize) -> Range<usize> {
        tool.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[tool]
    }
}

/// What a term is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TermKey(u64);

impl TermKey {
    /// Hashes a term with FNV-1a of 64 bits (Fowler, Noll, Vo, Eastlake, Hansen: RFC 9923).
    pub(super) fn of(term: &str) -> Self {
        const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        Self(term.bytes().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME)))
    }
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

    #[test]
    fn a_tool_holds_its_own_terms_and_no_others() {
        let mut index = ForwardIndex::default();
        let tools: [&[(&str, u32, Field)]; 3] = [
            &[("read", 2, Field::EnumValues), ("file", 8, Field::Name), ("read", 8, Field::Name)],
            &[],
            &[("file", 1, Field::Tags)],
        ];
        for tool in tools {
            let mut terms = ToolTerms::default();
            tool.iter().for_each(|&(term, frequency, field)| terms.add(term, frequency, field));
            terms.merge();
            index.push(&terms);
        }
        let find = |tool, term| index.find(tool, TermKey::of(term));
        assert_eq!(find(0, "read"), Some((10, vec![Field::Name, Field::EnumValues])));
        assert_eq!(find(0, "file"), Some((8, vec![Field::Name])));
        assert_eq!((find(1, "read"), find(1, "file"), find(2, "read")), (None, None, None));
        assert_eq!(find(2, "file"), Some((1, vec![Field::Tags])));
    }
}
