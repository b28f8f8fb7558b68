//! Unsafe calls that are pending approval by the operator, because their client cannot ask a
//! person.

use std::collections::BTreeMap;
use std::path::PathBuf;

use picktools_call::ValidCall;
use picktools_runtime::describe_call;
use picktools_state::keys::{digest, hex, now, random};
use picktools_state::{
    Purpose, SharedFile, SharedState, StateError, StateHandle, StateStamp, StateStore, StoreHash,
    StoreRollback,
};
use serde::{Deserialize, Serialize};

use crate::elicitations::call_identity;
use crate::upstream::Owner;

/// The time that a call stays pending, and the time that a decision stays valid, in seconds.
const PENDING_S: u64 = 3_600;
const VALID_S: u64 = 600;
/// The most calls in the queue.
const MAX_CALLS: usize = 200;
/// The number of digits of an id.
const ID_DIGITS: usize = 8;

/// The calls that are pending approval, in a folder or store that gateways share.
#[derive(Debug, Clone)]
pub struct CallQueue {
    calls: StateHandle<QueueFile>,
    /// A random word of this gateway. It keeps callers apart whose session numbers are equal at
    /// several gateways or after a restart.
    gateway_word: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct QueueFile {
    /// By id.
    calls: BTreeMap<String, QueuedCall>,
}

impl SharedState for QueueFile {
    /// After a rollback a used decision could return and let a call run twice, so all calls are
    /// dropped.
    fn on_rollback(&mut self, _rollback: &StoreRollback) {
        self.calls.clear();
    }

    fn rollback(&self) -> Option<&StoreRollback> {
        None
    }
}

/// A call in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct QueuedCall {
    /// The tool, by its id.
    pub tool: String,
    /// The call in readable form, without secrets.
    pub shown: String,
    /// The decision.
    pub decision: QueueDecision,
    /// The time of the call or of the decision, in seconds since 1970.
    pub at: u64,
    /// The digest of gateway, caller, tool and arguments.
    #[serde(rename = "of")]
    identity: String,
}

/// A call that asks for a decision.
pub(crate) struct CallRequest {
    tool: String,
    shown: String,
    identity: String,
    is_shared: bool,
}

/// The operator's decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QueueDecision {
    /// No decision yet.
    #[serde(rename = "waits")]
    Pending,
    /// The call may run once.
    Allowed,
    /// The call may not run.
    Denied,
}

impl QueueDecision {
    /// Returns the name of the decision in records; `None` while the call is pending.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Pending => None,
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
    /// [`StateError`] if the folder or file cannot be used.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, StateError> {
        let remedy = "remove the file; pending calls must then be sent again";
        let file: SharedFile<QueueFile> = SharedFile::open(folder.into(), "calls.json", 1, remedy)?;
        let gateway_word =
            random().map_err(|error| file.error(format!("no random numbers: {error}")))?;
        Ok(Self {
            calls: StateHandle::File(file),
            gateway_word,
        })
    }

    /// Opens the queue of a store.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the store does not reply or the content cannot be read.
    pub fn from_store(store: &StateStore) -> Result<Self, StateError> {
        let calls = StateHandle::Store(StoreHash::open(store, Purpose::Calls, "calls", 1)?);
        let gateway_word =
            random().map_err(|error| calls.error(format!("no random numbers: {error}")))?;
        Ok(Self {
            calls,
            gateway_word,
        })
    }

    /// Returns the calls that are pending approval, by id.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the queue cannot be read.
    pub fn pending(&self) -> Result<BTreeMap<String, QueuedCall>, StateError> {
        let mut calls = self.calls.read()?;
        calls.tidy();
        calls
            .calls
            .retain(|_, call| call.decision == QueueDecision::Pending);
        Ok(calls.calls)
    }

    /// Returns all calls, decided or not, by id.
    pub(crate) fn all(&self) -> Result<BTreeMap<String, QueuedCall>, StateError> {
        Ok(self.calls.read()?.calls)
    }

    /// Returns a stamp that changes with every decision.
    pub(crate) fn stamp(&self) -> StateStamp {
        self.calls.stamp()
    }

    /// Decides about a pending call: it may run once within ten minutes, or it may not run.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the queue cannot be read or written, or the call is not pending.
    pub fn decide(&self, id: &str, may_run: bool) -> Result<QueuedCall, StateError> {
        self.calls.change(|calls| {
            calls.tidy();
            let call = match calls.calls.get_mut(id) {
                Some(call) if call.decision == QueueDecision::Pending => call,
                _ => {
                    return Err(format!(
                        "no call {id:?} is pending approval; `picktools approve` lists the \
                         pending calls"
                    ));
                }
            };
            call.decision = if may_run {
                QueueDecision::Allowed
            } else {
                QueueDecision::Denied
            };
            call.at = now();
            Ok(call.clone())
        })
    }

    /// Returns the decision about a call with the call's id, and removes the decision, which is
    /// valid once. A new call becomes pending. Returns `None` if the queue is full.
    pub(crate) fn take_decision(
        &self,
        request: CallRequest,
    ) -> Result<Option<(String, QueueDecision)>, StateError> {
        // A caller that all gateways of a store know by the same name may retry at another gateway.
        let is_shared = request.is_shared && matches!(self.calls, StateHandle::Store(_));
        let gateway_word = if is_shared { "" } else { &self.gateway_word };
        let identity = hex(&digest(&format!("{gateway_word} {}", request.identity)));
        self.calls.change(|calls| {
            calls.tidy();
            let existing = calls
                .calls
                .iter()
                .find(|(_, call)| call.identity == identity);
            if let Some((id, call)) = existing {
                let (id, decision) = (id.clone(), call.decision);
                if decision != QueueDecision::Pending {
                    calls.calls.remove(&id);
                }
                return Ok(Some((id, decision)));
            }
            if calls.calls.len() >= MAX_CALLS {
                return Ok(None);
            }
            let mut id = random().map_err(|error| error.to_string())?;
            id.truncate(ID_DIGITS);
            let (tool, shown, identity) = (
                request.tool.clone(),
                request.shown.clone(),
                identity.clone(),
            );
            let pending_call = QueuedCall {
                tool,
                shown,
                decision: QueueDecision::Pending,
                at: now(),
                identity,
            };
            calls.calls.insert(id.clone(), pending_call);
            Ok(Some((id, QueueDecision::Pending)))
        })
    }
}

impl CallRequest {
    pub(crate) fn new(owner: &Owner, call: &ValidCall) -> Self {
        Self {
            tool: call.tool().id.clone(),
            shown: describe_call(call),
            identity: hex(&call_identity(owner, call)),
            is_shared: owner.is_shared(),
        }
    }
}

impl QueueFile {
    fn tidy(&mut self) {
        let now = now();
        self.calls.retain(|_, call| {
            let time = if call.decision == QueueDecision::Pending {
                PENDING_S
            } else {
                VALID_S
            };
            now.saturating_sub(call.at) < time
        });
    }
}
