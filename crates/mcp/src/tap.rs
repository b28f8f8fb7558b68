//! Updates that a server sends during a request, in the order in which it sends them.
//!
//! The SDK handles each notification in a task of its own, so that the second may arrive before the
//! first, and either after the answer. The [`Tap`] wraps the transport. It registers a request
//! before its bytes leave, and reports progress before it reads the next message.

#![expect(
    deprecated,
    reason = "servers that speak a revision before 2026-07-28 send log lines"
)]

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, GetExtensions, GetMeta, JsonRpcMessage, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProgressToken, ServerNotification,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

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

/// A transport that reports progress and log lines itself.
pub(super) struct Tap<T> {
    transport: T,
    listeners: UpdateListeners,
}

impl<T> Tap<T> {
    pub(super) fn new(transport: T, listeners: UpdateListeners) -> Self {
        Self {
            transport,
            listeners,
        }
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
        }
        self.transport.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match self.transport.receive().await? {
                JsonRpcMessage::Notification(notification) => match notification.notification {
                    ServerNotification::ProgressNotification(progress) => {
                        self.listeners.report_progress(progress.params);
                    }
                    ServerNotification::LoggingMessageNotification(line) => {
                        self.listeners.report_log(line.params);
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
