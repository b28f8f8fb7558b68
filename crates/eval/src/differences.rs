//! The queries that one run answers better or worse than another.

use super::{Measure, PerQuery};

/// The scores of two runs for one query under one measure.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QueryDifference {
    /// The query's id.
    pub query: String,
    /// The baseline's score, 0..1.
    pub baseline: f64,
    /// The candidate's score, 0..1.
    pub candidate: f64,
}

impl QueryDifference {
    /// `candidate - baseline`, -1..1.
    pub fn difference(&self) -> f64 {
        self.candidate - self.baseline
    }
}

/// Lists the queries that both runs were scored on, the largest gain of the candidate first; equal
/// ones by id.
///
/// # Complexity
///
/// `O(n log n)`.
pub fn differences(
    baseline: &PerQuery,
    candidate: &PerQuery,
    measure: Measure,
) -> Vec<QueryDifference> {
    let mut differences = Vec::new();
    for (query, _) in candidate.rows() {
        if let (Some(baseline), Some(candidate)) =
            (baseline.get(query, measure), candidate.get(query, measure))
        {
            differences.push(QueryDifference {
                query: query.to_owned(),
                baseline,
                candidate,
            });
        }
    }
    // The sort is stable, and rows are in the order of ids.
    differences.sort_by(|a, b| b.difference().total_cmp(&a.difference()));
    differences
}

#[cfg(test)]
mod tests {
    use super::super::{Qrels, Run, RunEntry, evaluate};
    use super::*;

    #[test]
    fn largest_gain_comes_first_and_equal_ones_by_id() {
        let measure: Measure = "RR@10".parse().expect("a known measure");
        let mut qrels = Qrels::default();
        for query in ["d", "c", "b", "a"] {
            qrels.insert(query, "tool", 1);
        }
        let scores = |ranks: &[(&str, usize)]| {
            let mut run = Run::default();
            for &(query, rank) in ranks {
                let tools = (1..=rank).map(|position| {
                    if position == rank {
                        "tool".to_owned()
                    } else {
                        position.to_string()
                    }
                });
                run.insert(
                    query,
                    tools.map(|tool| RunEntry { tool, score: 0.0 }).collect(),
                );
            }
            evaluate(&run, &qrels, &[measure])
        };
        let baseline = scores(&[("a", 1), ("b", 2), ("c", 2), ("d", 4)]);
        let candidate = scores(&[("a", 2), ("b", 1), ("c", 1), ("d", 4)]);
        let listed = differences(&baseline, &candidate, measure);
        let listed: Vec<(&str, f64)> = listed
            .iter()
            .map(|one| (one.query.as_str(), one.difference()))
            .collect();
        assert_eq!(listed, [("b", 0.5), ("c", 0.5), ("d", 0.0), ("a", -0.5)]);
        assert!(
            differences(
                &baseline,
                &candidate,
                "R@1".parse().expect("a known measure")
            )
            .is_empty()
        );
    }
}
