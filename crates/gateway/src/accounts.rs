//! Merged tools: equal tools of several servers that a client is shown as one.
//!
//! Two servers may be the same program for two accounts. With `merge_accounts`, a client sees each
//! of their equal tools once, with a required parameter that names the server. A call is routed to
//! the tool of that server before anything else reads it. So validation, access rules, approvals
//! and the audit log see that tool.
//!
//! Tools of untrusted servers are never merged: a copy must not become a choice of the original.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use picktools::Tool;
use picktools::names::{Advertising, name_forms};
use picktools_provider::{Arguments, Provider, ToolCall, TranslateOptions, translate};
use serde_json::{Map, Value, json};

use crate::naming;
use crate::refusal::{Code, Refusal};
use crate::tolerance;

/// The names for the parameter; the first one that a tool does not have is used.
const PARAMETERS: [&str; 4] = ["server", "server_name", "target_server", "picktools_server"];
/// The keywords of the root of a schema to which a parameter can be added without another effect.
const ROOT_KEYWORDS: [&str; 10] = [
    "$defs",
    "$id",
    "$schema",
    "additionalProperties",
    "definitions",
    "description",
    "properties",
    "required",
    "title",
    "type",
];

/// Equal tools that are shown as one.
#[derive(Debug)]
pub(crate) struct MergedTool {
    /// The shown name.
    name: String,
    /// The name of the parameter that chooses the server.
    parameter: &'static str,
    /// The tools in the order of the catalog, each of another server.
    tools: Vec<Arc<Tool>>,
}

/// The merged tools of a role.
#[derive(Debug, Default)]
pub(crate) struct MergedTools {
    merged: Vec<MergedTool>,
    /// Positions by the ids of the tools.
    by_id: HashMap<String, usize>,
}

impl MergedTools {
    /// Merges the equal ones of `tools`, which a role may see. Only tools of `servers` are merged,
    /// and only under names that are not in `shown_names`.
    pub(crate) fn new(
        tools: &[Arc<Tool>],
        servers: &BTreeSet<String>,
        shown_names: &BTreeMap<String, String>,
    ) -> Self {
        let mut groups: Vec<Vec<Arc<Tool>>> = Vec::new();
        let mut positions: HashMap<String, usize> = HashMap::new();
        for tool in tools {
            let Some(key) = comparable_definition(tool, servers) else {
                continue;
            };
            let position = *positions.entry(key).or_insert(groups.len());
            if position == groups.len() {
                groups.push(Vec::new());
            }
            groups[position].push(Arc::clone(tool));
        }
        let mut used_names: HashSet<String> = shown_names.values().cloned().collect();
        used_names.extend(naming::FRONT_TOOLS.map(str::to_owned));
        used_names.insert(naming::READ_RESULT.to_owned());
        let mut merged_tools = Self::default();
        for group in groups {
            let Some(first) = group.get(..2).and(group.first()) else {
                continue;
            };
            let name = naming::merged_name(&first.name);
            let parameter = free_parameter(first);
            let (Some(parameter), true) = (parameter, used_names.insert(name.clone())) else {
                tracing::warn!(
                    target: "picktools::gateway", id = %first.id,
                    "cannot merge equal tools: the name of the tool or of the parameter is taken"
                );
                continue;
            };
            for tool in &group {
                let position = merged_tools.merged.len();
                merged_tools.by_id.insert(tool.id.clone(), position);
            }
            merged_tools.merged.push(MergedTool {
                name,
                parameter,
                tools: group,
            });
        }
        merged_tools
    }

    /// Returns the merged tool that contains a tool.
    pub(crate) fn containing(&self, id: &str) -> Option<&MergedTool> {
        self.by_id.get(id).map(|&position| &self.merged[position])
    }

    /// Returns the ids of all tools but the first of each merged tool.
    pub(crate) fn further_ids(&self) -> impl Iterator<Item = String> {
        let further = self.merged.iter().flat_map(|merged| &merged.tools[1..]);
        further.map(|tool| tool.id.clone())
    }

    /// Returns the tools without all but the first of each merged tool, whose order is that of
    /// `tools`.
    pub(crate) fn first_of_each(&self, tools: &[Arc<Tool>]) -> Vec<Arc<Tool>> {
        let mut positions = BTreeSet::new();
        let mut first_tools = tools.to_vec();
        first_tools.retain(|tool| match self.by_id.get(&tool.id) {
            Some(position) => positions.insert(*position),
            None => true,
        });
        first_tools
    }

    /// Returns the merged tool of a name.
    pub(crate) fn find(&self, name: &str) -> Option<&MergedTool> {
        let mut names = name_forms(name);
        names.push(tolerance::without_client_prefix(name));
        self.merged
            .iter()
            .find(|merged| names.contains(&merged.name.as_str()))
    }

    /// Returns the call of the chosen server's tool; other calls stay as they are.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the call of a merged tool does not choose one of its servers.
    pub(crate) fn route(&self, call: ToolCall) -> Result<ToolCall, Refusal> {
        match self.find(&call.name) {
            Some(merged) => merged.route(call),
            None => Ok(call),
        }
    }
}

impl MergedTool {
    /// Returns the tools, each of another server.
    pub(crate) fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// Returns the names of the servers.
    pub(crate) fn servers(&self) -> Vec<&str> {
        let sources = self.tools.iter().filter_map(|tool| tool.source.as_deref());
        sources.collect()
    }

    /// Returns the shown definition in the detail of `shown`, which is one of the tools.
    pub(crate) fn definition(&self, shown: &Tool) -> Option<Value> {
        // Without a source, the definition names no single server.
        let tool = Arc::new(Tool {
            source: None,
            ..shown.clone()
        });
        let names = BTreeMap::from([(tool.id.clone(), self.name.clone())]);
        let options = TranslateOptions {
            advertising: Advertising::ProviderMap(names),
            ..TranslateOptions::default()
        };
        let mut translation = translate(&[tool], Provider::Mcp, &options).ok()?;
        let mut definition = translation.tools.get_mut(0)?.take();
        let schema = definition.get_mut("inputSchema")?.as_object_mut()?;
        let properties = schema.entry("properties").or_insert_with(|| json!({}));
        let parameter = json!({
            "type": "string",
            "enum": self.servers(),
            "description": "The server on which the tool runs. Each server is another account or \
                            installation.",
        });
        properties
            .as_object_mut()?
            .insert(self.parameter.to_owned(), parameter);
        let required = schema.entry("required").or_insert_with(|| json!([]));
        required.as_array_mut()?.push(json!(self.parameter));
        Some(definition)
    }

    /// Returns the call of the chosen server's tool, without the parameter.
    fn route(&self, call: ToolCall) -> Result<ToolCall, Refusal> {
        let refuse = |reason: &str| {
            let servers = self.servers().join(", ");
            let message = format!(
                "{}: {reason}; set {:?} to one of: {servers}",
                self.name, self.parameter
            );
            Err(Refusal::new(Code::InvalidArguments, message))
        };
        let Arguments::Json(Value::Object(mut arguments)) = call.arguments else {
            return refuse("the arguments must be a JSON object");
        };
        let Some(Value::String(server)) = arguments.shift_remove(self.parameter) else {
            return refuse("the call does not name a server");
        };
        let Some(tool) = self.tool_of(server.trim()) else {
            return refuse("no such server");
        };
        Ok(ToolCall {
            id: call.id,
            name: tool.id.clone(),
            arguments: Arguments::Json(Value::Object(arguments)),
        })
    }

    /// Returns the tool of a server; if no name is equal, of the only one that differs in case.
    fn tool_of(&self, server: &str) -> Option<&Arc<Tool>> {
        let source = |tool: &&Arc<Tool>| tool.source.as_deref().unwrap_or_default().to_owned();
        let exact = self.tools.iter().find(|tool| source(tool) == server);
        let mut similar = self
            .tools
            .iter()
            .filter(|tool| source(tool).eq_ignore_ascii_case(server));
        match (exact, similar.next(), similar.next()) {
            (Some(tool), ..) | (None, Some(tool), None) => Some(tool),
            _ => None,
        }
    }
}

/// Returns the definition of a tool without its server; `None` if the tool cannot be merged.
fn comparable_definition(tool: &Tool, servers: &BTreeSet<String>) -> Option<String> {
    let source = tool.source.as_ref()?;
    if tool.untrusted || tool.provider_schema.is_some() || !servers.contains(source) {
        return None;
    }
    let schema = tool.parameters.as_ref()?.as_object()?;
    let is_plain = |keyword: &String| ROOT_KEYWORDS.contains(&keyword.as_str());
    if schema.get("type") != Some(&json!("object")) || !schema.keys().all(is_plain) {
        return None;
    }
    let definition = Tool {
        id: String::new(),
        source: None,
        aliases: Vec::new(),
        ..tool.clone()
    };
    serde_json::to_string(&definition).ok()
}

/// Returns the first name for the parameter that the tool does not have.
fn free_parameter(tool: &Tool) -> Option<&'static str> {
    let properties = tool.parameters.as_ref()?.get("properties");
    let properties = properties.and_then(Value::as_object);
    let is_free =
        |name: &&str| !properties.is_some_and(|known: &Map<_, _>| known.contains_key(*name));
    PARAMETERS.into_iter().find(is_free)
}
