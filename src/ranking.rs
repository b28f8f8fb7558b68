//! What flows between stages: tool ids, candidates and rankings.
//!
//! A retriever scores *every* tool of the catalog into a dense vector, one number per tool in registration order.
//! Catalogs have at most some hundred thousand tools, so scoring all of them exactly is cheap, needs no depth
//! to be guessed, and lets each later stage ask any tool for any signal. A [`Ranking`] is cut from such a vector
//! with [`top_k`], which is where ties are broken: by registration order.

use std::cmp::Ordering;

/// A tool's position in its catalog, in registration order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolId(pub(crate) u32);

impl ToolId {
    pub(crate) fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("a catalog holds fewer than 2^32 tools"))
    }

    /// Returns the position in the catalog, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
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
        other.score.total_cmp(&self.score).then(self.tool.cmp(&other.tool))
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
        if bound.is_none_or(|bound| candidate.score >= bound.score && candidate.better_first(&bound).is_lt()) {
            ranking.push(candidate);
        }
        if ranking.len() >= k.saturating_mul(2) {
            bound = Some(*ranking.select_nth_unstable_by(k - 1, Candidate::better_first).1);
            ranking.truncate(k);
        }
    }
    ranking.sort_unstable_by(Candidate::better_first);
    ranking.truncate(k);
    ranking
}

/// How many values are looked at together.
const CHUNK: usize = 16;

/// Returns the best `k` in order of the tools that are admitted, each with its value: as [`top_k`], in a fraction of the time
/// for a small `k`, as most chunks of values hold none that is large enough.
pub(crate) fn top_k_of(values: &[f32], admitted: &[bool], k: usize) -> Ranking {
    let mut ranking = Ranking::new();
    let mut bound = f32::NEG_INFINITY;
    for (chunk, (values, admitted)) in values.chunks(CHUNK).zip(admitted.chunks(CHUNK)).enumerate() {
        if largest(values) < bound {
            continue;
        }
        let found =
            values.iter().zip(admitted).enumerate().filter(|(_, (value, admitted))| **admitted && **value >= bound);
        let tool = |place| ToolId::from_index(chunk * CHUNK + place);
        ranking.extend(found.map(|(place, (&score, _))| Candidate { tool: tool(place), score }));
        if ranking.len() >= k.saturating_mul(2).max(CHUNK) {
            ranking = top_k(ranking.into_iter(), k);
            bound = ranking.last().map_or(f32::INFINITY, |worst| worst.score);
        }
    }
    top_k(ranking.into_iter(), k)
}

/// Returns the places of the values that are at least `least`, ascending. Chunks of values that have none are passed over together.
pub(crate) fn reaching(values: &[f32], least: f32) -> impl Iterator<Item = usize> {
    let chunks = values.chunks(CHUNK).enumerate().filter(move |(_, chunk)| largest(chunk) >= least);
    chunks.flat_map(move |(number, chunk)| {
        let places = chunk.iter().enumerate().filter(move |(_, value)| **value >= least);
        places.map(move |(place, _)| number * CHUNK + place)
    })
}

/// Returns the largest of the values that are admitted; negative infinity where there is none.
pub(crate) fn largest_of(values: &[f32], admitted: &[bool]) -> f32 {
    let mut most = f32::NEG_INFINITY;
    for (values, admitted) in values.chunks(CHUNK).zip(admitted.chunks(CHUNK)) {
        if largest(values) > most {
            let found = values.iter().zip(admitted).filter(|(_, admitted)| **admitted);
            most = found.fold(most, |most, (&value, _)| if value > most { value } else { most });
        }
    }
    most
}

/// Returns the largest of some values, each of which is a number; negative infinity where there is none.
pub(crate) fn largest(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    let (chunks, rest) = values.as_chunks::<8>();
    let mut most = [f32::NEG_INFINITY; 8];
    for chunk in chunks {
        most.iter_mut().zip(chunk).for_each(|(most, &value)| *most = larger(*most, value));
    }
    most.into_iter().chain(rest.iter().copied()).fold(f32::NEG_INFINITY, larger)
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
}
