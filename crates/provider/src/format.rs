//! The [`Format`] trait, which each provider implements, and the rules of a format.

use serde_json::{Map, Value, json};

use super::answer::PartialAnswer;
use super::changes::ChangeLog;
use super::messages::{Item, Messages};
use super::naming::NameRule;
use super::results::CallResult;
use super::stream::CallStream;
use super::view::Dialect;
use super::wire::JsonCursor;
use crate::{ResponseError, ResultError};
use picktools::catalog::Tool;

/// A provider's format of tools, calls and messages.
pub(super) trait Format: Sync {
    /// Returns the rules of the format.
    fn rules(&self) -> &'static Rules;

    /// Writes the definition of a tool.
    fn definition(&self, definition: Definition<'_>, changes: &mut ChangeLog<'_>) -> Value;

    /// Writes the `tools` member of an API request.
    fn tools(&self, definitions: Vec<Value>) -> Value {
        Value::Array(definitions)
    }

    /// Returns the limits that the strict definitions of an API request exceed together.
    fn too_much_strict(&self, _definitions: &[Value]) -> Vec<String> {
        Vec::new()
    }

    /// Returns the reason if an answer without an error is nevertheless a refusal.
    fn refusal(&self, _answer: &Value) -> Option<String> {
        None
    }

    /// Parses a complete answer.
    fn read_answer(
        &self,
        answer: &JsonCursor<'_>,
        partial: &mut PartialAnswer,
    ) -> Result<(), ResponseError>;

    /// Parses an event of a streamed answer.
    fn push(&self, event: &JsonCursor<'_>, stream: &mut CallStream) -> Result<(), ResponseError>;

    /// Writes the results of calls. There is at least one.
    fn results(&self, results: &[CallResult]) -> Result<Vec<Value>, ResultError>;

    /// Returns the structure of messages; `None` if the format has no messages.
    fn messages(&self) -> Option<&'static Messages> {
        None
    }

    /// Returns the names of the calls in a message of the assistant.
    fn called_names<'v>(&self, _message: &'v Map<String, Value>) -> Vec<&'v Value> {
        Vec::new()
    }

    /// Parses a transcript item without a role; `None` if the item does not belong to this format.
    fn item<'v>(&self, _item: &'v Map<String, Value>) -> Option<Item<'v>> {
        None
    }

    /// Returns the HTTP endpoint of the model; `None` if the format has no chat.
    fn endpoint(&self) -> Option<&'static Endpoint> {
        None
    }
}

/// The rules of a format, as data.
pub(super) struct Rules {
    /// The stable name.
    pub(super) name: &'static str,
    /// The largest number of tools in an API request.
    pub(super) max_tools: Option<usize>,
    /// The largest number of deferred tools in an API request. Deferred tools are not part of the
    /// prompt and do not count towards `max_tools`.
    pub(super) max_deferred: Option<usize>,
    /// The longest description of a tool, in characters.
    pub(super) max_description: Option<usize>,
    /// `true` if every tool must have a description.
    pub(super) needs_description: bool,
    pub(super) tool_names: NameRule,
    /// The rule for the property keys of arguments, if any.
    pub(super) property_keys: Option<NameRule>,
    pub(super) strict: Strictness,
    /// The search tool for deferred tools; `None` if there is no deferred loading.
    pub(super) search: Option<SearchTool>,
    /// `true` if the result of a custom search may refer to deferred tools.
    pub(super) tool_references: bool,
    /// The JSON Schema dialect.
    pub(super) dialect: Dialect,
}

impl Rules {
    /// A format without limits. Its names follow OpenAI's rule, which all models and proxies
    /// support.
    pub(super) const PLAIN: Self = Self {
        name: "",
        max_tools: None,
        max_deferred: None,
        max_description: None,
        needs_description: false,
        tool_names: NameRule {
            max_length: 64,
            extra_chars: "-",
            starts_with_letter: false,
        },
        property_keys: None,
        strict: Strictness::None,
        search: None,
        tool_references: false,
        dialect: Dialect::JsonSchema,
    };
}

/// The support of a provider for strict schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    None,
    OnRequest,
    /// Strict unless the definition says otherwise; therefore every definition states it.
    ByDefault,
}

/// The provider's own search over deferred tools.
pub(super) struct SearchTool {
    /// Its `type`.
    pub(super) kind: &'static str,
    /// The `name` of the tool, if the provider requires one.
    pub(super) name: Option<&'static str>,
}

impl SearchTool {
    /// Returns the reserved name, which no other tool may have.
    pub(super) fn reserved(&self) -> &'static str {
        self.name.unwrap_or(self.kind)
    }

    pub(super) fn definition(&self) -> Value {
        match self.name {
            Some(name) => json!({"type": self.kind, "name": name}),
            None => json!({"type": self.kind}),
        }
    }
}

/// The content of a tool definition.
pub(super) struct Definition<'a> {
    pub(super) tool: &'a Tool,
    pub(super) name: &'a str,
    /// The description; may be empty.
    pub(super) description: String,
    /// The schema; `None` if the provider requires its absence for a tool without arguments.
    pub(super) schema: Option<Value>,
    /// The strictness; `None` if the definition does not state it.
    pub(super) strict: Option<bool>,
    pub(super) deferred: bool,
}

impl Definition<'_> {
    /// Returns the members of the definition in order, with the schema under the key `schema`.
    pub(super) fn members(self, schema: &str) -> Map<String, Value> {
        let mut members = Map::from_iter([("name".to_owned(), json!(self.name))]);
        if !self.description.is_empty() {
            members.insert("description".to_owned(), json!(self.description));
        }
        if let Some(view) = self.schema {
            members.insert(schema.to_owned(), view);
        }
        if let Some(strict) = self.strict {
            members.insert("strict".to_owned(), json!(strict));
        }
        if self.deferred {
            members.insert("defer_loading".to_owned(), json!(true));
        }
        members
    }
}

/// The HTTP endpoint of a model.
#[derive(Clone, Copy)]
pub struct Endpoint {
    /// Returns the path below the base URL, and converts the API request to its final body.
    ///
    /// `None` if the request names no model.
    pub path: fn(&mut Value) -> Option<String>,
    /// The header of the key, and the prefix of its value.
    pub key: (&'static str, &'static str),
    /// Headers of every API request.
    pub headers: &'static [(&'static str, &'static str)],
}

/// The header and prefix of a bearer token.
pub(super) const BEARER: (&str, &str) = ("authorization", "Bearer ");
