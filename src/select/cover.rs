//! Coverage of a request's subqueries: it finds the tool that adds most to those already chosen.
//!
//! A request with several subqueries needs a tool for each. By relevance alone, the subquery with
//! the strongest words takes all places: the second best tool for it comes before the best tool for
//! another. So the next tool is the one with the largest
//!
//! ```text
//! (1 - λ) P(tool | request)
//!     + λ Σ over subqueries of P(tool | subquery)
//!         × Π over chosen tools of (1 - P(chosen | subquery)) / subqueries
//! ```
//!
//! This is xQuAD (Santos, Macdonald, Ounis 2010) with the subqueries as its aspects. The
//! probabilities are softmaxes over the best candidates. If a subquery has a good tool, that tool
//! is placed first. `docs/results.md` has the measurements and the alternatives that were tried.

use std::collections::VecDeque;

use foldhash::{HashMap, HashMapExt};
use ndarray::Array2;

use crate::fuse::{FusedValues, Retriever};
use crate::index::{Index, Vectors};
use crate::ranking::{Candidate, ToolId};

/// The number of best candidates that are compared.
pub(crate) const POOL: usize = 100;
/// The weight of coverage against relevance to the whole request: λ.
const COVERAGE: f32 = 0.6;
/// The temperature of the softmax. The values separate the best tool from the others, and here
/// several tools may be right.
const TEMPERATURE: f32 = 1.75;

/// The relevance of tools to the subqueries, and the share of each subquery that is still
/// uncovered.
#[derive(Debug, Clone)]
pub(crate) struct Cover {
    /// The column of each tool.
    columns: HashMap<ToolId, usize>,
    /// The probability of each tool for the whole request.
    relevance: Vec<f32>,
    /// The probability of each tool for each subquery; shape: subqueries × tools.
    by_subquery: Array2<f32>,
    /// The uncovered share of each subquery, 0..1.
    uncovered: Vec<f32>,
    /// Tools that are placed first, each with the subquery that it serves.
    good: Vec<(ToolId, usize)>,
}

impl Cover {
    /// Compares the best [`POOL`] candidates of `ranking` and all `good` tools by the signals of
    /// the quick retrievers for each of the `subqueries`.
    pub(crate) fn new<'a>(
        subqueries: impl ExactSizeIterator<Item = &'a FusedValues>,
        good: Vec<(ToolId, usize)>,
        request: &FusedValues,
        ranking: &[Candidate],
    ) -> Self {
        let mut tools: Vec<ToolId> = ranking
            .iter()
            .take(POOL)
            .map(|candidate| candidate.tool)
            .collect();
        for &(tool, _) in &good {
            if !tools.contains(&tool) {
                tools.push(tool);
            }
        }
        let mut by_subquery = Array2::zeros((subqueries.len(), tools.len()));
        for (mut row, subquery) in by_subquery.rows_mut().into_iter().zip(subqueries) {
            // The weights are those of the whole request; otherwise short subqueries would rely on
            // semantic similarity alone.
            for (retriever, weight) in request.fast_weights() {
                if let Some(signal) = subquery.signal(retriever) {
                    for (value, &tool) in row.iter_mut().zip(&tools) {
                        *value += weight * signal.score(tool);
                    }
                }
            }
            softmax(row.iter_mut());
        }
        let mut relevance: Vec<f32> = tools.iter().map(|&tool| request.value(tool)).collect();
        softmax(relevance.iter_mut());
        let mut columns = HashMap::with_capacity(tools.len());
        for (column, tool) in tools.into_iter().enumerate() {
            columns.insert(tool, column);
        }
        Self {
            columns,
            uncovered: vec![1.0; by_subquery.nrows()],
            by_subquery,
            relevance,
            good,
        }
    }

    /// Updates the coverage after a tool was chosen.
    pub(super) fn choose(&mut self, tool: ToolId) {
        if let Some(&column) = self.columns.get(&tool) {
            for (uncovered, probability) in self
                .uncovered
                .iter_mut()
                .zip(self.by_subquery.column(column))
            {
                *uncovered *= 1.0 - probability;
            }
        }
    }

    /// Returns the position of the next of `candidates`, which come best first, with its subquery.
    /// Good tools come first, then the tool that adds most; of equal tools the first. Returns
    /// `None` if no candidate was compared.
    pub(super) fn next(&self, candidates: &VecDeque<Candidate>) -> Option<(usize, usize)> {
        let position = |tool: ToolId| {
            candidates
                .iter()
                .position(|candidate| candidate.tool == tool)
        };
        if let Some(next) = self
            .good
            .iter()
            .find_map(|&(tool, subquery)| Some((position(tool)?, subquery)))
        {
            return Some(next);
        }
        let mut best: Option<(usize, usize, f32)> = None;
        for (position, candidate) in candidates.iter().enumerate() {
            let Some(&column) = self.columns.get(&candidate.tool) else {
                continue;
            };
            let gains = self
                .uncovered
                .iter()
                .zip(self.by_subquery.column(column))
                .map(|(uncovered, probability)| uncovered * probability);
            let (mut sum, mut best_subquery, mut best_gain) = (0.0, 0, 0.0);
            for (subquery, gain) in gains.enumerate() {
                sum += gain;
                if gain > best_gain {
                    (best_subquery, best_gain) = (subquery, gain);
                }
            }
            let value = (1.0 - COVERAGE) * self.relevance[column]
                + COVERAGE * sum / self.uncovered.len() as f32;
            if best.is_none_or(|(.., best_value)| value > best_value) {
                best = Some((position, best_subquery, value));
            }
        }
        best.map(|(position, subquery, _)| (position, subquery))
    }
}

/// Returns the static model's vectors of the catalog.
pub(crate) fn static_vectors(index: &Index) -> Option<&Vectors> {
    index
        .vectors
        .iter()
        .find(|vectors| Retriever::from_embedder(vectors.embedder().as_ref()) == Retriever::Static)
}

/// Turns values into probabilities.
fn softmax<'a>(values: impl Iterator<Item = &'a mut f32>) {
    let mut values: Vec<&mut f32> = values.collect();
    let best = values
        .iter()
        .map(|value| **value)
        .fold(f32::NEG_INFINITY, f32::max);
    values
        .iter_mut()
        .for_each(|value| **value = ((**value - best) / TEMPERATURE).exp());
    let sum: f32 = values.iter().map(|value| **value).sum();
    values.into_iter().for_each(|value| *value /= sum);
}
