//! Sets that cover a request: what each part of it wants, and which tool adds most to those already
//! chosen.
//!
//! A request of several parts needs a tool for each. By relevance alone the part with the strongest
//! words takes all places, and the second best tool for it is chosen before the best one for
//! another. So the next tool is the one with the largest
//!
//! ```text
//! (1 - λ) P(tool | request) + λ Σ over parts of P(tool | part) × Π over chosen tools of (1 - P(chosen | part)) / parts
//! ```
//!
//! which is xQuAD (Santos, Macdonald, Ounis 2010) with the parts of the request as its aspects. The
//! probabilities are softmaxes over the best candidates. Where a part has a good tool, that has its
//! place before. `docs/results.md` has what it gives, and what else was tried.

use std::collections::VecDeque;

use foldhash::HashMap;
use ndarray::Array2;

use crate::fuse::{Fused, Retriever};
use crate::index::{Index, Vectors};
use crate::ranking::{Candidate, ToolId};

/// How many of the best candidates are compared.
pub(crate) const POOL: usize = 100;
/// How much covering the parts counts against relevance to the whole: λ.
const COVERAGE: f32 = 0.6;
/// Divides values before the softmax: they are made for telling the best tool, and here many may be
/// right.
const TEMPERATURE: f32 = 1.75;

/// What the parts of a request want, and what of it the chosen tools leave open.
#[derive(Debug, Clone)]
pub(crate) struct Cover {
    /// Which column is whose.
    columns: HashMap<ToolId, usize>,
    /// The probability of each tool for the whole request.
    whole: Vec<f32>,
    /// The probability of each tool for each part: shape parts × tools.
    parts: Array2<f32>,
    /// What is still open of each part, 0..1.
    open: Vec<f32>,
    /// Tools that have a place before others, each with the part that it is good for.
    good: Vec<(ToolId, usize)>,
}

impl Cover {
    /// Compares the best [`POOL`] candidates of `ranking`, and the `good` tools of parts wherever
    /// they stand, by what the quick retrievers say of each of the `asked` parts.
    pub(crate) fn new<'a>(
        asked: impl ExactSizeIterator<Item = &'a Fused>,
        good: Vec<(ToolId, usize)>,
        whole: &Fused,
        ranking: &[Candidate],
    ) -> Self {
        let mut tools: Vec<ToolId> = ranking
            .iter()
            .take(POOL)
            .map(|candidate| candidate.tool)
            .collect();
        let behind = good
            .iter()
            .map(|(tool, _)| *tool)
            .filter(|tool| !tools.contains(tool));
        tools.extend(behind.collect::<Vec<_>>());
        let mut parts = Array2::zeros((asked.len(), tools.len()));
        for (mut row, part) in parts.rows_mut().into_iter().zip(asked) {
            // Weighed as in the whole request, or short parts would go by meaning alone.
            for (retriever, weight) in whole.quick_weights() {
                if let Some(signal) = part.signal(retriever) {
                    row.iter_mut()
                        .zip(&tools)
                        .for_each(|(value, &tool)| *value += weight * signal.of(tool));
                }
            }
            softmax(row.iter_mut());
        }
        let mut relevance: Vec<f32> = tools.iter().map(|&tool| whole.value(tool)).collect();
        softmax(relevance.iter_mut());
        let columns = tools
            .into_iter()
            .enumerate()
            .map(|(column, tool)| (tool, column))
            .collect();
        Self {
            columns,
            open: vec![1.0; parts.nrows()],
            parts,
            whole: relevance,
            good,
        }
    }

    /// Notes that a tool is chosen.
    pub(super) fn choose(&mut self, tool: ToolId) {
        if let Some(&column) = self.columns.get(&tool) {
            for (open, part) in self.open.iter_mut().zip(self.parts.column(column)) {
                *open *= 1.0 - part;
            }
        }
    }

    /// Returns which of `candidates`, best first, comes next, and for which part: the good tools of
    /// parts, and then what adds most; `None` where none was compared. Of equal ones the first.
    pub(super) fn next(&self, candidates: &VecDeque<Candidate>) -> Option<(usize, usize)> {
        let place = |wanted: ToolId| {
            candidates
                .iter()
                .position(|candidate| candidate.tool == wanted)
        };
        if let Some(next) = self
            .good
            .iter()
            .find_map(|&(tool, part)| Some((place(tool)?, part)))
        {
            return Some(next);
        }
        let mut best: Option<(usize, usize, f32)> = None;
        for (place, candidate) in candidates.iter().enumerate() {
            let Some(&column) = self.columns.get(&candidate.tool) else {
                continue;
            };
            let gains = self
                .open
                .iter()
                .zip(self.parts.column(column))
                .map(|(open, part)| open * part);
            let (mut sum, mut most) = (0.0, (0, 0.0));
            for (part, gain) in gains.enumerate() {
                sum += gain;
                if gain > most.1 {
                    most = (part, gain);
                }
            }
            let value =
                (1.0 - COVERAGE) * self.whole[column] + COVERAGE * sum / self.open.len() as f32;
            if best.is_none_or(|(.., known)| value > known) {
                best = Some((place, most.0, value));
            }
        }
        best.map(|(place, part, _)| (place, part))
    }
}

/// Returns the vectors that the static model made of the catalog.
pub(crate) fn static_vectors(index: &Index) -> Option<&Vectors> {
    index
        .vectors
        .iter()
        .find(|vectors| Retriever::of(vectors.embedder().as_ref()) == Retriever::Static)
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
