//! What there is now: the tools, what they are called, and who may see which.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use picktools::catalog::{CatalogFile, Conflicts};
use picktools::excerpt::marked;
use picktools::names::Advertising;
use picktools::options::UNTRUSTED_MAX_PER_SOURCE;
use picktools::{
    Access, Catalog, CatalogOptions, Engine, PickError, PickOptions, Query, Selection, Tool,
};
use picktools_call::CallError;
use picktools_call::Hydrator;
use picktools_check::{CheckReport, Severity};
use picktools_import::mcp::Server;
use picktools_provider::{Provider, translate};
use picktools_provider::{Tokenizer, TranslateOptions, Translation};
use picktools_state::{Stamp, Store, lock};
use serde_json::Value;

use crate::pins::{Arrival, Pins};
use crate::refusal::{Code, Refusal, is_hidden};
use crate::settings::{DEFAULT_ROLE, Names, Role, Settings, Unsafe, UpstreamRules};
use crate::{naming, tolerance};

/// What an upstream sent last.
pub(crate) struct Sent {
    pub(crate) server: Server,
    pub(crate) rules: UpstreamRules,
    pub(crate) tools: Vec<Value>,
}

/// The tools that there are at one time, and their names. Whoever has begun with it ends with it.
pub struct Snapshot {
    pub(crate) settings: Arc<Settings>,
    /// The engine that picks among them.
    pub engine: Engine,
    /// The names of tools, by their ids.
    pub names: BTreeMap<String, String>,
    /// As in `tools/list`, by the ids of tools.
    definitions: HashMap<String, Value>,
    /// The names that are shown; the definitions are taken out of it.
    translation: Translation,
    /// The ids of tools that wait for approval.
    pub held: BTreeSet<String>,
    /// Which approvals it was held to.
    pub(crate) approvals: Option<Stamp>,
    /// What the tools and approvals are shared in.
    store: Option<Store>,
    views: Mutex<HashMap<String, Arc<View>>>,
}

/// The part of a snapshot that callers of one role may see.
pub struct View {
    /// The options with which tools are picked for the caller, unless it wants less.
    pub options: PickOptions,
    /// The way back from a call to its tool.
    pub hydrator: Hydrator,
    pub(crate) marked_unsafe: Unsafe,
    /// `true` if there are tools that the caller is not told of.
    pub hides: bool,
    /// The tools that may be seen, in the order of the catalog.
    pub tools: Vec<Arc<Tool>>,
    /// Their sources.
    pub(crate) sources: Vec<String>,
    tokens: OnceLock<usize>,
}

impl Snapshot {
    /// Makes it of what upstreams sent, after the tools of the operator's own catalog. Without
    /// `pins` all of it is believed. What the engine before has indexed is not indexed again.
    pub(crate) fn build(
        settings: Arc<Settings>,
        own: Option<&Catalog>,
        sent: &[Sent],
        pins: Option<&Pins>,
        before: Option<&Engine>,
    ) -> Result<Self, String> {
        let untrusted_sources = sent
            .iter()
            .filter(|sent| sent.rules.untrusted)
            .map(|sent| sent.server.name.clone())
            .collect();
        let options = CatalogOptions {
            conflicts: Conflicts::Warn,
            untrusted_sources,
            ..CatalogOptions::default()
        };
        let Admitted {
            files,
            held,
            approvals,
        } = match pins {
            Some(pins) => judged(&settings, sent, pins, &options)?,
            None => {
                let files = sent
                    .iter()
                    .map(|sent| CatalogFile::of_server(&sent.server.name, &sent.tools));
                Admitted {
                    files: files.collect(),
                    ..Admitted::default()
                }
            }
        };
        let catalog = match (own, files.as_slice()) {
            (None, []) => options.collect([]),
            (None, files) => options.read_files(files),
            (Some(own), []) => Ok(own.clone()),
            (Some(own), files) => options.read_files(files).and_then(|sent| {
                // Of two tools of one name that of the server is the one that runs, and that was
                // approved.
                let of_both: Vec<&Arc<Tool>> =
                    sent.tools().iter().filter(|tool| own.find(&tool.id).is_some()).collect();
                for Tool { id, .. } in of_both.iter().map(|tool| tool.as_ref()) {
                    tracing::warn!(target: "picktools::gateway", %id, "left out of the catalog: a server has this tool");
                }
                let sent_tools = || sent.tools().iter().map(|tool| tool.as_ref().clone());
                match of_both.is_empty() {
                    true => own.with_tools(sent_tools()),
                    false => own.filtered(|tool| sent.find(&tool.id).is_none()).with_tools(sent_tools()),
                }
            }),
        };
        let catalog = catalog.map_err(|error| error.to_string())?;
        for notice in catalog.notices() {
            tracing::warn!(target: "picktools::gateway", %notice, "left out");
        }
        let shown = |tool: &Arc<Tool>| match (settings.names, &tool.source) {
            (Names::Qualified, Some(source)) => naming::shown(source, &tool.name),
            _ => tool.name.clone(),
        };
        let names: BTreeMap<String, String> = catalog
            .tools()
            .iter()
            .map(|tool| (tool.id.clone(), shown(tool)))
            .collect();
        let advertising = Advertising::ProviderMap(names.clone());
        let view = TranslateOptions {
            advertising,
            ..TranslateOptions::default()
        };
        let mut translation =
            translate(catalog.tools(), Provider::Mcp, &view).map_err(|error| error.to_string())?;
        let Value::Array(shown) = translation.tools.take() else {
            return Err("no list of tools was made".to_owned());
        };
        let definition = |definition: Value| {
            let id = translation.names.get(definition.get("name")?.as_str()?)?;
            Some((id.clone(), definition))
        };
        let definitions = shown.into_iter().filter_map(definition).collect();
        let known = |id: &String| catalog.find(id).is_some();
        let held = held.into_iter().filter(known).collect();
        let engine = match before {
            Some(before) => before.with_catalog(catalog),
            None => Engine::builder(catalog)
                .token_counter(Arc::new(picktools_provider::Definitions))
                .build(),
        };
        let engine = engine.map_err(|error| error.to_string())?;
        let (store, views) = (None, Mutex::default());
        Ok(Self {
            settings,
            engine,
            names,
            definitions,
            translation,
            held,
            approvals,
            store,
            views,
        })
    }

    /// Tells in what it picks what is wrong with a store.
    pub(crate) fn shared_in(self, store: Option<Store>) -> Self {
        Self { store, ..self }
    }

    /// Picks as the engine does, on this thread.
    ///
    /// # Errors
    ///
    /// Those of the engine.
    pub fn pick(&self, query: &Query, options: &PickOptions) -> Result<Selection, PickError> {
        self.engine
            .pick(query, options)
            .map(|selection| self.told(selection))
    }

    /// Picks as the engine does, on threads of its own.
    ///
    /// # Errors
    ///
    /// Those of the engine.
    pub fn pick_async(
        &self,
        query: Query,
        options: PickOptions,
    ) -> BoxFuture<'_, Result<Selection, PickError>> {
        let pick = async move {
            self.engine
                .pick_async(query, options)
                .await
                .map(|selection| self.told(selection))
        };
        pick.boxed()
    }

    fn told(&self, mut selection: Selection) -> Selection {
        selection
            .degraded
            .extend(self.store.as_ref().and_then(Store::stands_in));
        selection
    }

    /// Returns what callers of a role may see; made when the first of them asks.
    ///
    /// # Errors
    ///
    /// [`Refusal`] where the settings of the role do not fit.
    pub fn view(&self, role: &str) -> Result<Arc<View>, Refusal> {
        if let Some(view) = lock(&self.views).get(role) {
            return Ok(Arc::clone(view));
        }
        let view = Arc::new(
            self.make_view(role)
                .map_err(|message| Refusal::new(Code::NotAllowed, message))?,
        );
        lock(&self.views).insert(role.to_owned(), Arc::clone(&view));
        Ok(view)
    }

    /// What a role may do with the tools that there are.
    fn role(&self, name: &str) -> Result<Role, String> {
        let role = self.settings.role(name);
        let access = Access {
            quarantine: self.held.clone(),
            ..role.access_to(self.engine.catalog())?
        };
        Ok(Role { access, ..role })
    }

    /// What each role may do with the tools that there are.
    pub(crate) fn roles(&self) -> Result<Vec<(String, Role)>, String> {
        let mut names: BTreeSet<&str> = self.settings.roles.keys().map(String::as_str).collect();
        names.insert(DEFAULT_ROLE);
        names
            .into_iter()
            .map(|name| Ok((name.to_owned(), self.role(name)?)))
            .collect()
    }

    fn make_view(&self, role: &str) -> Result<View, String> {
        let Role {
            access,
            marked_unsafe,
            ..
        } = self.role(role)?;
        let catalog = self.engine.catalog();
        let hydrator =
            Hydrator::new(catalog.clone(), &access).map_err(|error| error.to_string())?;
        let hydrator = hydrator.translated(&self.translation);
        let tools: Vec<Arc<Tool>> = hydrator.admitted().cloned().collect();
        let mut sources: Vec<String> = Vec::new();
        for source in tools.iter().filter_map(|tool| tool.source.as_ref()) {
            if !sources.contains(source) {
                sources.push(source.clone());
            }
        }
        let trusted: Vec<&Arc<Tool>> = tools.iter().filter(|tool| !tool.untrusted).collect();
        let options = PickOptions {
            // Each stranger has one place.
            max_per_source: (trusted.len() < tools.len()).then_some(UNTRUSTED_MAX_PER_SOURCE),
            trusted_sources: trusted
                .iter()
                .filter_map(|tool| tool.source.clone())
                .collect(),
            access,
            ..PickOptions::default()
        };
        let mut view = View {
            options,
            hydrator,
            marked_unsafe,
            hides: false,
            tools,
            sources,
            tokens: OnceLock::new(),
        };
        view.hides = catalog.tools().iter().any(|tool| view.is_hidden(&tool.id));
        Ok(view)
    }

    /// Returns the definition of a tool, as in `tools/list`.
    pub fn definition(&self, tool: &Tool) -> Option<&Value> {
        self.definitions.get(&tool.id)
    }

    /// What the definitions of all tools of a view cost.
    pub(crate) fn tokens(&self, view: &View) -> usize {
        *view.tokens.get_or_init(|| {
            let definitions: Vec<&Value> = view
                .tools
                .iter()
                .filter_map(|tool| self.definition(tool))
                .collect();
            Tokenizer::O200k.count(&serde_json::json!(definitions).to_string())
        })
    }
}

impl View {
    /// Returns `true` if the caller is not told that a tool exists.
    pub fn is_hidden(&self, id: &str) -> bool {
        matches!(self.hydrator.tool_of(id), Err(CallError::Ineligible { reasons, .. }) if is_hidden(&reasons))
    }

    /// Finds the tool that a name means: as it is written, or with another sign between the server
    /// and the tool.
    ///
    /// # Errors
    ///
    /// [`CallError`], why it means none.
    pub fn tool_of(&self, name: &str) -> Result<&Arc<Tool>, CallError> {
        let name = tolerance::without_prefix(name);
        let unknown = || self.hydrator.unknown(name);
        let unknown = match self.hydrator.tool_of(name) {
            Err(error @ CallError::UnknownTool { .. }) => error,
            Err(CallError::Ineligible { reasons, .. }) if is_hidden(&reasons) => unknown(),
            Err(CallError::AmbiguousTool {
                name,
                mut candidates,
            }) => {
                candidates.retain(|id| !self.is_hidden(id));
                let ambiguous = CallError::AmbiguousTool {
                    name,
                    candidates: candidates.clone(),
                };
                return Err(if candidates.is_empty() {
                    unknown()
                } else {
                    ambiguous
                });
            }
            found => return found,
        };
        let mut found: Vec<&Arc<Tool>> = tolerance::spellings(name)
            .filter_map(|name| self.hydrator.tool_of(&name).ok())
            .collect();
        found.sort_by_key(|tool| &tool.id);
        found.dedup_by_key(|tool| &tool.id);
        match found.as_slice() {
            [] => Err(unknown),
            [tool] => Ok(tool),
            several => Err(CallError::AmbiguousTool {
                name: marked(name, 100).into_owned(),
                candidates: several.iter().map(|tool| tool.id.clone()).collect(),
            }),
        }
    }
}

/// What upstreams sent, held to what was approved.
#[derive(Default)]
struct Admitted {
    /// The files of the catalog.
    files: Vec<CatalogFile>,
    /// The ids of what waits.
    held: BTreeSet<String>,
    /// Which approvals.
    approvals: Option<Stamp>,
}

/// Holds what upstreams sent to what was approved.
fn judged(
    settings: &Settings,
    sent: &[Sent],
    pins: &Pins,
    options: &CatalogOptions,
) -> Result<Admitted, String> {
    // Looked through together, as what copies or imitates another is seen beside it; and only where
    // something is new.
    let errors: OnceLock<HashMap<String, Vec<String>>> = OnceLock::new();
    let errors_of = |source: &str, name: &str| {
        let errors = errors.get_or_init(|| errors_in(sent, options));
        errors
            .get(&format!("{source}/{name}"))
            .cloned()
            .unwrap_or_default()
    };
    let arrivals: Vec<Arrival<'_>> = sent
        .iter()
        .map(
            |Sent {
                 server,
                 rules,
                 tools,
             }| Arrival {
                server,
                rules: *rules,
                tools: tools.as_slice(),
            },
        )
        .collect();
    let (judged, approvals) = pins
        .judge(&arrivals, settings.trust, &errors_of)
        .map_err(|error| error.to_string())?;
    let mut held = BTreeSet::new();
    let mut files = Vec::new();
    for (sent, judged) in sent.iter().zip(judged) {
        files.push(CatalogFile::of_server(
            &sent.server.name,
            &judged.definitions,
        ));
        held.extend(
            judged
                .held
                .iter()
                .map(|name| format!("{}/{name}", sent.server.name)),
        );
    }
    Ok(Admitted {
        files,
        held,
        approvals: Some(approvals),
    })
}

/// What `check` finds wrong with definitions, by `source/tool`.
fn errors_in(sent: &[Sent], options: &CatalogOptions) -> HashMap<String, Vec<String>> {
    let files: Vec<CatalogFile> = sent
        .iter()
        .map(|sent| CatalogFile::of_server(&sent.server.name, &sent.tools))
        .collect();
    let mut errors: HashMap<String, Vec<String>> = HashMap::new();
    match CheckReport::read_files(&files, options) {
        Ok(report) => {
            for finding in report
                .findings
                .into_iter()
                .filter(|finding| finding.severity == Severity::Error)
            {
                if let Some(tool) = finding.tool {
                    errors
                        .entry(tool)
                        .or_default()
                        .push(format!("{}: {}", finding.code, finding.message));
                }
            }
        }
        // What cannot be looked through is not approved unseen.
        Err(error) => {
            for sent in sent {
                let names = sent
                    .tools
                    .iter()
                    .filter_map(|tool| tool.get("name")?.as_str());
                for name in names {
                    let id = format!("{}/{name}", sent.server.name);
                    errors.entry(id).or_default().push(error.to_string());
                }
            }
        }
    }
    errors
}
