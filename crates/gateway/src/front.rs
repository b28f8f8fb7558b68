//! The front tools: their definitions and their answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use picktools::access::IneligibleReason;
use picktools::names::Advertising;
use picktools::options::TokenBudget;
use picktools::{Pick, PickOptions, Query, Selection, Tool};
use picktools_provider::{Provider, Tokenizer, TranslateOptions, Translation, translate};
use serde_json::{Map, Value, json};

use crate::accounts::MergedTool;
pub(crate) use crate::naming::{CALL, DESCRIBE, SEARCH};
use crate::refusal::{Code, Refusal};
use crate::settings::Unsafe;
use crate::snapshot::{Snapshot, View};
use crate::tolerance::{self, Search};
use crate::upstream::ServerDown;

/// The default and the largest number of tools that a search returns.
const DEFAULT_LIMIT: usize = 8;
const MAX_LIMIT: usize = 50;
/// The most tokens of the definitions that a search returns.
const SEARCH_TOKENS: usize = 6_000;
/// The longest duration of a search.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(5);
/// The most servers that a description names.
const MAX_NAMED: usize = 12;

/// The most servers that an empty search result lists, and the most tools of each.
const MAX_LISTED_SERVERS: usize = 30;
const MAX_LISTED_TOOLS: usize = 4;

/// The remedy for quarantined tools.
const APPROVE: &str = "the user reviews and approves them with `picktools approve`";

/// The default token limit up to which all tools are listed.
pub(crate) const PASS_THROUGH_TOKENS: usize = 4_000;

/// Returns the tokens that a client saves in the default mode, if the definitions of `tools` tools
/// of these servers take `tokens`. Few definitions are passed through and save nothing.
pub fn saved_tokens(sources: &[String], tools: usize, tokens: usize) -> usize {
    if tokens <= PASS_THROUGH_TOKENS {
        return 0;
    }
    let front = json!(definitions_of(tools, sources, "")).to_string();
    tokens.saturating_sub(Tokenizer::O200k.count(&front))
}

/// Returns the definitions for a client with this view.
pub(crate) fn definitions(view: &View, servers_down: &[ServerDown]) -> [Value; 3] {
    let unavailable = unavailable(view, servers_down);
    definitions_of(view.tools.len(), &view.sources, &unavailable)
}

/// Returns the definitions for this number of tools of these servers.
fn definitions_of(tools: usize, sources: &[String], unavailable: &str) -> [Value; 3] {
    let mut server_names = sources
        .iter()
        .take(MAX_NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if sources.len() > MAX_NAMED {
        server_names.push_str(&format!(" and {} more", sources.len() - MAX_NAMED));
    }
    let servers = if sources.len() == 1 {
        "server"
    } else {
        "servers"
    };
    let scope = format!(
        "{tools} tools of {} {servers} ({server_names})",
        sources.len()
    );
    // Clients that load definitions on demand must have these from the start.
    let always_loaded = json!({"anthropic/alwaysLoad": true});
    let read_only = json!({"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false});
    [
        json!({
            "name": SEARCH,
            "title": "Search tools",
            "description": format!(
                "Finds tools for a task, among {scope}. Describe the task in one sentence. Then use \
                 {CALL} with the name and arguments of a result.{unavailable}"
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
                        "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT,
                        "description": "The largest number of tools to return"
                    },
                    "server": {"type": "string", "description": "Only tools of this server"}
                },
                "required": ["query"],
                "additionalProperties": false
            },
            "annotations": read_only,
            "_meta": always_loaded
        }),
        json!({
            "name": DESCRIBE,
            "title": "Describe a tool",
            "description": format!(
                "Returns the complete definition of one of the {tools} tools behind this server, by \
                 its name from {SEARCH}."
            ),
            "inputSchema": {
                "type": "object",
                "properties": {"name": {"type": "string", "description": "e.g. \"git__git_commit\""}},
                "required": ["name"],
                "additionalProperties": false
            },
            "annotations": read_only,
            "_meta": always_loaded
        }),
        json!({
            "name": CALL,
            "title": "Call a tool",
            "description": format!(
                "Runs one of the {tools} tools behind this server. Example: {{\"name\": \
                 \"git__git_log\", \"arguments\": {{\"repo_path\": \"/work\"}}}}. The tool's own \
                 arguments go inside \"arguments\"."
            ),
            "inputSchema": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "The name of a tool from a search result"},
                    "arguments": {
                        "type": "object",
                        "description": "The arguments, as the tool's inputSchema defines them",
                        "default": {},
                        "additionalProperties": true
                    }
                },
                "required": ["name"],
                "additionalProperties": false
            },
            "annotations": {"readOnlyHint": false, "destructiveHint": true, "openWorldHint": true},
            "_meta": always_loaded
        }),
    ]
}

/// Returns a sentence about the servers that are down and the quarantined tools.
fn unavailable(view: &View, servers_down: &[ServerDown]) -> String {
    let mut parts = Vec::new();
    for down in servers_down.iter().take(MAX_NAMED) {
        parts.push(down.describe());
    }
    parts.extend(quarantined_parts(&view.quarantined));
    if parts.is_empty() {
        return String::new();
    }
    format!(" Not available now: {}.", parts.join(", "))
}

/// Returns what a person must approve, by server.
pub(crate) fn quarantined_parts(quarantined: &BTreeMap<String, usize>) -> Vec<String> {
    let mut parts = Vec::new();
    for (server, count) in quarantined.iter().take(MAX_NAMED) {
        let tools = if *count == 1 { "tool" } else { "tools" };
        parts.push(format!("{count} {tools} of {server} (not approved)"));
    }
    parts
}

/// Returns the options with which a search picks for a caller.
pub fn options(snapshot: &Snapshot, view: &View, limit: usize) -> PickOptions {
    let tokens = snapshot.settings.search_tokens.unwrap_or(SEARCH_TOKENS);
    PickOptions {
        max_candidates: limit,
        timeout: Some(SEARCH_TIMEOUT),
        token_budget: Some(TokenBudget {
            provider: Provider::Mcp.name().to_owned(),
            ..TokenBudget::new(tokens)
        }),
        // The client has their definitions.
        always_include: Vec::new(),
        ..view.options.clone()
    }
}

/// Answers a search, and tells which servers cannot be used. `on_selection` is called with the
/// selection.
pub(crate) async fn search(
    snapshot: &Snapshot,
    view: &View,
    arguments: &Map<String, Value>,
    servers_down: &[ServerDown],
    on_selection: &(dyn Fn(&Query, &PickOptions, &Selection, Duration) + Sync),
) -> Result<(Value, Vec<Arc<Tool>>), Refusal> {
    let started = Instant::now();
    let Search {
        query,
        limit,
        server,
    } = tolerance::parse_search(arguments, MAX_LIMIT, DEFAULT_LIMIT)?;
    let mut options = options(snapshot, view, limit);
    if let Some(server) = server {
        let Some(source) = view
            .sources
            .iter()
            .find(|source| source.eq_ignore_ascii_case(server.trim()))
        else {
            let is_it = |down: &&ServerDown| down.server.eq_ignore_ascii_case(server.trim());
            if let Some(down) = servers_down.iter().find(is_it) {
                return Err(down.refusal());
            }
            let message = format!(
                "no server has this name; the servers are: {}",
                view.sources.join(", ")
            );
            return Err(Refusal::new(Code::InvalidArguments, message));
        };
        options.access.allow_sources = [source.clone()].into();
    } else {
        // One tool represents those that are merged with it, so that they take one place.
        options.access.exclude.extend(view.merged.further_ids());
    }
    let query = Query::new(query);
    let selection = view.pick_async(query.clone(), options.clone()).await?;
    on_selection(&query, &options, &selection, started.elapsed());
    let picks: Vec<&Pick> = selection.picks.iter().chain(&selection.required).collect();
    let translation = translate_picks(snapshot, &picks)?;
    let mut tools = Vec::with_capacity(picks.len());
    let mut shortened = Vec::new();
    let mut shown_ids: BTreeSet<&str> = BTreeSet::new();
    for (pick, definition) in picks
        .iter()
        .zip(translation.tools.as_array().into_iter().flatten())
    {
        let merged = view.merged.containing(&pick.tool.id);
        let shown_tools = merged.map_or(std::slice::from_ref(&pick.tool), MergedTool::tools);
        if !shown_ids.insert(&shown_tools[0].id) {
            continue;
        }
        let merged_definition = merged.and_then(|merged| merged.definition(&pick.shown_tool()));
        let definition = merged_definition.as_ref().unwrap_or(definition);
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
        entry.insert("reason".to_owned(), json!(shown_reason(snapshot, pick)));
        annotate(&mut entry, shown_tools, view, servers_down);
        tools.push(Value::Object(entry));
    }
    let mut answer = json!({"tools": tools, "total": view.tools.len()});
    if tools.is_empty() {
        let is_unavailable = !servers_down.is_empty() || !view.quarantined.is_empty();
        answer["hint"] = if view.tools.is_empty() && is_unavailable {
            json!(
                "There are no tools at the moment. This answer says why, in servers_down or \
                 quarantined. Tell the user."
            )
        } else {
            json!(no_match_hint(&selection))
        };
        answer["servers"] = servers(snapshot, view);
        let omitted = view.sources.len().saturating_sub(MAX_LISTED_SERVERS);
        if omitted > 0 {
            answer["servers_omitted"] = json!(omitted);
        }
    }
    if !servers_down.is_empty() {
        answer["servers_down"] = json!(servers_down);
    }
    if !view.quarantined.is_empty() {
        answer["quarantined"] = quarantined(view);
    }
    if !shortened.is_empty() {
        answer["shortened"] = json!(shortened);
    }
    if let Some(blocked) = &selection.blocked
        && !is_left_out(&blocked.reasons)
    {
        let reasons: Vec<&str> = blocked.reasons.iter().map(|reason| reason.code()).collect();
        answer["blocked"] =
            json!({"name": blocked_name(snapshot, view, &blocked.tool_id), "reasons": reasons});
    }
    if !selection.degraded.is_empty() {
        answer["degraded"] = json!(selection.degraded);
    }
    Ok((
        answer,
        picks.iter().map(|pick| Arc::clone(&pick.tool)).collect(),
    ))
}

/// Returns `true` if a search left a tool out itself: a tool of another server than the requested
/// one, or a merged tool that another one represents.
fn is_left_out(reasons: &[IneligibleReason]) -> bool {
    use IneligibleReason::{Excluded, Source};
    let is_own = |reason: &IneligibleReason| matches!(reason, Source { .. } | Excluded);
    reasons.iter().any(is_own)
}

/// Returns the reason of a pick. It does not quote the search text of the operator.
fn shown_reason<'a>(snapshot: &Snapshot, pick: &'a Pick) -> &'a str {
    let changed = snapshot.settings.tool_override(&pick.tool);
    let quotes_it = pick.reason.contains("an example in its definition");
    if quotes_it && changed.is_some_and(|changed| changed.search_text.is_some()) {
        return "similar to a search text of the operator";
    }
    &pick.reason
}

/// Says that no tool fits, and what may help.
fn no_match_hint(selection: &Selection) -> String {
    let mut hint = "No tool fits".to_owned();
    if let Some(kind) = &selection.nothing_fits {
        hint.push_str(&format!(": {kind}"));
    }
    hint.push_str(
        ". Describe the task in other words, name the kind of object that it is about, or answer \
         without a tool.",
    );
    hint
}

/// Lists the servers with quarantined tools.
fn quarantined(view: &View) -> Value {
    let mut servers = Vec::new();
    for (server, tools) in &view.quarantined {
        servers.push(json!({"server": server, "tools": tools, "remedy": APPROVE}));
    }
    json!(servers)
}

/// Lists the servers of a view with the number of their tools and the names of the first ones,
/// which tell what the servers are about.
fn servers(snapshot: &Snapshot, view: &View) -> Value {
    let mut servers = Vec::new();
    for source in view.sources.iter().take(MAX_LISTED_SERVERS) {
        let is_own = |tool: &&Arc<Tool>| tool.source.as_ref() == Some(source);
        let tools: Vec<&Arc<Tool>> = view.tools.iter().filter(is_own).collect();
        let mut examples = Vec::new();
        for tool in tools.iter().take(MAX_LISTED_TOOLS) {
            examples.push(snapshot.names.get(&tool.id).unwrap_or(&tool.id));
        }
        servers.push(json!({"server": source, "tools": tools.len(), "examples": examples}));
    }
    json!(servers)
}

/// Translates the picked tools, under the names that clients are shown.
fn translate_picks(snapshot: &Snapshot, picks: &[&Pick]) -> Result<Translation, Refusal> {
    let mut shown_tools = Vec::with_capacity(picks.len());
    let mut names = BTreeMap::new();
    for pick in picks {
        let tool = pick.shown_tool();
        if let Some(name) = snapshot.names.get(&tool.id) {
            names.insert(tool.id.clone(), name.clone());
        }
        shown_tools.push(tool);
    }
    let options = TranslateOptions {
        advertising: Advertising::ProviderMap(names),
        ..TranslateOptions::default()
    };
    translate(&shown_tools, Provider::Mcp, &options)
        .map_err(|error| Refusal::new(Code::InvalidArguments, error.to_string()))
}

/// Answers with the complete definitions of tools.
pub(crate) fn describe(
    snapshot: &Snapshot,
    view: &View,
    arguments: &Map<String, Value>,
    servers_down: &[ServerDown],
) -> Result<(Value, Vec<Arc<Tool>>), Refusal> {
    let names = tolerance::parse_names(arguments)?;
    let mut definitions = Vec::with_capacity(names.len());
    let mut tools = Vec::with_capacity(names.len());
    for name in &names {
        let shown_tools = match view.merged.find(name) {
            Some(merged) => merged.tools(),
            None => {
                let tool = view.find_tool(name).map_err(Refusal::from_call_error)?;
                let merged = view.merged.containing(&tool.id);
                merged.map_or(std::slice::from_ref(tool), MergedTool::tools)
            }
        };
        let first = shown_tools.first();
        let definition = first.and_then(|tool| snapshot.shown_definition(view, tool));
        let Some(Value::Object(mut entry)) = definition else {
            return Err(Refusal::unknown(name));
        };
        annotate(&mut entry, shown_tools, view, servers_down);
        definitions.push(Value::Object(entry));
        tools.extend(shown_tools.iter().take(1).cloned());
    }
    let answer = match definitions.len() {
        1 => definitions.remove(0),
        _ => json!({"tools": definitions}),
    };
    Ok((answer, tools))
}

/// Adds members that the protocol does not define, for a tool or for merged tools.
fn annotate(
    entry: &mut Map<String, Value>,
    tools: &[Arc<Tool>],
    view: &View,
    servers_down: &[ServerDown],
) {
    let mut servers: Vec<&str> = Vec::new();
    for tool in tools {
        servers.extend(tool.source.as_deref());
    }
    let is_down = |server: &&&str| servers_down.iter().any(|down| down.server == **server);
    match servers.as_slice() {
        [] => {}
        [server] => {
            entry.insert("server".to_owned(), json!(server));
            if is_down(&server) {
                entry.insert("server_state".to_owned(), json!("down"));
            }
        }
        several => {
            entry.insert("servers".to_owned(), json!(several));
            let down: Vec<&&str> = several.iter().filter(is_down).collect();
            if !down.is_empty() {
                entry.insert("servers_down".to_owned(), json!(down));
            }
        }
    }
    let Some(tool) = tools.first() else {
        return;
    };
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

/// Returns the name of a blocked tool. The name of a quarantined tool is the text of a stranger.
fn blocked_name(snapshot: &Snapshot, view: &View, id: &str) -> Option<String> {
    match view.public_id(id) {
        public_id if public_id != id => Some(public_id.into_owned()),
        _ => snapshot.names.get(id).cloned(),
    }
}
