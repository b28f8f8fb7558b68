//! Token costs of tool definitions: the budget of a pick, and the trait that counts.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::Tool;
use crate::names::Advertising;

/// What the definitions of the picks may cost: tokens of the request's `tools` member, written as
/// compact JSON, counted with `o200k_base`. Other tokenizers count other numbers; leave some room
/// for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TokenBudget {
    /// The most tokens, from 1.
    pub tokens: usize,
    /// The stable name of the provider in whose format they are counted; `openai` by default.
    #[serde(default = "openai")]
    pub provider: String,
    /// How the definitions are made.
    #[serde(default)]
    pub view: TranslateOptions,
}

fn openai() -> String {
    "openai".to_owned()
}

/// How tools are translated into the definitions of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TranslateOptions {
    /// Whether the provider shall hold the model to the schemas. `None` leaves it to each tool
    /// ([`Tool::strict`](crate::Tool::strict)), and to the provider's default if the tool says
    /// nothing.
    pub strict: Option<bool>,
    /// Under which names the tools are shown.
    pub advertising: Advertising,
    /// Whether definitions are loaded only when the model asks for them.
    pub deferred: bool,
}

impl TokenBudget {
    /// Makes a budget for OpenAI's chat format.
    pub fn new(tokens: usize) -> Self {
        Self {
            tokens,
            provider: openai(),
            view: TranslateOptions::default(),
        }
    }
}

/// Counts what tool definitions cost in tokens (`picktools_provider::Definitions`).
pub trait TokenCounter: Send + Sync {
    /// Names the tokenizer in reports, such as `o200k_base`.
    fn tokenizer(&self) -> &'static str;

    /// Counts the tokens of an API request's `tools` member with these tools, in the format of
    /// `budget`.
    ///
    /// # Errors
    ///
    /// [`TokenCountError`] if the format has no such definitions.
    fn count(&self, tools: &[Arc<Tool>], budget: &TokenBudget) -> Result<usize, TokenCountError>;
}

/// An error from counting the tokens of tool definitions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct TokenCountError {
    /// The reason, with what to do.
    pub reason: String,
}
