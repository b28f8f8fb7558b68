//! Sessions that may go on at another gateway: whose each is, how its client began it, and what it
//! was shown.
//!
//! A session's key has the digest of its id, as whoever knows an id and has its key may use the
//! session. It lives as long as a session without requests does. Where the store does not answer, a
//! gateway knows its own sessions alone.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use picktools_state::keys::{digest, hex};
use picktools_state::{Answer, Failure, Purpose, Store};
use rmcp::transport::streamable_http_server::session::{
    SessionState, SessionStore, SessionStoreError,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::settings::Mode;

/// The most bytes of what a client says of itself, and of a definition that it was shown; what has
/// more stays at one gateway.
const MAX_BYTES: usize = 64 << 10;
/// The most definitions that are read.
const MAX_JOINED: usize = 256;

/// Writes what a session has, and lets it live on.
const WRITE: &str = "\
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[1])";
/// Reads what a session has, and lets it live on.
const READ: &str = "\
local had = redis.call('HGET', KEYS[1], ARGV[2])
if had then redis.call('PEXPIRE', KEYS[1], ARGV[1]); redis.call('PEXPIRE', KEYS[2], ARGV[1]) end
return had";
/// Adds definitions to those that a session is shown.
const JOIN: &str = "\
for place = 2, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[place]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])";

/// What a client is shown, once that was decided, with the counts that its descriptions tell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shown {
    pub(crate) mode: Mode,
    pub(crate) front: [Value; 3],
    /// What these cost.
    pub(crate) tokens: usize,
}

/// The sessions of all gateways of a tenant.
#[derive(Clone)]
pub struct Sessions {
    store: Store,
    time_ms: String,
}

/// What stands for the id of a session, which is secret.
pub(crate) fn digest_of(session: &str) -> String {
    hex(&digest(session))[..32].to_owned()
}

impl Sessions {
    pub(crate) fn new(store: Store, time: Duration) -> Self {
        Self {
            store,
            time_ms: time.as_millis().max(1).to_string(),
        }
    }

    /// The keys of what is said of a session, and of the definitions that joined its list.
    fn keys(&self, session: &str) -> [String; 2] {
        let digest = digest_of(session);
        [
            self.store.key(&format!("session:{digest}")),
            self.store.key(&format!("session:{digest}:joined")),
        ]
    }

    async fn write(
        &self,
        session: &str,
        name: &'static str,
        value: Vec<u8>,
    ) -> Result<(), Failure> {
        let ([key, _], time) = (self.keys(session), self.time_ms.clone());
        let write = move |store: &Store| {
            store
                .run(
                    Purpose::Sessions,
                    WRITE,
                    &[&key],
                    &[time.as_bytes(), name.as_bytes(), &value],
                )
                .map(drop)
        };
        self.store.soon(Purpose::Sessions, write).await
    }

    async fn read(&self, session: &str, name: &'static str) -> Result<Option<Vec<u8>>, Failure> {
        let ([key, joined], time) = (self.keys(session), self.time_ms.clone());
        let read = move |store: &Store| {
            store.run(
                Purpose::Sessions,
                READ,
                &[&key, &joined],
                &[time.as_bytes(), name.as_bytes()],
            )
        };
        match self.store.soon(Purpose::Sessions, read).await? {
            Answer::Text(bytes) => Ok(Some(bytes)),
            _ => Ok(None),
        }
    }

    /// Notes whose a session is, by the digest of who that is.
    pub fn begin<'a>(&'a self, session: &'a str, guest: &'a str) -> BoxFuture<'a, ()> {
        let begin = async move {
            // Where it cannot be noted, the session stays at this gateway; the store tells why.
            drop(
                self.write(session, "guest", guest.as_bytes().to_vec())
                    .await,
            );
        };
        begin.boxed()
    }

    /// Returns `true` if a session that another gateway began is this guest's. It lives on then.
    pub fn is_of<'a>(&'a self, session: &'a str, guest: &'a str) -> BoxFuture<'a, bool> {
        let is_of = async move {
            matches!(self.read(session, "guest").await, Ok(Some(of)) if of == guest.as_bytes())
        };
        is_of.boxed()
    }

    /// Notes what a session is shown.
    pub(crate) async fn show(&self, session: &str, shown: &Shown) {
        if let Ok(shown) = serde_json::to_vec(shown)
            && shown.len() <= MAX_BYTES
        {
            drop(self.write(session, "shown", shown).await);
        }
    }

    /// What a session is shown, where that was decided.
    pub(crate) async fn shown(&self, session: &str) -> Option<Shown> {
        serde_json::from_slice(&self.read(session, "shown").await.ok()??).ok()
    }

    /// Notes which definitions joined the list of a session.
    pub(crate) async fn join(&self, session: &str, joined: &[Value]) {
        let ([_, key], time) = (self.keys(session), self.time_ms.clone());
        let joined: Vec<String> = joined
            .iter()
            .map(Value::to_string)
            .filter(|definition| definition.len() <= MAX_BYTES)
            .collect();
        let join = move |store: &Store| {
            let mut values = vec![time.as_bytes()];
            values.extend(joined.iter().map(String::as_bytes));
            store
                .run(Purpose::Sessions, JOIN, &[&key], &values)
                .map(drop)
        };
        drop(self.store.soon(Purpose::Sessions, join).await);
    }

    /// The definitions that joined the list of a session at all gateways, in the order in which
    /// they came.
    pub(crate) async fn joined(&self, session: &str) -> Vec<Value> {
        let [_, key] = self.keys(session);
        let last = (MAX_JOINED - 1).to_string();
        let read = move |store: &Store| {
            store.ask(
                Purpose::Sessions,
                &[b"LRANGE", key.as_bytes(), b"0", last.as_bytes()],
            )
        };
        let Ok(answer) = self.store.soon(Purpose::Sessions, read).await else {
            return Vec::new();
        };
        let definitions = answer.parts().iter().filter_map(Answer::text);
        definitions
            .filter_map(|text| serde_json::from_str(text).ok())
            .collect()
    }
}

/// What the protocol keeps. It is never told of a failure: the store tells that once, and the
/// protocol would log the id of each session, which is secret.
#[async_trait]
impl SessionStore for Sessions {
    async fn load(&self, session: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let begun = self.read(session, "begun").await.ok().flatten();
        Ok(begun.and_then(|begun| serde_json::from_slice(&begun).ok()))
    }

    async fn store(&self, session: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        let begun = serde_json::to_vec(state)?;
        // Who says too much of itself stays at one gateway.
        if begun.len() <= MAX_BYTES {
            drop(self.write(session, "begun", begun).await);
        }
        Ok(())
    }

    async fn delete(&self, session: &str) -> Result<(), SessionStoreError> {
        let [key, joined] = self.keys(session);
        let delete = move |store: &Store| {
            store
                .ask(
                    Purpose::Sessions,
                    &[b"DEL", key.as_bytes(), joined.as_bytes()],
                )
                .map(drop)
        };
        drop(self.store.soon(Purpose::Sessions, delete).await);
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
