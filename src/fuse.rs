//! From signals to one value per tool, and from that value to a score.
//!
//! The value is a weighted sum of the signals as they are: BM25 and cosine both behave like
//! evidence that adds up, and unlike scores standardised over the tools of a request they tell a
//! request that a tool answers well from one that it only answers better than others. One thing
//! depends on the request: the better its best keyword match, the less the semantic signals weigh
//! ([`Fit::softening`]), because similar meaning tells little between tools that all have the
//! words. Alternatively, reciprocal rank fusion (Cormack, Clarke, Büttcher 2009) adds up ranks.
//!
//! The score is a logistic function of the value, so it keeps the order. Whether any tool answers
//! is estimated of the best tool's signals and, as a factor beside, of the request alone
//! ([`Embedder::scope`]). `models/train/fusion` fits all constants, on scores of models that had
//! not seen the requests; `docs/results.md` has the figures.

mod fits;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::fits::{Calibration, Evidence, Fit, ODDS};
use crate::access::Eligibility;
use crate::embed::{Embedder, ModelKind};
use crate::index::SourceScores;
use crate::ranking::{Candidate, Ranking, Scored, ToolId, largest_of, reaching, top_k, top_k_of};
use crate::retrieve::Signal;
use crate::sequences::{Gain, Gains, Popular};

/// The constant of reciprocal rank fusion unless told otherwise.
pub const DEFAULT_RRF_K: u32 = 60;
/// How many of the best tools count as the crowd of a request.
const CROWD: usize = 10;

/// Which retrievers a pick uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Terms only.
    Keyword,
    /// Meaning only.
    Semantic,
    /// Both.
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

/// How signals become one value.
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
        /// Larger values flatten the difference between ranks.
        k: u32,
    },
}

/// The serialised form of a [`Fusion`], in which nothing unknown is read.
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

/// What scores tools for a request.
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

/// What the retrievers say of a request, in the order in which [`Retriever`] names them.
pub(crate) type Signals = Vec<(Retriever, Signal)>;

/// The scores that one retriever gives to the tools of a catalog, before they are fused.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RetrieverScores {
    /// Which retriever.
    pub retriever: Retriever,
    /// One score per tool, in registration order; higher is better.
    pub scores: Vec<f32>,
    /// The largest score that this request could give to any tool.
    pub ceiling: f32,
    /// Whether tools serve such a request at all, by the request alone: the logarithm of the odds;
    /// `None` where it does not tell.
    pub scope: Option<f32>,
    /// What it says of each tool's source as a whole; `None` where sources tell nothing.
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

    /// Returns what a model is in a ranking.
    pub(crate) fn of(embedder: &dyn Embedder) -> Self {
        match embedder.kind() {
            ModelKind::Static => Self::Static,
            ModelKind::Contextual => Self::Model,
        }
    }
}

/// One signal's part in the fused value of every tool.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) retriever: Retriever,
    pub(crate) signal: Signal,
    /// What a unit of the signal adds to the value, at this request.
    pub(crate) weight: f32,
    /// What a unit of what the retriever says of the tool's source adds.
    pub(crate) source_weight: f32,
}

/// What a value has gained.
#[derive(Debug)]
pub(crate) struct Raised {
    pub(crate) gains: Vec<Gain>,
    pub(crate) popular: Option<Popular>,
    /// What the gain adds to the value.
    pub(crate) value: f32,
    /// The value without it.
    own: f32,
}

/// The fused value of every tool.
#[derive(Debug)]
pub(crate) struct Fused {
    pub(crate) parts: Vec<Part>,
    pub(crate) method: Fusion,
    calibration: &'static Calibration,
    near: &'static Evidence,
    /// Which tools have values.
    pub(crate) scored: Scored,
    values: Vec<f32>,
    /// What sources add to the values of their tools, where they tell something.
    sources: Option<SourceScores>,
    /// What tools have gained by those in use and by being called often, and what their values were
    /// without.
    pub(crate) gains: BTreeMap<ToolId, Raised>,
    /// The best keyword score of an eligible tool.
    best_keyword: f32,
    /// The largest share that an eligible tool has of what the request's words could score, 0..1.
    coverage: f32,
    standing: Standing,
}

/// What the best tool, and those that rival it, say of a request.
#[derive(Debug, Default)]
struct Standing {
    /// The part of a tool's evidence that is the same for all tools of the request.
    offset: f32,
    /// The largest score: the probability that any eligible tool answers the request, as far as
    /// tools tell, 0..1.
    most: f32,
    /// The estimated probability that any eligible tool answers the request, which the request
    /// alone tells of as well, 0..1.
    answerable: f32,
    /// The eligible tool of the largest value, where there is one.
    best: Option<ToolId>,
}

impl Fused {
    /// Fuses what there is: any of the signals, each once.
    pub(crate) fn new(signals: Signals, method: Fusion, eligibility: &Eligibility) -> Self {
        let fit = Fit::of(
            &signals
                .iter()
                .map(|(retriever, _)| *retriever)
                .collect::<Vec<_>>(),
        );
        let scored = signals
            .first()
            .map_or(Scored::All(eligibility.tools()), |(_, signal)| {
                signal.scored.clone()
            });
        let flags = scored.of(eligibility.flags());
        let best_of = |signal: &Signal| largest_of(&signal.scores, &flags).max(0.0);
        let keyword = signals
            .iter()
            .find(|(retriever, _)| *retriever == Retriever::Keyword);
        let (best_keyword, ceiling) =
            keyword.map_or((0.0, 0.0), |(_, signal)| (best_of(signal), signal.ceiling));
        let parts: Vec<Part> = signals
            .into_iter()
            .map(|(retriever, signal)| {
                let weight = fit.weight(retriever, best_keyword);
                let source_weight = fit.source_weight(retriever, best_keyword);
                Part {
                    retriever,
                    signal,
                    weight,
                    source_weight,
                }
            })
            .collect();
        let mut values = vec![0.0; scored.len()];
        let mut sources: Option<SourceScores> = None;
        match method {
            Fusion::Weighted => {
                for Part {
                    signal,
                    weight,
                    source_weight,
                    ..
                } in &parts
                {
                    values
                        .iter_mut()
                        .zip(&signal.scores)
                        .for_each(|(value, score)| *value += weight * score);
                    if let Some(scores) = &signal.sources {
                        sources
                            .get_or_insert_with(|| scores.silent())
                            .add(*source_weight, scores);
                    }
                }
                if let Some(sources) = &sources {
                    sources.add_to(&mut values);
                }
            }
            Fusion::Rrf { k } => {
                for part in &parts {
                    add_reciprocal_ranks(&part.signal, k, eligibility, &mut values);
                }
            }
        }
        let coverage = if ceiling > 0.0 {
            best_keyword / ceiling
        } else {
            0.0
        };
        let calibration = fit.calibration(parts.iter().any(|part| part.signal.sources.is_some()));
        let (near, standing, gains) = (&fit.near, Standing::default(), BTreeMap::new());
        let mut fused = Self {
            parts,
            method,
            calibration,
            near,
            scored,
            values,
            sources,
            gains,
            best_keyword,
            coverage,
            standing,
        };
        fused.standing = fused.compare(&flags);
        fused
    }

    /// Returns `false` if no tool that is not eligible would be the best if it were, as can mostly
    /// be told at a glance.
    pub(crate) fn may_be_beaten(&self, eligibility: &Eligibility) -> bool {
        let is_other = |place: usize| !eligibility.admits(self.scored.tool(place));
        let best = self
            .best()
            .map_or(f32::NEG_INFINITY, |best| self.value(best));
        let outdoes = |signal: &Signal| {
            let mut places = reaching(&signal.scores, self.best_keyword);
            places.any(|place| signal.scores[place] > self.best_keyword && is_other(place))
        };
        self.method != Fusion::Weighted
            || !self.gains.is_empty()
            || reaching(&self.values, best).any(is_other)
            || self.signal(Retriever::Keyword).is_some_and(outdoes)
    }

    /// Compares the tools as if `eligibility`, which admits more than the tools that are eligible,
    /// decided; and returns the best tool with its score where that is one of those that it admits
    /// beside.
    pub(crate) fn best_beside(
        &self,
        eligible: &Eligibility,
        eligibility: &Eligibility,
    ) -> Option<(ToolId, f32)> {
        let is_beside = |tool: &ToolId| !eligible.admits(*tool);
        let keyword = self.signal(Retriever::Keyword).map(|signal| &signal.scores);
        let flags = self.scored.of(eligibility.flags());
        let outdoes = keyword.is_some_and(|scores| largest_of(scores, &flags) > self.best_keyword);
        // Words that no eligible tool has change how signals are weighed; and ranks are those among
        // other tools.
        if outdoes || self.method != Fusion::Weighted || !self.gains.is_empty() {
            let signals = self
                .parts
                .iter()
                .map(|part| (part.retriever, part.signal.clone()));
            let fused = Self::new(signals.collect(), self.method, eligibility);
            let best = fused.best().filter(is_beside)?;
            return Some((best, fused.score_of(best)));
        }
        let best = self.leading(&flags, 1).first()?.tool;
        let standing = Some(best).filter(is_beside).map(|_| self.compare(&flags))?;
        Some((best, self.score_at(best, &standing)))
    }

    /// Sums up the signals of another catalog, such as one of skills, and scores its candidates as
    /// if they stood beside the eligible tools of this one: the best of its own may be no good
    /// answer. Signals of retrievers that have not spoken of both are left out.
    pub(crate) fn beside(
        &self,
        eligibility: &Eligibility,
        others: Signals,
        theirs: &Eligibility,
    ) -> Self {
        let tools = self.values.len();
        let pool = others.into_iter().filter_map(|(retriever, other)| {
            let own = &self
                .parts
                .iter()
                .find(|part| part.retriever == retriever)?
                .signal;
            let scores = own.scores.iter().chain(&other.scores).copied().collect();
            // Where sources tell nothing of the others, each of them stands for itself.
            let sources = own.sources.as_ref().map(|own| match &other.sources {
                Some(theirs) => own.with_lone(theirs.by_tool()),
                None => own.with_lone(other.scores.iter().copied()),
            });
            let ceiling = own.ceiling.max(other.ceiling);
            let scored = Scored::All(tools + other.scores.len());
            let signal = Signal {
                scored,
                scores,
                floor: other.floor,
                ceiling,
                sources,
                examples: None,
                ..other
            };
            Some((retriever, signal))
        });
        let behind = theirs
            .admitted()
            .map(|other| ToolId::from_index(tools + other.index()));
        let flags = self.scored.of(eligibility.flags());
        let before = flags
            .iter()
            .enumerate()
            .filter(|(_, admitted)| **admitted)
            .map(|(place, _)| ToolId::from_index(place));
        let admitted: Vec<ToolId> = before.chain(behind).collect();
        let eligibility = Eligibility::only(&admitted, tools + theirs.tools());
        let mut fused = Self::new(pool.collect(), Fusion::Weighted, &eligibility);
        fused.values.drain(..tools);
        fused.scored = Scored::All(theirs.tools());
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

    /// Works out what the best tool that is admitted, and those that rival it, say of the request.
    fn compare(&self, admitted: &[bool]) -> Standing {
        let top = self.leading(admitted, CROWD);
        let best = top.first().copied();
        let best_value = best.map_or(0.0, |best| best.score);
        // The logarithm of how many of the best tools rival the best one.
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
            scope,
            answerable,
            rivals,
            relevance,
        } = self.calibration;
        let best = best.map(|best| best.tool);
        let evidence = self.evidence(answerable, best) + rivals * crowd;
        let offset = relevance.answerable * evidence + relevance.crowd * crowd
            - relevance.distance * best_value
            + relevance.intercept;
        let said = self.parts.iter().find_map(|part| part.signal.scope);
        let in_scope = said.map_or(1.0, |said| scope.probability(said));
        let matched = best.is_some_and(|best| self.matched(best));
        let of_tools = if matched { logistic(evidence) } else { 0.0 };
        Standing {
            offset,
            most: at_large(of_tools),
            answerable: at_large(in_scope * of_tools),
            best,
        }
    }

    /// Sums up what the best tool, its source and the coverage say.
    fn evidence(&self, weights: &Evidence, best: Option<ToolId>) -> f32 {
        let of_best = best.map_or(0.0, |best| {
            let of_part = |part: &Part| {
                let weight = weights.signals.of(part.retriever)
                    + self.coverage * weights.covered.of(part.retriever);
                let of_source = part.signal.of_source(best).unwrap_or_default();
                weight * part.signal.of(best) + weights.sources.of(part.retriever) * of_source
            };
            self.parts.iter().map(of_part).sum()
        });
        of_best + weights.coverage * self.coverage + weights.intercept
    }

    /// Raises values by what the tools gain by those in use. A score is a logistic function of the
    /// value, so a gain of one nat is divided by that function's slope: the odds of a tool grow by
    /// the ratio. Ranks cannot be raised.
    pub(crate) fn raise(&mut self, gains: Gains) {
        for (tool, gains) in gains {
            let Some(place) = self.scored.place(tool) else {
                continue;
            };
            let own = self.values[place];
            let log_ratio: f32 = gains.iter().map(|gain| gain.log_ratio).sum();
            let value = log_ratio / self.calibration.relevance.distance;
            self.values[place] = own + value;
            self.gains.insert(
                tool,
                Raised {
                    gains,
                    popular: None,
                    value,
                    own,
                },
            );
        }
    }

    /// Raises values for being called often, as [`Self::raise`] does for what is in use.
    pub(crate) fn raise_popular(&mut self, popular: impl Iterator<Item = (ToolId, Popular)>) {
        for (tool, popular) in popular {
            let Some(place) = self.scored.place(tool) else {
                continue;
            };
            let own = self.values[place];
            let value = popular.log_ratio / self.calibration.relevance.distance;
            self.values[place] = own + value;
            let raised = Raised {
                gains: Vec::new(),
                popular: None,
                value: 0.0,
                own,
            };
            let raised = self.gains.entry(tool).or_insert(raised);
            raised.value += value;
            raised.popular = Some(popular);
        }
    }

    /// Returns the tool's value without what it has gained.
    pub(crate) fn own_value(&self, tool: ToolId) -> f32 {
        self.gains
            .get(&tool)
            .map_or_else(|| self.value(tool), |raised| raised.own)
    }

    /// Returns the estimated probability that the request lies near the subject of the best tool's
    /// source, should no tool serve it, 0..1; `None` where sources tell nothing.
    pub(crate) fn near_source(&self) -> Option<f32> {
        let tells =
            !self.parts.is_empty() && self.parts.iter().all(|part| part.signal.sources.is_some());
        (tells && self.best().is_some()).then(|| logistic(self.evidence(self.near, self.best())))
    }

    /// Returns the eligible tool of the largest value, without what tools have gained.
    pub(crate) fn best(&self) -> Option<ToolId> {
        self.standing.best
    }

    /// Returns the tools of the largest values, in order, of those with values that are admitted.
    fn leading(&self, admitted: &[bool], count: usize) -> Ranking {
        let mut ranking = top_k_of(&self.values, admitted, count);
        ranking
            .iter_mut()
            .for_each(|candidate| candidate.tool = self.scored.tool(candidate.tool.index()));
        ranking
    }

    /// Returns `true` if the tool has a value: of a large catalog only those have that may be near
    /// the request.
    pub(crate) fn has(&self, tool: ToolId) -> bool {
        self.scored.place(tool).is_some()
    }

    /// Returns the tool's fused value, which orders the tools; negative infinity where it has none.
    pub(crate) fn value(&self, tool: ToolId) -> f32 {
        self.scored
            .place(tool)
            .map_or(f32::NEG_INFINITY, |place| self.values[place])
    }

    /// Returns what a unit of the quick retrievers' signals adds to the value of a tool where they
    /// stand alone: those that can be asked of each part of the request, which a transformer cannot
    /// in time. None for ranks.
    pub(crate) fn quick_weights(&self) -> Vec<(Retriever, f32)> {
        if self.method != Fusion::Weighted {
            return Vec::new();
        }
        let quick = self
            .parts
            .iter()
            .map(|part| part.retriever)
            .filter(|retriever| *retriever != Retriever::Model);
        let quick: Vec<Retriever> = quick.collect();
        let fit = Fit::of(&quick);
        quick
            .into_iter()
            .map(|retriever| (retriever, fit.weight(retriever, self.best_keyword)))
            .collect()
    }

    /// Returns the most that a source adds to the value of a tool that is admitted, of those with
    /// values; negative infinity where sources tell nothing.
    pub(crate) fn best_source(&self, admitted: &[bool]) -> f32 {
        self.sources
            .as_ref()
            .map_or(f32::NEG_INFINITY, |sources| sources.best(admitted))
    }

    /// Returns what the tool's source adds to its value, where sources tell something.
    pub(crate) fn of_source(&self, tool: ToolId) -> Option<f32> {
        Some(self.sources.as_ref()?.of(self.scored.place(tool)?))
    }

    /// Returns what the tool's examples add to its value.
    pub(crate) fn of_examples(&self, tool: ToolId) -> f32 {
        let parts = self
            .parts
            .iter()
            .filter(|_| self.method == Fusion::Weighted);
        parts
            .filter_map(|part| Some(part.weight * part.signal.of_examples(tool)?))
            .sum()
    }

    /// Returns the value of the example at a place, as if it were a tool without a source.
    pub(crate) fn of_example(&self, place: usize) -> f32 {
        self.parts
            .iter()
            .filter_map(|part| Some(part.weight * part.signal.examples.as_ref()?.scores[place]))
            .sum()
    }

    /// Returns what a retriever says, where it was asked.
    pub(crate) fn signal(&self, retriever: Retriever) -> Option<&Signal> {
        self.parts
            .iter()
            .find(|part| part.retriever == retriever)
            .map(|part| &part.signal)
    }

    /// Returns `true` if any retriever found something in the tool or its source.
    fn matched(&self, tool: ToolId) -> bool {
        let weighted = self.method == Fusion::Weighted;
        self.parts.iter().any(|Part { signal, .. }| {
            let of_source = signal
                .of_source(tool)
                .is_some_and(|of_source| of_source > signal.floor);
            signal.of(tool) > signal.floor || weighted && of_source
        })
    }

    /// Returns `true` if the tool has at least this value, without what it has gained by those in
    /// use: a habit may put tools in another order, and is not evidence that one is wanted at all.
    pub(crate) fn reaches(&self, tool: ToolId, least: f32) -> bool {
        self.value(tool) >= least && (self.gains.is_empty() || self.own_value(tool) >= least)
    }

    /// Returns the eligible tools that any retriever matched and that reach the value `least`, in
    /// registration order.
    pub(crate) fn candidates(
        &self,
        eligibility: &Eligibility,
        least: f32,
    ) -> impl Iterator<Item = Candidate> {
        reaching(&self.values, least)
            .map(|place| self.scored.tool(place))
            .filter(move |&tool| {
                eligibility.admits(tool) && self.reaches(tool, least) && self.matched(tool)
            })
            .map(|tool| Candidate {
                tool,
                score: self.value(tool),
            })
    }

    /// Returns the tool's score, 0..1; 0 where no retriever matched. Never reverses the order of
    /// the values. In a weighted sum no tool is likelier than that any tool answers the request, as
    /// far as tools tell.
    pub(crate) fn score_of(&self, tool: ToolId) -> f32 {
        self.score_at(tool, &self.standing)
    }

    fn score_at(&self, tool: ToolId, standing: &Standing) -> f32 {
        if !self.matched(tool) {
            return 0.0;
        }
        let value = self.value(tool);
        match self.method {
            Fusion::Weighted => {
                logistic(self.calibration.relevance.distance * value + standing.offset)
                    .min(standing.most)
            }
            Fusion::Rrf { k } => (value / self.largest_rrf(k)).clamp(0.0, 1.0),
        }
    }

    /// Returns the least value of a tool that scores at least `score`: [`Fused::score_of`] turned
    /// round.
    pub(crate) fn value_at(&self, score: f32) -> f32 {
        match self.method {
            Fusion::Weighted if score > self.standing.most => f32::INFINITY,
            Fusion::Weighted => {
                let evidence = (score / (1.0 - score)).ln();
                (evidence - self.standing.offset) / self.calibration.relevance.distance
            }
            Fusion::Rrf { k } => score * self.largest_rrf(k),
        }
    }

    /// Returns the estimated probability that any eligible tool answers the request, 0..1: no less
    /// than the score of the best one, where scores are probabilities.
    pub(crate) fn answerable(&self) -> f32 {
        let best = self.best().filter(|_| self.method == Fusion::Weighted);
        best.map_or(0.0, |best| self.score_of(best))
            .max(self.standing.answerable)
    }

    /// The sum of a tool that every retriever ranks first.
    fn largest_rrf(&self, k: u32) -> f32 {
        self.parts.len().max(1) as f32 / (k as f32 + 1.0)
    }
}

/// Turns a probability that was fitted on as many requests that no tool serves as on such that one
/// does into that of requests at large: the odds are shifted, and nothing else (King and Zeng
/// 2001).
fn at_large(fitted: f32) -> f32 {
    ODDS * fitted / (1.0 + (ODDS - 1.0) * fitted)
}

fn logistic(evidence: f32) -> f32 {
    1.0 / (1.0 + (-evidence).exp())
}

/// Of tools that all have scores.
fn add_reciprocal_ranks(signal: &Signal, k: u32, eligibility: &Eligibility, values: &mut [f32]) {
    let ranking = top_k(signal.matches(eligibility), usize::MAX);
    for (index, candidate) in ranking.iter().enumerate() {
        values[candidate.tool.index()] += 1.0 / (k as f32 + 1.0 + index as f32);
    }
}
