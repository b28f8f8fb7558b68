//! Formats of model providers: tool definitions, calls, results and transcripts.
//!
//! [`translate`] writes the definitions. The schema in a definition is a *view* of the tool's
//! `provider_schema`, or else of its `parameters`; it changes neither. [`Translation::changes`]
//! lists everything that a view cannot express.
//!
//! A call is validated against the canonical schema. A less precise view therefore loses only
//! guidance for the model. [`Provider::restore_arguments`] converts the arguments of a view back.
//!
//! [`Provider::answer`] and [`CallStream`] parse the answers of a model, [`query_from_transcript`]
//! parses earlier messages, and [`Provider::results`] writes the results of calls.
//!
//! Each provider has its own file, which gives a source for every fact: rules, definitions,
//! answers, streams, results, messages and endpoint. The module `format` defines the content of
//! these files, and `docs/reference/providers.md` is an overview. A new provider needs a file and a
//! line below.

mod anthropic;
mod answer;
mod byte_pairs;
mod calls;
mod changes;
mod conversation;
mod definitions;
mod error;
mod events;
mod format;
mod gemini;
mod mcp;
mod messages;
mod naming;
mod ollama;
mod openai_chat;
mod openai_responses;
mod outcomes;
mod pieces;
mod restore;
mod results;
mod servers;
mod stream;
mod text_calls;
mod tokens;
mod transcript;
mod translate;
mod view;
mod wire;

use std::fmt;
use std::str::FromStr;

pub use answer::{Answer, Finish};
pub use calls::{Arguments, MAX_ANSWER_ARGUMENT_BYTES, MAX_CALLS, ToolCall};
pub use changes::{Change, ChangeCode};
pub use definitions::Definitions;
pub use error::{ResponseError, ResultError, TranslateError, UnknownProvider};
pub use events::{EventReader, MAX_EVENT_BYTES};
pub use format::Endpoint;
use format::{Format, Strictness};
pub use results::CallResult;
pub use stream::CallStream;
pub use text_calls::{TextCalls, call_mark, calls_in_text, possible_call};
pub use tokens::Tokenizer;
pub use transcript::{Turn, query_from_transcript, query_from_turns, query_from_value, turns};
pub use translate::{TranslateOptions, Translation, tool_references, translate};

/// Defines the enum, the list of its variants, and the lookup of their formats.
macro_rules! providers {
    ($($(#[$doc:meta])* $provider:ident => $format:path,)*) => {
        /// The format of a model provider for tools and calls.
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
    /// OpenAI Chat Completions, and compatible APIs.
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

    /// Returns `true` if the provider supports strict schemas, which the model must follow.
    pub fn has_strict(self) -> bool {
        self.format().rules().strict != Strictness::None
    }

    /// Returns `true` if the provider supports deferred loading of definitions.
    pub fn has_deferred_loading(self) -> bool {
        self.format().rules().search.is_some()
    }

    /// Returns `true` if definitions are strict unless the caller or the tool says otherwise.
    pub fn strict_by_default(self) -> bool {
        self.format().rules().strict == Strictness::ByDefault
    }

    /// Returns the HTTP endpoint of the model; `None` if the format has no chat.
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
        let known_names = || Self::ALL.into_iter().map(Self::name).collect();
        Self::ALL
            .into_iter()
            .find(|provider| provider.name() == name)
            .ok_or_else(|| UnknownProvider {
                name: name.to_owned(),
                known: known_names(),
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
    fn provider_names_are_unique() {
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
