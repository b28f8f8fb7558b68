//! A cache of indexes for the tool lists of requests.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use lru::LruCache;
use picktools::{Access, Catalog, Engine, PickOptions, Query, Selection, Tool};
use picktools_gateway::settings::{HostTools, ProxySettings};
use picktools_provider::{Tokenizer, Turn, query_from_turns};
use picktools_state::lock;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::api::ModelApi;
use crate::members::{JsonMembers, text_range};
use crate::namespaces::NamespaceForms;
use crate::unchanged::UnchangedReason;

/// The largest number of tools of a request that is narrowed.
const MAX_TOOLS: usize = 10_000;
/// The measured memory of an index: for each byte of the list's text, and for each tool.
const BYTES_PER_TEXT_BYTE: usize = 6;
const BYTES_PER_TOOL: usize = 2_560;
/// The memory of the note that a list cannot be indexed.
const BYTES_PER_FAULT: usize = 256;
/// The number of cached conversation states for each list of tools.
const MAX_CONVERSATIONS: NonZeroUsize = NonZeroUsize::new(4_096).expect("it is not 0");
/// The threshold of the first tools. It excludes no tool, but unlike 0 it lets the engine pick
/// nothing.
const FIRST_MIN_SCORE: f32 = f32::MIN_POSITIVE;

type Sha256Digest = [u8; 32];

/// A parsed request.
pub(crate) struct ParsedRequest<'t> {
    pub(crate) members: JsonMembers<'t>,
    /// The index of its tools, if they were used recently.
    pub(crate) tools: Option<Arc<IndexedTools>>,
}

/// The number of recent lists whose text is compared, so that it is not parsed again.
const MAX_RECENT: usize = 8;

/// A cache of the indexes of tool lists.
pub(crate) struct IndexCache {
    slots: Mutex<LruCache<Sha256Digest, Arc<IndexSlot>>>,
    /// The recently used indexes, the latest first.
    recent: Mutex<VecDeque<Arc<IndexedTools>>>,
}

/// An index that the first request builds, while others wait for it.
type IndexSlot = OnceLock<Result<Arc<IndexedTools>, UnchangedReason>>;

/// The indexed tools of a request.
pub(crate) struct IndexedTools {
    /// The key in the cache.
    digest: Sha256Digest,
    /// The text of the list.
    pub(crate) text: Box<str>,
    /// The name of the request format.
    shape: &'static str,
    /// The number of functions from which a request is narrowed.
    min_functions: usize,
    pub(crate) entries: Vec<ToolEntry>,
    /// The positions of functions among the entries, by name.
    positions: HashMap<String, usize>,
    /// The names of the tools that the provider defines.
    provider_names: HashSet<String>,
    engine: Engine,
    /// The names of the functions that the engine cannot rank.
    unranked: HashSet<String>,
    /// The estimated memory.
    bytes: usize,
    /// The functions that every request keeps, by the latest settings.
    kept: Mutex<Option<Arc<KeptFunctions>>>,
    /// The needed functions, by the digest of the conversation.
    needed: Mutex<LruCache<Sha256Digest, Arc<[usize]>>>,
}

/// An entry of `tools`.
pub(crate) struct ToolEntry {
    /// The position of the entry in the text of the list.
    pub(crate) range: Range<usize>,
    /// The name, if the entry is a function.
    pub(crate) name: Option<String>,
    /// Anthropic's mark for the prompt cache, if the entry has one.
    pub(crate) cache_mark: Option<CacheMark>,
    /// `true` for a tool search, and for a tool that waits for a search.
    pub(crate) defers: bool,
    /// The size of the entry, in tokens (o200k).
    pub(crate) tokens: usize,
}

/// Anthropic's mark at the end of the part of a prompt that is cached.
pub(crate) struct CacheMark {
    pub(crate) value: Value,
    /// The text of the entry without the mark.
    pub(crate) unmarked_entry: String,
}

/// The functions that every request with a list keeps, whatever its conversation.
pub(crate) struct KeptFunctions {
    /// The patterns of the settings.
    always_include: Vec<String>,
    host_tools: HostTools,
    /// The positions, in the order of the list.
    pub(crate) positions: Vec<usize>,
    /// The number of functions that cannot be ranked.
    pub(crate) unranked: usize,
    /// The number of other functions that match a pattern. The rest are host tools.
    pub(crate) always_included: usize,
    /// The names of those that can be ranked.
    ranked_names: BTreeSet<String>,
}

impl KeptFunctions {
    fn are_for(&self, settings: &ProxySettings) -> bool {
        self.host_tools == settings.host_tools && self.always_include == settings.always_include
    }

    fn contains(&self, position: usize) -> bool {
        self.positions.binary_search(&position).is_ok()
    }

    /// Adds the settings to a digest.
    fn hash(&self, hash: &mut Sha256) {
        hash.update([u8::from(self.host_tools == HostTools::Keep)]);
        hash.update(self.always_include.len().to_le_bytes());
        for pattern in &self.always_include {
            hash.update(pattern.len().to_le_bytes());
            hash.update(pattern);
        }
    }
}

impl IndexCache {
    pub(crate) fn new() -> Self {
        Self {
            slots: Mutex::new(LruCache::unbounded()),
            recent: Mutex::default(),
        }
    }

    /// Parses a request. Tools that were used recently are not parsed again.
    pub(crate) fn parse<'t>(
        &self,
        api: ModelApi,
        min_functions: usize,
        text: &'t str,
    ) -> Result<ParsedRequest<'t>, UnchangedReason> {
        let recent: Vec<Arc<IndexedTools>> = lock(&self.recent).iter().cloned().collect();
        for indexed in recent {
            if indexed.shape != api.shape() || indexed.min_functions != min_functions {
                continue;
            }
            if let Some(members) = JsonMembers::parse_around(text, "tools", &indexed.text) {
                self.mark_used(&indexed);
                lock(&self.slots).promote(&indexed.digest);
                return Ok(ParsedRequest {
                    members,
                    tools: Some(indexed),
                });
            }
        }
        let members = JsonMembers::parse(text).map_err(|_| UnchangedReason::Body)?;
        Ok(ParsedRequest {
            members,
            tools: None,
        })
    }

    /// Returns the index of a list. If it is not cached, builds it. The least recently used indexes
    /// are evicted until all of them take at most `max_bytes`.
    ///
    /// A list with fewer than `min_functions` functions is not indexed.
    pub(crate) fn get(
        &self,
        api: ModelApi,
        min_functions: usize,
        max_bytes: usize,
        text: &str,
    ) -> Result<Arc<IndexedTools>, UnchangedReason> {
        let mut hash = Sha256::new();
        hash.update(api.shape());
        hash.update(min_functions.to_le_bytes());
        hash.update(text);
        let digest: Sha256Digest = hash.finalize().into();
        let slot = Arc::clone(lock(&self.slots).get_or_insert(digest, Arc::default));
        let indexed = slot
            .get_or_init(|| IndexedTools::build(api, min_functions, digest, text).map(Arc::new))
            .clone();
        self.evict(max_bytes);
        if let Ok(indexed) = &indexed {
            self.mark_used(indexed);
        }
        indexed
    }

    /// Moves an index to the front of the recent ones.
    fn mark_used(&self, indexed: &Arc<IndexedTools>) {
        let mut recent = lock(&self.recent);
        recent.retain(|other| !Arc::ptr_eq(other, indexed));
        recent.push_front(Arc::clone(indexed));
        recent.truncate(MAX_RECENT);
    }

    /// Evicts indexes until they take at most this memory. The latest one stays in any case.
    fn evict(&self, max_bytes: usize) {
        let mut slots = lock(&self.slots);
        let bytes = |slot: &IndexSlot| match slot.get() {
            Some(Ok(indexed)) => indexed.bytes,
            _ => BYTES_PER_FAULT,
        };
        let mut total: usize = slots.iter().map(|(_, slot)| bytes(slot)).sum();
        let mut recent = lock(&self.recent);
        while total > max_bytes
            && slots.len() > 1
            && let Some((_, slot)) = slots.pop_lru()
        {
            total -= bytes(&slot);
            if let Some(Ok(evicted)) = slot.get() {
                recent.retain(|indexed| !Arc::ptr_eq(indexed, evicted));
            }
        }
    }
}

impl IndexedTools {
    fn build(
        api: ModelApi,
        min_functions: usize,
        digest: Sha256Digest,
        text: &str,
    ) -> Result<Self, UnchangedReason> {
        let raw_entries: Vec<&RawValue> =
            serde_json::from_str(text).map_err(|_| UnchangedReason::Tools)?;
        if raw_entries.len() > MAX_TOOLS {
            return Err(UnchangedReason::Tools);
        }
        let mut positions = HashMap::new();
        let mut provider_names = HashSet::new();
        let mut tools = Vec::new();
        let mut entries = Vec::with_capacity(raw_entries.len());
        for raw in raw_entries {
            let mut value: Value =
                serde_json::from_str(raw.get()).map_err(|_| UnchangedReason::Tools)?;
            let function = api.parse_tool(&value)?;
            let kind = value
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let defers = kind.starts_with("tool_search") || value.get("defer_loading").is_some();
            let cache_mark = match value
                .as_object_mut()
                .and_then(|entry| entry.shift_remove("cache_control"))
            {
                Some(mark) if !api.is_openai() => Some(CacheMark {
                    value: mark,
                    unmarked_entry: value.to_string(),
                }),
                _ => None,
            };
            let name = function.as_ref().map(|function| function.name.clone());
            if let Some(function) = function {
                let previous = positions.insert(function.name.clone(), entries.len());
                if previous.is_some() {
                    return Err(UnchangedReason::Tools);
                }
                tools.push(Tool::with_parameters(
                    function.name,
                    function.description,
                    function.parameters,
                ));
            } else if let Some(name) = value.get("name").and_then(Value::as_str) {
                provider_names.insert(name.to_owned());
            }
            entries.push(ToolEntry {
                range: text_range(text, raw),
                name,
                cache_mark,
                defers,
                tokens: 0,
            });
        }
        if tools.len() < min_functions {
            return Err(UnchangedReason::FewTools);
        }
        let (engine, unranked) = build_engine(tools)?;
        for entry in &mut entries {
            entry.tokens = Tokenizer::O200k.count(&text[entry.range.clone()]);
        }
        let bytes = BYTES_PER_TEXT_BYTE * text.len() + BYTES_PER_TOOL * entries.len();
        Ok(Self {
            digest,
            bytes,
            text: text.into(),
            shape: api.shape(),
            min_functions,
            entries,
            positions,
            provider_names,
            engine,
            unranked,
            kept: Mutex::default(),
            needed: Mutex::new(LruCache::new(MAX_CONVERSATIONS)),
        })
    }

    /// Returns the functions that every request keeps: those that `always_include` names, the
    /// client's own tools, and those that cannot be ranked.
    pub(crate) fn kept_functions(
        &self,
        settings: &ProxySettings,
    ) -> Result<Arc<KeptFunctions>, UnchangedReason> {
        let cached = lock(&self.kept).clone();
        if let Some(kept) = cached.filter(|kept| kept.are_for(settings)) {
            return Ok(kept);
        }
        let patterns = settings.always_included().map_err(|error| {
            tracing::warn!(target: "picktools::proxy", %error, "the settings cannot be used");
            UnchangedReason::Failed
        })?;
        let forms = match settings.host_tools {
            HostTools::Keep => NamespaceForms::detect(self.function_names()),
            _ => NamespaceForms::default(),
        };
        let mut positions = Vec::new();
        let mut ranked_names = BTreeSet::new();
        let mut always_included = 0;
        for name in self.function_names() {
            let matches = patterns.matches(name);
            if self.unranked.contains(name) {
                positions.extend(self.position(name));
            } else if matches || forms.is_host_tool(name) {
                positions.extend(self.position(name));
                ranked_names.insert(name.to_owned());
                always_included += usize::from(matches);
            }
        }
        let kept = Arc::new(KeptFunctions {
            always_include: settings.always_include.clone(),
            host_tools: settings.host_tools,
            positions,
            unranked: self.unranked.len(),
            always_included,
            ranked_names,
        });
        *lock(&self.kept) = Some(Arc::clone(&kept));
        Ok(kept)
    }

    /// Returns the positions of the functions that a conversation needs beside the kept ones, in
    /// the order of need.
    ///
    /// The list of the first turns is a prefix of the list of all turns, so a list only grows. It
    /// is empty while the user says nothing that needs a tool.
    pub(crate) fn needed_functions(
        &self,
        turns: &[Turn],
        settings: &ProxySettings,
        kept: &KeptFunctions,
    ) -> Result<Arc<[usize]>, UnchangedReason> {
        let mut hash = Sha256::new();
        hash.update(settings.per_turn.to_le_bytes());
        hash.update(settings.min_score.to_le_bytes());
        kept.hash(&mut hash);
        let mut digests: Vec<Sha256Digest> = Vec::with_capacity(turns.len());
        for turn in turns {
            hash.update(turn.called.len().to_le_bytes());
            for text in [&turn.request, &turn.answer]
                .into_iter()
                .chain(&turn.called)
            {
                hash.update(text.len().to_le_bytes());
                hash.update(text);
            }
            digests.push(hash.clone().finalize().into());
        }
        let cached = {
            let mut needed = lock(&self.needed);
            digests
                .iter()
                .enumerate()
                .rev()
                .find_map(|(at, digest)| Some((at, Arc::clone(needed.get(digest)?))))
        };
        let (first_turn, mut list): (usize, Vec<usize>) = match cached {
            Some((at, list)) if at + 1 == turns.len() => return Ok(list),
            Some((at, list)) => (at + 1, list.to_vec()),
            None => (0, Vec::new()),
        };
        for at in first_turn..turns.len() {
            let turn = &turns[at];
            if !turn.request.is_empty() {
                self.pick(&turns[..=at], settings, kept, &mut list)?;
            }
            for name in &turn.called {
                let position = self.position(name);
                add_position(
                    &mut list,
                    position.filter(|&position| !kept.contains(position)),
                );
            }
            lock(&self.needed).put(digests[at], list.as_slice().into());
        }
        Ok(list.into())
    }

    /// Adds the picks for the last of these turns, at most `per_turn` new functions.
    fn pick(
        &self,
        turns: &[Turn],
        settings: &ProxySettings,
        kept: &KeptFunctions,
        list: &mut Vec<usize>,
    ) -> Result<(), UnchangedReason> {
        if kept.positions.len() == self.count_functions() {
            return Ok(());
        }
        let Some(query) = query_from_turns(turns) else {
            return Ok(());
        };
        let options = PickOptions {
            max_candidates: settings.per_turn,
            // The first list excludes no tool by its score, because a model without tools cannot
            // ask for one.
            min_score: if list.is_empty() {
                settings.min_score.min(FIRST_MIN_SCORE)
            } else {
                settings.min_score
            },
            // The kept functions take no places of others.
            access: Access {
                allow_unsafe: true,
                exclude: kept.ranked_names.clone(),
                ..Access::default()
            },
            reasons: false,
            ..PickOptions::default()
        };
        let mut selections = vec![self.select(&query, &options)?];
        if selections[0].picks.is_empty() && !query.is_small_talk() {
            // The engine shows nothing if it doubts that any tool fits. Only for small talk may
            // that leave a model without tools.
            let complete = PickOptions {
                min_score: 0.0,
                ..options.clone()
            };
            let mut selection = self.select(&query, &complete)?;
            selection
                .picks
                .retain(|pick| pick.score >= options.min_score);
            selections.push(selection);
        }
        // If the conversation gives the message another meaning, its own words count as well. A
        // wrong reading must not take a tool away.
        let own_query = Query::new(query.text());
        if query.search_text() != own_query.search_text() {
            selections.push(self.select(&own_query, &options)?);
        }
        let max_length = list.len() + settings.per_turn;
        for selection in &selections {
            for pick in &selection.picks {
                let position = self.position(&pick.tool.name);
                let position = position.filter(|&position| !kept.contains(position));
                add_position(list, position.filter(|_| list.len() < max_length));
            }
            for required in &selection.required {
                let position = self.position(&required.tool.name);
                add_position(list, position.filter(|&position| !kept.contains(position)));
            }
        }
        Ok(())
    }

    fn select(&self, query: &Query, options: &PickOptions) -> Result<Selection, UnchangedReason> {
        self.engine.pick(query, options).map_err(|error| {
            tracing::warn!(
                target: "picktools::proxy", %error,
                "pick failed; the request is forwarded unchanged"
            );
            UnchangedReason::Failed
        })
    }

    /// Returns the position of a function among the entries.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    /// Returns `true` if the provider defines a tool of this name.
    pub(crate) fn has_provider_tool(&self, name: &str) -> bool {
        self.provider_names.contains(name)
    }

    /// Returns the names of the functions, in the order of the list.
    fn function_names(&self) -> impl Iterator<Item = &str> {
        self.entries
            .iter()
            .filter_map(|entry| entry.name.as_deref())
    }

    /// Returns the number of functions.
    pub(crate) fn count_functions(&self) -> usize {
        self.positions.len()
    }
}

/// Adds a position, unless the list has it.
fn add_position(list: &mut Vec<usize>, position: Option<usize>) {
    if let Some(position) = position.filter(|position| !list.contains(position)) {
        list.push(position);
    }
}

/// Indexes tools, and returns the names of those that cannot be ranked.
///
/// A tool with an invalid schema is indexed without the schema. A tool with an invalid name, such
/// as one with a control character, is not indexed.
fn build_engine(tools: Vec<Tool>) -> Result<(Engine, HashSet<String>), UnchangedReason> {
    let mut unranked = HashSet::new();
    let catalog = Catalog::from_tools(tools.iter().cloned()).or_else(|_| {
        let mut valid_tools = Vec::with_capacity(tools.len());
        for tool in tools {
            if Catalog::from_tools([tool.clone()]).is_ok() {
                valid_tools.push(tool);
                continue;
            }
            let plain = Tool::without_arguments(tool.name, tool.description);
            match Catalog::from_tools([plain.clone()]) {
                Ok(_) => valid_tools.push(plain),
                Err(error) => {
                    tracing::warn!(
                        target: "picktools::proxy", %error,
                        "a tool cannot be ranked; it is always kept"
                    );
                    unranked.insert(plain.name);
                }
            }
        }
        Catalog::from_tools(valid_tools)
    });
    let failed = |error: &dyn std::fmt::Display| {
        tracing::warn!(
            target: "picktools::proxy", %error,
            "indexing failed; the request is forwarded unchanged"
        );
        UnchangedReason::Tools
    };
    let engine = Engine::new(catalog.map_err(|error| failed(&error))?);
    Ok((engine.map_err(|error| failed(&error))?, unranked))
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
            .flat_map(|subject| verbs.map(|(verb, does)| (verb, does, subject)))
            .map(|(verb, does, subject)| {
                let name = format!("{verb}_{subject}");
                let description = format!("{does} the {subject}");
                json!({"type": "function", "function": {"name": name, "description": description}})
            })
            .collect();
        json!(tools).to_string()
    }

    fn needed(indexed: &IndexedTools, talk: &Value, settings: &ProxySettings) -> Vec<usize> {
        let turns = turns(talk).expect("a transcript");
        let kept = indexed.kept_functions(settings).expect("valid patterns");
        indexed
            .needed_functions(&turns, settings, &kept)
            .expect("a list")
            .to_vec()
    }

    #[test]
    fn needed_functions_only_grow_and_do_not_depend_on_the_cache() {
        let say = |text: &str| json!({"role": "user", "content": text});
        let call = |name: &str| {
            let calls = json!([{"function": {"name": name}}]);
            json!({"role": "assistant", "tool_calls": calls, "content": null})
        };
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
        let cache = IndexCache::new();
        let list = |lists: &IndexCache, talk: &[Value]| {
            let indexed = lists
                .get(ModelApi::Chat, 16, usize::MAX, &text)
                .expect("tools");
            needed(&indexed, &json!(talk), &settings)
        };
        let mut previous: Vec<usize> = Vec::new();
        for end in 1..=talk.len() {
            let current = list(&cache, &talk[..end]);
            assert!(current.starts_with(&previous), "{previous:?} {current:?}");
            assert_eq!(
                current,
                list(&IndexCache::new(), &talk[..end]),
                "the cache changes no result"
            );
            previous = current;
        }
        assert!(previous.len() < 24, "{previous:?}");
    }

    #[test]
    fn least_recently_used_indexes_are_evicted() {
        let cache = IndexCache::new();
        let get = |number: usize, max_bytes| {
            let text = tools().replace("find_ticket", &format!("find_ticket_{number}"));
            cache
                .get(ModelApi::Chat, 16, max_bytes, &text)
                .expect("tools")
        };
        let first = get(0, usize::MAX);
        let (room_for_two, room_for_one) = (2 * first.bytes + 100, first.bytes + 100);
        get(1, room_for_two);
        assert!(Arc::ptr_eq(&first, &get(0, room_for_two)));
        get(2, room_for_two);
        assert!(Arc::ptr_eq(&first, &get(0, room_for_two)), "1 was evicted");
        get(3, room_for_one);
        assert_eq!(
            (lock(&cache.slots).len(), lock(&cache.recent).len()),
            (1, 1)
        );
        assert!(!Arc::ptr_eq(&first, &get(0, room_for_one)));
    }

    #[test]
    fn invalid_schema_does_not_prevent_the_pick_of_other_tools() {
        let mut tools: Vec<Value> = serde_json::from_str(&tools()).expect("JSON");
        tools[0]["function"]["parameters"] =
            json!({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/"}}});
        tools[1]["function"]["parameters"] = json!({"type": "nonsense"});
        let lists = IndexCache::new();
        let indexed = lists
            .get(ModelApi::Chat, 16, usize::MAX, &json!(tools).to_string())
            .expect("tools");
        let talk = json!([{"role": "user", "content": "send the email"}]);
        let list = needed(&indexed, &talk, &ProxySettings::default());
        assert_eq!(list.first(), Some(&0));
    }

    #[test]
    fn list_that_begins_empty_grows_with_the_first_content() {
        let say = |text: &str| json!({"role": "user", "content": text});
        let answer = |text: &str| json!({"role": "assistant", "content": text});
        let talk = [
            say("hi"),
            answer("Hello!"),
            say("thanks!"),
            answer("You are welcome."),
            say("send the invoice by email"),
            answer("Done."),
            say("thank you!"),
        ];
        let (text, settings) = (tools(), ProxySettings::default());
        let cache = IndexCache::new();
        let mut lists = Vec::new();
        for end in [1, 3, 5, 7] {
            let indexed = cache
                .get(ModelApi::Chat, 16, usize::MAX, &text)
                .expect("tools");
            let list = needed(&indexed, &json!(talk[..end]), &settings);
            let new = IndexCache::new();
            let indexed = new
                .get(ModelApi::Chat, 16, usize::MAX, &text)
                .expect("tools");
            assert_eq!(list, needed(&indexed, &json!(talk[..end]), &settings));
            lists.push(list);
        }
        assert!(lists[0].is_empty() && lists[1].is_empty(), "{lists:?}");
        assert!(lists[2].contains(&0), "send_email: {lists:?}");
        assert!(lists[3].starts_with(&lists[2]), "{lists:?}");
        let complete = ProxySettings {
            min_score: 0.0,
            ..settings
        };
        let indexed = cache
            .get(ModelApi::Chat, 16, usize::MAX, &text)
            .expect("tools");
        let list = needed(&indexed, &json!(talk[..1]), &complete);
        assert!(!list.is_empty(), "0 asks for a complete ranking");
    }

    #[test]
    fn kept_functions_take_no_places_of_others() {
        let indexed = IndexCache::new()
            .get(ModelApi::Chat, 16, usize::MAX, &tools())
            .expect("tools");
        let talk = json!([{"role": "user", "content": "send the invoice by email"}]);
        let settings = |always_include: &[&str]| ProxySettings {
            per_turn: 2,
            always_include: always_include.iter().map(|&name| name.to_owned()).collect(),
            ..ProxySettings::default()
        };
        let free = needed(&indexed, &talk, &settings(&[]));
        let rest = needed(&indexed, &talk, &settings(&["send_*", "*_photo"]));
        assert!(free.contains(&0) && free.len() == 2, "{free:?}");
        assert_eq!(rest.len(), 2);
        let kept = indexed
            .kept_functions(&settings(&["send_*", "*_photo"]))
            .expect("valid patterns");
        assert_eq!((kept.positions.len(), kept.always_included), (10, 10));
        assert!(rest.iter().all(|&position| !kept.contains(position)));
        assert!(needed(&indexed, &talk, &settings(&["*"])).is_empty());
    }
}
