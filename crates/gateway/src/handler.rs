//! The protocol's methods, for one client.

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
    ReadResourceResponse, ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::calls::{Caller, Calling, FIRST};
use crate::carried::{self, Carried, Listed};
use crate::front::{self, CALL, DESCRIBE, SEARCH};
use crate::guests::Sender;
use crate::hub::Hub;
use crate::journal::{Selected, Via};
use crate::metrics::Event;
use crate::refusal::{Code, Refusal};
use crate::relay;
use crate::rounds::Again;
use crate::sessions::{self, Sessions, Shown};
use crate::settings::{Mode, Names, Share};
use crate::snapshot::{Snapshot, View};
use crate::tolerance;
use crate::upstream::{Owner, Upstream};

/// The most tools that join a dynamic list.
const MAX_JOINED: usize = 64;
/// How many tools stand on a page.
const PAGE: usize = 200;
/// How long a client may take to read a notification before it is dropped.
const TELL: Duration = Duration::from_secs(2);
/// The most changed resources that a client has not been told of yet.
const MAX_UPDATES: usize = 64;
/// Up to how many tokens all tools are shown, where nothing else is said.
const PASS_THROUGH_TOKENS: usize = 4_000;

/// The header that names a session.
pub const SESSION: &str = "mcp-session-id";

/// One client.
#[derive(Clone)]
pub struct Handler {
    gateway: Arc<Hub>,
    session: Arc<Session>,
}

/// What is known of a client while it is connected.
struct Session {
    gateway: Arc<Hub>,
    /// Whether hands were shaken.
    has_begun: AtomicBool,
    caller: Caller,
    /// Whose its connections are, where other gateways know it too.
    owner: OnceLock<Owner>,
    /// What it is shown, once that was decided, with the counts that its descriptions tell.
    shown: OnceLock<Shown>,
    /// The definitions that joined a dynamic list, in the order in which they came.
    joined: Mutex<Vec<Value>>,
    level: Mutex<Option<LoggingLevel>>,
    watch: Mutex<Option<AbortHandle>>,
    /// What tells of changed resources, by upstream.
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
            self.gateway.meter.record(&Event::Session { begun: false });
        }
    }
}

impl Session {
    /// Adds definitions to a dynamic list, and returns those that were not there.
    fn add(&self, definitions: impl IntoIterator<Item = Value>) -> Vec<Value> {
        let mut joined = lock(&self.joined);
        let before = joined.len();
        for definition in definitions {
            if joined.len() < MAX_JOINED
                && joined
                    .iter()
                    .all(|known| known["name"] != definition["name"])
            {
                joined.push(definition);
            }
        }
        joined[before..].to_vec()
    }
}

impl Handler {
    /// Makes what serves a client, which calls as `caller` where no request says otherwise.
    pub fn new(gateway: Arc<Hub>, caller: Caller) -> Self {
        let session = Session {
            gateway: Arc::clone(&gateway),
            has_begun: AtomicBool::new(false),
            caller,
            owner: OnceLock::new(),
            shown: OnceLock::new(),
            joined: Mutex::default(),
            level: Mutex::new(Some(LoggingLevel::Info)),
            watch: Mutex::default(),
            updates: Mutex::default(),
        };
        Self {
            gateway,
            session: Arc::new(session),
        }
    }

    /// Who sent a request: over HTTP whoever has the key, and without sessions the key is whose
    /// state it is.
    fn caller(&self, context: &RequestContext<RoleServer>) -> Caller {
        self.caller_of(&context.extensions)
    }

    fn caller_of(&self, extensions: &Extensions) -> Caller {
        let Some(parts) = extensions.get::<http::request::Parts>() else {
            return self.session.caller.clone();
        };
        let Some(sender) = parts.extensions.get::<Sender>() else {
            return self.session.caller.clone();
        };
        let session = parts
            .headers
            .get(SESSION)
            .and_then(|session| session.to_str().ok());
        let owner = match session {
            Some(session) if self.gateway.sessions.is_some() => {
                let of_all = || Owner::of_shared_session(&sessions::digest_of(session));
                self.session.owner.get_or_init(of_all).clone()
            }
            Some(_) => self.session.caller.owner.clone(),
            None => Owner::of_key(&sender.key),
        };
        Caller {
            role: Arc::clone(&sender.role),
            key: Arc::clone(&sender.key),
            owner,
        }
    }

    /// What the client is shown: decided when it first asks, and then kept.
    fn shown(&self, snapshot: &Snapshot, view: &View) -> Shown {
        let decide = || {
            let most = snapshot
                .settings
                .pass_through_tokens
                .unwrap_or(PASS_THROUGH_TOKENS);
            let mode = match snapshot.settings.mode {
                Mode::Auto if !view.tools.is_empty() && snapshot.tokens(view) <= most => {
                    Mode::PassThrough
                }
                Mode::Auto => Mode::Search,
                said => said,
            };
            let front = front::definitions(view.tools.len(), &view.sources);
            let tokens = Tokenizer::O200k.count(&json!(front).to_string());
            Shown {
                mode,
                front,
                tokens,
            }
        };
        self.session.shown.get_or_init(decide).clone()
    }

    fn listed(&self, snapshot: &Snapshot, view: &View) -> Vec<Value> {
        let Shown {
            mode,
            front,
            tokens,
        } = self.shown(snapshot, view);
        let whole = snapshot.tokens(view);
        let tokens = if mode == Mode::PassThrough {
            whole
        } else {
            tokens
        };
        self.gateway.meter.record(&Event::List { tokens, whole });
        match mode {
            Mode::PassThrough => view
                .tools
                .iter()
                .filter_map(|tool| snapshot.definition(tool).cloned())
                .collect(),
            Mode::Dynamic => front
                .into_iter()
                .chain(lock(&self.session.joined).iter().cloned())
                .collect(),
            _ => front.to_vec(),
        }
    }

    /// Lists tools that were found, described or called directly from now on, and says so.
    async fn join(
        &self,
        snapshot: &Snapshot,
        tools: &[Arc<CatalogTool>],
        context: &RequestContext<RoleServer>,
    ) {
        self.recall(context).await;
        if self
            .session
            .shown
            .get()
            .is_none_or(|shown| shown.mode != Mode::Dynamic)
        {
            return;
        }
        let added = self.session.add(
            tools
                .iter()
                .filter_map(|tool| snapshot.definition(tool).cloned()),
        );
        if added.is_empty() {
            return;
        }
        if let Some((sessions, session)) = self.shared(context) {
            sessions.join(session, &added).await;
        }
        let peer = context.peer.clone();
        drop(tokio::spawn(async move {
            drop(timeout(TELL, peer.notify_tool_list_changed()).await)
        }));
    }

    /// The sessions of all gateways, and which of them sent a request.
    fn shared<'a>(
        &'a self,
        context: &'a RequestContext<RoleServer>,
    ) -> Option<(&'a Sessions, &'a str)> {
        let parts = context.extensions.get::<http::request::Parts>()?;
        let session = parts.headers.get(SESSION)?.to_str().ok()?;
        self.gateway
            .sessions
            .as_ref()
            .map(|sessions| (sessions, session))
    }

    /// Takes what the session is shown from the gateway at which that was decided, and what joined
    /// it since.
    async fn recall(&self, context: &RequestContext<RoleServer>) {
        let Some((sessions, session)) = self.shared(context) else {
            return;
        };
        if self.session.shown.get().is_none()
            && let Some(shown) = sessions.shown(session).await
        {
            let _decided_meanwhile = self.session.shown.set(shown);
        }
        if self
            .session
            .shown
            .get()
            .is_some_and(|shown| shown.mode == Mode::Dynamic)
        {
            self.session.add(sessions.joined(session).await);
        }
    }

    async fn called(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        again: Again,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Refusal> {
        self.gateway.listed(FIRST).await;
        let snapshot = self.gateway.snapshot();
        let caller = self.caller(context);
        let view = snapshot.view(&caller.role)?;
        let state = |source: &str| {
            self.gateway
                .upstream(source)
                .and_then(|upstream| upstream.down())
        };
        // A server's own tool goes before one in front, where names are the server's.
        let is_own = snapshot.settings.names == Names::Bare
            && view.tools.iter().any(|tool| tool.name == name);
        let answered = match name {
            _ if is_own => {
                let arguments = Arguments::Json(Value::Object(arguments));
                let call = ToolCall {
                    id: None,
                    name: name.to_owned(),
                    arguments,
                };
                return self.run(snapshot, view, call, again, context).await;
            }
            SEARCH => {
                self.gateway.journal.ready()?;
                let started = Instant::now();
                let note = |query: &Query,
                            options: &PickOptions,
                            selection: &Selection,
                            time: Duration| {
                    let (key, role, session) =
                        (&*caller.key, &*caller.role, Some(&*caller.owner.0));
                    let selected = Selected {
                        key,
                        role,
                        session,
                        via: Via::Search,
                        query,
                        options,
                        selection,
                        time,
                    };
                    self.gateway.journal.selected(&selected);
                };
                let answered = front::search(&snapshot, &view, &arguments, &state, &note).await?;
                self.gateway.meter.record(&Event::Search {
                    found: answered.1.len(),
                    time: started.elapsed(),
                });
                answered
            }
            DESCRIBE => front::describe(&snapshot, &view, &arguments, &state)?,
            CALL => {
                let has_both = |name: &str| {
                    let Ok(tool) = view.tool_of(name) else {
                        return false;
                    };
                    let has = |key| {
                        tool.parameters
                            .as_ref()
                            .is_some_and(|schema| schema["properties"].get(key).is_some())
                    };
                    has("name") && has("arguments")
                };
                let call = tolerance::called(&arguments, CALL, &has_both)?;
                return match (tolerance::without_prefix(&call.name), &call.arguments) {
                    (inner @ (SEARCH | DESCRIBE), Arguments::Json(Value::Object(arguments))) => {
                        Box::pin(self.called(inner, arguments.clone(), again, context)).await
                    }
                    _ => {
                        self.run(
                            Arc::clone(&snapshot),
                            Arc::clone(&view),
                            call,
                            again,
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
                return self.run(snapshot, view, call, again, context).await;
            }
        };
        let (answer, tools) = answered;
        self.join(&snapshot, &tools, context).await;
        let mut result = CallToolResult::success(vec![ContentBlock::text(answer.to_string())]);
        result.structured_content = Some(answer);
        Ok(result.into())
    }

    /// Runs a tool, and lists it from now on.
    async fn run(
        &self,
        snapshot: Arc<Snapshot>,
        view: Arc<View>,
        call: ToolCall,
        again: Again,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Refusal> {
        let calling = Calling {
            gateway: &self.gateway,
            caller: &self.caller(context),
            level: self.level(context),
            context: Some(context),
        };
        let ran = calling.run(snapshot, view, call, again).await?;
        if matches!(ran.response, CallToolResponse::Complete(_)) {
            self.join(&ran.snapshot, &[ran.tool], context).await;
        }
        Ok(ran.response)
    }

    /// Whether what an upstream says unasked can be meant for this client alone.
    fn owns_connections(&self, context: &RequestContext<RoleServer>) -> bool {
        match context.extensions.get::<http::request::Parts>() {
            Some(parts) => {
                self.gateway.share() == Share::Owner && parts.headers.contains_key(SESSION)
            }
            None => true,
        }
    }

    /// From which level on a client is sent lines for its log: since 2026-07-28 each request says
    /// so, and before that the session.
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

    /// What else upstreams have that a caller may see: those whose tools it may see, or all where
    /// nothing is said of sources.
    fn carried(&self, context: &RequestContext<RoleServer>) -> Result<Carried, ErrorData> {
        let snapshot = self.gateway.snapshot();
        let caller = self.caller(context);
        let view = snapshot
            .view(&caller.role)
            .map_err(|refusal| ErrorData::internal_error(refusal.message, None))?;
        let access = &view.options.access;
        let is_open = access.allow_sources.is_empty() && access.deny_sources.is_empty();
        let may_see =
            |upstream: &&Arc<Upstream>| is_open || view.sources.contains(&upstream.server.name);
        Ok(Carried {
            names: snapshot.settings.names,
            upstreams: self
                .gateway
                .upstreams()
                .into_iter()
                .filter(|upstream| may_see(&upstream))
                .collect(),
            owner: caller.owner,
            share: self.gateway.share(),
            client: relay::client(Some(context)),
        })
    }

    /// Tells a client when its list has become another.
    fn watch(&self, role: Arc<str>, peer: Peer<RoleServer>) {
        let session = Arc::downgrade(&self.session);
        let snapshots = self.gateway.snapshots();
        let watched = tokio::spawn(async move {
            let is_shown_all = || {
                let session = session.upgrade()?;
                Some(
                    session
                        .shown
                        .get()
                        .is_some_and(|shown| shown.mode == Mode::PassThrough),
                )
            };
            let tell = || async { peer.notify_tool_list_changed().await.is_ok() };
            tell_changes(snapshots, &role, is_shown_all, tell).await;
        });
        if let Some(before) = lock(&self.session.watch).replace(watched.abort_handle()) {
            before.abort();
        }
    }
}

/// Tells whenever what a role may see has become another list. `is_shown_all` tells whether the
/// client is shown all of it, and is `None` once it has gone.
async fn tell_changes<T, F>(
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    role: &str,
    is_shown_all: impl Fn() -> Option<bool>,
    tell: T,
) where
    T: Fn() -> F,
    F: Future<Output = bool>,
{
    let list = |snapshot: &Snapshot| -> Option<Vec<String>> {
        let view = snapshot.view(role).ok()?;
        Some(
            view.tools
                .iter()
                .filter_map(|tool| snapshot.definition(tool).map(Value::to_string))
                .collect(),
        )
    };
    let mut last = {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        list(&snapshot)
    };
    while snapshots.changed().await.is_ok() {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        let now = list(&snapshot);
        let Some(is_shown_all) = is_shown_all() else {
            return;
        };
        if now != last {
            last = now;
            if is_shown_all && timeout(TELL, tell()).await == Ok(false) {
                return;
            }
        }
    }
}

/// Tells of which upstreams something is missing.
fn told_missing(missing: &[String]) -> Option<MetaObject> {
    let mut meta = MetaObject::new();
    meta.0
        .insert("picktools/missing".to_owned(), json!(missing));
    (!missing.is_empty()).then_some(meta)
}

#[expect(
    refining_impl_trait,
    reason = "what is within an `async fn` is compiled once more in each crate that awaits it"
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
            self.gateway.listed(FIRST).await;
            let snapshot = self.gateway.snapshot();
            let view = snapshot.view(&self.caller(&context).role);
            let view = view.map_err(|refusal| ErrorData::internal_error(refusal.message, None))?;
            self.recall(&context).await;
            let is_decided = self.session.shown.get().is_some();
            let listed = self.listed(&snapshot, &view);
            if !is_decided
                && let (Some(shown), Some((sessions, session))) =
                    (self.session.shown.get(), self.shared(&context))
            {
                sessions.show(session, shown).await;
            }
            let digest = snapshot.engine.catalog().digest();
            let cursor = request.and_then(|request| request.cursor);
            let start = match &cursor {
                None => 0,
                Some(cursor) => cursor
                    .split_once(':')
                    .filter(|(of, _)| *of == digest)
                    .and_then(|(_, start)| start.parse().ok())
                    .filter(|start| *start < listed.len())
                    .ok_or_else(|| {
                        ErrorData::invalid_params(
                            "the list has changed since; ask for it from its start",
                            None,
                        )
                    })?,
            };
            let end = listed.len().min(start + PAGE);
            let read = |definition: &Value| serde_json::from_value::<Tool>(definition.clone());
            let page: Result<Vec<Tool>, _> = listed[start..end].iter().map(read).collect();
            let page = page.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            let mut result = ListToolsResult::with_all_items(page);
            result.next_cursor = (end < listed.len()).then(|| format!("{digest}:{end}"));
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
            let again = Again {
                answers: request.input_responses.unwrap_or_default(),
                state: request.request_state,
            };
            match self
                .called(
                    &name,
                    request.arguments.unwrap_or_default(),
                    again,
                    &context,
                )
                .await
            {
                Ok(response) => Ok(response),
                // As the protocol has it, where the client names a tool itself.
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
            let Listed { items, missing } = self.carried(&context)?.resources().await;
            Ok(ListResourcesResult {
                meta: told_missing(&missing),
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
            let Listed { items, missing } = self.carried(&context)?.templates().await;
            Ok(ListResourceTemplatesResult {
                meta: told_missing(&missing),
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
        let answer = async move { Ok(self.carried(&context)?.read(request).await?.into()) };
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
                    "subscriptions need a session with connections of its own",
                    None,
                ));
            }
            let carried = self.carried(&context)?;
            let (tell, mut updates) = mpsc::channel::<String>(MAX_UPDATES);
            let source = carried.subscribe(&request.uri, Some(tell)).await?;
            let (peer, names, of) = (context.peer.clone(), carried.names, source.clone());
            let told = tokio::spawn(async move {
                while let Some(uri) = updates.recv().await {
                    let uri = carried::shown_uri(names, &of, &uri);
                    let update = ResourceUpdatedNotificationParam::new(uri);
                    drop(timeout(TELL, peer.notify_resource_updated(update)).await);
                }
            });
            if let Some(before) = lock(&self.session.updates).insert(source, told.abort_handle()) {
                before.abort();
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
                self.carried(&context)?
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
            let Listed { items, missing } = self.carried(&context)?.prompts().await;
            Ok(ListPromptsResult {
                meta: told_missing(&missing),
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
        let answer = async move { Ok(self.carried(&context)?.prompt(request).await?.into()) };
        answer.boxed()
    }

    fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> BoxFuture<'_, Result<CompleteResult, ErrorData>> {
        let answer = async move { self.carried(&context)?.complete(request).await };
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
            let tell = || async { subscription.sink().notify_tool_list_changed().await.is_ok() };
            // Without a session what is shown is decided anew each time.
            let told = tell_changes(self.gateway.snapshots(), &caller.role, || Some(true), tell);
            tokio::select! {
                () = subscription.cancelled() => {}
                () = told => {}
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
            self.gateway.meter.record(&Event::Session { begun: true });
        }
        self.watch(self.caller_of(&context.extensions).role, context.peer);
    }
}
