//! The built-in ranking as a custom scorer.

use std::collections::HashMap;
use std::sync::Arc;

use super::explain::Explainer;
use super::ranking::FusedRanking;
use super::request::{CatalogIndexes, ResolvedRequest, models};
use super::retrieval::plain_signals;
use super::shortlist::MAX_CONSIDERED;
use crate::catalog::Tool;
use crate::fuse::{CalibratedScores, Fusion, Mode};
use crate::index::{ExampleIndex, Index};
use crate::options::PickOptions;
use crate::query::Query;
use crate::ranking::{Candidate, ToolId};
use crate::scorer::{Score, ScoreFuture, Scorer, ScorerError};

/// A built-in ranking as a [`Scorer`]. It scores the given tools relative to each other, and
/// accepts only tools of the engine's catalog. The best 100 have a reason, which states the
/// evidence of the retrievers.
#[derive(Debug, Clone)]
pub struct BuiltInScorer {
    pub(super) index: Arc<Index>,
    pub(super) examples: Option<Arc<ExampleIndex>>,
    pub(super) mode: Mode,
}

impl Scorer for BuiltInScorer {
    fn name(&self) -> &str {
        self.mode.name()
    }

    fn score<'a>(&'a self, query: &'a Query, tools: &'a [Arc<Tool>]) -> ScoreFuture<'a> {
        Box::pin(async move {
            let failed = |reason: String| ScorerError::Failed {
                scorer: self.mode.name().to_owned(),
                reason,
            };
            let index = &*self.index;
            let indexes = CatalogIndexes::new(index, self.examples.as_deref());
            let mut ids: Vec<ToolId> = Vec::with_capacity(tools.len());
            for tool in tools {
                let Some(id) = index.catalog.find(&tool.id) else {
                    return Err(failed(format!("{:?} is not in its catalog", tool.id)));
                };
                ids.push(id);
            }
            if models(index, self.mode).is_empty() && self.mode.uses_semantic() {
                return Err(failed("the engine has no embedding model".to_owned()));
            }
            let (terms, signals) = plain_signals(indexes, query, self.mode).map_err(failed)?;
            let options = PickOptions {
                mode: Some(self.mode),
                ..PickOptions::default()
            };
            let request = ResolvedRequest::among(indexes, query, &options, &ids)
                .map_err(|error| failed(error.to_string()))?;
            let fused = CalibratedScores::new(
                signals,
                Fusion::Weighted,
                request.rankable(),
                request.query.scope(),
            );
            let best =
                fused
                    .scores
                    .best_candidates(request.rankable(), f32::NEG_INFINITY, MAX_CONSIDERED);
            let ranked = FusedRanking::undivided(self.mode, terms, fused);
            let explainer = Explainer::new(&request, &ranked, &[]);
            let mut reasons: HashMap<ToolId, String> = HashMap::new();
            for Candidate { tool, .. } in best {
                let reason = explainer.evidence_text(tool);
                if let Some(reason) = reason.map_err(|error| failed(error.to_string()))? {
                    reasons.insert(tool, reason);
                }
            }
            let mut scores = Vec::with_capacity(ids.len());
            for tool in ids {
                scores.push(Score {
                    reason: reasons.remove(&tool),
                    ..Score::new(ranked.fused.score(tool))
                });
            }
            Ok(scores)
        })
    }
}
