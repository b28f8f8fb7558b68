//! The reduction of a request to the tools that its conversation needs.

use std::collections::HashSet;
use std::sync::Arc;

use picktools_gateway::settings::{ProxyMode, ProxySettings};
use picktools_provider::Turn;
use serde_json::Value;

use crate::api::{Choice, ModelApi};
use crate::indexed::{IndexCache, IndexedTools, ParsedRequest};
use crate::members::JsonMembers;
use crate::unchanged::UnchangedReason;

/// Anthropic's tool search, which finds deferred tools.
const SEARCH: &str = r#"{"type":"tool_search_tool_bm25_20251119","name":"tool_search_tool_bm25"}"#;
/// The JSON text, with a trailing comma, that marks a tool as deferred.
const DEFERRED: &str = r#""defer_loading":true,"#;

/// The members of a request that providers accept only with tools.
const MEMBERS_OF_TOOLS: [&str; 3] = ["tools", "tool_choice", "parallel_tool_calls"];
/// The most names of left-out functions that are reported.
const MAX_LEFT_OUT_NAMES: usize = 64;

/// A request with narrowed tools.
#[derive(Debug)]
pub(crate) struct NarrowedRequest {
    pub(crate) body: String,
    pub(crate) mode: ProxyMode,
    /// The names of the selected functions, those of the conversation first.
    pub(crate) names: Vec<String>,
    /// The number of selected functions.
    pub(crate) shown: usize,
    /// The number of functions of the request.
    pub(crate) total: usize,
    /// The tokens (o200k) of the definitions that the model is not shown.
    pub(crate) saved: usize,
    pub(crate) reasons: KeptReasons,
    /// The names of the first functions that were not selected.
    pub(crate) left_out: Vec<String>,
    /// The removed members of the request, because no tool is left.
    pub(crate) removed: Vec<&'static str>,
}

/// The number of tools that a request keeps, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeptReasons {
    /// The provider defines the tool.
    pub(crate) provider: usize,
    /// The tool is the client's own.
    pub(crate) host: usize,
    /// The settings always include it.
    pub(crate) always: usize,
    /// It cannot be ranked, for example because of its name.
    pub(crate) unranked: usize,
    /// The conversation called it.
    pub(crate) used: usize,
    /// It was picked for the conversation.
    pub(crate) picked: usize,
    /// `tool_choice` names it.
    pub(crate) chosen: usize,
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
    let is_stored = members.has("previous_response_id") || members.has("conversation");
    if mode != ProxyMode::Allowed && is_stored {
        return Err(UnchangedReason::Conversation);
    }
    let choice = api.parse_choice(&members)?;
    if choice == Choice::Other {
        return Err(UnchangedReason::Choice);
    }
    let indexed = match recent_tools {
        Some(indexed) => indexed,
        None => cache.get(api, settings.from_tools, settings.index_bytes, tools)?,
    };
    if indexed.entries.iter().any(|entry| entry.defers) {
        return Err(UnchangedReason::Choice);
    }
    let turns = api.parse_turns(&members)?;
    if turns.iter().all(|turn| turn.request.is_empty()) {
        return Err(UnchangedReason::Conversation);
    }
    let functions = SelectedFunctions::new(&indexed, settings, &turns, &choice)?;
    if is_stored && functions.reasons.picked == 0 {
        return Err(UnchangedReason::Conversation);
    }
    let request = NarrowRequest {
        api,
        members: &members,
        tools,
        indexed: &indexed,
        list: &functions.positions,
    };
    request.narrow(mode, &choice, &functions)
}

/// Returns the body of a request with narrowed tools, without a cache; `None` if it is forwarded
/// unchanged.
pub fn narrowed_body(api: ModelApi, settings: &ProxySettings, body: &[u8]) -> Option<String> {
    let request = narrow(&IndexCache::new(), api, settings, body).ok()?;
    Some(request.body)
}

/// The selected functions of a request.
struct SelectedFunctions {
    /// The positions: first the functions that each request keeps, then those of the conversation.
    positions: Vec<usize>,
    /// The number of functions that each request keeps.
    kept: usize,
    reasons: KeptReasons,
}

impl SelectedFunctions {
    fn new(
        indexed: &IndexedTools,
        settings: &ProxySettings,
        turns: &[Turn],
        choice: &Choice,
    ) -> Result<Self, UnchangedReason> {
        let kept = indexed.kept_functions(settings)?;
        let needed = indexed.needed_functions(turns, settings, &kept)?;
        let mut positions = kept.positions.clone();
        positions.extend(needed.iter());
        let called = turns.iter().flat_map(|turn| &turn.called);
        let called: HashSet<usize> = called.filter_map(|name| indexed.position(name)).collect();
        let used = needed.iter().filter(|at| called.contains(at)).count();
        let mut reasons = KeptReasons {
            provider: indexed.entries.len() - indexed.count_functions(),
            host: kept.positions.len() - kept.always_included - kept.unranked,
            always: kept.always_included,
            unranked: kept.unranked,
            used,
            picked: needed.len() - used,
            chosen: 0,
        };
        if let Choice::Named(name) = choice {
            match indexed.position(name) {
                Some(position) if !positions.contains(&position) => {
                    positions.push(position);
                    reasons.chosen = 1;
                }
                Some(_) => {}
                None if indexed.has_provider_tool(name) => {}
                None => return Err(UnchangedReason::Tools),
            }
        }
        Ok(Self {
            positions,
            kept: kept.positions.len(),
            reasons,
        })
    }
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
    /// Writes the request with the selected functions, and counts what is left out.
    fn narrow(
        &self,
        mode: ProxyMode,
        choice: &Choice,
        functions: &SelectedFunctions,
    ) -> Result<NarrowedRequest, UnchangedReason> {
        // In mode `Defer` the model can still search for each tool.
        if self.list.is_empty() && mode != ProxyMode::Defer {
            if *choice == Choice::Open("required") {
                return Err(UnchangedReason::NoTools);
            }
            if functions.reasons.provider == 0 {
                self.api.check_without_tools(self.members)?;
            }
        }
        let mut removed = Vec::new();
        let body = match mode {
            ProxyMode::Allowed => self.body_with_allowed_tools(choice)?,
            ProxyMode::Narrow if self.list.is_empty() && functions.reasons.provider == 0 => {
                let has_member = |name: &&'static str| self.members.get(name).is_some();
                removed.extend(MEMBERS_OF_TOOLS.into_iter().filter(has_member));
                self.members.remove(&removed)
            }
            mode => self.body_with_fewer_tools(mode),
        };
        let (mut all_tokens, mut shown_tokens) = (0, 0);
        let mut left_out = Vec::new();
        let selected = self.selected();
        for (entry, is_selected) in self.indexed.entries.iter().zip(selected) {
            let Some(name) = &entry.name else { continue };
            all_tokens += entry.tokens;
            if is_selected {
                shown_tokens += entry.tokens;
            } else if left_out.len() < MAX_LEFT_OUT_NAMES {
                left_out.push(name.clone());
            }
        }
        // In mode `Allowed` the model is sent all definitions.
        let saved = if mode == ProxyMode::Allowed {
            0
        } else {
            all_tokens - shown_tokens
        };
        let (kept, needed) = self.list.split_at(functions.kept);
        let names = needed.iter().chain(kept);
        let names = names
            .filter_map(|&position| self.indexed.entries[position].name.clone())
            .collect();
        Ok(NarrowedRequest {
            body,
            mode,
            names,
            shown: self.list.len(),
            total: self.indexed.count_functions(),
            saved,
            reasons: functions.reasons,
            left_out,
            removed,
        })
    }

    /// Returns for each entry `true` if it is a selected function.
    fn selected(&self) -> Vec<bool> {
        let mut is_selected = vec![false; self.indexed.entries.len()];
        for &position in self.list {
            is_selected[position] = true;
        }
        is_selected
    }

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
        if positions.is_empty() {
            // Providers refuse an empty list of allowed tools.
            return Ok(self.members.replace("tool_choice", "\"none\""));
        }
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
            for (position, is_selected) in self.selected().into_iter().enumerate() {
                if !is_selected && self.indexed.entries[position].name.is_some() {
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
