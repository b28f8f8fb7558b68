//! The `Scorer` seam: a caller's own way of scoring, in place of the built-in ranking.
//!
//! A scorer is asynchronous and foreign: it may be slow, hang, block, fail or lie. It runs on a
//! thread of its own with a small runtime (the caller may be synchronous or not), its future is
//! dropped when the deadline passes, and each score is checked before it counts.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use serde_json::Value;

use crate::catalog::Tool;
use crate::deadline::{Deadline, Missed};
use crate::query::Query;

/// An error from a scorer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ScorerError {
    /// The scorer could not do its work.
    #[error("the scorer {scorer} failed: {reason}")]
    Failed {
        /// The scorer's name.
        scorer: String,
        /// Why it failed.
        reason: String,
    },
    /// A score is not a number from 0 to 1.
    #[error(
        "the scorer {scorer} gave {tool} the score {score}, which is not a number from 0 to 1; the tool is left out"
    )]
    InvalidScore {
        /// The scorer's name.
        scorer: String,
        /// The tool's id.
        tool: String,
        /// The score, as text because it may not be a number.
        score: String,
    },
    /// The scorer gave another number of scores than there are tools.
    #[error(
        "the scorer {scorer} gave {scores} scores for {tools} tools; it must give one for each, in order"
    )]
    WrongCount {
        /// The scorer's name.
        scorer: String,
        /// How many scores came.
        scores: usize,
        /// How many tools there are.
        tools: usize,
    },
}

/// What a scorer says of one tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// Relevance, 0..1.
    pub score: f32,
    /// One sentence for people; a general one stands in where there is none.
    pub reason: Option<String>,
    /// Whatever else shall stand in the provenance.
    pub details: Option<Value>,
}

impl Score {
    /// Makes a score without a reason or details.
    pub fn new(score: f32) -> Self {
        Self {
            score,
            reason: None,
            details: None,
        }
    }
}

/// The future of a scorer's answer.
pub type ScoreFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<Score>, ScorerError>> + Send + 'a>>;

/// Scores tools for a request, in place of the built-in ranking.
///
/// It is only shown tools that may be seen, all at once, so that a scorer can batch; [`per_tool`]
/// makes one of a function that scores a single tool. One that costs much is shown the best few of
/// the built-in ranking ([`EngineBuilder::shortlist`](crate::EngineBuilder::shortlist)).
///
/// ```
/// use std::sync::Arc;
/// use picktools::scorer::{Score, per_tool};
/// use picktools::{Catalog, Engine, PickOptions, Query, Tool};
///
/// let tools = [Tool::without_arguments("send_email", "Sends an email"), Tool::without_arguments("get_forecast", "Weather for the coming days")];
/// let scorer = per_tool("shortest", |_, tool| async move { Ok(Score::new(1.0 / tool.name.len() as f32)) });
/// let engine = Engine::builder(Catalog::from_tools(tools)?).scorer(Arc::new(scorer)).build()?;
/// let selection = engine.pick(&Query::new("anything"), &PickOptions::default())?;
/// assert_eq!(selection.picks[0].tool.name, "send_email");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Scorer: Send + Sync {
    /// Names the scorer in provenance and messages.
    fn name(&self) -> &str;

    /// Scores `tools`, one score a tool, in order.
    fn score<'a>(&'a self, query: &'a Query, tools: &'a [Arc<Tool>]) -> ScoreFuture<'a>;
}

/// How many tools a [`PerTool`] scores at once unless told otherwise.
const DEFAULT_CONCURRENCY: usize = 8;

/// Makes a scorer of an asynchronous function that scores one tool; eight tools are scored at once.
pub fn per_tool<F, Fut>(name: impl Into<String>, score: F) -> PerTool<F>
where
    F: Fn(Query, Arc<Tool>) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Score, ScorerError>> + Send,
{
    PerTool {
        name: name.into(),
        score,
        max_concurrent: DEFAULT_CONCURRENCY,
    }
}

/// A scorer that scores tools one by one, a few at once; [`per_tool`] makes it.
///
/// The scores stand in the order of the tools, whichever is done first. The first error ends the
/// scoring.
pub struct PerTool<F> {
    name: String,
    score: F,
    max_concurrent: usize,
}

impl<F> PerTool<F> {
    /// Scores at most so many tools at once, at least one. They share a thread, so that what waits,
    /// as for a model that answers over HTTP, is waited for together; what computes does so one
    /// after the other.
    #[must_use]
    pub fn max_concurrent(mut self, tools: usize) -> Self {
        self.max_concurrent = tools.max(1);
        self
    }
}

impl<F> fmt::Debug for PerTool<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerTool")
            .field("name", &self.name)
            .field("max_concurrent", &self.max_concurrent)
            .finish_non_exhaustive()
    }
}

impl<F, Fut> Scorer for PerTool<F>
where
    F: Fn(Query, Arc<Tool>) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Score, ScorerError>> + Send,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn score<'a>(&'a self, query: &'a Query, tools: &'a [Arc<Tool>]) -> ScoreFuture<'a> {
        let scores = tools
            .iter()
            .map(|tool| (self.score)(query.clone(), Arc::clone(tool)));
        Box::pin(in_order(scores, self.max_concurrent))
    }
}

/// Runs futures, at most `max_concurrent` at once, and collects their values in order. The first
/// error in order ends it.
async fn in_order<I, T, E>(mut futures: I, max_concurrent: usize) -> Result<Vec<T>, E>
where
    I: Iterator<Item: Future<Output = Result<T, E>>>,
{
    let mut values = Vec::new();
    let mut running: VecDeque<Running<I::Item, Result<T, E>>> = VecDeque::new();
    poll_fn(move |context| {
        loop {
            while running.len() < max_concurrent
                && let Some(future) = futures.next()
            {
                running.push_back(Running::Future(Box::pin(future)));
            }
            for slot in &mut running {
                if let Running::Future(future) = slot
                    && let Poll::Ready(value) = future.as_mut().poll(context)
                {
                    *slot = Running::Done(value);
                }
            }
            if running.is_empty() {
                return Poll::Ready(Ok(std::mem::take(&mut values)));
            }
            if let Some(Running::Future(_)) = running.front() {
                return Poll::Pending;
            }
            while let Some(Running::Done(_)) = running.front() {
                match running.pop_front() {
                    Some(Running::Done(Ok(value))) => values.push(value),
                    Some(Running::Done(Err(error))) => return Poll::Ready(Err(error)),
                    _ => {}
                }
            }
        }
    })
    .await
}

/// A future of [`in_order`], or its value.
enum Running<F, V> {
    Future(Pin<Box<F>>),
    Done(V),
}

/// Why there are no scores.
#[derive(Debug)]
pub(crate) enum NoScores {
    /// The deadline passed.
    Expired,
    Failed(ScorerError),
}

/// Runs a scorer on its own thread until it answers or the deadline passes.
pub(crate) fn run(
    scorer: &Arc<dyn Scorer>,
    query: &Query,
    tools: Vec<Arc<Tool>>,
    deadline: Deadline,
) -> Result<Vec<Score>, NoScores> {
    let count = tools.len();
    let (own, query) = (Arc::clone(scorer), query.clone());
    let scores = match deadline.run_async(async move { own.score(&query, &tools).await }) {
        Ok(answer) => answer.map_err(NoScores::Failed)?,
        Err(Missed::Expired) => return Err(NoScores::Expired),
        Err(Missed::Lost(reason)) => {
            return Err(NoScores::Failed(ScorerError::Failed {
                scorer: scorer.name().to_owned(),
                reason,
            }));
        }
    };
    if scores.len() != count {
        let error = ScorerError::WrongCount {
            scorer: scorer.name().to_owned(),
            scores: scores.len(),
            tools: count,
        };
        return Err(NoScores::Failed(error));
    }
    Ok(scores)
}
