//! What sources say of a request: one score per source, and which tools it is of.

use std::ops::Range;
use std::sync::Arc;

use super::super::terms::number;
use crate::ranking::{Scored, ToolId, ToolSet, top_k_of};

/// The tools of how many sources are looked at whatever they say themselves: a source may tell more
/// of a tool than that.
const BEST_SOURCES: usize = 8;

/// One score per source of a catalog, and whose it is.
#[derive(Debug, Clone)]
pub(crate) struct SourceScores {
    pub(super) of: Of,
    pub(super) scores: Vec<f32>,
}

/// Which tool is of which source.
#[derive(Debug, Clone, Default)]
pub(super) struct Of {
    /// The number of each tool's source.
    pub(super) numbers: Arc<[u32]>,
    /// Where each run of tools of one source ends: the tools of a source stand together in most
    /// catalogs, and are added up together then.
    pub(super) ends: Arc<[usize]>,
}

impl Of {
    pub(super) fn new(numbers: Vec<u32>) -> Self {
        let is_end = |at: &usize| numbers.get(*at) != numbers.get(at - 1);
        let ends = (1..=numbers.len()).filter(is_end).collect();
        Self {
            numbers: numbers.into(),
            ends,
        }
    }

    /// Returns the runs of tools of one source, each with the number of that.
    pub(super) fn runs(&self) -> impl Iterator<Item = (Range<usize>, usize)> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(self.ends.iter())
            .map(|(start, &end)| (start..end, self.numbers[start] as usize))
    }

    /// Adds the tools of the sources that have the largest scores of any row and exceed `floor`.
    pub(super) fn add_best(&self, rows: &[Vec<f32>], floor: f32, tools: &mut ToolSet) {
        let mut is_best = vec![false; rows.first().map_or(0, Vec::len)];
        let every = vec![true; is_best.len()];
        let best = rows
            .iter()
            .flat_map(|scores| top_k_of(scores, &every, BEST_SOURCES));
        best.filter(|best| best.score > floor)
            .for_each(|best| is_best[best.tool.index()] = true);
        if is_best.contains(&true) {
            for (run, _) in self.runs().filter(|(_, source)| is_best[*source]) {
                run.for_each(|place| tools.add(ToolId::from_index(place)));
            }
        }
    }
}

impl SourceScores {
    /// Adds the tools of the best sources, as far as these score more than nothing.
    pub(crate) fn add_best(&self, tools: &mut ToolSet) {
        self.of
            .add_best(std::slice::from_ref(&self.scores), 0.0, tools);
    }

    /// Returns the score of the source of the tool at a place.
    pub(crate) fn of(&self, place: usize) -> f32 {
        self.scores[self.of.numbers[place] as usize]
    }

    /// Keeps those of some tools.
    pub(crate) fn restrict(&mut self, scored: &Scored) {
        self.of = Of::new(scored.of(&self.of.numbers).into_owned());
    }

    /// Returns the score of each tool's source, in registration order.
    pub(crate) fn by_tool(&self) -> impl Iterator<Item = f32> {
        self.of
            .numbers
            .iter()
            .map(|&source| self.scores[source as usize])
    }

    /// Adds the score of each tool's source to the tool's value.
    pub(crate) fn add_to(&self, values: &mut [f32]) {
        for (run, source) in self.of.runs() {
            values[run]
                .iter_mut()
                .for_each(|value| *value += self.scores[source]);
        }
    }

    /// Returns the largest score of the sources that have an eligible tool; negative infinity where
    /// none has.
    pub(crate) fn best(&self, admitted: &[bool]) -> f32 {
        let runs = self
            .of
            .runs()
            .filter(|(run, _)| admitted[run.clone()].contains(&true));
        runs.map(|(_, source)| self.scores[source])
            .fold(f32::NEG_INFINITY, f32::max)
    }

    /// Adds scores of the same sources, each as often as `weight` says.
    pub(crate) fn add(&mut self, weight: f32, others: &Self) {
        self.scores
            .iter_mut()
            .zip(&others.scores)
            .for_each(|(score, other)| *score += weight * other);
    }

    /// Moves each score by a share towards that of `others`.
    pub(crate) fn mix(&mut self, others: &Self, share: f32) {
        self.scores
            .iter_mut()
            .zip(&others.scores)
            .for_each(|(score, other)| *score += share * (other - *score));
    }

    /// Returns the same sources with scores of 0.
    pub(crate) fn silent(&self) -> Self {
        Self {
            of: self.of.clone(),
            scores: vec![0.0; self.scores.len()],
        }
    }

    /// Puts tools behind these, each of a source of its own with such a score.
    pub(crate) fn with_lone(&self, scores: impl Iterator<Item = f32>) -> Self {
        let mut both = self.scores.clone();
        both.extend(scores);
        let lone = (self.scores.len()..both.len()).map(number);
        Self {
            of: Of::new(self.of.numbers.iter().copied().chain(lone).collect()),
            scores: both,
        }
    }

    /// Leaves out the first `tools` tools.
    pub(crate) fn skip(&mut self, tools: usize) {
        self.of = Of::new(self.of.numbers[tools..].to_vec());
    }
}
