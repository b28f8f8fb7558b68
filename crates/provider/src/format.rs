//! What a provider's file says: its rules as data, and how it writes and reads.

use serde_json::{Map, Value, json};

use super::answer::Reading;
use super::naming::NameRule;
use super::results::CallResult;
use super::stream::CallStream;
use super::transcript::{Item, Messages};
use super::translate::ToolChanges;
use super::view::Dialect;
use super::wire::At;
use crate::{ResponseError, ResultError};
use picktools::catalog::Tool;

/// A provider's format of tools, calls and messages.
pub(super) trait Format: Sync {
    /// Returns what can be said without code.
    fn rules(&self) -> &'static Rules;

    /// Writes the definition of a tool.
    fn definition(&self, definition: Definition<'_>, changes: &mut ToolChanges<'_>) -> Value;

    /// Makes the `tools` of an API request of the definitions.
    fn tools(&self, definitions: Vec<Value>) -> Value {
        Value::Array(definitions)
    }

    /// Says of what the strict definitions of an API request have too much together.
    fn too_much_strict(&self, _definitions: &[Value]) -> Vec<String> {
        Vec::new()
    }

    /// Returns why an answer without an error is a refusal all the same.
    fn refusal(&self, _answer: &Value) -> Option<String> {
        None
    }

    /// Reads a whole answer.
    fn read(&self, answer: &At<'_>, reading: &mut Reading) -> Result<(), ResponseError>;

    /// Takes an event of a streamed answer.
    fn push(&self, event: &At<'_>, stream: &mut CallStream) -> Result<(), ResponseError>;

    /// Writes results of calls, of which there is at least one.
    fn results(&self, results: &[CallResult]) -> Result<Vec<Value>, ResultError>;

    /// Returns how the messages of an API request are written; `None` where the format has no
    /// messages.
    fn messages(&self) -> Option<&'static Messages> {
        None
    }

    /// Returns the names that a message of the assistant calls.
    fn called<'v>(&self, _message: &'v Map<String, Value>) -> Vec<&'v Value> {
        Vec::new()
    }

    /// Reads an item of a transcript that has no role; `None` where it is not of this format.
    fn item<'v>(&self, _item: &'v Map<String, Value>) -> Option<Item<'v>> {
        None
    }

    /// Returns how a model is asked over HTTP; `None` where there is no chat.
    fn endpoint(&self) -> Option<&'static Endpoint> {
        None
    }
}

/// What can be said of a format without code.
pub(super) struct Rules {
    /// The stable name.
    pub(super) name: &'static str,
    /// The most tools of an API request.
    pub(super) max_tools: Option<usize>,
    /// The most deferred tools of an API request: they are not in the prompt, and have a limit of
    /// their own or none.
    pub(super) max_deferred: Option<usize>,
    /// The longest description of a tool, in characters.
    pub(super) max_description: Option<usize>,
    /// Whether a tool must have a description.
    pub(super) needs_description: bool,
    pub(super) tool_names: NameRule,
    /// The rule for property keys of arguments, where there is one.
    pub(super) property_keys: Option<NameRule>,
    pub(super) strict: Strictness,
    /// The tool that searches deferred tools; `None` where there is no deferred loading.
    pub(super) search: Option<SearchTool>,
    /// Whether the result of a search of one's own may refer to deferred tools.
    pub(super) tool_references: bool,
    /// How schemas are shown.
    pub(super) dialect: Dialect,
}

impl Rules {
    /// A format without limits; names as OpenAI takes them, which all models and proxies know.
    pub(super) const PLAIN: Self = Self {
        name: "",
        max_tools: None,
        max_deferred: None,
        max_description: None,
        needs_description: false,
        tool_names: NameRule {
            most: 64,
            others: "-",
            starts_with_letter: false,
        },
        property_keys: None,
        strict: Strictness::None,
        search: None,
        tool_references: false,
        dialect: Dialect::JsonSchema,
    };
}

/// Whether a provider can hold a model to a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    None,
    OnRequest,
    /// Unless the definition says otherwise, which is why it always says it.
    ByDefault,
}

/// The provider's own search over deferred tools.
pub(super) struct SearchTool {
    /// Its `type`.
    pub(super) kind: &'static str,
    /// Its `name`, where it has one beside the type.
    pub(super) name: Option<&'static str>,
}

impl SearchTool {
    /// Returns the name that no other tool may have.
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

/// What a definition says, in the order in which it is written.
pub(super) struct Definition<'a> {
    pub(super) tool: &'a Tool,
    pub(super) name: &'a str,
    /// Empty where there is none.
    pub(super) description: String,
    /// `None` where the provider wants none for a tool without arguments.
    pub(super) schema: Option<Value>,
    /// `None` where nothing is said of it.
    pub(super) strict: Option<bool>,
    pub(super) deferred: bool,
}

impl Definition<'_> {
    /// Returns the members of the definition, the schema under `schema`.
    pub(super) fn members(self, schema: &str) -> Map<String, Value> {
        let mut members = Map::from_iter([("name".to_owned(), json!(self.name))]);
        if !self.description.is_empty() {
            members.insert("description".to_owned(), json!(self.description));
        }
        members.extend(self.schema.map(|shown| (schema.to_owned(), shown)));
        members.extend(
            self.strict
                .map(|strict| ("strict".to_owned(), json!(strict))),
        );
        if self.deferred {
            members.insert("defer_loading".to_owned(), json!(true));
        }
        members
    }
}

/// Where and how a model is asked over HTTP.
#[derive(Clone, Copy)]
pub struct Endpoint {
    /// Returns the path below the base URL, and makes the API request what is sent there; `None`
    /// where it names no model.
    pub path: fn(&mut Value) -> Option<String>,
    /// The header that takes the key, and what stands before the key there.
    pub key: (&'static str, &'static str),
    /// Headers that every API request has.
    pub headers: &'static [(&'static str, &'static str)],
}

/// The header and scheme of a key as most take it.
pub(super) const BEARER: (&str, &str) = ("authorization", "Bearer ");
