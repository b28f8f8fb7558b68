//! The words of a segment: which tools hold a term, how often and in which fields, and how long
//! each tool is.
//!
//! All of it is flat arrays of numbers, which are as good in a file as in memory. A term is known
//! by its [key](super::terms::TermKey). A posting says of one tool that it holds a term; those of
//! one term stand together, in the order of the tools, and take 7 bytes each. What explains a match
//! stands in the posting that scores it, so that no second index leads from tools to terms.
//!
//! Tools are read in runs, in parallel; the occurrences of terms in a run are sorted, and the
//! sorted runs are merged.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::before::GONE;
use super::occurrences::{Fields, Occurrence, occurrences};
use super::terms::{TermKey, Terms, each_term, number};
use crate::catalog::Tool;
use crate::saved::{SavedError, SavedFile, Writer};
use crate::text::Analyzer;

/// How many tools are read together: few enough that all cores have work, enough that runs are few.
/// What is read of them takes some megabytes.
const TOOLS_PER_RUN: usize = 1024;

/// The sections of a saved index that hold postings.
const NAME: &str = "words";
const TOOLS: &str = "words.tools";
const FREQUENCIES: &str = "words.frequencies";
const FIELDS: &str = "words.fields";
const LENGTHS: &str = "words.lengths";

/// The terms of a run of tools, and which of the tools hold each.
#[derive(Default)]
pub(super) struct Postings {
    terms: Terms,
    /// By posting: the place of the tool; ascending within a term.
    tools: Vec<u32>,
    /// By posting: how often the tool holds the term, in units of the field weights; [`u16::MAX`]
    /// stands for more, too.
    frequencies: Vec<u16>,
    /// By posting: the fields that hold the term.
    fields: Vec<Fields>,
    /// The length of each tool, in units of the field weights.
    lengths: Vec<u32>,
}

impl Postings {
    /// Indexes `tools`.
    pub(super) fn build(tools: &[Arc<Tool>]) -> Self {
        if tools.len() <= TOOLS_PER_RUN {
            return Self::run(tools);
        }
        let runs: Vec<Self> = tools.par_chunks(TOOLS_PER_RUN).map(Self::run).collect();
        Self::concatenated(&runs.iter().collect::<Vec<_>>())
    }

    /// Takes what one tool holds: different terms in ascending order, and of each how often and in
    /// which fields.
    pub(super) fn of_one_tool(
        terms: Vec<TermKey>,
        frequencies: Vec<u16>,
        fields: Vec<Fields>,
        length: u32,
    ) -> Self {
        let (tools, terms) = (vec![0; terms.len()], Terms::of_one_each(terms));
        Self {
            terms,
            tools,
            frequencies,
            fields,
            lengths: vec![length],
        }
    }

    /// Returns what the only tool holds: each term, how often and in which fields.
    pub(super) fn held(&self) -> impl Iterator<Item = (TermKey, u16, Fields)> {
        let of_terms = self.frequencies.iter().zip(&self.fields);
        self.terms
            .keys()
            .iter()
            .zip(of_terms)
            .map(|(&term, (&frequency, &fields))| (term, frequency, fields))
    }

    /// Indexes tools that are read together.
    fn run(tools: &[Arc<Tool>]) -> Self {
        let (mut found, mut lengths) = (Vec::new(), Vec::with_capacity(tools.len()));
        let mut analyzer = Analyzer::new();
        for (place, tool) in (0..).zip(tools) {
            let length = occurrences(tool, &mut analyzer, |term, repeats, field| {
                let (frequency, fields) = (u16::from(repeats), Fields::one(field));
                found.push(Occurrence {
                    term,
                    tool: place,
                    frequency,
                    fields,
                });
            });
            lengths.push(length);
        }
        Self {
            lengths,
            ..Self::of(found)
        }
    }

    /// Makes postings of occurrences, which stand in any order.
    fn of(mut occurrences: Vec<Occurrence>) -> Self {
        occurrences.sort_unstable_by_key(|found| (found.term, found.tool));
        // Those of one tool are counted together.
        occurrences.dedup_by(|later, first| {
            let same = (later.term, later.tool) == (first.term, first.tool);
            if same {
                first.frequency = first.frequency.saturating_add(later.frequency);
                first.fields.add(later.fields);
            }
            same
        });
        Self {
            terms: Terms::of(occurrences.iter().map(|found| found.term)),
            tools: occurrences.iter().map(|found| found.tool).collect(),
            frequencies: occurrences.iter().map(|found| found.frequency).collect(),
            fields: occurrences.iter().map(|found| found.fields).collect(),
            lengths: Vec::new(),
        }
    }

    /// Puts tools one after the other that stand in runs of one or more.
    pub(super) fn gathered(runs: &[&Self]) -> Self {
        let together: Vec<Self> = runs
            .par_chunks(TOOLS_PER_RUN)
            .map(Self::concatenated)
            .collect();
        Self::concatenated(&together.iter().collect::<Vec<_>>())
    }

    /// Puts the tools of several runs one after the other.
    fn concatenated(runs: &[&Self]) -> Self {
        let mut tools = 0;
        let placed = |run: &&Self| {
            let first = number(tools);
            tools += run.lengths.len();
            (first..number(tools)).collect()
        };
        let places: Vec<Vec<u32>> = runs.iter().map(placed).collect();
        let placed: Vec<(&Self, &[u32])> = runs
            .iter()
            .zip(&places)
            .map(|(run, places)| (*run, &**places))
            .collect();
        Self::merge(&placed, tools)
    }

    /// Puts the tools of several runs together, `count` of them: with each run stands where each of
    /// its tools comes to stand, or [`GONE`] for one that is left out.
    pub(super) fn merge(runs: &[(&Self, &[u32])], count: usize) -> Self {
        let mut lengths = vec![0; count];
        for (run, places) in runs {
            for (&place, &length) in places
                .iter()
                .zip(&run.lengths)
                .filter(|(place, _)| **place != GONE)
            {
                lengths[place as usize] = length;
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
            |term, held| {
                let start = merged.tools.len();
                for (run, postings) in held {
                    let (run, places) = runs[*run];
                    let first = merged.tools.len();
                    let moved = run.tools[postings.clone()]
                        .iter()
                        .map(|&tool| places[tool as usize]);
                    merged
                        .tools
                        .extend(moved.clone().filter(|&place| place != GONE));
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
                        .zip(moved)
                        .filter(|&(_, place)| place != GONE)
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

    /// Puts the postings of one term in the order of the tools, from `start` on.
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
        // What is stable knows runs that are sorted already, as those of each run of tools are.
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
        let sound = frequencies.len() == tools.len()
            && fields.len() == tools.len()
            && fields.iter().all(|&fields| fields != 0)
            && lengths.len() == file.header.tools
            && tools.iter().all(|&tool| (tool as usize) < lengths.len());
        file.ensure(sound, NAME)?;
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
            fields: fields.into_iter().map(Fields::of_bits).collect(),
            lengths,
        })
    }

    /// Returns how many bytes they take.
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

    /// Returns the terms, with where their postings are.
    pub(super) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Returns the places of the tools that some postings are of.
    pub(super) fn tools(&self, postings: Range<usize>) -> &[u32] {
        &self.tools[postings]
    }

    /// Returns the frequencies of some postings.
    pub(super) fn frequencies(&self, postings: Range<usize>) -> &[u16] {
        &self.frequencies[postings]
    }

    /// Returns how often a tool holds the term that the postings are of, and in which fields;
    /// `None` where it does not.
    pub(super) fn find(&self, postings: Range<usize>, tool: usize) -> Option<(u16, Fields)> {
        let found = self.tools[postings.clone()]
            .binary_search(&number(tool))
            .ok()?;
        let posting = postings.start + found;
        Some((self.frequencies[posting], self.fields[posting]))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::text::Field;

    /// What a run of tools holds, by the definition: by term and tool, how often and in which
    /// fields.
    type Naive = BTreeMap<(TermKey, u32), (u16, Vec<Field>)>;

    fn naive(found: &[(TermKey, u32, u16, Field)]) -> Naive {
        let mut naive = Naive::new();
        for &(term, tool, frequency, field) in found {
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

    fn postings(found: &[(TermKey, u32, u16, Field)], tools: Range<u32>) -> Postings {
        let own = found.iter().filter(|(_, tool, ..)| tools.contains(tool));
        let occurrence =
            |&(term, tool, frequency, field): &(TermKey, u32, u16, Field)| Occurrence {
                term,
                tool: tool - tools.start,
                frequency,
                fields: Fields::one(field),
            };
        Postings {
            lengths: tools.clone().collect(),
            ..Postings::of(own.map(occurrence).collect())
        }
    }

    fn occurrences() -> impl Strategy<Value = Vec<(TermKey, u32, u16, Field)>> {
        let term = prop::sample::select(vec!["read", "file", "mail", "send", "read file", ""])
            .prop_map(TermKey::of);
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

    /// A posting: the term, the tool, how often and in which fields.
    type Held = (TermKey, u32, u16, Vec<Field>);

    /// All that postings hold, in order.
    fn whole(postings: &Postings) -> (Vec<u32>, Vec<Held>) {
        let mut held = Vec::new();
        each_term(&[postings.terms()], |term, runs| {
            for posting in runs[0].1.clone() {
                let fields = postings.fields[posting].iter().collect();
                held.push((
                    term,
                    postings.tools[posting],
                    postings.frequencies[posting],
                    fields,
                ));
            }
        });
        (postings.lengths.clone(), held)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn tools_that_move_go_or_come_leave_what_a_new_index_has(
            found in occurrences(), order in Just((0..TOOLS).collect::<Vec<_>>()).prop_shuffle(), kept in 0..=TOOLS, known in 0..=TOOLS,
        ) {
            // The tools `order[..kept]` are left, in that order; those from `known` on were not
            // there before.
            let left = &order[..kept as usize];
            let place = |tool: u32| left.iter().position(|&other| other == tool).map_or(GONE, number);
            let before = postings(&found, 0..known);
            let new = postings(&found, known..TOOLS);
            let moved: Vec<u32> = (0..known).map(place).collect();
            let come: Vec<u32> = (known..TOOLS).map(place).collect();
            let merged = Postings::merge(&[(&before, &moved), (&new, &come)], left.len());
            let renumbered: Vec<_> = found
                .iter()
                .filter(|(_, tool, ..)| left.contains(tool))
                .map(|&(term, tool, frequency, field)| (term, place(tool), frequency, field))
                .collect();
            let lengths: Vec<u32> = left.to_vec();
            let built = Postings { lengths, ..postings(&renumbered, 0..kept) };
            prop_assert_eq!(whole(&merged), whole(&built));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn postings_hold_what_was_found_however_it_was_cut(
            found in occurrences(), mut cuts in prop::collection::vec(0..=TOOLS, 0..4),
        ) {
            cuts.extend([0, TOOLS]);
            cuts.sort_unstable();
            let runs: Vec<Postings> = cuts.windows(2).map(|cut| postings(&found, cut[0]..cut[1])).collect();
            let merged = Postings::gathered(&runs.iter().collect::<Vec<_>>());
            prop_assert_eq!(merged.lengths(), (0..TOOLS).collect::<Vec<_>>());
            let mut held = Naive::new();
            let mut last = None;
            each_term(&[merged.terms()], |term, postings| {
                assert!(last.replace(term) < Some(term), "terms ascend");
                let [(0, postings)] = postings else { panic!("there is one run") };
                assert_eq!(&merged.terms().look_up(term), postings);
                for &tool in merged.tools(postings.clone()) {
                    let (frequency, fields) = merged.find(postings.clone(), tool as usize).expect("the tool has it");
                    held.insert((term, tool), (frequency, fields.iter().collect()));
                }
                assert!(merged.tools(postings.clone()).is_sorted());
                assert_eq!(merged.tools(postings.clone()).len(), merged.frequencies(postings.clone()).len());
            });
            prop_assert_eq!(&held, &naive(&found));
            for (tool, term) in (0..TOOLS).flat_map(|tool| ["read", "", "absent"].map(|term| (tool, TermKey::of(term)))) {
                let found = merged.find(merged.terms().look_up(term), tool as usize);
                prop_assert_eq!(found.is_some(), held.contains_key(&(term, tool)));
            }
        }
    }
}
