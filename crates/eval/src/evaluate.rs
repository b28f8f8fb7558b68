//! The scores of a run for each query and measure.

use std::collections::BTreeMap;

use super::{Measure, Qrels, Run};

/// The score of every query under every measure, between 0 and 1.
///
/// Scores are kept per query because a mean alone cannot be compared fairly: see
/// [`compare`](super::compare()). Only queries with a relevant judgment have a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PerQuery {
    /// The measures in order, each once; they are the columns of every row.
    measures: Vec<Measure>,
    rows: BTreeMap<String, Vec<f64>>,
    no_answer: usize,
    unanswered: usize,
    unjudged: usize,
}

/// Scores a run against its qrels, query by query.
///
/// Queries with a relevant judgment are scored; if the run does not answer them, they score 0 under
/// every measure.
///
/// Two kinds of queries are counted and left out. For queries that no tool answers, recall and nDCG
/// are not defined. For queries of the run without a judgment, nothing is known. A duplicate
/// measure counts once.
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
/// let entry = |tool: &str| RunEntry { tool: tool.to_owned(), score: 0.5 };
/// let ranking = ["send_email", "get_forecast"].map(entry);
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
        let mut ranking = Vec::new();
        for entry in run.get(query).unwrap_or_default() {
            ranking.push(entry.tool.as_str());
        }
        if ranking.is_empty() {
            result.unanswered += 1;
        }
        let mut row = Vec::new();
        for measure in &result.measures {
            row.push(measure.score(&ranking, judgments));
        }
        result.rows.insert(query.to_owned(), row);
    }
    for (query, _) in run.iter() {
        result.unjudged += usize::from(qrels.get(query).is_none());
    }
    result
}

impl PerQuery {
    /// Returns the measures in order, each once; they are the columns of [`PerQuery::rows`].
    pub fn measures(&self) -> &[Measure] {
        &self.measures
    }

    /// Iterates over the scored queries in order of id, each with one score per measure.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &[f64])> {
        self.rows
            .iter()
            .map(|(query, row)| (query.as_str(), row.as_slice()))
    }

    /// Returns the score of one query under one measure, or `None` if either was not scored.
    pub fn get(&self, query: &str, measure: Measure) -> Option<f64> {
        let column = self.measures.binary_search(&measure).ok()?;
        self.rows.get(query)?.get(column).copied()
    }

    /// Returns `true` if a query was scored.
    pub fn contains(&self, query: &str) -> bool {
        self.rows.contains_key(query)
    }

    /// Returns the number of scored queries: those with a relevant judgment.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns `true` if no query was scored.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the number of judged queries that no tool answers; they are left out of every mean.
    pub fn no_answer(&self) -> usize {
        self.no_answer
    }

    /// Returns the number of scored queries that the run does not answer; they score 0.
    pub fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// Returns the number of queries of the run without a judgment; they are left out.
    pub fn unjudged(&self) -> usize {
        self.unjudged
    }

    /// Returns the mean of each measure over the scored queries; empty without queries.
    pub fn mean(&self) -> BTreeMap<Measure, f64> {
        let mut means = BTreeMap::new();
        if self.is_empty() {
            return means;
        }
        for (column, &measure) in self.measures.iter().enumerate() {
            let sum: f64 = self.rows.values().map(|row| row[column]).sum();
            means.insert(measure, sum / self.len() as f64);
        }
        means
    }
}
