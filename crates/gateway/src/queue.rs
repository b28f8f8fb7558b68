//! Unsafe calls that are pending approval by the operator, because their client cannot ask a
//! person.

use std::collections::BTreeMap;
use std::path::PathBuf;

use picktools_call::PendingCall;
use picktools_runtime::describe_call;
use picktools_state::keys::{digest, hex, now, random};
use picktools_state::{
    Purpose, SharedFile, SharedState, StateError, StateHandle, StateLocation, StateStamp,
    StateStore, StoreHash, StoreRollback,
};
use serde::{Deserialize, Serialize};

use crate::elicitations::call_identity;
use crate::fair_shares::largest_holder;
use crate::remembered::{ApprovalScope, ApprovedTool, ClientIdentity};
use crate::upstream::Owner;

/// The time that a call stays pending, and the time that a decision stays valid, in seconds.
pub(crate) const PENDING_S: u64 = 3_600;
pub(crate) const VALID_S: u64 = 600;
/// The most calls in the queue.
const MAX_CALLS: usize = 200;
/// The most approvals that hold always.
const MAX_REMEMBERED: usize = 1_000;
/// The end of the caller's part of an identity.
const HOLDER_END: char = '-';
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
    /// The approvals that hold always, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    remembered: BTreeMap<String, RememberedApproval>,
}

impl SharedState for QueueFile {
    /// After a rollback a used decision could return and let a call run twice, and a revoked approval
    /// could hold again, so all of them are dropped.
    fn on_rollback(&mut self, _rollback: &StoreRollback) {
        self.calls.clear();
        self.remembered.clear();
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
    /// The digest of the caller's key, and that of gateway, caller, tool and arguments.
    #[serde(rename = "of")]
    identity: String,
    /// The calls for which the approval holds, once the call is approved.
    #[serde(default)]
    pub scope: ApprovalScope,
    /// The scopes that an approval may have.
    #[serde(default)]
    pub scopes: Vec<ApprovalScope>,
    /// The client, if approvals for it can be remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The digest of the tool's definition and of its server.
    #[serde(default)]
    definition: String,
}

/// An approval that holds always, for a tool and a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RememberedApproval {
    /// The client: `key NAME` for an API key, `local NAME` for a client on this machine.
    pub client: String,
    /// The tool, by its id.
    pub tool: String,
    /// The time of the approval, in seconds since 1970.
    pub at: u64,
    /// The digest of the tool's definition and of its server.
    definition: String,
}

/// A call that asks for a decision.
pub(crate) struct CallRequest {
    tool: ApprovedTool,
    shown: String,
    /// The digest of the caller's key.
    holder: String,
    identity: String,
    is_shared: bool,
    scopes: Vec<ApprovalScope>,
    client: Option<ClientIdentity>,
}

/// A decision about a pending call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallDecision {
    /// The call may run once within ten minutes, and later calls of the scope without a question.
    Allow(ApprovalScope),
    /// The call may not run.
    Deny,
}

/// A decision that was taken out of the queue, or a call that is pending.
pub(crate) struct TakenDecision {
    /// The id of the call.
    pub(crate) id: String,
    pub(crate) decision: QueueDecision,
    pub(crate) scope: ApprovalScope,
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

impl QueuedCall {
    /// Returns the digest of the caller's key, empty for a call of an earlier version.
    fn holder(&self) -> &str {
        let parts = self.identity.split_once(HOLDER_END);
        parts.map_or("", |(holder, _)| holder)
    }
}

impl QueueDecision {
    /// Returns the name of the decision in records; `None` while the call is pending.
    pub(crate) fn name(self, scope: ApprovalScope) -> Option<&'static str> {
        match self {
            Self::Pending => None,
            Self::Allowed => Some(scope.decision()),
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
        let now = self.calls.now()?;
        let mut calls = self.calls.read()?;
        calls.tidy(now);
        calls
            .calls
            .retain(|_, call| call.decision == QueueDecision::Pending);
        Ok(calls.calls)
    }

    /// Returns all calls, decided or not, by id.
    pub(crate) fn all(&self) -> Result<BTreeMap<String, QueuedCall>, StateError> {
        Ok(self.calls.read()?.calls)
    }

    /// Returns the location, for reports of changes.
    pub(crate) fn location(&self) -> StateLocation {
        self.calls.location()
    }

    /// Returns a stamp that changes with every decision.
    pub(crate) fn stamp(&self) -> StateStamp {
        self.calls.stamp()
    }

    /// Decides about a pending call.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the queue cannot be read or written, the call is not pending, or the
    /// approval cannot have this scope.
    pub fn decide(&self, id: &str, decision: CallDecision) -> Result<QueuedCall, StateError> {
        let now = self.calls.now()?;
        self.calls.change(|calls| {
            calls.tidy(now);
            calls.decide(id, decision, now)
        })
    }

    /// Returns the approvals that hold always, by id.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the queue cannot be read.
    pub fn remembered(&self) -> Result<BTreeMap<String, RememberedApproval>, StateError> {
        Ok(self.calls.read()?.remembered)
    }

    /// Returns `true` if calls of the tool by the client are approved always.
    pub(crate) fn is_remembered(
        &self,
        client: &ClientIdentity,
        tool: &ApprovedTool,
    ) -> Result<bool, StateError> {
        let remembered = self.calls.read()?.remembered;
        Ok(remembered.values().any(|approval| {
            approval.client == *client.0
                && approval.tool == tool.id
                && approval.definition == tool.digest
        }))
    }

    /// Approves calls of the tool by the client always.
    pub(crate) fn remember(
        &self,
        client: &ClientIdentity,
        tool: &ApprovedTool,
    ) -> Result<(), StateError> {
        self.calls.change(|calls| calls.remember(&client.0, tool))
    }

    /// Revokes an approval that holds always.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the queue cannot be read or written, or there is no such approval.
    pub fn revoke(&self, id: &str) -> Result<RememberedApproval, StateError> {
        self.calls.change(|calls| {
            let revoked = calls.remembered.remove(id);
            revoked.ok_or_else(|| {
                format!("no approval {id:?}; `picktools approve --remembered` lists them")
            })
        })
    }

    /// Returns the decision about a call with the call's id, and removes the decision, which is
    /// valid once. A new call becomes pending. Returns `None` if the queue is full.
    pub(crate) fn take_decision(
        &self,
        request: CallRequest,
    ) -> Result<Option<TakenDecision>, StateError> {
        // A caller that all gateways of a store know by the same name may retry at another gateway.
        let is_shared = request.is_shared && matches!(self.calls, StateHandle::Store(_));
        let gateway_word = if is_shared { "" } else { &self.gateway_word };
        let identity = hex(&digest(&format!("{gateway_word} {}", request.identity)));
        let identity = format!("{}{HOLDER_END}{identity}", request.holder);
        let now = self.calls.now()?;
        self.calls.change(|calls| {
            calls.tidy(now);
            let existing = calls
                .calls
                .iter()
                .find(|(_, call)| call.identity == identity);
            if let Some((id, call)) = existing {
                let taken = TakenDecision {
                    id: id.clone(),
                    decision: call.decision,
                    scope: call.scope,
                };
                if taken.decision != QueueDecision::Pending {
                    calls.calls.remove(&taken.id);
                }
                return Ok(Some(taken));
            }
            if calls.calls.len() >= MAX_CALLS && !calls.make_room(&request.holder) {
                return Ok(None);
            }
            let mut id = random().map_err(|error| error.to_string())?;
            id.truncate(ID_DIGITS);
            let pending_call = QueuedCall {
                tool: request.tool.id.clone(),
                shown: request.shown.clone(),
                decision: QueueDecision::Pending,
                at: now,
                identity: identity.clone(),
                scope: ApprovalScope::Call,
                scopes: request.scopes.clone(),
                client: request.client.as_ref().map(|client| client.0.to_string()),
                definition: request.tool.digest.clone(),
            };
            calls.calls.insert(id.clone(), pending_call);
            Ok(Some(TakenDecision {
                id,
                decision: QueueDecision::Pending,
                scope: ApprovalScope::Call,
            }))
        })
    }
}

impl CallRequest {
    pub(crate) fn new(
        owner: &Owner,
        call: &PendingCall,
        tool: &ApprovedTool,
        client: Option<&ClientIdentity>,
    ) -> Self {
        Self {
            tool: tool.clone(),
            shown: describe_call(call.tool(), call.arguments()),
            holder: String::new(),
            identity: hex(&call_identity(owner, call.tool(), call.arguments())),
            is_shared: owner.is_shared(),
            scopes: vec![ApprovalScope::Call],
            client: client.cloned(),
        }
    }

    /// Sets the key of the caller, whose share of the queue the call takes.
    pub(crate) fn with_key(self, key: &str) -> Self {
        let mut holder = hex(&digest(key));
        holder.truncate(ID_DIGITS);
        Self { holder, ..self }
    }

    /// Sets the scopes that an approval may have.
    pub(crate) fn with_scopes(self, scopes: Vec<ApprovalScope>) -> Self {
        Self { scopes, ..self }
    }
}

impl QueueFile {
    fn decide(&mut self, id: &str, decision: CallDecision, now: u64) -> Result<QueuedCall, String> {
        let call = match self.calls.get_mut(id) {
            Some(call) if call.decision == QueueDecision::Pending => call,
            _ => {
                return Err(format!(
                    "no call {id:?} is pending approval; `picktools approve` lists the pending calls"
                ));
            }
        };
        match decision {
            CallDecision::Deny => call.decision = QueueDecision::Denied,
            CallDecision::Allow(scope) => {
                if scope != ApprovalScope::Call && !call.scopes.contains(&scope) {
                    let scopes: Vec<&str> = call.scopes.iter().map(|scope| scope.name()).collect();
                    return Err(format!(
                        "cannot approve the call {id:?}: the scope {:?} is not available; use one of: {}",
                        scope.name(),
                        scopes.join(", ")
                    ));
                }
                (call.decision, call.scope) = (QueueDecision::Allowed, scope);
            }
        }
        call.at = now;
        let call = call.clone();
        if decision == CallDecision::Allow(ApprovalScope::Always)
            && let Some(client) = &call.client
        {
            let tool = ApprovedTool {
                id: call.tool.clone(),
                digest: call.definition.clone(),
            };
            self.remember(client, &tool)?;
        }
        Ok(call)
    }

    /// Adds a permanent approval. It replaces the one for an earlier definition.
    fn remember(&mut self, client: &str, tool: &ApprovedTool) -> Result<(), String> {
        let is_same =
            |approval: &RememberedApproval| approval.client == client && approval.tool == tool.id;
        self.remembered.retain(|_, approval| !is_same(approval));
        if self.remembered.len() >= MAX_REMEMBERED {
            return Err(format!(
                "cannot store the approval: the limit of {MAX_REMEMBERED} permanent approvals is \
                 reached; revoke one with `picktools approve --revoke ID`"
            ));
        }
        let mut id = random().map_err(|error| error.to_string())?;
        id.truncate(ID_DIGITS);
        let approval = RememberedApproval {
            client: client.to_owned(),
            tool: tool.id.clone(),
            at: now(),
            definition: tool.digest.clone(),
        };
        self.remembered.insert(id, approval);
        Ok(())
    }

    /// Removes the oldest pending call of the key that has the most calls, unless that is the key
    /// that needs the room.
    fn make_room(&mut self, holder: &str) -> bool {
        let holders = self.calls.values().map(QueuedCall::holder);
        let Some(largest) = largest_holder(holders, &holder).filter(|&largest| largest != holder)
        else {
            return false;
        };
        let pending = self.calls.iter().filter(|(_, call)| {
            call.holder() == largest && call.decision == QueueDecision::Pending
        });
        let oldest = pending.min_by_key(|(_, call)| call.at);
        let Some(id) = oldest.map(|(id, _)| id.clone()) else {
            return false;
        };
        tracing::warn!(
            target: "picktools::gateway", id,
            "a pending call was removed: its key has the most calls, and the queue is full"
        );
        self.calls.remove(&id).is_some()
    }

    fn tidy(&mut self, now: u64) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn request(key: &str, number: usize) -> CallRequest {
        let request = CallRequest {
            tool: ApprovedTool {
                id: "up/wipe".to_owned(),
                digest: String::new(),
            },
            shown: String::new(),
            holder: String::new(),
            identity: format!("{key} {number}"),
            is_shared: false,
            scopes: vec![ApprovalScope::Call],
            client: None,
        };
        request.with_key(key)
    }

    #[test]
    fn full_queue_has_room_for_a_key_with_fewer_calls() {
        let folder = tempfile::tempdir().expect("a folder");
        let queue = CallQueue::open(folder.path()).expect("a queue");
        for number in 0..MAX_CALLS {
            let taken = queue.take_decision(request("greedy", number));
            assert!(taken.expect("the queue is readable").is_some());
        }
        let more = queue.take_decision(request("greedy", MAX_CALLS));
        assert!(more.expect("the queue is readable").is_none());
        let other = queue.take_decision(request("modest", 0));
        let other = other.expect("the queue is readable").expect("a place");
        let pending = queue.pending().expect("the queue is readable");
        assert_eq!(pending.len(), MAX_CALLS);
        assert!(pending.contains_key(&other.id));
    }
}
