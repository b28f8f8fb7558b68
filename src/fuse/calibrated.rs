//! Fused values with the calibration of their request.

use super::calibration::{Calibration, CalibrationBasis};
use super::scores::{FusedScores, scored_tools};
use super::{Fusion, Retriever, Signals};
use crate::access::Eligibility;
use crate::ranking::{ScoredTools, ToolId, largest_eligible, positions_reaching};
use crate::retrieve::Signal;
use crate::sequences::{Gains, PopularityGain};

/// The fused values of all tools with scores, and their mapping to probabilities.
#[derive(Debug)]
pub(crate) struct CalibratedScores {
    pub(crate) scores: FusedScores,
    pub(crate) calibration: Calibration,
}

impl CalibratedScores {
    /// Fuses any of the signals, each at most once. `asks` is the log-odds that the request asks
    /// for something that a tool could do, if that is known.
    pub(crate) fn new(
        signals: Signals,
        method: Fusion,
        eligibility: &Eligibility,
        asks: Option<f32>,
    ) -> Self {
        let scored = scored_tools(&signals, eligibility);
        let admitted = scored.select(eligibility.flags());
        let scores = FusedScores::new(signals, method, eligibility, &admitted);
        let basis = CalibrationBasis {
            eligible: eligibility.admitted_count(),
            asks,
        };
        let calibration = Calibration::new(&scores, &admitted, basis);
        Self {
            scores,
            calibration,
        }
    }

    /// Returns the signals that were fused.
    pub(crate) fn into_signals(self) -> Signals {
        self.scores.into_signals()
    }

    /// Returns the tool's score, 0..1; 0 if no retriever matched. It keeps the order of the values.
    pub(crate) fn score(&self, tool: ToolId) -> f32 {
        self.calibration.score(&self.scores, tool)
    }

    /// Returns the estimated probability that any eligible tool answers the request, 0..1. If
    /// scores are probabilities, it is at least the score of the best tool.
    pub(crate) fn answerable(&self) -> f32 {
        let best = self.calibration.best();
        let best = best.filter(|_| self.scores.method == Fusion::Weighted);
        best.map_or(0.0, |best| self.score(best))
            .max(self.calibration.answerable())
    }

    /// Returns the estimated probability that the request is near the topic of the best tool's
    /// source, if no tool serves it, 0..1. Returns `None` if source scoring is off.
    pub(crate) fn near_source(&self) -> Option<f32> {
        let parts = &self.scores.parts;
        let scores_sources =
            !parts.is_empty() && parts.iter().all(|part| part.signal.sources.is_some());
        if !scores_sources {
            return None;
        }
        self.calibration.near_source(&self.scores)
    }

    /// Raises values by the gains from tools in use.
    pub(crate) fn raised(self, gains: Gains) -> Self {
        let slope = self.calibration.slope();
        let scores = self.scores.raised(gains, slope);
        Self { scores, ..self }
    }

    /// Raises values by popularity.
    pub(crate) fn raised_by_popularity(
        self,
        popular: impl Iterator<Item = (ToolId, PopularityGain)>,
    ) -> Self {
        let slope = self.calibration.slope();
        let scores = self.scores.raised_by_popularity(popular, slope);
        Self { scores, ..self }
    }

    /// Returns `false` if certainly no ineligible tool would be the best one. The check is fast,
    /// and a `true` may be wrong.
    pub(crate) fn may_be_outranked(&self, eligibility: &Eligibility) -> bool {
        let is_ineligible =
            |position: usize| !eligibility.admits(self.scores.scored.tool(position));
        let best = self
            .calibration
            .best()
            .map_or(f32::NEG_INFINITY, |best| self.scores.value(best));
        let has_better_keyword = |signal: &Signal| {
            let mut positions = positions_reaching(&signal.scores, self.scores.best_keyword);
            positions.any(|position| {
                signal.scores[position] > self.scores.best_keyword && is_ineligible(position)
            })
        };
        self.scores.method != Fusion::Weighted
            || !self.scores.gains.is_empty()
            || positions_reaching(&self.scores.values, best).any(is_ineligible)
            || self
                .scores
                .signal(Retriever::Keyword)
                .is_some_and(has_better_keyword)
    }

    /// Compares the tools as if `wider` decided, which admits more tools than `eligible`. Returns
    /// the best tool with its score if it is one of the additional tools.
    pub(crate) fn best_additional(
        &self,
        eligible: &Eligibility,
        wider: &Eligibility,
    ) -> Option<(ToolId, f32)> {
        let is_additional = |tool: &ToolId| !eligible.admits(*tool);
        let keyword = self
            .scores
            .signal(Retriever::Keyword)
            .map(|signal| &signal.scores);
        let flags = self.scores.scored.select(wider.flags());
        let has_better_keyword = keyword
            .is_some_and(|scores| largest_eligible(scores, &flags) > self.scores.best_keyword);
        // Words that no eligible tool contains change the weights, and ranks depend on the other
        // tools.
        if has_better_keyword
            || self.scores.method != Fusion::Weighted
            || !self.scores.gains.is_empty()
        {
            let signals = self
                .scores
                .parts
                .iter()
                .map(|part| (part.retriever, part.signal.clone()));
            let asks = self.calibration.basis().asks;
            let fused = Self::new(signals.collect(), self.scores.method, wider, asks);
            let best = fused.calibration.best().filter(is_additional)?;
            if fused.calibration.is_unsupported() {
                return None;
            }
            return Some((best, fused.score(best)));
        }
        let best = self.scores.top_tools(&flags, 1).first()?.tool;
        if !is_additional(&best) {
            return None;
        }
        let calibration = Calibration::new(&self.scores, &flags, self.calibration.basis());
        let is_supported = !calibration.is_unsupported();
        is_supported.then(|| (best, calibration.score(&self.scores, best)))
    }

    /// Scores the candidates of another catalog, such as skills, together with the eligible tools
    /// of this one. The best candidate of the other catalog alone may be a poor answer. Only
    /// retrievers with signals for both catalogs count.
    pub(crate) fn score_other_catalog(
        &self,
        eligibility: &Eligibility,
        other_signals: Signals,
        other_eligibility: &Eligibility,
    ) -> Self {
        let tools = self.scores.values.len();
        let combined_signals = other_signals.into_iter().filter_map(|(retriever, other)| {
            let signal = self.scores.signal(retriever)?;
            let scores = signal.scores.iter().chain(&other.scores).copied().collect();
            // If source scoring is off for the other catalog, each candidate is a single-tool
            // source.
            let sources = signal.sources.as_ref().map(|sources| match &other.sources {
                Some(others) => sources.with_single_tool_sources(others.by_tool()),
                None => sources.with_single_tool_sources(other.scores.iter().copied()),
            });
            let ceiling = signal.ceiling.max(other.ceiling);
            let scored = ScoredTools::All(tools + other.scores.len());
            let combined = Signal {
                scored,
                scores,
                floor: other.floor,
                ceiling,
                sources,
                examples: None,
                ..other
            };
            Some((retriever, combined))
        });
        let others = other_eligibility
            .admitted()
            .map(|other| ToolId::from_index(tools + other.index()));
        let flags = self.scores.scored.select(eligibility.flags());
        let mut admitted = Vec::new();
        for (position, _) in flags.iter().enumerate().filter(|(_, admitted)| **admitted) {
            admitted.push(ToolId::from_index(position));
        }
        admitted.extend(others);
        let eligibility = Eligibility::only(&admitted, tools + other_eligibility.tools());
        let signals = combined_signals.collect();
        let asks = self.calibration.basis().asks;
        let fused = Self::new(signals, Fusion::Weighted, &eligibility, asks);
        Self {
            scores: fused.scores.skip(tools),
            ..fused
        }
    }
}
