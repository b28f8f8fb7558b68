//! What an upstream says of itself: which call it belongs to.

use std::sync::{Arc, Mutex};

use picktools_mcp::Said;
use picktools_state::lock;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, Implementation,
    ResourceUpdatedNotificationParam, SamplingCapability,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use tokio::sync::{Notify, mpsc, oneshot};

/// What is heard while a call is under way.
pub(crate) enum Heard {
    /// How far it is, or a line for a log.
    Said(Said),
    /// The upstream asks the person at the client.
    Elicit(Box<ElicitRequestParams>, oneshot::Sender<ElicitResult>),
    /// The upstream asks the model at the client.
    Sample(
        Box<CreateMessageRequestParams>,
        oneshot::Sender<Result<CreateMessageResult, ErrorData>>,
    ),
}

/// What a client can be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Asks {
    /// Its person.
    pub(crate) person: bool,
    /// Its model.
    pub(crate) model: bool,
}

/// The calls that are under way on one connection.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<Call>>>);

/// A call's number, and where it hears.
type Call = (u64, mpsc::Sender<Heard>);

impl Calls {
    pub(crate) fn enter(&self, number: u64, tell: mpsc::Sender<Heard>) {
        lock(&self.0).push((number, tell));
    }

    pub(crate) fn leave(&self, number: u64) {
        lock(&self.0).retain(|(other, _)| *other != number);
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    /// The only call: with several nobody can tell which is meant.
    fn only(&self) -> Option<mpsc::Sender<Heard>> {
        match lock(&self.0).as_slice() {
            [(_, tell)] => Some(tell.clone()),
            _ => None,
        }
    }
}

/// Hears an upstream on one connection.
#[derive(Clone)]
pub(crate) struct Listener {
    changes: Arc<Notify>,
    pub(crate) calls: Calls,
    /// Who is told which resources changed.
    updates: Arc<Mutex<Option<mpsc::Sender<String>>>>,
    /// What the one client can be asked; nothing where there are several.
    asks: Asks,
}

impl Listener {
    pub(crate) fn new(asks: Asks) -> Self {
        Self {
            changes: Arc::default(),
            calls: Calls::default(),
            updates: Arc::default(),
            asks,
        }
    }

    /// Says who is told which resources changed.
    pub(crate) fn tell_updates(&self, to: mpsc::Sender<String>) {
        *lock(&self.updates) = Some(to);
    }

    /// Waits until the tools changed, since this was last waited for.
    pub(crate) async fn changed(&self) {
        self.changes.notified().await;
    }
}

impl ClientHandler for Listener {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changes.notify_one();
    }

    async fn on_resource_updated(
        &self,
        update: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        if let Some(updates) = &*lock(&self.updates) {
            // Whoever does not read is told less.
            drop(updates.try_send(update.uri));
        }
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = || ElicitResult::new(ElicitationAction::Decline);
        let Some(call) = self.calls.only().filter(|_| self.asks.person) else {
            return Ok(declined());
        };
        let (reply, answer) = oneshot::channel();
        if call
            .send(Heard::Elicit(Box::new(request), reply))
            .await
            .is_err()
        {
            return Ok(declined());
        }
        Ok(answer.await.unwrap_or_else(|_| declined()))
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let refused = || ErrorData::invalid_request("there is no model to ask", None);
        let call = self
            .calls
            .only()
            .filter(|_| self.asks.model)
            .ok_or_else(refused)?;
        let (reply, answer) = oneshot::channel();
        call.send(Heard::Sample(Box::new(request), reply))
            .await
            .map_err(|_| refused())?;
        answer.await.map_err(|_| refused())?
    }

    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.asks.person {
            capabilities.elicitation = Some(ElicitationCapability::default());
        }
        if self.asks.model {
            capabilities.sampling = Some(SamplingCapability::default());
        }
        ClientConfig::new(
            capabilities,
            Implementation::new("picktools", env!("CARGO_PKG_VERSION")),
        )
    }
}
