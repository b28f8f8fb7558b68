//! The keyword index of a snapshot: exhaustive BM25 over the postings of its segments.
//!
//! BM25 needs the average length of tools and the document frequency of each term. Both are counted
//! over all segments, so a score does not depend on the division into segments. The normalisation
//! of each tool follows from its own length and the average. It is computed once per snapshot and
//! read in the loop over postings.
//!
//! Explanations look a tool up among the postings of each term of the request. Postings also record
//! the fields that contain the term.
//!
//! Scoring visits every posting of every query term instead of pruning to a top k. For catalogs of
//! this size that is as fast. It gives the fusion exact scores, and a narrow role costs nothing
//! extra.

use std::ops::Range;

use tinyvec::TinyVec;

use super::occurrences::WEIGHT_UNIT;
use super::postings::Postings;
use super::segment::{Segment, Segments};
use super::sources::DocumentFrequencies;
use super::terms::{TermKey, Terms, each_term};
use crate::ranking::ToolId;
use crate::text::{Field, TermKind};

/// BM25's term-frequency saturation, in units of full (not halved) field weights.
const K1: f32 = 1.6;
/// BM25's length normalisation.
const B: f32 = 0.6;
/// The weight of a word pair relative to a word.
const PAIR_WEIGHT: f32 = 0.25;

/// The postings of every tool of a snapshot, with statistics over all tools.
pub(crate) struct KeywordIndex {
    segments: Segments,
    /// BM25's denominator without the term frequency, by tool.
    norms: Vec<f32>,
    distinct_terms: usize,
    /// The number of tools and the document frequencies of a request's terms in the complete
    /// snapshot; `None` if the segments are complete.
    snapshot_totals: Option<(usize, DocumentFrequencies)>,
}

impl KeywordIndex {
    /// Takes the segments of a shard, for requests whose terms are in `document_frequencies`.
    pub(super) fn from_shard(
        segments: Segments,
        tools: usize,
        length: u64,
        document_frequencies: DocumentFrequencies,
    ) -> Self {
        let average_length = average_length(length, tools);
        let norms = segments
            .iter()
            .flat_map(|(_, segment)| segment.postings.lengths());
        let norms = norms.map(|&length| norm(length, average_length)).collect();
        Self {
            norms,
            distinct_terms: 0,
            snapshot_totals: Some((tools, document_frequencies)),
            segments,
        }
    }

    /// Computes the statistics over all segments.
    pub(super) fn new(segments: Segments) -> Self {
        let postings: Vec<&Postings> = segments
            .iter()
            .map(|(_, segment)| &segment.postings)
            .collect();
        let lengths = || postings.iter().flat_map(|postings| postings.lengths());
        let average_length = average_length(segments.length(), segments.tools());
        let norms = lengths()
            .map(|&length| norm(length, average_length))
            .collect();
        let distinct_terms = match postings[..] {
            [postings] => postings.terms().len(),
            _ => {
                let terms: Vec<&Terms> = postings.iter().map(|postings| postings.terms()).collect();
                let mut distinct = 0;
                each_term(&terms, |_, _| distinct += 1);
                distinct
            }
        };
        Self {
            norms,
            distinct_terms,
            snapshot_totals: None,
            segments,
        }
    }

    /// Looks up a term; `None` if no tool contains it.
    ///
    /// The inverse document frequency is `ln(1 + N / n)`.
    pub(crate) fn look_up(&self, term: TermKey, kind: TermKind) -> Option<IndexedTerm> {
        let postings: TinyVec<[Range<usize>; 1]> = self.postings(term).collect();
        let local = postings.iter().map(Range::len).sum();
        let (tools_with_term, tools) = self.snapshot_frequency(term, local);
        if tools_with_term == 0 {
            return None;
        }
        let idf = (1.0 + tools as f32 / tools_with_term as f32).ln();
        let share = if kind == TermKind::Pair {
            PAIR_WEIGHT
        } else {
            1.0
        };
        Some(IndexedTerm {
            weight: share * idf * (K1 + 1.0),
            postings,
        })
    }

    /// Returns the number of tools that contain a term, and the number of all tools.
    pub(crate) fn document_frequency(&self, term: TermKey) -> (usize, usize) {
        let local = self.postings(term).map(|postings| postings.len()).sum();
        self.snapshot_frequency(term, local)
    }

    /// Returns the number of tools that contain a term, and the number of all tools. `local` is the
    /// number of local tools that contain it.
    fn snapshot_frequency(&self, term: TermKey, local: usize) -> (usize, usize) {
        match &self.snapshot_totals {
            Some((tools, document_frequencies)) => {
                let count = document_frequencies.get(&term);
                let count = count.map_or(local, |&count| local.max(count as usize));
                (count, *tools)
            }
            None => (local, self.norms.len()),
        }
    }

    /// Returns the range of a term's postings in each segment.
    fn postings(&self, term: TermKey) -> impl Iterator<Item = Range<usize>> {
        self.segments
            .iter()
            .map(move |(_, segment)| segment.postings.terms().look_up(term))
    }

    /// Returns the index of every tool that contains the term, ascending, with the term's BM25
    /// contribution to its score.
    pub(crate) fn contributions(&self, term: &IndexedTerm) -> impl Iterator<Item = (usize, f32)> {
        self.segments.iter().zip(&term.postings).flat_map(
            move |((first, Segment { postings, .. }), range)| {
                let norms = &self.norms[first..];
                let (tools, frequencies) = (
                    postings.tools(range.clone()),
                    postings.frequencies(range.clone()),
                );
                tools
                    .iter()
                    .zip(frequencies)
                    .map(move |(&tool, &frequency)| {
                        let tool = tool as usize;
                        (
                            first + tool,
                            contribution(term.weight, frequency, norms[tool]),
                        )
                    })
            },
        )
    }

    /// Returns the contribution of a term to the score of one tool and the fields that contain it;
    /// `None` if the tool does not contain the term.
    pub(crate) fn explain(&self, tool: ToolId, term: &IndexedTerm) -> Option<(f32, Vec<Field>)> {
        let (number, segment, position) = self.segments.locate(tool);
        let (frequency, fields) = segment
            .postings
            .find(term.postings[number].clone(), position)?;
        Some((
            contribution(term.weight, frequency, self.norms[tool.index()]),
            fields.iter().collect(),
        ))
    }

    pub(super) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Returns the number of distinct terms.
    pub(crate) fn distinct_terms(&self) -> usize {
        self.distinct_terms
    }
}

/// A term of a request that the index contains.
#[derive(Debug)]
pub(crate) struct IndexedTerm {
    /// The upper bound of the term's contribution to a score.
    pub(crate) weight: f32,
    /// The range of the term's postings in each segment; most indexes have one segment.
    postings: TinyVec<[Range<usize>; 1]>,
}

impl IndexedTerm {
    /// Scales the contribution of the term.
    pub(crate) fn weighted(self, share: f32) -> Self {
        Self {
            weight: share * self.weight,
            ..self
        }
    }
}

/// Returns the average length of a tool in words. `length` is the total, in units of the field
/// weights.
fn average_length(length: u64, tools: usize) -> f32 {
    (length as f32 * WEIGHT_UNIT / tools.max(1) as f32).max(1.0)
}

/// BM25's denominator without the term frequency.
fn norm(length: u32, average_length: f32) -> f32 {
    K1 * (1.0 - B + B * (length as f32 * WEIGHT_UNIT) / average_length)
}

fn contribution(weight: f32, frequency: u16, norm: f32) -> f32 {
    let frequency = f32::from(frequency) * WEIGHT_UNIT;
    weight * frequency / (frequency + norm)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::catalog::{Catalog, Tool};
    use crate::index::IndexConfig;
    use crate::index::occurrences::repeats;
    use crate::text::{AnalyzedTerm, Analyzer, texts};

    /// Indexes `catalog` in segments that end at `cuts`.
    fn index(catalog: &Catalog, cuts: &[usize]) -> KeywordIndex {
        let segments =
            Segments::cut(catalog.tools(), cuts, &IndexConfig::default()).expect("builds");
        KeywordIndex::new(segments)
    }

    /// Computes BM25 over field-weighted counts directly from its definition.
    fn naive_score(tools: &[Tool], tool: &Tool, term: &str, kind: TermKind) -> f64 {
        let count = |tool: &Tool, counts: &dyn Fn(Field, &AnalyzedTerm<'_>) -> f64| {
            let mut sum = 0.0;
            for (field, text) in texts(tool) {
                let weight = f64::from(repeats(field, text)) / 2.0;
                Analyzer::new().terms(text, |term| sum += weight * counts(field, &term));
            }
            sum
        };
        let one_if = |condition: bool| f64::from(u8::from(condition));
        let length = |tool: &Tool| count(tool, &|_, term| one_if(term.kind == TermKind::Word));
        let frequency = |tool: &Tool| {
            count(tool, &|field, analyzed| {
                let paired = matches!(
                    field,
                    Field::Name | Field::Title | Field::Aliases | Field::Description
                );
                one_if(analyzed.term == term && (kind != TermKind::Pair || paired))
            })
        };
        let tools_with_term = tools.iter().filter(|tool| frequency(tool) > 0.0).count();
        if tools_with_term == 0 {
            return 0.0;
        }
        let average_length = (tools.iter().map(length).sum::<f64>() / tools.len() as f64).max(1.0);
        let (k1, b, tf) = (f64::from(K1), f64::from(B), frequency(tool));
        let idf = (1.0 + tools.len() as f64 / tools_with_term as f64).ln();
        let share = if kind == TermKind::Pair { 0.25 } else { 1.0 };
        share * idf * (k1 + 1.0) * tf / (tf + k1 * (1.0 - b + b * length(tool) / average_length))
    }

    /// Returns the fields that contain a term by analysing the tool again.
    fn naive_fields(tool: &Tool, term: &str, kind: TermKind) -> Vec<Field> {
        let paired = |field| {
            matches!(
                field,
                Field::Name | Field::Title | Field::Aliases | Field::Description
            )
        };
        let contains = |field: &Field| {
            let mut is_contained = false;
            for (_, text) in texts(tool).into_iter().filter(|(other, _)| other == field) {
                Analyzer::new().terms(text, |analyzed| is_contained |= analyzed.term == term);
            }
            is_contained && (kind != TermKind::Pair || paired(*field))
        };
        Field::ALL.into_iter().filter(contains).collect()
    }

    fn tools() -> impl Strategy<Value = Vec<Tool>> {
        let word = prop::sample::select(vec![
            "read", "file", "readFile", "the", "send", "mail", "sendMail", "a",
        ]);
        let text = prop::collection::vec(word, 0..8).prop_map(|words| words.join(" "));
        let tool = (text.clone(), text.clone(), text);
        prop::collection::vec(tool, 1..12).prop_map(|tools| {
            tools
                .into_iter()
                .enumerate()
                .map(|(index, (name, description, parameter))| {
                    let mut tool = Tool::without_arguments(format!("t{index} {name}"), description);
                    tool.tags = vec![parameter.clone()];
                    tool.parameters =
                        Some(json!({"properties": {"p": {"description": parameter}}}));
                    tool
                })
                .collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn scores_and_explanations_equal_the_definition(
            tools in tools(), cuts in prop::collection::vec(0..12_usize, 0..4),
        ) {
            let catalog = Catalog::from_tools(tools.clone()).expect("valid");
            let index = index(&catalog, &cuts);
            let terms = [
                ("read", TermKind::Word),
                ("mail", TermKind::Word),
                ("readfil", TermKind::Identifier),
                ("send mail", TermKind::Pair),
                ("absent", TermKind::Word),
            ];
            for (term, kind) in terms {
                let mut scores = vec![0.0; tools.len()];
                let indexed = index.look_up(TermKey::new(term), kind);
                if let Some(term) = &indexed {
                    let contributions = index.contributions(term);
                    contributions.for_each(|(tool, contribution)| scores[tool] += contribution);
                    prop_assert!(scores.iter().all(|&score| score < term.weight));
                }
                for (id, tool) in catalog.ids().zip(&tools) {
                    let naive = naive_score(&tools, tool, term, kind);
                    let error = (f64::from(scores[id.index()]) - naive).abs();
                    prop_assert!(error < 1e-4, "{} {}", term, naive);
                    let explained = indexed.as_ref().and_then(|term| index.explain(id, term));
                    let (contribution, fields) = explained.unwrap_or_default();
                    prop_assert_eq!(contribution.to_bits(), scores[id.index()].to_bits());
                    prop_assert_eq!(fields, naive_fields(tool, term, kind));
                }
            }
        }
    }

    #[test]
    fn empty_catalog_has_an_index() {
        let catalog = Catalog::from_tools([]).expect("valid");
        let index = index(&catalog, &[]);
        assert!(
            index
                .look_up(TermKey::new("read"), TermKind::Word)
                .is_none()
        );
    }
}
