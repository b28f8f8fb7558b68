//! Decisions of operators, read from the shared state and recorded, wherever they were made.

use std::collections::BTreeMap;
use std::sync::Arc;

use picktools_state::{StateChanges, StateStamp};

use crate::hub::Hub;
use crate::journal::{Approval, ApprovalSubject};
use crate::pins::{PinDecisions, Pins};
use crate::queue::{CallQueue, QueuedCall, RememberedApproval};

/// The decisions that were known at the last check.
pub(crate) struct DecisionWatcher {
    pins: Option<Pins>,
    queue: Option<CallQueue>,
    stamps: (Option<StateStamp>, Option<StateStamp>),
    decided: PinDecisions,
    calls: BTreeMap<String, QueuedCall>,
    remembered: BTreeMap<String, RememberedApproval>,
}

impl DecisionWatcher {
    /// Starts with the decisions so far, which are not recorded.
    pub(crate) fn new(pins: Option<Pins>, queue: Option<CallQueue>) -> Self {
        let mut decisions = Self {
            pins,
            queue,
            stamps: (None, None),
            decided: PinDecisions::default(),
            calls: BTreeMap::new(),
            remembered: BTreeMap::new(),
        };
        drop(decisions.poll());
        decisions
    }

    /// Records new decisions, whenever the state changes.
    pub(crate) async fn follow(mut self, hub: Arc<Hub>, mut changes: StateChanges) {
        loop {
            changes.changed().await;
            let task = tokio::task::spawn_blocking(move || {
                let approvals = self.poll();
                (self, approvals)
            });
            // This fails only after a panic.
            let Ok((watcher, approvals)) = task.await else {
                return;
            };
            self = watcher;
            approvals
                .into_iter()
                .for_each(|approval| hub.journal.record_approval(approval));
        }
    }

    /// Returns the decisions since the last check. State that cannot be read now is read again
    /// later.
    fn poll(&mut self) -> Vec<Approval> {
        let mut approvals = Vec::new();
        if let Some(pins) = &self.pins {
            let stamp = Some(pins.stamp());
            if stamp != self.stamps.0
                && let Ok(current) = pins.decisions()
            {
                approvals.extend(definition_approvals(&self.decided, &current));
                (self.stamps.0, self.decided) = (stamp, current);
            }
        }
        if let Some(queue) = &self.queue {
            let stamp = Some(queue.stamp());
            if stamp != self.stamps.1
                && let (Ok(current), Ok(remembered)) = (queue.all(), queue.remembered())
            {
                approvals.extend(call_approvals(&self.calls, &current));
                approvals.extend(revoked_approvals(&self.remembered, &remembered));
                (self.stamps.1, self.calls, self.remembered) = (stamp, current, remembered);
            }
        }
        approvals
    }
}

/// Returns the decisions about definitions between two checks.
fn definition_approvals(previous: &PinDecisions, current: &PinDecisions) -> Vec<Approval> {
    let approval = |subject, decision| Approval {
        subject,
        decision,
        by: None,
    };
    let definition = |id: &String, digest: &String| ApprovalSubject::Definition {
        id: id.clone(),
        digest: digest.clone(),
    };
    let mut approvals = Vec::new();
    // A rollback of the store is not a decision.
    if current.is_rolled_back && !previous.is_rolled_back {
        return approvals;
    }
    for (name, first_seen) in &previous.first_seen {
        // A forgotten server may have been seen for the first time again.
        if current.first_seen.get(name) != Some(first_seen) {
            approvals.push(approval(
                ApprovalSubject::Server { name: name.clone() },
                "forgotten",
            ));
        }
    }
    for (id, digest) in current.denied.difference(&previous.denied) {
        approvals.push(approval(definition(id, digest), "denied"));
    }
    for (id, digest) in current.approved.difference(&previous.approved) {
        approvals.push(approval(definition(id, digest), "approved"));
    }
    approvals
}

/// Returns the approvals that were revoked between two checks. An approval that another one of the
/// same tool and client replaces was not revoked.
fn revoked_approvals(
    previous: &BTreeMap<String, RememberedApproval>,
    current: &BTreeMap<String, RememberedApproval>,
) -> Vec<Approval> {
    let mut approvals = Vec::new();
    for approval in previous.values() {
        let is_same = |other: &RememberedApproval| {
            other.tool == approval.tool && other.client == approval.client
        };
        if !current.values().any(is_same) {
            let subject = ApprovalSubject::Remembered {
                tool: approval.tool.clone(),
                client: approval.client.clone(),
            };
            approvals.push(Approval {
                subject,
                decision: "revoked",
                by: None,
            });
        }
    }
    approvals
}

/// Returns the decisions about calls between two checks.
fn call_approvals(
    previous: &BTreeMap<String, QueuedCall>,
    current: &BTreeMap<String, QueuedCall>,
) -> Vec<Approval> {
    let mut approvals = Vec::new();
    for (id, call) in current {
        let is_unchanged = previous
            .get(id)
            .is_some_and(|previous| previous.decision == call.decision);
        if is_unchanged {
            continue;
        }
        let Some(decision) = call.decision.name(call.scope) else {
            continue;
        };
        let subject = ApprovalSubject::Call {
            id: id.clone(),
            tool: call.tool.clone(),
            shown: call.shown.clone(),
        };
        approvals.push(Approval {
            subject,
            decision,
            by: None,
        });
    }
    approvals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_decisions_are_reported_once() {
        let entries = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(id, digest)| ((*id).to_owned(), (*digest).to_owned()))
                .collect()
        };
        let previous = PinDecisions {
            denied: entries(&[("a/u", "7")]),
            approved: entries(&[("a/old", "0")]),
            first_seen: [
                ("a".to_owned(), 5),
                ("b".to_owned(), 6),
                ("c".to_owned(), 7),
            ]
            .into(),
            is_rolled_back: false,
        };
        // x is approved; y and v are denied; u was denied before.
        let current = PinDecisions {
            denied: entries(&[("a/y", "2"), ("a/v", "6"), ("a/u", "7")]),
            approved: entries(&[("a/old", "0"), ("a/x", "1")]),
            first_seen: [
                ("a".to_owned(), 5),
                ("c".to_owned(), 9),
                ("d".to_owned(), 9),
            ]
            .into(),
            is_rolled_back: false,
        };
        let descriptions: Vec<String> = definition_approvals(&previous, &current)
            .iter()
            .map(|approval| format!("{} {:?}", approval.decision, approval.subject))
            .collect();
        assert_eq!(
            descriptions,
            [
                "forgotten Server { name: \"b\" }",
                "forgotten Server { name: \"c\" }",
                "denied Definition { id: \"a/v\", digest: \"6\" }",
                "denied Definition { id: \"a/y\", digest: \"2\" }",
                "approved Definition { id: \"a/x\", digest: \"1\" }",
            ]
        );
        assert!(definition_approvals(&current, &current).is_empty());
        let rolled_back = PinDecisions {
            is_rolled_back: true,
            ..PinDecisions::default()
        };
        assert!(
            definition_approvals(&current, &rolled_back).is_empty(),
            "a rollback is not a decision"
        );
    }
}
