//! Token counts of tool definitions, for the token budget of a pick.

use std::sync::Arc;

use picktools::Tool;
use picktools::tokens::{TokenBudget, TokenCountError, TokenCounter};

use crate::{Provider, Tokenizer, translate};

/// A token counter for definitions in the format of any [`Provider`], with the tokenizer
/// `o200k_base`.
///
/// ```
/// use std::sync::Arc;
///
/// use picktools::options::TokenBudget;
/// use picktools::{Catalog, Engine, PickOptions, Query, Tool};
/// use picktools_provider::Definitions;
///
/// let tool = Tool::without_arguments("get_forecast", "Weather for the coming days");
/// let catalog = Catalog::from_tools([tool])?;
/// let engine = Engine::builder(catalog).token_counter(Arc::new(Definitions)).build()?;
/// let options = PickOptions {
///     token_budget: Some(TokenBudget::new(500)),
///     ..PickOptions::default()
/// };
/// let selection = engine.pick(&Query::new("will it rain?"), &options)?;
/// assert!(selection.tokens.is_some_and(|tokens| tokens.picks <= 500));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Definitions;

impl TokenCounter for Definitions {
    fn tokenizer(&self) -> &'static str {
        "o200k_base"
    }

    fn count(&self, tools: &[Arc<Tool>], budget: &TokenBudget) -> Result<usize, TokenCountError> {
        let failed = |reason: String| TokenCountError { reason };
        let provider: Provider = budget
            .provider
            .parse()
            .map_err(|error| failed(format!("{error}")))?;
        let translation =
            translate(tools, provider, &budget.view).map_err(|error| failed(error.to_string()))?;
        Ok(translation.tokens(Tokenizer::O200k))
    }
}
