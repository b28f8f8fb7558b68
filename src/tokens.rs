//! Token costs of tool definitions: the budget of a pick and the counter.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::Tool;
use crate::names::Advertising;

/// The token budget of the picks' definitions. It limits the tokens of the API request's `tools`
/// member as compact JSON, counted with `o200k_base`. Other tokenizers give other numbers; leave
/// some room for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TokenBudget {
    /// The largest number of tokens, from 1.
    pub tokens: usize,
    /// The stable name of the provider whose format is counted; `openai` by default.
    #[serde(default = "openai")]
    pub provider: String,
    /// The form of the definitions.
    #[serde(default)]
    pub view: TranslateOptions,
}

fn openai() -> String {
    "openai".to_owned()
}

/// Options for translating tools into the definitions of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TranslateOptions {
    /// Strict mode: the provider makes the model's arguments match the schemas. `None` uses the
    /// setting of each tool ([`Tool::strict`](crate::Tool::strict)), and the provider's default if
    /// the tool has none.
    pub strict: Option<bool>,
    /// The names under which the tools are shown.
    pub advertising: Advertising,
    /// `true` to load definitions only when the model asks for them.
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

/// A counter for the tokens of tool definitions (`picktools_provider::Definitions`).
pub trait TokenCounter: Send + Sync {
    /// Returns the name of the tokenizer for reports, such as `o200k_base`.
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
