//! The fused values: one value per tool, with the signals that it was fused from.

use std::collections::BTreeMap;

use super::fits::{EvidenceWeights, Fit};
use super::{Fusion, Retriever, Signals};
use crate::access::Eligibility;
use crate::index::SourceScores;
use crate::ranking::{
    Candidate, Ranking, ScoredTools, ToolId, largest_eligible, positions_reaching, top_k,
    top_k_eligible,
};
use crate::retrieve::Signal;
use crate::sequences::{Gain, Gains, PopularityGain};

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

/// The fused values of all tools with scores.
#[derive(Debug)]
pub(crate) struct FusedScores {
    /// The fitted constants for these retrievers.
    pub(super) fit: &'static Fit,
    pub(crate) parts: Vec<WeightedSignal>,
    pub(crate) method: Fusion,
    /// The tools that have values.
    pub(crate) scored: ScoredTools,
    pub(super) values: Vec<f32>,
    /// The contribution of sources to the values of their tools; `None` if source scoring is off.
    pub(super) sources: Option<SourceScores>,
    /// The increases of values by tools in use and by popularity.
    pub(crate) gains: BTreeMap<ToolId, ValueIncrease>,
    /// The best keyword score of an eligible tool.
    pub(super) best_keyword: f32,
    /// The largest share of the possible keyword score that an eligible tool reaches, 0..1.
    coverage: f32,
}

impl FusedScores {
    /// Fuses any of the signals, each at most once. `admitted` has the flag of `eligibility` for
    /// each tool with a score.
    pub(super) fn new(
        signals: Signals,
        method: Fusion,
        eligibility: &Eligibility,
        admitted: &[bool],
    ) -> Self {
        let retrievers: Vec<Retriever> = signals.iter().map(|(retriever, _)| *retriever).collect();
        let fit = Fit::for_retrievers(&retrievers);
        let scored = scored_tools(&signals, eligibility);
        let best_score = |signal: &Signal| largest_eligible(&signal.scores, admitted).max(0.0);
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
        Self {
            fit,
            parts,
            method,
            scored,
            values,
            sources,
            gains: BTreeMap::new(),
            best_keyword,
            coverage,
        }
    }

    /// Returns the signals that were fused.
    pub(super) fn into_signals(self) -> Signals {
        let mut signals = Signals::with_capacity(self.parts.len());
        for part in self.parts {
            signals.push((part.retriever, part.signal));
        }
        signals
    }

    /// Returns the scores without those of the first `tools` tools. All tools must have scores.
    pub(super) fn skip(mut self, tools: usize) -> Self {
        self.values.drain(..tools);
        self.scored = ScoredTools::All(self.values.len());
        for part in &mut self.parts {
            part.signal.scored = self.scored.clone();
            part.signal.scores.drain(..tools);
            if let Some(sources) = &mut part.signal.sources {
                sources.skip(tools);
            }
        }
        if let Some(sources) = &mut self.sources {
            sources.skip(tools);
        }
        self
    }

    /// Returns `true` if sources are scored.
    pub(super) fn has_sources(&self) -> bool {
        self.parts.iter().any(|part| part.signal.sources.is_some())
    }

    /// Adds up the evidence of the best tool, its source and the keyword coverage.
    pub(super) fn evidence(&self, weights: &EvidenceWeights, best: Option<ToolId>) -> f32 {
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
    /// So a gain of one nat is divided by `slope`, that of this function, and the odds of a tool
    /// grow by the ratio. Ranks cannot be raised.
    pub(super) fn raised(mut self, gains: Gains, slope: f32) -> Self {
        for (tool, gains) in gains {
            let Some(position) = self.scored.position(tool) else {
                continue;
            };
            let base_value = self.values[position];
            let log_ratio: f32 = gains.iter().map(|gain| gain.log_ratio).sum();
            let value = log_ratio / slope;
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
        self
    }

    /// Raises values by popularity, as [`Self::raised`] does for tools in use.
    pub(super) fn raised_by_popularity(
        mut self,
        popular: impl Iterator<Item = (ToolId, PopularityGain)>,
        slope: f32,
    ) -> Self {
        for (tool, popular) in popular {
            let Some(position) = self.scored.position(tool) else {
                continue;
            };
            let base_value = self.values[position];
            let value = popular.log_ratio / slope;
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
        self
    }

    /// Returns the tool's value before increases by priors.
    fn base_value(&self, tool: ToolId) -> f32 {
        self.gains
            .get(&tool)
            .map_or_else(|| self.value(tool), |increase| increase.base_value)
    }

    /// Returns the admitted tools with the largest values, in order.
    pub(super) fn top_tools(&self, admitted: &[bool], count: usize) -> Ranking {
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
    pub(super) fn signal(&self, retriever: Retriever) -> Option<&Signal> {
        self.parts
            .iter()
            .find(|part| part.retriever == retriever)
            .map(|part| &part.signal)
    }

    /// Returns the tool's fused value, or `None` if no retriever matched the tool or its source.
    pub(super) fn matched_value(&self, tool: ToolId) -> Option<f32> {
        match self.scored.position(tool) {
            Some(position) => self.matches_at(position).then(|| self.values[position]),
            // Tools without scores have the score 0.
            None => {
                let mut floors = self.parts.iter().map(|part| part.signal.floor);
                floors.any(|floor| floor < 0.0).then_some(f32::NEG_INFINITY)
            }
        }
    }

    /// Returns `true` if any retriever matched the tool at a position or its source.
    fn matches_at(&self, position: usize) -> bool {
        let weighted = self.method == Fusion::Weighted;
        self.parts.iter().any(|WeightedSignal { signal, .. }| {
            let source_matches = || {
                let sources = signal.sources.as_ref();
                sources.is_some_and(|sources| sources.score(position) > signal.floor)
            };
            signal.scores[position] > signal.floor || weighted && source_matches()
        })
    }

    /// Returns `true` if the tool has at least the value `min_value`, both with and without
    /// increases by priors. Habits may reorder tools, but are not evidence that a tool is needed.
    pub(crate) fn reaches(&self, tool: ToolId, min_value: f32) -> bool {
        self.value(tool) >= min_value && self.base_reaches(tool, min_value)
    }

    /// Returns `true` if the tool, which reaches the value `min_value`, does so without increases
    /// by priors.
    fn base_reaches(&self, tool: ToolId, min_value: f32) -> bool {
        self.gains.is_empty() || self.base_value(tool) >= min_value
    }

    /// Returns the eligible tools that any retriever matched and that reach the value `min_value`,
    /// in registration order.
    pub(crate) fn candidates(&self, eligibility: &Eligibility, min_value: f32) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        // Positions are many if nearly all tools reach the value, so they are not pulled one by one.
        positions_reaching(&self.values, min_value).for_each(|position| {
            let tool = self.scored.tool(position);
            if eligibility.admits(tool)
                && self.base_reaches(tool, min_value)
                && self.matches_at(position)
            {
                let score = self.values[position];
                candidates.push(Candidate { tool, score });
            }
        });
        candidates
    }

    /// Returns the best `count` of [`candidates`](Self::candidates), in order.
    pub(crate) fn best_candidates(
        &self,
        eligibility: &Eligibility,
        min_value: f32,
        count: usize,
    ) -> Ranking {
        let is_candidate = |candidate: &Candidate| {
            let tool = candidate.tool;
            eligibility.admits(tool)
                && self.base_reaches(tool, min_value)
                && self.matched_value(tool).is_some()
        };
        let mut best = self.top_tools(&self.scored.select(eligibility.flags()), count);
        let reaching = best.partition_point(|candidate| candidate.score >= min_value);
        let has_all = best.len() < count || reaching < best.len();
        best.truncate(reaching);
        if has_all {
            best.retain(is_candidate);
            return best;
        }
        if best.iter().all(is_candidate) {
            return best;
        }
        // A tool that is not a candidate took the place of another one.
        top_k(self.candidates(eligibility, min_value).into_iter(), count)
    }
}

/// Returns the tools that the signals score; all signals score the same ones.
pub(super) fn scored_tools(signals: &Signals, eligibility: &Eligibility) -> ScoredTools {
    match signals.first() {
        Some((_, signal)) => signal.scored.clone(),
        None => ScoredTools::All(eligibility.tools()),
    }
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

/// Adds the reciprocal ranks of one signal, in which all tools have scores.
fn add_reciprocal_ranks(signal: &Signal, k: u32, eligibility: &Eligibility, values: &mut [f32]) {
    let ranking = top_k(signal.matches(eligibility), usize::MAX);
    for (index, candidate) in ranking.iter().enumerate() {
        values[candidate.tool.index()] += 1.0 / (k as f32 + 1.0 + index as f32);
    }
}
