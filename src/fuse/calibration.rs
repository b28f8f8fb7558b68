//! The calibration: from values to probabilities, and back.
//!
//! The probability is a logistic function of the value, so it keeps the order. Answerability is
//! estimated from the best tool's signals, the number of tools, and two estimates from the request
//! alone: that of the reader ([`crate::reading`]) and that of the static model
//! ([`Embedder::scope`](crate::embed::Embedder::scope)).

use super::fits::{CalibrationFit, EvidenceWeights, ODDS};
use super::scores::FusedScores;
use super::{Fusion, Retriever};
use crate::ranking::ToolId;

/// The largest log-odds that a request asks for something that count. All but small talk reaches
/// them.
const MOST_ASKS: f32 = 2.0;
/// The least log-odds, that a request asks for something and that a tool serves it, with which
/// tools are shown.
const MIN_SUPPORT: f32 = -0.13;
/// The highest answerability of a request whose support is below [`MIN_SUPPORT`]; far below, it
/// approaches 0. On average, about one in nine of these requests has a tool, if four requests of five
/// have one.
const UNSUPPORTED_ANSWERABLE: f32 = 0.3;
/// The additional support per unit of the logarithm by which a catalog is smaller than
/// [`SMALL_CATALOG_END`]. In a small catalog, words and meanings say less about the best tool.
const SMALL_CATALOG_SUPPORT: f32 = 0.3;
/// The number of tools from which a catalog gets no additional support.
const SMALL_CATALOG_END: f32 = 100.0;
/// The additional support in a ranking by keywords alone. They miss requests in other words.
const KEYWORD_SUPPORT: f32 = 0.8;
/// The weights of answerability: of the evidence of the best tool, of the log-odds that the request
/// asks for something, of the static model's estimate if it is below 0, of the logarithm of the
/// number of tools; and the intercept.
const ANSWERABILITY: [f32; 5] = [2.009, 0.723, 0.651, -0.31, 2.107];
/// The correction of scores in the smallest catalog: of the log-odds and of the support, and the
/// intercept.
const SIZE_CORRECTION: [f32; 3] = [1.253, 0.656, -0.34];
/// The number of tools from which scores are not corrected.
const SIZE_CORRECTION_END: f32 = 200.0;
/// The number of best tools that are counted as possible rivals of the best one.
const MAX_RIVALS: usize = 10;

/// The mapping between values and probabilities for one request, estimated from its best tools.
#[derive(Debug)]
pub(crate) struct Calibration {
    fit: &'static CalibrationFit,
    near: &'static EvidenceWeights,
    method: Fusion,
    /// The number of retrievers.
    retrievers: usize,
    basis: CalibrationBasis,
    /// The part of a tool's evidence that is the same for all tools of the request.
    offset: f32,
    /// The largest possible score before the correction for small catalogs, 0..1: the probability
    /// that any eligible tool answers the request, estimated from the tools alone.
    max_score: f32,
    /// The correction of scores for the size of the catalog.
    correction: SizeCorrection,
    /// The log-odds that the request asks for something and that a tool serves it.
    support: f32,
    /// The estimated probability that any eligible tool answers the request, 0..1. It includes the
    /// estimates from the request alone.
    answerable: f32,
    /// The eligible tool with the largest value, if any.
    best: Option<ToolId>,
}

/// The facts about a request that its calibration depends on, besides the scores.
#[derive(Debug, Clone, Copy)]
pub(super) struct CalibrationBasis {
    /// The number of eligible tools.
    pub(super) eligible: usize,
    /// The log-odds that the request asks for something that a tool could do, if that is known.
    pub(super) asks: Option<f32>,
}

impl Calibration {
    /// Estimates the mapping from the best admitted tool and its rivals. `admitted` has one flag
    /// per tool with a score.
    pub(super) fn new(scores: &FusedScores, admitted: &[bool], basis: CalibrationBasis) -> Self {
        let fit = scores.fit.calibration(scores.has_sources());
        let top = scores.top_tools(admitted, MAX_RIVALS);
        let best_value = top.first().map_or(0.0, |best| best.score);
        // The logarithm of the number of best tools that rival the best one.
        let crowd = match scores.method {
            Fusion::Weighted => top
                .iter()
                .map(|tool| (tool.score - best_value).exp())
                .sum::<f32>()
                .max(1.0)
                .ln(),
            Fusion::Rrf { .. } => 0.0,
        };
        let CalibrationFit {
            answerable,
            rivals,
            relevance,
        } = fit;
        let best = top.first().map(|best| best.tool);
        let evidence = scores.evidence(answerable, best) + rivals * crowd;
        let offset = relevance.answerable * evidence + relevance.crowd * crowd
            - relevance.distance * best_value
            + relevance.intercept;
        let mut calibration = Self {
            fit,
            near: &scores.fit.near,
            method: scores.method,
            retrievers: scores.parts.len().max(1),
            basis,
            offset,
            max_score: 0.0,
            correction: SizeCorrection::default(),
            support: f32::NEG_INFINITY,
            answerable: 0.0,
            best,
        };
        if let Some(best) = best.filter(|&best| scores.matched_value(best).is_some()) {
            calibration.estimate(scores, best, evidence);
        }
        calibration
    }

    /// Estimates the probability that the best tool and any tool serve the request.
    fn estimate(&mut self, scores: &FusedScores, best: ToolId, evidence: f32) {
        let asks = self.basis.asks.unwrap_or(MOST_ASKS).min(MOST_ASKS);
        let scope = scores.parts.iter().find_map(|part| part.signal.scope);
        self.support = self.support(scores, best, evidence, asks);
        self.max_score = adjust_odds(logistic(evidence));
        self.answerable = self.answerability(evidence, asks, scope);
        if self.support < MIN_SUPPORT {
            // Nothing is shown, so a tool is unlikely to fit. The factor is 1 at the limit and
            // falls to 0 far below it.
            let below_limit = 2.0 * logistic(self.support - MIN_SUPPORT);
            let most = UNSUPPORTED_ANSWERABLE * below_limit;
            self.answerable = self.answerable.min(most);
            self.max_score = self.max_score.min(most);
        }
        self.correction = SizeCorrection::new(self.basis.eligible, evidence + asks);
    }

    /// Returns the log-odds that the request asks for something and that the best tool serves it.
    fn support(&self, scores: &FusedScores, best: ToolId, evidence: f32, asks: f32) -> f32 {
        let mut support = evidence + asks;
        if scores.example_gain(best) > 0.0 {
            // Whoever gave the example knows that such messages ask for something.
            support = evidence + asks.max(0.0);
        }
        if let [part] = &scores.parts[..]
            && part.retriever == Retriever::Keyword
        {
            support += KEYWORD_SUPPORT;
        }
        let smaller = SMALL_CATALOG_END / self.basis.eligible.max(1) as f32;
        support + SMALL_CATALOG_SUPPORT * smaller.ln().max(0.0)
    }

    /// Combines the evidence of the best tool with the estimates from the request alone.
    fn answerability(&self, evidence: f32, asks: f32, scope: Option<f32>) -> f32 {
        let size = (self.basis.eligible.max(1) as f32).ln();
        let [tools, message, out_of_scope, catalog, intercept] = ANSWERABILITY;
        let scope = scope.unwrap_or_default().min(0.0);
        logistic(
            tools * evidence + message * asks + out_of_scope * scope + catalog * size + intercept,
        )
    }

    pub(super) fn basis(&self) -> CalibrationBasis {
        self.basis
    }

    /// Returns the factor of the value in the logistic function.
    pub(super) fn slope(&self) -> f32 {
        self.fit.relevance.distance
    }

    /// Returns the probability that a tool with this value serves the request. In a weighted sum,
    /// none exceeds the estimated probability that any tool answers the request.
    fn probability(&self, value: f32) -> f32 {
        match self.method {
            Fusion::Weighted => {
                let score = logistic(self.slope() * value + self.offset);
                self.correction.apply(score.min(self.max_score))
            }
            Fusion::Rrf { k } => (value / self.largest_rrf(k)).clamp(0.0, 1.0),
        }
    }

    /// Returns the score of a tool: its probability, or 0 if no retriever matched.
    pub(super) fn score(&self, scores: &FusedScores, tool: ToolId) -> f32 {
        scores
            .matched_value(tool)
            .map_or(0.0, |value| self.probability(value))
    }

    /// Returns the lowest value with which a tool reaches a probability: the inverse of
    /// [`score`](Self::score).
    pub(crate) fn value_at(&self, probability: f32) -> f32 {
        match self.method {
            Fusion::Weighted => {
                let score = self.correction.undo(probability);
                if score > self.max_score {
                    return f32::INFINITY;
                }
                (log_odds(score) - self.offset) / self.slope()
            }
            Fusion::Rrf { k } => probability * self.largest_rrf(k),
        }
    }

    /// Returns the largest probability of a tool.
    #[cfg(test)]
    pub(super) fn largest_probability(&self) -> f32 {
        self.correction.apply(self.max_score)
    }

    /// Returns the sum for a tool that every retriever ranks first.
    fn largest_rrf(&self, k: u32) -> f32 {
        self.retrievers as f32 / (k as f32 + 1.0)
    }

    /// Returns the estimated probability that any eligible tool answers the request, 0..1.
    pub(super) fn answerable(&self) -> f32 {
        self.answerable
    }

    /// Returns `true` if it is more likely that no tool is needed than that the best tool serves
    /// the request. Then no tool is shown.
    pub(crate) fn is_unsupported(&self) -> bool {
        self.method == Fusion::Weighted && self.support < MIN_SUPPORT
    }

    /// Returns `true` if the message probably asks for nothing that a tool could do.
    pub(crate) fn asks_nothing(&self) -> bool {
        self.basis.asks.is_some_and(|asks| asks < 0.0)
    }

    /// Returns the eligible tool with the largest value before increases by priors.
    pub(crate) fn best(&self) -> Option<ToolId> {
        self.best
    }

    /// Returns the estimated probability that the request is near the topic of the best tool's
    /// source, if no tool serves it, 0..1. `scores` are the calibrated ones.
    pub(super) fn near_source(&self, scores: &FusedScores) -> Option<f32> {
        let best = self.best?;
        Some(logistic(scores.evidence(self.near, Some(best))))
    }
}

/// The correction of scores in small catalogs: a linear function of the log-odds.
///
/// The constants of `fits.rs` were fitted on catalogs of hundreds of tools. In a small catalog, the
/// best tool is more often wrong. The correction was fitted on catalogs of 1 to 1,000 tools, and it
/// fades out at 200 tools.
#[derive(Debug, Clone, Copy)]
struct SizeCorrection {
    slope: f32,
    shift: f32,
}

impl Default for SizeCorrection {
    fn default() -> Self {
        Self {
            slope: 1.0,
            shift: 0.0,
        }
    }
}

impl SizeCorrection {
    fn new(tools: usize, support: f32) -> Self {
        let share = 1.0 - (tools.max(1) as f32).ln() / SIZE_CORRECTION_END.ln();
        let share = share.max(0.0);
        let [slope, of_support, intercept] = SIZE_CORRECTION;
        Self {
            slope: 1.0 + share * slope,
            shift: share * (of_support * support + intercept),
        }
    }

    fn apply(self, score: f32) -> f32 {
        if self.is_none() {
            return score;
        }
        logistic(self.slope * log_odds(score) + self.shift)
    }

    /// Returns the score that becomes `score`.
    fn undo(self, score: f32) -> f32 {
        if self.is_none() {
            return score;
        }
        logistic((log_odds(score) - self.shift) / self.slope)
    }

    fn is_none(self) -> bool {
        self.slope <= 1.0
    }
}

/// Converts a probability that was fitted on equally many answerable and unanswerable requests to
/// the expected share of requests. Only the odds are shifted (King and Zeng 2001).
fn adjust_odds(fitted_probability: f32) -> f32 {
    ODDS * fitted_probability / (1.0 + (ODDS - 1.0) * fitted_probability)
}

fn log_odds(probability: f32) -> f32 {
    (probability / (1.0 - probability)).ln()
}

fn logistic(evidence: f32) -> f32 {
    1.0 / (1.0 + (-evidence).exp())
}
