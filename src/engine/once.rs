//! Picks from tools that are indexed for one request only.

use std::sync::Arc;
use std::time::Instant;

use super::Engine;
use crate::catalog::{Catalog, Tool};
use crate::options::{PickError, PickOptions};
use crate::query::Query;
use crate::scorer::Scorer;
use crate::selection::Selection;

/// Picks from tools that are indexed for this request only, with the built-in ranking. An
/// [`Engine`] serves many requests, and may have a reranker or skills. The timeout starts at the
/// call: indexing, on tokio's blocking pool, shortens the time for the stages of the pick.
///
/// # Errors
///
/// [`PickError`] if the tools are not a valid catalog; otherwise as [`Engine::pick`].
///
/// # Panics
///
/// Outside a tokio runtime.
pub async fn pick_tools(
    input: impl Into<Query>,
    tools: impl IntoIterator<Item = Tool>,
    options: PickOptions,
) -> Result<Selection, PickError> {
    let tools = tools.into_iter().collect();
    index_and_pick(input.into(), tools, options, None).await
}

/// Picks like [`pick_tools`], but ranks with a scorer of the caller in place of the built-in
/// ranking.
///
/// The scorer receives only eligible tools. If it fails, panics, is late or gives another number
/// of scores, the tools keep their order, and [`Selection::degraded`] has the reason. A tool whose
/// score is not a number from 0 to 1 is left out and reported in [`Selection::scorer_errors`].
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use picktools::scorer::{Score, per_tool};
/// use picktools::{PickOptions, Tool, pick_tools_with};
///
/// let tools = [
///     Tool::without_arguments("get_forecast", "Weather for the coming days"),
///     Tool::without_arguments("book_room", "Books a meeting room"),
/// ];
/// let scorer = per_tool("shortest", |_, tool| async move {
///     Ok(Score::new(1.0 / tool.name.len() as f32))
/// });
/// let options = PickOptions::default();
/// let selection = pick_tools_with("anything", tools, options, Arc::new(scorer)).await?;
/// assert_eq!(selection.picks[0].tool.name, "book_room");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// As [`pick_tools`].
///
/// # Panics
///
/// Outside a tokio runtime.
pub async fn pick_tools_with(
    input: impl Into<Query>,
    tools: impl IntoIterator<Item = Tool>,
    options: PickOptions,
    scorer: Arc<dyn Scorer>,
) -> Result<Selection, PickError> {
    let tools = tools.into_iter().collect();
    index_and_pick(input.into(), tools, options, Some(scorer)).await
}

/// Indexes tools and picks from them, on tokio's blocking pool.
async fn index_and_pick(
    query: Query,
    tools: Vec<Tool>,
    mut options: PickOptions,
    scorer: Option<Arc<dyn Scorer>>,
) -> Result<Selection, PickError> {
    let started = Instant::now();
    let pick = tokio::task::spawn_blocking(move || {
        let mut engine = Engine::new(Catalog::from_tools(tools)?)?;
        if let Some(scorer) = scorer {
            engine = engine.with_scorer(scorer, None);
        }
        if let Some(timeout) = &mut options.timeout {
            *timeout = timeout.saturating_sub(started.elapsed());
        }
        engine.pick(&query, &options)
    });
    pick.await.map_err(|error| PickError::Worker {
        reason: error.to_string(),
    })?
}
