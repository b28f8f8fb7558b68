//! The methods of the MCP protocol, for one client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use picktools::{PickOptions, Query, Selection, Tool as CatalogTool};
use picktools_provider::{Arguments, Tokenizer, ToolCall};
use picktools_state::lock;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult,
    ContentBlock, Extensions, GetPromptRequestParams, GetPromptResponse, Implementation,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    LoggingLevel, MetaObject, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ResourceContents, ResourceUpdatedNotificationParam,
    ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::api_keys::RequestIdentity;
use crate::calls::{CallRunner, Caller, FIRST_LISTING_TIMEOUT};
use crate::elicitations::InputAnswers;
use crate::front::{self, CALL, DESCRIBE, SEARCH};
use crate::hub::Hub;
use crate::journal::{RequestRoute, SelectionEvent};
use crate::large_results::{self, RESULT_PREFIX};
use crate::metrics::GatewayEvent;
use crate::naming::READ_RESULT;
use crate::passthrough::{self, MergedListing, PassthroughCapabilities};
use crate::refusal::{Code, Refusal};
use crate::relay;
use crate::sessions::{self, SessionTools, Sessions};
use crate::settings::{Mode, NameStyle, Share};
use crate::snapshot::{Snapshot, View};
use crate::tolerance;
use crate::upstream::{Owner, ServerDown};

/// The most tools that a dynamic list adds.
const MAX_JOINED: usize = 64;
/// The number of tools on a page.
const PAGE_SIZE: usize = 200;
/// The time that a client has to accept a notification before the notification is dropped.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(2);
/// The most queued notifications about changed resources.
const MAX_UPDATES: usize = 64;
/// The default token limit up to which all tools are listed.
const PASS_THROUGH_TOKENS: usize = 4_000;

/// The header with the session id.
pub const SESSION: &str = "mcp-session-id";

/// The handler of one client.
#[derive(Clone)]
pub struct Handler {
    gateway: Arc<Hub>,
    session: Arc<Session>,
}

/// The state of a connected client.
struct Session {
    gateway: Arc<Hub>,
    /// `true` after the handshake.
    has_begun: AtomicBool,
    caller: Caller,
    /// The owner of its connections, if other gateways know it too.
    owner: OnceLock<Owner>,
    /// The tools that are listed to the client, decided at the first list.
    session_tools: OnceLock<SessionTools>,
    /// The definitions that joined a dynamic list, in order.
    joined: Mutex<Vec<Value>>,
    /// `true` if a result was cut, so that the tool that reads the rest is listed.
    reads_results: AtomicBool,
    level: Mutex<Option<LoggingLevel>>,
    watch: Mutex<Option<AbortHandle>>,
    /// The tasks that report changed resources, by upstream.
    updates: Mutex<HashMap<String, AbortHandle>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(watch) = lock(&self.watch).take() {
            watch.abort();
        }
        lock(&self.updates)
            .drain()
            .for_each(|(_, updates)| updates.abort());
        self.gateway.forget(&self.caller.owner);
        if let Some(owner) = self.owner.get() {
            self.gateway.forget(owner);
        }
        if *self.has_begun.get_mut() {
            self.gateway
                .meter
                .record(&GatewayEvent::Session { begun: false });
        }
    }
}

impl Session {
    /// Adds definitions to a dynamic list, and returns the new ones.
    fn add(&self, definitions: impl IntoIterator<Item = Value>) -> Vec<Value> {
        let mut joined = lock(&self.joined);
        let first_new = joined.len();
        for definition in definitions {
            if joined.len() < MAX_JOINED
                && joined
                    .iter()
                    .all(|existing| existing["name"] != definition["name"])
            {
                joined.push(definition);
            }
        }
        joined[first_new..].to_vec()
    }
}

impl Handler {
    /// Creates the handler of a client, which calls as `caller` unless a request names another
    /// identity.
    pub fn new(gateway: Arc<Hub>, caller: Caller) -> Self {
        let session = Session {
            gateway: Arc::clone(&gateway),
            has_begun: AtomicBool::new(false),
            caller,
            owner: OnceLock::new(),
            session_tools: OnceLock::new(),
            joined: Mutex::default(),
            reads_results: AtomicBool::new(false),
            level: Mutex::new(Some(LoggingLevel::Info)),
            watch: Mutex::default(),
            updates: Mutex::default(),
        };
        Self {
            gateway,
            session: Arc::new(session),
        }
    }

    /// Returns the caller of a request: over HTTP, the key that sent it. Without sessions, the key
    /// owns the state.
    fn caller(&self, context: &RequestContext<RoleServer>) -> Caller {
        self.caller_from_extensions(&context.extensions)
    }

    fn caller_from_extensions(&self, extensions: &Extensions) -> Caller {
        let Some(parts) = extensions.get::<http::request::Parts>() else {
            return self.session.caller.clone();
        };
        let Some(identity) = parts.extensions.get::<RequestIdentity>() else {
            return self.session.caller.clone();
        };
        let owner = match session_id(parts) {
            Some(session) if self.gateway.sessions.is_some() => {
                let shared_owner =
                    || Owner::from_shared_session(&sessions::session_digest(session));
                self.session.owner.get_or_init(shared_owner).clone()
            }
            Some(_) => self.session.caller.owner.clone(),
            None => Owner::from_key(&identity.key),
        };
        Caller {
            role: Arc::clone(&identity.role),
            key: Arc::clone(&identity.key),
            owner,
        }
    }

    /// Returns the tools that are listed to the client. The first request decides; the decision
    /// then stays.
    fn session_tools(&self, snapshot: &Snapshot, view: &View) -> SessionTools {
        let decide = || {
            let max_tokens = snapshot
                .settings
                .pass_through_tokens
                .unwrap_or(PASS_THROUGH_TOKENS);
            let mode = match snapshot.settings.mode {
                Mode::Auto if !view.tools.is_empty() && snapshot.tokens(view) <= max_tokens => {
                    Mode::PassThrough
                }
                Mode::Auto => Mode::Search,
                configured => configured,
            };
            let servers_down = self.gateway.servers_down(&view.options.access);
            let front = front::definitions(view, &servers_down);
            let tokens = Tokenizer::O200k.count(&json!(front).to_string());
            SessionTools {
                mode,
                front,
                tokens,
            }
        };
        self.session.session_tools.get_or_init(decide).clone()
    }

    fn list_definitions(&self, snapshot: &Snapshot, view: &View, owner: &Owner) -> Vec<Value> {
        let SessionTools {
            mode,
            front,
            tokens,
        } = self.session_tools(snapshot, view);
        let all_tokens = snapshot.tokens(view);
        let mut always_listed = Vec::new();
        let tokens = if mode == Mode::PassThrough {
            all_tokens
        } else {
            always_listed = snapshot.shown_definitions(view, &view.always_listed);
            tokens + Tokenizer::O200k.count(&json!(always_listed).to_string())
        };
        self.gateway
            .meter
            .record(&GatewayEvent::List { tokens, all_tokens });
        let mut read_result = None;
        // Without sessions, each request has a session of its own.
        if self.session.reads_results.load(Ordering::Relaxed)
            || self.gateway.large_results.has_any(owner)
        {
            read_result = Some(large_results::definition());
        }
        match mode {
            Mode::PassThrough => {
                let mut definitions = snapshot.shown_definitions(view, &view.tools);
                definitions.extend(read_result);
                definitions
            }
            Mode::Dynamic => {
                let mut definitions = Vec::from(front);
                definitions.extend(read_result);
                definitions.extend(always_listed);
                for joined in lock(&self.session.joined).iter() {
                    if definitions
                        .iter()
                        .all(|listed| listed["name"] != joined["name"])
                    {
                        definitions.push(joined.clone());
                    }
                }
                definitions
            }
            _ => {
                let mut definitions = Vec::from(front);
                definitions.extend(always_listed);
                definitions
            }
        }
    }

    /// Adds tools that were found, described or called to a dynamic list, and notifies the client.
    async fn add_to_list(
        &self,
        snapshot: &Snapshot,
        tools: &[Arc<CatalogTool>],
        context: &RequestContext<RoleServer>,
    ) {
        let Ok(view) = snapshot.view(&self.caller(context).role) else {
            return;
        };
        self.load_shared_session(context).await;
        if self
            .session
            .session_tools
            .get()
            .is_none_or(|session_tools| session_tools.mode != Mode::Dynamic)
        {
            return;
        }
        let added = self.session.add(snapshot.shown_definitions(&view, tools));
        if added.is_empty() {
            return;
        }
        if let Some((sessions, session)) = self.shared(context) {
            sessions.add_definitions(session, &added).await;
        }
        notify_list_changed(context);
    }

    /// Returns the shared sessions, and the session id of a request.
    fn shared<'a>(
        &'a self,
        context: &'a RequestContext<RoleServer>,
    ) -> Option<(&'a Sessions, &'a str)> {
        let parts = context.extensions.get::<http::request::Parts>()?;
        let session = session_id(parts)?;
        let sessions = self.gateway.sessions.as_ref()?;
        Some((sessions, session))
    }

    /// Loads the session's list from the shared store, if another gateway decided it or added
    /// tools.
    async fn load_shared_session(&self, context: &RequestContext<RoleServer>) {
        let Some((sessions, session)) = self.shared(context) else {
            return;
        };
        if self.session.session_tools.get().is_none()
            && let Some(session_tools) = sessions.load_tools(session).await
        {
            let _decided_meanwhile = self.session.session_tools.set(session_tools);
        }
        if self
            .session
            .session_tools
            .get()
            .is_some_and(|session_tools| session_tools.mode == Mode::Dynamic)
        {
            self.session.add(sessions.load_definitions(session).await);
        }
    }

    async fn handle_call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        input_answers: InputAnswers,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Refusal> {
        self.gateway.wait_for_listings(FIRST_LISTING_TIMEOUT).await;
        let snapshot = self.gateway.snapshot();
        let caller = self.caller(context);
        let view = snapshot.view(&caller.role)?;
        // With bare names, a tool of the server wins over a front tool of the same name.
        let is_server_tool = snapshot.settings.names == NameStyle::Bare
            && view.tools.iter().any(|tool| tool.name == name);
        let answer_and_tools = match name {
            _ if is_server_tool => {
                let arguments = Arguments::Json(Value::Object(arguments));
                let call = ToolCall {
                    id: None,
                    name: name.to_owned(),
                    arguments,
                };
                return self.run(snapshot, view, call, input_answers, context).await;
            }
            SEARCH => self.search(&snapshot, &view, &caller, &arguments).await?,
            READ_RESULT => return self.read_result(&snapshot, &caller, &arguments),
            DESCRIBE => {
                let servers_down = self.gateway.servers_down(&view.options.access);
                front::describe(&snapshot, &view, &arguments, &servers_down)?
            }
            CALL => {
                let has_both = |name: &str| takes_name_and_arguments(&view, name);
                let call = tolerance::parse_call(&arguments, CALL, &has_both)?;
                return match (tolerance::without_prefix(&call.name), &call.arguments) {
                    (
                        inner @ (SEARCH | DESCRIBE | READ_RESULT),
                        Arguments::Json(Value::Object(arguments)),
                    ) => {
                        Box::pin(self.handle_call(inner, arguments.clone(), input_answers, context))
                            .await
                    }
                    _ => {
                        self.run(
                            Arc::clone(&snapshot),
                            Arc::clone(&view),
                            call,
                            input_answers,
                            context,
                        )
                        .await
                    }
                };
            }
            _ => {
                let call = ToolCall {
                    id: None,
                    name: name.to_owned(),
                    arguments: Arguments::Json(Value::Object(arguments)),
                };
                return self.run(snapshot, view, call, input_answers, context).await;
            }
        };
        let (answer, tools) = answer_and_tools;
        self.add_to_list(&snapshot, &tools, context).await;
        let mut result = CallToolResult::success(vec![ContentBlock::text(answer.to_string())]);
        result.structured_content = Some(answer);
        Ok(result.into())
    }

    /// Answers a search, and records it.
    async fn search(
        &self,
        snapshot: &Snapshot,
        view: &View,
        caller: &Caller,
        arguments: &Map<String, Value>,
    ) -> Result<(Value, Vec<Arc<CatalogTool>>), Refusal> {
        self.gateway.journal.ready()?;
        let started = Instant::now();
        let servers_down = self.gateway.servers_down(&view.options.access);
        let on_selection =
            |query: &Query, options: &PickOptions, selection: &Selection, time: Duration| {
                self.gateway.journal.record_selection(&SelectionEvent {
                    key: &caller.key,
                    role: &caller.role,
                    session: Some(&*caller.owner.0),
                    via: RequestRoute::Search,
                    query,
                    options,
                    selection,
                    time,
                });
            };
        let (answer, tools) =
            front::search(snapshot, view, arguments, &servers_down, &on_selection).await?;
        self.gateway.meter.record(&GatewayEvent::Search {
            found: tools.len(),
            time: started.elapsed(),
        });
        Ok((answer, tools))
    }

    /// Explains a name that is unknown because its server cannot be used.
    fn explain_unknown(&self, refusal: Refusal, name: &str, caller: &Caller) -> Refusal {
        if refusal.code != Code::UnknownTool {
            return refusal;
        }
        let Ok(view) = self.gateway.snapshot().view(&caller.role) else {
            return refusal;
        };
        let servers_down = self.gateway.servers_down(&view.options.access);
        let server = servers_down.iter().find(|down| down.may_have(name));
        server.map_or(refusal, ServerDown::refusal)
    }

    /// Runs a tool, and adds it to a dynamic list.
    async fn run(
        &self,
        snapshot: Arc<Snapshot>,
        view: Arc<View>,
        call: ToolCall,
        input_answers: InputAnswers,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Refusal> {
        let runner = CallRunner {
            gateway: &self.gateway,
            caller: &self.caller(context),
            level: self.level(context),
            context: Some(context),
        };
        let outcome = runner.run(snapshot, view, call, input_answers).await?;
        if matches!(outcome.response, CallToolResponse::Complete(_)) {
            self.add_to_list(&outcome.snapshot, &[outcome.tool], context)
                .await;
        }
        if outcome.is_cut {
            self.list_read_result(context);
        }
        Ok(outcome.response)
    }

    /// Lists the tool that reads large results, unless the client reaches it by another one.
    fn list_read_result(&self, context: &RequestContext<RoleServer>) {
        let session_tools = self.session.session_tools.get();
        let lists_it =
            session_tools.is_some_and(|session_tools| session_tools.mode != Mode::Search);
        if !lists_it || self.session.reads_results.swap(true, Ordering::Relaxed) {
            return;
        }
        notify_list_changed(context);
    }

    /// Answers a call of the tool that reads large results.
    fn read_result(
        &self,
        snapshot: &Snapshot,
        caller: &Caller,
        arguments: &Map<String, Value>,
    ) -> Result<CallToolResponse, Refusal> {
        let max_tokens = snapshot.settings.results.max_tokens;
        let results = &self.gateway.large_results;
        Ok(results.read(&caller.owner, arguments, max_tokens)?.into())
    }

    /// Returns `true` if a notification of an upstream can only be for this client.
    fn owns_connections(&self, context: &RequestContext<RoleServer>) -> bool {
        match context.extensions.get::<http::request::Parts>() {
            Some(parts) => {
                self.gateway.share() == Share::Owner && parts.headers.contains_key(SESSION)
            }
            None => true,
        }
    }

    /// Returns the least level of log lines for the client. Since revision 2026-07-28 each request
    /// states it; before that, the session does.
    fn level(&self, context: &RequestContext<RoleServer>) -> Option<LoggingLevel> {
        let is_older = context
            .protocol_version()
            .is_some_and(|version| version < ProtocolVersion::V_2026_07_28);
        if is_older {
            *lock(&self.session.level)
        } else {
            context.meta.log_level()
        }
    }

    /// Returns the pass-through capabilities for a caller. They cover the upstreams whose tools the
    /// caller may see, or all upstreams if the access policy does not restrict sources.
    fn passthrough(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<PassthroughCapabilities, ErrorData> {
        let snapshot = self.gateway.snapshot();
        let caller = self.caller(context);
        let view = snapshot
            .view(&caller.role)
            .map_err(|refusal| ErrorData::internal_error(refusal.message, None))?;
        let access = &view.options.access;
        let is_open = access.allow_sources.is_empty() && access.deny_sources.is_empty();
        let mut upstreams = self.gateway.upstreams();
        upstreams.retain(|upstream| is_open || view.sources.contains(&upstream.server.name));
        Ok(PassthroughCapabilities {
            names: snapshot.settings.names,
            upstreams,
            owner: caller.owner,
            share: self.gateway.share(),
            client: relay::client_traits(Some(context)),
        })
    }

    /// Notifies a client when its list of tools changes.
    fn watch(&self, role: Arc<str>, peer: Peer<RoleServer>) {
        let session = Arc::downgrade(&self.session);
        let snapshots = self.gateway.snapshots();
        let watched = tokio::spawn(async move {
            let is_shown_all = || {
                let session = session.upgrade()?;
                let session_tools = session.session_tools.get();
                Some(session_tools.is_some_and(|tools| tools.mode == Mode::PassThrough))
            };
            let notify = || async { peer.notify_tool_list_changed().await.is_ok() };
            notify_changes(snapshots, &role, is_shown_all, notify).await;
        });
        if let Some(previous) = lock(&self.session.watch).replace(watched.abort_handle()) {
            previous.abort();
        }
    }
}

/// Returns the session id of a request.
fn session_id(parts: &http::request::Parts) -> Option<&str> {
    parts.headers.get(SESSION)?.to_str().ok()
}

/// Returns the start of the page that a cursor names, if the cursor belongs to the list with this
/// digest and length.
fn page_start(cursor: &str, digest: &str, length: usize) -> Option<usize> {
    let (list_digest, start) = cursor.split_once(':')?;
    let start: usize = start.parse().ok()?;
    (list_digest == digest && start < length).then_some(start)
}

/// Returns `true` if a tool has parameters with the names `name` and `arguments`.
fn takes_name_and_arguments(view: &View, name: &str) -> bool {
    let merged = view.merged.find(name).map(|merged| &merged.tools()[0]);
    let Some(tool) = merged.or_else(|| view.find_tool(name).ok()) else {
        return false;
    };
    let has = |key| {
        let schema = tool.parameters.as_ref();
        schema.is_some_and(|schema| schema["properties"].get(key).is_some())
    };
    has("name") && has("arguments")
}

/// Sends a notification whenever the tools of a role change. `is_shown_all` returns `true` if the
/// client sees all tools, and `None` once the client is gone.
async fn notify_changes<T, F>(
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    role: &str,
    is_shown_all: impl Fn() -> Option<bool>,
    notify: T,
) where
    T: Fn() -> F,
    F: Future<Output = bool>,
{
    // All visible tools, and those of them that are always listed.
    let lists = |snapshot: &Snapshot| -> Option<[Vec<String>; 2]> {
        let view = snapshot.view(role).ok()?;
        Some([&view.tools, &view.always_listed].map(|tools| {
            let definitions = snapshot.shown_definitions(&view, tools);
            definitions.iter().map(Value::to_string).collect()
        }))
    };
    let mut previous = {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        lists(&snapshot)
    };
    while snapshots.changed().await.is_ok() {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        let current = lists(&snapshot);
        let Some(is_shown_all) = is_shown_all() else {
            return;
        };
        let position = if is_shown_all { 0 } else { 1 };
        let has_changed = current.as_ref().map(|lists| &lists[position])
            != previous.as_ref().map(|lists| &lists[position]);
        previous = current;
        if has_changed && timeout(NOTIFY_TIMEOUT, notify()).await == Ok(false) {
            return;
        }
    }
}

/// Notifies a client that the list of tools changed, without waiting for it.
fn notify_list_changed(context: &RequestContext<RoleServer>) {
    let peer = context.peer.clone();
    drop(tokio::spawn(async move {
        drop(timeout(NOTIFY_TIMEOUT, peer.notify_tool_list_changed()).await);
    }));
}

/// Returns metadata that names the upstreams whose list is missing.
fn missing_meta(missing: &[String]) -> Option<MetaObject> {
    let mut meta = MetaObject::new();
    meta.0
        .insert("picktools/missing".to_owned(), json!(missing));
    (!missing.is_empty()).then_some(meta)
}

#[expect(
    refining_impl_trait,
    reason = "the code of an `async fn` is compiled again in each crate that awaits it"
)]
impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_completions()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        let server = Implementation::new("picktools", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities)
            .with_server_info(server)
            .with_instructions(self.gateway.instructions())
    }

    fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> BoxFuture<'_, Result<ListToolsResult, ErrorData>> {
        let answer = async move {
            self.gateway.wait_for_listings(FIRST_LISTING_TIMEOUT).await;
            let snapshot = self.gateway.snapshot();
            let view = snapshot.view(&self.caller(&context).role);
            let view = view.map_err(|refusal| ErrorData::internal_error(refusal.message, None))?;
            self.load_shared_session(&context).await;
            let is_decided = self.session.session_tools.get().is_some();
            let owner = self.caller(&context).owner;
            let definitions = self.list_definitions(&snapshot, &view, &owner);
            if !is_decided
                && let (Some(session_tools), Some((sessions, session))) =
                    (self.session.session_tools.get(), self.shared(&context))
            {
                sessions.save_tools(session, session_tools).await;
            }
            let digest = snapshot.engine.catalog().digest();
            let cursor = request.and_then(|request| request.cursor);
            let start = match &cursor {
                None => 0,
                Some(cursor) => page_start(cursor, digest, definitions.len()).ok_or_else(|| {
                    ErrorData::invalid_params(
                        "the list has changed; request it again without a cursor",
                        None,
                    )
                })?,
            };
            let end = definitions.len().min(start + PAGE_SIZE);
            let parse = |definition: &Value| serde_json::from_value::<Tool>(definition.clone());
            let page: Result<Vec<Tool>, _> = definitions[start..end].iter().map(parse).collect();
            let page = page.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            let mut result = ListToolsResult::with_all_items(page);
            if end < definitions.len() {
                result.next_cursor = Some(format!("{digest}:{end}"));
            }
            Ok(result)
        };
        answer.boxed()
    }

    fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> BoxFuture<'_, Result<CallToolResponse, ErrorData>> {
        let answer = async move {
            let name = tolerance::without_prefix(&request.name).to_owned();
            let input_answers = InputAnswers {
                answers: request.input_responses.unwrap_or_default(),
                state: request.request_state,
            };
            let arguments = request.arguments.unwrap_or_default();
            let called = match arguments.get("name").and_then(Value::as_str) {
                Some(called) if [DESCRIBE, CALL].contains(&name.as_str()) => called.to_owned(),
                _ => name.clone(),
            };
            let response = self
                .handle_call(&name, arguments, input_answers, &context)
                .await;
            let caller = self.caller(&context);
            match response.map_err(|refusal| self.explain_unknown(refusal, &called, &caller)) {
                Ok(response) => Ok(response),
                // The protocol defines this error for a tool that the client names itself.
                Err(refusal)
                    if refusal.code == Code::UnknownTool
                        && ![SEARCH, DESCRIBE, CALL].contains(&name.as_str()) =>
                {
                    Err(ErrorData::invalid_params(refusal.message, None))
                }
                Err(refusal) => Ok(refusal.result().into()),
            }
        };
        answer.boxed()
    }

    fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> BoxFuture<'_, Result<ListResourcesResult, ErrorData>> {
        let answer = async move {
            let MergedListing { items, missing } = self.passthrough(&context)?.resources().await;
            Ok(ListResourcesResult {
                meta: missing_meta(&missing),
                ..ListResourcesResult::with_all_items(items)
            })
        };
        answer.boxed()
    }

    fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> BoxFuture<'_, Result<ListResourceTemplatesResult, ErrorData>> {
        let answer = async move {
            let MergedListing { items, missing } = self.passthrough(&context)?.templates().await;
            Ok(ListResourceTemplatesResult {
                meta: missing_meta(&missing),
                ..ListResourceTemplatesResult::with_all_items(items)
            })
        };
        answer.boxed()
    }

    fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> BoxFuture<'_, Result<ReadResourceResponse, ErrorData>> {
        let answer = async move {
            if let Some(id) = request.uri.strip_prefix(RESULT_PREFIX)
                && let Some(text) = self
                    .gateway
                    .large_results
                    .text(&self.caller(&context).owner, id)
            {
                let text =
                    text.map_err(|refusal| ErrorData::invalid_request(refusal.message, None))?;
                let contents = ResourceContents::text(text, request.uri.clone());
                return Ok(ReadResourceResult::new(vec![contents]).into());
            }
            Ok(self
                .passthrough(&context)?
                .read_resource(request)
                .await?
                .into())
        };
        answer.boxed()
    }

    fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> BoxFuture<'_, Result<(), ErrorData>> {
        let answer = async move {
            if !self.owns_connections(&context) {
                return Err(ErrorData::invalid_request(
                    "subscriptions require a session that has its own connections",
                    None,
                ));
            }
            let passthrough = self.passthrough(&context)?;
            let (sender, mut updates) = mpsc::channel::<String>(MAX_UPDATES);
            let source = passthrough.subscribe(&request.uri, Some(sender)).await?;
            let (peer, names, update_source) =
                (context.peer.clone(), passthrough.names, source.clone());
            let task = tokio::spawn(async move {
                while let Some(uri) = updates.recv().await {
                    let uri = passthrough::gateway_uri(names, &update_source, &uri);
                    let update = ResourceUpdatedNotificationParam::new(uri);
                    drop(timeout(NOTIFY_TIMEOUT, peer.notify_resource_updated(update)).await);
                }
            });
            if let Some(previous) = lock(&self.session.updates).insert(source, task.abort_handle())
            {
                previous.abort();
            }
            Ok(())
        };
        answer.boxed()
    }

    fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> BoxFuture<'_, Result<(), ErrorData>> {
        let answer = async move {
            drop(
                self.passthrough(&context)?
                    .subscribe(&request.uri, None)
                    .await?,
            );
            Ok(())
        };
        answer.boxed()
    }

    fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> BoxFuture<'_, Result<ListPromptsResult, ErrorData>> {
        let answer = async move {
            let MergedListing { items, missing } = self.passthrough(&context)?.prompts().await;
            Ok(ListPromptsResult {
                meta: missing_meta(&missing),
                ..ListPromptsResult::with_all_items(items)
            })
        };
        answer.boxed()
    }

    fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> BoxFuture<'_, Result<GetPromptResponse, ErrorData>> {
        let answer = async move {
            Ok(self
                .passthrough(&context)?
                .get_prompt(request)
                .await?
                .into())
        };
        answer.boxed()
    }

    fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> BoxFuture<'_, Result<CompleteResult, ErrorData>> {
        let answer = async move { self.passthrough(&context)?.complete(request).await };
        answer.boxed()
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::new();
        accepted.tools_list_changed = requested.tools_list_changed;
        Some(accepted)
    }

    fn listen(&self, subscription: SubscriptionContext) -> BoxFuture<'_, Result<(), ErrorData>> {
        let listen = async move {
            let caller = self.caller(subscription.request_context());
            let notify = || async { subscription.sink().notify_tool_list_changed().await.is_ok() };
            // Without a session, the list is decided anew for each request.
            let notifications = notify_changes(
                self.gateway.snapshots(),
                &caller.role,
                || Some(true),
                notify,
            );
            tokio::select! {
                () = subscription.cancelled() => {}
                () = notifications => {}
            }
            Ok(())
        };
        listen.boxed()
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *lock(&self.session.level) = Some(request.level);
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if !self.session.has_begun.swap(true, Ordering::Relaxed) {
            self.gateway
                .meter
                .record(&GatewayEvent::Session { begun: true });
        }
        self.watch(
            self.caller_from_extensions(&context.extensions).role,
            context.peer,
        );
    }
}
