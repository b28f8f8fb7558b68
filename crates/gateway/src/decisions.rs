//! What operators decide, wherever they do: seen in what gateways share, and noted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use picktools_state::Stamp;
use tokio::time::sleep;

use crate::hub::Hub;
use crate::journal::{Approval, Waiting};
use crate::pins::{Decided, Pins};
use crate::queue::{CallQueue, QueuedCall};

/// How often is looked.
const LOOK: Duration = Duration::from_millis(500);

/// What had been decided when it was last looked at.
pub(crate) struct Decisions {
    pins: Option<Pins>,
    queue: Option<CallQueue>,
    stamps: (Option<Stamp>, Option<Stamp>),
    decided: Decided,
    calls: BTreeMap<String, QueuedCall>,
}

impl Decisions {
    /// What was decided so far, of which nothing is noted.
    pub(crate) fn new(pins: Option<Pins>, queue: Option<CallQueue>) -> Self {
        let mut decisions = Self {
            pins,
            queue,
            stamps: (None, None),
            decided: Decided::default(),
            calls: BTreeMap::new(),
        };
        drop(decisions.look());
        decisions
    }

    /// Looks again and again, and notes what is decided.
    pub(crate) async fn follow(mut self, hub: Arc<Hub>) {
        loop {
            sleep(LOOK).await;
            let looked = tokio::task::spawn_blocking(move || {
                let found = self.look();
                (self, found)
            });
            // Which fails only where it panicked.
            let Ok((again, found)) = looked.await else {
                return;
            };
            self = again;
            found
                .into_iter()
                .for_each(|approval| hub.journal.approved(approval));
        }
    }

    /// What was decided since it was last looked at. A file that cannot be read now is looked at
    /// again.
    fn look(&mut self) -> Vec<Approval> {
        let mut found = Vec::new();
        if let Some(pins) = &self.pins {
            let stamp = Some(pins.stamp());
            if stamp != self.stamps.0
                && let Ok(now) = pins.decided()
            {
                found.extend(of_definitions(&self.decided, &now));
                (self.stamps.0, self.decided) = (stamp, now);
            }
        }
        if let Some(queue) = &self.queue {
            let stamp = Some(queue.stamp());
            if stamp != self.stamps.1
                && let Ok(now) = queue.known()
            {
                found.extend(of_calls(&self.calls, &now));
                (self.stamps.1, self.calls) = (stamp, now);
            }
        }
        found
    }
}

/// What was decided of definitions between one look and the next.
fn of_definitions(before: &Decided, now: &Decided) -> Vec<Approval> {
    let approval = |of, decision| Approval {
        of,
        decision,
        by: None,
    };
    let definition = |id: &String, digest: &String| Waiting::Definition {
        id: id.clone(),
        digest: digest.clone(),
    };
    let mut found = Vec::new();
    // What a store lost nobody has decided.
    if now.has_lost && !before.has_lost {
        return found;
    }
    for (name, seen) in &before.first_seen {
        // One that was forgotten may have been seen for the first time again.
        if now.first_seen.get(name) != Some(seen) {
            found.push(approval(
                Waiting::Server { name: name.clone() },
                "forgotten",
            ));
        }
    }
    for (id, digest) in now.refused.difference(&before.refused) {
        found.push(approval(definition(id, digest), "denied"));
    }
    for (id, digest) in now.approved.difference(&before.approved) {
        found.push(approval(definition(id, digest), "approved"));
    }
    found
}

/// What was decided of calls between one look and the next.
fn of_calls(
    before: &BTreeMap<String, QueuedCall>,
    now: &BTreeMap<String, QueuedCall>,
) -> Vec<Approval> {
    let decided = now.iter().filter(|(id, call)| {
        before
            .get(*id)
            .is_none_or(|before| before.decision != call.decision)
    });
    let approval = |(id, call): (&String, &QueuedCall)| {
        let decision = call.decision.word()?;
        let of = Waiting::Call {
            id: id.clone(),
            tool: call.tool.clone(),
            shown: call.shown.clone(),
        };
        Some(Approval {
            of,
            decision,
            by: None,
        })
    };
    decided.filter_map(approval).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_decided_is_told_once_and_what_a_gateway_does_itself_is_not() {
        let those = |entries: &[(&str, &str)]| {
            entries
                .iter()
                .map(|(id, digest)| ((*id).to_owned(), (*digest).to_owned()))
                .collect()
        };
        let before = Decided {
            refused: those(&[("a/u", "7")]),
            approved: those(&[("a/old", "0")]),
            first_seen: [
                ("a".to_owned(), 5),
                ("b".to_owned(), 6),
                ("c".to_owned(), 7),
            ]
            .into(),
            has_lost: false,
        };
        // x is approved, y and v refused; u was refused before.
        let now = Decided {
            refused: those(&[("a/y", "2"), ("a/v", "6"), ("a/u", "7")]),
            approved: those(&[("a/old", "0"), ("a/x", "1")]),
            first_seen: [
                ("a".to_owned(), 5),
                ("c".to_owned(), 9),
                ("d".to_owned(), 9),
            ]
            .into(),
            has_lost: false,
        };
        let told: Vec<String> = of_definitions(&before, &now)
            .iter()
            .map(|found| format!("{} {:?}", found.decision, found.of))
            .collect();
        assert_eq!(
            told,
            [
                "forgotten Server { name: \"b\" }",
                "forgotten Server { name: \"c\" }",
                "denied Definition { id: \"a/v\", digest: \"6\" }",
                "denied Definition { id: \"a/y\", digest: \"2\" }",
                "approved Definition { id: \"a/x\", digest: \"1\" }",
            ]
        );
        assert!(of_definitions(&now, &now).is_empty());
        let lost = Decided {
            has_lost: true,
            ..Decided::default()
        };
        assert!(
            of_definitions(&now, &lost).is_empty(),
            "nobody has forgotten what a store lost"
        );
    }
}
