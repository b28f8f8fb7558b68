//! The tools in front: what they are called, and what they answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use picktools::names::Advertising;
use picktools::options::TokenBudget;
use picktools::{Pick, PickOptions, Query, Selection, Tool};
use picktools_provider::TranslateOptions;
use picktools_provider::{Provider, translate};
use serde_json::{Map, Value, json};

use crate::refusal::{Code, Refusal, is_hidden};
use crate::settings::Unsafe;
use crate::snapshot::{Snapshot, View};
use crate::tolerance::{self, Search};

/// What the tools in front are called.
pub(crate) const SEARCH: &str = "search_tools";
pub(crate) const DESCRIBE: &str = "describe_tool";
pub(crate) const CALL: &str = "call_tool";

/// How many tools a search gives, and the most.
const USUAL: usize = 8;
const MOST: usize = 50;
/// The tokens of their definitions.
const SEARCH_TOKENS: usize = 6_000;
/// How long a search may take.
const TIME: Duration = Duration::from_secs(5);
/// How many servers are named in a description.
const MAX_NAMED: usize = 12;

/// Returns the definitions, for a client that may see so many tools of these servers.
pub(crate) fn definitions(tools: usize, sources: &[String]) -> [Value; 3] {
    let mut named = sources
        .iter()
        .take(MAX_NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if sources.len() > MAX_NAMED {
        named.push_str(&format!(" and {} more", sources.len() - MAX_NAMED));
    }
    let servers = if sources.len() == 1 {
        "server"
    } else {
        "servers"
    };
    let behind = format!("{tools} tools of {} {servers} ({named})", sources.len());
    let reads = json!({"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false});
    [
        json!({
            "name": SEARCH,
            "title": "Search tools",
            "description": format!(
                "Finds tools by what you want to do, among {behind}. Say the task in one sentence. Then use {CALL} with the \
                 name and arguments of a result."
            ),
            "inputSchema": {
                "type": "object",
                "properties": {
                    "query": {
                        "type": "string",
                        "description": "What you want to do, e.g. \"list open pull requests\"",
                        "minLength": 1
                    },
                    "limit": {
                        "type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL,
                        "description": "How many tools at most"
                    },
                    "server": {"type": "string", "description": "Only tools of this server"}
                },
                "required": ["query"],
                "additionalProperties": false
            },
            "annotations": reads
        }),
        json!({
            "name": DESCRIBE,
            "title": "Describe a tool",
            "description": format!(
                "Gives the whole definition of one of the {tools} tools behind this server, by its name from {SEARCH}."
            ),
            "inputSchema": {
                "type": "object",
                "properties": {"name": {"type": "string", "description": "e.g. \"git__git_commit\""}},
                "required": ["name"],
                "additionalProperties": false
            },
            "annotations": reads
        }),
        json!({
            "name": CALL,
            "title": "Call a tool",
            "description": format!(
                "Runs one of the {tools} tools behind this server. Example: {{\"name\": \"git__git_log\", \"arguments\": \
                 {{\"repo_path\": \"/work\"}}}}. The tool's own arguments go inside \"arguments\"."
            ),
            "inputSchema": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "A name from the results of a search"},
                    "arguments": {
                        "type": "object",
                        "description": "As the tool's inputSchema has them",
                        "default": {},
                        "additionalProperties": true
                    }
                },
                "required": ["name"],
                "additionalProperties": false
            },
            "annotations": {"readOnlyHint": false, "destructiveHint": true, "openWorldHint": true}
        }),
    ]
}

/// Returns the options with which a search picks for a caller.
pub fn options(snapshot: &Snapshot, view: &View, limit: usize) -> PickOptions {
    let tokens = snapshot.settings.search_tokens.unwrap_or(SEARCH_TOKENS);
    PickOptions {
        max_candidates: limit,
        timeout: Some(TIME),
        token_budget: Some(TokenBudget {
            provider: Provider::Mcp.name().to_owned(),
            ..TokenBudget::new(tokens)
        }),
        ..view.options.clone()
    }
}

/// Answers a search. `state` tells why a server cannot be reached, where that is so; `note` is told
/// what was picked.
pub(crate) async fn search(
    snapshot: &Snapshot,
    view: &View,
    arguments: &Map<String, Value>,
    state: &(dyn Fn(&str) -> Option<String> + Sync),
    note: &(dyn Fn(&Query, &PickOptions, &Selection, Duration) + Sync),
) -> Result<(Value, Vec<Arc<Tool>>), Refusal> {
    let started = Instant::now();
    let Search {
        query,
        limit,
        server,
    } = tolerance::search(arguments, MOST, USUAL)?;
    let mut options = options(snapshot, view, limit);
    if let Some(server) = server {
        let Some(known) = view
            .sources
            .iter()
            .find(|known| known.eq_ignore_ascii_case(server.trim()))
        else {
            let message = format!(
                "there is no server of this name; there are: {}",
                view.sources.join(", ")
            );
            return Err(Refusal::new(Code::InvalidArguments, message));
        };
        options.access.allow_sources = [known.clone()].into();
    }
    let query = Query::new(query);
    let selection = snapshot.pick_async(query.clone(), options.clone()).await;
    let selection =
        selection.map_err(|error| Refusal::new(Code::InvalidArguments, error.to_string()))?;
    note(&query, &options, &selection, started.elapsed());
    let picks: Vec<&Pick> = selection.picks.iter().chain(&selection.required).collect();
    let shown: Vec<Arc<Tool>> = picks.iter().map(|pick| pick.shown()).collect();
    let names: BTreeMap<String, String> = shown
        .iter()
        .filter_map(|tool| Some((tool.id.clone(), snapshot.names.get(&tool.id)?.clone())))
        .collect();
    let advertising = Advertising::ProviderMap(names);
    let translation = translate(
        &shown,
        Provider::Mcp,
        &TranslateOptions {
            advertising,
            ..TranslateOptions::default()
        },
    )
    .map_err(|error| Refusal::new(Code::InvalidArguments, error.to_string()))?;
    let mut tools = Vec::with_capacity(picks.len());
    let mut shortened = Vec::new();
    for (pick, definition) in picks
        .iter()
        .zip(translation.tools.as_array().into_iter().flatten())
    {
        let mut entry = definition.as_object().cloned().unwrap_or_default();
        if pick
            .definition
            .as_ref()
            .is_some_and(|shown| shown.detail != picktools::catalog::Detail::Full)
        {
            shortened.extend(entry.get("name").cloned());
        }
        entry.shift_remove("outputSchema");
        let rounded = (f64::from(pick.score) * 1_000.0).round() / 1_000.0;
        entry.insert("score".to_owned(), json!(rounded));
        entry.insert("reason".to_owned(), json!(pick.reason));
        annotate(&mut entry, &pick.tool, view, state);
        tools.push(Value::Object(entry));
    }
    let mut answer = json!({"tools": tools, "total": view.tools.len()});
    if tools.is_empty() {
        answer["hint"] = json!(
            "No tool fits. Say what you want to do in other words, or the kind of thing that it is done to."
        );
    }
    if !shortened.is_empty() {
        answer["shortened"] = json!(shortened);
    }
    if let Some(blocked) = selection
        .blocked
        .as_ref()
        .filter(|blocked| !is_hidden(&blocked.reasons))
    {
        let reasons: Vec<&str> = blocked.reasons.iter().map(|reason| reason.code()).collect();
        answer["blocked"] =
            json!({"name": snapshot.names.get(&blocked.tool_id), "reasons": reasons});
    }
    if !selection.degraded.is_empty() {
        answer["degraded"] = json!(selection.degraded);
    }
    Ok((
        answer,
        picks.iter().map(|pick| Arc::clone(&pick.tool)).collect(),
    ))
}

/// Answers what tools are.
pub(crate) fn describe(
    snapshot: &Snapshot,
    view: &View,
    arguments: &Map<String, Value>,
    state: &(dyn Fn(&str) -> Option<String> + Sync),
) -> Result<(Value, Vec<Arc<Tool>>), Refusal> {
    let names = tolerance::described(arguments)?;
    let mut described = Vec::with_capacity(names.len());
    let mut tools = Vec::with_capacity(names.len());
    for name in &names {
        let tool = view
            .tool_of(name)
            .map_err(|error| Refusal::of(error, name))?;
        let Some(Value::Object(definition)) = snapshot.definition(tool) else {
            return Err(Refusal::unknown(name));
        };
        let mut entry = definition.clone();
        annotate(&mut entry, tool, view, state);
        described.push(Value::Object(entry));
        tools.push(Arc::clone(tool));
    }
    let answer = match described.len() {
        1 => described.remove(0),
        _ => json!({"tools": described}),
    };
    Ok((answer, tools))
}

/// Adds what the protocol has no place for.
fn annotate(
    entry: &mut Map<String, Value>,
    tool: &Tool,
    view: &View,
    state: &(dyn Fn(&str) -> Option<String> + Sync),
) {
    if let Some(source) = &tool.source {
        entry.insert("server".to_owned(), json!(source));
        if state(source).is_some() {
            entry.insert("server_state".to_owned(), json!("down"));
        }
    }
    if tool.untrusted {
        entry.insert("untrusted".to_owned(), json!(true));
    }
    if tool.is_unsafe() {
        entry.insert("unsafe".to_owned(), json!(true));
        if view.marked_unsafe == Unsafe::Confirm {
            entry.insert("needs".to_owned(), json!("confirmation"));
        }
    }
}
