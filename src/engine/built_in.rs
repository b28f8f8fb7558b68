//! The built-in ranking in the form of a custom one.

use std::collections::HashMap;
use std::sync::Arc;

use super::candidates::MAX_CONSIDERED;
use super::explain::Explainer;
use super::ranked::Ranked;
use super::request::Request;
use super::signals::{models, plain_signals};
use crate::catalog::Tool;
use crate::fuse::{Fused, Fusion, Mode};
use crate::index::{ExampleIndex, Index};
use crate::options::PickOptions;
use crate::query::Query;
use crate::ranking::{ToolId, top_k};
use crate::scorer::{Score, ScoreFuture, Scorer, ScorerError};

/// A built-in ranking as a [`Scorer`]. It scores the tools it is given against each other, and only
/// tools of the engine's catalog. The best 100 of them have a reason: what the retrievers found in
/// them.
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
            let examples = self
                .examples
                .as_deref()
                .filter(|examples| !examples.is_empty());
            let ids = tools
                .iter()
                .map(|tool| {
                    index
                        .catalog
                        .find(&tool.id)
                        .ok_or_else(|| failed(format!("{:?} is not in its catalog", tool.id)))
                })
                .collect::<Result<Vec<ToolId>, _>>()?;
            if models(index, self.mode).is_empty() && self.mode.uses_semantic() {
                return Err(failed("the engine has no embedding model".to_owned()));
            }
            let (terms, signals) =
                plain_signals((index, examples), query, self.mode).map_err(failed)?;
            let options = PickOptions {
                mode: Some(self.mode),
                ..PickOptions::default()
            };
            let request =
                Request::new(index, query, &options).map_err(|error| failed(error.to_string()))?;
            let mut request = request.with_examples(examples);
            request.ask_only_of(&ids);
            let fused = Fused::new(signals, Fusion::Weighted, request.rankable());
            let best = top_k(
                fused.candidates(request.rankable(), f32::NEG_INFINITY),
                MAX_CONSIDERED,
            );
            let ranked = Ranked::Fused {
                mode: self.mode,
                terms,
                fused,
            };
            let why = Explainer::new(&request, &ranked, &[]);
            let mut reasons: HashMap<ToolId, String> = best
                .iter()
                .filter_map(|best| Some((best.tool, why.found_in(best.tool)?)))
                .collect();
            let score = |tool| Score {
                reason: reasons.remove(&tool),
                ..Score::new(ranked.score(tool))
            };
            Ok(ids.into_iter().map(score).collect())
        })
    }
}
