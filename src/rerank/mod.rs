//! The `Reranker` seam: a second look at the best few candidates, by something that reads request
//! and tool together.
//!
//! A reranker is asynchronous and foreign: it may be slow, hang, block, fail or lie. It runs under
//! the deadline of the pick as a [`Scorer`](crate::scorer::Scorer) does, and its answer is a
//! permutation of what it was shown or nothing: it names candidates by their place, each exactly
//! once, with a number. Whatever else it says leaves the prior order as it was. So no reranker can
//! bring back a tool, lose one, or touch what lies behind its window.

mod breaker;
mod error;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

pub use self::breaker::CircuitBreaker;
pub use self::error::RerankError;
use crate::catalog::Tool;
use crate::deadline::{Deadline, Missed};
use crate::query::Query;

/// How many of the best candidates a reranker is shown unless told otherwise.
pub const DEFAULT_RERANK_WINDOW: usize = 20;

/// The most candidates that a reranker is shown.
pub const MAX_RERANK_WINDOW: usize = 100;

/// When a reranker is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Rerank {
    /// Not at all.
    #[default]
    Never,
    /// Where it can change the answer: the best two candidates score nearly the same, or the last
    /// that is picked and the first that is not do, and that one is not unlikely.
    Auto,
    /// At every pick that has something to reorder.
    Always,
}

/// What a reranker says of one candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RerankScore {
    /// The candidate's place in the window, from 0.
    pub candidate: usize,
    /// How well it fits the request: any number, larger for better. Equal ones keep their order.
    pub score: f32,
}

/// The future of a reranker's answer.
pub type RerankFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<RerankScore>, RerankError>> + Send + 'a>>;

/// Puts the best candidates of a pick in another order.
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
///     fn rerank<'a>(&'a self, _: &'a Query, window: &'a [Arc<Tool>], _: Option<Instant>) -> RerankFuture<'a> {
///         let scores = window.iter().enumerate();
///         let scores = scores.map(|(candidate, tool)| RerankScore { candidate, score: -(tool.name.len() as f32) });
///         Box::pin(async move { Ok(scores.collect()) })
///     }
/// }
///
/// let tools = [Tool::without_arguments("send_long_email", "Sends an email"), Tool::without_arguments("email", "Sends an email")];
/// let engine = Engine::builder(Catalog::from_tools(tools)?).reranker(Arc::new(Shortest)).build()?;
/// let options = PickOptions { rerank: Rerank::Always, ..PickOptions::default() };
/// let selection = engine.pick(&Query::new("send an email"), &options)?;
/// assert_eq!(selection.picks[0].tool.name, "email");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Reranker: Send + Sync {
    /// Names the reranker in provenance and messages.
    fn name(&self) -> &str;

    /// Scores the candidates of `window`, which come best first: one score for each, in any order.
    ///
    /// An answer after `deadline` is dropped; who can stop working then should. It is called within
    /// a tokio runtime that has timers and a blocking pool.
    fn rerank<'a>(
        &'a self,
        query: &'a Query,
        window: &'a [Arc<Tool>],
        deadline: Option<Instant>,
    ) -> RerankFuture<'a>;
}

/// Checks an answer and returns the places of the window in their new order, best first, each with
/// its score.
pub fn order(answer: &[RerankScore], window: usize) -> Result<Vec<RerankScore>, String> {
    let mut scores = vec![None; window];
    for &RerankScore { candidate, score } in answer {
        let place = candidate.saturating_add(1);
        match scores.get_mut(candidate) {
            None => {
                return Err(format!(
                    "a score for the candidate {place}, and there are {window}"
                ));
            }
            Some(_) if !score.is_finite() => {
                return Err(format!(
                    "the candidate {place} the score {score}, which is not a finite number"
                ));
            }
            Some(known @ None) => *known = Some(score),
            Some(Some(_)) => return Err(format!("two scores for the candidate {place}")),
        }
    }
    let mut order = Vec::with_capacity(window);
    for (candidate, score) in scores.into_iter().enumerate() {
        let score = score
            .ok_or_else(|| format!("no score for the candidate {} of {window}", candidate + 1))?;
        order.push(RerankScore { candidate, score });
    }
    // Adding 0 makes 0 of -0, so that they are equal; the sort is stable.
    order.sort_by(|a, b| (b.score + 0.0).total_cmp(&(a.score + 0.0)));
    Ok(order)
}

/// Why the prior order stands.
#[derive(Debug, PartialEq)]
pub(crate) enum NotReranked {
    /// The reranker was not asked, as it has failed of late.
    Paused(String),
    /// It gave no answer that counts.
    Failed(String),
}

/// Asks a reranker until the deadline, on a thread of its own, for the new order of `window`.
pub(crate) fn run(
    reranker: &Arc<dyn Reranker>,
    query: &Query,
    window: Vec<Arc<Tool>>,
    deadline: Deadline,
) -> Result<Vec<RerankScore>, NotReranked> {
    let count = window.len();
    let (own, query) = (Arc::clone(reranker), query.clone());
    let name = || reranker.name().to_owned();
    let failed = |error: RerankError| NotReranked::Failed(error.to_string());
    match deadline.run_async(async move { own.rerank(&query, &window, deadline.instant()).await }) {
        Ok(Ok(answer)) => order(&answer, count).map_err(|fault| {
            failed(RerankError::InvalidAnswer {
                reranker: name(),
                fault,
            })
        }),
        Ok(Err(paused @ RerankError::Paused { .. })) => {
            Err(NotReranked::Paused(paused.to_string()))
        }
        Ok(Err(error)) => Err(failed(error)),
        Err(Missed::Expired) => Err(NotReranked::Failed(format!(
            "the deadline passed before the reranker {} answered",
            name()
        ))),
        Err(Missed::Lost(reason)) => Err(failed(RerankError::Failed {
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
        fn what_counts_is_a_permutation_and_nothing_else_does(
            window in 0usize..6,
            answer in prop::collection::vec((0usize..7, prop_oneof![4 => -2f32..2.0, 1 => Just(f32::NAN)]), 0..7),
        ) {
            let answer: Vec<RerankScore> =
                answer.into_iter().map(|(candidate, score)| RerankScore { candidate, score }).collect();
            let of = |candidate| answer.iter().filter(move |score| score.candidate == candidate);
            let sound = answer.iter().all(|score| score.candidate < window && score.score.is_finite())
                && (0..window).all(|candidate| of(candidate).count() == 1);
            match order(&answer, window) {
                Ok(order) => {
                    prop_assert!(sound);
                    let mut places: Vec<usize> = order.iter().map(|score| score.candidate).collect();
                    let better = |pair: &[RerankScore]| {
                        pair[0].score > pair[1].score
                            || (pair[0].score >= pair[1].score && pair[0].candidate < pair[1].candidate)
                    };
                    prop_assert!(order.windows(2).all(better), "{:?}", order);
                    places.sort_unstable();
                    prop_assert_eq!(places, (0..window).collect::<Vec<_>>());
                }
                Err(_) => prop_assert!(!sound),
            }
        }
    }

    #[test]
    fn the_fault_is_named() {
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
