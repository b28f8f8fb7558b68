//! The `Reranker` trait: it reorders the best candidates by reading the request and each tool
//! together.
//!
//! A reranker is asynchronous foreign code: it may be slow, hang, block, fail or answer nonsense.
//! It runs under the deadline of the pick, as a [`Scorer`](crate::scorer::Scorer) does. Its answer
//! must be a permutation of the window: it refers to each candidate by position, exactly once, with
//! a number. Any other answer leaves the order unchanged. So a reranker cannot add a tool, lose
//! one, or move one outside its window.

mod breaker;
mod error;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

pub use self::breaker::CircuitBreaker;
pub use self::error::RerankError;
use crate::catalog::Tool;
use crate::deadline::{Deadline, DeadlineError};
use crate::query::Query;

/// The default number of candidates that a reranker receives.
pub const DEFAULT_RERANK_WINDOW: usize = 20;

/// The largest number of candidates that a reranker receives.
pub const MAX_RERANK_WINDOW: usize = 100;

/// The condition under which the reranker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Rerank {
    /// Never.
    #[default]
    Never,
    /// If it can change the picks. That is the case if the best two candidates have nearly the same
    /// score. It is also the case if the last pick and the first candidate below the cutoff do, and
    /// the latter is not unlikely.
    Auto,
    /// Whenever there are at least two candidates.
    Always,
}

/// The score of one candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RerankScore {
    /// The candidate's position in the window, from 0.
    pub candidate: usize,
    /// The relevance to the request: any finite number, larger is better. Candidates with equal
    /// scores keep their order.
    pub score: f32,
}

/// The future of a reranker's answer.
pub type RerankFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<RerankScore>, RerankError>> + Send + 'a>>;

/// A component that reorders the best candidates of a pick.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Instant;
/// use picktools::rerank::{Rerank, RerankFuture, RerankScore, Reranker};
/// use picktools::{Catalog, Engine, PickOptions, Query, Tool};
///
/// /// Prefers short names.
/// struct Shortest;
///
/// impl Reranker for Shortest {
///     fn name(&self) -> &str {
///         "shortest"
///     }
///
///     fn rerank<'a>(
///         &'a self,
///         _: &'a Query,
///         window: &'a [Arc<Tool>],
///         _: Option<Instant>,
///     ) -> RerankFuture<'a> {
///         let scores = window.iter().enumerate().map(|(candidate, tool)| RerankScore {
///             candidate,
///             score: -(tool.name.len() as f32),
///         });
///         Box::pin(async move { Ok(scores.collect()) })
///     }
/// }
///
/// let tools = [
///     Tool::without_arguments("send_long_email", "Sends an email"),
///     Tool::without_arguments("email", "Sends an email"),
/// ];
/// let engine = Engine::builder(Catalog::from_tools(tools)?).reranker(Arc::new(Shortest)).build()?;
/// let options = PickOptions { rerank: Rerank::Always, ..PickOptions::default() };
/// let selection = engine.pick(&Query::new("send an email"), &options)?;
/// assert_eq!(selection.picks[0].tool.name, "email");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Reranker: Send + Sync {
    /// Returns the name of the reranker for provenance and messages.
    fn name(&self) -> &str;

    /// Scores the candidates of `window`, which come best first: one score for each, in any order.
    ///
    /// An answer after `deadline` is dropped, so the reranker should stop working then. The caller
    /// runs it within a tokio runtime that has timers and a blocking pool.
    fn rerank<'a>(
        &'a self,
        query: &'a Query,
        window: &'a [Arc<Tool>],
        deadline: Option<Instant>,
    ) -> RerankFuture<'a>;
}

/// Checks an answer and returns the positions of the window in their new order, best first, each
/// with its score.
pub fn order(answer: &[RerankScore], window: usize) -> Result<Vec<RerankScore>, String> {
    let mut scores = vec![None; window];
    for &RerankScore { candidate, score } in answer {
        let position = candidate.saturating_add(1);
        match scores.get_mut(candidate) {
            None => {
                return Err(format!(
                    "a score for the candidate {position}, and there are {window}"
                ));
            }
            Some(_) if !score.is_finite() => {
                return Err(format!(
                    "the candidate {position} the score {score}, which is not a finite number"
                ));
            }
            Some(slot @ None) => *slot = Some(score),
            Some(Some(_)) => return Err(format!("two scores for the candidate {position}")),
        }
    }
    let mut order = Vec::with_capacity(window);
    for (candidate, score) in scores.into_iter().enumerate() {
        let score = score
            .ok_or_else(|| format!("no score for the candidate {} of {window}", candidate + 1))?;
        order.push(RerankScore { candidate, score });
    }
    // Adding 0 turns -0 into 0, so that they are equal. The sort is stable.
    order.sort_by(|a, b| (b.score + 0.0).total_cmp(&(a.score + 0.0)));
    Ok(order)
}

/// The cause of an unchanged order.
#[derive(Debug, PartialEq)]
pub(crate) enum RerankFailure {
    /// The circuit breaker is open.
    Paused(String),
    /// The reranker gave no valid answer.
    Failed(String),
}

/// Runs a reranker on its own thread until the deadline and returns the new order of `window`.
pub(crate) fn run(
    reranker: &Arc<dyn Reranker>,
    query: &Query,
    window: Vec<Arc<Tool>>,
    deadline: Deadline,
) -> Result<Vec<RerankScore>, RerankFailure> {
    let count = window.len();
    let (reranker_handle, query) = (Arc::clone(reranker), query.clone());
    let name = || reranker.name().to_owned();
    let failed = |error: RerankError| RerankFailure::Failed(error.to_string());
    let answer = async move {
        reranker_handle
            .rerank(&query, &window, deadline.instant())
            .await
    };
    match deadline.run_async(answer) {
        Ok(Ok(answer)) => order(&answer, count).map_err(|fault| {
            failed(RerankError::InvalidAnswer {
                reranker: name(),
                fault,
            })
        }),
        Ok(Err(paused @ RerankError::Paused { .. })) => {
            Err(RerankFailure::Paused(paused.to_string()))
        }
        Ok(Err(error)) => Err(failed(error)),
        Err(DeadlineError::Expired) => Err(RerankFailure::Failed(format!(
            "the deadline passed before the reranker {} answered",
            name()
        ))),
        Err(DeadlineError::Lost(reason)) => Err(failed(RerankError::Failed {
            reranker: name(),
            reason,
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_accepts_permutations_only(
            window in 0usize..6,
            answer in prop::collection::vec(
                (0usize..7, prop_oneof![4 => -2f32..2.0, 1 => Just(f32::NAN)]),
                0..7,
            ),
        ) {
            let answer: Vec<RerankScore> = answer
                .into_iter()
                .map(|(candidate, score)| RerankScore { candidate, score })
                .collect();
            let scores_for =
                |candidate| answer.iter().filter(move |score| score.candidate == candidate);
            let is_valid =
                |score: &RerankScore| score.candidate < window && score.score.is_finite();
            let is_permutation = answer.iter().all(is_valid)
                && (0..window).all(|candidate| scores_for(candidate).count() == 1);
            match order(&answer, window) {
                Ok(order) => {
                    prop_assert!(is_permutation);
                    let mut places: Vec<usize> =
                        order.iter().map(|score| score.candidate).collect();
                    let better = |pair: &[RerankScore]| {
                        let is_stable = pair[0].candidate < pair[1].candidate;
                        pair[0].score > pair[1].score
                            || (pair[0].score >= pair[1].score && is_stable)
                    };
                    prop_assert!(order.windows(2).all(better), "{:?}", order);
                    places.sort_unstable();
                    prop_assert_eq!(places, (0..window).collect::<Vec<_>>());
                }
                Err(_) => prop_assert!(!is_permutation),
            }
        }
    }

    #[test]
    fn invalid_answer_names_the_fault() {
        let fault = |answer: &[(usize, f32)]| {
            let scores = answer
                .iter()
                .map(|&(candidate, score)| RerankScore { candidate, score });
            order(&scores.collect::<Vec<_>>(), 2).expect_err("it is not a permutation")
        };
        assert_eq!(fault(&[(0, 1.0)]), "no score for the candidate 2 of 2");
        assert_eq!(
            fault(&[(0, 1.0), (0, 1.0)]),
            "two scores for the candidate 1"
        );
        assert_eq!(
            fault(&[(0, 1.0), (1, 1.0), (2, 1.0)]),
            "a score for the candidate 3, and there are 2"
        );
        assert_eq!(
            fault(&[(1, f32::NAN)]),
            "the candidate 2 the score NaN, which is not a finite number"
        );
        assert!(fault(&[(usize::MAX, 1.0)]).contains("and there are 2"));
    }
}
