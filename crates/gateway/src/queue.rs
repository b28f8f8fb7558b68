//! Calls that may do damage and wait for the operator, where a client cannot ask the person before
//! it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use picktools_call::ValidCall;
use picktools_runtime::told;
use picktools_state::keys::{digest, hex, now, random};
use picktools_state::{Keeps, Lost, Purpose, Shared, SharedFile, Stamp, StateError, Store, Stored};
use serde::{Deserialize, Serialize};

use crate::rounds::identity;
use crate::upstream::Owner;

/// How long a call waits to be decided, and how long a decision holds, in seconds.
const WAITS_S: u64 = 3_600;
const HOLDS_S: u64 = 600;
/// The most that wait.
const MAX_WAITING: usize = 200;
/// The digits of an id.
const ID_DIGITS: usize = 8;

/// The calls that wait for the operator, in a folder or store that gateways share.
#[derive(Debug, Clone)]
pub struct CallQueue {
    calls: Shared<Calls>,
    /// What no other gateway has: the sessions of several, or of one that was started again, have
    /// the same numbers.
    own: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Calls {
    /// By id.
    calls: BTreeMap<String, QueuedCall>,
}

impl Keeps for Calls {
    /// A decision of an older copy may be used up: it would let a call run twice. All are called
    /// anew.
    fn was_lost(&mut self, _lost: &Lost) {
        self.calls.clear();
    }

    fn lost(&self) -> Option<&Lost> {
        None
    }
}

/// A call that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct QueuedCall {
    /// The tool, by its id.
    pub tool: String,
    /// The call as a person reads it, secrets hidden.
    pub shown: String,
    /// What was decided.
    pub decision: Decision,
    /// When it was called or decided, in seconds since 1970.
    pub at: u64,
    /// The digest of gateway, caller, tool and arguments.
    of: String,
}

/// A call that comes.
pub(crate) struct Asked {
    tool: String,
    shown: String,
    of: String,
    is_of_all: bool,
}

/// What the operator said of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// Nothing yet.
    Waits,
    /// It may run once.
    Allowed,
    /// It may not.
    Denied,
}

impl Decision {
    /// What it is called where it is told of; `None` while nothing is decided.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Self::Waits => None,
            Self::Allowed => Some("allowed"),
            Self::Denied => Some("denied"),
        }
    }
}

impl CallQueue {
    /// Opens the queue of a folder.
    ///
    /// # Errors
    ///
    /// [`StateError`] when the folder or file cannot be used.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, StateError> {
        let remedy = "remove it: calls that wait are then called anew";
        let file: SharedFile<Calls> = SharedFile::open(folder.into(), "calls.json", 1, remedy)?;
        let own = random()
            .map_err(|error| file.error(format!("there are no random numbers: {error}")))?;
        Ok(Self {
            calls: Shared::File(file),
            own,
        })
    }

    /// Takes that of a store.
    ///
    /// # Errors
    ///
    /// [`StateError`] when it does not answer, or what is there cannot be read.
    pub fn of(store: &Store) -> Result<Self, StateError> {
        let calls = Shared::Store(Stored::open(store, Purpose::Calls, "calls", 1)?);
        let own = random()
            .map_err(|error| calls.error(format!("there are no random numbers: {error}")))?;
        Ok(Self { calls, own })
    }

    /// Returns the calls that wait, by id.
    ///
    /// # Errors
    ///
    /// [`StateError`] when it cannot be read.
    pub fn waiting(&self) -> Result<BTreeMap<String, QueuedCall>, StateError> {
        let mut calls = self.calls.read()?;
        calls.tidy();
        calls
            .calls
            .retain(|_, call| call.decision == Decision::Waits);
        Ok(calls.calls)
    }

    /// Returns the calls that are known, decided or not, by id.
    pub(crate) fn known(&self) -> Result<BTreeMap<String, QueuedCall>, StateError> {
        Ok(self.calls.read()?.calls)
    }

    /// By what is told that somebody decided something.
    pub(crate) fn stamp(&self) -> Stamp {
        self.calls.stamp()
    }

    /// Decides a call that waits: it may run once, within ten minutes, or not.
    ///
    /// # Errors
    ///
    /// [`StateError`] when it cannot be read or written, or the call does not wait.
    pub fn decide(&self, id: &str, may_run: bool) -> Result<QueuedCall, StateError> {
        self.calls.change(|calls| {
            calls.tidy();
            let call = calls
                .calls
                .get_mut(id)
                .filter(|call| call.decision == Decision::Waits);
            let call = call.ok_or_else(|| {
                format!("no call {id:?} waits; `picktools approve` shows those that do")
            })?;
            call.decision = if may_run {
                Decision::Allowed
            } else {
                Decision::Denied
            };
            call.at = now();
            Ok(call.clone())
        })
    }

    /// What was decided of a call, which is then used up; one that is not known waits from now on.
    /// Returns its id too; `None` where too many wait.
    pub(crate) fn ask(&self, asked: Asked) -> Result<Option<(String, Decision)>, StateError> {
        // Whom all gateways of a store know by the same name may come again at another one.
        let is_of_all = asked.is_of_all && matches!(self.calls, Shared::Store(_));
        let own = if is_of_all { "" } else { &self.own };
        let of = hex(&digest(&format!("{own} {}", asked.of)));
        self.calls.change(|calls| {
            calls.tidy();
            let known = calls.calls.iter().find(|(_, call)| call.of == of);
            if let Some((id, decision)) = known.map(|(id, call)| (id.clone(), call.decision)) {
                if decision != Decision::Waits {
                    calls.calls.remove(&id);
                }
                return Ok(Some((id, decision)));
            }
            if calls.calls.len() >= MAX_WAITING {
                return Ok(None);
            }
            let mut id = random().map_err(|error| error.to_string())?;
            id.truncate(ID_DIGITS);
            let (tool, shown, of) = (asked.tool.clone(), asked.shown.clone(), of.clone());
            let waits = QueuedCall {
                tool,
                shown,
                decision: Decision::Waits,
                at: now(),
                of,
            };
            calls.calls.insert(id.clone(), waits);
            Ok(Some((id, Decision::Waits)))
        })
    }
}

impl Asked {
    pub(crate) fn new(owner: &Owner, call: &ValidCall) -> Self {
        Self {
            tool: call.tool().id.clone(),
            shown: told(call),
            of: hex(&identity(owner, call)),
            is_of_all: owner.is_of_all(),
        }
    }
}

impl Calls {
    fn tidy(&mut self) {
        let now = now();
        self.calls.retain(|_, call| {
            let time = if call.decision == Decision::Waits {
                WAITS_S
            } else {
                HOLDS_S
            };
            now.saturating_sub(call.at) < time
        });
    }
}
