//! From signals to one value a tool, and from that value to a score.
//!
//! Retrievers speak different scales, and the scale of one retriever changes from request to request. So each
//! signal is standardised over the tools that may be seen: minus the mean, divided by the standard deviation, of
//! this request. In a catalog of three tools both are meaningless, so they are shrunk towards the moments that a
//! typical request has, as if [`PRIOR_TOOLS`] typical tools stood beside the real ones. The fused value is a
//! weighted sum. Alternatively, reciprocal rank fusion (Cormack, Clarke, Büttcher 2009) adds up ranks.
//!
//! The score is a logistic function of the value, so it keeps the order. Constants come from the search that
//! `docs/results.md` describes.

use serde::{Deserialize, Serialize};

use crate::eligibility::Eligibility;
use crate::ranking::{Candidate, ToolId, top_k};
use crate::retrieve::Signal;

/// How much the typical request counts beside the tools of the catalog, in tools.
const PRIOR_TOOLS: f32 = 10.0;
/// Weight of the keyword signal in the weighted sum; the semantic signal has the rest.
const KEYWORD_WEIGHT: f32 = 0.35;
/// The constant of reciprocal rank fusion unless told otherwise.
pub const DEFAULT_RRF_K: u32 = 60;

/// Which retrievers a pick uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

    pub(crate) fn uses_keyword(self) -> bool {
        self != Self::Semantic
    }

    pub(crate) fn uses_semantic(self) -> bool {
        self != Self::Keyword
    }
}

/// How signals become one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(tag = "method", rename_all = "snake_case")]
pub enum Fusion {
    /// A weighted sum of standardised signals; the score is an estimated probability of relevance.
    #[default]
    Weighted,
    /// The sum over retrievers of `1 / (k + rank)`; the score is the share of the largest possible sum.
    Rrf {
        /// Larger values flatten the difference between ranks.
        k: u32,
    },
}

/// The mean and standard deviation of a signal at a typical request, as shares of its ceiling.
#[derive(Debug, Clone, Copy)]
struct Prior {
    mean: f32,
    deviation: f32,
}

/// Of keyword scores; their ceiling is the largest score that the request's terms could give.
const KEYWORD_PRIOR: Prior = Prior { mean: 0.0075, deviation: 0.018 };
/// Of cosine similarities.
const SEMANTIC_PRIOR: Prior = Prior { mean: 0.096, deviation: 0.095 };

/// A logistic function (Platt 1999) of a tool's fused value and of how far it lies below the best one.
///
/// The value says how much the tool stands out from the catalog, the distance how much others stand out more.
#[derive(Debug, Clone, Copy)]
struct Logistic {
    value: f32,
    distance: f32,
    intercept: f32,
}

impl Logistic {
    fn of(self, value: f32, best: f32) -> f32 {
        let evidence = self.value * value - self.distance * (best - value) + self.intercept;
        1.0 / (1.0 + (-evidence).exp())
    }

    /// The value at which [`Logistic::of`] reaches `score`; infinite at 0 and 1.
    fn value_at(self, score: f32, best: f32) -> f32 {
        let evidence = (score / (1.0 - score)).ln();
        (evidence + self.distance * best - self.intercept) / (self.value + self.distance)
    }
}

const KEYWORD_LOGISTIC: Logistic = Logistic { value: 0.1738, distance: 0.3128, intercept: -2.1227 };
const SEMANTIC_LOGISTIC: Logistic = Logistic { value: 0.2439, distance: 1.1257, intercept: -1.9003 };
const HYBRID_LOGISTIC: Logistic = Logistic { value: 0.2831, distance: 0.6364, intercept: -2.0788 };

/// One signal's part in the fused value of every tool.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) signal: Signal,
    pub(crate) weight: f32,
    mean: f32,
    deviation: f32,
}

impl Part {
    fn new(signal: Signal, prior: Prior, weight: f32, eligibility: &Eligibility) -> Self {
        let (mean, deviation) = shrunk_moments(&signal, prior, eligibility);
        Self { signal, weight, mean, deviation }
    }

    /// Returns how many standard deviations the tool stands above the mean.
    pub(crate) fn standardised(&self, tool: ToolId) -> f32 {
        (self.signal.of(tool) - self.mean) / self.deviation
    }
}

/// The fused value of every tool.
#[derive(Debug)]
pub(crate) struct Fused {
    pub(crate) keyword: Option<Part>,
    pub(crate) semantic: Option<Part>,
    pub(crate) method: Fusion,
    values: Vec<f32>,
    /// The best value of an eligible tool.
    best: f32,
}

impl Fused {
    /// Fuses what there is: either signal, or both.
    pub(crate) fn new(
        keyword: Option<Signal>,
        semantic: Option<Signal>,
        method: Fusion,
        eligibility: &Eligibility,
    ) -> Self {
        let (keyword_weight, semantic_weight) = match (&keyword, &semantic) {
            (Some(_), Some(_)) => (KEYWORD_WEIGHT, 1.0 - KEYWORD_WEIGHT),
            _ => (1.0, 1.0),
        };
        let keyword = keyword.map(|signal| Part::new(signal, KEYWORD_PRIOR, keyword_weight, eligibility));
        let semantic = semantic.map(|signal| Part::new(signal, SEMANTIC_PRIOR, semantic_weight, eligibility));
        let parts: Vec<&Part> = keyword.iter().chain(&semantic).collect();
        let mut values = vec![0.0; eligibility.tools()];
        match method {
            Fusion::Weighted => {
                for tool in eligibility.admitted() {
                    values[tool.index()] = parts.iter().map(|part| part.weight * part.standardised(tool)).sum();
                }
            }
            Fusion::Rrf { k } => {
                for part in &parts {
                    add_reciprocal_ranks(&part.signal, k, eligibility, &mut values);
                }
            }
        }
        let best = eligibility.admitted().map(|tool| values[tool.index()]).fold(f32::NEG_INFINITY, f32::max);
        Self { keyword, semantic, method, values, best }
    }

    /// Returns the tool's fused value, which orders the tools.
    pub(crate) fn value(&self, tool: ToolId) -> f32 {
        self.values[tool.index()]
    }

    /// Tells whether any retriever found something in the tool.
    fn matched(&self, tool: ToolId) -> bool {
        self.keyword.iter().chain(&self.semantic).any(|part| part.signal.of(tool) > part.signal.floor)
    }

    /// Returns the eligible tools that any retriever matched, in registration order.
    pub(crate) fn candidates<'a>(&'a self, eligibility: &'a Eligibility) -> impl Iterator<Item = Candidate> + 'a {
        eligibility
            .admitted()
            .filter(move |&tool| self.matched(tool))
            .map(|tool| Candidate { tool, score: self.value(tool) })
    }

    /// Returns the tool's score, 0..1; 0 where no retriever matched. Never reverses the order of the values.
    pub(crate) fn score_of(&self, tool: ToolId) -> f32 {
        if !self.matched(tool) {
            return 0.0;
        }
        let value = self.value(tool);
        match self.method {
            Fusion::Weighted => self.logistic().of(value, self.best),
            Fusion::Rrf { k } => (value / self.largest_rrf(k)).clamp(0.0, 1.0),
        }
    }

    /// Returns the least value of a tool that scores at least `score`: [`Fused::score_of`] turned round.
    pub(crate) fn value_at(&self, score: f32) -> f32 {
        match self.method {
            Fusion::Weighted => self.logistic().value_at(score, self.best),
            Fusion::Rrf { k } => score * self.largest_rrf(k),
        }
    }

    fn logistic(&self) -> Logistic {
        match (&self.keyword, &self.semantic) {
            (Some(_), Some(_)) => HYBRID_LOGISTIC,
            (None, _) => SEMANTIC_LOGISTIC,
            (Some(_), None) => KEYWORD_LOGISTIC,
        }
    }

    /// The sum of a tool that every retriever ranks first.
    fn largest_rrf(&self, k: u32) -> f32 {
        let retrievers = self.keyword.iter().chain(&self.semantic).count().max(1);
        retrievers as f32 / (k as f32 + 1.0)
    }
}

/// The mean and standard deviation over the eligible tools together with [`PRIOR_TOOLS`] typical ones.
fn shrunk_moments(signal: &Signal, prior: Prior, eligibility: &Eligibility) -> (f32, f32) {
    let scale = f64::from(signal.ceiling);
    let (prior_mean, prior_deviation) = (f64::from(prior.mean) * scale, f64::from(prior.deviation) * scale);
    let weight = f64::from(PRIOR_TOOLS);
    let mut count = weight;
    let mut sum = weight * prior_mean;
    let mut squares = weight * (prior_deviation.powi(2) + prior_mean.powi(2));
    for tool in eligibility.admitted() {
        let score = f64::from(signal.of(tool));
        count += 1.0;
        sum += score;
        squares += score * score;
    }
    let mean = sum / count;
    let variance = (squares / count - mean * mean).max(f64::MIN_POSITIVE);
    #[expect(clippy::cast_possible_truncation, reason = "moments of f32 scores are of their size")]
    let moments = (mean as f32, (variance.sqrt() as f32).max(f32::MIN_POSITIVE));
    moments
}

fn add_reciprocal_ranks(signal: &Signal, k: u32, eligibility: &Eligibility, values: &mut [f32]) {
    let ranking = top_k(signal.matches(eligibility), usize::MAX);
    for (index, candidate) in ranking.iter().enumerate() {
        values[candidate.tool.index()] += 1.0 / (k as f32 + 1.0 + index as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn signal(scores: &[f32], floor: f32, ceiling: f32) -> Signal {
        Signal { scores: scores.to_vec(), floor, ceiling }
    }

    /// The definitions written out: moments over real and typical tools together, one tool at a time.
    fn naive_standardised(scores: &[f32], admitted: &[ToolId], prior: Prior, ceiling: f32) -> Vec<f64> {
        let (mean0, deviation0) = (f64::from(prior.mean * ceiling), f64::from(prior.deviation * ceiling));
        let weight = f64::from(PRIOR_TOOLS);
        let n = admitted.len() as f64;
        let real: Vec<f64> = admitted.iter().map(|tool| f64::from(scores[tool.index()])).collect();
        let mean = (real.iter().sum::<f64>() + weight * mean0) / (n + weight);
        let spread: f64 = real.iter().map(|score| (score - mean).powi(2)).sum();
        let typical = weight * (deviation0.powi(2) + (mean0 - mean).powi(2));
        let deviation = ((spread + typical) / (n + weight)).sqrt();
        real.iter().map(|score| (score - mean) / deviation).collect()
    }

    fn naive_ranks(scores: &[f32], admitted: &[ToolId], floor: f32) -> Vec<Option<usize>> {
        let before = |a: ToolId, b: ToolId| {
            let (x, y) = (scores[a.index()], scores[b.index()]);
            x > floor && (x > y || (x >= y && a < b))
        };
        let place = |tool: ToolId| admitted.iter().filter(|&&other| before(other, tool)).count();
        admitted.iter().map(|&tool| (scores[tool.index()] > floor).then(|| 1 + place(tool))).collect()
    }

    fn catalogs() -> impl Strategy<Value = (Vec<f32>, Vec<f32>, Vec<ToolId>)> {
        prop::collection::vec((0u8..40, -100i8..100, any::<bool>()), 1..40).prop_map(|tools| {
            let keyword = tools.iter().map(|tool| f32::from(tool.0) / 4.0).collect();
            let semantic = tools.iter().map(|tool| f32::from(tool.1) / 100.0).collect();
            let admitted = tools.iter().enumerate().filter(|(_, tool)| tool.2);
            (keyword, semantic, admitted.map(|(index, _)| ToolId::from_index(index)).collect())
        })
    }

    proptest! {
        #[test]
        fn the_weighted_sum_equals_its_definition((keyword, semantic, admitted) in catalogs()) {
            let eligibility = Eligibility::only(&admitted, keyword.len());
            let fused = Fused::new(
                Some(signal(&keyword, 0.0, 12.0)),
                Some(signal(&semantic, f32::NEG_INFINITY, 1.0)),
                Fusion::Weighted,
                &eligibility,
            );
            let k = naive_standardised(&keyword, &admitted, KEYWORD_PRIOR, 12.0);
            let s = naive_standardised(&semantic, &admitted, SEMANTIC_PRIOR, 1.0);
            for (index, &tool) in admitted.iter().enumerate() {
                let weight = f64::from(KEYWORD_WEIGHT);
                let value = weight * k[index] + (1.0 - weight) * s[index];
                prop_assert!((f64::from(fused.value(tool)) - value).abs() < 1e-3);
                let score = fused.score_of(tool);
                prop_assert!((0.0..=1.0).contains(&score));
                prop_assert!((fused.value_at(score) - fused.value(tool)).abs() < 0.05);
            }
        }

        #[test]
        fn reciprocal_ranks_equal_their_definition((keyword, semantic, admitted) in catalogs(), k in 1u32..100) {
            let eligibility = Eligibility::only(&admitted, keyword.len());
            let signals = (signal(&keyword, 0.0, 12.0), signal(&semantic, f32::NEG_INFINITY, 1.0));
            let ranks = [naive_ranks(&keyword, &admitted, 0.0), naive_ranks(&semantic, &admitted, f32::NEG_INFINITY)];
            for (index, &tool) in admitted.iter().enumerate() {
                prop_assert_eq!(signals.0.rank(tool, &eligibility), ranks[0][index]);
            }
            let fused = Fused::new(Some(signals.0), Some(signals.1), Fusion::Rrf { k }, &eligibility);
            for (index, &tool) in admitted.iter().enumerate() {
                let share = |rank: usize| 1.0 / (f64::from(k) + rank as f64);
                let value: f64 = ranks.iter().filter_map(|ranks| ranks[index]).map(share).sum();
                prop_assert!((f64::from(fused.value(tool)) - value).abs() < 1e-5);
                prop_assert!((0.0..=1.0).contains(&fused.score_of(tool)));
            }
        }
    }

    #[test]
    fn a_lone_tool_that_matches_stands_out() {
        let tool = ToolId::from_index(0);
        let eligibility = Eligibility::only(&[tool], 1);
        let score = |keyword: f32| {
            let keyword = Some(signal(&[keyword], 0.0, 10.0));
            Fused::new(keyword, None, Fusion::Weighted, &eligibility).score_of(tool)
        };
        assert!(score(8.0) > 0.1 && score(8.0) > score(1.0), "{} {}", score(8.0), score(1.0));
        assert!(score(0.0).abs() < f32::EPSILON);
    }
}
