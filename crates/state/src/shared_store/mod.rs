//! State that several gateways share in a Redis or Valkey server.
//!
//! All keys of a tenant begin with `picktools:{TENANT}:gateway:`. The braces are part of the keys:
//! they keep all keys in one slot of a cluster, and an access rule can name them. Every command has
//! a deadline ([`DEADLINE`]). After a command without a reply, no command is sent for [`PAUSE`], so
//! that a hanging store does not delay every caller. A fault is logged when it begins and when it
//! ends, not for each request. The caller decides what to do without a reply, and must never treat
//! it as a permission.

mod changes;
mod fault;
mod link;
mod reply;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use picktools::selection::{Degraded, Stage};
use tokio::sync::Semaphore;
use tokio::time::timeout;

pub use self::changes::StoreChanges;
use self::fault::Faults;
pub use self::fault::{FaultListener, Purpose, StoreFailure, StoreFault, describe_faults};
use self::link::{ConnectionPool, DEADLINE};
pub use self::reply::StoreReply;
use crate::keys::{digest, hex};
use crate::shared_file::{StateError, create_private_folder};

/// The pause after a command without a reply.
const PAUSE: Duration = Duration::from_secs(1);
/// The most commands at once that run for client requests.
const MAX_CONCURRENT: usize = 16;
/// The most characters of a tenant's name.
const MAX_TENANT: usize = 64;

/// A shared store, as the gateways of one tenant see it. Clones share their connections.
#[derive(Clone)]
pub struct StateStore(Arc<StoreInner>);

struct StoreInner {
    link: Arc<ConnectionPool>,
    /// The address without the password.
    address: String,
    /// The prefix of all keys of the tenant's gateways.
    prefix: String,
    tenant: String,
    /// The folder in which the last seen revisions are saved.
    memory: OnceLock<PathBuf>,
    faults: Arc<Faults>,
    permits: Arc<Semaphore>,
    /// The reports of changes, once a reader waits for them.
    changes: OnceLock<StoreChanges>,
}

impl StateStore {
    /// Opens a store for a tenant: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, or `rediss://`
    /// for TLS. No command is sent yet.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the address is invalid, or the tenant's name is not 1 to 64 of `a-z`,
    /// `0-9` and `-`.
    pub fn open(url: &str, tenant: &str) -> Result<Self, StateError> {
        let invalid = |message: String| StateError {
            path: "the store".into(),
            message,
        };
        let is_allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if tenant.is_empty() || tenant.len() > MAX_TENANT || !tenant.bytes().all(is_allowed) {
            let message = "invalid tenant name: 1 to 64 of the characters a-z, 0-9 and - are \
                           allowed; give another --tenant";
            return Err(invalid(message.to_owned()));
        }
        let (link, address) = ConnectionPool::open(url).map_err(invalid)?;
        Ok(Self(Arc::new(StoreInner {
            link: Arc::new(link),
            address,
            prefix: format!("picktools:{{{tenant}}}:gateway:"),
            tenant: tenant.to_owned(),
            memory: OnceLock::new(),
            faults: Arc::default(),
            permits: Arc::new(Semaphore::new(MAX_CONCURRENT)),
            changes: OnceLock::new(),
        })))
    }

    /// Saves the last seen revisions of approvals and calls in a folder, so that a rollback is also
    /// detected after a restart. The folder is created for its owner only.
    pub fn with_memory(self, folder: impl Into<PathBuf>) -> Self {
        // The first folder wins.
        drop(self.0.memory.set(folder.into()));
        self
    }

    /// Returns the file that saves the last seen revision of a name.
    pub(crate) fn memory_file(&self, name: &str) -> Result<Option<PathBuf>, StateError> {
        let Some(folder) = self.0.memory.get() else {
            return Ok(None);
        };
        create_private_folder(folder)?;
        // Another store is not an older copy of this one.
        let address = &hex(&digest(&self.0.address))[..8];
        Ok(Some(folder.join(format!(
            "store-{address}-{}-{name}.json",
            self.0.tenant
        ))))
    }

    /// Returns the name of the tenant.
    pub fn tenant(&self) -> &str {
        &self.0.tenant
    }

    /// Returns the full name of a key.
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.0.prefix)
    }

    /// Returns the full name of the stream of changes, to which scripts add an entry.
    pub(crate) fn changes_key(&self) -> String {
        self.key("changes")
    }

    /// Returns the reports of changes. The first call starts to wait for them.
    pub fn changes(&self) -> StoreChanges {
        let StoreInner { link, faults, .. } = &*self.0;
        let begin = || StoreChanges::begin(link, faults, self.changes_key());
        self.0.changes.get_or_init(begin).clone()
    }

    /// Reports a change of state to all readers. It blocks like [`Self::execute`].
    ///
    /// # Errors
    ///
    /// [`StoreFailure`] if there is no reply; then readers see the change a few seconds later.
    pub fn report_change(&self, purpose: Purpose) -> Result<(), StoreFailure> {
        let key = self.changes_key();
        let command: [&[u8]; 8] = [
            b"XADD",
            key.as_bytes(),
            b"MAXLEN",
            b"~",
            b"100",
            b"*",
            b"changed",
            purpose.name().as_bytes(),
        ];
        self.execute(purpose, &command).map(drop)
    }

    /// Describes a key for messages.
    pub(crate) fn describe_key(&self, key: &str) -> PathBuf {
        format!("the store {}, key {key}", self.0.address).into()
    }

    /// Sets the listener for faults. The first listener of the process wins.
    pub fn set_fault_listener(&self, listener: Arc<FaultListener>) {
        self.0.faults.set_listener(listener);
    }

    /// Returns the current fault of each purpose that has one.
    pub fn faults(&self) -> Vec<(Purpose, StoreFault)> {
        self.0.faults.current()
    }

    /// Returns the degradation to report with picks, if the store is unreachable or its approvals
    /// or catalog are outdated.
    pub fn degradation(&self) -> Option<Degraded> {
        let mut faults = self.faults();
        let affects_picks = |purpose: Purpose| matches!(purpose, Purpose::Pins | Purpose::Catalog);
        faults.retain(|(purpose, fault)| {
            *fault == StoreFault::Unreachable || affects_picks(*purpose)
        });
        let reason = || {
            format!(
                "{}; the last known tools and approvals stay in use",
                describe_faults(&faults)
            )
        };
        (!faults.is_empty()).then(|| Degraded::new(Stage::Store, reason()))
    }

    /// Reports a fault of the published catalog, or with `None` its end.
    pub fn report_catalog_fault(&self, fault: Option<(StoreFault, String)>) {
        let failure = fault.map(|(fault, cause)| StoreFailure::new(fault, cause));
        self.report_fault(Purpose::Catalog, failure.as_ref());
    }

    /// Reports a fault that no single command caused, or with `None` its end.
    pub fn report_fault(&self, purpose: Purpose, failure: Option<&StoreFailure>) {
        match failure {
            Some(failure) => self
                .0
                .faults
                .begin_fault(purpose, failure, None, &self.0.address),
            None => self.0.faults.end_fault(purpose, &self.0.address),
        }
    }

    /// Sends a command and waits for the reply. It blocks: a thread that serves clients uses
    /// [`Self::run_async`].
    ///
    /// # Errors
    ///
    /// [`StoreFailure`] if there is no reply.
    pub fn execute(&self, purpose: Purpose, command: &[&[u8]]) -> Result<StoreReply, StoreFailure> {
        let faults = &self.0.faults;
        // Each script counts as a command of its own: a permission to read says nothing about a
        // permission to write.
        let name = command.get(usize::from(command.first() == Some(&&b"EVAL"[..])));
        let name = name.map_or("", |name| std::str::from_utf8(name).unwrap_or_default());
        if let Some(failure) = faults.paused() {
            faults.begin_fault(purpose, &failure, Some(name), &self.0.address);
            return Err(failure);
        }
        let answer = self.0.link.execute(command);
        match &answer {
            Ok(_) => faults.record_success(purpose, name, &self.0.address),
            Err(failure) => faults.record_failure(purpose, name, failure, PAUSE, &self.0.address),
        }
        answer
    }

    /// Runs a script, which is atomic. It blocks like [`Self::execute`].
    ///
    /// # Errors
    ///
    /// [`StoreFailure`] if there is no reply.
    pub fn run_script(
        &self,
        purpose: Purpose,
        script: &str,
        keys: &[&str],
        values: &[&[u8]],
    ) -> Result<StoreReply, StoreFailure> {
        let count = keys.len().to_string();
        let mut command: Vec<&[u8]> = vec![b"EVAL", script.as_bytes(), count.as_bytes()];
        command.extend(keys.iter().map(|key| key.as_bytes()));
        command.extend(values);
        self.execute(purpose, &command)
    }

    /// Runs a function that uses the store on another thread, and waits at most half a second.
    ///
    /// # Errors
    ///
    /// [`StoreFailure`] of the function, or if it took too long.
    pub async fn run_async<T: Send + 'static>(
        &self,
        purpose: Purpose,
        function: impl FnOnce(&Self) -> Result<T, StoreFailure> + Send + 'static,
    ) -> Result<T, StoreFailure> {
        let faults = &self.0.faults;
        if let Some(failure) = faults.paused() {
            faults.begin_fault(purpose, &failure, Some(""), &self.0.address);
            return Err(failure);
        }
        let store = self.clone();
        let task = async {
            let permits = Arc::clone(&store.0.permits);
            // The permit is held until the function returns, even if the caller gave up, so that
            // commands do not pile up.
            let Ok(permit) = permits.acquire_owned().await else {
                return Err(StoreFailure::timed_out());
            };
            let store = store.clone();
            let task = tokio::task::spawn_blocking(move || {
                let answer = function(&store);
                drop(permit);
                answer
            });
            task.await.unwrap_or_else(|error| {
                Err(StoreFailure::new(StoreFault::Refused, error.to_string()))
            })
        };
        timeout(DEADLINE, task).await.unwrap_or_else(|_| {
            let failure = StoreFailure::timed_out();
            self.0
                .faults
                .record_failure(purpose, "", &failure, PAUSE, &self.0.address);
            Err(failure)
        })
    }
}

impl std::fmt::Debug for StateStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateStore")
            .field("address", &self.0.address)
            .field("prefix", &self.0.prefix)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreachable_store_is_a_fault_of_each_purpose() {
        let store = StateStore::open("redis://127.0.0.1:1/0", "acme").expect("an address");
        // After the first failure, no command is sent for a while.
        for purpose in [Purpose::Catalog, Purpose::Pins] {
            store
                .execute(purpose, &[b"GET", b"key"])
                .expect_err("nothing listens");
        }
        let unreachable = |purpose| (purpose, StoreFault::Unreachable);
        let mut faults = store.faults();
        faults.sort_by_key(|(purpose, _)| purpose.name());
        assert_eq!(faults, [Purpose::Pins, Purpose::Catalog].map(unreachable));
    }
}
