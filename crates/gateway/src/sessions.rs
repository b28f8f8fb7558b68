//! Sessions that can continue at another gateway: the owner, the client's handshake, and the listed
//! tools.
//!
//! The key of a session contains the digest of its id, because the id together with its API key
//! gives access. The key expires when an idle session would. If the store does not reply, a gateway
//! knows only its own sessions.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use picktools_state::keys::{digest, hex};
use picktools_state::{Purpose, StateStore, StoreFailure, StoreReply};
use rmcp::transport::streamable_http_server::session::{
    SessionState, SessionStore, SessionStoreError,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::settings::Mode;

/// The most bytes of a client's handshake or of a definition. Larger values stay at one gateway.
const MAX_BYTES: usize = 64 << 10;
/// The most definitions that are read.
const MAX_JOINED: usize = 256;

/// Writes a field of a session, and extends its life.
const WRITE: &str = "\
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[1])";
/// Reads a field of a session, and extends its life.
const READ: &str = "\
local had = redis.call('HGET', KEYS[1], ARGV[2])
if had then redis.call('PEXPIRE', KEYS[1], ARGV[1]); redis.call('PEXPIRE', KEYS[2], ARGV[1]) end
return had";
/// Adds definitions to the list of a session.
const JOIN: &str = "\
for place = 2, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[place]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])";

/// The tools that a client is shown, as decided at its first list, with the counts in their
/// descriptions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionTools {
    pub(crate) mode: Mode,
    pub(crate) front: [Value; 3],
    /// The tokens of the front tools.
    pub(crate) tokens: usize,
}

/// The sessions of all gateways of a tenant.
#[derive(Clone)]
pub struct Sessions {
    store: StateStore,
    time_ms: String,
}

/// Returns the digest that stands for the secret id of a session.
pub(crate) fn session_digest(session: &str) -> String {
    hex(&digest(session))[..32].to_owned()
}

impl Sessions {
    pub(crate) fn new(store: StateStore, time: Duration) -> Self {
        Self {
            store,
            time_ms: time.as_millis().max(1).to_string(),
        }
    }

    /// Returns the keys of a session's fields, and of the definitions that joined its list.
    fn keys(&self, session: &str) -> [String; 2] {
        let digest = session_digest(session);
        [
            self.store.key(&format!("session:{digest}")),
            self.store.key(&format!("session:{digest}:joined")),
        ]
    }

    async fn write_field(
        &self,
        session: &str,
        name: &'static str,
        value: Vec<u8>,
    ) -> Result<(), StoreFailure> {
        let ([key, _], time) = (self.keys(session), self.time_ms.clone());
        let command = move |store: &StateStore| {
            let values = [time.as_bytes(), name.as_bytes(), &value];
            store.run_script(Purpose::Sessions, WRITE, &[&key], &values)?;
            Ok(())
        };
        self.store.run_async(Purpose::Sessions, command).await
    }

    async fn read_field(
        &self,
        session: &str,
        name: &'static str,
    ) -> Result<Option<Vec<u8>>, StoreFailure> {
        let ([key, joined], time) = (self.keys(session), self.time_ms.clone());
        let command = move |store: &StateStore| {
            store.run_script(
                Purpose::Sessions,
                READ,
                &[&key, &joined],
                &[time.as_bytes(), name.as_bytes()],
            )
        };
        match self.store.run_async(Purpose::Sessions, command).await? {
            StoreReply::Text(bytes) => Ok(Some(bytes)),
            _ => Ok(None),
        }
    }

    /// Records the owner of a session, by the identity of its API key.
    pub fn begin<'a>(&'a self, session: &'a str, identity: &'a str) -> BoxFuture<'a, ()> {
        let begin = async move {
            // If this fails, the session stays at this gateway; the store reports the fault.
            drop(
                self.write_field(session, "guest", identity.as_bytes().to_vec())
                    .await,
            );
        };
        begin.boxed()
    }

    /// Returns `true` if another gateway began the session for this API key. The session's life is
    /// extended.
    pub fn belongs_to<'a>(&'a self, session: &'a str, identity: &'a str) -> BoxFuture<'a, bool> {
        let check = async move {
            let owner = self.read_field(session, "guest").await;
            owner.is_ok_and(|owner| owner.as_deref() == Some(identity.as_bytes()))
        };
        check.boxed()
    }

    /// Records the tools that a session is shown.
    pub(crate) async fn save_tools(&self, session: &str, session_tools: &SessionTools) {
        if let Ok(session_tools) = serde_json::to_vec(session_tools)
            && session_tools.len() <= MAX_BYTES
        {
            drop(self.write_field(session, "shown", session_tools).await);
        }
    }

    /// Returns the tools that a session is shown, if that was decided.
    pub(crate) async fn load_tools(&self, session: &str) -> Option<SessionTools> {
        serde_json::from_slice(&self.read_field(session, "shown").await.ok()??).ok()
    }

    /// Records definitions that joined the list of a session.
    pub(crate) async fn add_definitions(&self, session: &str, joined: &[Value]) {
        let ([_, key], time) = (self.keys(session), self.time_ms.clone());
        let mut definitions = Vec::new();
        for value in joined {
            let definition = value.to_string();
            if definition.len() <= MAX_BYTES {
                definitions.push(definition);
            }
        }
        let command = move |store: &StateStore| {
            let mut values = vec![time.as_bytes()];
            for definition in &definitions {
                values.push(definition.as_bytes());
            }
            store.run_script(Purpose::Sessions, JOIN, &[&key], &values)?;
            Ok(())
        };
        drop(self.store.run_async(Purpose::Sessions, command).await);
    }

    /// Returns the definitions that joined the list of a session at all gateways, in order.
    pub(crate) async fn load_definitions(&self, session: &str) -> Vec<Value> {
        let [_, key] = self.keys(session);
        let last = (MAX_JOINED - 1).to_string();
        let command = move |store: &StateStore| {
            store.execute(
                Purpose::Sessions,
                &[b"LRANGE", key.as_bytes(), b"0", last.as_bytes()],
            )
        };
        let Ok(answer) = self.store.run_async(Purpose::Sessions, command).await else {
            return Vec::new();
        };
        let mut definitions = Vec::new();
        for part in answer.parts() {
            if let Some(text) = part.text()
                && let Ok(definition) = serde_json::from_str(text)
            {
                definitions.push(definition);
            }
        }
        definitions
    }
}

/// The protocol's session store. It never returns an error: the store reports faults itself, and
/// the protocol library would log the secret id of each session.
#[async_trait]
impl SessionStore for Sessions {
    async fn load(&self, session: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let Ok(Some(handshake)) = self.read_field(session, "begun").await else {
            return Ok(None);
        };
        Ok(serde_json::from_slice(&handshake).ok())
    }

    async fn store(&self, session: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        let handshake = serde_json::to_vec(state)?;
        // The handshake of a client that sends too much stays at one gateway.
        if handshake.len() <= MAX_BYTES {
            drop(self.write_field(session, "begun", handshake).await);
        }
        Ok(())
    }

    async fn delete(&self, session: &str) -> Result<(), SessionStoreError> {
        let [key, joined] = self.keys(session);
        let command = move |store: &StateStore| {
            store.execute(
                Purpose::Sessions,
                &[b"DEL", key.as_bytes(), joined.as_bytes()],
            )?;
            Ok(())
        };
        drop(self.store.run_async(Purpose::Sessions, command).await);
        Ok(())
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}
