//! Messages of an upstream outside its answers, and the calls that they belong to.

use std::sync::{Arc, Mutex};

use picktools_mcp::RequestUpdate;
use picktools_state::lock;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, Implementation,
    ResourceUpdatedNotificationParam, SamplingCapability,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use tokio::sync::{Notify, mpsc, oneshot};

/// A message of an upstream during a call.
pub(crate) enum UpstreamEvent {
    /// Progress, or a log line.
    Notification(RequestUpdate),
    /// The upstream asks the person at the client.
    Elicit(Box<ElicitRequestParams>, oneshot::Sender<ElicitResult>),
    /// The upstream asks the model at the client.
    Sample(
        Box<CreateMessageRequestParams>,
        oneshot::Sender<Result<CreateMessageResult, ErrorData>>,
    ),
}

/// The kinds of questions that a client can answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClientAbilities {
    /// Questions to its person.
    pub(crate) person: bool,
    /// Questions to its model.
    pub(crate) model: bool,
}

/// The running calls of one connection.
#[derive(Clone, Default)]
pub(crate) struct ActiveCalls {
    calls: Arc<Mutex<Vec<ActiveCall>>>,
    /// Notified when the last call ends.
    finished: Arc<Notify>,
}

/// The number of a call, and the channel for its messages.
type ActiveCall = (u64, mpsc::Sender<UpstreamEvent>);

impl ActiveCalls {
    pub(crate) fn add(&self, number: u64, sender: mpsc::Sender<UpstreamEvent>) {
        lock(&self.calls).push((number, sender));
    }

    pub(crate) fn remove(&self, number: u64) {
        let mut calls = lock(&self.calls);
        calls.retain(|(other, _)| *other != number);
        if calls.is_empty() {
            self.finished.notify_one();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.calls).is_empty()
    }

    /// Waits until no call runs. Only one task may wait.
    pub(crate) async fn finished(&self) {
        while !self.is_empty() {
            self.finished.notified().await;
        }
    }

    /// Returns the only running call. With several calls, the right one is unknown.
    fn only_call(&self) -> Option<mpsc::Sender<UpstreamEvent>> {
        match lock(&self.calls).as_slice() {
            [(_, sender)] => Some(sender.clone()),
            _ => None,
        }
    }
}

/// The receiver of an upstream's messages on one connection.
#[derive(Clone)]
pub(crate) struct Listener {
    changes: Arc<Notify>,
    pub(crate) calls: ActiveCalls,
    /// The channel for addresses of changed resources.
    updates: Arc<Mutex<Option<mpsc::Sender<String>>>>,
    /// The kinds of questions that the only client can answer; none if there are several clients.
    abilities: ClientAbilities,
}

impl Listener {
    pub(crate) fn new(abilities: ClientAbilities) -> Self {
        Self {
            changes: Arc::default(),
            calls: ActiveCalls::default(),
            updates: Arc::default(),
            abilities,
        }
    }

    /// Creates the listener for a connection of one owner, which reports changes of the tools like
    /// this one.
    pub(crate) fn for_owner(&self, abilities: ClientAbilities) -> Self {
        Self {
            changes: Arc::clone(&self.changes),
            ..Self::new(abilities)
        }
    }

    /// Sets the channel for addresses of changed resources.
    pub(crate) fn set_update_channel(&self, sender: mpsc::Sender<String>) {
        *lock(&self.updates) = Some(sender);
    }

    /// Records that the tools have changed.
    pub(crate) fn report_change(&self) {
        self.changes.notify_one();
    }

    /// Waits until the tools have changed since the last call of this function.
    pub(crate) async fn changed(&self) {
        self.changes.notified().await;
    }
}

impl ClientHandler for Listener {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.report_change();
    }

    async fn on_resource_updated(
        &self,
        update: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        if let Some(updates) = &*lock(&self.updates) {
            // A slow reader misses updates.
            drop(updates.try_send(update.uri));
        }
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = || ElicitResult::new(ElicitationAction::Decline);
        let call = match self.calls.only_call() {
            Some(call) if self.abilities.person => call,
            _ => return Ok(declined()),
        };
        let (reply, answer) = oneshot::channel();
        let ask = async {
            let event = UpstreamEvent::Elicit(Box::new(request), reply);
            call.send(event).await.ok()?;
            answer.await.ok()
        };
        tokio::select! {
            answer = ask => Ok(answer.unwrap_or_else(declined)),
            // The upstream does not wait any more.
            () = context.ct.cancelled() => Ok(declined()),
        }
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let refused = || ErrorData::invalid_request("there is no model to ask", None);
        let call = match self.calls.only_call() {
            Some(call) if self.abilities.model => call,
            _ => return Err(refused()),
        };
        let (reply, answer) = oneshot::channel();
        let ask = async {
            let event = UpstreamEvent::Sample(Box::new(request), reply);
            call.send(event).await.map_err(|_| refused())?;
            answer.await.map_err(|_| refused())?
        };
        tokio::select! {
            answer = ask => answer,
            // The upstream does not wait any more.
            () = context.ct.cancelled() => Err(refused()),
        }
    }

    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.abilities.person {
            capabilities.elicitation = Some(ElicitationCapability::default());
        }
        if self.abilities.model {
            capabilities.sampling = Some(SamplingCapability::default());
        }
        ClientConfig::new(
            capabilities,
            Implementation::new("picktools", env!("CARGO_PKG_VERSION")),
        )
    }
}
