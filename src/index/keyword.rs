//! The keyword index of a snapshot: exhaustive BM25 over the postings of its segments.
//!
//! What BM25 knows of the whole catalog, how long its tools are on average and how many hold a
//! term, is counted over all segments, so that a score does not depend on how a catalog is cut into
//! them. Each tool's normalisation follows from its own length and the average; it is worked out
//! once for the snapshot, and read in the loop over postings.
//!
//! Explaining looks the tool up among the postings of each term of the request, which say as well
//! in which fields it stands.
//!
//! Scoring visits every posting of every query term instead of pruning to a top k. For catalogs of
//! this size that is as fast, it gives each tool's exact score to the fusion, and a narrow role
//! costs nothing extra.

use std::ops::Range;

use tinyvec::TinyVec;

use super::occurrences::WEIGHT_UNIT;
use super::postings::Postings;
use super::segment::{Segment, Segments};
use super::sources::Holding;
use super::terms::{TermKey, Terms, each_term};
use crate::ranking::ToolId;
use crate::text::{Field, TermKind};

/// BM25's term-frequency saturation, in units of whole (not halved) field weights.
const K1: f32 = 1.6;
/// BM25's length normalisation.
const B: f32 = 0.6;
/// What a pair of words counts beside a word.
const PAIR_WEIGHT: f32 = 0.25;

/// The words of every tool of a snapshot, with what is counted over all of them.
pub(crate) struct KeywordIndex {
    segments: Segments,
    /// BM25's denominator without the term frequency, by tool.
    norms: Vec<f32>,
    distinct_terms: usize,
    /// How many tools there are, and how many hold each term of a request, where the segments hold
    /// some of a larger snapshot's.
    whole: Option<(usize, Holding)>,
}

impl KeywordIndex {
    /// Takes the segments of some tools of a larger snapshot, for requests whose terms `holding`
    /// has.
    pub(super) fn of_part(segments: Segments, tools: usize, length: u64, holding: Holding) -> Self {
        let average = average(length, tools);
        let norms = segments
            .iter()
            .flat_map(|(_, segment)| segment.postings.lengths());
        let norms = norms.map(|&length| norm(length, average)).collect();
        Self {
            norms,
            distinct_terms: 0,
            whole: Some((tools, holding)),
            segments,
        }
    }

    /// Counts what the segments come to together.
    pub(super) fn new(segments: Segments) -> Self {
        let postings: Vec<&Postings> = segments
            .iter()
            .map(|(_, segment)| &segment.postings)
            .collect();
        let lengths = || postings.iter().flat_map(|postings| postings.lengths());
        let average = average(segments.length(), segments.tools());
        let norms = lengths().map(|&length| norm(length, average)).collect();
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
            whole: None,
            segments,
        }
    }

    /// Looks a term up; `None` where no tool has it.
    ///
    /// The inverse document frequency is `ln(1 + N / n)`.
    pub(crate) fn look_up(&self, term: TermKey, kind: TermKind) -> Option<IndexedTerm> {
        let postings: TinyVec<[Range<usize>; 1]> = self.postings(term).collect();
        let (holding, tools) = self.counted(term, postings.iter().map(Range::len).sum());
        if holding == 0 {
            return None;
        }
        let idf = (1.0 + tools as f32 / holding as f32).ln();
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

    /// Returns how many tools have a term, of how many.
    pub(crate) fn holding(&self, term: TermKey) -> (usize, usize) {
        self.counted(
            term,
            self.postings(term).map(|postings| postings.len()).sum(),
        )
    }

    /// Returns how many tools have a term that so many have here, of how many.
    fn counted(&self, term: TermKey, here: usize) -> (usize, usize) {
        match &self.whole {
            Some((tools, holding)) => (
                holding
                    .get(&term)
                    .map_or(here, |&holding| here.max(holding as usize)),
                *tools,
            ),
            None => (here, self.norms.len()),
        }
    }

    /// Where each segment has the postings of a term.
    fn postings(&self, term: TermKey) -> impl Iterator<Item = Range<usize>> {
        self.segments
            .iter()
            .map(move |(_, segment)| segment.postings.terms().look_up(term))
    }

    /// Returns the index of every tool that has the term, ascending, with the term's BM25
    /// contribution to its score.
    pub(crate) fn contributions(&self, term: &IndexedTerm) -> impl Iterator<Item = (usize, f32)> {
        self.segments.iter().zip(&term.postings).flat_map(
            move |((first, Segment { postings, .. }), held)| {
                let norms = &self.norms[first..];
                let (tools, frequencies) = (
                    postings.tools(held.clone()),
                    postings.frequencies(held.clone()),
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

    /// Returns what a term contributes to the score of one tool, and where it stands; `None` where
    /// the tool has it not.
    pub(crate) fn explain(&self, tool: ToolId, term: &IndexedTerm) -> Option<(f32, Vec<Field>)> {
        let (number, segment, place) = self.segments.locate(tool);
        let (frequency, fields) = segment
            .postings
            .find(term.postings[number].clone(), place)?;
        Some((
            contribution(term.weight, frequency, self.norms[tool.index()]),
            fields.iter().collect(),
        ))
    }

    pub(super) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Returns how many terms the index tells apart.
    pub(crate) fn distinct_terms(&self) -> usize {
        self.distinct_terms
    }
}

/// A term that the index has.
#[derive(Debug)]
pub(crate) struct IndexedTerm {
    /// The largest contribution that the term could make to the score of any tool.
    pub(crate) weight: f32,
    /// Where each segment has its postings; most indexes have one.
    postings: TinyVec<[Range<usize>; 1]>,
}

impl IndexedTerm {
    /// Counts the term for a share of what it would.
    pub(crate) fn weighted(self, share: f32) -> Self {
        Self {
            weight: share * self.weight,
            ..self
        }
    }
}

/// How long tools are on average, in words; `length` is that of all, in units of the field weights.
fn average(length: u64, tools: usize) -> f32 {
    (length as f32 * WEIGHT_UNIT / tools.max(1) as f32).max(1.0)
}

/// BM25's denominator without the term frequency.
fn norm(length: u32, average: f32) -> f32 {
    K1 * (1.0 - B + B * (length as f32 * WEIGHT_UNIT) / average)
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

    /// The tools of `catalog`, in segments that end at `cuts`.
    fn index(catalog: &Catalog, cuts: &[usize]) -> KeywordIndex {
        let segments =
            Segments::cut(catalog.tools(), cuts, &IndexConfig::default()).expect("builds");
        KeywordIndex::new(segments)
    }

    /// BM25 over field-weighted counts, written out from its definition.
    fn naive_score(tools: &[Tool], tool: &Tool, term: &str, kind: TermKind) -> f64 {
        let count = |tool: &Tool, counts: &dyn Fn(Field, &AnalyzedTerm<'_>) -> f64| {
            let mut sum = 0.0;
            for (field, text) in texts(tool) {
                let weight = f64::from(repeats(field, text)) / 2.0;
                Analyzer::new().terms(text, |found| sum += weight * counts(field, &found));
            }
            sum
        };
        let one_if = |is: bool| f64::from(u8::from(is));
        let length = |tool: &Tool| count(tool, &|_, found| one_if(found.kind == TermKind::Word));
        let frequency = |tool: &Tool| {
            count(tool, &|field, found| {
                let paired = matches!(
                    field,
                    Field::Name | Field::Title | Field::Aliases | Field::Description
                );
                one_if(found.term == term && (kind != TermKind::Pair || paired))
            })
        };
        let having = tools.iter().filter(|tool| frequency(tool) > 0.0).count();
        if having == 0 {
            return 0.0;
        }
        let average = (tools.iter().map(length).sum::<f64>() / tools.len() as f64).max(1.0);
        let (k1, b, tf) = (f64::from(K1), f64::from(B), frequency(tool));
        let idf = (1.0 + tools.len() as f64 / having as f64).ln();
        let share = if kind == TermKind::Pair { 0.25 } else { 1.0 };
        share * idf * (k1 + 1.0) * tf / (tf + k1 * (1.0 - b + b * length(tool) / average))
    }

    /// The fields that hold a term, found by reading the tool again.
    fn naive_fields(tool: &Tool, term: &str, kind: TermKind) -> Vec<Field> {
        let paired = |field| {
            matches!(
                field,
                Field::Name | Field::Title | Field::Aliases | Field::Description
            )
        };
        let holds = |wanted: &Field| {
            let mut found = false;
            for (_, text) in texts(tool).into_iter().filter(|(field, _)| field == wanted) {
                Analyzer::new().terms(text, |analyzed| found |= analyzed.term == term);
            }
            found && (kind != TermKind::Pair || paired(*wanted))
        };
        Field::ALL.into_iter().filter(holds).collect()
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
                let found = index.look_up(TermKey::of(term), kind);
                if let Some(found) = &found {
                    index.contributions(found).for_each(|(tool, contribution)| scores[tool] += contribution);
                    prop_assert!(scores.iter().all(|&score| score < found.weight));
                }
                for (id, tool) in catalog.ids().zip(&tools) {
                    let naive = naive_score(&tools, tool, term, kind);
                    prop_assert!((f64::from(scores[id.index()]) - naive).abs() < 1e-4, "{} {}", term, naive);
                    let explained = found.as_ref().and_then(|found| index.explain(id, found));
                    let (contribution, fields) = explained.unwrap_or_default();
                    prop_assert_eq!(contribution.to_bits(), scores[id.index()].to_bits());
                    prop_assert_eq!(fields, naive_fields(tool, term, kind));
                }
            }
        }
    }

    #[test]
    fn an_empty_catalog_has_an_index() {
        let catalog = Catalog::from_tools([]).expect("valid");
        let index = index(&catalog, &[]);
        assert!(index.look_up(TermKey::of("read"), TermKind::Word).is_none());
    }
}
