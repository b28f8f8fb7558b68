//! What several gateways read and change: in a file of this machine, or in a store.
//!
//! In a store it lies in one hash: `revision`, a number and a random word, and `data`, JSON, in
//! which the revisions before stand too. A change is written only where the revision is still the
//! one that was read, so of two at once one begins again with what the other wrote, and none is
//! lost. By the revisions before is noticed that a store came back with an older copy: what was
//! seen last is then not among them. That is told loudly, what was lost is put aside in `aside`,
//! and [`Keeps::was_lost`] says what follows from it.

use std::fmt;
use std::fs;
use std::io;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::keys::{now, random};
use crate::lock::lock;
use crate::shared_file::{FileStamp, SharedFile, StateError, write_for_owner};
use crate::shared_store::{Answer, Failure, Fault, Purpose, Store};

/// How many revisions before are remembered: a gateway that missed more than these takes the store
/// for another one.
const MAX_BEFORE: usize = 256;
/// How often a change is tried again that others were quicker than.
const TRIES: u32 = 32;
/// The hexadecimal digits of a revision's random word.
const WORD: usize = 8;
/// The revision of what nobody has written yet.
const NONE: &str = "0";

/// Writes where nobody else has written: tells which revision there is then. What was lost is put
/// aside, the latest of it.
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
return ARGV[2]";

/// State that can be kept so.
pub trait Keeps: Clone + Default + PartialEq + Serialize + DeserializeOwned {
    /// Takes back what must not be believed of an older copy.
    fn was_lost(&mut self, lost: &Lost);

    /// Returns what of that nobody has seen to yet.
    fn lost(&self) -> Option<&Lost>;
}

/// That a store came back with an older copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Lost {
    /// When that was noticed, in seconds since 1970.
    pub at: u64,
    /// The number of the last change that was known before.
    pub known: u64,
    /// The number of the last change that the copy has.
    pub found: u64,
}

/// The sign by which is told that somebody has changed something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stamp {
    /// That of a file; `None` where it is not there.
    File(Option<FileStamp>),
    /// The revision in a store.
    Store(String),
}

/// State that lies in a file of this machine, or in a store.
#[derive(Debug, Clone)]
pub enum Shared<T> {
    /// In a file.
    File(SharedFile<T>),
    /// In a store.
    Store(Stored<T>),
}

impl<T: Keeps> Shared<T> {
    /// Tells what is wrong with it, and where it lies.
    pub fn error(&self, message: impl Into<String>) -> StateError {
        match self {
            Self::File(file) => file.error(message),
            Self::Store(stored) => stored.error(message),
        }
    }

    /// Reads it.
    ///
    /// # Errors
    ///
    /// [`StateError`] when it cannot be read, or is not whole.
    pub fn read(&self) -> Result<T, StateError> {
        match self {
            Self::File(file) => file.read(),
            Self::Store(stored) => stored.read(),
        }
    }

    /// Returns what is told of it without reading all of it. A store that does not answer has not
    /// changed.
    pub fn stamp(&self) -> Stamp {
        match self {
            Self::File(file) => Stamp::File(file.stamp()),
            Self::Store(stored) => Stamp::Store(stored.revision()),
        }
    }

    /// Changes it, as one of several who do. What `change` does it may have to do again, with what
    /// another wrote meanwhile.
    ///
    /// # Errors
    ///
    /// [`StateError`] with what `change` says, or when it cannot be read or written.
    pub fn change<U>(
        &self,
        change: impl FnMut(&mut T) -> Result<U, String>,
    ) -> Result<U, StateError> {
        Ok(self.change_and_stamp(change)?.0)
    }

    /// Changes it, and tells how to know when somebody else has changed it after that.
    ///
    /// # Errors
    ///
    /// See [`Self::change`].
    pub fn change_and_stamp<U>(
        &self,
        change: impl FnMut(&mut T) -> Result<U, String>,
    ) -> Result<(U, Stamp), StateError> {
        match self {
            Self::File(file) => file
                .change_and_stamp(change)
                .map(|(changed, stamp)| (changed, Stamp::File(stamp))),
            Self::Store(stored) => stored
                .change(change)
                .map(|(changed, revision)| (changed, Stamp::Store(revision))),
        }
    }

    /// Returns what a store had and came back without, where something is put aside.
    ///
    /// # Errors
    ///
    /// [`StateError`] when the store does not answer, or it is not whole.
    pub fn aside(&self) -> Result<Option<T>, StateError> {
        match self {
            Self::File(_) => Ok(None),
            Self::Store(stored) => stored.aside(),
        }
    }
}

/// State that lies in a store.
pub struct Stored<T> {
    store: Store,
    purpose: Purpose,
    key: String,
    version: u32,
    /// What was read or written last by any clone. It is held while the store is asked, so that
    /// what is older is not noted last.
    seen: Arc<Mutex<Seen>>,
    holds: PhantomData<fn() -> T>,
}

impl<T> Clone for Stored<T> {
    fn clone(&self) -> Self {
        let Self {
            store,
            purpose,
            key,
            version,
            seen,
            ..
        } = self;
        let (store, key, seen) = (store.clone(), key.clone(), Arc::clone(seen));
        Self {
            store,
            purpose: *purpose,
            key,
            version: *version,
            seen,
            holds: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Stored<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored")
            .field("store", &self.store)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// What was last seen of a key. A gateway that remembers it in a file notices an older copy after
/// its own restart too.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    /// Empty where nothing was.
    revision: String,
    data: String,
    /// That an older copy was found, until that is written.
    #[serde(skip)]
    lost: Option<Lost>,
    /// Where it is remembered.
    #[serde(skip)]
    file: Option<PathBuf>,
}

impl Seen {
    /// What was seen before this process began.
    fn open(file: Option<PathBuf>) -> Result<Self, StateError> {
        let Some(path) = file else {
            return Ok(Self::default());
        };
        let wrong = |why: &dyn fmt::Display| {
            let remedy =
                "remove it, where the store has certainly not come back with an older copy";
            StateError {
                path: path.clone(),
                message: format!("cannot be read: {why}; {remedy}"),
            }
        };
        let mut seen = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| wrong(&error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            Err(error) => return Err(wrong(&error)),
        };
        seen.file = Some(path);
        Ok(seen)
    }

    /// Notes what there is now.
    fn see(&mut self, revision: &str, data: String) {
        let is_other = self.revision != revision;
        (self.revision, self.data, self.lost) = (revision.to_owned(), data, None);
        if let Some(path) = self.file.as_ref().filter(|_| is_other) {
            let written = serde_json::to_vec(self).map_err(|error| error.to_string());
            let written = written
                .and_then(|text| write_for_owner(path, &text).map_err(|error| error.to_string()));
            if let Err(why) = written {
                let path = path.display();
                tracing::warn!(target: "picktools::store", %path, %why, "what was seen of the store is not remembered");
            }
        }
    }
}

/// What a key holds.
#[derive(Clone, Serialize, Deserialize)]
struct Whole<T> {
    version: u32,
    /// The revisions before, the latest last.
    before: Vec<String>,
    #[serde(flatten)]
    holds: T,
}

/// The number of a revision.
fn number_of(revision: &str) -> u64 {
    revision
        .split(':')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

impl<T: Keeps> Stored<T> {
    /// Opens what lies under a name. It is read, so that what is not ours is told at once.
    ///
    /// # Errors
    ///
    /// [`StateError`] when the store does not answer, or what lies there is not ours.
    pub fn open(
        store: &Store,
        purpose: Purpose,
        name: &str,
        version: u32,
    ) -> Result<Self, StateError> {
        let (key, seen) = (store.key(name), Seen::open(store.memory(name)?)?);
        let seen = Arc::new(Mutex::new(seen));
        let stored = Self {
            store: store.clone(),
            purpose,
            key,
            version,
            seen,
            holds: PhantomData,
        };
        stored.read()?;
        Ok(stored)
    }

    fn error(&self, message: impl Into<String>) -> StateError {
        StateError {
            path: self.store.place(&self.key),
            message: message.into(),
        }
    }

    fn failed(&self, failure: &Failure) -> StateError {
        self.error(failure.to_string())
    }

    /// What is under the key is nothing that a gateway wrote.
    fn foreign(&self, why: &dyn fmt::Display) -> StateError {
        let failure = Failure::new(Fault::Foreign, format!("it is not whole ({why})"));
        self.store.note(self.purpose, Some(&failure));
        self.failed(&failure)
    }

    fn read(&self) -> Result<T, StateError> {
        let mut seen = lock(&self.seen);
        let (_, mut whole) = self.fetch(&mut seen)?;
        if let Some(lost) = seen.lost.clone() {
            whole.holds.was_lost(&lost);
            // So that gateways know that were not there. Where it cannot be written, this one knows
            // all the same.
            drop(seen);
            drop(self.change(|_| Ok(())));
        }
        Ok(whole.holds)
    }

    fn revision(&self) -> String {
        let answer = self
            .store
            .ask(self.purpose, &[b"HGET", self.key.as_bytes(), b"revision"]);
        match answer {
            Ok(answer) => answer.text().unwrap_or(NONE).to_owned(),
            Err(_) => lock(&self.seen).revision.clone(),
        }
    }

    /// Reads what there is, and notices where it is an older copy.
    fn fetch(&self, seen: &mut Seen) -> Result<(String, Whole<T>), StateError> {
        let command: [&[u8]; 4] = [b"HMGET", self.key.as_bytes(), b"revision", b"data"];
        let answer = self
            .store
            .ask(self.purpose, &command)
            .map_err(|failure| self.failed(&failure))?;
        let (revision, data, whole) = match answer.parts() {
            [Answer::Nothing, Answer::Nothing] => (
                NONE.to_owned(),
                String::new(),
                Whole {
                    version: self.version,
                    before: Vec::new(),
                    holds: T::default(),
                },
            ),
            [revision, data] => {
                let (Some(revision), Some(data)) = (revision.text(), data.text()) else {
                    return Err(self.foreign(&"it has no revision, or no data"));
                };
                let whole: Whole<T> =
                    serde_json::from_str(data).map_err(|error| self.foreign(&error))?;
                if whole.version != self.version {
                    return Err(self.error(format!(
                        "is of version {}, and this program knows {}; use the program that wrote it",
                        whole.version, self.version
                    )));
                }
                (revision.to_owned(), data.to_owned(), whole)
            }
            _ => return Err(self.foreign(&"it is no hash of ours")),
        };
        let is_known = seen.revision.is_empty()
            || seen.revision == NONE
            || seen.revision == revision
            || whole.before.contains(&seen.revision);
        if !is_known {
            let lost = Lost {
                at: now(),
                known: number_of(&seen.revision),
                found: number_of(&revision),
            };
            self.tell(Some(&lost));
            // What is put aside is what was known before, until it is written.
            seen.lost.get_or_insert(lost);
            return Ok((revision, whole));
        }
        self.tell(whole.holds.lost());
        seen.see(&revision, data);
        Ok((revision, whole))
    }

    /// Tells what was lost and nobody has seen to.
    fn tell(&self, lost: Option<&Lost>) {
        let failure = lost.map(|Lost { known, found, .. }| {
            Failure::new(
                Fault::Older,
                format!(
                    "it came back with an older copy: change {known} was known, and the last that it had was {found}; what was \
                     decided between them is not there, and nothing new is believed"
                ),
            )
        });
        self.store.note(self.purpose, failure.as_ref());
    }

    fn change<U>(
        &self,
        mut change: impl FnMut(&mut T) -> Result<U, String>,
    ) -> Result<(U, String), StateError> {
        for attempt in 0..TRIES {
            let mut seen = lock(&self.seen);
            let (revision, before) = self.fetch(&mut seen)?;
            let mut holds = before.holds.clone();
            if let Some(lost) = &seen.lost {
                holds.was_lost(lost);
            }
            let changed = change(&mut holds).map_err(|message| self.error(message))?;
            if holds == before.holds && seen.lost.is_none() {
                return Ok((changed, revision));
            }
            let lost = holds.lost().cloned();
            let Whole { mut before, .. } = before;
            before.push(revision.clone());
            before.drain(..before.len().saturating_sub(MAX_BEFORE));
            let data = serde_json::to_string(&Whole {
                version: self.version,
                before,
                holds,
            });
            let data = data.map_err(|error| self.error(error.to_string()))?;
            let word = random()
                .map_err(|error| self.error(format!("there are no random numbers: {error}")))?;
            // A number that was known before does not come again.
            let number = number_of(&revision)
                .max(number_of(&seen.revision))
                .saturating_add(1);
            let next = format!("{number}:{}", &word[..WORD]);
            let aside = seen
                .lost
                .as_ref()
                .map(|lost| lost.known.to_string())
                .unwrap_or_default();
            let values: [&[u8]; 5] = [
                revision.as_bytes(),
                next.as_bytes(),
                data.as_bytes(),
                aside.as_bytes(),
                seen.data.as_bytes(),
            ];
            let answer = self.store.run(self.purpose, WRITE, &[&self.key], &values);
            let answer = answer.map_err(|failure| self.failed(&failure))?;
            if answer.text() == Some(&next) {
                seen.see(&next, data);
                self.tell(lost.as_ref());
                return Ok((changed, next));
            }
            drop(seen);
            // Another was quicker.
            std::thread::sleep(Duration::from_millis(
                u64::from(attempt % 8) + u64::from(word.as_bytes()[0] % 8),
            ));
        }
        Err(self.error("others change it all the time; try again"))
    }

    fn aside(&self) -> Result<Option<T>, StateError> {
        let answer = self
            .store
            .ask(self.purpose, &[b"HGET", self.key.as_bytes(), b"aside"]);
        let answer = answer.map_err(|failure| self.failed(&failure))?;
        let Some(data) = answer.text() else {
            return Ok(None);
        };
        let whole: Whole<T> = serde_json::from_str(data).map_err(|error| self.foreign(&error))?;
        Ok(Some(whole.holds))
    }
}
