//! State that several gateways read and change: in a file of this machine, or in a shared store.
//!
//! In a store the state is one hash. `revision` is a change number and a random word; `data` is
//! JSON, which also lists the previous revisions. A change is written only if the revision is still
//! the one that was read. If two gateways change the state at the same time, one of them starts
//! again from the other's version, so no change is lost.
//!
//! The previous revisions also reveal a rollback: the store came back with an older copy if the
//! last seen revision is not among them. A rollback is logged as an error. The lost version is
//! saved in `aside`, and [`SharedState::on_rollback`] decides how the state reacts.

use std::fmt;
use std::fs;
use std::io;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::changes::StateLocation;
use crate::keys::{now, random};
use crate::lock::lock;
use crate::shared_file::{FileStamp, SharedFile, StateError, write_private_file};
use crate::shared_store::{Purpose, StateStore, StoreFailure, StoreFault, StoreReply};

/// The number of previous revisions that are kept. A gateway that missed more changes than this
/// cannot tell the store from another one.
const MAX_PREVIOUS_REVISIONS: usize = 256;
/// The most attempts at a change while other gateways change the state too.
const MAX_ATTEMPTS: u32 = 32;
/// The hexadecimal digits of a revision's random word.
const WORD_DIGITS: usize = 8;
/// The revision of a state that nobody has written yet.
const NO_REVISION: &str = "0";

/// Writes the state if the revision is still the expected one, and returns the current revision.
/// After a rollback it also saves the newest lost version. A user without the permission to report
/// the change may still make it.
const WRITE: &str = "\
local now = redis.call('HGET', KEYS[1], 'revision') or '0'
if now ~= ARGV[1] then return now end
redis.call('HSET', KEYS[1], 'revision', ARGV[2], 'data', ARGV[3])
if ARGV[4] ~= '' then
  local before = redis.call('HGET', KEYS[1], 'aside_number') or '0'
  if tonumber(ARGV[4]) > (tonumber(before) or 0) then
    redis.call('HSET', KEYS[1], 'aside_number', ARGV[4], 'aside', ARGV[5])
  end
end
redis.pcall('XADD', KEYS[2], 'MAXLEN', '~', 100, '*', 'changed', ARGV[6])
return ARGV[2]";

/// State that can be shared between gateways.
pub trait SharedState: Clone + Default + PartialEq + Serialize + DeserializeOwned {
    /// Withdraws trust from an older copy after a rollback.
    fn on_rollback(&mut self, rollback: &StoreRollback);

    /// Returns the rollback that no operator has resolved yet.
    fn rollback(&self) -> Option<&StoreRollback>;
}

/// A rollback: a store came back with an older copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StoreRollback {
    /// The time at which it was detected, in seconds since 1970.
    pub at: u64,
    /// The number of the last change that was known before.
    #[serde(rename = "known")]
    pub known_change: u64,
    /// The number of the last change in the older copy.
    #[serde(rename = "found")]
    pub found_change: u64,
}

/// A stamp that differs after every change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateStamp {
    /// The stamp of a file; `None` if the file does not exist.
    File(Option<FileStamp>),
    /// The revision in a store.
    Store(String),
}

/// State in a file of this machine, or in a shared store.
#[derive(Debug, Clone)]
pub enum StateHandle<T> {
    /// In a file.
    File(SharedFile<T>),
    /// In a shared store.
    Store(StoreHash<T>),
}

impl<T: SharedState> StateHandle<T> {
    /// Creates an error that names the location of the state.
    pub fn error(&self, message: impl Into<String>) -> StateError {
        match self {
            Self::File(file) => file.error(message),
            Self::Store(stored) => stored.error(message),
        }
    }

    /// Reads the state.
    ///
    /// # Errors
    ///
    /// [`StateError`] if it cannot be read or is invalid.
    pub fn read(&self) -> Result<T, StateError> {
        match self {
            Self::File(file) => file.read(),
            Self::Store(stored) => stored.read(),
        }
    }

    /// Returns the current stamp without reading the whole state. If a store does not reply, the
    /// last seen revision is returned.
    pub fn stamp(&self) -> StateStamp {
        match self {
            Self::File(file) => StateStamp::File(file.stamp()),
            Self::Store(stored) => StateStamp::Store(stored.revision()),
        }
    }

    /// Returns the location, for reports of changes.
    pub fn location(&self) -> StateLocation {
        match self {
            Self::File(file) => StateLocation::File(file.path()),
            Self::Store(stored) => StateLocation::Store(stored.store.clone()),
        }
    }

    /// Returns the current time in seconds since 1970, which all users of the state share: of this
    /// machine for a file, of the store for a store.
    ///
    /// # Errors
    ///
    /// [`StateError`] if a store does not tell its time.
    pub fn now(&self) -> Result<u64, StateError> {
        match self {
            Self::File(_) => Ok(now()),
            Self::Store(stored) => stored.now(),
        }
    }

    /// Changes the state while others may change it too. `change` runs again if another process
    /// wrote first.
    ///
    /// # Errors
    ///
    /// [`StateError`] with the message of `change`, or if the state cannot be read or written.
    pub fn change<U>(
        &self,
        change: impl FnMut(&mut T) -> Result<U, String>,
    ) -> Result<U, StateError> {
        Ok(self.change_and_stamp(change)?.0)
    }

    /// Changes the state, and returns the stamp after the change. A different stamp later means
    /// that another process changed it.
    ///
    /// # Errors
    ///
    /// See [`Self::change`].
    pub fn change_and_stamp<U>(
        &self,
        change: impl FnMut(&mut T) -> Result<U, String>,
    ) -> Result<(U, StateStamp), StateError> {
        match self {
            Self::File(file) => {
                let (result, stamp) = file.change_and_stamp(change)?;
                Ok((result, StateStamp::File(stamp)))
            }
            Self::Store(stored) => {
                let (result, revision) = stored.change(change)?;
                Ok((result, StateStamp::Store(revision)))
            }
        }
    }

    /// Returns the version that a store lost in a rollback, if one is saved.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the store does not reply or the saved version is invalid.
    pub fn lost_version(&self) -> Result<Option<T>, StateError> {
        match self {
            Self::File(_) => Ok(None),
            Self::Store(stored) => stored.lost_version(),
        }
    }
}

/// State in one hash of a shared store.
pub struct StoreHash<T> {
    store: StateStore,
    purpose: Purpose,
    key: String,
    version: u32,
    /// The state that any clone read or wrote last. The lock is held during a command, so that an
    /// older reply cannot overwrite a newer one.
    last_seen: Arc<Mutex<LastSeenRevision>>,
    state: PhantomData<fn() -> T>,
}

impl<T> Clone for StoreHash<T> {
    fn clone(&self) -> Self {
        let Self {
            store,
            purpose,
            key,
            version,
            last_seen,
            ..
        } = self;
        let (store, key, last_seen) = (store.clone(), key.clone(), Arc::clone(last_seen));
        Self {
            store,
            purpose: *purpose,
            key,
            version: *version,
            last_seen,
            state: PhantomData,
        }
    }
}

impl<T> fmt::Debug for StoreHash<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreHash")
            .field("store", &self.store)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// The last seen revision of a key. A gateway that saves it in a file also detects a rollback that
/// happened while it was down.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LastSeenRevision {
    /// Empty if nothing was seen yet.
    revision: String,
    data: String,
    /// The detected rollback, until it is written to the store.
    #[serde(skip)]
    rollback: Option<StoreRollback>,
    /// The file in which it is saved.
    #[serde(skip)]
    file: Option<PathBuf>,
}

impl LastSeenRevision {
    /// Reads the revision that was saved before this process started.
    fn open(file: Option<PathBuf>) -> Result<Self, StateError> {
        let Some(path) = file else {
            return Ok(Self::default());
        };
        let invalid = |cause: &dyn fmt::Display| {
            let remedy = "remove it if the store has certainly not been rolled back";
            StateError {
                path: path.clone(),
                message: format!("cannot be read: {cause}; {remedy}"),
            }
        };
        let mut last_seen = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| invalid(&error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            Err(error) => return Err(invalid(&error)),
        };
        last_seen.file = Some(path);
        Ok(last_seen)
    }

    /// Remembers the current revision.
    fn update(&mut self, revision: &str, data: String) {
        let is_other = self.revision != revision;
        (self.revision, self.data, self.rollback) = (revision.to_owned(), data, None);
        if let Some(path) = &self.file
            && is_other
        {
            let written = serde_json::to_vec(self)
                .map_err(|error| error.to_string())
                .and_then(|text| {
                    write_private_file(path, &text).map_err(|error| error.to_string())
                });
            if let Err(cause) = written {
                let path = path.display();
                tracing::warn!(
                    target: "picktools::store", %path, %cause,
                    "cannot save the last seen revision of the store"
                );
            }
        }
    }
}

/// The content of a hash.
#[derive(Clone, Serialize, Deserialize)]
struct RevisionedState<T> {
    version: u32,
    /// The previous revisions, the latest last.
    #[serde(rename = "before")]
    previous_revisions: Vec<String>,
    #[serde(flatten)]
    state: T,
}

/// Returns the change number of a revision.
fn change_number(revision: &str) -> u64 {
    let number = revision.split(':').next().unwrap_or_default();
    number.parse().unwrap_or(0)
}

impl<T: SharedState> StoreHash<T> {
    /// Opens the state under a name, and reads it once so that foreign data is reported
    /// immediately.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the store does not reply, or the key holds foreign data.
    pub fn open(
        store: &StateStore,
        purpose: Purpose,
        name: &str,
        version: u32,
    ) -> Result<Self, StateError> {
        let (key, last_seen) = (
            store.key(name),
            LastSeenRevision::open(store.memory_file(name)?)?,
        );
        let last_seen = Arc::new(Mutex::new(last_seen));
        let stored = Self {
            store: store.clone(),
            purpose,
            key,
            version,
            last_seen,
            state: PhantomData,
        };
        stored.read()?;
        Ok(stored)
    }

    fn error(&self, message: impl Into<String>) -> StateError {
        StateError {
            path: self.store.describe_key(&self.key),
            message: message.into(),
        }
    }

    fn store_error(&self, failure: &StoreFailure) -> StateError {
        self.error(failure.to_string())
    }

    /// Reports that the key holds data that no gateway wrote.
    fn foreign_data(&self, cause: &dyn fmt::Display) -> StateError {
        let failure = StoreFailure::new(StoreFault::Foreign, format!("invalid data ({cause})"));
        self.store.report_fault(self.purpose, Some(&failure));
        self.store_error(&failure)
    }

    fn read(&self) -> Result<T, StateError> {
        let mut last_seen = lock(&self.last_seen);
        let (_, mut content) = self.fetch(&mut last_seen)?;
        if let Some(rollback) = last_seen.rollback.clone() {
            content.state.on_rollback(&rollback);
            // The rollback is written so that gateways that start later know of it. This gateway
            // knows of it even if the write fails.
            drop(last_seen);
            drop(self.change(|_| Ok(())));
        }
        Ok(content.state)
    }

    /// Returns the time of the store.
    fn now(&self) -> Result<u64, StateError> {
        let answer = self.store.execute(self.purpose, &[b"TIME"]);
        let answer = answer.map_err(|failure| self.store_error(&failure))?;
        let seconds = answer.parts().first().and_then(StoreReply::text);
        seconds
            .and_then(|seconds| seconds.parse().ok())
            .ok_or_else(|| self.error("the store does not tell its time"))
    }

    fn revision(&self) -> String {
        let answer = self
            .store
            .execute(self.purpose, &[b"HGET", self.key.as_bytes(), b"revision"]);
        match answer {
            Ok(answer) => answer.text().unwrap_or(NO_REVISION).to_owned(),
            Err(_) => lock(&self.last_seen).revision.clone(),
        }
    }

    /// Reads the current state, and detects a rollback.
    fn fetch(
        &self,
        last_seen: &mut LastSeenRevision,
    ) -> Result<(String, RevisionedState<T>), StateError> {
        let command: [&[u8]; 4] = [b"HMGET", self.key.as_bytes(), b"revision", b"data"];
        let answer = self
            .store
            .execute(self.purpose, &command)
            .map_err(|failure| self.store_error(&failure))?;
        let (revision, data, content) = match answer.parts() {
            [StoreReply::Nothing, StoreReply::Nothing] => (
                NO_REVISION.to_owned(),
                String::new(),
                RevisionedState {
                    version: self.version,
                    previous_revisions: Vec::new(),
                    state: T::default(),
                },
            ),
            [revision, data] => {
                let (Some(revision), Some(data)) = (revision.text(), data.text()) else {
                    return Err(self.foreign_data(&"the revision or the data is missing"));
                };
                let content: RevisionedState<T> =
                    serde_json::from_str(data).map_err(|error| self.foreign_data(&error))?;
                if content.version != self.version {
                    return Err(self.error(format!(
                        "unsupported version {}, expected {}; use the program that wrote it",
                        content.version, self.version
                    )));
                }
                (revision.to_owned(), data.to_owned(), content)
            }
            _ => return Err(self.foreign_data(&"unexpected reply to HMGET")),
        };
        let is_known = last_seen.revision.is_empty()
            || last_seen.revision == NO_REVISION
            || last_seen.revision == revision
            || content.previous_revisions.contains(&last_seen.revision);
        if !is_known {
            let rollback = StoreRollback {
                at: now(),
                known_change: change_number(&last_seen.revision),
                found_change: change_number(&revision),
            };
            self.report_rollback(Some(&rollback));
            // `last_seen` keeps the version before the rollback until that version is saved in the
            // store.
            last_seen.rollback.get_or_insert(rollback);
            return Ok((revision, content));
        }
        self.report_rollback(content.state.rollback());
        last_seen.update(&revision, data);
        Ok((revision, content))
    }

    /// Reports an unresolved rollback, or that there is none.
    fn report_rollback(&self, rollback: Option<&StoreRollback>) {
        let failure = rollback.map(
            |StoreRollback {
                 known_change,
                 found_change,
                 ..
             }| {
                StoreFailure::new(
                    StoreFault::RolledBack,
                    format!(
                        "the store was rolled back: change {known_change} was known, but its last \
                     change is {found_change}; decisions between them are missing, and new \
                     definitions are quarantined"
                    ),
                )
            },
        );
        self.store.report_fault(self.purpose, failure.as_ref());
    }

    fn change<U>(
        &self,
        mut change: impl FnMut(&mut T) -> Result<U, String>,
    ) -> Result<(U, String), StateError> {
        for attempt in 0..MAX_ATTEMPTS {
            let mut last_seen = lock(&self.last_seen);
            let (revision, current) = self.fetch(&mut last_seen)?;
            let mut state = current.state.clone();
            if let Some(rollback) = &last_seen.rollback {
                state.on_rollback(rollback);
            }
            let result = change(&mut state).map_err(|message| self.error(message))?;
            if state == current.state && last_seen.rollback.is_none() {
                return Ok((result, revision));
            }
            let rollback = state.rollback().cloned();
            let mut previous_revisions = current.previous_revisions;
            previous_revisions.push(revision.clone());
            let surplus = previous_revisions
                .len()
                .saturating_sub(MAX_PREVIOUS_REVISIONS);
            previous_revisions.drain(..surplus);
            let data = serde_json::to_string(&RevisionedState {
                version: self.version,
                previous_revisions,
                state,
            });
            let data = data.map_err(|error| self.error(error.to_string()))?;
            let word =
                random().map_err(|error| self.error(format!("no random numbers: {error}")))?;
            // A change number that was known before is never used again.
            let number = change_number(&revision)
                .max(change_number(&last_seen.revision))
                .saturating_add(1);
            let next = format!("{number}:{}", &word[..WORD_DIGITS]);
            let lost_change = last_seen
                .rollback
                .as_ref()
                .map(|rollback| rollback.known_change.to_string())
                .unwrap_or_default();
            let changes_key = self.store.changes_key();
            let values: [&[u8]; 6] = [
                revision.as_bytes(),
                next.as_bytes(),
                data.as_bytes(),
                lost_change.as_bytes(),
                last_seen.data.as_bytes(),
                self.purpose.name().as_bytes(),
            ];
            let keys = [self.key.as_str(), changes_key.as_str()];
            let answer = self.store.run_script(self.purpose, WRITE, &keys, &values);
            let answer = answer.map_err(|failure| self.store_error(&failure))?;
            if answer.text() == Some(&next) {
                last_seen.update(&next, data);
                self.report_rollback(rollback.as_ref());
                return Ok((result, next));
            }
            drop(last_seen);
            // Another gateway wrote first.
            std::thread::sleep(Duration::from_millis(
                u64::from(attempt % 8) + u64::from(word.as_bytes()[0] % 8),
            ));
        }
        Err(self.error("too many concurrent changes; try again"))
    }

    fn lost_version(&self) -> Result<Option<T>, StateError> {
        let answer = self
            .store
            .execute(self.purpose, &[b"HGET", self.key.as_bytes(), b"aside"]);
        let answer = answer.map_err(|failure| self.store_error(&failure))?;
        let Some(data) = answer.text() else {
            return Ok(None);
        };
        let content: RevisionedState<T> =
            serde_json::from_str(data).map_err(|error| self.foreign_data(&error))?;
        Ok(Some(content.state))
    }
}
