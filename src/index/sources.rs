//! Sources as documents: what the tools of one source say together.
//!
//! A request often tells whose tool it wants more clearly than which. Its words are those of a
//! trade, and they stand in the other tools of the source that serves that trade: "the fourth heat
//! needs its lanes" says little of `publish_start_list`, and much of a swimming club. So each
//! source is one more document. Its words are those of its name and of its tools, each as often as
//! tools have it, in whatever field: a trade shows in what parameters are said to be as well as in
//! names. Its meaning is the mean of what its tools are.
//!
//! A source of few tools tells less than one of many: its mean is drawn towards that of the
//! catalog, or a lone tool would have itself for a witness.
//!
//! A tool without a source, or of one so large that it is a collection and no service, stands for
//! itself. What an untrusted source calls itself joins it to no trusted one.

mod scores;

use std::sync::Arc;

use foldhash::HashMap;
use ndarray::{Array1, Array2, ArrayView2};

use self::scores::Of;
pub(crate) use self::scores::SourceScores;
use super::postings::Postings;
use super::rows::Rows;
use super::terms::{TermKey, Terms, each_term, number};
use super::vectors::dot;
use crate::catalog::Catalog;
use crate::ranking::{ToolId, ToolSet};
use crate::saved::{SavedError, SavedFile, Writer};
use crate::text::{Analyzer, TermKind};

/// A source of more tools is a collection.
const MAX_TOOLS: usize = 500;
/// BM25's term-frequency saturation. `docs/results.md` has what else was tried.
const K1: f32 = 0.6;
/// BM25's length normalisation.
const B: f32 = 0.75;
/// What a pair of words counts beside a word.
const PAIR_WEIGHT: f32 = 0.25;

/// A mean counts as if so many tools more were in the source, each like the catalog's tools on
/// average.
const TOOLS_ON_AVERAGE: f32 = 3.0;

/// The sections of a saved index that hold what sources say; they are missing where sources tell
/// nothing.
const NAME: &str = "source-words";
const OF: &str = "source-words.of";
const NORMS: &str = "source-words.norms";
const HOLDING: &str = "source-words.holding";
const COUNTS: &str = "source-words.counts";

/// The sources of a catalog.
pub(crate) struct Sources {
    of: Of,
    /// How many tools each source has.
    sizes: Vec<u32>,
    /// BM25's denominator without the term frequency, by source.
    norms: Vec<f32>,
    words: Words,
}

/// What sources say.
enum Words {
    /// All sources of the catalog.
    All(Held),
    /// Some of the sources of a larger catalog, each a document.
    Some {
        rows: Vec<Arc<SourceRow>>,
        counted: Arc<Counted>,
        holding: Holding,
    },
}

/// The words of all sources.
#[derive(Default)]
struct Held {
    terms: Terms,
    /// By posting: the source that holds the term; ascending within a term.
    holding: Vec<u32>,
    /// By posting: how many tools of the source hold the term; each word of its name counts as one
    /// more.
    counts: Vec<u16>,
}

/// How many sources hold each term of a request.
pub(crate) type Holding = HashMap<TermKey, u32>;

/// What is counted over all sources of a catalog.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) sources: usize,
    /// The average length of a source.
    pub(crate) average: f32,
    /// The mean of the tools' vectors, by each model.
    pub(super) mean: Vec<Vec<f32>>,
}

/// One source: its words and what its tools mean together.
#[derive(Debug, Clone)]
pub struct SourceRow {
    /// Ascending.
    terms: Vec<TermKey>,
    /// By term: how many tools hold it.
    counts: Vec<u16>,
    /// How many words it has, as its tools count them.
    length: u32,
    /// The sum of its tools' vectors, by each model.
    vectors: Vec<Vec<f32>>,
    tools: usize,
}

impl SourceRow {
    /// Takes the different terms of a source in ascending order, and how many tools hold each.
    pub(super) fn new(
        terms: Vec<TermKey>,
        counts: Vec<u16>,
        vectors: Vec<Vec<f32>>,
        tools: usize,
    ) -> Self {
        // Of a row that somebody else has written there may be any numbers.
        let length = counts.iter().fold(0, |length: u32, &count| {
            length.saturating_add(u32::from(count))
        });
        Self {
            terms,
            counts,
            length,
            vectors,
            tools,
        }
    }

    pub(super) fn terms(&self) -> &[TermKey] {
        &self.terms
    }

    pub(super) fn counts(&self) -> &[u16] {
        &self.counts
    }

    pub(super) fn vectors(&self) -> &[Vec<f32>] {
        &self.vectors
    }

    pub(super) fn tools(&self) -> usize {
        self.tools
    }

    /// Returns the terms that it holds.
    pub fn held(&self) -> impl Iterator<Item = u64> {
        self.terms.iter().map(|term| term.0)
    }

    fn count(&self, term: TermKey) -> Option<u16> {
        self.terms
            .binary_search(&term)
            .ok()
            .map(|place| self.counts[place])
    }
}

/// BM25's denominator without the term frequency.
fn norm(length: u32, average: f32) -> f32 {
    K1 * (1.0 - B + B * length as f32 / average.max(1.0))
}

impl Sources {
    /// Reads the sources from the index that the catalog was opened from, or puts their tools
    /// together; `None` where sources tell nothing.
    pub(super) fn of_catalog(
        catalog: &Catalog,
        postings: &[(usize, &Postings)],
    ) -> Result<Option<Self>, SavedError> {
        match catalog.saved() {
            None => Ok(Self::new(catalog, postings)),
            Some(file) if !file.has(OF) => Ok(None),
            Some(file) => Self::open(file).map(Some),
        }
    }

    pub(super) fn save(&self, writer: &mut Writer) -> Result<(), SavedError> {
        let Some(held) = self.held() else {
            return Ok(());
        };
        writer.numbers(OF, &self.of.numbers)?;
        writer.numbers(NORMS, &self.norms)?;
        held.terms.save(NAME, writer)?;
        writer.numbers(HOLDING, &held.holding)?;
        writer.numbers(COUNTS, &held.counts)
    }

    /// The words of all sources; `None` of a part.
    fn held(&self) -> Option<&Held> {
        match &self.words {
            Words::All(held) => Some(held),
            Words::Some { .. } => None,
        }
    }

    /// Returns how many bytes they take.
    pub(super) fn memory(&self) -> usize {
        let of = size_of_val(&*self.of.numbers) + size_of_val(&*self.of.ends);
        let words = self.held().map_or(
            0,
            |Held {
                 terms,
                 holding,
                 counts,
             }| { terms.memory() + size_of_val(&**holding) + size_of_val(&**counts) },
        );
        of + words + size_of_val(&*self.norms)
    }

    fn open(file: &SavedFile) -> Result<Self, SavedError> {
        let (numbers, norms): (Vec<u32>, Vec<f32>) = (file.numbers(OF)?, file.numbers(NORMS)?);
        let (holding, counts): (Vec<u32>, Vec<u16>) =
            (file.numbers(HOLDING)?, file.numbers(COUNTS)?);
        let is_source = |&source: &u32| (source as usize) < norms.len();
        let sound = numbers.len() == file.header.tools
            && numbers.iter().all(is_source)
            && norms.iter().all(|norm| norm.is_finite() && *norm > 0.0)
            && holding.len() == counts.len()
            && holding.iter().all(is_source);
        file.ensure(sound, NAME)?;
        let mut sizes = vec![0; norms.len()];
        numbers
            .iter()
            .for_each(|&source| sizes[source as usize] += 1);
        let terms = Terms::open(NAME, file, holding.len())?;
        Ok(Self {
            of: Of::new(numbers),
            sizes,
            norms,
            words: Words::All(Held {
                terms,
                holding,
                counts,
            }),
        })
    }

    /// Puts the tools of each source together; `None` where sources tell nothing: there is one, or
    /// most tools stand for themselves.
    pub(super) fn new(catalog: &Catalog, postings: &[(usize, &Postings)]) -> Option<Self> {
        // A source by its number and by whether it is trusted.
        let group = |tool| {
            Some(2 * catalog.source_number(tool)? + usize::from(catalog.outline(tool).untrusted))
        };
        let groups: Vec<Option<usize>> = catalog.ids().map(group).collect();
        let mut tools_of = vec![0_usize; 2 * catalog.source_names().len()];
        groups
            .iter()
            .flatten()
            .for_each(|&group| tools_of[group] += 1);
        let is_shared = |group: &usize| (2..=MAX_TOOLS).contains(&tools_of[*group]);
        let together = groups.iter().flatten().copied().filter(is_shared).count();
        if together == 0 || 2 * together < catalog.len() {
            return None;
        }
        let mut numbers: Vec<Option<u32>> = vec![None; tools_of.len()];
        let mut analyzer = Analyzer::new();
        let (mut of, mut sizes, mut words) =
            (Vec::with_capacity(catalog.len()), Vec::new(), Vec::new());
        for group in groups {
            let group = group.filter(is_shared);
            let known = group.and_then(|group| numbers[group]);
            let source = known.unwrap_or_else(|| {
                let source = number(sizes.len());
                if let Some(group) = group {
                    numbers[group] = Some(source);
                    analyzer.terms(&catalog.source_names()[group / 2], |term| {
                        words.push((TermKey::of(term.term), source))
                    });
                }
                sizes.push(0);
                source
            });
            sizes[source as usize] += 1;
            of.push(source);
        }
        if sizes.len() < 2 {
            return None;
        }
        words.sort_unstable();
        Some(Self::count((Of::new(of), sizes), postings, &words))
    }

    /// Counts how many tools of each source hold a term, the words of its name beside.
    fn count(
        (of, sizes): (Of, Vec<u32>),
        postings: &[(usize, &Postings)],
        names: &[(TermKey, u32)],
    ) -> Self {
        let mut words = Held::default();
        let of_names = Terms::of(names.iter().map(|&(term, _)| term));
        let terms: Vec<&Terms> = postings
            .iter()
            .map(|(_, postings)| postings.terms())
            .chain([&of_names])
            .collect();
        let mut lengths = vec![0_u32; sizes.len()];
        let mut counted: Vec<(u32, u32)> = Vec::new();
        each_term(&terms, |term, held| {
            // The tools of a source mostly stand together.
            let mut count = |source: u32| match counted.last_mut() {
                Some((last, count)) if *last == source => *count += 1,
                _ => counted.push((source, 1)),
            };
            for (run, held) in held {
                match postings.get(*run) {
                    Some((first, postings)) => {
                        let of = &of.numbers[*first..];
                        postings
                            .tools(held.clone())
                            .iter()
                            .for_each(|&tool| count(of[tool as usize]));
                    }
                    None => names[held.clone()]
                        .iter()
                        .for_each(|&(_, source)| count(source)),
                }
            }
            counted.sort_unstable();
            for same in counted.chunk_by(|(one, _), (other, _)| one == other) {
                let (source, count) = (same[0].0, same.iter().map(|(_, count)| count).sum::<u32>());
                lengths[source as usize] += count;
                words.holding.push(source);
                words.counts.push(u16::try_from(count).unwrap_or(u16::MAX));
            }
            counted.clear();
            words.terms.push(term, words.holding.len());
        });
        words.terms.shrink();
        words.holding.shrink_to_fit();
        words.counts.shrink_to_fit();
        let average = lengths.iter().sum::<u32>() as f32 / lengths.len() as f32;
        let norms = lengths
            .iter()
            .map(|&length| norm(length, average))
            .collect();
        Self {
            of,
            sizes,
            norms,
            words: Words::All(words),
        }
    }

    /// Takes the sources of some tools of a larger catalog: of each tool the number of its source
    /// among `rows`.
    pub(super) fn of_part(
        of: Vec<u32>,
        rows: Vec<Arc<SourceRow>>,
        counted: &Arc<Counted>,
        holding: Holding,
    ) -> Self {
        Self {
            of: Of::new(of),
            sizes: rows.iter().map(|row| number(row.tools)).collect(),
            norms: rows
                .iter()
                .map(|row| norm(row.length, counted.average))
                .collect(),
            words: Words::Some {
                rows,
                counted: Arc::clone(counted),
                holding,
            },
        }
    }

    /// Returns how many there are; a tool that stands for itself is one.
    pub(super) fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Returns the number of the source of a tool, and how many tools that has.
    pub(super) fn of_tool(&self, tool: ToolId) -> (u32, u32) {
        let source = self.of.numbers[tool.index()];
        (source, self.sizes[source as usize])
    }

    /// Tells `each` every term with the sources that hold it, and how many tools of each do.
    pub(super) fn each_term(&self, mut each: impl FnMut(TermKey, &[u32], &[u16])) {
        let Some(Held {
            terms,
            holding,
            counts,
        }) = self.held()
        else {
            return;
        };
        for (&term, held) in terms.keys().iter().zip(terms.ranges()) {
            each(term, &holding[held.clone()], &counts[held]);
        }
    }

    /// Returns how many sources there are, and how long they are on average.
    pub(super) fn counted(&self) -> (usize, f32) {
        let mut length = 0_u64;
        self.each_term(|_, _, counts| {
            length += counts.iter().map(|&count| u64::from(count)).sum::<u64>()
        });
        (self.sizes.len(), length as f32 / self.sizes.len() as f32)
    }

    /// Returns the BM25 score of each tool's source for the terms of a request, each with what it
    /// counts.
    pub(crate) fn keyword(
        &self,
        terms: impl Iterator<Item = (TermKey, TermKind, f32)>,
    ) -> SourceScores {
        let mut scores = vec![0.0; self.sizes.len()];
        for (key, kind, weight) in terms {
            let share = if kind == TermKind::Pair {
                PAIR_WEIGHT * weight
            } else {
                weight
            };
            let idf = |sources: usize, holding: usize| (1.0 + sources as f32 / holding as f32).ln();
            let mut add = |source: usize, idf: f32, tools: u16| {
                let tools = f32::from(tools);
                scores[source] += share * idf * (K1 + 1.0) * tools / (tools + self.norms[source]);
            };
            match &self.words {
                Words::All(Held {
                    terms,
                    holding,
                    counts,
                }) => {
                    let held = terms.look_up(key);
                    let idf = idf(self.sizes.len(), held.len());
                    for (&source, &tools) in holding[held.clone()].iter().zip(&counts[held]) {
                        add(source as usize, idf, tools);
                    }
                }
                Words::Some {
                    rows,
                    counted,
                    holding,
                } => {
                    let holding = holding.get(&key).map_or(1, |&holding| holding as usize);
                    // What none of all sources holds is in none of these.
                    if holding == 0 {
                        continue;
                    }
                    let idf = idf(counted.sources, holding);
                    for (source, row) in rows.iter().enumerate() {
                        row.count(key)
                            .into_iter()
                            .for_each(|tools| add(source, idf, tools));
                    }
                }
            }
        }
        self.scored(scores)
    }

    /// Returns the mean of the vectors of each source's tools by a model, drawn towards the mean of
    /// all tools; `None` of a part of a catalog. `add` adds the vector of a tool to a sum.
    pub(super) fn mean_vectors(
        &self,
        dimensions: usize,
        add: impl Fn(ToolId, &mut [f32]),
    ) -> Option<Array2<f32>> {
        self.held()?;
        let mut tools: Vec<u32> = (0..number(self.of.numbers.len())).collect();
        tools.sort_by_key(|&tool| self.of.numbers[tool as usize]);
        let sum = |tools: &[u32]| {
            let mut sum = vec![0.0; dimensions];
            tools.iter().for_each(|&tool| add(ToolId(tool), &mut sum));
            sum
        };
        let average: Vec<f32> = sum(&tools)
            .into_iter()
            .map(|sum| sum / tools.len().max(1) as f32)
            .collect();
        let mut means = Array2::zeros((self.sizes.len(), dimensions));
        for tools in
            tools.chunk_by(|&a, &b| self.of.numbers[a as usize] == self.of.numbers[b as usize])
        {
            let (mut mean, count) = (sum(tools), tools.len() as f32);
            mean.iter_mut().zip(&average).for_each(|(sum, average)| {
                *sum = (*sum + TOOLS_ON_AVERAGE * average) / (count + TOOLS_ON_AVERAGE);
            });
            means
                .row_mut(self.of.numbers[tools[0] as usize] as usize)
                .assign(&Array1::from(mean));
        }
        Some(means)
    }

    /// Adds the tools of the sources with the largest scores, by row.
    pub(super) fn add_best(&self, rows: &[Vec<f32>], tools: &mut ToolSet) {
        self.of.add_best(rows, f32::NEG_INFINITY, tools);
    }

    /// Returns how near the tools of each source are on average to each unit vector of a request by
    /// a model, drawn towards the mean of all tools: by vector, then by source. `cosines` has how
    /// near each tool of the catalog is to each.
    pub(crate) fn means(
        &self,
        cosines: &[Vec<f32>],
        model: usize,
        request: ArrayView2<'_, f32>,
    ) -> Vec<Vec<f32>> {
        let drawn = |mut sums: Vec<f32>, average: f32| {
            for (sum, &size) in sums.iter_mut().zip(&self.sizes) {
                *sum = (*sum + TOOLS_ON_AVERAGE * average) / (size as f32 + TOOLS_ON_AVERAGE);
            }
            sums
        };
        match &self.words {
            Words::All(_) => {
                let means = cosines.iter().map(|cosines| {
                    let mut sums = vec![0.0; self.sizes.len()];
                    for (run, source) in self.of.runs() {
                        sums[source] += sum(&cosines[run]);
                    }
                    let average = sums.iter().sum::<f32>() / cosines.len() as f32;
                    drawn(sums, average)
                });
                means.collect()
            }
            Words::Some { rows, counted, .. } => {
                // As tools are held against it.
                let request = Rows::of(request);
                let means = (0..request.len()).map(|vector| {
                    let vector = request.row(vector).to_vec();
                    let sums = rows
                        .iter()
                        .map(|row| dot(&row.vectors[model], &vector))
                        .collect();
                    drawn(sums, dot(&counted.mean[model], &vector))
                });
                means.collect()
            }
        }
    }

    /// Gives each tool the score of its source.
    pub(crate) fn scored(&self, scores: Vec<f32>) -> SourceScores {
        SourceScores {
            of: self.of.clone(),
            scores,
        }
    }
}

/// Adds up, eight values side by side.
fn sum(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for chunk in chunks {
        sums.iter_mut()
            .zip(chunk)
            .for_each(|(sum, value)| *sum += value);
    }
    sums.iter().chain(rest).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Tool;
    use crate::index::IndexConfig;
    use crate::index::segment::Segments;

    fn sources(tools: &[(&str, &str, bool)], cuts: &[usize]) -> Option<Sources> {
        let tools = tools
            .iter()
            .enumerate()
            .map(|(place, &(source, description, untrusted))| {
                let mut tool = Tool::without_arguments(format!("t{place}"), description);
                tool.source = Some(source.to_owned()).filter(|source| !source.is_empty());
                tool.untrusted = untrusted;
                tool.id = format!("{source}/{place}");
                tool
            });
        let catalog = Catalog::from_tools(tools).expect("ids differ");
        let segments =
            Segments::cut(catalog.tools(), cuts, &IndexConfig::default()).expect("builds");
        Sources::new(&catalog, &segments.postings())
    }

    fn mean(sources: &Sources, scores: &[f32]) -> Vec<f32> {
        let means = sources
            .means(&[scores.to_vec()], 0, ArrayView2::from(&[[1.0_f32]]))
            .concat();
        sources.scored(means).by_tool().collect()
    }

    fn keyword(sources: &Sources, words: &[&str]) -> Vec<f32> {
        sources
            .keyword(
                words
                    .iter()
                    .map(|&word| (TermKey::of(word), TermKind::Word, 1.0)),
            )
            .by_tool()
            .collect()
    }

    const CLUB_AND_SHOP: [(&str, &str, bool); 4] = [
        ("club", "lanes", false),
        ("shop", "stock", false),
        ("club", "heats", false),
        ("shop", "lanes", false),
    ];

    #[test]
    fn a_source_has_the_words_of_all_of_its_tools_and_of_its_name() {
        for cuts in [&[][..], &[1, 3]] {
            let sources = sources(&CLUB_AND_SHOP, cuts).expect("sources tell something");
            for word in ["heat", "club"] {
                let scores = keyword(&sources, &[word]);
                assert!(
                    scores[0] > 0.0 && scores[0].to_bits() == scores[2].to_bits(),
                    "{word}: {scores:?}"
                );
                assert_eq!([scores[1], scores[3]].map(f32::to_bits), [0; 2], "{word}");
            }
            assert!(keyword(&sources, &["heat", "lane"])[0] > keyword(&sources, &["lane"])[3]);
            assert_eq!(keyword(&sources, &["absent"]), [0.0; 4]);
            // The mean of all is 3.
            assert_eq!(mean(&sources, &[0.0, 2.0, 1.0, 9.0]), [2.0, 4.0, 2.0, 4.0]);
        }
    }

    #[test]
    fn what_a_stranger_calls_its_source_joins_no_trusted_one() {
        let mut tools = CLUB_AND_SHOP.to_vec();
        tools.push(("club", "heats heats lanes", true));
        let sources = sources(&tools, &[]).expect("sources tell something");
        assert_eq!(mean(&sources, &[1.0, 1.0, 1.0, 1.0, 1.0]), [1.0; 5]);
        let of_the_stranger = mean(&sources, &[0.0, 0.0, 0.0, 0.0, 5.0]);
        assert!(of_the_stranger[4] > of_the_stranger[0]);
    }

    #[test]
    fn tools_without_a_source_stand_for_themselves() {
        let mut tools = CLUB_AND_SHOP.to_vec();
        tools.extend([("", "lanes", false), ("alone", "heats", false)]);
        let sources = sources(&tools, &[]).expect("most tools have a source");
        // The mean of all is 2.
        assert_eq!(
            mean(&sources, &[0.0, 0.0, 0.0, 0.0, 6.0, 6.0]),
            [1.2, 1.2, 1.2, 1.2, 3.0, 3.0]
        );
    }

    #[test]
    fn sources_tell_nothing_where_there_is_one_or_most_tools_have_none() {
        assert!(sources(&[], &[]).is_none());
        assert!(sources(&[("club", "lanes", false), ("club", "heats", false)], &[]).is_none());
        assert!(sources(&[("a", "lanes", false), ("b", "heats", false)], &[]).is_none());
        let mut tools = CLUB_AND_SHOP.to_vec();
        tools.extend([
            ("", "a", false),
            ("", "b", false),
            ("", "c", false),
            ("", "d", false),
            ("", "e", false),
        ]);
        assert!(sources(&tools, &[]).is_none());
        let collection = vec![("dump", "lanes", false); MAX_TOOLS + 1];
        assert!(sources(&collection, &[]).is_none());
    }
}
