//! The tools of requests, indexed once for each list.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use lru::LruCache;
use picktools::{Access, Catalog, Engine, PickOptions, Query, Tool};
use picktools_gateway::settings::ProxySettings;
use picktools_provider::{Tokenizer, Turn};
use picktools_state::lock;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::api::Api;
use crate::members::{Members, place};
use crate::unchanged::Unchanged;

/// The most tools of a request that is narrowed.
const MAX_TOOLS: usize = 10_000;
/// The most tools that are kept indexed; over it, the list used longest ago goes.
const MAX_INDEXED: usize = 20_000;
/// How many lists that were made for conversations are kept for each list of tools.
const MAX_LISTS: NonZeroUsize = NonZeroUsize::new(4_096).expect("it is not 0");

type Sha = [u8; 32];

/// The members of a request, and its list where that is known.
pub(crate) type Known<'t> = (Members<'t>, Option<Arc<Indexed>>);

/// How many lists are known by their text, so that requests with them need not be read whole.
const MAX_RECENT: usize = 8;

/// The tools of requests, indexed once for each list.
pub(crate) struct IndexedLists {
    lists: Mutex<LruCache<Sha, Arc<Slot>>>,
    /// Those that were used last, the latest first.
    recent: Mutex<VecDeque<Arc<Indexed>>>,
}

/// Filled by whoever comes first, for whom the others wait.
type Slot = OnceLock<Result<Arc<Indexed>, Unchanged>>;

/// The tools of a request.
pub(crate) struct Indexed {
    /// The list as it came.
    pub(crate) text: Box<str>,
    /// For which requests it was indexed: their shape, and from how many tools on.
    of: (&'static str, usize),
    pub(crate) entries: Vec<Entry>,
    /// The places of functions among the entries, by name.
    names: HashMap<String, usize>,
    engine: Engine,
    /// What a choice was made for, by the digest of a conversation so far.
    lists: Mutex<LruCache<Sha, Arc<[usize]>>>,
}

/// An entry of `tools`.
pub(crate) struct Entry {
    /// Where it stands in the text of the list.
    pub(crate) place: Range<usize>,
    /// What it is called, where it is a function.
    pub(crate) name: Option<String>,
    /// Anthropic's mark that the prompt is kept up to here, and the entry without it.
    pub(crate) cached: Option<(Value, String)>,
    /// Whether it searches for tools, or waits for a search.
    pub(crate) defers: bool,
    pub(crate) tokens: usize,
}

impl IndexedLists {
    pub(crate) fn new() -> Self {
        Self {
            lists: Mutex::new(LruCache::unbounded()),
            recent: Mutex::default(),
        }
    }

    /// The members of a request, and its list where that was used lately: then it is not read
    /// again.
    pub(crate) fn read<'t>(
        &self,
        api: Api,
        from: usize,
        text: &'t str,
    ) -> Result<Known<'t>, Unchanged> {
        let recent: Vec<Arc<Indexed>> = lock(&self.recent).iter().cloned().collect();
        for indexed in recent
            .into_iter()
            .filter(|indexed| indexed.of == (api.shape(), from))
        {
            if let Some(members) = Members::read_around(text, "tools", &indexed.text) {
                self.used(&indexed);
                return Ok((members, Some(indexed)));
            }
        }
        Members::read(text)
            .map(|members| (members, None))
            .map_err(|_| Unchanged::Body)
    }

    /// The index of a list, made where it is not there. `from` is how many functions are worth one.
    pub(crate) fn get(&self, api: Api, from: usize, text: &str) -> Result<Arc<Indexed>, Unchanged> {
        let mut hash = Sha256::new();
        hash.update(api.shape());
        hash.update(from.to_le_bytes());
        hash.update(text);
        let digest: Sha = hash.finalize().into();
        let slot = Arc::clone(lock(&self.lists).get_or_insert(digest, Arc::default));
        let indexed = slot
            .get_or_init(|| Indexed::read(api, from, text).map(Arc::new))
            .clone();
        self.bound();
        if let Ok(indexed) = &indexed {
            self.used(indexed);
        }
        indexed
    }

    /// Has a list known by its text from now on.
    fn used(&self, indexed: &Arc<Indexed>) {
        let mut recent = lock(&self.recent);
        recent.retain(|other| !Arc::ptr_eq(other, indexed));
        recent.push_front(Arc::clone(indexed));
        let tools = |recent: &VecDeque<Arc<Indexed>>| {
            recent.iter().map(|list| list.entries.len()).sum::<usize>()
        };
        while recent.len() > MAX_RECENT || (recent.len() > 1 && tools(&recent) > MAX_INDEXED) {
            recent.pop_back();
        }
    }

    fn bound(&self) {
        let mut lists = lock(&self.lists);
        let tools = |slot: &Slot| match slot.get() {
            Some(Ok(indexed)) => indexed.entries.len().max(1),
            _ => 1,
        };
        let mut all: usize = lists.iter().map(|(_, slot)| tools(slot)).sum();
        while all > MAX_INDEXED
            && let Some((_, slot)) = lists.pop_lru()
        {
            all -= tools(&slot);
        }
    }
}

impl Indexed {
    fn read(api: Api, from: usize, text: &str) -> Result<Self, Unchanged> {
        let raw: Vec<&RawValue> = serde_json::from_str(text).map_err(|_| Unchanged::Tools)?;
        if raw.len() > MAX_TOOLS {
            return Err(Unchanged::Tools);
        }
        let mut names = HashMap::new();
        let mut tools = Vec::new();
        let mut entries = Vec::with_capacity(raw.len());
        for raw in raw {
            let mut value: Value = serde_json::from_str(raw.get()).map_err(|_| Unchanged::Tools)?;
            let read = api.tool(&value)?;
            let kind = value
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let defers = kind.starts_with("tool_search") || value.get("defer_loading").is_some();
            let cached = match value
                .as_object_mut()
                .and_then(|entry| entry.shift_remove("cache_control"))
            {
                Some(mark) if !api.is_openai() => Some((mark, value.to_string())),
                _ => None,
            };
            let name = read.as_ref().map(|read| read.name.clone());
            if let Some(read) = read {
                if names.insert(read.name.clone(), entries.len()).is_some() {
                    return Err(Unchanged::Tools);
                }
                tools.push(Tool::with_parameters(
                    read.name,
                    read.description,
                    read.parameters,
                ));
            }
            entries.push(Entry {
                place: place(text, raw),
                name,
                cached,
                defers,
                tokens: 0,
            });
        }
        if tools.len() < from {
            return Err(Unchanged::FewTools);
        }
        let engine = engine(tools)?;
        for entry in &mut entries {
            entry.tokens = Tokenizer::O200k.count(&text[entry.place.clone()]);
        }
        let lists = Mutex::new(LruCache::new(MAX_LISTS));
        Ok(Self {
            text: text.into(),
            of: (api.shape(), from),
            entries,
            names,
            engine,
            lists,
        })
    }

    /// Which functions a conversation has needed so far, in the order in which it came to need
    /// them. What it is for the beginning of a conversation is the beginning of what it is for the
    /// whole, so that a list only grows.
    pub(crate) fn list(
        &self,
        turns: &[Turn],
        settings: &ProxySettings,
    ) -> Result<Arc<[usize]>, Unchanged> {
        let mut hash = Sha256::new();
        hash.update(settings.per_turn.to_le_bytes());
        hash.update(settings.min_score.to_le_bytes());
        let mut digests: Vec<Sha> = Vec::with_capacity(turns.len());
        for turn in turns {
            hash.update(turn.called.len().to_le_bytes());
            for text in std::iter::once(&turn.request).chain(&turn.called) {
                hash.update(text.len().to_le_bytes());
                hash.update(text);
            }
            digests.push(hash.clone().finalize().into());
        }
        let known = {
            let mut lists = lock(&self.lists);
            digests
                .iter()
                .enumerate()
                .rev()
                .find_map(|(at, digest)| Some((at, Arc::clone(lists.get(digest)?))))
        };
        let (from, mut list): (usize, Vec<usize>) = match known {
            Some((at, list)) if at + 1 == turns.len() => return Ok(list),
            Some((at, list)) => (at + 1, list.to_vec()),
            None => (0, Vec::new()),
        };
        for at in from..turns.len() {
            let turn = &turns[at];
            if !turn.request.is_empty() {
                self.pick(&turns[..=at], settings, &mut list)?;
            }
            for name in &turn.called {
                add(&mut list, self.place(name));
            }
            lock(&self.lists).put(digests[at], list.as_slice().into());
        }
        Ok(list.into())
    }

    /// Adds what the last of these turns asks for.
    fn pick(
        &self,
        turns: &[Turn],
        settings: &ProxySettings,
        list: &mut Vec<usize>,
    ) -> Result<(), Unchanged> {
        let Some((turn, before)) = turns.split_last() else {
            return Ok(());
        };
        let earlier: Vec<&str> = before
            .iter()
            .map(|turn| turn.request.as_str())
            .filter(|said| !said.is_empty())
            .collect();
        let query = Query::new(turn.request.as_str()).with_context(&earlier);
        let options = PickOptions {
            max_candidates: settings.per_turn,
            // A model that is shown no tool at all cannot even ask for one.
            min_score: if list.is_empty() {
                0.0
            } else {
                settings.min_score
            },
            access: Access {
                allow_unsafe: true,
                ..Access::default()
            },
            reasons: false,
            ..PickOptions::default()
        };
        let selection = self.engine.pick(&query, &options).map_err(|error| {
            tracing::warn!(target: "picktools::proxy", %error, "the tools of a request are not narrowed");
            Unchanged::Failed
        })?;
        for pick in selection.picks.iter().chain(&selection.required) {
            add(list, self.place(&pick.tool.name));
        }
        Ok(())
    }

    /// The place of a function among the entries.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// How many functions there are.
    pub(crate) fn functions(&self) -> usize {
        self.names.len()
    }
}

/// Adds what is not there.
pub(crate) fn add(list: &mut Vec<usize>, place: Option<usize>) {
    if let Some(place) = place.filter(|place| !list.contains(place)) {
        list.push(place);
    }
}

/// Indexes tools. One whose schema no catalog takes is indexed without it.
fn engine(tools: Vec<Tool>) -> Result<Engine, Unchanged> {
    let catalog = Catalog::from_tools(tools.iter().cloned()).or_else(|_| {
        Catalog::from_tools(tools.into_iter().map(|tool| {
            let is_taken = Catalog::from_tools([tool.clone()]).is_ok();
            if is_taken {
                tool
            } else {
                Tool::without_arguments(tool.name, tool.description)
            }
        }))
    });
    let failed = |error: &dyn std::fmt::Display| {
        tracing::warn!(target: "picktools::proxy", %error, "the tools of a request cannot be indexed");
        Unchanged::Tools
    };
    Engine::new(catalog.map_err(|error| failed(&error))?).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use picktools_provider::turns;
    use serde_json::json;

    use super::*;

    fn tools() -> String {
        let subjects = [
            "email",
            "invoice",
            "weather",
            "calendar",
            "photo",
            "flight",
            "ticket",
            "repository",
        ];
        let verbs = [("send", "Sends"), ("find", "Finds"), ("delete", "Deletes")];
        let tools: Vec<Value> = subjects
            .iter()
            .flat_map(|subject| verbs.map(|(verb, does)| (format!("{verb}_{subject}"), format!("{does} the {subject}"))))
            .map(|(name, description)| json!({"type": "function", "function": {"name": name, "description": description}}))
            .collect();
        json!(tools).to_string()
    }

    #[test]
    fn a_list_only_grows_and_is_the_same_whether_or_not_it_was_worked_out_before() {
        let say = |text: &str| json!({"role": "user", "content": text});
        let call = |name: &str| json!({"role": "assistant", "tool_calls": [{"function": {"name": name}}], "content": null});
        let talk = [
            call("find_ticket"),
            say("will the weather hold for the flight?"),
            call("find_weather"),
            call("no_such_tool"),
            say("hm"),
            say("then send the invoice by email"),
            call("delete_photo"),
            say("and delete the repository"),
        ];
        let settings = ProxySettings {
            per_turn: 3,
            ..ProxySettings::default()
        };
        let text = tools();
        let kept = IndexedLists::new();
        let list = |lists: &IndexedLists, talk: &[Value]| {
            let turns = turns(&json!(talk)).expect("a transcript");
            lists
                .get(Api::Chat, 16, &text)
                .expect("tools")
                .list(&turns, &settings)
                .expect("a list")
                .to_vec()
        };
        let mut before: Vec<usize> = Vec::new();
        for end in 1..=talk.len() {
            let now = list(&kept, &talk[..end]);
            assert!(now.starts_with(&before), "{before:?} {now:?}");
            assert_eq!(
                now,
                list(&IndexedLists::new(), &talk[..end]),
                "what is remembered changes nothing"
            );
            before = now;
        }
        assert!(before.len() < 24, "{before:?}");
    }

    #[test]
    fn a_schema_that_no_catalog_takes_does_not_keep_the_others_from_being_picked() {
        let mut tools: Vec<Value> = serde_json::from_str(&tools()).expect("JSON");
        tools[0]["function"]["parameters"] =
            json!({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/"}}});
        tools[1]["function"]["parameters"] = json!({"type": "nonsense"});
        let lists = IndexedLists::new();
        let indexed = lists
            .get(Api::Chat, 16, &json!(tools).to_string())
            .expect("tools");
        let turns =
            turns(&json!([{"role": "user", "content": "send the email"}])).expect("a transcript");
        let list = indexed
            .list(&turns, &ProxySettings::default())
            .expect("a list");
        assert_eq!(list.first(), Some(&0));
    }
}
