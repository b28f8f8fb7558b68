//! Source scores: one score per source for a request, with the source of each tool.

use std::ops::Range;
use std::sync::Arc;

use super::super::terms::number;
use crate::ranking::{ScoredTools, ToolId, ToolSet, top_k_eligible};

/// The number of best sources whose tools are always examined. A source may be better evidence for
/// a tool than the tool's own score.
const BEST_SOURCES: usize = 8;

/// One score per source of a catalog, with the source of each tool.
#[derive(Debug, Clone)]
pub(crate) struct SourceScores {
    pub(super) assignment: SourceAssignment,
    pub(super) scores: Vec<f32>,
}

/// The source of each tool.
#[derive(Debug, Clone, Default)]
pub(super) struct SourceAssignment {
    /// The source number of each tool.
    pub(super) numbers: Arc<[u32]>,
    /// The end of each run of tools with one source. Tools of a source are adjacent in most
    /// catalogs, so runs allow sums over slices.
    pub(super) ends: Arc<[usize]>,
}

impl SourceAssignment {
    pub(super) fn new(numbers: Vec<u32>) -> Self {
        let is_end = |end: &usize| numbers.get(*end) != numbers.get(end - 1);
        let ends = (1..=numbers.len()).filter(is_end).collect();
        Self {
            numbers: numbers.into(),
            ends,
        }
    }

    /// Returns the runs of tools with one source, each with the source number.
    pub(super) fn runs(&self) -> impl Iterator<Item = (Range<usize>, usize)> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(self.ends.iter())
            .map(|(start, &end)| (start..end, self.numbers[start] as usize))
    }

    /// Adds the tools of the sources whose score is among the largest of any row and exceeds
    /// `floor`.
    pub(super) fn add_best(&self, rows: &[Vec<f32>], floor: f32, tools: &mut ToolSet) {
        let mut is_best = vec![false; rows.first().map_or(0, Vec::len)];
        let all_sources = vec![true; is_best.len()];
        for scores in rows {
            for best in top_k_eligible(scores, &all_sources, BEST_SOURCES) {
                if best.score > floor {
                    is_best[best.tool.index()] = true;
                }
            }
        }
        if is_best.contains(&true) {
            for (run, _) in self.runs().filter(|(_, source)| is_best[*source]) {
                run.for_each(|tool| tools.add(ToolId::from_index(tool)));
            }
        }
    }
}

impl SourceScores {
    /// Adds the tools of the best sources that score above 0.
    pub(crate) fn add_best(&self, tools: &mut ToolSet) {
        self.assignment
            .add_best(std::slice::from_ref(&self.scores), 0.0, tools);
    }

    /// Returns the score of the source of the tool at a position.
    pub(crate) fn score(&self, position: usize) -> f32 {
        self.scores[self.assignment.numbers[position] as usize]
    }

    /// Keeps the scores of some tools.
    pub(crate) fn restrict(&mut self, scored: &ScoredTools) {
        self.assignment =
            SourceAssignment::new(scored.select(&self.assignment.numbers).into_owned());
    }

    /// Returns the score of each tool's source, in registration order.
    pub(crate) fn by_tool(&self) -> impl Iterator<Item = f32> {
        self.assignment
            .numbers
            .iter()
            .map(|&source| self.scores[source as usize])
    }

    /// Adds the score of each tool's source to the tool's value.
    pub(crate) fn add_to(&self, values: &mut [f32]) {
        for (run, source) in self.assignment.runs() {
            values[run]
                .iter_mut()
                .for_each(|value| *value += self.scores[source]);
        }
    }

    /// Returns the largest score of a source with an eligible tool; negative infinity if there is
    /// none.
    pub(crate) fn best(&self, admitted: &[bool]) -> f32 {
        let runs = self
            .assignment
            .runs()
            .filter(|(run, _)| admitted[run.clone()].contains(&true));
        runs.map(|(_, source)| self.scores[source])
            .fold(f32::NEG_INFINITY, f32::max)
    }

    /// Adds the weighted scores of the same sources.
    pub(crate) fn add(&mut self, weight: f32, others: &Self) {
        self.scores
            .iter_mut()
            .zip(&others.scores)
            .for_each(|(score, other)| *score += weight * other);
    }

    /// Moves each score towards that of `others`, by the factor `share`.
    pub(crate) fn mix(&mut self, others: &Self, share: f32) {
        self.scores
            .iter_mut()
            .zip(&others.scores)
            .for_each(|(score, other)| *score += share * (other - *score));
    }

    /// Returns the same sources with scores of 0.
    pub(crate) fn zeros(&self) -> Self {
        Self {
            assignment: self.assignment.clone(),
            scores: vec![0.0; self.scores.len()],
        }
    }

    /// Appends tools that are single-tool sources with these scores.
    pub(crate) fn with_single_tool_sources(&self, scores: impl Iterator<Item = f32>) -> Self {
        let mut all_scores = self.scores.clone();
        all_scores.extend(scores);
        let new_numbers = (self.scores.len()..all_scores.len()).map(number);
        Self {
            assignment: SourceAssignment::new(
                self.assignment
                    .numbers
                    .iter()
                    .copied()
                    .chain(new_numbers)
                    .collect(),
            ),
            scores: all_scores,
        }
    }

    /// Removes the first `tools` tools.
    pub(crate) fn skip(&mut self, tools: usize) {
        self.assignment = SourceAssignment::new(self.assignment.numbers[tools..].to_vec());
    }
}
