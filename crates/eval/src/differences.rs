//! Which queries a run answers better than another, and which worse.

use super::{Measure, PerQuery};

/// What two runs scored for one query under one measure.
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

/// Lists the queries that both runs were scored on, those first where the candidate is ahead by
/// most; equal ones by id.
///
/// # Complexity
///
/// `O(n log n)`.
pub fn differences(
    baseline: &PerQuery,
    candidate: &PerQuery,
    measure: Measure,
) -> Vec<QueryDifference> {
    let queries = candidate.rows().filter_map(|(query, _)| {
        let (baseline, candidate) = (
            baseline.get(query, measure)?,
            candidate.get(query, measure)?,
        );
        Some(QueryDifference {
            query: query.to_owned(),
            baseline,
            candidate,
        })
    });
    let mut differences: Vec<QueryDifference> = queries.collect();
    // The sort is stable, and rows come in order of id.
    differences.sort_by(|a, b| b.difference().total_cmp(&a.difference()));
    differences
}

#[cfg(test)]
mod tests {
    use super::super::{Qrels, Run, RunEntry, evaluate};
    use super::*;

    #[test]
    fn the_best_difference_comes_first_and_equal_ones_by_id() {
        let measure: Measure = "RR@10".parse().expect("a known measure");
        let mut qrels = Qrels::default();
        for query in ["d", "c", "b", "a"] {
            qrels.insert(query, "tool", 1);
        }
        let scores = |ranks: &[(&str, usize)]| {
            let mut run = Run::default();
            for &(query, rank) in ranks {
                let tools = (1..=rank).map(|place| {
                    if place == rank {
                        "tool".to_owned()
                    } else {
                        place.to_string()
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
        let found = differences(&baseline, &candidate, measure);
        let found: Vec<(&str, f64)> = found
            .iter()
            .map(|one| (one.query.as_str(), one.difference()))
            .collect();
        assert_eq!(found, [("b", 0.5), ("c", 0.5), ("d", 0.0), ("a", -0.5)]);
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
