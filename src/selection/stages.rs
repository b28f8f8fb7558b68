//! What became of the stages of a pick.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// A stage of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stage {
    /// Asking a shared store for candidates; only where the catalog lies in one.
    Store,
    /// Who may see what.
    Eligibility,
    /// The keyword retriever.
    Keyword,
    /// The semantic retriever.
    Semantic,
    /// Raising the tools that served such requests before; only where tools have examples.
    Examples,
    /// From signals to one value.
    Fuse,
    /// Raising what goes with the tools in use; only where the engine has sequences of calls.
    Prior,
    /// A custom scorer in place of retrieval and fusion.
    Scorer,
    /// Ranking skills; only where the engine has some.
    Skills,
    /// Dropping what scores below `min_score`.
    MinScore,
    /// Reordering by a reranker.
    Rerank,
    /// The cut.
    Select,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Store => "store",
            Self::Eligibility => "eligibility",
            Self::Keyword => "keyword",
            Self::Semantic => "semantic",
            Self::Examples => "examples",
            Self::Fuse => "fuse",
            Self::Prior => "prior",
            Self::Scorer => "scorer",
            Self::Skills => "skills",
            Self::MinScore => "min_score",
            Self::Rerank => "rerank",
            Self::Select => "select",
        })
    }
}

/// What one stage did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StageReport {
    /// The stage.
    pub stage: Stage,
    /// What became of it.
    #[serde(flatten)]
    pub status: StageStatus,
}

impl StageReport {
    /// Reports the status of a stage.
    pub fn new(stage: Stage, status: StageStatus) -> Self {
        Self { stage, status }
    }
}

/// What became of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StageStatus {
    /// It ran.
    Ran,
    /// It did not run.
    Skipped {
        /// Why not.
        reason: String,
    },
    /// It failed or ran out of time.
    Failed {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for StageStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ran => f.write_str("ran"),
            Self::Skipped { reason } => write!(f, "skipped: {reason}"),
            Self::Failed { reason } => write!(f, "failed: {reason}"),
        }
    }
}

/// A stage that failed or ran out of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Degraded {
    /// The stage.
    pub stage: Stage,
    /// What happened, and what stands in.
    pub reason: String,
}

impl Degraded {
    /// Says what happened to a stage, and what stands in.
    pub fn new(stage: Stage, reason: impl Into<String>) -> Self {
        Self {
            stage,
            reason: reason.into(),
        }
    }
}

/// How long the stages took; not part of the serialised outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timings(pub Vec<(Stage, Duration)>);

impl Serialize for Timings {
    /// Serialises as an object of microseconds by stage.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            self.0
                .iter()
                .map(|(stage, time)| (stage.to_string(), time.as_secs_f64() * 1e6)),
        )
    }
}
