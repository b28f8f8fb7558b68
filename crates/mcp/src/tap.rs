//! Updates that a server sends during a request, in the order in which it sends them.
//!
//! The SDK handles each notification in a task of its own, so that the second may arrive before the
//! first, and either after the answer. The [`Tap`] wraps the transport. It registers a request
//! before its bytes leave, and reports progress before it reads the next message.
//!
//! It also bounds the requests of a server. A server that sends more gets errors, and one that does
//! not read these answers is not read either. Messages without end are read at a [`MessagePace`].

#![expect(
    deprecated,
    reason = "servers that speak a revision before 2026-07-28 send log lines"
)]

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rmcp::model::{
    ClientRequest, ErrorCode, GetExtensions, GetMeta, JsonRpcMessage, JsonRpcNotification,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, RequestId,
    ServerNotification,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{ErrorData, RoleClient};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::message_pace::MessagePace;

/// A message that a server sends during a request, before its answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RequestUpdate {
    /// The progress of the request.
    Progress(ProgressNotificationParam),
    /// A log line. It names no request, so it is reported only if exactly one is pending.
    Log(LoggingMessageNotificationParam),
}

/// Receives the updates of a request. It is attached to the request's extensions, which are not
/// sent.
#[derive(Clone)]
pub(super) struct UpdateListener(Arc<dyn Fn(RequestUpdate) + Send + Sync>);

impl UpdateListener {
    pub(super) fn new(listener: impl Fn(RequestUpdate) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listener))
    }
}

/// The pending requests of a connection that have a listener.
#[derive(Clone, Default)]
pub(super) struct UpdateListeners(Arc<Mutex<HashMap<ProgressToken, UpdateListener>>>);

impl fmt::Debug for UpdateListeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UpdateListeners")
            .field(&self.lock().len())
            .finish()
    }
}

impl UpdateListeners {
    fn lock(&self) -> MutexGuard<'_, HashMap<ProgressToken, UpdateListener>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the listener of a request.
    pub(super) fn forget(&self, token: &ProgressToken) {
        self.lock().remove(token);
    }

    fn register(&self, request: &ClientRequest) {
        let listener = request.extensions().get::<UpdateListener>().cloned();
        if let (Some(listener), Some(token)) = (listener, request.get_meta().get_progress_token()) {
            self.lock().insert(token, listener);
        }
    }

    fn report_progress(&self, progress: ProgressNotificationParam) {
        // Called outside the lock: a listener may start or end requests.
        let listener = self.lock().get(&progress.progress_token).cloned();
        if let Some(UpdateListener(listener)) = listener {
            listener(RequestUpdate::Progress(progress));
        }
    }

    fn report_log(&self, line: LoggingMessageNotificationParam) {
        let only_listener = {
            let listeners = self.lock();
            match listeners.len() {
                1 => listeners.values().next().cloned(),
                _ => None,
            }
        };
        if let Some(UpdateListener(listener)) = only_listener {
            listener(RequestUpdate::Log(line));
        }
    }
}

/// The most requests of a server under way: handled, or with an answer that is being sent.
const MAX_REQUESTS: usize = 16;
/// The most refusals of further requests that are being sent.
const MAX_REFUSALS: usize = 16;

/// The requests of a server that are under way.
#[derive(Clone, Default)]
struct IncomingRequests(Arc<Mutex<HashSet<RequestId>>>);

impl IncomingRequests {
    fn lock(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request, or returns the reason why it is refused.
    fn begin(&self, id: &RequestId) -> Result<(), String> {
        let mut ids = self.lock();
        if ids.contains(id) {
            return Err("duplicate request id: a request with this id is in progress".to_owned());
        }
        if ids.len() >= MAX_REQUESTS {
            return Err(format!(
                "more than {MAX_REQUESTS} requests at once; wait for the answers"
            ));
        }
        ids.insert(id.clone());
        Ok(())
    }

    fn end(&self, id: &RequestId) {
        self.lock().remove(id);
    }
}

/// A transport that reports progress and log lines itself, and bounds the requests of the server.
pub(super) struct Tap<T> {
    transport: T,
    listeners: UpdateListeners,
    requests: IncomingRequests,
    refusals: Arc<Semaphore>,
    pace: MessagePace,
    /// `true` once a refusal was logged.
    has_refused: bool,
}

impl<T> Tap<T> {
    pub(super) fn new(transport: T, listeners: UpdateListeners) -> Self {
        Self {
            transport,
            listeners,
            requests: IncomingRequests::default(),
            refusals: Arc::new(Semaphore::new(MAX_REFUSALS)),
            pace: MessagePace::new(Instant::now()),
            has_refused: false,
        }
    }
}

impl<T: Transport<RoleClient>> Tap<T> {
    /// Answers a request with an error, which uses the permit until it is sent.
    fn refuse(&mut self, id: RequestId, message: String, permit: Option<OwnedSemaphorePermit>) {
        if !self.has_refused {
            self.has_refused = true;
            tracing::warn!(
                target: "picktools::mcp", reason = %message,
                "a request of a server is refused; later refusals are not logged"
            );
        }
        let error = ErrorData::new(ErrorCode::INVALID_REQUEST, message, None);
        let sending = self.transport.send(JsonRpcMessage::error(error, Some(id)));
        drop(tokio::spawn(async move {
            drop(sending.await);
            drop(permit);
        }));
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Tap<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &message {
            self.listeners.register(&request.request);
            self.pace.expect_answer();
        }
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let requests = self.requests.clone();
        let sending = self.transport.send(message);
        async move {
            let result = sending.await;
            if let Some(id) = answered {
                requests.end(&id);
            }
            result
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            // This waits while the server does not read its answers.
            let permit = Arc::clone(&self.refusals).acquire_owned().await.ok();
            self.pace.wait().await;
            let message = self.transport.receive().await?;
            match &message {
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {
                    self.pace.count_answer(Instant::now());
                }
                _ => self.pace.count_message(Instant::now()),
            }
            match message {
                JsonRpcMessage::Request(request) => match self.requests.begin(&request.id) {
                    Ok(()) => return Some(JsonRpcMessage::Request(request)),
                    Err(message) => self.refuse(request.id, message, permit),
                },
                JsonRpcMessage::Notification(notification) => match notification.notification {
                    ServerNotification::ProgressNotification(progress) => {
                        self.listeners.report_progress(progress.params);
                    }
                    ServerNotification::LoggingMessageNotification(line) => {
                        self.listeners.report_log(line.params);
                    }
                    ServerNotification::CancelledNotification(cancelled) => {
                        if let Some(id) = &cancelled.params.request_id {
                            // A cancelled request gets no answer.
                            self.requests.end(id);
                        }
                        return Some(JsonRpcMessage::Notification(JsonRpcNotification {
                            jsonrpc: notification.jsonrpc,
                            notification: ServerNotification::CancelledNotification(cancelled),
                        }));
                    }
                    _ => return Some(JsonRpcMessage::Notification(notification)),
                },
                message => return Some(message),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}
