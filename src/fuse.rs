//! Fusion: from signals to one value per tool, and from that value to a score.
//!
//! The value is a weighted sum of the raw signals. BM25 and cosine both behave like evidence that
//! adds up. Scores that are standardised over the tools of a request would hide a difference:
//! between a tool that fits well and one that only fits better than others. One weight depends on
//! the request: the better its best keyword match, the lower the weight of the semantic signals
//! ([`Fit::softening`]). Similar meaning says little between tools that all contain the words.
//! Alternatively, reciprocal rank fusion (Cormack, Clarke, Büttcher 2009) adds up ranks.
//!
//! A calibration maps the value to a score, and estimates the answerability of the request.
//! `models/train/fusion` fits the constants, on scores of models that had not seen the requests.
//! `docs/results.md` has the results.

mod calibrated;
mod calibration;
mod fits;
mod retriever;
mod scores;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub(crate) use self::calibrated::CalibratedScores;
pub use self::retriever::Retriever;
pub(crate) use self::scores::{FusedScores, ValueIncrease, WeightedSignal};
use crate::retrieve::Signal;

/// The default constant of reciprocal rank fusion.
pub const DEFAULT_RRF_K: u32 = 60;

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
