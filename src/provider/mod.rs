//! Provider formats: how each provider wants tools written, and how it writes the calls of a model.
//!
//! [`translate`] makes the definitions. The schema that a provider is shown is a *view*: it is made from a tool's
//! `provider_schema`, else from its `parameters`, and never changes either. What a view cannot express is said in
//! [`Translation::changes`]; a call is validated against the canonical schema, so that a looser view loses nothing but
//! the model's guidance. [`Provider::restore_arguments`] undoes on the call side what a view renamed or wrapped.
//! [`Provider::calls`] and [`CallStream`] read the calls out of an answer.
//!
//! Facts about providers are constants here and in `view`, each with its source; `docs/providers.md` is the overview.

mod calls;
mod detail;
mod events;
mod naming;
mod restore;
mod stream;
mod tokens;
mod translate;
mod view;

use std::fmt;
use std::str::FromStr;

use crate::error::UnknownProvider;

pub use calls::{Arguments, MAX_ANSWER_ARGUMENT_BYTES, MAX_CALLS, ToolCall};
pub use detail::Detail;
pub use events::{EventReader, MAX_EVENT_BYTES};
pub use stream::CallStream;
#[cfg(feature = "tokens")]
pub use tokens::Tokenizer;
pub use translate::{Change, ChangeCode, TranslateOptions, Translation, tool_references, translate};

/// A format of tools and calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// OpenAI Chat Completions, and all that speak it.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini `generateContent`.
    Gemini,
    /// Ollama `/api/chat`.
    Ollama,
    /// The Model Context Protocol: `tools/list` and `tools/call`.
    Mcp,
}

/// The most tools of a request to OpenAI. Source: `developers.openai.com/api/reference`, Chat Completions `tools`
/// ("a max of 128 functions are supported"), and the error `array_above_max_length`.
pub(crate) const OPENAI_MAX_TOOLS: usize = 128;

/// The most function declarations of a request to Gemini. Source: Vertex AI reference, `Tool.functionDeclarations`.
pub(crate) const GEMINI_MAX_TOOLS: usize = 512;

/// The most deferred tools of a request to Anthropic. Source: `platform.claude.com`, "Tool search tool", limits.
pub(crate) const ANTHROPIC_MAX_DEFERRED: usize = 10_000;

/// The longest description of a function that every OpenAI model takes, in characters. Source: the error
/// `string_above_max_length` ("Expected a string with maximum length 1024").
pub(crate) const OPENAI_MAX_DESCRIPTION: usize = 1024;

impl Provider {
    /// Every provider, in the order of the documentation.
    pub const ALL: [Self; 6] =
        [Self::OpenAiChat, Self::OpenAiResponses, Self::Anthropic, Self::Gemini, Self::Ollama, Self::Mcp];

    /// Returns the provider's stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Mcp => "mcp",
        }
    }

    /// Tells whether the provider can hold a model to a schema.
    pub fn has_strict(self) -> bool {
        matches!(self, Self::OpenAiChat | Self::OpenAiResponses | Self::Anthropic)
    }

    /// Tells whether definitions can be loaded when the model asks for them.
    pub fn has_deferred_loading(self) -> bool {
        matches!(self, Self::OpenAiResponses | Self::Anthropic)
    }

    /// What the provider does where neither the caller nor the tool says whether to be strict.
    ///
    /// Source: `developers.openai.com`, "Migrate to the Responses API" (functions are strict by default in Responses,
    /// non-strict in Chat Completions); `platform.claude.com`, "Strict tool use" (off unless asked for).
    pub fn strict_by_default(self) -> bool {
        self == Self::OpenAiResponses
    }

    fn max_tools(self) -> Option<usize> {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => Some(OPENAI_MAX_TOOLS),
            Self::Gemini => Some(GEMINI_MAX_TOOLS),
            Self::Anthropic | Self::Ollama | Self::Mcp => None,
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Provider {
    type Err = UnknownProvider;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = || Self::ALL.into_iter().map(Self::name).collect();
        Self::ALL
            .into_iter()
            .find(|provider| provider.name() == name)
            .ok_or_else(|| UnknownProvider { name: name.to_owned(), known: known() })
    }
}

impl serde::Serialize for Provider {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> serde::Deserialize<'de> for Provider {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_providers_are_one_to_one() {
        for provider in Provider::ALL {
            assert_eq!(provider.to_string().parse(), Ok(provider));
        }
        let error = "openia".parse::<Provider>().expect_err("no such provider");
        assert!(error.to_string().contains("openai, openai-responses, anthropic, gemini, ollama, mcp"), "{error}");
    }
}
