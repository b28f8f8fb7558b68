//! The keyword index: exhaustive BM25 over the postings of all tools.
//!
//! BM25 needs the average length of tools and the document frequency of each term. The
//! normalisation of each tool follows from its own length and the average. It is computed once per
//! snapshot and read in the loop over postings.
//!
//! Explanations look a tool up among the postings of each term of the request. Postings also record
//! the fields that contain the term.
//!
//! Scoring visits every posting of every query term instead of pruning to a top k. For catalogs of
//! this size that is as fast. It gives the fusion exact scores, and a narrow role costs nothing
//! extra.

use std::ops::Range;

use super::occurrences::WEIGHT_UNIT;
use super::postings::Postings;
use super::stats::DocumentFrequencies;
use super::terms::TermKey;
use crate::ranking::ToolId;
use crate::text::{Field, TermKind};

/// BM25's term-frequency saturation, in units of full (not halved) field weights.
const K1: f32 = 1.6;
/// BM25's length normalisation.
const B: f32 = 0.6;
/// The weight of a word pair relative to a word.
const PAIR_WEIGHT: f32 = 0.25;

/// The postings of all tools, with statistics over them.
pub(crate) struct KeywordIndex {
    postings: Postings,
    /// BM25's denominator without the term frequency, by tool.
    norms: Vec<f32>,
    /// The statistics of the complete snapshot; `None` if the postings are complete.
    given: Option<KeywordTotals>,
}

/// The statistics of a complete snapshot for the keyword index of a part of it.
pub(super) struct KeywordTotals {
    pub(super) tools: usize,
    /// The total length of all tools, in units of the field weights.
    pub(super) length: u64,
    /// The document frequencies of a request's terms.
    pub(super) frequencies: DocumentFrequencies,
}

impl KeywordIndex {
    /// Indexes postings. Statistics are counted over them, unless they are `given`.
    pub(super) fn new(postings: Postings, given: Option<KeywordTotals>) -> Self {
        let (tools, length) = match &given {
            Some(totals) => (totals.tools, totals.length),
            None => (postings.lengths().len(), postings.total_length()),
        };
        let average_length = average_length(length, tools);
        let mut norms = Vec::with_capacity(postings.lengths().len());
        for &length in postings.lengths() {
            norms.push(norm(length, average_length));
        }
        Self {
            postings,
            norms,
            given,
        }
    }

    /// Looks up a term; `None` if no tool contains it.
    ///
    /// The inverse document frequency is `ln(1 + N / n)`.
    pub(crate) fn look_up(&self, term: TermKey, kind: TermKind) -> Option<IndexedTerm> {
        let postings = self.postings.terms().look_up(term);
        let (tools_with_term, tools) = self.snapshot_frequency(term, postings.len());
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
        let local = self.postings.terms().look_up(term);
        self.snapshot_frequency(term, local.len())
    }

    /// Returns the number of tools that contain a term, and the number of all tools. `local` is the
    /// number of local tools that contain it.
    fn snapshot_frequency(&self, term: TermKey, local: usize) -> (usize, usize) {
        match &self.given {
            Some(totals) => {
                let count = totals.frequencies.get(&term);
                let count = count.map_or(local, |&count| local.max(count as usize));
                (count, totals.tools)
            }
            None => (local, self.norms.len()),
        }
    }

    /// Returns the index of every tool that contains the term, ascending, with the term's BM25
    /// contribution to its score.
    pub(crate) fn contributions(&self, term: &IndexedTerm) -> impl Iterator<Item = (usize, f32)> {
        let weight = term.weight;
        let tools = self.postings.tools(term.postings.clone());
        let frequencies = self.postings.frequencies(term.postings.clone());
        tools
            .iter()
            .zip(frequencies)
            .map(move |(&tool, &frequency)| {
                let tool = tool as usize;
                (tool, contribution(weight, frequency, self.norms[tool]))
            })
    }

    /// Returns the contribution of a term to the score of one tool and the fields that contain it;
    /// `None` if the tool does not contain the term.
    pub(crate) fn explain(&self, tool: ToolId, term: &IndexedTerm) -> Option<(f32, Vec<Field>)> {
        let (frequency, fields) = self.postings.find(term.postings.clone(), tool.index())?;
        Some((
            contribution(term.weight, frequency, self.norms[tool.index()]),
            fields.iter().collect(),
        ))
    }

    pub(super) fn postings(&self) -> &Postings {
        &self.postings
    }

    /// Returns the number of distinct terms.
    pub(crate) fn distinct_terms(&self) -> usize {
        self.postings.terms().len()
    }
}

/// A term of a request that the index contains.
#[derive(Debug)]
pub(crate) struct IndexedTerm {
    /// The upper bound of the term's contribution to a score.
    pub(crate) weight: f32,
    /// The range of the term's postings.
    postings: Range<usize>,
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
    use crate::index::columns::Columns;
    use crate::index::occurrences::repeats;
    use crate::text::{AnalyzedTerm, Analyzer, texts};

    /// Indexes `catalog` in runs that end at `cuts`.
    fn index(catalog: &Catalog, cuts: &[usize]) -> KeywordIndex {
        let columns = Columns::analyze_cut(catalog.tools().expect("in memory"), cuts);
        KeywordIndex::new(columns.postings, None)
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
