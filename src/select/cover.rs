//! Coverage of a request's subqueries: it finds the tool that adds most to those already chosen.
//!
//! A request with several subqueries needs a tool for each. By relevance alone, the subquery with
//! the strongest words takes all places: the second best tool for it comes before the best tool for
//! another. So the next tool is the one with the largest
//!
//! ```text
//! Σ over subqueries and the whole request of score(tool)
//!     × Π over chosen tools of (1 - score(chosen))
//! ```
//!
//! This is the expected number of subqueries that find their tool (Agrawal and others 2009), with
//! the scores as probabilities. `docs/results.md` has the measurements and the alternatives that
//! were tried.

use std::collections::VecDeque;

use foldhash::{HashMap, HashMapExt};
use ndarray::Array2;

use crate::fuse::{CalibratedScores, Retriever};
use crate::index::{Index, Vectors};
use crate::ranking::{Candidate, ToolId};

/// The number of best candidates that are compared.
pub(crate) const POOL: usize = 100;
/// The largest share of a subquery that one tool covers. Scores are estimates, and the second best
/// tool may be the right one.
const MOST_COVERED: f32 = 0.9;

/// The scores of tools for the subqueries and for the whole request, and the share of each that is
/// still uncovered.
#[derive(Debug, Clone)]
pub(crate) struct Cover {
    /// The column of each tool.
    columns: HashMap<ToolId, usize>,
    /// The score of each tool for each subquery and, in the last row, for the whole request.
    scores: Array2<f32>,
    /// The uncovered share of each row, 0..1.
    uncovered: Vec<f32>,
}

/// The tool that adds most.
pub(super) struct NextTool {
    /// The position among the candidates.
    pub(super) position: usize,
    /// The subquery that it serves best, unless it serves the whole request better.
    pub(super) subquery: Option<usize>,
}

impl Cover {
    /// Compares the best [`POOL`] candidates of `ranking` and all tools of subqueries.
    pub(crate) fn new<'a>(
        subqueries: impl ExactSizeIterator<Item = &'a CalibratedScores>,
        of_subqueries: &[(ToolId, usize)],
        request: &'a CalibratedScores,
        ranking: &[Candidate],
    ) -> Self {
        let best = ranking.iter().take(POOL).map(|candidate| candidate.tool);
        let mut columns = HashMap::new();
        let mut tools = Vec::new();
        for tool in best.chain(of_subqueries.iter().map(|&(tool, _)| tool)) {
            columns.entry(tool).or_insert_with(|| {
                tools.push(tool);
                tools.len() - 1
            });
        }
        let mut scores = Array2::zeros((subqueries.len() + 1, tools.len()));
        for (mut row, fused) in scores
            .rows_mut()
            .into_iter()
            .zip(subqueries.chain([request]))
        {
            if fused.calibration.is_unsupported() {
                continue;
            }
            for (score, &tool) in row.iter_mut().zip(&tools) {
                *score = fused.score(tool);
            }
        }
        Self {
            columns,
            uncovered: vec![1.0; scores.nrows()],
            scores,
        }
    }

    /// Updates the coverage after a tool was chosen.
    pub(super) fn choose(&mut self, tool: ToolId) {
        if let Some(&column) = self.columns.get(&tool) {
            for (uncovered, score) in self.uncovered.iter_mut().zip(self.scores.column(column)) {
                *uncovered *= 1.0 - score.min(MOST_COVERED);
            }
        }
    }

    /// Returns the next of `candidates`, which come best first: the one that adds most; of equal
    /// tools the first. Returns `None` if no candidate was compared.
    pub(super) fn next(&self, candidates: &VecDeque<Candidate>) -> Option<NextTool> {
        let mut best: Option<(NextTool, f32)> = None;
        for (position, candidate) in candidates.iter().enumerate() {
            let Some(&column) = self.columns.get(&candidate.tool) else {
                continue;
            };
            let (mut sum, mut best_row, mut best_gain) = (0.0, None, 0.0);
            for (row, uncovered) in self.uncovered.iter().enumerate() {
                let gain = uncovered * self.scores[[row, column]];
                sum += gain;
                if gain > best_gain {
                    (best_row, best_gain) = (Some(row), gain);
                }
            }
            if best.as_ref().is_none_or(|(_, best_sum)| sum > *best_sum) {
                let subquery = best_row.filter(|row| row + 1 < self.uncovered.len());
                best = Some((NextTool { position, subquery }, sum));
            }
        }
        best.map(|(next, _)| next)
    }
}

/// Returns the static model's vectors of the catalog.
pub(crate) fn static_vectors(index: &Index) -> Option<&Vectors> {
    index
        .vectors
        .iter()
        .find(|vectors| Retriever::from_embedder(vectors.embedder().as_ref()) == Retriever::Static)
}
