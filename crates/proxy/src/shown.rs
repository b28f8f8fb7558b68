//! The tools that a model was shown, which give meaning to the calls in its text.

use picktools::Access;
use picktools::catalog::{CatalogFile, CatalogOptions, Conflicts};
use picktools::json::quote_long_numbers;
use picktools_call::{HydratedCall, Hydrator};
use picktools_provider::{Arguments, TextCalls, ToolCall, calls_in_text};
use picktools_state::keys;
use serde_json::{Value, json};

use crate::api::ModelApi;

/// A call for the client, complete and with an id of its own.
#[derive(Debug, Clone)]
pub(crate) struct ReturnedCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Value,
}

/// The tools of a request.
#[derive(Debug)]
pub(crate) struct ShownTools {
    hydrator: Hydrator,
}

impl ShownTools {
    /// Reads the tools from the body of a request; `None` if it has none.
    pub(crate) fn from_body(api: ModelApi, body: &[u8]) -> Option<Self> {
        let request: Value = serde_json::from_slice(body).ok()?;
        let mut definitions = Vec::new();
        for entry in request.get("tools")?.as_array()? {
            if let Ok(Some(tool)) = api.parse_tool(entry) {
                definitions.push(json!({"name": tool.name, "description": tool.description,
                    "parameters": tool.parameters}));
            }
        }
        if definitions.is_empty() {
            return None;
        }
        let options = CatalogOptions {
            conflicts: Conflicts::Warn,
            ..CatalogOptions::default()
        };
        let definitions = Value::from(definitions).to_string();
        let file = CatalogFile::new("request", definitions.into_bytes());
        let catalog = options.read_files(&[file]).ok()?;
        let hydrator = Hydrator::new(catalog, &Access::default()).ok()?;
        Some(Self { hydrator })
    }

    /// Returns the calls of these tools in a text, and the rest of the text; `None` without calls.
    pub(crate) fn calls_in(&self, text: &str) -> Option<(String, Vec<ReturnedCall>)> {
        let is_shown = |name: &str| self.hydrator.find_tool(name).is_ok();
        let TextCalls { text, calls } = calls_in_text(text, &is_shown);
        let calls: Vec<ReturnedCall> = calls
            .iter()
            .filter_map(|call| self.complete(call))
            .collect();
        (!calls.is_empty()).then_some((text, calls))
    }

    /// Gives a call its shown name, an id, and arguments of the types in the schema. Arguments that
    /// the schema does not allow stay as they are: the client reports them to the model.
    fn complete(&self, call: &ToolCall) -> Option<ReturnedCall> {
        let tool = self.hydrator.find_tool(&call.name).ok()?;
        let arguments = match self.hydrator.hydrate(call) {
            Ok(HydratedCall::Ready(valid)) => valid.arguments().clone(),
            Ok(HydratedCall::NeedsApproval(pending)) => pending.arguments().clone(),
            Err(_) => match &call.arguments {
                Arguments::Json(value) => value.clone(),
                Arguments::Text(text) => {
                    serde_json::from_slice(&quote_long_numbers(text.as_bytes())).ok()?
                }
            },
        };
        let random = keys::random().ok()?;
        Some(ReturnedCall {
            id: format!("call_{}", random.get(..24)?),
            name: tool.name.clone(),
            arguments,
        })
    }
}
