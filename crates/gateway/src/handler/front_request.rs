//! The meaning of a call of a listed tool.

use picktools_provider::{Arguments, ToolCall};
use serde_json::{Map, Value};

use crate::front::{CALL, DESCRIBE, SEARCH};
use crate::naming::READ_RESULT;
use crate::refusal::Refusal;
use crate::settings::NameStyle;
use crate::snapshot::{Snapshot, View};
use crate::tolerance;

/// The request behind a call of a listed tool.
pub(super) enum FrontRequest {
    /// To run a tool of a server.
    Run(ToolCall),
    /// To search tools.
    Search(Map<String, Value>),
    /// To describe a tool.
    Describe(Map<String, Value>),
    /// To read the rest of a large result.
    ReadResult(Map<String, Value>),
    /// To call one of these tools by the tool that calls others.
    Inner {
        name: &'static str,
        arguments: Map<String, Value>,
    },
}

impl FrontRequest {
    /// Reads the request of a call.
    pub(super) fn new(
        snapshot: &Snapshot,
        view: &View,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Self, Refusal> {
        let is_server_tool = is_server_tool(snapshot, view, name);
        Ok(match name {
            SEARCH if !is_server_tool => Self::Search(arguments),
            READ_RESULT if !is_server_tool => Self::ReadResult(arguments),
            DESCRIBE if !is_server_tool => Self::Describe(arguments),
            CALL if !is_server_tool => {
                let has_both = |name: &str| takes_name_and_arguments(view, name);
                Self::from_inner_call(tolerance::parse_call(&arguments, CALL, &has_both)?)
            }
            _ => Self::Run(ToolCall {
                id: None,
                name: name.to_owned(),
                arguments: Arguments::Json(Value::Object(arguments)),
            }),
        })
    }

    /// Reads the request of a call that is in the arguments of the tool that calls others.
    fn from_inner_call(call: ToolCall) -> Self {
        let inner = match tolerance::front_name(&call.name) {
            SEARCH => SEARCH,
            DESCRIBE => DESCRIBE,
            READ_RESULT => READ_RESULT,
            _ => return Self::Run(call),
        };
        match call.arguments {
            Arguments::Json(Value::Object(arguments)) => Self::Inner {
                name: inner,
                arguments,
            },
            arguments => Self::Run(ToolCall { arguments, ..call }),
        }
    }
}

/// Returns `true` if a tool of a server wins over a front tool of the same name, as with bare names.
pub(super) fn is_server_tool(snapshot: &Snapshot, view: &View, name: &str) -> bool {
    snapshot.settings.names == NameStyle::Bare && view.tools.iter().any(|tool| tool.name == name)
}

/// Returns `true` if a tool has parameters with the names `name` and `arguments`.
pub(super) fn takes_name_and_arguments(view: &View, name: &str) -> bool {
    let merged = view.merged.find(name).map(|merged| &merged.tools()[0]);
    let Some(tool) = merged.or_else(|| view.find_tool(name).ok()) else {
        return false;
    };
    let has = |key| {
        let schema = tool.parameters.as_ref();
        schema.is_some_and(|schema| schema["properties"].get(key).is_some())
    };
    has("name") && has("arguments")
}
