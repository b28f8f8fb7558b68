//! Snapshots: the tools at one time, their names, and the views of roles.
//!
//! An upstream is a server with its rules. Its name is the source of its tools, so its tools have
//! ids of the form `server/tool`.

mod build;
mod catalog;
mod definition;
mod resolve;
mod review;
mod servers;
#[cfg(test)]
mod tests;
mod upstream_tools;
mod visible;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use picktools::catalog::Conflicts;
use picktools::names::ToolPatterns;
use picktools::options::UNTRUSTED_MAX_PER_SOURCE;
use picktools::{
    Access, Catalog, CatalogOptions, Engine, PickError, PickOptions, Query, Selection, Tool,
};
use picktools_call::Hydrator;
use picktools_provider::{Tokenizer, Translation};
use picktools_state::keys::digest;
use picktools_state::{StateStamp, StateStore, lock};
use serde_json::Value;

use self::build::{BuiltTools, SnapshotParts};
pub(crate) use self::catalog::Notice;
pub use self::definition::AdvertisedDefinition;
use self::definition::AdvertisedDefinitions;
use self::review::{ReviewedTools, review_tools};
use self::servers::{ListedServers, ServerAccess};
pub(crate) use self::upstream_tools::{UnparsedUpstreamTools, UpstreamTools};
pub use self::visible::VisibleTools;
use crate::accounts::MergedTools;
use crate::pick_queue::run_pick;
use crate::pins::{INSTRUCTIONS, Pins};
use crate::refusal::{Code, Refusal};
use crate::settings::{DEFAULT_ROLE, Role, Settings, Unsafe};

/// The tools at one time, with their names. A request uses one snapshot from its start to its end.
pub struct Snapshot {
    pub(crate) settings: Arc<Settings>,
    /// The engine of all tools, for the operator. Callers use that of their view.
    pub engine: Engine,
    /// The names that clients are shown, by tool id.
    pub names: BTreeMap<String, String>,
    /// The definitions as in `tools/list`, by tool id.
    definitions: AdvertisedDefinitions,
    /// The mapping of shown names to tool ids. Its definitions were moved to `definitions`.
    translation: Translation,
    /// The names of the servers that run tools.
    servers: BTreeSet<String>,
    listed_servers: ListedServers,
    /// The ids of quarantined tools.
    pub quarantined: BTreeSet<String>,
    /// The ids of the tools that the settings hide from everybody.
    pub hidden: BTreeSet<String>,
    /// The ids of the tools that the settings rename.
    renamed: BTreeSet<String>,
    /// Messages for the operator about what was left out.
    pub(crate) notices: Vec<Notice>,
    /// The servers whose tools could not be used, with the reason.
    pub failed: BTreeMap<String, String>,
    /// The approved instructions of servers, by server.
    pub(crate) instructions: BTreeMap<String, String>,
    /// The servers whose instructions are quarantined.
    pub(crate) quarantined_instructions: BTreeSet<String>,
    /// The stamp of the approvals with which it was built. If it changes, the snapshot is outdated.
    pub(crate) approvals: Option<StateStamp>,
    /// The shared store whose faults are reported with picks.
    store: Option<StateStore>,
    views: Mutex<HashMap<String, Arc<ViewCell>>>,
}

/// A view that is built at its first use, by one thread.
type ViewCell = OnceLock<Result<Arc<View>, Refusal>>;

/// The part of a snapshot that callers of one role may see. For them, other tools do not exist.
pub struct View {
    /// The engine of the tools that the role may know.
    pub engine: Engine,
    /// The access policy of the role for all tools of the snapshot, for the operator.
    pub complete_access: Access,
    /// The pick options of the role, unless a request is stricter.
    pub options: PickOptions,
    /// Finds the tools that the role may call, and validates calls of them.
    pub hydrator: Hydrator,
    /// The treatment of calls of unsafe tools.
    pub(crate) marked_unsafe: Unsafe,
    /// The tools that the role may use, in the order of the catalog.
    pub tools: Vec<Arc<Tool>>,
    /// The sources of these tools.
    pub(crate) sources: Vec<String>,
    /// The servers that the role may use.
    pub(crate) servers: ServerAccess,
    /// The number of quarantined tools that the caller could otherwise see, by source.
    pub quarantined: BTreeMap<String, usize>,
    /// The tools that are listed: of merged tools, the first.
    pub(crate) listed: Vec<Arc<Tool>>,
    /// Those of the listed tools that are always listed.
    pub(crate) always_listed: Vec<Arc<Tool>>,
    /// The visible tools that are shown as one.
    pub(crate) merged: MergedTools,
    tokens: OnceLock<usize>,
    list_digests: OnceLock<ListDigests>,
    /// The shared store whose faults are reported with picks.
    store: Option<StateStore>,
}

/// The digests of the lists that clients of a view can be shown. Sessions notice changes by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListDigests {
    /// The definitions of all visible tools.
    pub(crate) all: [u8; 32],
    /// The definitions of the visible tools that are always listed.
    pub(crate) always_listed: [u8; 32],
}

impl Snapshot {
    /// Builds a snapshot from the tools of upstreams and the operator's own catalog. `pins` are the
    /// approved definitions; without them, every definition counts as approved. The index of the
    /// `previous` snapshot is reused.
    pub(crate) fn build(
        settings: Arc<Settings>,
        own_catalog: Option<&Catalog>,
        upstream_tools: &[UpstreamTools],
        pins: Option<&Pins>,
        previous: Option<&Self>,
    ) -> Result<Self, String> {
        let mut untrusted_sources = BTreeSet::new();
        let mut servers = BTreeSet::new();
        for upstream in upstream_tools {
            servers.insert(upstream.server.name.clone());
            if upstream.rules.untrusted {
                untrusted_sources.insert(upstream.server.name.clone());
            }
        }
        let options = CatalogOptions {
            conflicts: Conflicts::Warn,
            allow_no_schema: settings.allow_no_schema,
            untrusted_sources,
            ..CatalogOptions::default()
        };
        let ReviewedTools {
            files,
            mut quarantined,
            instructions,
            quarantined_instructions,
            approvals,
        } = match pins {
            Some(pins) => review_tools(&settings, upstream_tools, pins, &options)?,
            None => ReviewedTools::without_review(upstream_tools),
        };
        let parts = SnapshotParts {
            settings: &settings,
            options: &options,
            own_catalog,
            previous: previous.map(|previous| (&previous.engine, &previous.definitions)),
        };
        let BuiltTools {
            engine,
            names,
            renamed,
            hidden,
            translation,
            definitions,
            mut notices,
            failed,
        } = parts.build_each(&files)?;
        notices.extend(listing_notices(&settings, upstream_tools));
        notices.extend(denial_notices(&settings, engine.catalog()));
        quarantined.retain(|id| engine.catalog().find(id).is_some());
        let (store, views) = (None, Mutex::default());
        Ok(Self {
            settings,
            engine,
            names,
            definitions,
            translation,
            servers,
            listed_servers: ListedServers::new(upstream_tools),
            quarantined,
            hidden,
            renamed,
            notices,
            failed,
            instructions,
            quarantined_instructions,
            approvals,
            store,
            views,
        })
    }

    /// Sets the store whose faults are reported with picks.
    pub(crate) fn with_store(self, store: Option<StateStore>) -> Self {
        Self { store, ..self }
    }

    /// Returns the view of a role, which is built at its first use.
    ///
    /// # Errors
    ///
    /// [`Refusal`] with [`Code::NotAllowed`] if the view cannot be built, for example because the
    /// settings of the role are invalid.
    pub fn view(&self, role: &str) -> Result<Arc<View>, Refusal> {
        let cell = Arc::clone(lock(&self.views).entry(role.to_owned()).or_default());
        let make_view = || {
            let view = self.make_view(role).map(Arc::new);
            view.map_err(|message| Refusal::new(Code::NotAllowed, message))
        };
        cell.get_or_init(make_view).clone()
    }

    /// Returns a role with its access policy for the current tools.
    fn role(&self, name: &str) -> Result<Role, String> {
        let access = self.settings.access(name, self.engine.catalog());
        let access = Access {
            quarantine: self.quarantined.clone(),
            ..access.map_err(|error| error.to_string())?
        };
        Ok(Role {
            access,
            ..self.settings.role(name)
        })
    }

    /// Returns the number of quarantined tools by source.
    pub(crate) fn quarantined_by_source(&self) -> BTreeMap<String, usize> {
        count_by_source(self.engine.catalog(), &self.quarantined)
    }

    /// Returns each role with its access policy for the current tools.
    pub(crate) fn roles(&self) -> Result<Vec<(String, Role)>, String> {
        let mut names: BTreeSet<&str> = self.settings.roles.keys().map(String::as_str).collect();
        names.insert(DEFAULT_ROLE);
        let mut roles = Vec::with_capacity(names.len());
        for name in names {
            roles.push((name.to_owned(), self.role(name)?));
        }
        Ok(roles)
    }

    fn make_view(&self, role: &str) -> Result<View, String> {
        let Role {
            access,
            marked_unsafe,
            ..
        } = self.role(role)?;
        let visible = VisibleTools::new(self.engine.catalog(), &access);
        let visible = visible.map_err(|error| error.to_string())?;
        let engine = visible.engine(&self.engine);
        let engine = engine.map_err(|error| error.to_string())?;
        let engine = engine.with_access(visible.access.clone());
        let engine = engine.map_err(|error| error.to_string())?;
        let catalog = engine.catalog();
        let hydrator = Hydrator::new(catalog.clone(), &visible.access);
        let hydrator = hydrator.map_err(|error| error.to_string())?;
        let hydrator = hydrator.translated(&self.translation);
        let tools: Vec<Arc<Tool>> = hydrator.admitted().cloned().collect();
        let mut sources: Vec<String> = Vec::new();
        let mut exempt_sources = BTreeSet::new();
        let mut has_untrusted = false;
        for tool in &tools {
            has_untrusted |= tool.untrusted;
            let Some(source) = &tool.source else {
                continue;
            };
            if !sources.contains(source) {
                sources.push(source.clone());
            }
            if !tool.untrusted {
                exempt_sources.insert(source.clone());
            }
        }
        let always_listed = self.always_listed(&tools)?;
        let fallbacks = self.matching_tools(&tools, &self.settings.fallbacks)?;
        let options = PickOptions {
            always_include: ids(&always_listed),
            fallbacks: ids(&fallbacks),
            // All other sources are exempt, so this limits only untrusted sources.
            max_per_source: has_untrusted.then_some(UNTRUSTED_MAX_PER_SOURCE),
            trusted_sources: exempt_sources,
            access: visible.access,
            ..PickOptions::default()
        };
        let mut merged = MergedTools::default();
        if self.settings.merge_accounts {
            // The operator gave a renamed tool a name of its own.
            let mut mergeable = tools.clone();
            mergeable.retain(|tool| !self.renamed.contains(&tool.id));
            let mut names = self.names.clone();
            names.retain(|id, _| catalog.find(id).is_some());
            merged = MergedTools::new(&mergeable, &self.servers, &names);
        }
        let listed = merged.first_of_each(&tools);
        let always_listed = merged.first_of_each(&always_listed);
        let servers = ServerAccess::new(&self.settings, role, &tools, &self.listed_servers);
        let quarantined = count_by_source(catalog, &options.access.quarantine);
        Ok(View {
            engine,
            complete_access: access,
            options,
            hydrator,
            marked_unsafe,
            tools,
            sources,
            servers,
            quarantined,
            listed,
            always_listed,
            merged,
            tokens: OnceLock::new(),
            list_digests: OnceLock::new(),
            store: self.store.clone(),
        })
    }

    /// Returns the tools that are always listed: by a pattern, or by their override.
    fn always_listed(&self, tools: &[Arc<Tool>]) -> Result<Vec<Arc<Tool>>, String> {
        let by_pattern = ids(&self.matching_tools(tools, &self.settings.always_include)?);
        let mut always_listed = tools.to_vec();
        always_listed.retain(|tool| {
            let changed = self.settings.tool_override(tool);
            by_pattern.contains(&tool.id) || changed.is_some_and(|changed| changed.always)
        });
        Ok(always_listed)
    }

    /// Returns the tools whose id, name or shown name the names and globs of a setting match.
    fn matching_tools(
        &self,
        tools: &[Arc<Tool>],
        patterns: &[String],
    ) -> Result<Vec<Arc<Tool>>, String> {
        let patterns = ToolPatterns::new(patterns).map_err(|error| error.to_string())?;
        let mut matching = tools.to_vec();
        matching.retain(|tool| {
            let shown_name = self.names.get(&tool.id);
            patterns.matches(&tool.id)
                || patterns.matches(&tool.name)
                || shown_name.is_some_and(|name| patterns.matches(name))
        });
        Ok(matching)
    }

    /// Returns the definition of a tool, as `tools/list` shows it if tools are not merged.
    pub fn definition(&self, tool: &Tool) -> Option<&AdvertisedDefinition> {
        self.definitions.get(&tool.id).map(Arc::as_ref)
    }

    /// Returns the definition that a client of a view sees for a tool. Merged tools have one
    /// definition together.
    pub(crate) fn shown_definition(&self, view: &View, tool: &Tool) -> Option<Value> {
        match view.merged.containing(&tool.id) {
            Some(merged) => merged.definition(tool),
            None => self.definition(tool).map(AdvertisedDefinition::value),
        }
    }

    /// Returns the JSON text of the definition that a client of a view sees for a tool.
    pub(crate) fn shown_text(&self, view: &View, tool: &Tool) -> Option<Cow<'_, str>> {
        match view.merged.containing(&tool.id) {
            Some(merged) => Some(merged.definition(tool)?.to_string().into()),
            None => self
                .definition(tool)
                .map(|definition| definition.text().into()),
        }
    }

    /// Returns the definitions that a client of a view sees for these tools.
    pub(crate) fn shown_definitions(&self, view: &View, tools: &[Arc<Tool>]) -> Vec<Value> {
        let shown = tools
            .iter()
            .filter_map(|tool| self.shown_definition(view, tool));
        shown.collect()
    }

    /// Returns the tokens of the definition that a client of a view sees for a tool.
    fn shown_tokens(&self, view: &View, tool: &Tool) -> usize {
        match view.merged.containing(&tool.id) {
            Some(merged) => {
                let definition = merged.definition(tool).unwrap_or_default();
                Tokenizer::O200k.count(&definition.to_string())
            }
            None => self
                .definition(tool)
                .map_or(0, AdvertisedDefinition::tokens),
        }
    }

    /// Returns the tokens of all definitions that a view lists, which are counted once.
    pub(crate) fn tokens(&self, view: &View) -> usize {
        let count = || self.sum_tokens(view, &view.listed);
        *view.tokens.get_or_init(count)
    }

    /// Returns the tokens of the definitions that a client of a view sees for these tools.
    pub(crate) fn sum_tokens(&self, view: &View, tools: &[Arc<Tool>]) -> usize {
        let tokens = tools.iter().map(|tool| self.shown_tokens(view, tool));
        tokens.sum()
    }

    /// Returns `true` if the definitions that a view lists have more tokens than this. Stops
    /// counting as soon as that is clear.
    pub(crate) fn exceeds_tokens(&self, view: &View, most: usize) -> bool {
        let mut sum = 0;
        view.listed.iter().any(|tool| {
            sum += self.shown_tokens(view, tool);
            sum > most
        })
    }

    /// Returns the digests of the lists of a view, which are computed once.
    pub(crate) fn list_digests(&self, view: &View) -> ListDigests {
        let digest_of = |tools: &[Arc<Tool>]| {
            let mut texts = String::new();
            for tool in tools {
                if let Some(merged) = view.merged.containing(&tool.id) {
                    let definition = merged.definition(tool).unwrap_or_default();
                    texts.push_str(&definition.to_string());
                } else if let Some(definition) = self.definition(tool) {
                    texts.push_str(definition.text());
                }
                texts.push('\n');
            }
            digest(&texts)
        };
        *view.list_digests.get_or_init(|| ListDigests {
            all: digest_of(&view.listed),
            always_listed: digest_of(&view.always_listed),
        })
    }
}

impl View {
    /// Picks on this thread, and adds the faults of the store to the selection.
    ///
    /// # Errors
    ///
    /// [`PickError`] of the engine.
    pub fn pick(&self, query: &Query, options: &PickOptions) -> Result<Selection, PickError> {
        let selection = self.engine.pick(query, options)?;
        Ok(self.with_degradation(selection))
    }

    /// Picks on another thread, as soon as a core is free, and adds the faults of the store to the
    /// selection.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the options are invalid, or if too many picks wait.
    pub fn pick_async(
        &self,
        query: Query,
        options: PickOptions,
    ) -> BoxFuture<'_, Result<Selection, Refusal>> {
        let engine = self.engine.clone();
        let pick = async move {
            let selection = run_pick(move || engine.pick(&query, &options)).await?;
            let selection = selection
                .map_err(|error| Refusal::new(Code::InvalidArguments, error.to_string()))?;
            Ok(self.with_degradation(selection))
        };
        pick.boxed()
    }

    /// Returns the tokens of all definitions that it lists, if they are counted already.
    pub(crate) fn counted_tokens(&self) -> Option<usize> {
        self.tokens.get().copied()
    }

    fn with_degradation(&self, mut selection: Selection) -> Selection {
        if let Some(store) = &self.store {
            selection.degraded.extend(store.degradation());
        }
        selection
    }
}

/// Returns the number of the tools with these ids, by source.
fn count_by_source(catalog: &Catalog, ids: &BTreeSet<String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for id in ids {
        let source = catalog.find(id).and_then(|tool| catalog.source(tool));
        if let Some(source) = source {
            *counts.entry(source.to_owned()).or_default() += 1;
        }
    }
    counts
}

/// Returns the ids of tools.
fn ids(tools: &[Arc<Tool>]) -> Vec<String> {
    tools.iter().map(|tool| tool.id.clone()).collect()
}

/// Returns notices about names and patterns in `deny` that match no tool.
fn denial_notices(settings: &Settings, catalog: &Catalog) -> Vec<Notice> {
    let mut notices = Vec::new();
    for (name, role) in &settings.roles {
        for pattern in role.unmatched_denials(catalog) {
            notices.push(Notice::new(format!(
                "the role {name:?} denies {pattern:?}, which matches no tool that is listed now"
            )));
        }
    }
    notices
}

/// Returns notices about overrides of tools that their servers do not have, and about tools whose
/// name stands for the instructions of a server.
fn listing_notices(settings: &Settings, upstream_tools: &[UpstreamTools]) -> Vec<Notice> {
    let mut notices = Vec::new();
    for upstream in upstream_tools {
        let server = &upstream.server.name;
        let listed = upstream.tools.iter();
        let names: BTreeSet<&str> = listed
            .filter_map(|tool| tool.get("name")?.as_str())
            .collect();
        for tool in settings.unknown_overrides(server, &names) {
            notices.push(Notice::new(format!(
                "the settings override the tool {tool:?}, but the server {server:?} has no such tool"
            )));
        }
        if names.contains(INSTRUCTIONS) {
            notices.push(Notice::new(format!(
                "left out the tool {INSTRUCTIONS:?} of the server {server:?}, because the name \
                 stands for the instructions of the server"
            )));
        }
    }
    notices
}
