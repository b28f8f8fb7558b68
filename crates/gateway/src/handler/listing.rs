//! The list of tools of one client.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use picktools::Tool as CatalogTool;
use picktools_provider::Tokenizer;
use picktools_state::lock;
use rmcp::RoleServer;
use rmcp::service::{Peer, RequestContext};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::session::{NOTIFY_TIMEOUT, notify_changes};
use super::{Handler, session_id};
use crate::front;
use crate::large_results;
use crate::metrics::GatewayEvent;
use crate::sessions::{SessionTools, Sessions};
use crate::settings::Mode;
use crate::snapshot::{Snapshot, View};
use crate::upstream::Owner;

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
                Mode::Auto if !view.tools.is_empty() && snapshot.tokens(view) <= max_tokens => {
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

    pub(super) fn list_definitions(
        &self,
        snapshot: &Snapshot,
        view: &View,
        owner: &Owner,
    ) -> Vec<Value> {
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
            || self.gateway.calls.large_results.has_any(owner)
        {
            read_result = Some(large_results::definition());
        }
        let mut definitions = match mode {
            Mode::PassThrough => snapshot.shown_definitions(view, &view.tools),
            _ => Vec::from(front),
        };
        // In the search mode, it is called through the front tools.
        if matches!(mode, Mode::PassThrough | Mode::Dynamic) {
            definitions.extend(read_result);
        }
        definitions.extend(always_listed);
        if mode == Mode::Dynamic {
            for joined in lock(&self.session.joined).iter() {
                let is_same = |listed: &Value| listed["name"] == joined["name"];
                if !definitions.iter().any(is_same) {
                    definitions.push(joined.clone());
                }
            }
        }
        definitions
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
