//! What several gateways share in a store that people already run, Redis or Valkey: how it is
//! asked, and what is told where it does not answer.
//!
//! All keys of a tenant begin with `picktools:{TENANT}:gateway:`. The braces are part of them: by
//! these a cluster keeps them in one slot, and a user of the store can be held to them. A command
//! has a deadline ([`DEADLINE`]). After one that was not answered none is tried for [`PAUSE`], so
//! that a store that hangs holds nobody up again and again. What is wrong is logged when it begins
//! and when it ends, not for each request. Whoever asks decides what follows from no answer; nobody
//! may take it as a yes.

mod fault;
mod link;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use picktools::selection::{Degraded, Stage};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use self::fault::Faults;
pub use self::fault::{Failure, Fault, FaultListener, Purpose, told_in_words};
use self::link::Link;
use crate::keys::{digest, hex};
use crate::shared_file::{StateError, folder_for_owner};

/// How long a command may take.
pub(crate) const DEADLINE: Duration = Duration::from_millis(500);
/// How long nothing is asked after a command that was not answered.
const PAUSE: Duration = Duration::from_secs(1);
/// The most commands at once that requests of clients wait for.
const PLACES: usize = 16;
/// The most characters of a tenant's name.
const MAX_TENANT: usize = 64;

/// A store that gateways of one tenant share. Clones are one connection.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    link: Link,
    /// Where it is, without a password.
    address: String,
    /// What the keys of the tenant's gateways begin with.
    prefix: String,
    tenant: String,
    /// Where is remembered what was seen of it.
    memory: OnceLock<PathBuf>,
    faults: Faults,
    places: Arc<Semaphore>,
}

/// An answer of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// There is nothing.
    Nothing,
    /// A number.
    Number(i64),
    /// A text, or any bytes.
    Text(Vec<u8>),
    /// Several.
    List(Vec<Self>),
}

impl Answer {
    /// Returns the text, where it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Returns the parts of a list; none where it is something else.
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::List(parts) => parts,
            _ => &[],
        }
    }
}

impl Store {
    /// Names a store and a tenant in it: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, or
    /// `rediss://` for TLS. Nothing is asked yet.
    ///
    /// # Errors
    ///
    /// [`StateError`] when the address cannot be read, the tenant is not 1 to 64 of `a-z`, `0-9`
    /// and `-`, or the program was built without the feature `redis`.
    pub fn open(url: &str, tenant: &str) -> Result<Self, StateError> {
        let refused = |message: String| StateError {
            path: "the store".into(),
            message,
        };
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if tenant.is_empty() || tenant.len() > MAX_TENANT || !tenant.bytes().all(is_name) {
            let message = "is for a tenant whose name has 1 to 64 of the characters a-z, 0-9 and -; give another --tenant";
            return Err(refused(message.to_owned()));
        }
        let (link, address) = Link::open(url).map_err(refused)?;
        Ok(Self(Arc::new(Inner {
            link,
            address,
            prefix: format!("picktools:{{{tenant}}}:gateway:"),
            tenant: tenant.to_owned(),
            memory: OnceLock::new(),
            faults: Faults::default(),
            places: Arc::new(Semaphore::new(PLACES)),
        })))
    }

    /// Remembers in a folder what was last seen of approvals and calls that wait, so that it is
    /// noticed after a restart too that the store came back with an older copy. The folder is made
    /// where it is not there, for its owner alone.
    pub fn remembers(self, folder: impl Into<PathBuf>) -> Self {
        // Whoever says so first.
        drop(self.0.memory.set(folder.into()));
        self
    }

    /// The file in which is remembered what was seen under a name.
    pub(crate) fn memory(&self, name: &str) -> Result<Option<PathBuf>, StateError> {
        let Some(folder) = self.0.memory.get() else {
            return Ok(None);
        };
        folder_for_owner(folder)?;
        // Another store is no older copy of this one.
        let address = &hex(&digest(&self.0.address))[..8];
        Ok(Some(folder.join(format!(
            "store-{address}-{}-{name}.json",
            self.0.tenant
        ))))
    }

    /// Returns the name of the tenant whose it is.
    pub fn tenant(&self) -> &str {
        &self.0.tenant
    }

    /// Returns the whole name of a key.
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.0.prefix)
    }

    /// Where a key lies, for messages.
    pub(crate) fn place(&self, key: &str) -> PathBuf {
        format!("the store {}, key {key}", self.0.address).into()
    }

    /// Tells from now on what happens to it. The first listener of the process is told.
    pub fn tell(&self, listener: Arc<FaultListener>) {
        self.0.faults.tell(listener);
    }

    /// Returns what is wrong, for each purpose for which something is.
    pub fn faults(&self) -> Vec<(Purpose, Fault)> {
        self.0.faults.all()
    }

    /// Returns what stands in for it in picks, if it does not answer or approvals are not those
    /// that there were.
    pub fn stands_in(&self) -> Option<Degraded> {
        let mut faults = self.faults();
        let counts = |purpose: Purpose| matches!(purpose, Purpose::Pins | Purpose::Catalog);
        faults.retain(|(purpose, fault)| *fault == Fault::Away || counts(*purpose));
        let reason = || {
            format!(
                "{}; tools and approvals are those that were read last",
                told_in_words(&faults)
            )
        };
        (!faults.is_empty()).then(|| Degraded::new(Stage::Store, reason()))
    }

    /// Notes what is wrong with the catalog that was published there, for whoever follows that:
    /// nothing any more for `None`.
    pub fn catalog_fault(&self, fault: Option<(Fault, String)>) {
        let failure = fault.map(|(fault, why)| Failure::new(fault, why));
        self.note(Purpose::Catalog, failure.as_ref());
    }

    /// Notes that for a purpose something is wrong that is not about one command, or no longer is.
    pub fn note(&self, purpose: Purpose, failure: Option<&Failure>) {
        match failure {
            Some(failure) => self.0.faults.begin(purpose, failure, None, &self.0.address),
            None => self.0.faults.ended(purpose, &self.0.address),
        }
    }

    /// Asks, and waits for the answer. It blocks: a thread that serves clients uses [`Self::soon`].
    ///
    /// # Errors
    ///
    /// [`Failure`], why there is none.
    pub fn ask(&self, purpose: Purpose, command: &[&[u8]]) -> Result<Answer, Failure> {
        let faults = &self.0.faults;
        if let Some(failure) = faults.paused() {
            return Err(failure);
        }
        let answer = self.0.link.ask(command);
        // Of scripts each is a command of its own: that one may read says nothing of whether
        // another may write.
        let name = command.get(usize::from(command.first() == Some(&&b"EVAL"[..])));
        let name = name.map_or("", |name| std::str::from_utf8(name).unwrap_or_default());
        match &answer {
            Ok(_) => faults.answered(purpose, name, &self.0.address),
            Err(failure) => faults.failed(purpose, name, failure, PAUSE, &self.0.address),
        }
        answer
    }

    /// Runs a script, which is done whole or not at all. It blocks too.
    ///
    /// # Errors
    ///
    /// [`Failure`], why there is no answer.
    pub fn run(
        &self,
        purpose: Purpose,
        script: &str,
        keys: &[&str],
        values: &[&[u8]],
    ) -> Result<Answer, Failure> {
        let count = keys.len().to_string();
        let mut command: Vec<&[u8]> = vec![b"EVAL", script.as_bytes(), count.as_bytes()];
        command.extend(keys.iter().map(|key| key.as_bytes()));
        command.extend(values);
        self.ask(purpose, &command)
    }

    /// Does something with the store elsewhere, and waits no longer than half a second for it.
    ///
    /// # Errors
    ///
    /// [`Failure`] of `ask`, or when it took too long.
    pub async fn soon<T: Send + 'static>(
        &self,
        purpose: Purpose,
        ask: impl FnOnce(&Self) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        if let Some(failure) = self.0.faults.paused() {
            return Err(failure);
        }
        let store = self.clone();
        let asked = async {
            let places = Arc::clone(&store.0.places);
            // It is held until the answer is there, whoever waits for it, so that questions do not
            // pile up.
            let Ok(place) = places.acquire_owned().await else {
                return Err(Failure::late());
            };
            let store = store.clone();
            let asked = tokio::task::spawn_blocking(move || {
                let answer = ask(&store);
                drop(place);
                answer
            });
            asked
                .await
                .unwrap_or_else(|error| Err(Failure::new(Fault::Refused, error.to_string())))
        };
        timeout(DEADLINE, asked).await.unwrap_or_else(|_| {
            let failure = Failure::late();
            self.0
                .faults
                .failed(purpose, "", &failure, PAUSE, &self.0.address);
            Err(failure)
        })
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("address", &self.0.address)
            .field("prefix", &self.0.prefix)
            .finish_non_exhaustive()
    }
}
