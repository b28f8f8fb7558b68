//! What flows between stages: tool ids, candidates and rankings.
//!
//! A retriever scores tools into a dense vector, one number per tool in registration order: every
//! tool of the catalog, or of a large one those that may be near the request ([`Scored`]). All
//! retrievers score the same tools, so that each later stage may ask any signal for any of them. A
//! [`Ranking`] is cut from such a vector with [`top_k`], which is where ties are broken: by
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

/// Which tools of a catalog have scores: all, or those of a large one that may be near a request.
/// Scores lie in the order of the catalog, and a tool has a place among them.
#[derive(Debug, Clone)]
pub(crate) enum Scored {
    /// So many tools, each in its own place.
    All(usize),
    /// Some, ascending.
    Some(Arc<[ToolId]>),
}

impl Scored {
    /// Returns how many tools have scores.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::All(tools) => *tools,
            Self::Some(tools) => tools.len(),
        }
    }

    /// Returns the place of a tool; `None` where it has no score.
    pub(crate) fn place(&self, tool: ToolId) -> Option<usize> {
        match self {
            Self::All(tools) => Some(tool.index()).filter(|place| place < tools),
            Self::Some(tools) => tools.binary_search(&tool).ok(),
        }
    }

    /// Returns how many tools with scores come before a tool in the catalog.
    pub(crate) fn before(&self, tool: ToolId) -> usize {
        match self {
            Self::All(tools) => tool.index().min(*tools),
            Self::Some(tools) => tools.partition_point(|scored| *scored < tool),
        }
    }

    /// Returns the tool that has a place.
    pub(crate) fn tool(&self, place: usize) -> ToolId {
        match self {
            Self::All(_) => ToolId::from_index(place),
            Self::Some(tools) => tools[place],
        }
    }

    /// Returns what there is for each tool with a score, of what there is for each tool of the
    /// catalog.
    pub(crate) fn of<'v, T: Copy>(&self, values: &'v [T]) -> Cow<'v, [T]> {
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
    // The worst of `k` that are known: what is no better is passed over.
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

/// Puts the best `k` candidates in order.
fn best(mut candidates: Vec<Candidate>, k: usize) -> Ranking {
    if candidates.len() > k {
        candidates.select_nth_unstable_by(k, Candidate::better_first);
        candidates.truncate(k);
    }
    candidates.sort_unstable_by(Candidate::better_first);
    candidates
}

/// How many values are looked at together.
const CHUNK: usize = 16;
/// How many of them are compared with so many others at once.
const LANES: usize = 8;

/// Returns the best `k` in order of the tools that are admitted, each with its value: as [`top_k`],
/// in a fraction of the time for a small `k`, as most chunks of values hold none that is large
/// enough.
///
/// # Complexity
///
/// Linear in the number of values.
pub(crate) fn top_k_of(values: &[f32], admitted: &[bool], k: usize) -> Ranking {
    let mut most = Vec::with_capacity(values.len().div_ceil(CHUNK));
    Arch::new().dispatch(Largest {
        values,
        admitted,
        most: &mut most,
    });
    // So many chunks have a tool that reaches it.
    let least = match k.checked_sub(1) {
        Some(last) if last < most.len() => {
            *most
                .clone()
                .select_nth_unstable_by(last, |a, b| b.total_cmp(a))
                .1
        }
        _ => f32::NEG_INFINITY,
    };
    let mut reaching = Vec::with_capacity(2 * k.min(values.len()));
    for first in (0..most.len())
        .filter(|&chunk| most[chunk] >= least)
        .map(|chunk| CHUNK * chunk)
    {
        for place in first..values.len().min(first + CHUNK) {
            if values[place] >= least && admitted[place] {
                reaching.push(Candidate {
                    tool: ToolId::from_index(place),
                    score: values[place],
                });
            }
        }
    }
    best(reaching, k)
}

/// Returns the places of the values that are at least `least`, ascending. Chunks of values that
/// have none are passed over together.
pub(crate) fn reaching(values: &[f32], least: f32) -> impl Iterator<Item = usize> {
    let chunks = values
        .chunks(CHUNK)
        .enumerate()
        .filter(move |(_, chunk)| largest(chunk) >= least);
    chunks.flat_map(move |(number, chunk)| {
        let places = chunk
            .iter()
            .enumerate()
            .filter(move |(_, value)| **value >= least);
        places.map(move |(place, _)| number * CHUNK + place)
    })
}

/// How many values stand for all where it is asked what about so many of them reach.
const SAMPLE: usize = 2_048;

/// Some tools of a catalog.
#[derive(Debug, Clone)]
pub(crate) struct ToolSet {
    /// One bit a tool.
    bits: Vec<u64>,
    tools: usize,
}

impl ToolSet {
    /// Makes one of none of so many tools.
    pub(crate) fn new(tools: usize) -> Self {
        Self {
            bits: vec![0; tools.div_ceil(64)],
            tools,
        }
    }

    /// Returns how many tools the catalog has.
    pub(crate) fn tools(&self) -> usize {
        self.tools
    }

    pub(crate) fn add(&mut self, tool: ToolId) {
        self.bits[tool.index() / 64] |= 1 << (tool.index() % 64);
    }

    /// Adds the tools of about the `wanted` largest values that exceed `floor`, of all tools and of
    /// those that are admitted: by a sample, so that it may be half as many or twice as many, but
    /// never one without those of larger values.
    pub(crate) fn add_best(
        &mut self,
        values: &[f32],
        floor: f32,
        admitted: &[bool],
        wanted: usize,
    ) {
        let step = values.len().div_ceil(SAMPLE).max(1);
        let sample: Vec<f32> = values.iter().copied().step_by(step).collect();
        let flags: Vec<bool> = admitted.iter().copied().step_by(step).collect();
        let place = wanted / step;
        let reached = |flags: &[bool]| {
            top_k_of(&sample, flags, place + 1)
                .get(place)
                .map_or(f32::NEG_INFINITY, |least| least.score)
        };
        let of_admitted = reached(&flags);
        let mostly = 2 * flags.iter().filter(|admitted| **admitted).count() >= flags.len();
        let of_all = if mostly {
            of_admitted
        } else {
            reached(&vec![true; sample.len()])
        };
        let add = AddBest {
            bits: &mut self.bits,
            values,
            admitted,
            floor,
            least: (of_all, of_admitted),
        };
        Arch::new().dispatch(add);
    }

    /// Returns the tools, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ToolId> {
        self.bits.iter().enumerate().flat_map(|(word, &bits)| {
            let mut left = bits;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(ToolId::from_index(64 * word + bit))
            })
        })
    }
}

/// The loop of [`top_k_of`] over all values: compiled once for each set of vector instructions, of
/// which the processor's is taken; and so is the other one.
struct Largest<'a> {
    values: &'a [f32],
    admitted: &'a [bool],
    most: &'a mut Vec<f32>,
}

impl NullaryFnOnce for Largest<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.most.extend(
            self.values
                .chunks(CHUNK)
                .zip(self.admitted.chunks(CHUNK))
                .map(largest_admitted),
        );
    }
}

/// The loop of [`ToolSet::add_best`].
struct AddBest<'a> {
    /// One bit a tool.
    bits: &'a mut [u64],
    values: &'a [f32],
    admitted: &'a [bool],
    floor: f32,
    /// The least values of those of all, and of those that are admitted.
    least: (f32, f32),
}

impl NullaryFnOnce for AddBest<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            bits,
            values,
            admitted,
            floor,
            least: (of_all, of_admitted),
        } = self;
        let is_meant = |(&value, &admitted): (&f32, &bool)| {
            (value > floor) & ((value >= of_all) | (admitted & (value >= of_admitted)))
        };
        let ((values, rest), (admitted, rest_admitted)) =
            (values.as_chunks::<64>(), admitted.as_chunks::<64>());
        for ((word, values), admitted) in bits.iter_mut().zip(values).zip(admitted) {
            let mut meant = [false; 64];
            meant
                .iter_mut()
                .zip(values.iter().zip(admitted))
                .for_each(|(meant, of)| *meant = is_meant(of));
            for (place, meant) in meant.as_chunks::<8>().0.iter().enumerate() {
                // Each byte is moved to where its bit belongs within the highest byte.
                let byte = u64::from_le_bytes(meant.map(u8::from))
                    .wrapping_mul(0x0102_0408_1020_4080)
                    >> 56;
                *word |= byte << (8 * place);
            }
        }
        for (place, of) in rest.iter().zip(rest_admitted).enumerate() {
            bits[values.len()] |= u64::from(is_meant(of)) << place;
        }
    }
}

/// Returns the largest of the values that are admitted; negative infinity where there is none.
pub(crate) fn largest_of(values: &[f32], admitted: &[bool]) -> f32 {
    let mut most = f32::NEG_INFINITY;
    for (values, admitted) in values.chunks(CHUNK).zip(admitted.chunks(CHUNK)) {
        if largest(values) > most {
            most = most.max(largest_admitted((values, admitted)));
        }
    }
    most
}

/// Returns the largest of the values of tools that are admitted; negative infinity where none is.
#[inline(always)]
fn largest_admitted((values, admitted): (&[f32], &[bool])) -> f32 {
    let of = |(&value, &admitted): (&f32, &bool)| if admitted { value } else { f32::NEG_INFINITY };
    let ((values, rest), (admitted, rest_admitted)) =
        (values.as_chunks::<LANES>(), admitted.as_chunks::<LANES>());
    let mut most = [f32::NEG_INFINITY; LANES];
    for chunk in values.iter().zip(admitted) {
        let chunk = chunk.0.iter().zip(chunk.1).map(of);
        most.iter_mut()
            .zip(chunk)
            .for_each(|(most, value)| *most = larger(*most, value));
    }
    most.into_iter()
        .chain(rest.iter().zip(rest_admitted).map(of))
        .fold(f32::NEG_INFINITY, larger)
}

/// Returns the largest of some values, each of which is a number; negative infinity where there is
/// none.
pub(crate) fn largest(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut most = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        most.iter_mut()
            .zip(chunk)
            .for_each(|(most, &value)| *most = larger(*most, value));
    }
    most.into_iter()
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
        fn top_k_equals_a_stable_sort_and_cut(scores in prop::collection::vec(-3i8..3, 0..60), k in 0usize..70) {
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
        fn the_best_of_many_values_are_those_of_all(
            values in prop::collection::vec((-3i8..60, prop::bool::weighted(0.8)), 0..200), k in 0usize..20,
        ) {
            let (scores, admitted): (Vec<f32>, Vec<bool>) = values.iter().map(|&(s, a)| (f32::from(s), a)).unzip();
            let candidates = scores.iter().enumerate().filter(|(place, _)| admitted[*place]);
            let candidates = candidates.map(|(place, &score)| Candidate { tool: ToolId::from_index(place), score });
            prop_assert_eq!(top_k_of(&scores, &admitted, k), top_k(candidates, k));
            let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            prop_assert!(largest(&scores).total_cmp(&most).is_eq());
            let of_admitted = scores.iter().zip(&admitted).filter(|(_, admitted)| **admitted);
            let most = of_admitted.map(|(&score, _)| score).fold(f32::NEG_INFINITY, f32::max);
            prop_assert!(largest_of(&scores, &admitted).total_cmp(&most).is_eq());
            let least = scores.get(k).copied().unwrap_or(f32::NEG_INFINITY);
            let places: Vec<usize> = (0..scores.len()).filter(|&place| scores[place] >= least).collect();
            prop_assert_eq!(reaching(&scores, least).collect::<Vec<_>>(), places);
        }
    }

    fn set(tools: usize, add: impl FnOnce(&mut ToolSet)) -> Vec<usize> {
        let mut set = ToolSet::new(tools);
        add(&mut set);
        set.iter().map(ToolId::index).collect()
    }

    proptest! {
        #[test]
        fn a_set_has_each_tool_once_in_order(places in prop::collection::vec(0..200_usize, 0..80)) {
            let found = set(200, |set| places.iter().for_each(|&place| set.add(ToolId::from_index(place))));
            let expected: std::collections::BTreeSet<usize> = places.into_iter().collect();
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn of_the_best_none_is_left_out_for_a_worse_one(
            values in prop::collection::vec((-3i8..60, prop::bool::weighted(0.4)), 0..300), wanted in 0..40_usize,
        ) {
            let (scores, admitted): (Vec<f32>, Vec<bool>) = values.iter().map(|&(s, a)| (f32::from(s), a)).unzip();
            let found = set(scores.len(), |set| set.add_best(&scores, 0.0, &admitted, wanted));
            prop_assert!(found.iter().all(|&place| scores[place] > 0.0));
            for of_admitted in [false, true] {
                let is_meant = |&place: &usize| scores[place] > 0.0 && (admitted[place] || !of_admitted);
                let mut best: Vec<usize> = (0..scores.len()).filter(is_meant).collect();
                best.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
                // So few values are their own sample.
                for place in best.into_iter().take(wanted) {
                    prop_assert!(found.contains(&place), "{} is left out", place);
                }
            }
        }
    }

    #[test]
    fn about_as_many_are_taken_of_many_as_are_wanted() {
        let tools = 100_000;
        // Each number once, in no order.
        let scores: Vec<f32> = (0..tools)
            .map(|place| (place * 7_919 % tools) as f32)
            .collect();
        for few in [1, 2, 10, 1_000] {
            let admitted: Vec<bool> = (0..tools).map(|place| place % few == 0).collect();
            let found = set(tools, |set| set.add_best(&scores, 0.0, &admitted, 500));
            let of = |is_meant: &dyn Fn(usize) -> bool| {
                found.iter().filter(|&&place| is_meant(place)).count()
            };
            assert!(
                (250..2_000).contains(&found.len()),
                "{few}: {}",
                found.len()
            );
            let expected = 500.min(tools / few);
            assert!(
                (expected / 2..=2 * expected).contains(&of(&|place| admitted[place])),
                "{few}"
            );
            assert!(
                found.contains(
                    &(0..tools)
                        .max_by(|&a, &b| scores[a].total_cmp(&scores[b]))
                        .unwrap_or_default()
                )
            );
        }
    }

    #[test]
    fn scores_of_some_tools_lie_in_order() {
        let some = Scored::Some([1, 4, 7].map(ToolId::from_index).into());
        assert_eq!(
            (
                some.len(),
                some.place(ToolId::from_index(4)),
                some.place(ToolId::from_index(5))
            ),
            (3, Some(1), None)
        );
        assert_eq!(
            [0, 4, 5, 9].map(|tool| some.before(ToolId::from_index(tool))),
            [0, 1, 2, 3]
        );
        assert_eq!(
            (
                some.tool(2).index(),
                &*some.of(&[0, 10, 20, 30, 40, 50, 60, 70])
            ),
            (7, &[10, 40, 70][..])
        );
        let all = Scored::All(3);
        assert_eq!(
            (
                all.len(),
                all.place(ToolId::from_index(2)),
                all.place(ToolId::from_index(3))
            ),
            (3, Some(2), None)
        );
    }
}
