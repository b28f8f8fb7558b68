//! The stages of a pick and their status.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// A stage of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stage {
    /// Requests candidates from a shared store; only with a shared store.
    Store,
    /// Applies the access policy.
    Eligibility,
    /// The keyword retriever.
    Keyword,
    /// The semantic retriever.
    Semantic,
    /// Raises tools that served similar requests; only if tools have examples.
    Examples,
    /// Combines the signals to one value.
    Fuse,
    /// Raises tools that go with the tools in use; only if the engine has sequences.
    Prior,
    /// A custom scorer, which replaces retrieval and fusion.
    Scorer,
    /// Ranks skills; only if the engine has skills.
    Skills,
    /// Excludes tools that score below `min_score`.
    MinScore,
    /// Reorders the best candidates by a reranker.
    Rerank,
    /// Chooses the picks.
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

/// The status of one stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StageReport {
    /// The stage.
    pub stage: Stage,
    /// Its status.
    #[serde(flatten)]
    pub status: StageStatus,
}

impl StageReport {
    /// Reports the status of a stage.
    pub fn new(stage: Stage, status: StageStatus) -> Self {
        Self { stage, status }
    }
}

/// The status of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StageStatus {
    /// It ran.
    Ran,
    /// It did not run.
    Skipped {
        /// The reason.
        reason: String,
    },
    /// It failed or timed out.
    Failed {
        /// The cause.
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

/// A stage that failed or timed out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Degraded {
    /// The stage.
    pub stage: Stage,
    /// The cause, and the fallback.
    pub reason: String,
}

impl Degraded {
    /// Makes a report of a stage, the cause, and the fallback.
    pub fn new(stage: Stage, reason: impl Into<String>) -> Self {
        Self {
            stage,
            reason: reason.into(),
        }
    }
}

/// The durations of the stages; not part of the serialised selection.
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
