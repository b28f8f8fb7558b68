//! The methods of the MCP protocol, for one client.

mod listing;
mod session;
mod tool_calls;
mod uses;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use picktools_state::lock;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, DiscoverResult,
    Extensions, GetPromptRequestParams, GetPromptResponse, Implementation, InitializeRequestParams,
    InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, LoggingLevel, MetaObject, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceContents,
    ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;

use self::session::{NOTIFY_TIMEOUT, PageForm, Session, notify_changes};
use crate::api_keys::RequestIdentity;
use crate::calls::Caller;
use crate::hub::Hub;
use crate::instructions;
use crate::large_results::RESULT_PREFIX;
use crate::metrics::GatewayEvent;
use crate::passthrough::{self, MergedListing, PassthroughCapabilities};
use crate::relay;
use crate::sessions;
use crate::settings::Share;
use crate::tool_page::text_page;
use crate::upstream::Owner;

/// The number of tools on a page.
const PAGE_SIZE: usize = 200;
/// The most queued notifications about changed resources.
const MAX_UPDATES: usize = 64;

/// The header with the session id.
pub const SESSION: &str = "mcp-session-id";

/// The handler of one client.
#[derive(Clone)]
pub struct Handler {
    gateway: Arc<Hub>,
    session: Arc<Session>,
}

impl Handler {
    /// Creates the handler of a client, which calls as `caller` unless a request names another
    /// identity.
    pub fn new(gateway: Arc<Hub>, caller: Caller) -> Self {
        Self::with_pages(gateway, caller, PageForm::Values)
    }

    /// Creates the handler of a client whose transport writes messages by
    /// [`write_message`](crate::tool_page::write_message).
    pub(crate) fn with_text_pages(gateway: Arc<Hub>, caller: Caller) -> Self {
        Self::with_pages(gateway, caller, PageForm::Text)
    }

    fn with_pages(gateway: Arc<Hub>, caller: Caller, page_form: PageForm) -> Self {
        let session = Session::new(&gateway, caller, page_form);
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

    /// Returns the instructions for a client. They wait a moment for servers that have not reported
    /// yet, because a client reads them once.
    async fn instructions(&self, context: &RequestContext<RoleServer>) -> String {
        self.gateway.registry.wait_for_listings().await;
        instructions::instructions(&self.gateway, &self.caller(context).role)
    }

    /// Returns `true` if a notification of an upstream can only be for this client.
    fn owns_connections(&self, context: &RequestContext<RoleServer>) -> bool {
        match context.extensions.get::<http::request::Parts>() {
            Some(parts) => {
                self.gateway.upstreams.share() == Share::Owner
                    && parts.headers.contains_key(SESSION)
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

    /// Returns the pass-through capabilities for a caller. They cover the upstreams that the caller
    /// may use. They wait a moment for upstreams that have not reported yet.
    async fn passthrough(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<PassthroughCapabilities, ErrorData> {
        self.gateway.registry.wait_for_listings().await;
        let snapshot = self.gateway.registry.snapshot();
        let caller = self.caller(context);
        let view = snapshot
            .view(&caller.role)
            .map_err(|refusal| ErrorData::internal_error(refusal.message, None))?;
        let mut upstreams = Vec::new();
        let mut unlisted = Vec::new();
        for upstream in self.gateway.upstreams.all() {
            let server = &upstream.server.name;
            if view.servers.may_use(server) {
                upstreams.push(upstream);
            } else if view.servers.may_know(server) {
                unlisted.push(server.clone());
            }
        }
        Ok(PassthroughCapabilities {
            names: snapshot.settings.names,
            upstreams,
            unlisted,
            owner: caller.owner,
            share: self.gateway.upstreams.share(),
            client: relay::client_traits(Some(context)),
        })
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
        ServerConfig::new(capabilities).with_server_info(server)
    }

    fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> BoxFuture<'_, Result<InitializeResult, ErrorData>> {
        let answer = async move {
            context.peer.set_peer_info(request.clone());
            let mut result = self.negotiate_initialize(&request)?;
            result.instructions = Some(self.instructions(&context).await);
            Ok(result)
        };
        answer.boxed()
    }

    fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> BoxFuture<'_, Result<DiscoverResult, ErrorData>> {
        let answer = async move {
            let versions = self.supported_protocol_versions().into_owned();
            let mut result = DiscoverResult::from_server_info(versions, self.get_info());
            result.instructions = Some(self.instructions(&context).await);
            Ok(result)
        };
        answer.boxed()
    }

    fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> BoxFuture<'_, Result<ListToolsResult, ErrorData>> {
        let answer = async move {
            self.gateway.registry.wait_for_listings().await;
            let snapshot = self.gateway.registry.snapshot();
            let view = snapshot.view(&self.caller(&context).role);
            let view = view.map_err(|refusal| ErrorData::internal_error(refusal.message, None))?;
            self.load_shared_session(&context).await;
            let is_decided = self.session.session_tools.get().is_some();
            let owner = self.caller(&context).owner;
            let list = self.tool_list(&snapshot, &view, &owner);
            if !is_decided
                && let (Some(session_tools), Some((sessions, session))) =
                    (self.session.session_tools.get(), self.shared(&context))
            {
                sessions.save_tools(session, session_tools).await;
            }
            let digest = view.engine.catalog().digest();
            let cursor = request.and_then(|request| request.cursor);
            let start = match &cursor {
                None => 0,
                Some(cursor) => page_start(cursor, digest, list.len()).ok_or_else(|| {
                    ErrorData::invalid_params(
                        "the list has changed; request it again without a cursor",
                        None,
                    )
                })?,
            };
            let end = list.len().min(start + PAGE_SIZE);
            let page = match self.session.page_form {
                PageForm::Values => list.page(start..end).map(ListToolsResult::with_all_items),
                PageForm::Text => list.page_text(start..end).map(text_page),
            };
            let mut result =
                page.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            if end < list.len() {
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
        self.answer_call(request, context).boxed()
    }

    fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> BoxFuture<'_, Result<ListResourcesResult, ErrorData>> {
        let answer = async move {
            let MergedListing { items, missing } =
                self.passthrough(&context).await?.resources().await;
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
            let MergedListing { items, missing } =
                self.passthrough(&context).await?.templates().await;
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
                    .calls
                    .large_results
                    .text(&self.caller(&context).owner, id)
            {
                let text =
                    text.map_err(|refusal| ErrorData::invalid_request(refusal.message, None))?;
                let contents = ResourceContents::text(text, request.uri.clone());
                return Ok(ReadResourceResult::new(vec![contents]).into());
            }
            Ok(self
                .passthrough(&context)
                .await?
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
            let passthrough = self.passthrough(&context).await?;
            let (sender, mut updates) = mpsc::channel::<String>(MAX_UPDATES);
            let source = passthrough.subscribe(&request.uri, Some(sender)).await?;
            let (peer, names, update_source) =
                (context.peer.clone(), passthrough.names, source.clone());
            let (gateway, role) = (Arc::clone(&self.gateway), self.caller(&context).role);
            let task = tokio::spawn(async move {
                while let Some(uri) = updates.recv().await {
                    // The settings or the tools may have changed since the subscription.
                    let view = gateway.registry.snapshot().view(&role);
                    if !view.is_ok_and(|view| view.servers.may_use(&update_source)) {
                        continue;
                    }
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
                self.passthrough(&context)
                    .await?
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
            let MergedListing { items, missing } =
                self.passthrough(&context).await?.prompts().await;
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
                .passthrough(&context)
                .await?
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
        let answer = async move { self.passthrough(&context).await?.complete(request).await };
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
                self.gateway.registry.snapshots(),
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
