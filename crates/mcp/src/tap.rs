//! What a server says during a request, told in the order in which it says it.
//!
//! The SDK handles each notification in a task of its own, so that the second may come before the
//! first, and either after the answer. This stands between it and the transport: a request is known
//! before its bytes leave, and its progress is told before the next message is read.

#![expect(
    deprecated,
    reason = "lines for logs are what servers send that speak a revision before 2026-07-28"
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

/// What a server says during a request.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Said {
    /// How far it is.
    Progress(ProgressNotificationParam),
    /// A line for a log. It names no request: told where only one is under way.
    Log(LoggingMessageNotificationParam),
}

/// Hears what is said during a request. A request has it in its extensions, which are not sent.
#[derive(Clone)]
pub(super) struct Hearer(Arc<dyn Fn(Said) + Send + Sync>);

impl Hearer {
    pub(super) fn new(hear: impl Fn(Said) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }
}

/// The requests of a connection that are under way and heard of.
#[derive(Clone, Default)]
pub(super) struct Heard(Arc<Mutex<HashMap<ProgressToken, Hearer>>>);

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Heard").field(&self.lock().len()).finish()
    }
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, HashMap<ProgressToken, Hearer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a request: nothing is told of it any more.
    pub(super) fn forget(&self, token: &ProgressToken) {
        self.lock().remove(token);
    }

    fn note(&self, request: &ClientRequest) {
        let hearer = request.extensions().get::<Hearer>().cloned();
        if let (Some(hearer), Some(token)) = (hearer, request.get_meta().get_progress_token()) {
            self.lock().insert(token, hearer);
        }
    }

    fn tell(&self, progress: ProgressNotificationParam) {
        // Outside the lock: whoever hears may do what it likes.
        let hearer = self.lock().get(&progress.progress_token).cloned();
        if let Some(Hearer(hear)) = hearer {
            hear(Said::Progress(progress));
        }
    }

    fn log(&self, line: LoggingMessageNotificationParam) {
        let only = {
            let heard = self.lock();
            heard.values().next().filter(|_| heard.len() == 1).cloned()
        };
        if let Some(Hearer(hear)) = only {
            hear(Said::Log(line));
        }
    }
}

/// A transport that tells of progress and log lines itself.
pub(super) struct Tap<T> {
    transport: T,
    heard: Heard,
}

impl<T> Tap<T> {
    pub(super) fn new(transport: T, heard: Heard) -> Self {
        Self { transport, heard }
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
            self.heard.note(&request.request);
        }
        self.transport.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match self.transport.receive().await? {
                JsonRpcMessage::Notification(notification) => match notification.notification {
                    ServerNotification::ProgressNotification(progress) => {
                        self.heard.tell(progress.params)
                    }
                    ServerNotification::LoggingMessageNotification(line) => {
                        self.heard.log(line.params)
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
