//! A request with the tools that its conversation needs.

use std::sync::Arc;

use picktools_gateway::settings::{ProxyMode, ProxySettings};
use serde_json::Value;

use crate::api::{Api, Choice};
use crate::indexed::{Indexed, IndexedLists, add};
use crate::members::Members;
use crate::unchanged::Unchanged;

/// Anthropic's own search, for tools that are not shown.
const SEARCH: &str = r#"{"type":"tool_search_tool_bm25_20251119","name":"tool_search_tool_bm25"}"#;
/// How a request says that a tool waits for a search.
const DEFERRED: &str = r#""defer_loading":true,"#;

/// A request as it goes on.
#[derive(Debug)]
pub(crate) struct Narrowed {
    pub(crate) body: String,
    pub(crate) mode: ProxyMode,
    /// The functions that the model is shown.
    pub(crate) names: Vec<String>,
    /// How many functions the model is shown, and of how many.
    pub(crate) shown: usize,
    pub(crate) of: usize,
    /// The tokens (o200k) of the definitions that it is not shown.
    pub(crate) saved: usize,
}

/// Narrows the tools of a request, or says why it goes on as it came.
pub(crate) fn narrow(
    lists: &IndexedLists,
    api: Api,
    settings: &ProxySettings,
    body: &[u8],
) -> Result<Narrowed, Unchanged> {
    let mode = api
        .provider(settings)
        .map_or(ProxyMode::Off, |provider| provider.mode);
    if mode == ProxyMode::Off {
        return Err(Unchanged::FewTools);
    }
    let text = std::str::from_utf8(body).map_err(|_| Unchanged::Body)?;
    let (members, known) = lists.read(api, settings.from_tools, text)?;
    let tools = members
        .get("tools")
        .filter(|text| text.starts_with('['))
        .ok_or(Unchanged::FewTools)?;
    // What was said before is with the provider, and with it what the list was.
    if mode != ProxyMode::Allowed
        && (members.has("previous_response_id") || members.has("conversation"))
    {
        return Err(Unchanged::Conversation);
    }
    let choice = api.choice(&members)?;
    if choice == Choice::Other {
        return Err(Unchanged::Choice);
    }
    let indexed = match known {
        Some(known) => known,
        None => lists.get(api, settings.from_tools, tools)?,
    };
    if indexed.entries.iter().any(|entry| entry.defers) {
        return Err(Unchanged::Choice);
    }
    let mut list = indexed.list(&api.turns(&members)?, settings)?.to_vec();
    if let Choice::Named(name) = &choice {
        add(
            &mut list,
            Some(indexed.place(name).ok_or(Unchanged::Tools)?),
        );
    }
    if list.is_empty() {
        return Err(Unchanged::Conversation);
    }
    let request = Request {
        api,
        members: &members,
        tools,
        indexed: &indexed,
        list: &list,
    };
    let body = match mode {
        ProxyMode::Allowed => request.allowed(&choice)?,
        mode => request.narrowed(mode),
    };
    let shown_tokens: usize = list
        .iter()
        .map(|&place| indexed.entries[place].tokens)
        .sum();
    let all = indexed
        .entries
        .iter()
        .filter(|entry| entry.name.is_some())
        .map(|entry| entry.tokens)
        .sum::<usize>();
    let saved = if mode == ProxyMode::Allowed {
        0
    } else {
        all.saturating_sub(shown_tokens)
    };
    let names = list
        .iter()
        .filter_map(|&place| indexed.entries[place].name.clone())
        .collect();
    Ok(Narrowed {
        body,
        mode,
        names,
        shown: list.len(),
        of: indexed.functions(),
        saved,
    })
}

struct Request<'r> {
    api: Api,
    members: &'r Members<'r>,
    /// The list as it came.
    tools: &'r str,
    indexed: &'r Arc<Indexed>,
    /// The places of functions that are shown.
    list: &'r [usize],
}

impl<'r> Request<'r> {
    /// An entry as it came.
    fn entry(&self, place: usize) -> &'r str {
        &self.tools[self.indexed.entries[place].place.clone()]
    }

    /// What is no function stays, and before all others: it is there from the first turn to the
    /// last.
    fn own(&self) -> impl Iterator<Item = usize> {
        (0..self.indexed.entries.len()).filter(|&place| self.indexed.entries[place].name.is_none())
    }

    /// All tools stay, and the model is told among which to choose.
    fn allowed(&self, choice: &Choice) -> Result<String, Unchanged> {
        let Choice::Open(mode) = choice else {
            return Err(Unchanged::Choice);
        };
        let mut places: Vec<usize> = self.own().chain(self.list.iter().copied()).collect();
        places.sort_unstable();
        let tools = places.iter().map(|&place| {
            (
                self.indexed.entries[place].name.as_deref(),
                self.entry(place),
            )
        });
        Ok(self
            .members
            .with("tool_choice", &self.api.allowed(mode, tools)))
    }

    /// The tools that are needed, in the order in which they came to be; with `defer` the others
    /// behind a search.
    fn narrowed(&self, mode: ProxyMode) -> String {
        let shown: Vec<usize> = self.own().chain(self.list.iter().copied()).collect();
        // Where the client wants the prompt kept up to a tool, it is kept up to the last of those
        // that are shown.
        let mark = self
            .indexed
            .entries
            .iter()
            .rev()
            .find_map(|entry| Some(&entry.cached.as_ref()?.0));
        let mut tools: Vec<String> = Vec::new();
        for (number, &place) in shown.iter().enumerate() {
            let mark = mark.filter(|_| number + 1 == shown.len());
            tools.push(marked(self.without_mark(place), mark));
        }
        if mode == ProxyMode::Defer {
            tools.insert(0, SEARCH.to_owned());
            let others = (0..self.indexed.entries.len()).filter(|place| !shown.contains(place));
            tools.extend(others.map(|place| first(self.without_mark(place), DEFERRED)));
        }
        self.members
            .with("tools", &format!("[{}]", tools.join(",")))
    }

    fn without_mark(&self, place: usize) -> &str {
        self.indexed.entries[place]
            .cached
            .as_ref()
            .map_or_else(|| self.entry(place), |(_, without)| without)
    }
}

fn marked(entry: &str, mark: Option<&Value>) -> String {
    match mark {
        Some(mark) => first(entry, &format!("\"cache_control\":{mark},")),
        None => entry.to_owned(),
    }
}

/// An entry with something put in before all of its members, of which it has some.
fn first(entry: &str, member: &str) -> String {
    entry.replacen('{', &format!("{{{member}"), 1)
}
