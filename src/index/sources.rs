//! The source index, which scores the sources of a catalog for a request.
//!
//! A *source* is the server, document or file that a tool comes from. The words of a request often
//! point to a source more clearly than to a tool. The topic words of the request may not occur in
//! the needed tool, but in other tools of its source. For example, "the fourth heat needs its
//! lanes" matches a swimming club's tools but says little about `publish_start_list`. So each
//! source is one more document, which consists of its tools. Its words are those of its name and of
//! its tools, counted once per tool, from every field. Its vector is the mean of its tools'
//! vectors.
//!
//! A source with few tools is weaker evidence than one with many. So the mean of each source is
//! moved towards that of the catalog, the more so the fewer tools it has. Otherwise a single tool
//! would confirm itself.
//!
//! A long source contains more words of any request than a short one. So its keyword score is
//! corrected for its length: a source that is longer than the average loses what it gets by chance,
//! and a shorter one gains. Many or long descriptions are then no advantage.
//!
//! A tool without a source is a single-tool source. So is each tool of a very large source, which
//! is more a collection than a service. An untrusted source is never merged with a trusted one of
//! the same name.
//!
//! Source scoring is off if there is only one source or most tools are single-tool sources.

mod scores;

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use ndarray::{Array1, Array2, ArrayView2};

use self::scores::SourceAssignment;
pub(crate) use self::scores::SourceScores;
use super::dot::dot;
use super::postings::Postings;
use super::row::{Row, RowKey, SourceKey};
use super::rows::Rows;
use super::source_row::SourceRow;
use super::stats::{DocumentFrequencies, SourceTotals};
use super::terms::{TermKey, Terms, each_term, number};
use crate::catalog::Catalog;
use crate::ranking::{ToolId, ToolSet};
use crate::saved::{SavedError, SavedFile, Writer};
use crate::text::{Analyzer, TermKind};

/// The largest number of tools of a service. Each tool of a larger source is a single-tool source.
const MAX_SERVICE_TOOLS: usize = 500;
/// BM25's term-frequency saturation. `docs/results.md` has the alternatives that were measured.
const K1: f32 = 0.6;
/// BM25's length normalisation.
const B: f32 = 0.75;
/// The number of entries in [`ChanceScores`]. Entry `i` is for a length of `i * LENGTH_STEP` times
/// the average. Longer sources use the last entry.
const LENGTH_ENTRIES: usize = 16;
/// The difference in length between two entries, as a share of the average length.
const LENGTH_STEP: f32 = 0.1;
/// The weight of a word pair relative to a word.
const PAIR_WEIGHT: f32 = 0.25;

/// The strength of the shrinkage: each mean is computed as if the source had this many more tools,
/// all equal to the mean of the catalog.
const SHRINKAGE_TOOLS: f32 = 3.0;

/// The prefix of the sections of a saved index that hold the source index. The sections are missing
/// if source scoring is off.
const SECTION: &str = "source-words";
/// The section with the source of each tool.
const ASSIGNMENT: &str = "source-words.of";
const NORMS: &str = "source-words.norms";
/// The section with the sources that contain each term.
const TERM_SOURCES: &str = "source-words.holding";
const COUNTS: &str = "source-words.counts";

/// The sources of a catalog with their scoring data.
pub(crate) struct SourceIndex {
    assignment: SourceAssignment,
    /// The number of tools of each source.
    sizes: Vec<u32>,
    /// BM25's denominator without the term frequency, by source.
    norms: Vec<f32>,
    terms: SourceTerms,
}

/// The terms of the sources; for a shard also their vectors.
enum SourceTerms {
    /// All sources of the catalog.
    All(SourcePostings),
    /// A shard: some sources of a larger catalog, as rows.
    Shard {
        rows: Vec<Arc<SourceRow>>,
        totals: Arc<SourceTotals>,
        document_frequencies: DocumentFrequencies,
    },
}

/// The postings of all sources.
#[derive(Default)]
struct SourcePostings {
    terms: Terms,
    /// The source of each posting: a source that contains the term; ascending within a term.
    sources: Vec<u32>,
    /// The count of each posting: the number of the source's tools that contain the term, plus one
    /// for each time that it occurs in the source name.
    counts: Vec<u16>,
}

/// For each length of a source, the score that it gets by chance, minus that of a source of average
/// length. It is negative for short sources, and positive for long ones.
#[derive(Default)]
struct ChanceScores([f32; LENGTH_ENTRIES]);

impl ChanceScores {
    /// Adds a term that some of the sources contain.
    fn add(&mut self, weight: f32, sources: usize, containing: usize) {
        let absence = 1.0 - containing as f32 / (sources as f32 + 1.0);
        let mut absence_at_step = 1.0;
        let absence_in_step = absence.powf(LENGTH_STEP);
        for score in &mut self.0 {
            *score += weight * (absence - absence_at_step);
            absence_at_step *= absence_in_step;
        }
    }

    /// Corrects the score of a source for its length. A score of 0 stays 0.
    fn correct(&self, score: &mut f32, norm: f32) {
        let relative_length = (norm / K1 - (1.0 - B)) / B;
        #[expect(clippy::cast_possible_truncation, reason = "it is saturated")]
        let step = (relative_length / LENGTH_STEP).round() as usize;
        if *score > 0.0 {
            *score = (*score - self.0[step.min(LENGTH_ENTRIES - 1)]).max(0.0);
        }
    }
}

/// BM25's denominator without the term frequency.
fn norm(length: u32, average: f32) -> f32 {
    K1 * (1.0 - B + B * length as f32 / average.max(1.0))
}

impl SourceIndex {
    /// Reads the sources from the index that the catalog was opened from, or builds them; `None` if
    /// source scoring is off.
    pub(super) fn load_or_build(
        catalog: &Catalog,
        postings: &Postings,
    ) -> Result<Option<Self>, SavedError> {
        match catalog.saved() {
            None => Self::new(catalog, postings),
            Some(file) if !file.has(ASSIGNMENT) => Ok(None),
            Some(file) => Ok(Some(Self::open(file)?)),
        }
    }

    pub(super) fn save(&self, writer: &mut Writer) -> Result<(), SavedError> {
        let Some(postings) = self.all_postings() else {
            return Ok(());
        };
        writer.numbers(ASSIGNMENT, &self.assignment.numbers)?;
        writer.numbers(NORMS, &self.norms)?;
        postings.terms.save(SECTION, writer)?;
        writer.numbers(TERM_SOURCES, &postings.sources)?;
        writer.numbers(COUNTS, &postings.counts)
    }

    /// Returns the postings of all sources; `None` for a shard.
    fn all_postings(&self) -> Option<&SourcePostings> {
        match &self.terms {
            SourceTerms::All(postings) => Some(postings),
            SourceTerms::Shard { .. } => None,
        }
    }

    /// Returns the memory use of the assignment, the norms and the postings, in bytes. The rows of
    /// a shard are not counted.
    pub(super) fn memory(&self) -> usize {
        let assignment =
            size_of_val(&*self.assignment.numbers) + size_of_val(&*self.assignment.ends);
        let mut memory = assignment + size_of_val(&*self.norms);
        if let Some(postings) = self.all_postings() {
            memory += size_of_val(&*postings.sources) + size_of_val(&*postings.counts);
            memory += postings.terms.memory();
        }
        memory
    }

    fn open(file: &SavedFile) -> Result<Self, SavedError> {
        let (numbers, norms): (Vec<u32>, Vec<f32>) =
            (file.numbers(ASSIGNMENT)?, file.numbers(NORMS)?);
        let (sources, counts): (Vec<u32>, Vec<u16>) =
            (file.numbers(TERM_SOURCES)?, file.numbers(COUNTS)?);
        let is_source = |&source: &u32| (source as usize) < norms.len();
        let is_valid = numbers.len() == file.header.tools
            && numbers.iter().all(is_source)
            && norms.iter().all(|norm| norm.is_finite() && *norm > 0.0)
            && sources.len() == counts.len()
            && sources.iter().all(is_source);
        file.ensure(is_valid, SECTION)?;
        let mut sizes = vec![0; norms.len()];
        numbers
            .iter()
            .for_each(|&source| sizes[source as usize] += 1);
        let terms = Terms::open(SECTION, file, sources.len())?;
        Ok(Self {
            assignment: SourceAssignment::new(numbers),
            sizes,
            norms,
            terms: SourceTerms::All(SourcePostings {
                terms,
                sources,
                counts,
            }),
        })
    }

    /// Builds the sources of a catalog; `None` if source scoring is off.
    pub(super) fn new(catalog: &Catalog, postings: &Postings) -> Result<Option<Self>, SavedError> {
        // A group is a source name with a trust level.
        let mut groups: Vec<Option<usize>> = Vec::with_capacity(catalog.len());
        for (id, tool) in catalog.ids().zip(catalog.outlines()?) {
            let source = catalog.source_number(id);
            groups.push(source.map(|source| 2 * source + usize::from(tool.untrusted)));
        }
        let mut group_sizes = vec![0_usize; 2 * catalog.source_names().len()];
        groups
            .iter()
            .flatten()
            .for_each(|&group| group_sizes[group] += 1);
        // A group that is a source; each tool of another group is a single-tool source.
        let is_service = |group: &usize| (2..=MAX_SERVICE_TOOLS).contains(&group_sizes[*group]);
        let service_tools = groups.iter().flatten().copied().filter(is_service).count();
        if service_tools == 0 || 2 * service_tools < catalog.len() {
            return Ok(None);
        }
        let mut source_of_group: Vec<Option<u32>> = vec![None; group_sizes.len()];
        let mut analyzer = Analyzer::new();
        let mut numbers = Vec::with_capacity(catalog.len());
        let mut sizes = Vec::new();
        let mut name_words = Vec::new();
        for group in groups {
            let group = group.filter(is_service);
            let known_source = match group {
                Some(group) => source_of_group[group],
                None => None,
            };
            let source = known_source.unwrap_or_else(|| {
                let source = number(sizes.len());
                if let Some(group) = group {
                    source_of_group[group] = Some(source);
                    analyzer.terms(&catalog.source_names()[group / 2], |term| {
                        name_words.push((TermKey::new(term.term), source));
                    });
                }
                sizes.push(0);
                source
            });
            sizes[source as usize] += 1;
            numbers.push(source);
        }
        if sizes.len() < 2 {
            return Ok(None);
        }
        name_words.sort_unstable();
        let assignment = SourceAssignment::new(numbers);
        let sources = Self::from_postings(assignment, sizes, postings, &name_words);
        Ok(Some(sources))
    }

    /// Builds the postings of the sources from those of the tools. `names` has the words of the
    /// source names, ascending, each with its source.
    fn from_postings(
        assignment: SourceAssignment,
        sizes: Vec<u32>,
        postings: &Postings,
        names: &[(TermKey, u32)],
    ) -> Self {
        let mut source_postings = SourcePostings::default();
        let name_terms = Terms::from_sorted(names.iter().map(|&(term, _)| term));
        let mut lengths = vec![0_u32; sizes.len()];
        let mut source_counts: Vec<(u32, u32)> = Vec::new();
        each_term(&[postings.terms(), &name_terms], |term, containing| {
            // The tools of a source are mostly adjacent.
            let mut count = |source: u32| match source_counts.last_mut() {
                Some((last, count)) if *last == source => *count += 1,
                _ => source_counts.push((source, 1)),
            };
            for (list, range) in containing {
                // The first list is that of the tools, the second that of the names.
                if *list == 0 {
                    for &tool in postings.tools(range.clone()) {
                        count(assignment.numbers[tool as usize]);
                    }
                } else {
                    for &(_, source) in &names[range.clone()] {
                        count(source);
                    }
                }
            }
            source_counts.sort_unstable();
            for same in source_counts.chunk_by(|(one, _), (other, _)| one == other) {
                let (source, count) = (same[0].0, same.iter().map(|(_, count)| count).sum::<u32>());
                lengths[source as usize] += count;
                source_postings.sources.push(source);
                let saturated = u16::try_from(count).unwrap_or(u16::MAX);
                source_postings.counts.push(saturated);
            }
            source_counts.clear();
            let end = source_postings.sources.len();
            source_postings.terms.push(term, end);
        });
        source_postings.terms.shrink();
        source_postings.sources.shrink_to_fit();
        source_postings.counts.shrink_to_fit();
        let average = lengths.iter().sum::<u32>() as f32 / lengths.len() as f32;
        let norms = lengths
            .iter()
            .map(|&length| norm(length, average))
            .collect();
        Self {
            assignment,
            sizes,
            norms,
            terms: SourceTerms::All(source_postings),
        }
    }

    /// Takes the sources of the tools of a shard. `sources` has the row of each shared source. A
    /// tool whose source has no row is a single-tool source.
    pub(super) fn from_rows(
        tools: &[(RowKey, Arc<Row>)],
        sources: &HashMap<SourceKey, Arc<SourceRow>>,
        totals: &Arc<SourceTotals>,
        document_frequencies: DocumentFrequencies,
    ) -> Self {
        let mut numbers = Vec::with_capacity(tools.len());
        let mut rows: Vec<Arc<SourceRow>> = Vec::new();
        let mut numbers_by_key = HashMap::new();
        for (_, tool) in tools {
            let source_number = if let Some(key) = tool.source
                && let Some(source_row) = sources.get(&key)
            {
                *numbers_by_key.entry(key).or_insert_with(|| {
                    rows.push(Arc::clone(source_row));
                    rows.len() - 1
                })
            } else {
                rows.push(Arc::new(tool.single_tool_source()));
                rows.len() - 1
            };
            numbers.push(number(source_number));
        }
        let mut sizes = Vec::with_capacity(rows.len());
        let mut norms = Vec::with_capacity(rows.len());
        for row in &rows {
            sizes.push(number(row.tools()));
            norms.push(norm(row.length(), totals.average));
        }
        Self {
            assignment: SourceAssignment::new(numbers),
            sizes,
            norms,
            terms: SourceTerms::Shard {
                rows,
                totals: Arc::clone(totals),
                document_frequencies,
            },
        }
    }

    /// Returns the number of sources, including single-tool sources.
    pub(super) fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Returns the index of a tool's source, and how many tools that source has.
    pub(super) fn find(&self, tool: ToolId) -> (u32, u32) {
        let source = self.assignment.numbers[tool.index()];
        (source, self.sizes[source as usize])
    }

    /// Calls `each` with every term, the sources that contain it and its count in each. A shard has
    /// no such terms.
    pub(super) fn each_term(&self, mut each: impl FnMut(TermKey, &[u32], &[u16])) {
        let Some(SourcePostings {
            terms,
            sources,
            counts,
        }) = self.all_postings()
        else {
            return;
        };
        for (&term, range) in terms.keys().iter().zip(terms.ranges()) {
            each(term, &sources[range.clone()], &counts[range]);
        }
    }

    /// Returns the number of sources and their average length, which is 0 for a shard.
    pub(super) fn totals(&self) -> (usize, f32) {
        let mut length = 0_u64;
        self.each_term(|_, _, counts| {
            length += counts.iter().map(|&count| u64::from(count)).sum::<u64>();
        });
        (self.sizes.len(), length as f32 / self.sizes.len() as f32)
    }

    /// Returns the BM25 score of each tool's source for the weighted terms of a request, corrected
    /// for the length of the source.
    pub(crate) fn keyword(
        &self,
        terms: impl Iterator<Item = (TermKey, TermKind, f32)>,
    ) -> SourceScores {
        let mut scores = vec![0.0; self.sizes.len()];
        let mut by_chance = ChanceScores::default();
        for (key, kind, weight) in terms {
            let term_weight = if kind == TermKind::Pair {
                PAIR_WEIGHT * weight
            } else {
                weight
            };
            let idf =
                |sources: usize, containing: usize| (1.0 + sources as f32 / containing as f32).ln();
            let mut add = |source: usize, idf: f32, count: u16| {
                let count = f32::from(count);
                scores[source] +=
                    term_weight * idf * (K1 + 1.0) * count / (count + self.norms[source]);
            };
            match &self.terms {
                SourceTerms::All(SourcePostings {
                    terms,
                    sources,
                    counts,
                }) => {
                    let range = terms.look_up(key);
                    let containing = range.len();
                    if containing == 0 {
                        continue;
                    }
                    let idf = idf(self.sizes.len(), containing);
                    by_chance.add(term_weight * idf, self.sizes.len(), containing);
                    for (&source, &count) in sources[range.clone()].iter().zip(&counts[range]) {
                        add(source as usize, idf, count);
                    }
                }
                SourceTerms::Shard {
                    rows,
                    totals,
                    document_frequencies,
                } => {
                    // A term without a document frequency is treated as if one source contained it.
                    let frequency = document_frequencies.get(&key);
                    let containing = frequency.map_or(1, |&count| count as usize);
                    // No source of the catalog contains the term, so no row does.
                    if containing == 0 {
                        continue;
                    }
                    let idf = idf(totals.sources, containing);
                    by_chance.add(term_weight * idf, totals.sources, containing);
                    for (source, row) in rows.iter().enumerate() {
                        row.count(key)
                            .into_iter()
                            .for_each(|count| add(source, idf, count));
                    }
                }
            }
        }
        for (score, &norm) in scores.iter_mut().zip(&self.norms) {
            by_chance.correct(score, norm);
        }
        self.assign_scores(scores)
    }

    /// Returns the mean vector of each source's tools by a model, moved towards the mean of all
    /// tools; `None` for a shard. `vectors` has one row per tool.
    pub(super) fn mean_vectors(&self, dimensions: usize, vectors: &Rows) -> Option<Array2<f32>> {
        self.all_postings()?;
        let mut tools: Vec<u32> = (0..number(self.assignment.numbers.len())).collect();
        tools.sort_by_key(|&tool| self.assignment.numbers[tool as usize]);
        let sum = |tools: &[u32]| {
            let mut sum = vec![0.0; dimensions];
            for &tool in tools {
                vectors.add_to(tool as usize, &mut sum);
            }
            sum
        };
        let mut average = sum(&tools);
        for value in &mut average {
            *value /= tools.len().max(1) as f32;
        }
        let mut means = Array2::zeros((self.sizes.len(), dimensions));
        let source = |tool: u32| self.assignment.numbers[tool as usize] as usize;
        for tools in tools.chunk_by(|&a, &b| source(a) == source(b)) {
            let (mut mean, count) = (sum(tools), tools.len() as f32);
            mean.iter_mut().zip(&average).for_each(|(sum, average)| {
                *sum = (*sum + SHRINKAGE_TOOLS * average) / (count + SHRINKAGE_TOOLS);
            });
            means.row_mut(source(tools[0])).assign(&Array1::from(mean));
        }
        Some(means)
    }

    /// Adds the tools of the best sources of each list to `tools`. A list has one score per source.
    pub(super) fn add_best(&self, score_lists: &[Vec<f32>], tools: &mut ToolSet) {
        self.assignment
            .add_best(score_lists, f32::NEG_INFINITY, tools);
    }

    /// Returns, for each vector of a request, the mean cosine of each source's tools to it. The
    /// vectors are by one model and have the length 1. Each mean is moved towards the mean of all
    /// tools. A complete index uses `cosines`, which has the cosine of every tool to each vector. A
    /// shard uses `model` and `request`.
    pub(crate) fn means(
        &self,
        cosines: &[Vec<f32>],
        model: usize,
        request: ArrayView2<'_, f32>,
    ) -> Vec<Vec<f32>> {
        let move_to_average = |mut sums: Vec<f32>, average: f32| {
            for (sum, &size) in sums.iter_mut().zip(&self.sizes) {
                *sum = (*sum + SHRINKAGE_TOOLS * average) / (size as f32 + SHRINKAGE_TOOLS);
            }
            sums
        };
        match &self.terms {
            SourceTerms::All(_) => {
                let means = cosines.iter().map(|cosines| {
                    let mut sums = vec![0.0; self.sizes.len()];
                    for (run, source) in self.assignment.runs() {
                        sums[source] += sum(&cosines[run]);
                    }
                    let average = sums.iter().sum::<f32>() / cosines.len() as f32;
                    move_to_average(sums, average)
                });
                means.collect()
            }
            SourceTerms::Shard { rows, totals, .. } => {
                // Tools are compared with the quantised request, and sources must be as well.
                let request = Rows::from_vectors(request);
                let means = (0..request.len()).map(|vector| {
                    let vector = request.row(vector).to_vec();
                    let sums = rows
                        .iter()
                        .map(|row| dot(row.vector(model), &vector))
                        .collect();
                    move_to_average(sums, dot(&totals.mean[model], &vector))
                });
                means.collect()
            }
        }
    }

    /// Assigns the score of its source to each tool.
    pub(crate) fn assign_scores(&self, scores: Vec<f32>) -> SourceScores {
        SourceScores {
            assignment: self.assignment.clone(),
            scores,
        }
    }
}

/// Adds up values, eight side by side.
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
    use crate::index::columns::Columns;

    fn sources(tools: &[(&str, &str, bool)], cuts: &[usize]) -> Option<SourceIndex> {
        let tools = tools
            .iter()
            .enumerate()
            .map(|(number, &(source, description, untrusted))| {
                let mut tool = Tool::without_arguments(format!("t{number}"), description);
                tool.source = Some(source.to_owned()).filter(|source| !source.is_empty());
                tool.untrusted = untrusted;
                tool.id = format!("{source}/{number}");
                tool
            });
        let catalog = Catalog::from_tools(tools).expect("ids differ");
        let columns = Columns::analyze_cut(catalog.tools().expect("in memory"), cuts);
        SourceIndex::new(&catalog, &columns.postings).expect("in memory")
    }

    fn mean(sources: &SourceIndex, scores: &[f32]) -> Vec<f32> {
        let means = sources
            .means(&[scores.to_vec()], 0, ArrayView2::from(&[[1.0_f32]]))
            .concat();
        sources.assign_scores(means).by_tool().collect()
    }

    fn keyword(sources: &SourceIndex, words: &[&str]) -> Vec<f32> {
        sources
            .keyword(
                words
                    .iter()
                    .map(|&word| (TermKey::new(word), TermKind::Word, 1.0)),
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
    fn long_source_gets_less_for_what_it_contains_by_chance() {
        let mut by_chance = ChanceScores::default();
        for containing in [1, 5, 30] {
            by_chance.add(1.0, 40, containing);
        }
        let corrected = |mut score: f32, tenths: u32| {
            by_chance.correct(&mut score, norm(100 * tenths, 1000.0));
            score
        };
        assert!((corrected(2.0, 10) - 2.0).abs() < 1e-3);
        assert!(corrected(2.0, 2) > corrected(2.0, 7) && corrected(2.0, 7) > 2.0);
        assert!(corrected(2.0, 14) < 2.0);
        assert_eq!(
            corrected(2.0, 400).to_bits(),
            corrected(2.0, 15).to_bits(),
            "the correction is bounded"
        );
        assert_eq!(
            corrected(0.0, 2).to_bits(),
            0.0_f32.to_bits(),
            "a source without the words gets nothing"
        );
    }

    #[test]
    fn source_has_the_words_of_its_tools_and_its_name() {
        for cuts in [&[][..], &[1, 3]] {
            let sources = sources(&CLUB_AND_SHOP, cuts).expect("source scoring is on");
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
    fn untrusted_source_is_not_merged_with_a_trusted_one() {
        let mut tools = CLUB_AND_SHOP.to_vec();
        tools.push(("club", "heats heats lanes", true));
        let sources = sources(&tools, &[]).expect("source scoring is on");
        assert_eq!(mean(&sources, &[1.0, 1.0, 1.0, 1.0, 1.0]), [1.0; 5]);
        let means = mean(&sources, &[0.0, 0.0, 0.0, 0.0, 5.0]);
        assert!(means[4] > means[0]);
    }

    #[test]
    fn tool_without_a_source_is_a_single_tool_source() {
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
    fn source_scoring_is_off_with_one_or_mostly_single_tool_sources() {
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
        let collection = vec![("dump", "lanes", false); MAX_SERVICE_TOOLS + 1];
        assert!(sources(&collection, &[]).is_none());
    }
}
