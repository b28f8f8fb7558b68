//! The list of tools of one client.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use picktools::Tool as CatalogTool;
use picktools_provider::Tokenizer;
use picktools_state::lock;
use rmcp::RoleServer;
use rmcp::model::Tool;
use rmcp::service::{Peer, RequestContext};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::session::{NOTIFY_TIMEOUT, notify_changes};
use super::{Handler, session_id};
use crate::front;
use crate::large_results;
use crate::metrics::GatewayEvent;
use crate::pick_queue::run_pick;
use crate::sessions::{SessionTools, Sessions};
use crate::settings::Mode;
use crate::snapshot::{Snapshot, View};
use crate::upstream::Owner;

/// The usual length of a definition, in bytes.
const DEFINITION_BYTES: usize = 512;

/// The list of tools of a client.
pub(super) struct ClientToolList {
    snapshot: Arc<Snapshot>,
    view: Arc<View>,
    /// `true` if it begins with all listed tools of the view.
    has_all: bool,
    /// The definitions after these.
    others: Vec<Value>,
}

impl ClientToolList {
    pub(super) fn len(&self) -> usize {
        self.viewed().len() + self.others.len()
    }

    /// Returns a part of the list.
    pub(super) fn page(&self, range: Range<usize>) -> serde_json::Result<Vec<Tool>> {
        let (tools, others) = self.parts(range);
        let mut page = Vec::with_capacity(tools.len() + others.len());
        for tool in tools {
            if let Some(text) = self.snapshot.shown_text(&self.view, tool) {
                page.push(serde_json::from_str(&text)?);
            }
        }
        for definition in others {
            page.push(Tool::deserialize(definition)?);
        }
        Ok(page)
    }

    /// Returns a part of the list as text: the definitions, separated by commas.
    pub(super) fn page_text(&self, range: Range<usize>) -> serde_json::Result<String> {
        let (tools, others) = self.parts(range);
        let mut texts = String::with_capacity((tools.len() + others.len()) * DEFINITION_BYTES);
        for tool in tools {
            if let Some(text) = self.snapshot.shown_text(&self.view, tool) {
                texts.push_str(&text);
                texts.push(',');
            }
        }
        for definition in others {
            // Its members get the order of the protocol.
            texts.push_str(&serde_json::to_string(&Tool::deserialize(definition)?)?);
            texts.push(',');
        }
        texts.pop();
        Ok(texts)
    }

    /// Returns the tools of the view and the other definitions in a part of the list.
    fn parts(&self, range: Range<usize>) -> (&[Arc<CatalogTool>], &[Value]) {
        let viewed = self.viewed();
        let part =
            |range: &Range<usize>, length: usize| range.start.min(length)..range.end.min(length);
        let rest = range.start.saturating_sub(viewed.len())..range.end.saturating_sub(viewed.len());
        (
            &viewed[part(&range, viewed.len())],
            &self.others[part(&rest, self.others.len())],
        )
    }

    fn viewed(&self) -> &[Arc<CatalogTool>] {
        if self.has_all { &self.view.listed } else { &[] }
    }
}

impl Handler {
    /// Returns the tools that are listed to the client. The first request after all upstreams have
    /// reported decides; the decision then stays.
    pub(super) fn session_tools(&self, snapshot: &Snapshot, view: &View) -> SessionTools {
        let decide = || {
            let max_tokens = snapshot
                .settings
                .pass_through_tokens
                .unwrap_or(front::PASS_THROUGH_TOKENS);
            let mode = match snapshot.settings.mode {
                Mode::Auto
                    if !view.tools.is_empty() && !snapshot.exceeds_tokens(view, max_tokens) =>
                {
                    Mode::PassThrough
                }
                Mode::Auto => Mode::Search,
                configured => configured,
            };
            let servers_down = self.gateway.servers_down(view);
            let front = front::definitions(view, &servers_down);
            let tokens = Tokenizer::O200k.count(&json!(front).to_string());
            SessionTools {
                mode,
                front,
                tokens,
            }
        };
        if !self.gateway.registry.is_complete() && self.session.session_tools.get().is_none() {
            // The tools that are still missing may be too many for this decision.
            self.session.has_partial_list.store(true, Ordering::Relaxed);
            return decide();
        }
        self.session.session_tools.get_or_init(decide).clone()
    }

    /// Returns the list of tools of the client.
    pub(super) fn tool_list(
        &self,
        snapshot: &Arc<Snapshot>,
        view: &Arc<View>,
        owner: &Owner,
    ) -> ClientToolList {
        let SessionTools {
            mode,
            front,
            tokens,
        } = self.session_tools(snapshot, view);
        self.record_list(snapshot, view, mode, tokens);
        let mut read_result = None;
        // Without sessions, each request has a session of its own.
        if self.session.reads_results.load(Ordering::Relaxed)
            || self.gateway.calls.large_results.has_any(owner)
        {
            read_result = Some(large_results::definition());
        }
        if mode == Mode::PassThrough {
            return ClientToolList {
                snapshot: Arc::clone(snapshot),
                view: Arc::clone(view),
                has_all: true,
                others: Vec::from_iter(read_result),
            };
        }
        let mut others = Vec::from(front);
        // In the search mode, it is called through the front tools.
        if mode == Mode::Dynamic {
            others.extend(read_result);
        }
        others.extend(snapshot.shown_definitions(view, &view.always_listed));
        if mode == Mode::Dynamic {
            for joined in lock(&self.session.joined).iter() {
                let is_same = |listed: &Value| listed["name"] == joined["name"];
                if !others.iter().any(is_same) {
                    others.push(joined.clone());
                }
            }
        }
        ClientToolList {
            snapshot: Arc::clone(snapshot),
            view: Arc::clone(view),
            has_all: false,
            others,
        }
    }

    /// Records the tokens of a list with these front tools, and of all definitions. The first time,
    /// counting them takes a while.
    fn record_list(
        &self,
        snapshot: &Arc<Snapshot>,
        view: &Arc<View>,
        mode: Mode,
        front_tokens: usize,
    ) {
        let listed_tokens = || front_tokens + snapshot.sum_tokens(view, &view.always_listed);
        let listed_tokens = (mode != Mode::PassThrough).then(listed_tokens);
        let meter = Arc::clone(&self.gateway.meter);
        let record = move |all_tokens| {
            meter.record(&GatewayEvent::List {
                tokens: listed_tokens.unwrap_or(all_tokens),
                all_tokens,
            });
        };
        if let Some(all_tokens) = view.counted_tokens() {
            record(all_tokens);
            return;
        }
        let (snapshot, view) = (Arc::clone(snapshot), Arc::clone(view));
        // In the queue, so that the lists of many new sessions do not block as many threads.
        drop(tokio::spawn(run_pick(move || {
            record(snapshot.tokens(&view));
        })));
    }

    /// Adds tools that were found, described or called to a dynamic list, and notifies the client.
    pub(super) async fn add_to_list(
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
    pub(super) fn shared<'a>(
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
    pub(super) async fn load_shared_session(&self, context: &RequestContext<RoleServer>) {
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

    /// Lists the tool that reads large results, unless the client reaches it by another one.
    pub(super) fn list_read_result(&self, context: &RequestContext<RoleServer>) {
        let session_tools = self.session.session_tools.get();
        let lists_it =
            session_tools.is_some_and(|session_tools| session_tools.mode != Mode::Search);
        if !lists_it || self.session.reads_results.swap(true, Ordering::Relaxed) {
            return;
        }
        notify_list_changed(context);
    }

    /// Notifies a client when its list of tools changes.
    pub(super) fn watch(&self, role: Arc<str>, peer: Peer<RoleServer>) {
        let session = Arc::downgrade(&self.session);
        let snapshots = self.gateway.registry.snapshots();
        let watched = tokio::spawn(async move {
            let is_shown_all = || {
                let session = session.upgrade()?;
                let session_tools = session.session_tools.get();
                let is_partial = session.has_partial_list.load(Ordering::Relaxed);
                Some(session_tools.map_or(is_partial, |tools| tools.mode == Mode::PassThrough))
            };
            let notify = || async { peer.notify_tool_list_changed().await.is_ok() };
            notify_changes(snapshots, &role, is_shown_all, notify).await;
        });
        if let Some(previous) = lock(&self.session.watch).replace(watched.abort_handle()) {
            previous.abort();
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
