//! The subsets of JSON Schema.

/// The subset of JSON Schema that a provider accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Nearly all keywords; OpenAI's subset in strict mode.
    OpenAi,
    /// Nearly all keywords; Anthropic's subset in strict mode.
    Anthropic,
    Gemini,
    Ollama,
    /// All keywords.
    JsonSchema,
}
