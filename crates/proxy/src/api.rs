//! The interfaces of providers: where tools, choices and conversations stand in a request.

use picktools_gateway::settings::{ProviderSettings, ProxySettings};
use picktools_provider::{Turn, turns};
use serde_json::{Value, json};

use crate::members::Members;
use crate::unchanged::Unchanged;

/// The most messages of a conversation that is narrowed; [`turns`] reads some more, so that it
/// reads all.
const MAX_MESSAGES: usize = 4_000;
/// The most requests of a conversation that is narrowed.
const MAX_TURNS: usize = 512;

/// An interface of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// OpenAI's chat completions.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Messages,
    /// What such a message would cost.
    CountTokens,
}

/// What a request says of the choice of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The model chooses; as OpenAI calls it, `auto` or `required`.
    Open(&'static str),
    /// It must call this tool.
    Named(String),
    /// It may call none.
    None,
    /// The request itself says among which.
    Other,
}

/// What is read of a tool.
pub(crate) struct Read {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) parameters: Value,
}

impl Api {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Chat,
        Self::Responses,
        Self::Messages,
        Self::CountTokens,
    ];

    /// Returns the path on which it is asked, below the address of its provider.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
            Self::Messages => "/messages",
            Self::CountTokens => "/messages/count_tokens",
        }
    }

    pub(crate) fn provider(self, settings: &ProxySettings) -> Option<&ProviderSettings> {
        if self.is_openai() {
            settings.openai.as_ref()
        } else {
            settings.anthropic.as_ref()
        }
    }

    /// The shape of its requests.
    pub(crate) fn shape(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages | Self::CountTokens => "messages",
        }
    }

    pub(crate) fn is_openai(self) -> bool {
        matches!(self, Self::Chat | Self::Responses)
    }

    /// What is read of an entry of `tools`: `None` where it is no function, but something of the
    /// provider's own.
    pub(crate) fn tool(self, entry: &Value) -> Result<Option<Read>, Unchanged> {
        let kind = entry.get("type").and_then(Value::as_str);
        let (is_function, function, schema) = match self {
            Self::Chat => (
                kind == Some("function"),
                entry.get("function"),
                "parameters",
            ),
            Self::Responses => (kind == Some("function"), Some(entry), "parameters"),
            Self::Messages | Self::CountTokens => (
                matches!(kind, None | Some("custom")),
                Some(entry),
                "input_schema",
            ),
        };
        if !entry.is_object() || (kind.is_none() && self.is_openai()) {
            return Err(Unchanged::Tools);
        }
        if !is_function {
            return Ok(None);
        }
        let function = function.ok_or(Unchanged::Tools)?;
        let text = |name: &str| {
            function
                .get(name)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let name = text("name")
            .filter(|name| !name.trim().is_empty())
            .ok_or(Unchanged::Tools)?;
        let parameters = function
            .get(schema)
            .filter(|schema| schema.is_object())
            .cloned();
        let parameters = parameters.unwrap_or_else(|| json!({}));
        Ok(Some(Read {
            name,
            description: text("description").unwrap_or_default(),
            parameters,
        }))
    }

    /// What a request says of the choice of a tool.
    pub(crate) fn choice(self, members: &Members<'_>) -> Result<Choice, Unchanged> {
        let Some(text) = members.get("tool_choice").filter(|text| *text != "null") else {
            return Ok(Choice::Open("auto"));
        };
        let choice: Value = serde_json::from_str(text).map_err(|_| Unchanged::Body)?;
        let kind = choice
            .as_str()
            .or_else(|| choice.get("type")?.as_str())
            .unwrap_or_default();
        let name = |of: Option<&Value>| {
            of.and_then(|of| of.get("name")?.as_str())
                .map(str::to_owned)
        };
        let named = match (self, kind) {
            (Self::Chat, "function") => name(choice.get("function")),
            (Self::Responses, "function") | (Self::Messages | Self::CountTokens, "tool") => {
                name(Some(&choice))
            }
            _ => None,
        };
        Ok(match (named, kind) {
            (Some(name), _) => Choice::Named(name),
            (None, "auto") => Choice::Open("auto"),
            (None, "required" | "any") => Choice::Open("required"),
            (None, "none") => Choice::None,
            (None, _) => Choice::Other,
        })
    }

    /// OpenAI's choice among some of the tools: what functions are called, and the entries as they
    /// came.
    pub(crate) fn allowed<'t>(
        self,
        mode: &str,
        tools: impl Iterator<Item = (Option<&'t str>, &'t str)>,
    ) -> String {
        let tools: Vec<Value> = tools
            .map(|(name, entry)| match (self, name) {
                (Self::Chat, Some(name)) => json!({"type": "function", "function": {"name": name}}),
                (_, Some(name)) => json!({"type": "function", "name": name}),
                (_, None) => own(entry),
            })
            .collect();
        let allowed = match self {
            Self::Chat => {
                json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}})
            }
            _ => json!({"type": "allowed_tools", "mode": mode, "tools": tools}),
        };
        allowed.to_string()
    }

    /// The conversation, as far as it is in the request.
    pub(crate) fn turns(self, members: &Members<'_>) -> Result<Vec<Turn>, Unchanged> {
        let name = if self == Self::Responses {
            "input"
        } else {
            "messages"
        };
        let text = members.get(name).ok_or(Unchanged::Conversation)?;
        let conversation: Value =
            serde_json::from_str(text).map_err(|_| Unchanged::Conversation)?;
        let items = match conversation {
            Value::Array(items) => items,
            Value::String(said) if self == Self::Responses => {
                vec![json!({"role": "user", "content": said})]
            }
            _ => return Err(Unchanged::Conversation),
        };
        if items.len() > MAX_MESSAGES {
            return Err(Unchanged::Conversation);
        }
        // What else a provider puts into a list is neither asked nor called.
        let is_read = |item: &Value| {
            let text = |name: &str| item.get(name).and_then(Value::as_str);
            matches!(text("role"), Some("user" | "assistant"))
                || (text("role").is_none()
                    && matches!(text("type"), Some("function_call" | "custom_tool_call")))
        };
        let items: Vec<Value> = items.into_iter().filter(is_read).collect();
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let turns = turns(&Value::Array(items)).ok_or(Unchanged::Conversation)?;
        if turns.len() > MAX_TURNS {
            Err(Unchanged::Conversation)
        } else {
            Ok(turns)
        }
    }
}

/// How OpenAI names a tool of its own: by its type, and where there may be several of one, by what
/// tells them apart.
fn own(entry: &str) -> Value {
    let entry: Value = serde_json::from_str(entry).unwrap_or_default();
    let kept = ["type", "name", "server_label"]
        .into_iter()
        .filter_map(|name| Some((name, entry.get(name)?.clone())));
    kept.map(|(name, value)| (name.to_owned(), value))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
