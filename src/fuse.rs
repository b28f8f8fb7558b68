//! Fusion: from signals to one value per tool, and from that value to a score.
//!
//! The value is a weighted sum of the raw signals. BM25 and cosine both behave like evidence that
//! adds up. Scores that are standardised over the tools of a request would hide a difference:
//! between a tool that fits well and one that only fits better than others. One weight depends on
//! the request: the better its best keyword match, the lower the weight of the semantic signals
//! ([`Fit::softening`]). Similar meaning says little between tools that all contain the words.
//! Alternatively, reciprocal rank fusion (Cormack, Clarke, Büttcher 2009) adds up ranks.
//!
//! The score is a logistic function of the value, so it keeps the order. Answerability is estimated
//! from the best tool's signals, the number of tools, and two estimates from the request alone: that
//! of the reader ([`crate::reading`]) and that of the static model ([`Embedder::scope`]).
//! `models/train/fusion` fits the constants, on scores of models that had not seen the requests.
//! `docs/results.md` has the results.

mod fits;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::fits::{Calibration, EvidenceWeights, Fit, ODDS};
use crate::access::Eligibility;
use crate::embed::{Embedder, ModelKind};
use crate::index::SourceScores;
use crate::ranking::{
    Candidate, Ranking, ScoredTools, ToolId, largest_eligible, positions_reaching, top_k,
    top_k_eligible,
};
use crate::retrieve::Signal;
use crate::sequences::{Gain, Gains, PopularityGain};

/// The default constant of reciprocal rank fusion.
pub const DEFAULT_RRF_K: u32 = 60;
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

/// The retrievers that a pick uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The keyword retriever.
    Keyword,
    /// The semantic retriever.
    Semantic,
    /// Both retrievers.
    Hybrid,
}

impl Mode {
    /// Returns the mode's stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keyword => "keyword",
            Self::Semantic => "semantic",
            Self::Hybrid => "hybrid",
        }
    }

    /// Returns `true` if the keyword retriever ranks.
    pub fn uses_keyword(self) -> bool {
        self != Self::Semantic
    }

    /// Returns `true` if the semantic retriever ranks.
    pub fn uses_semantic(self) -> bool {
        self != Self::Keyword
    }
}

/// The method that combines signals to one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "method", rename_all = "snake_case", try_from = "FusionForm")]
pub enum Fusion {
    /// A weighted sum of the signals; the score is an estimated probability of relevance.
    #[default]
    Weighted,
    /// The sum over retrievers of `1 / (k + rank)`; the score is the share of the largest possible
    /// sum.
    Rrf {
        /// The constant of the formula; larger values flatten the difference between ranks.
        k: u32,
    },
}

/// The serialised form of a [`Fusion`], which rejects unknown members.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FusionForm {
    method: Method,
    k: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Method {
    Weighted,
    Rrf,
}

impl TryFrom<FusionForm> for Fusion {
    type Error = &'static str;

    fn try_from(FusionForm { method, k }: FusionForm) -> Result<Self, Self::Error> {
        match (method, k) {
            (Method::Weighted, None) => Ok(Self::Weighted),
            (Method::Weighted, Some(_)) => Err("a weighted sum has no k"),
            (Method::Rrf, k) => Ok(Self::Rrf {
                k: k.unwrap_or(DEFAULT_RRF_K),
            }),
        }
    }
}

/// A component that scores tools for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retriever {
    /// The keyword index.
    Keyword,
    /// The static model.
    Static,
    /// Any other embedding model.
    Model,
}

/// The signals of a request, in the order of [`Retriever`].
pub(crate) type Signals = Vec<(Retriever, Signal)>;

/// The scores that one retriever gives to the tools of a catalog before fusion.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RetrieverScores {
    /// The retriever.
    pub retriever: Retriever,
    /// One score per tool, in registration order; higher is better.
    pub scores: Vec<f32>,
    /// The upper bound of a score for this request.
    pub ceiling: f32,
    /// Logarithm of the odds that tools serve such a request at all, estimated from the request
    /// alone. `None` if the retriever gives no estimate.
    pub scope: Option<f32>,
    /// The score of each tool's source; `None` if source scoring is off.
    pub sources: Option<Vec<f32>>,
}

impl From<(Retriever, Signal)> for RetrieverScores {
    fn from(
        (
            retriever,
            Signal {
                scores,
                ceiling,
                scope,
                sources,
                ..
            },
        ): (Retriever, Signal),
    ) -> Self {
        let sources = sources.map(|sources| sources.by_tool().collect());
        Self {
            retriever,
            scores,
            ceiling,
            scope,
            sources,
        }
    }
}

impl Retriever {
    /// Returns the retriever's stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keyword => "keyword",
            Self::Static => "static",
            Self::Model => "model",
        }
    }

    /// Returns the retriever of an embedding model.
    pub(crate) fn from_embedder(embedder: &dyn Embedder) -> Self {
        match embedder.kind() {
            ModelKind::Static => Self::Static,
            ModelKind::Contextual => Self::Model,
        }
    }
}

/// The contribution of one signal to the fused value of every tool.
#[derive(Debug)]
pub(crate) struct WeightedSignal {
    pub(crate) retriever: Retriever,
    pub(crate) signal: Signal,
    /// The weight of the signal in the value, for this request.
    pub(crate) weight: f32,
    /// The weight of the source score in the value, for this request.
    pub(crate) source_weight: f32,
}

/// The increase of a tool's value by priors.
#[derive(Debug)]
pub(crate) struct ValueIncrease {
    pub(crate) gains: Vec<Gain>,
    pub(crate) popular: Option<PopularityGain>,
    /// The increase of the value.
    pub(crate) value: f32,
    /// The value before the increase.
    base_value: f32,
}

/// The fused values of all tools.
#[derive(Debug)]
pub(crate) struct FusedValues {
    pub(crate) parts: Vec<WeightedSignal>,
    pub(crate) method: Fusion,
    calibration: &'static Calibration,
    near: &'static EvidenceWeights,
    /// The tools that have values.
    pub(crate) scored: ScoredTools,
    values: Vec<f32>,
    /// The contribution of sources to the values of their tools; `None` if source scoring is off.
    sources: Option<SourceScores>,
    /// The increases of values by tools in use and by popularity.
    pub(crate) gains: BTreeMap<ToolId, ValueIncrease>,
    /// The best keyword score of an eligible tool.
    best_keyword: f32,
    /// The largest share of the possible keyword score that an eligible tool reaches, 0..1.
    coverage: f32,
    /// The log-odds that the request asks for something that a tool could do, if that is known.
    asks: Option<f32>,
    /// The number of eligible tools.
    eligible: usize,
    estimate: RequestEstimate,
}

/// The estimate for a request from its best tools.
#[derive(Debug, Default)]
struct RequestEstimate {
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

impl FusedValues {
    /// Fuses any of the signals, each at most once. `asks` is the log-odds that the request asks
    /// for something that a tool could do, if that is known.
    pub(crate) fn new(
        signals: Signals,
        method: Fusion,
        eligibility: &Eligibility,
        asks: Option<f32>,
    ) -> Self {
        let retrievers: Vec<Retriever> = signals.iter().map(|(retriever, _)| *retriever).collect();
        let fit = Fit::for_retrievers(&retrievers);
        let scored = signals
            .first()
            .map_or(ScoredTools::All(eligibility.tools()), |(_, signal)| {
                signal.scored.clone()
            });
        let flags = scored.select(eligibility.flags());
        let best_score = |signal: &Signal| largest_eligible(&signal.scores, &flags).max(0.0);
        let keyword = signals
            .iter()
            .find(|(retriever, _)| *retriever == Retriever::Keyword);
        let (best_keyword, ceiling) = keyword.map_or((0.0, 0.0), |(_, signal)| {
            (best_score(signal), signal.ceiling)
        });
        let parts: Vec<WeightedSignal> = signals
            .into_iter()
            .map(|(retriever, signal)| {
                let weight = fit.weight(retriever, best_keyword);
                let source_weight = fit.source_weight(retriever, best_keyword);
                WeightedSignal {
                    retriever,
                    signal,
                    weight,
                    source_weight,
                }
            })
            .collect();
        let mut values = vec![0.0; scored.len()];
        let sources = match method {
            Fusion::Weighted => add_weighted(&parts, &mut values),
            Fusion::Rrf { k } => {
                for part in &parts {
                    add_reciprocal_ranks(&part.signal, k, eligibility, &mut values);
                }
                None
            }
        };
        let coverage = if ceiling > 0.0 {
            best_keyword / ceiling
        } else {
            0.0
        };
        let calibration = fit.calibration(parts.iter().any(|part| part.signal.sources.is_some()));
        let mut fused = Self {
            parts,
            method,
            calibration,
            near: &fit.near,
            scored,
            values,
            sources,
            gains: BTreeMap::new(),
            best_keyword,
            coverage,
            asks,
            eligible: eligibility.admitted_count(),
            estimate: RequestEstimate::default(),
        };
        fused.estimate = fused.estimate_request(&flags);
        fused
    }

    /// Returns `false` if certainly no ineligible tool would be the best one. The check is fast,
    /// and a `true` may be wrong.
    pub(crate) fn may_be_outranked(&self, eligibility: &Eligibility) -> bool {
        let is_ineligible = |position: usize| !eligibility.admits(self.scored.tool(position));
        let best = self
            .best()
            .map_or(f32::NEG_INFINITY, |best| self.value(best));
        let has_better_keyword = |signal: &Signal| {
            let mut positions = positions_reaching(&signal.scores, self.best_keyword);
            positions.any(|position| {
                signal.scores[position] > self.best_keyword && is_ineligible(position)
            })
        };
        self.method != Fusion::Weighted
            || !self.gains.is_empty()
            || positions_reaching(&self.values, best).any(is_ineligible)
            || self
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
        let keyword = self.signal(Retriever::Keyword).map(|signal| &signal.scores);
        let flags = self.scored.select(wider.flags());
        let has_better_keyword =
            keyword.is_some_and(|scores| largest_eligible(scores, &flags) > self.best_keyword);
        // Words that no eligible tool contains change the weights, and ranks depend on the other
        // tools.
        if has_better_keyword || self.method != Fusion::Weighted || !self.gains.is_empty() {
            let signals = self
                .parts
                .iter()
                .map(|part| (part.retriever, part.signal.clone()));
            let fused = Self::new(signals.collect(), self.method, wider, self.asks);
            let best = fused.best().filter(is_additional)?;
            if fused.is_unsupported() {
                return None;
            }
            return Some((best, fused.score(best)));
        }
        let best = self.top_tools(&flags, 1).first()?.tool;
        if !is_additional(&best) {
            return None;
        }
        let estimate = self.estimate_request(&flags);
        let is_supported = estimate.support >= MIN_SUPPORT;
        is_supported.then(|| (best, self.score_with(best, &estimate)))
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
        let tools = self.values.len();
        let combined_signals = other_signals.into_iter().filter_map(|(retriever, other)| {
            let signal = self.signal(retriever)?;
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
        let flags = self.scored.select(eligibility.flags());
        let mut admitted = Vec::new();
        for (position, _) in flags.iter().enumerate().filter(|(_, admitted)| **admitted) {
            admitted.push(ToolId::from_index(position));
        }
        admitted.extend(others);
        let eligibility = Eligibility::only(&admitted, tools + other_eligibility.tools());
        let signals = combined_signals.collect();
        let mut fused = Self::new(signals, Fusion::Weighted, &eligibility, self.asks);
        fused.values.drain(..tools);
        fused.scored = ScoredTools::All(other_eligibility.tools());
        for part in &mut fused.parts {
            part.signal.scored = fused.scored.clone();
            part.signal.scores.drain(..tools);
            part.signal
                .sources
                .iter_mut()
                .for_each(|sources| sources.skip(tools));
        }
        fused
            .sources
            .iter_mut()
            .for_each(|sources| sources.skip(tools));
        fused
    }

    /// Computes the estimate for the request from the best admitted tool and its rivals.
    fn estimate_request(&self, admitted: &[bool]) -> RequestEstimate {
        let top = self.top_tools(admitted, MAX_RIVALS);
        let best = top.first().copied();
        let best_value = best.map_or(0.0, |best| best.score);
        // The logarithm of the number of best tools that rival the best one.
        let crowd = match self.method {
            Fusion::Weighted => top
                .iter()
                .map(|tool| (tool.score - best_value).exp())
                .sum::<f32>()
                .max(1.0)
                .ln(),
            Fusion::Rrf { .. } => 0.0,
        };
        let Calibration {
            answerable,
            rivals,
            relevance,
        } = self.calibration;
        let best = best.map(|best| best.tool);
        let evidence = self.evidence(answerable, best) + rivals * crowd;
        let offset = relevance.answerable * evidence + relevance.crowd * crowd
            - relevance.distance * best_value
            + relevance.intercept;
        let scope = self.parts.iter().find_map(|part| part.signal.scope);
        let matched = best.is_some_and(|best| self.matched(best));
        let mut estimate = RequestEstimate {
            offset,
            best,
            ..RequestEstimate::default()
        };
        if let Some(best) = best.filter(|_| matched) {
            let asks = self.asks.unwrap_or(MOST_ASKS).min(MOST_ASKS);
            estimate.support = self.support(best, evidence, asks);
            estimate.max_score = adjust_odds(logistic(evidence));
            estimate.answerable = self.answerability(evidence, asks, scope);
            if estimate.support < MIN_SUPPORT {
                // Nothing is shown, so a tool is unlikely to fit. The factor is 1 at the limit and
                // falls to 0 far below it.
                let below_limit = 2.0 * logistic(estimate.support - MIN_SUPPORT);
                let most = UNSUPPORTED_ANSWERABLE * below_limit;
                estimate.answerable = estimate.answerable.min(most);
                estimate.max_score = estimate.max_score.min(most);
            }
            estimate.correction = SizeCorrection::new(self.eligible, evidence + asks);
        } else {
            estimate.support = f32::NEG_INFINITY;
        }
        estimate
    }

    /// Returns the log-odds that the request asks for something and that the best tool serves it.
    fn support(&self, best: ToolId, evidence: f32, asks: f32) -> f32 {
        let mut support = evidence + asks;
        if self.example_gain(best) > 0.0 {
            // Whoever gave the example knows that such messages ask for something.
            support = evidence + asks.max(0.0);
        }
        if let [part] = &self.parts[..]
            && part.retriever == Retriever::Keyword
        {
            support += KEYWORD_SUPPORT;
        }
        let smaller = SMALL_CATALOG_END / self.eligible.max(1) as f32;
        support + SMALL_CATALOG_SUPPORT * smaller.ln().max(0.0)
    }

    /// Combines the evidence of the best tool with the estimates from the request alone.
    fn answerability(&self, evidence: f32, asks: f32, scope: Option<f32>) -> f32 {
        let size = (self.eligible.max(1) as f32).ln();
        let [tools, message, out_of_scope, catalog, intercept] = ANSWERABILITY;
        let scope = scope.unwrap_or_default().min(0.0);
        logistic(
            tools * evidence + message * asks + out_of_scope * scope + catalog * size + intercept,
        )
    }

    /// Returns `true` if it is more likely that no tool is needed than that the best tool serves
    /// the request. Then no tool is shown.
    pub(crate) fn is_unsupported(&self) -> bool {
        self.method == Fusion::Weighted && self.estimate.support < MIN_SUPPORT
    }

    /// Returns `true` if the message probably asks for nothing that a tool could do.
    pub(crate) fn asks_nothing(&self) -> bool {
        self.asks.is_some_and(|asks| asks < 0.0)
    }

    /// Adds up the evidence of the best tool, its source and the keyword coverage.
    fn evidence(&self, weights: &EvidenceWeights, best: Option<ToolId>) -> f32 {
        let best_tool_evidence = best.map_or(0.0, |best| {
            let signal_evidence = |part: &WeightedSignal| {
                let weight = weights.signals.get(part.retriever)
                    + self.coverage * weights.covered.get(part.retriever);
                let source_score = part.signal.source_score(best).unwrap_or_default();
                weight * part.signal.score(best)
                    + weights.sources.get(part.retriever) * source_score
            };
            self.parts.iter().map(signal_evidence).sum()
        });
        best_tool_evidence + weights.coverage * self.coverage + weights.intercept
    }

    /// Raises values by the gains from tools in use. A score is a logistic function of the value.
    /// So a gain of one nat is divided by the slope of that function, and the odds of a tool grow
    /// by the ratio. Ranks cannot be raised.
    pub(crate) fn raise(&mut self, gains: Gains) {
        for (tool, gains) in gains {
            let Some(position) = self.scored.position(tool) else {
                continue;
            };
            let base_value = self.values[position];
            let log_ratio: f32 = gains.iter().map(|gain| gain.log_ratio).sum();
            let value = log_ratio / self.calibration.relevance.distance;
            self.values[position] = base_value + value;
            self.gains.insert(
                tool,
                ValueIncrease {
                    gains,
                    popular: None,
                    value,
                    base_value,
                },
            );
        }
    }

    /// Raises values by popularity, as [`Self::raise`] does for tools in use.
    pub(crate) fn raise_popular(
        &mut self,
        popular: impl Iterator<Item = (ToolId, PopularityGain)>,
    ) {
        for (tool, popular) in popular {
            let Some(position) = self.scored.position(tool) else {
                continue;
            };
            let base_value = self.values[position];
            let value = popular.log_ratio / self.calibration.relevance.distance;
            self.values[position] = base_value + value;
            let none = ValueIncrease {
                gains: Vec::new(),
                popular: None,
                value: 0.0,
                base_value,
            };
            let increase = self.gains.entry(tool).or_insert(none);
            increase.value += value;
            increase.popular = Some(popular);
        }
    }

    /// Returns the tool's value before increases by priors.
    pub(crate) fn base_value(&self, tool: ToolId) -> f32 {
        self.gains
            .get(&tool)
            .map_or_else(|| self.value(tool), |increase| increase.base_value)
    }

    /// Returns the estimated probability that the request is near the topic of the best tool's
    /// source, if no tool serves it, 0..1. Returns `None` if source scoring is off.
    pub(crate) fn near_source(&self) -> Option<f32> {
        let has_sources = |part: &WeightedSignal| part.signal.sources.is_some();
        let best = self.best()?;
        let scores_sources = !self.parts.is_empty() && self.parts.iter().all(has_sources);
        scores_sources.then(|| logistic(self.evidence(self.near, Some(best))))
    }

    /// Returns the eligible tool with the largest value before increases by priors.
    pub(crate) fn best(&self) -> Option<ToolId> {
        self.estimate.best
    }

    /// Returns the admitted tools with the largest values, in order.
    fn top_tools(&self, admitted: &[bool], count: usize) -> Ranking {
        let mut ranking = top_k_eligible(&self.values, admitted, count);
        ranking
            .iter_mut()
            .for_each(|candidate| candidate.tool = self.scored.tool(candidate.tool.index()));
        ranking
    }

    /// Returns `true` if the tool has a value. In a large catalog only tools near the request have
    /// one.
    pub(crate) fn has(&self, tool: ToolId) -> bool {
        self.scored.position(tool).is_some()
    }

    /// Returns the tool's fused value, which orders the tools; negative infinity if it has none.
    pub(crate) fn value(&self, tool: ToolId) -> f32 {
        self.scored
            .position(tool)
            .map_or(f32::NEG_INFINITY, |position| self.values[position])
    }

    /// Returns the largest contribution of a source to the value of an admitted tool; negative
    /// infinity if source scoring is off.
    pub(crate) fn best_source(&self, admitted: &[bool]) -> f32 {
        self.sources
            .as_ref()
            .map_or(f32::NEG_INFINITY, |sources| sources.best(admitted))
    }

    /// Returns the contribution of the tool's source to its value; `None` if source scoring is off.
    pub(crate) fn source_gain(&self, tool: ToolId) -> Option<f32> {
        Some(self.sources.as_ref()?.score(self.scored.position(tool)?))
    }

    /// Returns the contribution of the tool's examples to its value.
    pub(crate) fn example_gain(&self, tool: ToolId) -> f32 {
        let parts = self
            .parts
            .iter()
            .filter(|_| self.method == Fusion::Weighted);
        parts
            .filter_map(|part| Some(part.weight * part.signal.example_gain(tool)?))
            .sum()
    }

    /// Returns the value of the example at a position, as if it were a tool without a source.
    pub(crate) fn example_value(&self, position: usize) -> f32 {
        self.parts
            .iter()
            .filter_map(|part| Some(part.weight * part.signal.examples.as_ref()?.scores[position]))
            .sum()
    }

    /// Returns the signal of a retriever, if it was used.
    pub(crate) fn signal(&self, retriever: Retriever) -> Option<&Signal> {
        self.parts
            .iter()
            .find(|part| part.retriever == retriever)
            .map(|part| &part.signal)
    }

    /// Returns `true` if any retriever matched the tool or its source.
    fn matched(&self, tool: ToolId) -> bool {
        let weighted = self.method == Fusion::Weighted;
        self.parts.iter().any(|WeightedSignal { signal, .. }| {
            let source_matches = signal
                .source_score(tool)
                .is_some_and(|score| score > signal.floor);
            signal.score(tool) > signal.floor || weighted && source_matches
        })
    }

    /// Returns `true` if the tool has at least the value `min_value`, both with and without
    /// increases by priors. Habits may reorder tools, but are not evidence that a tool is needed.
    pub(crate) fn reaches(&self, tool: ToolId, min_value: f32) -> bool {
        self.value(tool) >= min_value
            && (self.gains.is_empty() || self.base_value(tool) >= min_value)
    }

    /// Returns the eligible tools that any retriever matched and that reach the value `min_value`,
    /// in registration order.
    pub(crate) fn candidates(
        &self,
        eligibility: &Eligibility,
        min_value: f32,
    ) -> impl Iterator<Item = Candidate> {
        positions_reaching(&self.values, min_value)
            .map(|position| self.scored.tool(position))
            .filter(move |&tool| {
                eligibility.admits(tool) && self.reaches(tool, min_value) && self.matched(tool)
            })
            .map(|tool| Candidate {
                tool,
                score: self.value(tool),
            })
    }

    /// Returns the tool's score, 0..1; 0 if no retriever matched. It keeps the order of the values.
    /// In a weighted sum, no score exceeds the estimated probability that any tool answers the
    /// request.
    pub(crate) fn score(&self, tool: ToolId) -> f32 {
        self.score_with(tool, &self.estimate)
    }

    fn score_with(&self, tool: ToolId, estimate: &RequestEstimate) -> f32 {
        if !self.matched(tool) {
            return 0.0;
        }
        let value = self.value(tool);
        match self.method {
            Fusion::Weighted => {
                let score = logistic(self.calibration.relevance.distance * value + estimate.offset);
                estimate.correction.apply(score.min(estimate.max_score))
            }
            Fusion::Rrf { k } => (value / self.largest_rrf(k)).clamp(0.0, 1.0),
        }
    }

    /// Returns the lowest value with which a tool reaches `score`: the inverse of
    /// [`FusedValues::score`].
    pub(crate) fn value_at(&self, score: f32) -> f32 {
        match self.method {
            Fusion::Weighted => {
                let score = self.estimate.correction.undo(score);
                if score > self.estimate.max_score {
                    return f32::INFINITY;
                }
                (log_odds(score) - self.estimate.offset) / self.calibration.relevance.distance
            }
            Fusion::Rrf { k } => score * self.largest_rrf(k),
        }
    }

    /// Returns the estimated probability that any eligible tool answers the request, 0..1. If
    /// scores are probabilities, it is at least the score of the best tool.
    pub(crate) fn answerable(&self) -> f32 {
        let best = self.best().filter(|_| self.method == Fusion::Weighted);
        best.map_or(0.0, |best| self.score(best))
            .max(self.estimate.answerable)
    }

    /// Returns the sum for a tool that every retriever ranks first.
    fn largest_rrf(&self, k: u32) -> f32 {
        self.parts.len().max(1) as f32 / (k as f32 + 1.0)
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

/// Adds the weighted signals to the values. Returns the contribution of sources, which the values
/// include; `None` if source scoring is off.
fn add_weighted(parts: &[WeightedSignal], values: &mut [f32]) -> Option<SourceScores> {
    let mut sources: Option<SourceScores> = None;
    for WeightedSignal {
        signal,
        weight,
        source_weight,
        ..
    } in parts
    {
        values
            .iter_mut()
            .zip(&signal.scores)
            .for_each(|(value, score)| *value += weight * score);
        if let Some(scores) = &signal.sources {
            sources
                .get_or_insert_with(|| scores.zeros())
                .add(*source_weight, scores);
        }
    }
    if let Some(sources) = &sources {
        sources.add_to(values);
    }
    sources
}

fn log_odds(probability: f32) -> f32 {
    (probability / (1.0 - probability)).ln()
}

fn logistic(evidence: f32) -> f32 {
    1.0 / (1.0 + (-evidence).exp())
}

/// Adds the reciprocal ranks of one signal, in which all tools have scores.
fn add_reciprocal_ranks(signal: &Signal, k: u32, eligibility: &Eligibility, values: &mut [f32]) {
    let ranking = top_k(signal.matches(eligibility), usize::MAX);
    for (index, candidate) in ranking.iter().enumerate() {
        values[candidate.tool.index()] += 1.0 / (k as f32 + 1.0 + index as f32);
    }
}
