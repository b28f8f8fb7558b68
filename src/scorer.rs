//! The `Scorer` trait: a custom ranking in place of the built-in one.
//!
//! A scorer is asynchronous foreign code: it may be slow, hang, block, fail or return invalid
//! scores. It runs on its own thread with a small runtime, whether or not the caller is
//! synchronous. Its future is dropped when the deadline passes. Each score is checked before it
//! counts.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use serde_json::Value;

use crate::catalog::Tool;
use crate::deadline::{Deadline, DeadlineError};
use crate::query::Query;

/// An error from a scorer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ScorerError {
    /// The scorer failed.
    #[error("the scorer {scorer} failed: {reason}")]
    Failed {
        /// The scorer's name.
        scorer: String,
        /// The cause.
        reason: String,
    },
    /// A score is not a number from 0 to 1.
    #[error(
        "the scorer {scorer} gave {tool} the score {score}, which is not a number from 0 to 1; \
         the tool is excluded"
    )]
    InvalidScore {
        /// The scorer's name.
        scorer: String,
        /// The tool's id.
        tool: String,
        /// The score, as text because it may not be a number.
        score: String,
    },
    /// The number of scores differs from the number of tools.
    #[error(
        "the scorer {scorer} gave {scores} scores for {tools} tools; \
         it must give one for each, in order"
    )]
    WrongCount {
        /// The scorer's name.
        scorer: String,
        /// The number of scores.
        scores: usize,
        /// The number of tools.
        tools: usize,
    },
}

/// The score of one tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// Relevance, 0..1.
    pub score: f32,
    /// A reason for people, in the form of a clause. `None` gives a reason that states the score.
    pub reason: Option<String>,
    /// Further evidence, which is copied to the provenance.
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

/// A ranking that replaces the built-in one.
///
/// It receives only eligible tools, all at once, so that it can batch. [`per_tool`] makes a scorer
/// from a function that scores a single tool. An expensive scorer can receive only the best tools
/// of the built-in ranking ([`EngineBuilder::shortlist`](crate::EngineBuilder::shortlist)).
///
/// ```
/// use std::sync::Arc;
/// use picktools::scorer::{Score, per_tool};
/// use picktools::{Catalog, Engine, PickOptions, Query, Tool};
///
/// let tools = [
///     Tool::without_arguments("send_email", "Sends an email"),
///     Tool::without_arguments("get_forecast", "Weather for the coming days"),
/// ];
/// let scorer = per_tool("shortest", |_, tool| async move {
///     Ok(Score::new(1.0 / tool.name.len() as f32))
/// });
/// let engine = Engine::builder(Catalog::from_tools(tools)?).scorer(Arc::new(scorer)).build()?;
/// let selection = engine.pick(&Query::new("anything"), &PickOptions::default())?;
/// assert_eq!(selection.picks[0].tool.name, "send_email");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Scorer: Send + Sync {
    /// Returns the name of the scorer for provenance and messages.
    fn name(&self) -> &str;

    /// Scores `tools`: one score per tool, in the same order.
    fn score<'a>(&'a self, query: &'a Query, tools: &'a [Arc<Tool>]) -> ScoreFuture<'a>;
}

/// The default number of tools that a [`PerTool`] scores at once.
const DEFAULT_CONCURRENCY: usize = 8;

/// Makes a scorer from an asynchronous function that scores one tool. It scores eight tools at
/// once.
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

/// A scorer that scores each tool by itself, several at once. [`per_tool`] makes it.
///
/// The scores have the order of the tools, in whichever order they finish. The first error ends the
/// scoring.
pub struct PerTool<F> {
    name: String,
    score: F,
    max_concurrent: usize,
}

impl<F> PerTool<F> {
    /// Limits how many tools are scored at once, at least one. They share a thread: futures that
    /// wait, such as HTTP requests, wait at the same time; futures that compute run one after
    /// another.
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
/// error in that order ends it.
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

/// The cause of missing scores.
#[derive(Debug)]
pub(crate) enum ScorerFailure {
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
) -> Result<Vec<Score>, ScorerFailure> {
    let count = tools.len();
    let (scorer_handle, query) = (Arc::clone(scorer), query.clone());
    let scores = match deadline.run_async(async move { scorer_handle.score(&query, &tools).await })
    {
        Ok(answer) => answer.map_err(ScorerFailure::Failed)?,
        Err(DeadlineError::Expired) => return Err(ScorerFailure::Expired),
        Err(DeadlineError::Lost(reason)) => {
            return Err(ScorerFailure::Failed(ScorerError::Failed {
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
        return Err(ScorerFailure::Failed(error));
    }
    Ok(scores)
}
