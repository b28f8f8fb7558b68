//! Confidence intervals of means, by resampling the queries.
//!
//! The queries of a set are a sample of all queries that could be asked. The percentile bootstrap
//! draws as many queries from the set as it has, with replacement, and takes the mean of each
//! measure. The interval contains the middle 95 % of the means of many such draws.
//!
//! The method assumes nothing about the distribution of scores, and its bounds stay within 0..1:
//! Efron and Tibshirani, *An introduction to the bootstrap*, 1993, chapter 13; for measures of
//! rankings Sakai, *Evaluating evaluation metrics based on the bootstrap*, SIGIR 2006.

use std::collections::BTreeMap;

use serde::Serialize;

use super::random::SplitMix64;
use super::{Measure, PerQuery};

/// The share of the resampled means that an interval contains.
pub const CONFIDENCE_LEVEL: f64 = 0.95;

/// The resampled means beyond each bound, per thousand.
const TAIL_PER_THOUSAND: usize = 25;

/// The smallest number of queries that has an interval: one query says nothing about others.
const MIN_QUERIES: usize = 2;

/// The resampling of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootstrapOptions {
    /// The number of draws.
    pub resamples: u32,
    /// The seed of the draws; the same seed gives the same intervals.
    pub seed: u64,
}

impl Default for BootstrapOptions {
    /// 1,000 draws from seed 0: bounds are then good to about a tenth of the half width.
    fn default() -> Self {
        Self {
            resamples: 1000,
            seed: 0,
        }
    }
}

/// The 95 % confidence interval of a mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ConfidenceInterval {
    /// The lower bound, 0..1.
    pub low: f64,
    /// The upper bound, 0..1.
    pub high: f64,
}

/// Computes the confidence interval of each measure's mean over the queries of a set.
///
/// Several sets give the intervals of the unweighted mean over the sets, as in
/// [`EvalReport::mean`](super::EvalReport::mean). Each set is then resampled on its own: the
/// intervals are about other queries, not about other sets. Sets without scored queries do not
/// count.
///
/// The result is empty if there is no set, or if a set has a single scored query. Intervals of
/// fewer than about 20 queries are too narrow.
///
/// # Complexity
///
/// `O(resamples × (queries × measures + log resamples))`.
pub fn confidence_intervals(
    sets: &[&PerQuery],
    options: BootstrapOptions,
) -> BTreeMap<Measure, ConfidenceInterval> {
    let mut intervals = BTreeMap::new();
    let mut scored = sets.to_vec();
    scored.retain(|set| !set.is_empty());
    let Some(first) = scored.first() else {
        return intervals;
    };
    if options.resamples == 0 || scored.iter().any(|set| set.len() < MIN_QUERIES) {
        return intervals;
    }
    let mut measures = first.measures().to_vec();
    measures.retain(|measure| scored.iter().all(|set| set.measures().contains(measure)));
    let mut strata = Vec::new();
    for set in &scored {
        strata.push(Stratum::new(set, &measures));
    }
    let means = resampled_means(&strata, measures.len(), options);
    for (measure, means) in measures.into_iter().zip(means) {
        intervals.insert(measure, percentile_interval(means));
    }
    intervals
}

/// The scores of one set, by query and measure.
struct Stratum<'a> {
    rows: Vec<&'a [f64]>,
    /// The columns of the measures, in the order of the result.
    columns: Vec<usize>,
}

impl<'a> Stratum<'a> {
    fn new(set: &'a PerQuery, measures: &[Measure]) -> Self {
        let mut rows = Vec::new();
        for (_, row) in set.rows() {
            rows.push(row);
        }
        let mut columns = Vec::new();
        for (column, measure) in set.measures().iter().enumerate() {
            if measures.contains(measure) {
                columns.push(column);
            }
        }
        Self { rows, columns }
    }

    /// Draws as many queries as the set has, and adds the mean of each measure to `totals`.
    fn add_resampled_means(&self, random: &mut SplitMix64, totals: &mut [f64]) {
        let mut sums = vec![0.0; self.columns.len()];
        for _ in 0..self.rows.len() {
            let row = self.rows[random.below(self.rows.len())];
            for (sum, &column) in sums.iter_mut().zip(&self.columns) {
                *sum += row[column];
            }
        }
        for (total, sum) in totals.iter_mut().zip(sums) {
            *total += sum / self.rows.len() as f64;
        }
    }
}

/// Returns the means over the sets for each measure, one for each draw.
fn resampled_means(
    strata: &[Stratum<'_>],
    measures: usize,
    options: BootstrapOptions,
) -> Vec<Vec<f64>> {
    let mut random = SplitMix64::new(options.seed);
    let mut means = vec![Vec::new(); measures];
    for _ in 0..options.resamples {
        let mut totals = vec![0.0; measures];
        for stratum in strata {
            stratum.add_resampled_means(&mut random, &mut totals);
        }
        for (means, total) in means.iter_mut().zip(totals) {
            means.push(total / strata.len() as f64);
        }
    }
    means
}

/// Returns the interval that leaves out the same number of means at both ends; `means` has at least
/// one.
fn percentile_interval(mut means: Vec<f64>) -> ConfidenceInterval {
    means.sort_by(f64::total_cmp);
    let tail = means.len() * TAIL_PER_THOUSAND / 1000;
    ConfidenceInterval {
        low: means[tail],
        high: means[means.len() - 1 - tail],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Qrels, Run, RunEntry, evaluate};
    use super::*;

    fn measure() -> Measure {
        "R@1".parse().expect("a known measure")
    }

    /// Returns the scores of queries, of which some have their tool in the first place.
    fn scores(hits: impl IntoIterator<Item = bool>) -> PerQuery {
        let mut qrels = Qrels::default();
        let mut run = Run::default();
        for (index, hit) in hits.into_iter().enumerate() {
            let query = format!("q{index:04}");
            qrels.insert(&*query, "right", 1);
            let tool = if hit { "right" } else { "wrong" }.to_owned();
            run.insert(query, vec![RunEntry { tool, score: 0.5 }]);
        }
        evaluate(&run, &qrels, &[measure()])
    }

    fn half(queries: usize) -> PerQuery {
        scores((0..queries).map(|index| index % 2 == 0))
    }

    fn interval(sets: &[&PerQuery], seed: u64) -> Option<ConfidenceInterval> {
        let options = BootstrapOptions {
            seed,
            ..BootstrapOptions::default()
        };
        confidence_intervals(sets, options).get(&measure()).copied()
    }

    #[test]
    fn interval_of_coin_tosses_is_the_binomial_one() {
        let wide = interval(&[&half(100)], 0).expect("there are queries");
        // The standard error is 0.05, and 1.96 of it are 0.098.
        assert!((wide.low - 0.402).abs() < 0.02, "{wide:?}");
        assert!((wide.high - 0.598).abs() < 0.02, "{wide:?}");
        let narrow = interval(&[&half(1600)], 0).expect("there are queries");
        assert!((narrow.low - 0.4755).abs() < 0.005, "{narrow:?}");
        assert!((narrow.high - 0.5245).abs() < 0.005, "{narrow:?}");
    }

    #[test]
    fn equal_scores_have_an_interval_without_width() {
        let all = interval(&[&scores([true; 30])], 0).expect("there are queries");
        assert_eq!((all.low, all.high), (1.0, 1.0));
    }

    #[test]
    fn mean_over_sets_resamples_each_set() {
        let set = half(100);
        let mean = interval(&[&set, &set, &set, &set], 0).expect("there are queries");
        // Four independent sets of equal size: half the width of one.
        assert!((mean.low - 0.451).abs() < 0.01, "{mean:?}");
        assert!((mean.high - 0.549).abs() < 0.01, "{mean:?}");
        let unequal = interval(&[&scores([true; 50]), &scores([false; 5])], 0);
        let unequal = unequal.expect("there are queries");
        assert_eq!(
            (unequal.low, unequal.high),
            (0.5, 0.5),
            "sets weigh the same"
        );
    }

    #[test]
    fn same_seed_gives_the_same_interval() {
        let set = scores((0..60).map(|index| index % 3 == 0));
        assert_eq!(interval(&[&set], 7), interval(&[&set], 7));
        let (first, other) = (interval(&[&set], 7), interval(&[&set], 8));
        let (first, other) = (first.expect("queries"), other.expect("queries"));
        assert!((first.low - other.low).abs() < 0.05, "{first:?} {other:?}");
    }

    #[test]
    fn too_few_queries_have_no_interval() {
        let none = PerQuery::default();
        assert_eq!(interval(&[], 0), None);
        assert_eq!(interval(&[&none], 0), None);
        assert_eq!(interval(&[&half(1)], 0), None);
        assert_eq!(interval(&[&half(50), &half(1)], 0), None);
        let alone = interval(&[&half(50)], 0);
        assert_eq!(
            interval(&[&half(50), &none], 0),
            alone,
            "an empty set does not count"
        );
    }

    proptest! {
        #[test]
        fn interval_is_ordered_and_within_the_scores(
            hits in prop::collection::vec(any::<bool>(), 2..40), seed in any::<u64>()
        ) {
            let interval = interval(&[&scores(hits.clone())], seed).expect("there are queries");
            prop_assert!(0.0 <= interval.low && interval.low <= interval.high && interval.high <= 1.0);
        }
    }
}
