//! Provider formats: how each provider wants tools written, and how it writes the calls of a model.
//!
//! [`translate`] makes the definitions. The schema that a provider is shown is a *view*: it is made
//! from a tool's `provider_schema`, else from its `parameters`, and never changes either. What a
//! view cannot express is said in [`Translation::changes`]; a call is validated against the
//! canonical schema, so that a looser view loses nothing but the model's guidance.
//! [`Provider::restore_arguments`] undoes on the call side what a view renamed or wrapped.
//! [`Provider::answer`] and [`CallStream`] read what a model answers, and [`query_from_transcript`]
//! what was said before; [`Provider::results`] writes what a model is told of its calls.
//!
//! What is particular to a provider stands in its own file, each fact with its source: its rules,
//! its definitions, its answers, streams, results and messages, and its endpoint. `format` says
//! what such a file tells; `docs/providers.md` is the overview. Another provider is a file and a
//! line below.

mod anthropic;
mod answer;
mod byte_pairs;
mod calls;
mod definitions;
mod error;
mod events;
mod format;
mod gemini;
mod mcp;
mod naming;
mod ollama;
mod openai_chat;
mod openai_responses;
mod restore;
mod results;
mod stream;
mod tokens;
mod transcript;
mod translate;
mod view;
mod wire;

use std::fmt;
use std::str::FromStr;

pub use answer::{Answer, Finish};
pub use calls::{Arguments, MAX_ANSWER_ARGUMENT_BYTES, MAX_CALLS, ToolCall};
pub use definitions::Definitions;
pub use error::{ResponseError, ResultError, TranslateError, UnknownProvider};
pub use events::{EventReader, MAX_EVENT_BYTES};
pub use format::Endpoint;
use format::{Format, Strictness};
pub use results::CallResult;
pub use stream::CallStream;
pub use tokens::Tokenizer;
pub use transcript::{Turn, query_from_transcript, query_from_value, turns};
pub use translate::{
    Change, ChangeCode, TranslateOptions, Translation, tool_references, translate,
};

/// Makes the enum, its list, and the one place where a provider's format is looked up.
macro_rules! providers {
    ($($(#[$doc:meta])* $provider:ident => $format:path,)*) => {
        /// A format of tools and calls.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Provider {
            $($(#[$doc])* $provider,)*
        }

        impl Provider {
            /// Every provider, in the order of the documentation.
            pub const ALL: [Self; [$(Self::$provider),*].len()] = [$(Self::$provider),*];

            fn format(self) -> &'static dyn Format {
                match self {
                    $(Self::$provider => &$format,)*
                }
            }
        }
    };
}

providers! {
    /// OpenAI Chat Completions, and all that speak it.
    OpenAiChat => openai_chat::OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses => openai_responses::OpenAiResponses,
    /// Anthropic Messages.
    Anthropic => anthropic::Anthropic,
    /// Gemini `generateContent`.
    Gemini => gemini::Gemini,
    /// Ollama `/api/chat`.
    Ollama => ollama::Ollama,
    /// The Model Context Protocol: `tools/list` and `tools/call`.
    Mcp => mcp::Mcp,
}

impl Provider {
    /// Returns the provider's stable name.
    pub fn name(self) -> &'static str {
        self.format().rules().name
    }

    /// Returns `true` if the provider can hold a model to a schema.
    pub fn has_strict(self) -> bool {
        self.format().rules().strict != Strictness::None
    }

    /// Returns `true` if definitions can be loaded when the model asks for them.
    pub fn has_deferred_loading(self) -> bool {
        self.format().rules().search.is_some()
    }

    /// What the provider does where neither the caller nor the tool says whether to be strict.
    pub fn strict_by_default(self) -> bool {
        self.format().rules().strict == Strictness::ByDefault
    }

    /// How a model is asked over HTTP; `None` where there is no chat.
    pub fn endpoint(self) -> Option<&'static Endpoint> {
        self.format().endpoint()
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
            .ok_or_else(|| UnknownProvider {
                name: name.to_owned(),
                known: known(),
            })
    }
}

impl serde::Serialize for Provider {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> serde::Deserialize<'de> for Provider {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
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
        assert!(
            error
                .to_string()
                .contains("openai, openai-responses, anthropic, gemini, ollama, mcp"),
            "{error}"
        );
    }
}
