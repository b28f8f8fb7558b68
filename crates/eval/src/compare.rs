//! The comparison of two runs by a significance test.
//!
//! The paired randomisation test assumes that the two systems are interchangeable. Then, for every
//! query, the sign of the difference is a coin toss. The p-value is the share of assignments of
//! signs with a difference as large as the observed one.
//!
//! The test assumes nothing about the distribution of scores. Smucker, Allan and Carterette
//! recommend it in *A comparison of statistical significance tests for information retrieval
//! evaluation*, CIKM 2007.

use std::collections::BTreeMap;

use serde::Serialize;

use super::random::SplitMix64;
use super::{EvalError, Measure, PerQuery};

/// The largest number of differing pairs for which every assignment of signs is tried: 4,096.
const EXACT_PAIRS: usize = 12;

/// The largest difference that counts as a tie: equal sums may be added in different orders.
pub const TIE: f64 = 1e-9;

/// The resampling of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareOptions {
    /// The number of random assignments of signs, if there are too many to try all.
    pub permutations: u32,
    /// The seed of the random signs; the same seed gives the same p-values.
    pub seed: u64,
}

impl Default for CompareOptions {
    /// 10,000 assignments from seed 0: p-values are then good to about 0.005.
    fn default() -> Self {
        Self {
            permutations: 10_000,
            seed: 0,
        }
    }
}

/// The choice of the assignments of signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Enumeration {
    /// All of them, so the p-value is exact.
    Exact,
    /// A seeded random sample, so the p-value is an estimate.
    Sampled,
}

/// One measure of two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MeasureComparison {
    /// The baseline's mean over the queries in both, between 0 and 1.
    pub baseline: f64,
    /// The candidate's mean over the queries in both, between 0 and 1.
    pub candidate: f64,
    /// `candidate - baseline`, between -1 and 1.
    pub difference: f64,
    /// Two-sided p-value, above 0 and at most 1. It is not corrected for the number of measures.
    pub p: f64,
    /// Tells if `p` is exact or sampled.
    pub enumeration: Enumeration,
    /// The number of queries for which the candidate is better.
    pub wins: usize,
    /// The number of queries for which both are equal.
    pub ties: usize,
    /// The number of queries for which the candidate is worse.
    pub losses: usize,
}

/// Two runs, compared on the queries that both were scored on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// Queries scored in both, at least 1.
    pub queries: usize,
    /// Queries scored only in the baseline, left out.
    pub only_baseline: usize,
    /// Queries scored only in the candidate, left out.
    pub only_candidate: usize,
    /// The measures scored in both, at least one.
    pub measures: BTreeMap<Measure, MeasureComparison>,
}

/// Compares two evaluations with a two-sided paired randomisation test.
///
/// The statistic is the absolute difference of the means. With at most 12 differing queries all
/// assignments of signs are tried, and `p` is the share that reach the statistic.
///
/// Otherwise `p = (reached + 1) / (permutations + 1)`, which counts the observed assignment as one
/// of them. A sampled p-value is then never 0 and the test is valid (Phipson and Smyth,
/// *Permutation p-values should never be zero*, SAGMB 9(1), 2010). Every measure starts from the
/// same seed, so a p-value does not depend on the other measures.
///
/// # Errors
///
/// [`EvalError::NothingInCommon`] if the two share no query or no measure.
///
/// # Complexity
///
/// `O(permutations × queries)` for each measure.
pub fn compare(
    baseline: &PerQuery,
    candidate: &PerQuery,
    options: CompareOptions,
) -> Result<Comparison, EvalError> {
    let mut common = Vec::new();
    for (query, _) in baseline.rows() {
        if candidate.contains(query) {
            common.push(query);
        }
    }
    let mut shared = baseline.measures().to_vec();
    shared.retain(|measure| candidate.measures().contains(measure));
    if common.is_empty() || shared.is_empty() {
        return Err(EvalError::NothingInCommon {
            queries: common.len(),
            measures: shared.len(),
        });
    }
    let mut measures = BTreeMap::new();
    for &measure in &shared {
        let mut pairs = Vec::new();
        for &query in &common {
            if let (Some(baseline), Some(candidate)) =
                (baseline.get(query, measure), candidate.get(query, measure))
            {
                pairs.push(ScorePair {
                    baseline,
                    candidate,
                });
            }
        }
        measures.insert(measure, compare_pairs(&pairs, options));
    }
    Ok(Comparison {
        queries: common.len(),
        only_baseline: baseline.len() - common.len(),
        only_candidate: candidate.len() - common.len(),
        measures,
    })
}

/// The scores of one query in both runs.
struct ScorePair {
    baseline: f64,
    candidate: f64,
}

/// Compares the scores of one measure.
fn compare_pairs(pairs: &[ScorePair], options: CompareOptions) -> MeasureComparison {
    let count = pairs.len() as f64;
    let baseline = pairs.iter().map(|pair| pair.baseline).sum::<f64>() / count;
    let candidate = pairs.iter().map(|pair| pair.candidate).sum::<f64>() / count;
    // A pair without a difference adds nothing to any assignment, so only the others are resampled.
    let mut differences = Vec::new();
    let mut wins = 0;
    for pair in pairs {
        let difference = pair.candidate - pair.baseline;
        if difference.abs() > TIE {
            differences.push(difference);
            wins += usize::from(difference > 0.0);
        }
    }
    let (p, enumeration) = if differences.len() <= EXACT_PAIRS {
        (exact_p(&differences), Enumeration::Exact)
    } else {
        (sampled_p(&differences, options), Enumeration::Sampled)
    };
    MeasureComparison {
        baseline,
        candidate,
        difference: candidate - baseline,
        p,
        enumeration,
        wins,
        ties: pairs.len() - differences.len(),
        losses: differences.len() - wins,
    }
}

/// Returns the least absolute sum that reaches the observed one.
///
/// The same terms in another order may have a slightly smaller sum. Without the margin, the mirror
/// image of the observed assignment could be missed.
fn threshold(differences: &[f64]) -> f64 {
    differences.iter().sum::<f64>().abs() - TIE
}

/// Returns the share of all assignments of signs that reach the observed sum; 1 without
/// differences.
fn exact_p(differences: &[f64]) -> f64 {
    let threshold = threshold(differences);
    let assignments = 1_u32 << differences.len();
    let mut reached = 0_usize;
    for signs in 0..assignments {
        let sum = signed_sum(differences, u64::from(signs));
        reached += usize::from(sum.abs() >= threshold);
    }
    reached as f64 / f64::from(assignments)
}

/// Estimates the same share from random assignments and the observed one.
fn sampled_p(differences: &[f64], options: CompareOptions) -> f64 {
    let threshold = threshold(differences);
    let mut random = SplitMix64::new(options.seed);
    let mut reached = 0_u32;
    for _ in 0..options.permutations {
        let mut sum = 0.0_f64;
        for block in differences.chunks(64) {
            sum += signed_sum(block, random.next_u64());
        }
        reached += u32::from(sum.abs() >= threshold);
    }
    (f64::from(reached) + 1.0) / (f64::from(options.permutations) + 1.0)
}

/// Sums at most 64 values, each negated if its bit in `signs` is set.
fn signed_sum(values: &[f64], signs: u64) -> f64 {
    let mut sum = 0.0;
    for (bit, value) in values.iter().enumerate() {
        if signs >> bit & 1 == 1 {
            sum -= value;
        } else {
            sum += value;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Qrels, Run, RunEntry, evaluate};
    use super::*;

    const RECIPROCAL: &str = "RR@10";

    fn measure() -> Measure {
        RECIPROCAL.parse().expect("a known measure")
    }

    /// Returns scores for queries whose relevant tool has the given ranks.
    fn scores(ranks: &[usize]) -> PerQuery {
        let mut qrels = Qrels::default();
        let mut run = Run::default();
        for (index, &rank) in ranks.iter().enumerate() {
            let query = format!("q{index:03}");
            qrels.insert(&*query, "right", 1);
            let tool = |position| {
                if position == rank {
                    "right".to_owned()
                } else {
                    format!("wrong {position}")
                }
            };
            run.insert(
                query,
                (1..=10)
                    .map(|position| RunEntry {
                        tool: tool(position),
                        score: 0.0,
                    })
                    .collect(),
            );
        }
        evaluate(&run, &qrels, &[measure()])
    }

    fn compared(baseline: &[usize], candidate: &[usize], seed: u64) -> MeasureComparison {
        let options = CompareOptions {
            seed,
            ..CompareOptions::default()
        };
        let comparison =
            compare(&scores(baseline), &scores(candidate), options).expect("queries in common");
        comparison.measures[&measure()].clone()
    }

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-12
    }

    #[test]
    fn equal_runs_do_not_differ() {
        let same = compared(&[1, 2, 3], &[1, 2, 3], 0);
        assert!(close(same.p, 1.0) && close(same.difference, 0.0));
        assert_eq!((same.wins, same.ties, same.losses), (0, 3, 0));
    }

    #[test]
    fn few_differences_are_enumerated() {
        // All eight differences point one way, so only the observed signs and their mirror reach
        // it.
        let better = compared(&[2; 8], &[1; 8], 0);
        assert!(close(better.p, 2.0 / 256.0), "{}", better.p);
        assert!(close(better.difference, 0.5));
        assert_eq!((better.wins, better.ties, better.losses), (8, 0, 0));
        assert_eq!(better.enumeration, Enumeration::Exact);
        let worse = compared(&[1; 8], &[2; 8], 0);
        assert!(close(worse.p, better.p) && close(worse.difference, -0.5));
        assert_eq!(worse.losses, 8);
    }

    #[test]
    fn a_clear_winner_is_significant_and_chance_is_not() {
        let winner = compared(&[3; 100], &[1; 100], 0);
        assert_eq!(winner.enumeration, Enumeration::Sampled);
        assert!(close(winner.p, 1.0 / 10_001.0), "{}", winner.p);
        let (mut left, mut right) = ([1; 100], [2; 100]);
        left[50..].fill(2);
        right[50..].fill(1);
        let even = compared(&left, &right, 0);
        assert!(close(even.p, 1.0) && (even.wins, even.losses) == (50, 50));
    }

    #[test]
    fn same_seed_gives_the_same_p_value() {
        let baseline: Vec<usize> = (0..80).map(|index| 1 + index % 7).collect();
        let candidate: Vec<usize> = (0..80).map(|index| 1 + index % 5).collect();
        let first = compared(&baseline, &candidate, 7);
        assert_eq!(first, compared(&baseline, &candidate, 7));
        let other = compared(&baseline, &candidate, 8);
        assert!(
            (first.p - other.p).abs() < 0.03,
            "{} and {}",
            first.p,
            other.p
        );
    }

    #[test]
    fn only_common_queries_count() {
        let comparison = compare(
            &scores(&[1, 2, 3]),
            &scores(&[1, 1]),
            CompareOptions::default(),
        );
        let comparison = comparison.expect("two queries in common");
        assert_eq!(
            (
                comparison.queries,
                comparison.only_baseline,
                comparison.only_candidate
            ),
            (2, 1, 0)
        );
        assert!(close(comparison.measures[&measure()].baseline, 0.75));
        let nothing = compare(&scores(&[1]), &scores(&[]), CompareOptions::default());
        assert!(matches!(
            nothing,
            Err(EvalError::NothingInCommon {
                queries: 0,
                measures: 1
            })
        ));
    }

    #[test]
    fn no_shared_measure_is_an_error() {
        let mut qrels = Qrels::default();
        qrels.insert("q000", "right", 1);
        let other = evaluate(
            &Run::default(),
            &qrels,
            &["R@1".parse().expect("a known measure")],
        );
        let nothing = compare(&scores(&[1]), &other, CompareOptions::default());
        assert!(matches!(
            nothing,
            Err(EvalError::NothingInCommon {
                queries: 1,
                measures: 0
            })
        ));
    }

    proptest! {
        #[test]
        fn sampling_estimates_the_exact_value(differences in prop::collection::vec(-1.0_f64..1.0, 8..=12)) {
            let exact = exact_p(&differences);
            let sampled = sampled_p(&differences, CompareOptions::default());
            prop_assert!(exact > 0.0 && exact <= 1.0);
            prop_assert!((exact - sampled).abs() < 0.03, "{exact} and {sampled}");
        }
    }
}
