//! From a run and its qrels to one score per query and measure.

use std::collections::BTreeMap;

use super::{Measure, Qrels, Run};

/// The score of every query under every measure, between 0 and 1.
///
/// Scores are kept per query because a mean alone cannot be compared fairly: see
/// [`compare`](super::compare()). Only queries with a relevant judgment have a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PerQuery {
    /// In order, each once; the columns of every row.
    measures: Vec<Measure>,
    rows: BTreeMap<String, Vec<f64>>,
    no_answer: usize,
    unanswered: usize,
    unjudged: usize,
}

/// Scores a run against its qrels, query by query.
///
/// Queries with a relevant judgment are scored, 0 under every measure when the run does not answer
/// them. Queries that no tool answers are counted and left out, since recall and nDCG divide by
/// what could have been found. Queries of the run without any judgment are counted and left out,
/// since nothing is known about them. A measure given twice counts once.
///
/// # Complexity
///
/// Linear in the queries and measures, and in the cutoff for each.
///
/// ```
/// use picktools_eval::{Qrels, Run, RunEntry, evaluate};
///
/// let mut qrels = Qrels::default();
/// qrels.insert("q1", "get_forecast", 1);
/// let mut run = Run::default();
/// let ranking = ["send_email", "get_forecast"].map(|tool| RunEntry { tool: tool.to_owned(), score: 0.5 });
/// run.insert("q1", ranking.to_vec());
/// let measure = "RR@10".parse()?;
/// assert_eq!(evaluate(&run, &qrels, &[measure]).mean()[&measure], 0.5);
/// # Ok::<(), picktools_eval::EvalError>(())
/// ```
pub fn evaluate(run: &Run, qrels: &Qrels, measures: &[Measure]) -> PerQuery {
    let mut measures = measures.to_vec();
    measures.sort_unstable();
    measures.dedup();
    let mut result = PerQuery {
        measures,
        ..PerQuery::default()
    };
    for (query, judgments) in qrels.iter() {
        if judgments.relevant_len() == 0 {
            result.no_answer += 1;
            continue;
        }
        let ranking: Vec<&str> = run
            .get(query)
            .unwrap_or_default()
            .iter()
            .map(|entry| entry.tool.as_str())
            .collect();
        if ranking.is_empty() {
            result.unanswered += 1;
        }
        let row = result
            .measures
            .iter()
            .map(|measure| measure.score(&ranking, judgments))
            .collect();
        result.rows.insert(query.to_owned(), row);
    }
    result.unjudged = run
        .iter()
        .filter(|(query, _)| qrels.get(query).is_none())
        .count();
    result
}

impl PerQuery {
    /// The measures, in order, each once; the columns of [`PerQuery::rows`].
    pub fn measures(&self) -> &[Measure] {
        &self.measures
    }

    /// The scored queries in order of id, each with one score per measure.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &[f64])> {
        self.rows
            .iter()
            .map(|(query, row)| (query.as_str(), row.as_slice()))
    }

    /// The score of one query under one measure, or `None` when either was not scored.
    pub fn get(&self, query: &str, measure: Measure) -> Option<f64> {
        let column = self.measures.binary_search(&measure).ok()?;
        self.rows.get(query)?.get(column).copied()
    }

    /// Whether a query was scored.
    pub fn contains(&self, query: &str) -> bool {
        self.rows.contains_key(query)
    }

    /// How many queries were scored: those with a relevant judgment.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no query was scored.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many judged queries no tool answers; they are left out of every mean.
    pub fn no_answer(&self) -> usize {
        self.no_answer
    }

    /// How many scored queries the run does not answer; they score 0.
    pub fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// How many queries of the run have no judgment; they are left out.
    pub fn unjudged(&self) -> usize {
        self.unjudged
    }

    /// The mean of each measure over the scored queries; empty when there are none.
    pub fn mean(&self) -> BTreeMap<Measure, f64> {
        if self.is_empty() {
            return BTreeMap::new();
        }
        let columns = self.measures.iter().enumerate();
        columns
            .map(|(column, &measure)| {
                let sum: f64 = self.rows.values().map(|row| row[column]).sum();
                (measure, sum / self.len() as f64)
            })
            .collect()
    }
}
