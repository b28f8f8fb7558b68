//! Sources as documents: what the tools of one source say together.
//!
//! A request often tells whose tool it wants more clearly than which. Its words are those of a trade, and they stand in
//! the other tools of the source that serves that trade: "the fourth heat needs its lanes" says little of
//! `publish_start_list`, and much of a swimming club. So each source is one more document: by BM25 it has the words of
//! its name and of all of its tools, and by meaning the mean of what its tools are.
//!
//! A tool without a source, or of one so large that it is a collection and no service, stands for itself. What an
//! untrusted source calls itself joins it to no trusted one.

use foldhash::{HashMap, HashMapExt};

use super::forward::TermKey;
use super::postings::{WEIGHT_UNIT, repeats};
use super::segment::Segments;
use crate::catalog::Catalog;
use crate::text::{Analyzer, Field, TermKind};

/// A source of more tools is a collection.
const MAX_TOOLS: usize = 500;
/// BM25's term-frequency saturation, in units of whole (not halved) field weights.
const K1: f32 = 1.6;
/// BM25's length normalisation.
const B: f32 = 0.7;
/// What a pair of words counts beside a word.
const PAIR_WEIGHT: f32 = 0.25;

/// The sources of a catalog.
pub(crate) struct Sources {
    /// The number of each tool's source.
    of: Vec<u32>,
    /// How many tools each source has.
    sizes: Vec<u32>,
    /// BM25's denominator without the term frequency, by source.
    norms: Vec<f32>,
    /// The sources that hold a term, ascending, and how often.
    postings: HashMap<TermKey, Vec<(u32, u32)>>,
}

impl Sources {
    /// Puts the tools of each source together; `None` where sources tell nothing: there is one, or most tools stand for
    /// themselves.
    pub(super) fn new(catalog: &Catalog, segments: &Segments) -> Option<Self> {
        let mut sizes_by_name: HashMap<(&str, bool), usize> = HashMap::new();
        let name = |tool| {
            let tool = catalog.tool(tool);
            tool.source.as_deref().map(|source| (source, tool.untrusted))
        };
        for name in catalog.ids().filter_map(name) {
            *sizes_by_name.entry(name).or_default() += 1;
        }
        let shared = |name: &(&str, bool)| (2..=MAX_TOOLS).contains(&sizes_by_name[name]);
        let together = catalog.ids().filter_map(name).filter(shared).count();
        if 2 * together < catalog.len() {
            return None;
        }
        let mut numbers: HashMap<(&str, bool), u32> = HashMap::new();
        let (mut of, mut sizes, mut lengths) = (Vec::with_capacity(catalog.len()), Vec::new(), Vec::new());
        let mut postings: HashMap<TermKey, Vec<(u32, u32)>> = HashMap::new();
        let mut count = |source: u32, key: TermKey, frequency: u32| {
            let held = postings.entry(key).or_default();
            match held.binary_search_by_key(&source, |(source, _)| *source) {
                Ok(place) => held[place].1 += frequency,
                Err(place) => held.insert(place, (source, frequency)),
            }
        };
        let mut analyzer = Analyzer::new();
        for tool in catalog.ids() {
            let name = name(tool).filter(shared);
            let known = name.and_then(|name| numbers.get(&name).copied());
            let source = known.unwrap_or_else(|| {
                let source = u32::try_from(sizes.len()).expect("there are no more sources than tools");
                sizes.push(0);
                lengths.push(0);
                if let Some(name) = name {
                    numbers.insert(name, source);
                    analyzer
                        .terms(name.0, |term| count(source, TermKey::of(term.term), u32::from(repeats(Field::Name))));
                }
                source
            });
            of.push(source);
            sizes[source as usize] += 1;
            let (segment, place) = segments.find(tool);
            lengths[source as usize] += segment.postings.lengths[place];
            segment.postings.forward.terms(place).for_each(|(key, frequency)| count(source, key, frequency));
        }
        if sizes.len() < 2 {
            return None;
        }
        // Whole numbers have one sum, in whatever order they are added up.
        let total: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
        let average = (total as f32 * WEIGHT_UNIT / lengths.len() as f32).max(1.0);
        let norm = |length: &u32| K1 * (1.0 - B + B * (*length as f32 * WEIGHT_UNIT) / average);
        Some(Self { of, sizes, norms: lengths.iter().map(norm).collect(), postings })
    }

    /// Returns the BM25 score of each tool's source for the terms of a request.
    pub(crate) fn keyword<'a>(&self, terms: impl Iterator<Item = (&'a str, TermKind)>) -> Vec<f32> {
        let mut scores = vec![0.0; self.sizes.len()];
        for (term, kind) in terms {
            let Some(held) = self.postings.get(&TermKey::of(term)) else { continue };
            let idf = (1.0 + self.sizes.len() as f32 / held.len() as f32).ln();
            let share = if kind == TermKind::Pair { PAIR_WEIGHT } else { 1.0 };
            for &(source, frequency) in held {
                let frequency = frequency as f32 * WEIGHT_UNIT;
                let norm = self.norms[source as usize];
                scores[source as usize] += share * idf * (K1 + 1.0) * frequency / (frequency + norm);
            }
        }
        self.by_tool(&scores)
    }

    /// Returns the mean score of the tools of each tool's source.
    pub(crate) fn mean(&self, scores: &[f32]) -> Vec<f32> {
        let mut sums = vec![0.0; self.sizes.len()];
        self.of.iter().zip(scores).for_each(|(&source, score)| sums[source as usize] += score);
        sums.iter_mut().zip(&self.sizes).for_each(|(sum, &size)| *sum /= size as f32);
        self.by_tool(&sums)
    }

    fn by_tool(&self, scores: &[f32]) -> Vec<f32> {
        self.of.iter().map(|&source| scores[source as usize]).collect()
    }
}
