//! The built-in ranking in the form of a custom one.

use std::sync::Arc;

use super::signals::{models, plain_signals};
use crate::access::Eligibility;
use crate::catalog::Tool;
use crate::fuse::{Fused, Fusion, Mode};
use crate::index::Index;
use crate::query::Query;
use crate::ranking::ToolId;
use crate::scorer::{Score, ScoreFuture, Scorer, ScorerError};

/// A built-in ranking as a [`Scorer`]. It scores the tools it is given against each other, and only tools of the
/// engine's catalog.
#[derive(Debug, Clone)]
pub struct BuiltInScorer {
    pub(super) index: Arc<Index>,
    pub(super) mode: Mode,
}

impl Scorer for BuiltInScorer {
    fn name(&self) -> &str {
        self.mode.name()
    }

    fn score<'a>(&'a self, query: &'a Query, tools: &'a [Arc<Tool>]) -> ScoreFuture<'a> {
        Box::pin(async move {
            let failed = |reason: String| ScorerError::Failed { scorer: self.mode.name().to_owned(), reason };
            let index = &*self.index;
            let ids = tools
                .iter()
                .map(|tool| {
                    index.catalog.find(&tool.id).ok_or_else(|| failed(format!("{:?} is not in its catalog", tool.id)))
                })
                .collect::<Result<Vec<ToolId>, _>>()?;
            let eligibility = Eligibility::only(&ids, index.catalog.len());
            if models(index, self.mode).is_empty() && self.mode.uses_semantic() {
                return Err(failed("the engine has no embedding model".to_owned()));
            }
            let signals = plain_signals(index, query, self.mode).map_err(failed)?;
            let fused = Fused::new(signals, Fusion::Weighted, &eligibility);
            Ok(ids.into_iter().map(|tool| Score::new(fused.score_of(tool))).collect())
        })
    }
}
