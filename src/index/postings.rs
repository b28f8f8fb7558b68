//! The postings of tools: which tools contain a term, with frequency and fields, and the length of
//! each tool.
//!
//! All of it is flat arrays of numbers, which work equally well in a file and in memory. A term is
//! identified by its [key](super::terms::TermKey). A posting records that a tool contains a term.
//! The postings of one term are adjacent, in the order of the tools, and take 7 bytes each. A
//! posting holds both the score data and the explanation data of a match. No second index from
//! tools to terms is needed.
//!
//! Postings are made of runs of tools, in parallel: the terms of a run are sorted, and the sorted
//! runs are merged.

use std::ops::Range;

use super::terms::{TermKey, Terms, each_term, number};
use crate::ranking::ToolId;
use crate::saved::{SavedError, SavedFile, Writer};
use crate::text::Field;

/// The position that marks a tool as missing from the merged postings.
pub(super) const ABSENT: u32 = u32::MAX;

/// The sections of a saved index that hold postings.
const NAME: &str = "words";
const TOOLS: &str = "words.tools";
const FREQUENCIES: &str = "words.frequencies";
const FIELDS: &str = "words.fields";
const LENGTHS: &str = "words.lengths";

/// The terms of a run of tools, with the tools that contain each.
#[derive(Default)]
pub(super) struct Postings {
    terms: Terms,
    /// The position of the tool, by posting; ascending within a term.
    tools: Vec<u32>,
    /// The term's frequency in units of the field weights, by posting. [`u16::MAX`] also stands for
    /// larger values.
    frequencies: Vec<u16>,
    /// The fields that contain the term, by posting.
    fields: Vec<FieldSet>,
    /// The length of each tool, in units of the field weights.
    lengths: Vec<u32>,
}

/// The terms of one tool.
#[derive(Clone, Copy)]
pub(super) struct ToolTerms<'t> {
    /// The distinct terms, ascending.
    pub(super) terms: &'t [ToolTerm],
    /// The length of the tool, in units of the field weights.
    pub(super) length: u32,
}

/// A term of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ToolTerm {
    pub(super) key: TermKey,
    /// The frequency, in units of the field weights.
    pub(super) frequency: u16,
    /// The fields that contain the term.
    pub(super) fields: FieldSet,
}

/// Adds up the occurrences of each term, which are in any order.
pub(super) fn sum_up(occurrences: &mut Vec<ToolTerm>) {
    occurrences.sort_unstable_by_key(|occurrence| occurrence.key);
    occurrences.dedup_by(|later, first| {
        let is_same = later.key == first.key;
        if is_same {
            first.frequency = first.frequency.saturating_add(later.frequency);
            first.fields.add(later.fields);
        }
        is_same
    });
}

/// A set of fields, one bit per field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct FieldSet(u8);

const _: () = assert!(Field::ALL.len() <= u8::BITS as usize, "a field has a bit");

impl FieldSet {
    pub(super) fn one(field: Field) -> Self {
        Self(1 << field as u8)
    }

    pub(super) fn add(&mut self, others: Self) {
        self.0 |= others.0;
    }

    /// Returns the set as it is stored.
    pub(super) fn bits(self) -> u8 {
        self.0
    }

    pub(super) fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Returns the fields in their report order.
    pub(super) fn iter(self) -> impl Iterator<Item = Field> {
        Field::ALL
            .into_iter()
            .filter(move |&field| self.0 & (1 << field as u8) != 0)
    }
}

impl Postings {
    /// Makes the postings of one run of tools.
    pub(super) fn from_tools<'t>(tools: impl Iterator<Item = ToolTerms<'t>> + Clone) -> Self {
        /// A term of a tool, in 16 bytes.
        struct Posting {
            key: TermKey,
            tool: u32,
            frequency: u16,
            fields: FieldSet,
        }
        let count = tools.clone().map(|tool| tool.terms.len()).sum();
        let mut postings: Vec<Posting> = Vec::with_capacity(count);
        let mut lengths = Vec::with_capacity(tools.size_hint().0);
        for (position, ToolTerms { terms, length }) in (0..).zip(tools) {
            postings.extend(terms.iter().map(|term| Posting {
                key: term.key,
                tool: position,
                frequency: term.frequency,
                fields: term.fields,
            }));
            lengths.push(length);
        }
        postings.sort_unstable_by_key(|posting| (posting.key, posting.tool));
        Self {
            terms: Terms::from_sorted(postings.iter().map(|posting| posting.key)),
            tools: postings.iter().map(|posting| posting.tool).collect(),
            frequencies: postings.iter().map(|posting| posting.frequency).collect(),
            fields: postings.iter().map(|posting| posting.fields).collect(),
            lengths,
        }
    }

    /// Concatenates the tools of several runs.
    pub(super) fn concatenate(runs: &[&Self]) -> Self {
        let mut tools = 0;
        let mut positions: Vec<Vec<u32>> = Vec::with_capacity(runs.len());
        for run in runs {
            let first = number(tools);
            tools += run.lengths.len();
            positions.push((first..number(tools)).collect());
        }
        let mut positioned: Vec<(&Self, &[u32])> = Vec::with_capacity(runs.len());
        for (&run, run_positions) in runs.iter().zip(&positions) {
            positioned.push((run, run_positions));
        }
        Self::merge(&positioned, tools)
    }

    /// Merges several runs into one of `count` tools. Each run comes with the new position of each
    /// of its tools, or [`ABSENT`] for a removed tool.
    pub(super) fn merge(runs: &[(&Self, &[u32])], count: usize) -> Self {
        let mut lengths = vec![0; count];
        for (run, positions) in runs {
            for (&position, &length) in positions.iter().zip(&run.lengths) {
                if position != ABSENT {
                    lengths[position as usize] = length;
                }
            }
        }
        let postings = runs.iter().map(|(run, _)| run.tools.len()).sum();
        let mut merged = Self {
            lengths,
            tools: Vec::with_capacity(postings),
            frequencies: Vec::with_capacity(postings),
            fields: Vec::with_capacity(postings),
            ..Self::default()
        };
        each_term(
            &runs.iter().map(|(run, _)| &run.terms).collect::<Vec<_>>(),
            |term, containing| {
                let start = merged.tools.len();
                for (run, postings) in containing {
                    let (run, positions) = runs[*run];
                    let first = merged.tools.len();
                    let new_positions = run.tools[postings.clone()]
                        .iter()
                        .map(|&tool| positions[tool as usize]);
                    merged
                        .tools
                        .extend(new_positions.clone().filter(|&position| position != ABSENT));
                    if merged.tools.len() - first == postings.len() {
                        merged
                            .frequencies
                            .extend_from_slice(&run.frequencies[postings.clone()]);
                        merged
                            .fields
                            .extend_from_slice(&run.fields[postings.clone()]);
                        continue;
                    }
                    for (posting, _) in postings
                        .clone()
                        .zip(new_positions)
                        .filter(|&(_, position)| position != ABSENT)
                    {
                        merged.frequencies.push(run.frequencies[posting]);
                        merged.fields.push(run.fields[posting]);
                    }
                }
                merged.sort_from(start);
                if merged.tools.len() > start {
                    merged.terms.push(term, merged.tools.len());
                }
            },
        );
        merged.terms.shrink();
        merged.tools.shrink_to_fit();
        merged.frequencies.shrink_to_fit();
        merged.fields.shrink_to_fit();
        merged
    }

    /// Sorts the postings of one term by tool, from `start` on.
    fn sort_from(&mut self, start: usize) {
        if self.tools[start..].is_sorted() {
            return;
        }
        let postings = start..self.tools.len();
        let mut sorted: Vec<_> = postings
            .clone()
            .map(|posting| {
                (
                    self.tools[posting],
                    self.frequencies[posting],
                    self.fields[posting],
                )
            })
            .collect();
        // A stable sort is fast here, because the postings of each run are sorted already.
        sorted.sort_by_key(|&(tool, ..)| tool);
        for (posting, (tool, frequency, fields)) in postings.zip(sorted) {
            (
                self.tools[posting],
                self.frequencies[posting],
                self.fields[posting],
            ) = (tool, frequency, fields);
        }
    }

    pub(super) fn save(&self, writer: &mut Writer) -> Result<(), SavedError> {
        self.terms.save(NAME, writer)?;
        writer.numbers(TOOLS, &self.tools)?;
        writer.numbers(FREQUENCIES, &self.frequencies)?;
        writer.numbers(
            FIELDS,
            &self
                .fields
                .iter()
                .map(|fields| fields.bits())
                .collect::<Vec<u8>>(),
        )?;
        writer.numbers(LENGTHS, &self.lengths)
    }

    pub(super) fn open(file: &SavedFile) -> Result<Self, SavedError> {
        let (tools, frequencies): (Vec<u32>, Vec<u16>) =
            (file.numbers(TOOLS)?, file.numbers(FREQUENCIES)?);
        let fields: Vec<u8> = file.numbers(FIELDS)?;
        let lengths: Vec<u32> = file.numbers(LENGTHS)?;
        let is_valid = frequencies.len() == tools.len()
            && fields.len() == tools.len()
            && fields.iter().all(|&fields| fields != 0)
            && lengths.len() == file.header.tools
            && tools.iter().all(|&tool| (tool as usize) < lengths.len());
        file.ensure(is_valid, NAME)?;
        let terms = Terms::open(NAME, file, tools.len())?;
        file.ensure(
            terms
                .ranges()
                .all(|postings| tools[postings].is_sorted_by(|a, b| a < b)),
            NAME,
        )?;
        Ok(Self {
            terms,
            tools,
            frequencies,
            fields: fields.into_iter().map(FieldSet::from_bits).collect(),
            lengths,
        })
    }

    /// Returns the memory use in bytes.
    pub(super) fn memory(&self) -> usize {
        let arrays = [
            size_of_val(&*self.tools),
            size_of_val(&*self.frequencies),
            size_of_val(&*self.fields),
        ];
        self.terms.memory() + size_of_val(&*self.lengths) + arrays.iter().sum::<usize>()
    }

    /// Returns the length of each tool, in units of the field weights.
    pub(super) fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// Returns the total length of all tools. Integer sums do not depend on the order of addition.
    pub(super) fn total_length(&self) -> u64 {
        self.lengths.iter().map(|&length| u64::from(length)).sum()
    }

    /// Returns the terms with the ranges of their postings.
    pub(super) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Returns the positions of the tools of some postings.
    pub(super) fn tools(&self, postings: Range<usize>) -> &[u32] {
        &self.tools[postings]
    }

    /// Returns the tools that have a term in any of these fields, ascending.
    pub(super) fn tools_with(&self, fields: FieldSet) -> Vec<ToolId> {
        let mut has_term = vec![false; self.lengths.len()];
        for (&tool, posting) in self.tools.iter().zip(&self.fields) {
            has_term[tool as usize] |= posting.bits() & fields.bits() != 0;
        }
        let positions = has_term.iter().enumerate().filter(|(_, has)| **has);
        positions
            .map(|(position, _)| ToolId::from_index(position))
            .collect()
    }

    /// Returns the frequencies of some postings.
    pub(super) fn frequencies(&self, postings: Range<usize>) -> &[u16] {
        &self.frequencies[postings]
    }

    /// Returns the frequency and the fields of a term in a tool, given the term's postings; `None`
    /// if the tool does not contain the term.
    pub(super) fn find(&self, postings: Range<usize>, tool: usize) -> Option<(u16, FieldSet)> {
        let offset = self.tools[postings.clone()]
            .binary_search(&number(tool))
            .ok()?;
        let posting = postings.start + offset;
        Some((self.frequencies[posting], self.fields[posting]))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The content of a run by its definition: frequency and fields by term and tool.
    type Naive = BTreeMap<(TermKey, u32), (u16, Vec<Field>)>;

    fn naive(occurrences: &[(TermKey, u32, u16, Field)]) -> Naive {
        let mut naive = Naive::new();
        for &(term, tool, frequency, field) in occurrences {
            let (sum, fields) = naive.entry((term, tool)).or_default();
            *sum = sum.saturating_add(frequency);
            fields.push(field);
        }
        for (_, fields) in naive.values_mut() {
            *fields = Field::ALL
                .into_iter()
                .filter(|field| fields.contains(field))
                .collect();
        }
        naive
    }

    fn postings(occurrences: &[(TermKey, u32, u16, Field)], tools: Range<u32>) -> Postings {
        let terms: Vec<Vec<ToolTerm>> = tools
            .clone()
            .map(|tool| {
                let in_tool = occurrences.iter().filter(|(_, other, ..)| *other == tool);
                let occurrence = |&(key, _, frequency, field): &(TermKey, u32, u16, Field)| {
                    let fields = FieldSet::one(field);
                    ToolTerm {
                        key,
                        frequency,
                        fields,
                    }
                };
                let mut terms = in_tool.map(occurrence).collect();
                sum_up(&mut terms);
                terms
            })
            .collect();
        let terms = terms.iter().zip(tools);
        Postings::from_tools(terms.map(|(terms, length)| ToolTerms { terms, length }))
    }

    fn occurrences() -> impl Strategy<Value = Vec<(TermKey, u32, u16, Field)>> {
        let term = prop::sample::select(vec!["read", "file", "mail", "send", "read file", ""])
            .prop_map(TermKey::new);
        let frequency = prop::sample::select(vec![1, 2, 16, 40_000]);
        prop::collection::vec(
            (
                term,
                0..TOOLS,
                frequency,
                prop::sample::select(Field::ALL.to_vec()),
            ),
            0..60,
        )
    }

    const TOOLS: u32 = 8;

    /// A posting: term, tool, frequency and fields.
    type PostingEntry = (TermKey, u32, u16, Vec<Field>);

    /// Returns the complete content of postings, in order.
    fn entries(postings: &Postings) -> (Vec<u32>, Vec<PostingEntry>) {
        let mut entries = Vec::new();
        each_term(&[postings.terms()], |term, runs| {
            for posting in runs[0].1.clone() {
                let fields = postings.fields[posting].iter().collect();
                entries.push((
                    term,
                    postings.tools[posting],
                    postings.frequencies[posting],
                    fields,
                ));
            }
        });
        (postings.lengths.clone(), entries)
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]
        #[test]
        fn merged_postings_equal_those_of_a_new_index(
            occurrences in occurrences(),
            order in Just((0..TOOLS).collect::<Vec<_>>()).prop_shuffle(),
            count in 0..=TOOLS,
            old_count in 0..=TOOLS,
        ) {
            // The tools `order[..count]` remain, in that order. Those from `old_count` on are new.
            let remaining = &order[..count as usize];
            let position = |tool: u32| {
                remaining.iter().position(|&other| other == tool).map_or(ABSENT, number)
            };
            let old = postings(&occurrences, 0..old_count);
            let new = postings(&occurrences, old_count..TOOLS);
            let old_positions: Vec<u32> = (0..old_count).map(position).collect();
            let new_positions: Vec<u32> = (old_count..TOOLS).map(position).collect();
            let runs: [(&Postings, &[u32]); 2] = [(&old, &old_positions), (&new, &new_positions)];
            let merged = Postings::merge(&runs, remaining.len());
            let renumbered: Vec<_> = occurrences
                .iter()
                .filter(|(_, tool, ..)| remaining.contains(tool))
                .map(|&(term, tool, frequency, field)| (term, position(tool), frequency, field))
                .collect();
            let lengths: Vec<u32> = remaining.to_vec();
            let built = Postings { lengths, ..postings(&renumbered, 0..count) };
            prop_assert_eq!(entries(&merged), entries(&built));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]
        #[test]
        fn postings_are_independent_of_the_division_into_runs(
            occurrences in occurrences(), mut cuts in prop::collection::vec(0..=TOOLS, 0..4),
        ) {
            cuts.extend([0, TOOLS]);
            cuts.sort_unstable();
            let runs: Vec<Postings> =
                cuts.windows(2).map(|cut| postings(&occurrences, cut[0]..cut[1])).collect();
            let merged = Postings::concatenate(&runs.iter().collect::<Vec<_>>());
            prop_assert_eq!(merged.lengths(), (0..TOOLS).collect::<Vec<_>>());
            let mut actual = Naive::new();
            let mut last = None;
            each_term(&[merged.terms()], |term, postings| {
                assert!(last.replace(term) < Some(term), "terms ascend");
                let [(0, postings)] = postings else { panic!("one run") };
                assert_eq!(&merged.terms().look_up(term), postings);
                for &tool in merged.tools(postings.clone()) {
                    let (frequency, fields) =
                        merged.find(postings.clone(), tool as usize).expect("the tool has it");
                    actual.insert((term, tool), (frequency, fields.iter().collect()));
                }
                assert!(merged.tools(postings.clone()).is_sorted());
                assert_eq!(
                    merged.tools(postings.clone()).len(),
                    merged.frequencies(postings.clone()).len()
                );
            });
            prop_assert_eq!(&actual, &naive(&occurrences));
            for tool in 0..TOOLS {
                for term in ["read", "", "absent"].map(TermKey::new) {
                    let posting = merged.find(merged.terms().look_up(term), tool as usize);
                    prop_assert_eq!(posting.is_some(), actual.contains_key(&(term, tool)));
                }
            }
        }
    }
}
