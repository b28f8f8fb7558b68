//! The data that ranking stages exchange: tool ids, candidates and rankings.
//!
//! A retriever scores tools into a dense vector, one number per tool in registration order. It
//! scores every tool of a small catalog, and of a large one the tools that may be near the request
//! ([`ScoredTools`]). All retrievers score the same tools, so each later stage can read any signal
//! for any of them. [`top_k`] selects a [`Ranking`] from such a vector. It breaks ties by
//! registration order.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use pulp::{Arch, NullaryFnOnce};

/// A tool's position in its catalog, in registration order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolId(pub(crate) u32);

impl ToolId {
    /// Makes the id of the tool at a position in the catalog.
    pub fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("a catalog holds fewer than 2^32 tools"))
    }

    /// Returns the position in the catalog, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The tools of a catalog that have scores: all, or in a large catalog those that may be near a
/// request.
///
/// Scores are in the order of the catalog. The position of a tool is the index of its score.
#[derive(Debug, Clone)]
pub(crate) enum ScoredTools {
    /// All tools of a catalog with this number of tools.
    All(usize),
    /// Some tools, ascending.
    Some(Arc<[ToolId]>),
}

impl ScoredTools {
    /// Returns the number of tools with scores.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::All(tools) => *tools,
            Self::Some(tools) => tools.len(),
        }
    }

    /// Returns the position of a tool, or `None` if it has no score.
    pub(crate) fn position(&self, tool: ToolId) -> Option<usize> {
        match self {
            Self::All(tools) => Some(tool.index()).filter(|position| position < tools),
            Self::Some(tools) => tools.binary_search(&tool).ok(),
        }
    }

    /// Returns the number of tools with scores that precede a tool in the catalog.
    pub(crate) fn count_before(&self, tool: ToolId) -> usize {
        match self {
            Self::All(tools) => tool.index().min(*tools),
            Self::Some(tools) => tools.partition_point(|scored| *scored < tool),
        }
    }

    /// Returns the tool at a position.
    pub(crate) fn tool(&self, position: usize) -> ToolId {
        match self {
            Self::All(_) => ToolId::from_index(position),
            Self::Some(tools) => tools[position],
        }
    }

    /// Selects the values of the tools with scores from `values`, which has one for each tool of
    /// the catalog.
    pub(crate) fn select<'v, T: Copy>(&self, values: &'v [T]) -> Cow<'v, [T]> {
        match self {
            Self::All(_) => Cow::Borrowed(values),
            Self::Some(tools) => tools.iter().map(|tool| values[tool.index()]).collect(),
        }
    }
}

/// A tool and the score that one stage gave it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) tool: ToolId,
    pub(crate) score: f32,
}

impl Candidate {
    /// Orders better candidates first: higher score, then earlier registration.
    pub(crate) fn better_first(&self, other: &Self) -> Ordering {
        other
            .score
            .total_cmp(&self.score)
            .then(self.tool.cmp(&other.tool))
    }
}

/// Candidates in order, best first.
pub(crate) type Ranking = Vec<Candidate>;

/// Returns the best `k` of `candidates` in order.
///
/// # Complexity
///
/// Linear in the number of candidates, plus sorting fewer than `2 k`.
pub(crate) fn top_k(candidates: impl Iterator<Item = Candidate>, k: usize) -> Ranking {
    if k == 0 {
        return Ranking::new();
    }
    let mut ranking = Ranking::new();
    // The worst of the best `k` so far. Candidates that are not better are skipped.
    let mut bound: Option<Candidate> = None;
    for candidate in candidates {
        if bound.is_none_or(|bound| {
            candidate.score >= bound.score && candidate.better_first(&bound).is_lt()
        }) {
            ranking.push(candidate);
        }
        if ranking.len() >= k.saturating_mul(2) {
            bound = Some(
                *ranking
                    .select_nth_unstable_by(k - 1, Candidate::better_first)
                    .1,
            );
            ranking.truncate(k);
        }
    }
    best(ranking, k)
}

/// Returns the best `k` candidates in order.
fn best(mut candidates: Vec<Candidate>, k: usize) -> Ranking {
    if candidates.len() > k {
        candidates.select_nth_unstable_by(k, Candidate::better_first);
        candidates.truncate(k);
    }
    candidates.sort_unstable_by(Candidate::better_first);
    candidates
}

/// The number of values in a chunk. A chunk without a large enough value is skipped.
const CHUNK: usize = 16;
/// The number of values that one vector instruction compares.
const LANES: usize = 8;

/// Returns the best `k` eligible tools in order, each with its value.
///
/// The result equals that of [`top_k`]. For a small `k` it takes a fraction of the time, because
/// most chunks have no value that is large enough.
///
/// # Complexity
///
/// Linear in the number of values.
pub(crate) fn top_k_eligible(values: &[f32], eligible: &[bool], k: usize) -> Ranking {
    let mut candidates = Vec::with_capacity(2 * k.min(values.len()));
    each_near_top(values, eligible, k, |position, score| {
        candidates.push(Candidate {
            tool: ToolId::from_index(position),
            score,
        });
    });
    best(candidates, k)
}

/// Returns the value of the best eligible tool but `better`; `None` if there are fewer.
fn ranked_value(values: &[f32], eligible: &[bool], better: usize) -> Option<f32> {
    let mut near = Vec::with_capacity(4 * better.min(values.len()));
    each_near_top(values, eligible, better + 1, |_, value| near.push(value));
    (better < near.len()).then(|| nth_largest(&near, better))
}

/// Calls `each` with the positions and values of the best `k` eligible tools, and of some others.
fn each_near_top(values: &[f32], eligible: &[bool], k: usize, mut each: impl FnMut(usize, f32)) {
    let mut maxima = Vec::with_capacity(values.len().div_ceil(CHUNK));
    Arch::new().dispatch(ChunkMaxima {
        values,
        eligible,
        maxima: &mut maxima,
    });
    // At least `k` chunks have a tool that reaches this value.
    let threshold = match k.checked_sub(1) {
        Some(last) if last < maxima.len() => nth_largest(&maxima, last),
        _ => f32::NEG_INFINITY,
    };
    for (chunk, maximum) in maxima.iter().enumerate() {
        if *maximum < threshold {
            continue;
        }
        let first = CHUNK * chunk;
        for position in first..values.len().min(first + CHUNK) {
            if values[position] >= threshold && eligible[position] {
                each(position, values[position]);
            }
        }
    }
}

/// Returns the value at a position of the order from the largest to the smallest, from 0.
fn nth_largest(values: &[f32], position: usize) -> f32 {
    // Integers in the order of `f32::total_cmp`, which are selected faster. The conversion is its
    // own inverse.
    let in_order = |bits: i32| bits ^ (((bits >> 31).cast_unsigned() >> 1).cast_signed());
    let mut keys: Vec<i32> = Vec::with_capacity(values.len());
    for value in values {
        keys.push(!in_order(value.to_bits().cast_signed()));
    }
    let (_, key, _) = keys.select_nth_unstable(position);
    f32::from_bits(in_order(!*key).cast_unsigned())
}

/// Returns the positions of the values that are at least `threshold`, ascending. Chunks without
/// such a value are skipped.
pub(crate) fn positions_reaching(values: &[f32], threshold: f32) -> impl Iterator<Item = usize> {
    let chunks = values
        .chunks(CHUNK)
        .enumerate()
        .filter(move |(_, chunk)| largest(chunk) >= threshold);
    chunks.flat_map(move |(number, chunk)| {
        let positions = chunk
            .iter()
            .enumerate()
            .filter(move |(_, value)| **value >= threshold);
        positions.map(move |(position, _)| number * CHUNK + position)
    })
}

/// The size of the sample that estimates the value which a given number of tools reach.
const SAMPLE: usize = 2_048;

/// A set of tools of a catalog.
#[derive(Debug, Clone)]
pub(crate) struct ToolSet {
    /// One bit per tool.
    bits: Vec<u64>,
    tools: usize,
}

impl ToolSet {
    /// Makes an empty set for a catalog with this number of tools.
    pub(crate) fn new(tools: usize) -> Self {
        Self {
            bits: vec![0; tools.div_ceil(64)],
            tools,
        }
    }

    /// Returns the number of tools in the catalog.
    pub(crate) fn tools(&self) -> usize {
        self.tools
    }

    pub(crate) fn add(&mut self, tool: ToolId) {
        self.bits[tool.index() / 64] |= 1 << (tool.index() % 64);
    }

    pub(crate) fn contains(&self, tool: ToolId) -> bool {
        self.bits[tool.index() / 64] & (1 << (tool.index() % 64)) != 0
    }

    /// Adds the tools with about the `count` largest values of a list that exceed its floor: those
    /// of all tools, and those of the eligible tools. A list has a value for each tool.
    ///
    /// A sample determines the thresholds. So the number may be half or twice `count`, but no tool
    /// is added without the tools with larger values.
    pub(crate) fn add_best<'v>(
        &mut self,
        lists: impl Iterator<Item = (&'v [f32], f32)>,
        eligible: &[bool],
        count: usize,
    ) {
        let step = eligible.len().div_ceil(SAMPLE).max(1);
        let rank = count / step;
        let flags = sample(eligible, step);
        let sampled_eligible = flags.iter().filter(|eligible| **eligible).count();
        let most_are_eligible = 2 * sampled_eligible >= flags.len();
        for (values, floor) in lists {
            let sampled = sample(values, step);
            // Values above the floor reach this value.
            let least = floor.next_up();
            let threshold = |flags: &[bool]| {
                ranked_value(&sampled, flags, rank).map_or(least, |value| value.max(least))
            };
            let threshold_eligible = threshold(&flags);
            let mut threshold_all = threshold_eligible;
            if !most_are_eligible {
                threshold_all = threshold(&vec![true; sampled.len()]);
            }
            Arch::new().dispatch(AddBest {
                bits: &mut self.bits,
                values,
                eligible,
                threshold_all,
                threshold_eligible,
            });
        }
    }

    /// Returns the tools, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ToolId> {
        self.bits.iter().enumerate().flat_map(|(word, &bits)| {
            let mut remaining = bits;
            std::iter::from_fn(move || {
                let bit = (remaining != 0).then(|| remaining.trailing_zeros() as usize)?;
                remaining &= remaining - 1;
                Some(ToolId::from_index(64 * word + bit))
            })
        })
    }
}

/// Returns every `step`th value, the first one included.
fn sample<T: Copy>(values: &[T], step: usize) -> Vec<T> {
    let mut sampled = Vec::with_capacity(values.len().div_ceil(step));
    let mut position = 0;
    while let Some(value) = values.get(position) {
        sampled.push(*value);
        position += step;
    }
    sampled
}

/// The loop of [`top_k_eligible`] over all values.
///
/// It is compiled once for each set of vector instructions, and the processor selects one at run
/// time. The same holds for [`AddBest`].
struct ChunkMaxima<'a> {
    values: &'a [f32],
    eligible: &'a [bool],
    maxima: &'a mut Vec<f32>,
}

impl NullaryFnOnce for ChunkMaxima<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.maxima.extend(
            self.values
                .chunks(CHUNK)
                .zip(self.eligible.chunks(CHUNK))
                .map(|(values, eligible)| largest_eligible_in_chunk(values, eligible)),
        );
    }
}

/// The loop of [`ToolSet::add_best`].
struct AddBest<'a> {
    /// One bit per tool.
    bits: &'a mut [u64],
    values: &'a [f32],
    eligible: &'a [bool],
    /// The value at which any tool is added.
    threshold_all: f32,
    /// The value at which an eligible tool is added.
    threshold_eligible: f32,
}

impl NullaryFnOnce for AddBest<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            bits,
            values,
            eligible,
            threshold_all,
            threshold_eligible,
        } = self;
        let is_added = |value: f32, eligible: bool| {
            (value >= threshold_all) | (eligible & (value >= threshold_eligible))
        };
        let ((values, rest), (eligible, rest_eligible)) =
            (values.as_chunks::<64>(), eligible.as_chunks::<64>());
        // The eligible tools are looked at if another threshold holds for them.
        let is_one_threshold = threshold_all <= threshold_eligible;
        for ((word, values), eligible) in bits.iter_mut().zip(values).zip(eligible) {
            if is_one_threshold {
                *word |= as_bits(|position| values[position] >= threshold_all);
            } else {
                *word |= as_bits(|position| is_added(values[position], eligible[position]));
            }
        }
        for (bit, (value, eligible)) in rest.iter().zip(rest_eligible).enumerate() {
            bits[values.len()] |= u64::from(is_added(*value, *eligible)) << bit;
        }
    }
}

/// Returns the flags of 64 positions as bits.
#[inline(always)]
fn as_bits(flag: impl Fn(usize) -> bool) -> u64 {
    let mut flags = [false; 64];
    for (position, is_set) in flags.iter_mut().enumerate() {
        *is_set = flag(position);
    }
    let mut bits = 0;
    for (byte_index, flags) in flags.as_chunks::<8>().0.iter().enumerate() {
        // The product moves the bit of each byte to its position in the highest byte.
        let byte =
            u64::from_le_bytes(flags.map(u8::from)).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        bits |= byte << (8 * byte_index);
    }
    bits
}

/// Returns the largest value of the eligible tools, or negative infinity if no tool is eligible.
pub(crate) fn largest_eligible(values: &[f32], eligible: &[bool]) -> f32 {
    let mut maximum = f32::NEG_INFINITY;
    for (values, eligible) in values.chunks(CHUNK).zip(eligible.chunks(CHUNK)) {
        if largest(values) > maximum {
            maximum = maximum.max(largest_eligible_in_chunk(values, eligible));
        }
    }
    maximum
}

/// Returns the same as [`largest_eligible`], without skipping chunks.
#[inline(always)]
fn largest_eligible_in_chunk(values: &[f32], eligible: &[bool]) -> f32 {
    let value_if_eligible =
        |(&value, &eligible): (&f32, &bool)| if eligible { value } else { f32::NEG_INFINITY };
    let ((values, rest), (eligible, rest_eligible)) =
        (values.as_chunks::<LANES>(), eligible.as_chunks::<LANES>());
    let mut maxima = [f32::NEG_INFINITY; LANES];
    for (values, eligible) in values.iter().zip(eligible) {
        let lanes = values.iter().zip(eligible).map(value_if_eligible);
        maxima
            .iter_mut()
            .zip(lanes)
            .for_each(|(maximum, value)| *maximum = larger(*maximum, value));
    }
    maxima
        .into_iter()
        .chain(rest.iter().zip(rest_eligible).map(value_if_eligible))
        .fold(f32::NEG_INFINITY, larger)
}

/// Returns the largest value, or negative infinity for an empty slice. No value may be NaN.
pub(crate) fn largest(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut maxima = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        maxima
            .iter_mut()
            .zip(chunk)
            .for_each(|(maximum, &value)| *maximum = larger(*maximum, value));
    }
    maxima
        .into_iter()
        .chain(rest.iter().copied())
        .fold(f32::NEG_INFINITY, larger)
}

#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn top_k_equals_a_stable_sort_and_cut(
            scores in prop::collection::vec(-3i8..3, 0..60), k in 0usize..70,
        ) {
            let candidates: Vec<Candidate> = scores
                .iter()
                .enumerate()
                .map(|(i, &s)| Candidate { tool: ToolId::from_index(i), score: f32::from(s) })
                .collect();
            let mut naive = candidates.clone();
            naive.sort_by(|a, b| b.score.partial_cmp(&a.score).expect("finite"));
            naive.truncate(k);
            prop_assert_eq!(top_k(candidates.into_iter(), k), naive);
        }

        #[test]
        fn chunked_functions_equal_the_plain_ones(
            values in prop::collection::vec((-3i8..60, prop::bool::weighted(0.8)), 0..200),
            k in 0usize..20,
        ) {
            let (scores, eligible): (Vec<f32>, Vec<bool>) =
                values.iter().map(|&(s, e)| (f32::from(s), e)).unzip();
            let positions = (0..scores.len()).filter(|&position| eligible[position]);
            let candidates = positions.map(|position| Candidate {
                tool: ToolId::from_index(position),
                score: scores[position],
            });
            prop_assert_eq!(top_k_eligible(&scores, &eligible, k), top_k(candidates, k));

            let maximum = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            prop_assert!(largest(&scores).total_cmp(&maximum).is_eq());
            let pairs = scores.iter().zip(&eligible).filter(|(_, eligible)| **eligible);
            let maximum = pairs.map(|(&score, _)| score).fold(f32::NEG_INFINITY, f32::max);
            prop_assert!(largest_eligible(&scores, &eligible).total_cmp(&maximum).is_eq());

            let threshold = scores.get(k).copied().unwrap_or(f32::NEG_INFINITY);
            let reaches = |&position: &usize| scores[position] >= threshold;
            let expected: Vec<usize> = (0..scores.len()).filter(reaches).collect();
            prop_assert_eq!(positions_reaching(&scores, threshold).collect::<Vec<_>>(), expected);
        }
    }

    fn set(tools: usize, add: impl FnOnce(&mut ToolSet)) -> Vec<usize> {
        let mut set = ToolSet::new(tools);
        add(&mut set);
        set.iter().map(ToolId::index).collect()
    }

    proptest! {
        #[test]
        fn set_has_each_tool_once_in_order(
            positions in prop::collection::vec(0..200_usize, 0..80),
        ) {
            let members = set(200, |set| {
                positions.iter().for_each(|&position| set.add(ToolId::from_index(position)));
            });
            let expected: std::collections::BTreeSet<usize> = positions.into_iter().collect();
            prop_assert_eq!(members, expected.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn add_best_omits_no_tool_for_a_worse_one(
            values in prop::collection::vec((-3i8..60, prop::bool::weighted(0.4)), 0..300),
            count in 0..40_usize,
        ) {
            let (scores, eligible): (Vec<f32>, Vec<bool>) =
                values.iter().map(|&(s, e)| (f32::from(s), e)).unzip();
            let members = set(scores.len(), |set| set.add_best(std::iter::once((&*scores, 0.0)), &eligible, count));
            prop_assert!(members.iter().all(|&position| scores[position] > 0.0));
            for only_eligible in [false, true] {
                let is_added = |&position: &usize| {
                    scores[position] > 0.0 && (eligible[position] || !only_eligible)
                };
                let mut best: Vec<usize> = (0..scores.len()).filter(is_added).collect();
                best.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
                // The sample has all values, because they are few.
                for position in best.into_iter().take(count) {
                    prop_assert!(members.contains(&position), "{} is missing", position);
                }
            }
        }
    }

    #[test]
    fn add_best_adds_about_the_requested_number_of_tools() {
        let tools = 100_000;
        // Each number once, shuffled.
        let scores: Vec<f32> = (0..tools)
            .map(|position| (position * 7_919 % tools) as f32)
            .collect();
        for step in [1, 2, 10, 1_000] {
            let eligible: Vec<bool> = (0..tools).map(|position| position % step == 0).collect();
            let members = set(tools, |set| {
                set.add_best(std::iter::once((&*scores, 0.0)), &eligible, 500);
            });
            assert!(
                (250..2_000).contains(&members.len()),
                "{step}: {}",
                members.len()
            );
            let expected = 500.min(tools / step);
            let eligible_members = members.iter().filter(|&&tool| eligible[tool]).count();
            assert!(
                (expected / 2..=2 * expected).contains(&eligible_members),
                "{step}"
            );
            assert!(
                members.contains(
                    &(0..tools)
                        .max_by(|&a, &b| scores[a].total_cmp(&scores[b]))
                        .unwrap_or_default()
                )
            );
        }
    }

    #[test]
    fn positions_of_some_scored_tools_are_in_order() {
        let some = ScoredTools::Some([1, 4, 7].map(ToolId::from_index).into());
        assert_eq!(
            (
                some.len(),
                some.position(ToolId::from_index(4)),
                some.position(ToolId::from_index(5))
            ),
            (3, Some(1), None)
        );
        assert_eq!(
            [0, 4, 5, 9].map(|tool| some.count_before(ToolId::from_index(tool))),
            [0, 1, 2, 3]
        );
        assert_eq!(
            (
                some.tool(2).index(),
                &*some.select(&[0, 10, 20, 30, 40, 50, 60, 70])
            ),
            (7, &[10, 40, 70][..])
        );
        let all = ScoredTools::All(3);
        assert_eq!(
            (
                all.len(),
                all.position(ToolId::from_index(2)),
                all.position(ToolId::from_index(3))
            ),
            (3, Some(2), None)
        );
    }
}
