//! The reduction of a request to the tools that its conversation needs.

use std::sync::Arc;

use picktools_gateway::settings::{ProxyMode, ProxySettings};
use serde_json::Value;

use crate::api::{Choice, ModelApi};
use crate::indexed::{IndexCache, IndexedTools, ParsedRequest, add_position};
use crate::members::JsonMembers;
use crate::unchanged::UnchangedReason;

/// Anthropic's tool search, which finds deferred tools.
const SEARCH: &str = r#"{"type":"tool_search_tool_bm25_20251119","name":"tool_search_tool_bm25"}"#;
/// The JSON text, with a trailing comma, that marks a tool as deferred.
const DEFERRED: &str = r#""defer_loading":true,"#;

/// A request with narrowed tools.
#[derive(Debug)]
pub(crate) struct NarrowedRequest {
    pub(crate) body: String,
    pub(crate) mode: ProxyMode,
    /// The names of the selected functions.
    pub(crate) names: Vec<String>,
    /// The number of selected functions.
    pub(crate) shown: usize,
    /// The number of functions of the request.
    pub(crate) total: usize,
    /// The tokens (o200k) of the definitions that the model is not shown.
    pub(crate) saved: usize,
}

/// Narrows the tools of a request, or returns the reason why it is forwarded unchanged.
pub(crate) fn narrow(
    cache: &IndexCache,
    api: ModelApi,
    settings: &ProxySettings,
    body: &[u8],
) -> Result<NarrowedRequest, UnchangedReason> {
    let mode = api
        .provider(settings)
        .map_or(ProxyMode::Off, |provider| provider.mode);
    if mode == ProxyMode::Off {
        return Err(UnchangedReason::FewTools);
    }
    let text = std::str::from_utf8(body).map_err(|_| UnchangedReason::Body)?;
    let ParsedRequest {
        members,
        tools: recent_tools,
    } = cache.parse(api, settings.from_tools, text)?;
    let tools = members
        .get("tools")
        .filter(|text| text.starts_with('['))
        .ok_or(UnchangedReason::FewTools)?;
    // The earlier turns are not in the request, so the tools that were selected for them are
    // unknown. In mode `Allowed` the `tools` array stays complete, which is no problem.
    if mode != ProxyMode::Allowed
        && (members.has("previous_response_id") || members.has("conversation"))
    {
        return Err(UnchangedReason::Conversation);
    }
    let choice = api.parse_choice(&members)?;
    if choice == Choice::Other {
        return Err(UnchangedReason::Choice);
    }
    let indexed = match recent_tools {
        Some(indexed) => indexed,
        None => cache.get(api, settings.from_tools, tools)?,
    };
    if indexed.entries.iter().any(|entry| entry.defers) {
        return Err(UnchangedReason::Choice);
    }
    let turns = api.parse_turns(&members)?;
    let mut list = indexed.needed_functions(&turns, settings)?.to_vec();
    if let Choice::Named(name) = &choice {
        let position = indexed.position(name).ok_or(UnchangedReason::Tools)?;
        add_position(&mut list, Some(position));
    }
    if list.is_empty() {
        return Err(UnchangedReason::Conversation);
    }
    let request = NarrowRequest {
        api,
        members: &members,
        tools,
        indexed: &indexed,
        list: &list,
    };
    let body = match mode {
        ProxyMode::Allowed => request.body_with_allowed_tools(&choice)?,
        mode => request.body_with_fewer_tools(mode),
    };
    let shown_tokens: usize = list
        .iter()
        .map(|&position| indexed.entries[position].tokens)
        .sum();
    let functions = indexed.entries.iter().filter(|entry| entry.name.is_some());
    let all_tokens: usize = functions.map(|entry| entry.tokens).sum();
    let saved = if mode == ProxyMode::Allowed {
        0
    } else {
        all_tokens.saturating_sub(shown_tokens)
    };
    let names = list
        .iter()
        .filter_map(|&position| indexed.entries[position].name.clone())
        .collect();
    Ok(NarrowedRequest {
        body,
        mode,
        names,
        shown: list.len(),
        total: indexed.count_functions(),
        saved,
    })
}

/// A request to narrow, with the positions of its selected functions.
struct NarrowRequest<'r> {
    api: ModelApi,
    members: &'r JsonMembers<'r>,
    /// The text of the `tools` array.
    tools: &'r str,
    indexed: &'r Arc<IndexedTools>,
    /// The positions of the selected functions.
    list: &'r [usize],
}

impl<'r> NarrowRequest<'r> {
    /// Returns the original text of an entry.
    fn entry(&self, position: usize) -> &'r str {
        &self.tools[self.indexed.entries[position].range.clone()]
    }

    /// Returns the positions of the tools that the provider defines.
    ///
    /// In a shortened list they come first, so that new functions are only appended.
    fn provider_tools(&self) -> impl Iterator<Item = usize> {
        let entries = &self.indexed.entries;
        (0..entries.len()).filter(|&position| entries[position].name.is_none())
    }

    /// Returns the body with all tools, and with the needed ones as OpenAI's `allowed_tools`.
    fn body_with_allowed_tools(&self, choice: &Choice) -> Result<String, UnchangedReason> {
        let Choice::Open(mode) = choice else {
            return Err(UnchangedReason::Choice);
        };
        let functions = self.list.iter().copied();
        let mut positions: Vec<usize> = self.provider_tools().chain(functions).collect();
        positions.sort_unstable();
        let tools = positions.iter().map(|&position| {
            let name = self.indexed.entries[position].name.as_deref();
            (name, self.entry(position))
        });
        let choice = self.api.allowed_tools(mode, tools);
        Ok(self.members.replace("tool_choice", &choice))
    }

    /// Returns the body with the needed tools, in the order of need.
    ///
    /// In mode `defer` the other tools follow, deferred behind a search.
    fn body_with_fewer_tools(&self, mode: ProxyMode) -> String {
        let functions = self.list.iter().copied();
        let positions: Vec<usize> = self.provider_tools().chain(functions).collect();
        // If the client marks a tool for the prompt cache, the mark moves to the last shown tool.
        let mark = self
            .indexed
            .entries
            .iter()
            .rev()
            .find_map(|entry| Some(&entry.cache_mark.as_ref()?.value));
        let mut tools: Vec<String> = Vec::new();
        for (number, &position) in positions.iter().enumerate() {
            let mark = mark.filter(|_| number + 1 == positions.len());
            tools.push(add_mark(self.unmarked_entry(position), mark));
        }
        if mode == ProxyMode::Defer {
            tools.insert(0, SEARCH.to_owned());
            for position in 0..self.indexed.entries.len() {
                if !positions.contains(&position) {
                    tools.push(add_first(self.unmarked_entry(position), DEFERRED));
                }
            }
        }
        self.members
            .replace("tools", &format!("[{}]", tools.join(",")))
    }

    fn unmarked_entry(&self, position: usize) -> &str {
        match &self.indexed.entries[position].cache_mark {
            Some(mark) => &mark.unmarked_entry,
            None => self.entry(position),
        }
    }
}

fn add_mark(entry: &str, mark: Option<&Value>) -> String {
    match mark {
        Some(mark) => add_first(entry, &format!("\"cache_control\":{mark},")),
        None => entry.to_owned(),
    }
}

/// Inserts a member in front of the others. The entry must have members.
fn add_first(entry: &str, member: &str) -> String {
    entry.replacen('{', &format!("{{{member}"), 1)
}
