//! The API endpoints of providers, and the places of tools, choices and turns in their requests.

use picktools_gateway::settings::{ProviderSettings, ProxySettings};
use picktools_provider::{Turn, turns};
use serde_json::{Value, json};

use crate::members::JsonMembers;
use crate::unchanged::UnchangedReason;

/// The largest number of messages of a conversation that is narrowed.
///
/// It is below the limit of [`turns`], so that no message is lost.
const MAX_MESSAGES: usize = 4_000;
/// The largest number of turns of a conversation that is narrowed.
const MAX_TURNS: usize = 512;

/// An API endpoint of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelApi {
    /// OpenAI's chat completions.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Messages,
    /// Anthropic's token counting for messages.
    CountTokens,
}

/// The `tool_choice` of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The model chooses, with OpenAI's mode `auto` or `required`.
    Open(&'static str),
    /// The model must call this tool.
    Named(String),
    /// The model must not call tools.
    None,
    /// The request itself restricts the choice.
    Other,
}

/// A function in `tools` of a request.
pub(crate) struct RequestedTool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) parameters: Value,
}

impl ModelApi {
    /// All endpoints.
    pub const ALL: [Self; 4] = [
        Self::Chat,
        Self::Responses,
        Self::Messages,
        Self::CountTokens,
    ];

    /// Returns the path of the endpoint, below the base URL of the provider.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
            Self::Messages => "/messages",
            Self::CountTokens => "/messages/count_tokens",
        }
    }

    /// Returns the settings of the provider of this endpoint.
    pub(crate) fn provider(self, settings: &ProxySettings) -> Option<&ProviderSettings> {
        if self.is_openai() {
            settings.openai.as_ref()
        } else {
            settings.anthropic.as_ref()
        }
    }

    /// Returns the name of the request format.
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

    /// Parses an entry of `tools`. Returns `None` for a tool that the provider itself defines.
    pub(crate) fn parse_tool(
        self,
        entry: &Value,
    ) -> Result<Option<RequestedTool>, UnchangedReason> {
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
            return Err(UnchangedReason::Tools);
        }
        if !is_function {
            return Ok(None);
        }
        let function = function.ok_or(UnchangedReason::Tools)?;
        let text = |name: &str| {
            function
                .get(name)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let name = text("name")
            .filter(|name| !name.trim().is_empty())
            .ok_or(UnchangedReason::Tools)?;
        let parameters = function
            .get(schema)
            .filter(|schema| schema.is_object())
            .cloned();
        let parameters = parameters.unwrap_or_else(|| json!({}));
        Ok(Some(RequestedTool {
            name,
            description: text("description").unwrap_or_default(),
            parameters,
        }))
    }

    /// Parses the `tool_choice` of a request.
    pub(crate) fn parse_choice(self, members: &JsonMembers<'_>) -> Result<Choice, UnchangedReason> {
        let Some(text) = members.get("tool_choice").filter(|text| *text != "null") else {
            return Ok(Choice::Open("auto"));
        };
        let choice: Value = serde_json::from_str(text).map_err(|_| UnchangedReason::Body)?;
        let kind = choice
            .as_str()
            .or_else(|| choice.get("type")?.as_str())
            .unwrap_or_default();
        let name_member = |function: Option<&Value>| {
            let name = function?.get("name")?.as_str()?;
            Some(name.to_owned())
        };
        let tool_name = match (self, kind) {
            (Self::Chat, "function") => name_member(choice.get("function")),
            (Self::Responses, "function") | (Self::Messages | Self::CountTokens, "tool") => {
                name_member(Some(&choice))
            }
            _ => None,
        };
        Ok(match (tool_name, kind) {
            (Some(name), _) => Choice::Named(name),
            (None, "auto") => Choice::Open("auto"),
            (None, "required" | "any") => Choice::Open("required"),
            (None, "none") => Choice::None,
            (None, _) => Choice::Other,
        })
    }

    /// Returns OpenAI's `allowed_tools` choice for some of the tools.
    ///
    /// Each tool has the name of a function, or `None`, and the text of its entry.
    pub(crate) fn allowed_tools<'t>(
        self,
        mode: &str,
        tools: impl Iterator<Item = (Option<&'t str>, &'t str)>,
    ) -> String {
        let tools: Vec<Value> = tools
            .map(|(name, entry)| match (self, name) {
                (Self::Chat, Some(name)) => json!({"type": "function", "function": {"name": name}}),
                (_, Some(name)) => json!({"type": "function", "name": name}),
                (_, None) => provider_tool(entry),
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

    /// Parses the messages and other items of the conversation in the request.
    fn parse_items(self, members: &JsonMembers<'_>) -> Result<Vec<Value>, UnchangedReason> {
        let name = if self == Self::Responses {
            "input"
        } else {
            "messages"
        };
        let text = members.get(name).ok_or(UnchangedReason::Conversation)?;
        let conversation: Value =
            serde_json::from_str(text).map_err(|_| UnchangedReason::Conversation)?;
        match conversation {
            Value::Array(items) => Ok(items),
            Value::String(text) if self == Self::Responses => {
                Ok(vec![json!({"role": "user", "content": text})])
            }
            _ => Err(UnchangedReason::Conversation),
        }
    }

    /// Parses the turns of the conversation in the request.
    pub(crate) fn parse_turns(
        self,
        members: &JsonMembers<'_>,
    ) -> Result<Vec<Turn>, UnchangedReason> {
        let items = self.parse_items(members)?;
        if items.len() > MAX_MESSAGES {
            return Err(UnchangedReason::Conversation);
        }
        // Other items, such as system messages and results, contain no requests and no calls.
        let is_relevant = |item: &Value| {
            let text = |name: &str| item.get(name).and_then(Value::as_str);
            matches!(text("role"), Some("user" | "assistant"))
                || (text("role").is_none()
                    && matches!(text("type"), Some("function_call" | "custom_tool_call")))
        };
        let items: Vec<Value> = items.into_iter().filter(is_relevant).collect();
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let turns = turns(&Value::Array(items)).ok_or(UnchangedReason::Conversation)?;
        if turns.len() > MAX_TURNS {
            Err(UnchangedReason::Conversation)
        } else {
            Ok(turns)
        }
    }

    /// Checks that a request may be sent without tools.
    ///
    /// It may not if its history has calls, because providers then require tools. It may not
    /// either if the user sends images or other content that the pick does not read.
    pub(crate) fn check_without_tools(
        self,
        members: &JsonMembers<'_>,
    ) -> Result<(), UnchangedReason> {
        self.parse_items(members)?.iter().try_for_each(check_item)
    }
}

/// Checks that a request may be sent without tools although its conversation has this item.
fn check_item(item: &Value) -> Result<(), UnchangedReason> {
    let text = |name: &str| item.get(name).and_then(Value::as_str);
    let has = |name: &str| item.get(name).is_some_and(|value| !value.is_null());
    let (role, kind) = (text("role"), text("type").unwrap_or("message"));
    let is_call = matches!(role, Some("tool" | "function")) || kind.contains("_call");
    if is_call || has("tool_calls") || has("function_call") {
        return Err(UnchangedReason::NoTools);
    }
    if role.is_none() && !matches!(kind, "message" | "reasoning") {
        return Err(UnchangedReason::Conversation);
    }
    let parts = item.get("content").and_then(Value::as_array);
    for part in parts.into_iter().flatten() {
        let part_kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
        if part_kind.contains("tool") {
            return Err(UnchangedReason::NoTools);
        }
        if role == Some("user") && !matches!(part_kind, "text" | "input_text") {
            return Err(UnchangedReason::Conversation);
        }
    }
    Ok(())
}

/// Returns OpenAI's reference to a tool that the provider defines: its type, and the members that
/// identify it if there are several of this type.
fn provider_tool(entry: &str) -> Value {
    let entry: Value = serde_json::from_str(entry).unwrap_or_default();
    let mut reference = serde_json::Map::new();
    for name in ["type", "name", "server_label"] {
        if let Some(value) = entry.get(name) {
            reference.insert(name.to_owned(), value.clone());
        }
    }
    reference.into()
}
