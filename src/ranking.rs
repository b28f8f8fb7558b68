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
    }
}
